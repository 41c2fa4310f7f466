//go:build !amd64

package simd

// Without assembly every tile is portable and no vector is packed.

func tile32(Level, int, *float32, *float32, *float32, int, int, int) {
	panic("simd: no assembly in this build")
}

func tile64(Level, int, *float64, *float64, *float64, int, int, int, uint64) bool {
	panic("simd: no assembly in this build")
}

func packVectors32(_ Level, _ *Panel32, _ *Source, _, k0, _ int) int { return k0 }

func packVectors64(_ Level, _ *Panel64, _ *Source, _, k0, _ int) int { return k0 }
