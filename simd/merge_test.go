package simd

import (
	"math"
	"testing"
)

func TestAddFloat32(t *testing.T) {
	// Bit patterns of every class, in every pairing, at every length: addition rounds to nearest even and any NaN is the
	// canonical one.
	patterns := []uint32{0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x3F800000, 0xBF800000, 0x3F800001, 0x33800000,
		0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00001, 0xFF812345, 0x7FFFFFFF, 0x4B7FFFFF, 0xCB7FFFFE}
	var x, y []float32
	for _, a := range patterns {
		for _, b := range patterns {
			x, y = append(x, math.Float32frombits(a)), append(y, math.Float32frombits(b))
		}
	}
	for _, level := range Levels() {
		for n := 0; n <= len(x); n++ {
			sum := append([]float32(nil), x...)
			WithDefaultFloats(func() { AddFloat32(level, sum[:n], y[:n]) })
			for i := range sum {
				want := x[i]
				if i < n {
					exact := float64(x[i]) + float64(y[i]) // exact in f64, or so far apart that rounding twice is rounding once
					want = float32(exact)
					if want != want {
						want = math.Float32frombits(0x7FFFFFFF)
					}
				}
				if math.Float32bits(sum[i]) != math.Float32bits(want) {
					t.Fatalf("%v, length %d, element %d: %g + %g = %#x, want %#x", level, n, i, x[i], y[i], math.Float32bits(sum[i]), math.Float32bits(want))
				}
			}
		}
	}
}
