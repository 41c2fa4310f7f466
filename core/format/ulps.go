package format

import "math"

// Ulps is the distance of two patterns in units in the last place: how many steps from one representable number to the
// next lie between them, Inf being one step past the largest finite one. +0 and -0 are at distance 0 though their bits
// differ, and so are two NaNs; a NaN is math.MaxUint64 away from everything else.
func (f Format) Ulps(x, y uint64) uint64 {
	i := f.info()
	nx, ny := f.Decode(x).Class == NaN, f.Decode(y).Class == NaN
	switch {
	case nx && ny:
		return 0
	case nx || ny:
		return math.MaxUint64
	}
	negx, magx := i.ordinal(x)
	negy, magy := i.ordinal(y)
	switch {
	case negx != negy:
		return magx + magy // at most 2^64 - 2^53: no overflow
	case magx > magy:
		return magx - magy
	}
	return magy - magx
}

// ordinal counts the steps from zero to a pattern.
func (i *Info) ordinal(pattern uint64) (negative bool, steps uint64) {
	pattern &= i.mask()
	negative = i.Signed && pattern&i.sign() != 0
	switch {
	case negative && i.Integer:
		return true, -pattern & i.mask()
	case negative:
		pattern &^= i.sign()
	}
	return negative, pattern >> i.Padding
}
