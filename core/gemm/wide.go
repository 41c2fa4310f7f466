package gemm

import (
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// The wide path runs a fused step on any operands at all: NaN, Inf, subnormals, exponents at both ends, sums past 31
// bits. It holds terms in 64-bit integers, so it asks that the parameters leave room; other parameters go to the oracle.

// wideElement is a decoded operand: sig·2^(exponent - mantissa bits of its format), exponent being the format's own (the
// minimum for a subnormal). A zero has an exponent below every other sum of two.
type wideElement struct {
	sig      int32 // signed significand
	exponent int16
	class    format.Class
}

const zeroExponent = -12000

// wideFits tells whether the wide path can run p: its terms and their sum must fit in 62 bits, and everything else must
// be the common form of the step.
func wideFits(p *step.Params) bool {
	if p.Kind != step.Fused || p.Group < 1 || !standard(p) {
		return false
	}
	if p.Result != format.F32 && p.Result != format.F16 {
		return false
	}
	// A group of zeros alone would still cut an accumulator of more than F bits, and padding is not run here.
	if p.Fraction < keptFraction(p) {
		return false
	}
	significand := func(f format.Format) bool { return !f.Info().Integer && f.Info().MantissaBits <= 10 }
	// |term| < 4·2^F, G of them and |c| < 2·2^F; before it is cut a product has at most 22 bits and w.left more.
	return significand(p.A) && significand(p.B) && p.Fraction >= 0 && p.Fraction+2+bits.Len(uint(p.Group))+1 < 62
}

// decoder turns bit patterns of one format into wide elements, by a table where the format is small.
type decoder struct {
	table []wideElement
	f     format.Format
}

var decoders sync.Map // format.Format → *decoder

func decoderOf(f format.Format) *decoder {
	if d, ok := decoders.Load(f); ok {
		return d.(*decoder)
	}
	d := &decoder{f: f}
	if width := f.Info().Bits; width <= 16 {
		table := make([]wideElement, 1<<(8*f.Info().Bytes))
		for i := range table {
			table[i] = decodeWide(f, uint64(i))
		}
		d.table = table
	}
	actual, _ := decoders.LoadOrStore(f, d)
	return actual.(*decoder)
}

func (d *decoder) decode(v uint64) wideElement {
	if d.table != nil {
		return d.table[v]
	}
	return decodeWide(d.f, v)
}

func decodeWide(f format.Format, v uint64) wideElement {
	n := f.Decode(v)
	e := wideElement{class: n.Class, exponent: zeroExponent}
	switch n.Class {
	case format.Finite:
		e.sig, e.exponent = int32(n.Sig), int16(n.Exponent)
		if n.Neg {
			e.sig = -e.sig
		}
	case format.Inf:
		e.sig = 1
		if n.Neg {
			e.sig = -1
		}
	}
	return e
}

// wideStrip is a decoded strip: lane l's element i is elements[l*n+i].
type wideStrip struct {
	elements []wideElement
	n        int
	special  []bool // a lane with a NaN or an Inf
	greatest []int  // a lane's greatest exponent
	filled   bool
}

func (s *wideStrip) fill(o *operand, d *decoder, batch, lane, lanes int, p *span) {
	n := p.n
	s.elements = slices.Grow(s.elements[:0], lanes*n)[:lanes*n]
	s.special = slices.Grow(s.special[:0], lanes)[:lanes]
	s.greatest = slices.Grow(s.greatest[:0], lanes)[:lanes]
	s.n, s.filled = n, true
	for l := range lanes {
		s.special[l], s.greatest[l] = false, zeroExponent
		for i := range n {
			e := d.decode(o.bits(batch, lane+l, p.at(i)))
			s.elements[l*n+i] = e
			s.greatest[l] = max(s.greatest[l], int(e.exponent))
			if e.class >= format.Inf {
				s.special[l] = true
			}
		}
	}
}

func (s *wideStrip) lane(l int) ([]wideElement, bool) {
	return s.elements[l*s.n : (l+1)*s.n], s.special[l]
}

// negligible tells whether no product up to that exponent reaches the last place of any alignment: terms are cut to
// multiples of 2^(E-F), and E is never below the floor.
func (w *wideStep) negligible(exponent int) bool {
	return w.floor != math.MinInt32 && exponent+2 <= w.floor-w.fraction
}

// wideStep holds a step's constants in the form the wide path wants.
type wideStep struct {
	group, fraction int
	left            uint // products are shifted up by this before they are cut, so that cutting only ever shifts down
	down            int  // by E - (exponent of the product) + down
	floor           int  // math.MinInt32 for none
	half            bool
	nearest         bool
	kept            int // fraction bits of the result
	minExponent     int // the result format's least normal exponent
	maxExponent     int
}

func newWideStep(p *step.Params) wideStep {
	w := wideStep{group: p.Group, fraction: p.Fraction, floor: math.MinInt32, half: p.Result == format.F16,
		nearest: p.ResultRounding == format.NearestEven, kept: keptFraction(p), minExponent: -126, maxExponent: 127}
	if p.Floor != nil {
		w.floor = *p.Floor
	}
	// A product's lowest bit weighs 2^(e-point); a term's is to weigh 2^(E-F).
	point := p.A.Info().MantissaBits + p.B.Info().MantissaBits
	w.left = uint(max(p.Fraction-point, 0))
	w.down = point + int(w.left) - p.Fraction
	if w.half {
		w.minExponent, w.maxExponent = -14, 15
	}
	return w
}

// chain continues one element's accumulator over a strip in groups from its start. c is the accumulator's value.
func (w *wideStep) chain(a, b []wideElement, special bool, c float32) float32 {
	for len(a) > 0 {
		if c != c {
			return nan32 // and nothing that follows changes that
		}
		n := min(w.group, len(a))
		c = w.step(a[:n], b[:n], special, c)
		a, b = a[n:], b[n:]
	}
	return c
}

func (w *wideStep) step(a, b []wideElement, special bool, c float32) float32 {
	cBits := math.Float32bits(c)
	if special || cBits<<1 >= 0xFF000000 {
		if v, decided := specialSum(a, b, c); decided {
			return v
		}
	}
	// E: the largest exponent among nonzero products and the nonzero accumulator, not below the floor.
	e := 2 * zeroExponent
	b = b[:len(a)]
	for i := range a {
		e = max(e, int(a[i].exponent)+int(b[i].exponent))
	}
	var cSig int64
	var cLSB int
	if cBits<<1 != 0 {
		cSig, cLSB = int64(cBits&0x7FFFFF), -149
		if biased := int(cBits >> 23 & 0xFF); biased > 0 {
			cSig |= 1 << 23
			cLSB = biased - 150
		}
		// The accumulator's own exponent is the one its format gives it: the minimum for a subnormal.
		e = max(e, cLSB+bits.Len64(uint64(cSig))-1, w.minExponent)
		if cBits>>31 != 0 {
			cSig = -cSig
		}
	}
	if e < zeroExponent/2 { // every term is zero
		return 0
	}
	e = max(e, w.floor)
	unit := e - w.fraction // every term becomes a multiple of 2^unit
	var sum int64
	if shift := cLSB - unit; shift >= 0 {
		sum = cSig << uint(shift)
	} else {
		sum = cut(cSig, -shift)
	}
	down := e + w.down
	for i := range a {
		product := int64(a[i].sig) * int64(b[i].sig) << w.left
		sum += cut(product, down-int(a[i].exponent)-int(b[i].exponent))
	}
	return w.round(sum, unit)
}

// cut is v/2^n, n ≥ 0, truncated toward zero; |v| < 2^62. Negative numbers are raised by 2^n-1 first, since a shift
// alone would round them down.
func cut(v int64, n int) int64 {
	shift := uint(min(n, 62))
	return (v + v>>63&(1<<shift-1)) >> shift
}

// round rounds sum·2^unit once to the result format.
func (w *wideStep) round(sum int64, unit int) float32 {
	if sum == 0 {
		return 0
	}
	negative := sum < 0
	magnitude := uint64(sum)
	if negative {
		magnitude = uint64(-sum)
	}
	exponent := max(unit+bits.Len64(magnitude)-1, w.minExponent)
	if drop := exponent - w.kept - unit; drop > 0 {
		if drop > 64 {
			drop = 64
		}
		kept, rest := uint64(0), magnitude
		if drop < 64 {
			kept, rest = magnitude>>uint(drop), magnitude&(1<<uint(drop)-1)
		}
		if w.nearest && drop < 64 {
			if half := uint64(1) << uint(drop-1); rest > half || rest == half && kept&1 == 1 {
				kept++
			}
		}
		magnitude, unit = kept, unit+drop
	}
	if magnitude == 0 {
		return 0 // a sum that rounds to zero gives +0 whatever its sign
	}
	if unit+bits.Len64(magnitude)-1 > w.maxExponent {
		return signed(math.Float32frombits(0x7F800000), negative)
	}
	// At most 25 bits of significance remain, all within f32's range: the product is exact.
	return signed(float32(math.Ldexp(float64(magnitude), unit)), negative)
}

func signed(v float32, negative bool) float32 {
	if negative {
		return -v
	}
	return v
}

// specialSum decides a step with a NaN or an Inf among its terms: any NaN operand, 0·Inf or Inf of both signs gives
// NaN; else Inf wins. Without either it decides nothing.
func specialSum(a, b []wideElement, c float32) (float32, bool) {
	if c != c {
		return nan32, true
	}
	positive, negative := math.IsInf(float64(c), 1), math.IsInf(float64(c), -1)
	for i := range a {
		x, y := a[i], b[i]
		if x.class < format.Inf && y.class < format.Inf {
			continue
		}
		if x.class == format.NaN || y.class == format.NaN || x.class == format.Zero || y.class == format.Zero {
			return nan32, true
		}
		if (x.sig < 0) != (y.sig < 0) {
			negative = true
		} else {
			positive = true
		}
	}
	switch {
	case positive && negative:
		return nan32, true
	case positive || negative:
		return signed(float32(math.Inf(1)), negative), true
	}
	return 0, false
}
