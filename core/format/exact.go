package format

import "math/big"

// Exact is the value (-1)^Neg * Mag * 2^Exp, of any size. Mag nil means zero; a zero has a sign.
type Exact struct {
	Neg bool
	Mag *big.Int // never negative
	Exp int
}

// Exact is the value of a zero or finite number.
func (n Number) Exact() Exact {
	return Exact{Neg: n.Neg, Mag: new(big.Int).SetUint64(n.Sig), Exp: n.Exp}
}

// IsZero says whether the value is zero.
func (x Exact) IsZero() bool { return x.Mag == nil || x.Mag.Sign() == 0 }

// Multiple is the integer n for which n * 2^quantum is x rounded to a multiple of 2^quantum.
func (x Exact) Multiple(quantum int, r Rounding) *big.Int {
	if x.IsZero() {
		return new(big.Int)
	}
	n := roundShift(x.Mag, x.Exp-quantum, x.Neg, r)
	if x.Neg {
		n.Neg(n)
	}
	return n
}

// roundShift is magnitude * 2^shift rounded to an integer, as the magnitude of a number of the sign given.
func roundShift(magnitude *big.Int, shift int, negative bool, r Rounding) *big.Int {
	if shift >= 0 {
		return new(big.Int).Lsh(magnitude, uint(shift))
	}
	cut := uint(-shift)
	n := new(big.Int)
	length := uint(magnitude.BitLen())
	if cut < length {
		n.Rsh(magnitude, cut)
	}
	// What is lost lies below, at or above one half of the last place kept.
	lowest := magnitude.TrailingZeroBits()
	lost := lowest < cut
	half := cut <= length && magnitude.Bit(int(cut-1)) == 1
	above := half && lowest < cut-1
	up := false
	switch r {
	case NearestEven, "":
		up = above || half && n.Bit(0) == 1
	case NearestAway:
		up = half
	case Down:
		up = negative && lost
	case Up:
		up = !negative && lost
	case TowardZero:
	default:
		panic("format: unknown rounding " + string(r))
	}
	if up {
		n.Add(n, one)
	}
	return n
}

var one = big.NewInt(1)
