//go:build !amd64

package simd

func addFloat32AVX2(*float32, *float32, int) { panic("simd: no assembly on this processor") }
