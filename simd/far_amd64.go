package simd

import "unsafe"

func farRun(l Level, half bool, c *float32, ldc, rows int, a *uint32, lda int, b *uint32, groups, group int, k *farConstants) {
	x, y, constants := (*byte)(unsafe.Pointer(a)), (*byte)(unsafe.Pointer(b)), (*uint32)(unsafe.Pointer(k))
	switch {
	case l == AVX512 && half:
		farHalfAVX512(c, ldc, rows, x, lda, y, groups, group, constants)
	case l == AVX512:
		farAVX512(c, ldc, rows, x, lda, y, groups, group, constants)
	case half:
		farHalfAVX2(c, ldc, rows, x, lda, y, groups, group, constants)
	default:
		farAVX2(c, ldc, rows, x, lda, y, groups, group, constants)
	}
}
