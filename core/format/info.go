package format

import (
	"fmt"
	"strings"
)

// Info describes a format's layout: from the high end sign (where Signed), exponent and mantissa bits, then Padding bits
// that mean nothing. The layouts are IEEE 754's, the OCP 8-bit (OFP8) and Microscaling (MX) specifications', and for the
// fnuz formats AMD's CDNA3 instruction set guide's.
type Info struct {
	Name string
	// Bits is the width of a pattern, padding included; Bytes is what an element takes in memory (formats narrower than
	// a byte hold one element a byte, in its low bits).
	Bits, Bytes int
	// ExponentBits, MantissaBits and Bias as usual; MinExponent is the exponent of the smallest normal number and of
	// every subnormal one, MaxExponent that of the largest finite one.
	ExponentBits, MantissaBits, Bias, MinExponent, MaxExponent int
	Padding                                                    int
	Signed, Integer, HasInf, HasNaN, HasZero, HasNegativeZero  bool
	// MaxFinite is the pattern of the largest finite number, Inf that of +Inf, NaN the canonical NaN: the one NVIDIA
	// tensor cores and CUDA cores give, 0x7FFF in f16 and bf16 and 0x7FFFFFFF in f32 (measured on an H200,
	// docs/arithmetic.md). In f64 it is 0xFFF8000000000000 (measured on an H200: Inf - Inf and 0 * Inf in a
	// matrix-vector product). The other formats have one NaN, or none of theirs is ever produced.
	MaxFinite, Inf, NaN uint64
}

func float(name string, exponent, mantissa, bias, maxExponent int, maxFinite uint64) Info {
	bits := 1 + exponent + mantissa
	return Info{Name: name, Bits: bits, Bytes: (bits + 7) / 8, ExponentBits: exponent, MantissaBits: mantissa, Bias: bias,
		MinExponent: 1 - bias, MaxExponent: maxExponent, Signed: true, HasZero: true, HasNegativeZero: true, MaxFinite: maxFinite}
}

func (i Info) with(inf, nan uint64) Info {
	i.HasInf, i.HasNaN, i.Inf, i.NaN = inf != 0, nan != 0, inf, nan
	return i
}

func (i Info) fnuz() Info { // the pattern of -0 is the one NaN, and there is no infinity
	i.HasNegativeZero = false
	return i.with(0, 1<<(i.Bits-1))
}

func (i Info) padded(bits int) Info {
	i.Bits, i.Padding, i.Bytes = i.Bits+bits, bits, (i.Bits+bits)/8
	i.MaxFinite, i.Inf, i.NaN = i.MaxFinite<<bits, i.Inf<<bits, i.NaN<<bits
	return i
}

func unsigned(i Info) Info {
	i.Signed, i.HasNegativeZero, i.Bits = false, false, i.Bits-1
	return i
}

func integer(name string, bits int, signed bool, maxFinite uint64) Info {
	return Info{Name: name, Bits: bits, Bytes: bits / 8, Signed: signed, Integer: true, HasZero: true, MaxFinite: maxFinite}
}

var infos = [...]Info{
	F16:      float("f16", 5, 10, 15, 15, 0x7bff).with(0x7c00, 0x7fff),
	BF16:     float("bf16", 8, 7, 127, 127, 0x7f7f).with(0x7f80, 0x7fff),
	TF32:     float("tf32", 8, 10, 127, 127, 0x3fbff).with(0x3fc00, 0x3ffff).padded(13),
	F32:      float("f32", 8, 23, 127, 127, 0x7f7fffff).with(0x7f800000, 0x7fffffff),
	F64:      float("f64", 11, 52, 1023, 1023, 0x7fefffffffffffff).with(0x7ff0000000000000, 0xfff8000000000000),
	E4M3:     float("e4m3", 4, 3, 7, 8, 0x7e).with(0, 0x7f),
	E5M2:     float("e5m2", 5, 2, 15, 15, 0x7b).with(0x7c, 0x7f),
	E4M3FNUZ: float("e4m3fnuz", 4, 3, 8, 7, 0x7f).fnuz(),
	E5M2FNUZ: float("e5m2fnuz", 5, 2, 16, 15, 0x7f).fnuz(),
	E2M1:     float("e2m1", 2, 1, 1, 2, 0x7),
	E3M2:     float("e3m2", 3, 2, 3, 4, 0x1f),
	E2M3:     float("e2m3", 2, 3, 1, 2, 0x1f),
	// A power of two from 2^-127 to 2^127: no sign, no zero, no subnormals.
	E8M0: {Name: "e8m0", Bits: 8, Bytes: 1, ExponentBits: 8, Bias: 127, MinExponent: -127, MaxExponent: 127,
		HasNaN: true, MaxFinite: 0xfe, NaN: 0xff},
	UE4M3: unsigned(float("ue4m3", 4, 3, 7, 8, 0x7e).with(0, 0x7f)),
	S8:    integer("s8", 8, true, 0x7f),
	U8:    integer("u8", 8, false, 0xff),
	S32:   integer("s32", 32, true, 0x7fffffff),
}

// All lists every format, in the order of their numbers.
func All() []Format {
	all := make([]Format, 0, len(infos)-1)
	for f := F16; int(f) < len(infos); f++ {
		all = append(all, f)
	}
	return all
}

// Valid says whether f is one of the formats.
func (f Format) Valid() bool { return f > Invalid && int(f) < len(infos) }

// Info is the description of f, the zero Info for an invalid one.
func (f Format) Info() Info { return *f.info() }

func (f Format) info() *Info {
	if int(f) >= len(infos) {
		f = Invalid
	}
	return &infos[f]
}

// Bytes is the size of one element in memory.
func (f Format) Bytes() int { return f.info().Bytes }

// NaN is the canonical NaN, 0 where the format has none.
func (f Format) NaN() uint64 { return f.info().NaN }

// Inf is the infinity of a sign, 0 where the format has none.
func (f Format) Inf(negative bool) uint64 {
	i := f.info()
	if negative && i.HasInf {
		return i.Inf | i.sign()
	}
	return i.Inf
}

// MaxFinite is the largest finite number of a sign; the smallest one where the format has no negative numbers.
func (f Format) MaxFinite(negative bool) uint64 {
	i := f.info()
	switch {
	case !negative:
		return i.MaxFinite
	case !i.Signed:
		return 0
	case i.Integer:
		return i.sign() // two's complement reaches one further down
	}
	return i.MaxFinite | i.sign()
}

// Zero is the zero of a sign, +0 where the format has no -0.
func (f Format) Zero(negative bool) uint64 {
	if i := f.info(); negative && i.HasNegativeZero {
		return i.sign()
	}
	return 0
}

func (i *Info) sign() uint64 { return 1 << (i.Bits - 1) }
func (i *Info) mask() uint64 { return 1<<i.Bits - 1 } // Bits = 64 shifts out and leaves all ones

// String is the format's name, "invalid" or a number where there is none.
func (f Format) String() string {
	switch {
	case f == Invalid:
		return "invalid"
	case !f.Valid():
		return fmt.Sprintf("format(%d)", uint8(f))
	}
	return f.info().Name
}

// Parse finds a format by its name.
func Parse(name string) (Format, error) {
	known := make([]string, 0, len(infos))
	for _, f := range All() {
		if f.info().Name == name {
			return f, nil
		}
		known = append(known, f.info().Name)
	}
	return Invalid, fmt.Errorf("number format %q is unknown; known are %s", name, strings.Join(known, ", "))
}

// MarshalText makes JSON hold the name.
func (f Format) MarshalText() ([]byte, error) {
	if !f.Valid() {
		return nil, fmt.Errorf("number format %d has no name", uint8(f))
	}
	return []byte(f.info().Name), nil
}

// UnmarshalText is Parse.
func (f *Format) UnmarshalText(text []byte) (err error) {
	*f, err = Parse(string(text))
	return err
}
