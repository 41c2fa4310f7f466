package simd

import "unsafe"

// fusedRun runs a level's kernel; strides count bytes.
func fusedRun(l Level, mode, vectors int, c *float32, ldc, rows int, a *byte, lda int, b *byte, groups, group int, k *fusedConstants) bool {
	switch l {
	case AVX512:
		return fusedAVX512(mode, vectors, c, ldc, rows, a, lda, b, groups, group, &k.scale)
	case AVX2:
		return fusedAVX2(mode, vectors, c, ldc, rows, a, lda, b, groups, group, &k.scale)
	}
	return fusedPortable(vectors, c, ldc, rows, a, lda, b, groups, group, k)
}

// fusedConvertA converts rows of n elements of size bytes into a panel of A.
func fusedConvertA(l Level, size int, dst *byte, dstStride int, src unsafe.Pointer, srcStride, rows, n int, k *fusedConversion) (found fusedFound) {
	from := (*byte)(src)
	switch {
	case l == AVX512 && size == 1:
		fusedConvertA1AVX512(dst, dstStride, from, srcStride, rows, n, &k.sign, &found.largest)
	case l == AVX512 && size == 2:
		fusedConvertA2AVX512(dst, dstStride, from, srcStride, rows, n, &k.sign, &found.largest)
	case l == AVX512:
		fusedConvertA4AVX512(dst, dstStride, from, srcStride, rows, n, &k.sign, &found.largest)
	case l == AVX2 && size == 1:
		fusedConvertA1AVX2(dst, dstStride, from, srcStride, rows, n, &k.sign, &found.largest)
	case l == AVX2 && size == 2:
		fusedConvertA2AVX2(dst, dstStride, from, srcStride, rows, n, &k.sign, &found.largest)
	case l == AVX2:
		fusedConvertA4AVX2(dst, dstStride, from, srcStride, rows, n, &k.sign, &found.largest)
	default:
		fusedConvertAPortable(size, dst, dstStride, src, srcStride, rows, n, k, &found)
	}
	return found
}

// fusedConvertB converts rows of NR elements of size bytes, a row a k, into a panel of B.
func fusedConvertB(l Level, size int, dst *byte, src unsafe.Pointer, srcStride, rows, group int, k *fusedConversion) (found fusedFound) {
	from := (*byte)(src)
	switch {
	case l == AVX512 && size == 1:
		fusedConvertB1AVX512(dst, from, srcStride, rows, group, &k.sign, &found.largest)
	case l == AVX512 && size == 2:
		fusedConvertB2AVX512(dst, from, srcStride, rows, group, &k.sign, &found.largest)
	case l == AVX512:
		fusedConvertB4AVX512(dst, from, srcStride, rows, group, &k.sign, &found.largest)
	case l == AVX2 && size == 1:
		fusedConvertB1AVX2(dst, from, srcStride, rows, group, &k.sign, &found.largest)
	case l == AVX2 && size == 2:
		fusedConvertB2AVX2(dst, from, srcStride, rows, group, &k.sign, &found.largest)
	case l == AVX2:
		fusedConvertB4AVX2(dst, from, srcStride, rows, group, &k.sign, &found.largest)
	default:
		fusedConvertBPortable(size, dst, src, srcStride, rows, group, k, &found)
	}
	return found
}

// fusedLargest is the largest magnitude in rows of n bytes, a multiple of 64, of elements of 2 or 4 bytes.
func fusedLargest(l Level, size int, src unsafe.Pointer, stride, rows, n int, mask uint32) uint32 {
	from := (*byte)(src)
	if size == 2 {
		mask |= mask << 16
	}
	switch {
	case l == AVX512 && size == 2:
		return fusedLargest2AVX512(from, stride, rows, n, mask)
	case l == AVX512:
		return fusedLargest4AVX512(from, stride, rows, n, mask)
	case l == AVX2 && size == 2:
		return fusedLargest2AVX2(from, stride, rows, n, mask)
	case l == AVX2:
		return fusedLargest4AVX2(from, stride, rows, n, mask)
	}
	return fusedLargestPortable(size, src, stride, rows, n, mask)
}

// fusedTranspose transposes rows × columns elements of size bytes in whole blocks of 8×8, and says whether it did.
func fusedTranspose(l Level, size int, dst *byte, dstStride int, src unsafe.Pointer, srcStride, rows, columns int) bool {
	if l == Portable {
		return false
	}
	from := (*byte)(src)
	switch size {
	case 1:
		fusedTranspose1(dst, dstStride, from, srcStride, rows, columns)
	case 2:
		fusedTranspose2(dst, dstStride, from, srcStride, rows, columns)
	case 4:
		fusedTranspose4(dst, dstStride, from, srcStride, rows, columns)
	}
	return true
}
