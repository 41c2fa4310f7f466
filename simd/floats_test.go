package simd

import "testing"

func TestWithDefaultFloats(t *testing.T) {
	if !assembly {
		t.Skip("MXCSR belongs to amd64")
	}
	tiny, half := float32(0x1p-126), float32(0.5)
	WithDefaultFloats(func() {
		for _, host := range []uint32{0x1F80, 0x1F80 | 1<<15, 0x1F80 | 1<<6, 0x1F80 | 1<<13, 0x1F80 | 2<<13, 0x1F80 | 3<<13, 0x9FC0 | 3<<13} {
			writeMXCSR(host)
			var product float32
			WithDefaultFloats(func() { product = float32(tiny * half) })
			after := readMXCSR()
			writeMXCSR(defaultMXCSR)
			if product != 0x1p-127 {
				t.Errorf("MXCSR %#x: a subnormal product became %g inside", host, product)
			}
			if after&^0x3F != host&^0x3F {
				t.Errorf("MXCSR %#x: the thread was left with %#x", host, after)
			}
		}
	})
}
