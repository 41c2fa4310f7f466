package format

import "math/bits"

// Decode says what a bit pattern means. Bits beyond the format's width and tf32's padding are ignored.
func (f Format) Decode(pattern uint64) Number {
	i := f.info()
	pattern &= i.mask()
	if i.Integer {
		return decodeInteger(i, pattern)
	}
	if f == E8M0 {
		if pattern == i.NaN {
			return Number{Class: NaN}
		}
		e := int(pattern) - i.Bias
		return Number{Class: Finite, Sig: 1, Exp: e, Exponent: e}
	}
	if i.HasNaN && !i.HasNegativeZero && i.Signed && pattern == i.NaN { // fnuz: the pattern of -0, with no sign of its own
		return Number{Class: NaN}
	}
	var n Number
	if i.Signed {
		n.Neg = pattern&i.sign() != 0
		pattern &^= i.sign()
	}
	n.Exponent = int(pattern>>(i.MantissaBits+i.Padding)) - i.Bias
	n.Sig = pattern >> i.Padding & (1<<i.MantissaBits - 1)
	magnitude := pattern >> i.Padding
	switch {
	case i.HasInf && magnitude == i.Inf>>i.Padding:
		return Number{Class: Inf, Neg: n.Neg}
	case magnitude > i.MaxFinite>>i.Padding:
		return Number{Class: NaN, Neg: n.Neg}
	case n.Exponent < i.MinExponent: // the exponent field is 0
		n.Exponent = i.MinExponent
	default:
		n.Sig |= 1 << i.MantissaBits
	}
	n.Exp = n.Exponent - i.MantissaBits
	if n.Sig != 0 {
		n.Class = Finite
	}
	return n
}

func decodeInteger(i *Info, pattern uint64) Number {
	n := Number{Sig: pattern}
	if i.Signed && pattern&i.sign() != 0 {
		n.Neg, n.Sig = true, -pattern&i.mask()
	}
	if n.Sig != 0 {
		n.Class, n.Exponent = Finite, bits.Len64(n.Sig)-1
	}
	return n
}
