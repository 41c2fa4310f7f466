package format

import "math/big"

// Overflow says what becomes of a value whose magnitude, once rounded, is beyond the largest finite number.
type Overflow string

// The kinds of overflow; the strings are what profile JSON holds.
const (
	// ToInfinity gives Inf whatever the rounding, as tensor cores do toward zero too; a format without infinities gives
	// NaN, one with neither (and an integer) its largest number.
	ToInfinity Overflow = "infinity"
	// Saturate gives the largest finite number.
	Saturate Overflow = "saturate"
	// IEEE is ToInfinity where the rounding leads away from zero and Saturate where it leads toward it.
	IEEE Overflow = "ieee"
	// Wrap keeps an integer's low bits; for the other formats it is ToInfinity.
	Wrap Overflow = "wrap"
)

// Encoding says how an exact value is rounded into a format. The zero value is IEEE 754's default: to nearest even, all
// mantissa bits, overflow to Inf, subnormals and the sign of zero kept.
type Encoding struct {
	Rounding Rounding // "": to nearest even
	// FractionBits is how many bits after the leading one are kept; 0: all the format has. Subnormals are then multiples
	// of 2^(MinExponent-FractionBits).
	FractionBits int
	Overflow     Overflow // "": ToInfinity
	// PositiveZero drops the sign of a result of zero.
	PositiveZero bool
	// Flush makes a result that would be subnormal zero, after rounding.
	Flush bool
}

// Encode rounds x once into f. A negative value in a format without sign becomes its least number, and so does anything
// below 2^-127 in e8m0, which has no zero; a zero there is NaN, as in ml_dtypes.
func (f Format) Encode(x Exact, how Encoding) uint64 {
	i := f.info()
	switch {
	case i.Integer:
		return f.encodeInteger(x, how)
	case !i.HasZero && (x.IsZero() || x.Neg):
		return i.NaN
	case !i.Signed && x.Neg:
		return 0
	case x.IsZero():
		return f.Zero(x.Neg && !how.PositiveZero)
	}
	kept := i.MantissaBits
	if how.FractionBits > 0 && how.FractionBits < kept {
		kept = how.FractionBits
	}
	exponent := x.Exp + x.Mag.BitLen() - 1 // of the leading one
	scale := max(exponent, i.MinExponent)
	significand := roundShift(x.Mag, x.Exp-(scale-kept), x.Neg, how.Rounding).Uint64() // at most 2^(kept+1)
	if significand == 2<<kept {
		significand, scale = 1<<kept, scale+1
	}
	if scale > i.MaxExponent {
		return f.overflow(x.Neg, how)
	}
	if !i.HasZero {
		return uint64(scale + i.Bias) // a value below the least rounds up to it
	}
	var pattern uint64
	subnormal := significand < 1<<kept
	if !subnormal {
		pattern = uint64(scale+i.Bias) << i.MantissaBits
		significand -= 1 << kept
	}
	pattern |= significand << (i.MantissaBits - kept)
	if pattern<<i.Padding > i.MaxFinite { // e4m3 ends inside its last exponent
		return f.overflow(x.Neg, how)
	}
	if pattern == 0 || subnormal && how.Flush {
		return f.Zero(x.Neg && !how.PositiveZero)
	}
	if x.Neg {
		return pattern<<i.Padding | i.sign()
	}
	return pattern << i.Padding
}

// EncodeNumber is Encode for a decoded number of any class: NaN becomes the canonical one, and Inf the format's own, or
// what the overflow says where it has none. An integer format makes 0 of NaN.
func (f Format) EncodeNumber(n Number, how Encoding) uint64 {
	switch n.Class {
	case NaN:
		return f.NaN()
	case Inf:
		if f.info().HasInf {
			return f.Inf(n.Neg)
		}
		return f.overflow(n.Neg, how)
	}
	return f.Encode(n.Exact(), how)
}

func (f Format) overflow(negative bool, how Encoding) uint64 {
	i := f.info()
	toward := how.Rounding == TowardZero || how.Rounding == Down && !negative || how.Rounding == Up && negative
	switch {
	case how.Overflow == Saturate, how.Overflow == IEEE && toward, !i.HasInf && !i.HasNaN:
		return f.MaxFinite(negative)
	case i.HasInf:
		return f.Inf(negative)
	}
	return i.NaN
}

func (f Format) encodeInteger(x Exact, how Encoding) uint64 {
	i := f.info()
	n := x.Multiple(0, how.Rounding)
	if how.Overflow == Wrap {
		return new(big.Int).And(n, new(big.Int).SetUint64(i.mask())).Uint64() // And is two's complement for negatives
	}
	least, most := int64(0), int64(i.MaxFinite)
	if i.Signed {
		least = -most - 1
	}
	switch {
	case n.Cmp(big.NewInt(most)) > 0:
		return uint64(most)
	case n.Cmp(big.NewInt(least)) < 0:
		return uint64(least) & i.mask()
	}
	return uint64(n.Int64()) & i.mask()
}
