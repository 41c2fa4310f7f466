package simd

import (
	"math"
	"math/bits"
)

// The canonical NaN of f32 results (docs/arithmetic.md, measured on an H200); x86's own default NaN is another.
const chainNaN32 = 0x7FFFFFFF

// FMA32 is the fused multiply-add a·b + c in f32: exact, then rounded once to nearest even, subnormals kept. Every NaN
// result is 0x7FFFFFFF. It works on the bits alone, so that neither the caller's rounding mode nor flush-to-zero, and
// no fusing compiler, can change a result.
func FMA32(a, b, c float32) float32 {
	return math.Float32frombits(fma32(math.Float32bits(a), math.Float32bits(b), math.Float32bits(c)))
}

func fma32(a, b, c uint32) uint32 {
	const inf = 0xFF << 23
	magA, magB, magC := a&^(1<<31), b&^(1<<31), c&^(1<<31)
	signP, signC := (a^b)>>31, c>>31
	if magA >= inf || magB >= inf || magC >= inf {
		switch {
		case magA > inf || magB > inf || magC > inf:
			return chainNaN32
		case magA < inf && magB < inf:
			return c
		case magA == 0 || magB == 0 || (magC == inf && signC != signP):
			return chainNaN32
		}
		return signP<<31 | inf
	}
	if magA == 0 || magB == 0 {
		if magC == 0 {
			return (signP & signC) << 31 // zeros of both signs sum to +0
		}
		return c
	}
	sigA, expA := significand32(magA)
	sigB, expB := significand32(magB)
	// The sum is s·2^(e-60): the product's leading bit is at 60 or 61 and 14 zeros follow its last.
	s, e, sign := sigA*sigB<<14, expA+expB, signP
	if magC != 0 {
		sigC, expC := significand32(magC)
		t := sigC << 37
		// Bits fall off the addend only from a distance of 38 on, off the product from 15: then the sum loses at most
		// two leading bits to cancellation, and a sticky last bit stays far below the rounding position.
		if d := e - expC; d >= 0 {
			t = shiftSticky(t, uint(d))
		} else {
			s, e = shiftSticky(s, uint(-d)), expC
		}
		switch {
		case signC == signP:
			s += t
		case s > t:
			s -= t
		case s < t:
			s, sign = t-s, signC
		default:
			return 0 // exact cancellation is +0
		}
	}
	shift := bits.LeadingZeros64(s)
	s <<= shift
	e += 3 - shift // now the value is s·2^(e-63), 2^63 <= s
	if e > 127 {
		return sign<<31 | inf
	}
	if e < -126 {
		s, e = shiftSticky(s, uint(-126-e)), -126
	}
	// A carry out of the significand rightly moves into the exponent, up to that of infinity.
	r := uint32(e+126)<<23 + uint32(s>>40)
	if rest := s & (1<<40 - 1); rest > 1<<39 || (rest == 1<<39 && r&1 == 1) {
		r++
	}
	return sign<<31 | r
}

// significand32 gives a nonzero finite magnitude as sig·2^(exp-23) with 2^23 <= sig < 2^24.
func significand32(mag uint32) (sig uint64, exp int) {
	if mag < 1<<23 {
		shift := bits.LeadingZeros32(mag) - 8
		return uint64(mag) << shift, -126 - shift
	}
	return uint64(mag&(1<<23-1) | 1<<23), int(mag>>23) - 127
}

// shiftSticky shifts right and ors what falls off into the last bit.
func shiftSticky(x uint64, n uint) uint64 {
	if n > 63 {
		n, x = 1, min(x, 1)
	}
	r := x >> n
	if r<<n != x {
		r |= 1
	}
	return r
}

// fma64 is math.FMA worked out on the bits alone, for the same reason as FMA32; no NaN's payload survives it.
func fma64(a, b, c float64) float64 {
	const sign64 = 1 << 63
	bitsA, bitsB, bitsC := math.Float64bits(a), math.Float64bits(b), math.Float64bits(c)
	magA, magB, magC := bitsA&^sign64, bitsB&^sign64, bitsC&^sign64
	sign, signC := (bitsA^bitsB)&sign64, bitsC&sign64
	const inf = 0x7FF << 52
	if magA >= inf || magB >= inf || magC >= inf {
		switch {
		case magA > inf || magB > inf || magC > inf:
			return math.NaN()
		case magA < inf && magB < inf:
			return c
		case magA == 0 || magB == 0 || (magC == inf && signC != sign):
			return math.NaN()
		}
		return math.Float64frombits(sign | inf)
	}
	if magA == 0 || magB == 0 {
		if magC == 0 {
			return math.Float64frombits(sign & signC)
		}
		return c
	}
	sigA, expA := significand64(magA)
	sigB, expB := significand64(magB)
	// The sum is (hi, lo)·2^(e-120): the product's leading bit is at 120 or 121 and 16 zeros follow its last, so that
	// what is said of sticky bits in fma32 holds here too.
	hi, lo := bits.Mul64(sigA<<8, sigB<<8)
	e := expA + expB
	if magC != 0 {
		sigC, expC := significand64(magC)
		tHi, tLo := sigC<<4, uint64(0)
		if d := e - expC; d >= 0 {
			tHi, tLo = shiftSticky128(tHi, tLo, uint(d))
		} else {
			hi, lo = shiftSticky128(hi, lo, uint(-d))
			e = expC
		}
		if signC == sign {
			var carry uint64
			lo, carry = bits.Add64(lo, tLo, 0)
			hi, _ = bits.Add64(hi, tHi, carry)
		} else {
			dLo, borrow := bits.Sub64(lo, tLo, 0)
			dHi, negative := bits.Sub64(hi, tHi, borrow)
			if negative != 0 {
				dLo, borrow = bits.Sub64(tLo, lo, 0)
				dHi, _ = bits.Sub64(tHi, hi, borrow)
				sign = signC
			}
			if hi, lo = dHi, dLo; hi|lo == 0 {
				return 0
			}
		}
	}
	if hi == 0 {
		hi, lo, e = lo, 0, e-64
	}
	shift := uint(bits.LeadingZeros64(hi))
	hi, lo = hi<<shift|lo>>(64-shift), lo<<shift
	e += 7 - int(shift) // now the value is (hi, lo)·2^(e-127), its leading bit at 127
	if lo != 0 {
		hi |= 1 // 11 bits are cut from hi, the last only ever tells a tie from what is above it
	}
	if e > 1023 {
		return math.Float64frombits(sign | inf)
	}
	if e < -1022 {
		hi, e = shiftSticky(hi, uint(-1022-e)), -1022
	}
	r := uint64(e+1022)<<52 + hi>>11
	if rest := hi & (1<<11 - 1); rest > 1<<10 || (rest == 1<<10 && r&1 == 1) {
		r++
	}
	return math.Float64frombits(sign | r)
}

// significand64 gives a nonzero finite magnitude as sig·2^(exp-52) with 2^52 <= sig < 2^53.
func significand64(mag uint64) (sig uint64, exp int) {
	if mag < 1<<52 {
		shift := bits.LeadingZeros64(mag) - 11
		return mag << shift, -1022 - shift
	}
	return mag&(1<<52-1) | 1<<52, int(mag>>52) - 1023
}

func shiftSticky128(hi, lo uint64, n uint) (uint64, uint64) {
	switch {
	case n == 0:
		return hi, lo
	case n < 64:
		out := lo << (64 - n)
		lo = hi<<(64-n) | lo>>n
		hi >>= n
		return hi, lo | min(out, 1)
	}
	return 0, shiftSticky(hi, n-64) | min(lo, 1)
}
