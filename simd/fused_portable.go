package simd

import (
	"math"
	"math/bits"
	"unsafe"
)

// fusedPortable is the kernels' twin in plain Go, on panels of the same layout with vectors of 8 lanes. It uses integers
// beyond the products, so that no mode of the host's floating point can change it; a product of normal numbers that is
// exact and normal is the same in every mode.
func fusedPortable(vectors int, c *float32, ldc, rows int, a *byte, lda int, b *byte, groups, group int, k *fusedConstants) bool {
	const lanes, record = 8, 5 * 32
	row := func(r int) []float32 {
		return unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(c), r*ldc)), vectors*lanes)
	}
	for r := range rows {
		for _, x := range row(r) {
			m := math.Float32bits(x) &^ (1 << 31)
			if m != 0 && m-k.low >= k.span {
				return false
			}
		}
	}
	alpha := k.scale - 127<<23 // in an exponent's place
	clamp := int32(k.clamp & 0xFF)
	align := int32(k.align >> 23)
	var largest [32]int32
	var sums [32]int64
	for r := range rows {
		c := row(r)
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
				fields := (*[32]int8)(unsafe.Add(bAt, j*record))
				for i, f := range fields { // byte 4·l+v belongs to lane l of vector v
					largest[i] = max(largest[i], e+int32(f))
				}
			}
			for i, x := range c {
				f := max(largest[i%lanes*4+i/lanes], int32(math.Float32bits(x)>>23&0xFF))
				largest[i%lanes*4+i/lanes] = f
				sums[i] = truncated(math.Float32bits(x), align-f)
			}
			for j := range group {
				x := *(*float32)(unsafe.Add(aAt, j*8))
				values := (*[32]float32)(unsafe.Add(bAt, j*record+32))
				for i := range c {
					p := float32(x * values[i])
					sums[i] += truncated(math.Float32bits(p), align-largest[i%lanes*4+i/lanes])
				}
			}
			for i := range c {
				c[i] = math.Float32frombits(towardZero(sums[i], align-largest[i%lanes*4+i/lanes]) & k.cut)
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

// truncated is the f32 x, zero or normal, times 2^s, cut to an integer.
func truncated(x uint32, s int32) int64 {
	n := int64(x&0x007FFFFF | 0x00800000)
	switch e := int32(x>>23&0xFF) + s - 127 - 23; {
	case x<<1 == 0 || e < -23:
		return 0
	case e < 0:
		n >>= -e
	default:
		n <<= e
	}
	if x>>31 != 0 {
		return -n
	}
	return n
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
