package simd

import (
	"math"
	"math/bits"
	"unsafe"
)

// fusedPortable is the kernels' twin in plain Go, on panels of the same layout with vectors of 8 lanes. No mode of the
// host's floating point can change it: its products are exact and its conversions truncate, both of normal numbers or
// zeros, and the rest is integers.
func fusedPortable(vectors int, c *float32, ldc, rows int, a *byte, lda int, b *byte, groups, group int, k *fusedConstants) bool {
	const lanes, record = 8, 5 * 32
	row := func(r int) []float32 {
		return unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(c), r*ldc)), vectors*lanes)
	}
	for r := range rows {
		for _, x := range row(r) {
			m := math.Float32bits(x) &^ (1 << 31)
			if m != 0 && m-k.least >= k.span {
				return false
			}
		}
	}
	alpha := k.scale - 127<<23 // in an exponent's place
	clamp := int32(int8(k.clamp))
	var largest [32]int32
	var scale [32]uint32
	var sums [32]int64
	for r := range rows {
		c := row(r)
		scale, sums := scale[:len(c)], sums[:len(c)]
		for i, x := range c {
			if x != 0 {
				c[i] = math.Float32frombits(math.Float32bits(x) + alpha)
			}
		}
		for g := range groups {
			aAt := unsafe.Add(unsafe.Pointer(a), r*lda+g*group*8)
			bAt := unsafe.Add(unsafe.Pointer(b), g*group*record)
			for i := range largest {
				largest[i] = clamp
			}
			for j := range group {
				e := int32(*(*int8)(unsafe.Add(aAt, j*8+4)))
				for i, f := range (*[32]int8)(unsafe.Add(bAt, j*record)) {
					largest[i] = max(largest[i], e+int32(f))
				}
			}
			for i, x := range c {
				v, l := i/lanes, i%lanes // byte 4·l+v is that of lane l of vector v
				scale[i] = k.align - max(uint32(largest[4*l+v])<<23, math.Float32bits(x)&k.exponent)
				sums[i] = truncated(x, scale[i])
			}
			for j := range group {
				x := *(*float32)(unsafe.Add(aAt, j*8))
				values := (*[32]float32)(unsafe.Add(bAt, j*record+32))[:len(c)]
				for i, y := range values {
					sums[i] += truncated(float32(x*y), scale[i])
				}
			}
			for i := range c {
				c[i] = math.Float32frombits(towardZero(sums[i], int32(scale[i]>>23)) & k.cut)
			}
		}
		for i, x := range c {
			if x != 0 {
				c[i] = math.Float32frombits(math.Float32bits(x) - alpha)
			}
		}
	}
	return true
}

// truncated is x times the power of two that scale adds to its bits, cut to an integer.
func truncated(x float32, scale uint32) int64 {
	return int64(math.Float32frombits(math.Float32bits(x) + scale))
}

// towardZero is n/2^s rounded to an f32, which must be normal or zero.
func towardZero(n int64, s int32) uint32 {
	if n == 0 {
		return 0
	}
	sign := uint32(0)
	if n < 0 {
		sign, n = 1<<31, -n
	}
	length := int32(bits.Len64(uint64(n)))
	if length > 24 {
		n >>= length - 24
	} else {
		n <<= 24 - length
	}
	return sign | uint32(length-1-s+127)<<23 | uint32(n)&0x007FFFFF
}
