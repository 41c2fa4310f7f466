//go:build !amd64

package simd

func farRun(Level, bool, *float32, int, int, *uint32, int, *uint32, int, int, *farConstants) {
	panic("simd: no assembly on this processor")
}
