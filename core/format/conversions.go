package format

import "math/bits"

// The conversions below take and give bit patterns, round to nearest even where they round, keep subnormals, overflow to
// Inf, and give the canonical NaN of the result's format for every NaN (so that a NaN's payload never passes through, as
// on the GPU).

// F32ToF16 rounds f32 to f16.
func F32ToF16(x uint32) uint16 {
	sign := uint16(x >> 16 & 0x8000)
	switch x &= 0x7fffffff; {
	case x > 0x7f800000:
		return 0x7fff
	case x >= 0x477ff000: // 65520, half way to 2^16, and Inf
		return sign | 0x7c00
	case x >= 0x38800000: // 2^-14: normal; exponent and mantissa are rounded as one number, a carry moves up by itself
		x -= 112 << 23
		return sign | uint16((x+0x0fff+x>>13&1)>>13)
	case x <= 0x33000000: // 2^-25, half of the least subnormal, a tie that goes to zero
		return sign
	}
	cut := 126 - x>>23 // the significand is a multiple of 2^(e-23); subnormals are multiples of 2^-24
	significand := x&0x7fffff | 0x800000
	kept := significand >> cut
	lost, half := significand&(1<<cut-1), uint32(1)<<(cut-1)
	if lost > half || lost == half && kept&1 == 1 {
		kept++
	}
	return sign | uint16(kept)
}

// F16ToF32 is exact.
func F16ToF32(x uint16) uint32 {
	sign := uint32(x&0x8000) << 16
	magnitude := uint32(x & 0x7fff)
	switch {
	case magnitude > 0x7c00:
		return 0x7fffffff
	case magnitude == 0x7c00:
		return sign | 0x7f800000
	case magnitude >= 0x0400:
		return sign | (magnitude<<13 + 112<<23)
	case magnitude == 0:
		return sign
	}
	shift := uint32(bits.LeadingZeros32(magnitude)) - 8 // brings the leading one to bit 23
	return sign | ((126-shift)<<23 + magnitude<<shift&0x7fffff)
}

// F32ToBF16 rounds f32 to bf16.
func F32ToBF16(x uint32) uint16 {
	if x&0x7fffffff > 0x7f800000 {
		return 0x7fff
	}
	return uint16((x + 0x7fff + x>>16&1) >> 16)
}

// BF16ToF32 is exact.
func BF16ToF32(x uint16) uint32 {
	if x&0x7fff > 0x7f80 {
		return 0x7fffffff
	}
	return uint32(x) << 16
}

// F32ToTF32 rounds f32 to tf32, in an f32 word whose low 13 bits are zero. A NaN becomes 0x7FFFE000, except toward zero: that
// is what an instruction does which ignores those bits, and a NaN whose payload lies in them alone becomes Inf (H200). An
// unknown rounding panics.
func F32ToTF32(x uint32, r Rounding) uint32 {
	if x&0x7fffffff > 0x7f800000 && r != TowardZero {
		return 0x7fffe000
	}
	switch r {
	case NearestEven:
		x += 0x0fff + x>>13&1
	case NearestAway:
		x += 0x1000
	case TowardZero:
	case Down:
		x = roundAwayTF32(x, x>>31 == 1)
	case Up:
		x = roundAwayTF32(x, x>>31 == 0)
	default:
		panic("format: unknown rounding " + string(r))
	}
	return x &^ 0x1fff
}

func roundAwayTF32(x uint32, away bool) uint32 {
	if away {
		return x + 0x1fff
	}
	return x
}

// F64ToF32 rounds f64 to f32.
func F64ToF32(x uint64) uint32 {
	sign := uint32(x >> 32 & 0x80000000)
	switch x &= 0x7fffffffffffffff; {
	case x > 0x7ff0000000000000:
		return 0x7fffffff
	case x >= 0x47effffff0000000: // half way between the largest f32 and 2^128
		return sign | 0x7f800000
	case x >= 0x3810000000000000: // 2^-126
		x -= 896 << 52
		return sign | uint32((x+0x0fffffff+x>>29&1)>>29)
	case x <= 0x3690000000000000: // 2^-150
		return sign
	}
	cut := 926 - x>>52 // the significand is a multiple of 2^(e-52); subnormals are multiples of 2^-149
	significand := x&(1<<52-1) | 1<<52
	kept := significand >> cut
	lost, half := significand&(1<<cut-1), uint64(1)<<(cut-1)
	if lost > half || lost == half && kept&1 == 1 {
		kept++
	}
	return sign | uint32(kept)
}

// F32ToF64 is exact.
func F32ToF64(x uint32) uint64 {
	sign := uint64(x&0x80000000) << 32
	magnitude := uint64(x & 0x7fffffff)
	switch {
	case magnitude > 0x7f800000:
		return F64.NaN()
	case magnitude == 0x7f800000:
		return sign | 0x7ff0000000000000
	case magnitude >= 0x00800000:
		return sign | (magnitude<<29 + 896<<52)
	case magnitude == 0:
		return sign
	}
	shift := uint64(bits.LeadingZeros64(magnitude)) - 11 // brings the leading one to bit 52
	return sign | ((926-shift)<<52 + magnitude<<shift&(1<<52-1))
}

var e4m3ToF32, e5m2ToF32 = widen8(E4M3), widen8(E5M2)

func widen8(f Format) (table [256]uint32) {
	for x := range table {
		table[x] = uint32(F32.EncodeNumber(f.Decode(uint64(x)), Encoding{}))
	}
	return table
}

// E4M3ToF32 is exact.
func E4M3ToF32(x uint8) uint32 { return e4m3ToF32[x] }

// E5M2ToF32 is exact.
func E5M2ToF32(x uint8) uint32 { return e5m2ToF32[x] }
