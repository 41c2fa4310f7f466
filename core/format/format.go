package format

import "slices"

// Format names a number format the way the field does.
type Format uint8

// The formats. The numeric values are part of the C ABI (hawkeye_format in include/hawkeye.h): append, never renumber.
const (
	Invalid  Format = 0
	F16      Format = 1
	BF16     Format = 2
	TF32     Format = 3 // stored in 32-bit words, the low 13 bits ignored by decoding
	F32      Format = 4
	F64      Format = 5
	E4M3     Format = 6 // OCP e4m3fn: no infinities
	E5M2     Format = 7
	E4M3FNUZ Format = 8
	E5M2FNUZ Format = 9
	E2M1     Format = 10 // one element a byte in memory, in the low bits
	E3M2     Format = 11 // likewise
	E2M3     Format = 12 // likewise
	E8M0     Format = 13 // a power-of-two scale
	UE4M3    Format = 14 // an unsigned e4m3 scale
	S8       Format = 15
	U8       Format = 16
	S32      Format = 17
)

// Rounding says how an exact value becomes one of a format.
type Rounding string

// The roundings; the strings are what profile JSON holds.
const (
	NearestEven Rounding = "nearest-even"
	NearestAway Rounding = "nearest-away"
	TowardZero  Rounding = "toward-zero"
	Down        Rounding = "down" // toward minus infinity
	Up          Rounding = "up"   // toward plus infinity
)

// Roundings lists them.
func Roundings() []Rounding { return []Rounding{NearestEven, NearestAway, TowardZero, Down, Up} }

// Valid says whether r is one of them.
func (r Rounding) Valid() bool { return slices.Contains(Roundings(), r) }

// Class sorts a decoded number.
type Class uint8

// The classes.
const (
	Zero Class = iota
	Finite
	Inf
	NaN
)

// Number is a decoded element: (-1)^Neg * Sig * 2^Exp exactly, when Class is Finite. Exponent is the format's own
// exponent of the element, before any normalisation: a subnormal keeps the format's minimum exponent, so that
// Sig*2^Exp lies in [0, 2) * 2^Exponent.
type Number struct {
	Class    Class
	Neg      bool
	Sig      uint64
	Exp      int
	Exponent int
}
