//go:build !amd64

package simd

import "unsafe"

func fusedRun(l Level, mode, vectors int, c *float32, ldc, rows int, a *byte, lda int, b *byte, groups, group int, k *fusedConstants) bool {
	return fusedPortable(vectors, c, ldc, rows, a, lda, b, groups, group, k)
}

func fusedConvertA(l Level, size int, dst *byte, dstStride int, src unsafe.Pointer, srcStride, rows, n int, k *fusedConversion) (found fusedFound) {
	fusedConvertAPortable(size, dst, dstStride, src, srcStride, rows, n, k, &found)
	return found
}

func fusedConvertB(l Level, size int, dst *byte, src unsafe.Pointer, srcStride, rows, group int, k *fusedConversion) (found fusedFound) {
	fusedConvertBPortable(size, dst, src, srcStride, rows, group, k, &found)
	return found
}

func fusedLargest(l Level, size int, src unsafe.Pointer, stride, rows, n int, mask uint32) uint32 {
	return fusedLargestPortable(size, src, stride, rows, n, mask)
}

func fusedTranspose(l Level, size int, dst *byte, dstStride int, src unsafe.Pointer, srcStride, rows, columns int) bool {
	return false
}
