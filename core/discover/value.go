package discover

import (
	"math"
	"math/big"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// power is ±2^e in a format; ok is false where the format does not hold it.
func power(f format.Format, e int, negative bool) (bits uint64, ok bool) {
	x := format.Exact{Neg: negative, Mag: big.NewInt(1), Exp: e}
	bits = f.Encode(x, format.Encoding{})
	n := f.Decode(bits)
	return bits, n.Class == format.Finite && valueOf(f, bits) == math.Ldexp(sign(negative), e)
}

// normal is a normal number about 2^e of a format, with the lowest of some digits.
func normal(f format.Format, digits uint64, e int, negative bool) uint64 {
	i := f.Info()
	bits := digits&(1<<i.MantissaBits-1) | uint64(max(i.Bias+e, 1))<<i.MantissaBits
	if negative {
		bits |= 1 << (i.Bits - i.Padding - 1)
	}
	return bits << i.Padding
}

func sign(negative bool) float64 {
	if negative {
		return -1
	}
	return 1
}

// valueOf is a number as f64, which holds those of every format.
func valueOf(f format.Format, bits uint64) float64 {
	n := f.Decode(bits)
	switch n.Class {
	case format.NaN:
		return math.NaN()
	case format.Inf:
		return sign(n.Neg) * math.Inf(1)
	case format.Zero:
		return sign(n.Neg) * 0
	}
	x := n.Exact()
	v, _ := new(big.Float).SetInt(x.Mag).Float64()
	return sign(x.Neg) * math.Ldexp(v, x.Exp)
}

// reach is the range of exponents that a format's powers of two have; normal leaves subnormal numbers out.
func reach(f format.Format, normal bool) (low, high int) {
	i := f.Info()
	low, high = i.MinExponent, i.MaxExponent
	if !normal {
		low -= i.MantissaBits
	}
	return low, high
}

// sides says how a product ±2^e is made of two factors. In a question of one side, one operand is the same power of two at
// every k and the other makes the difference, so that one call holds as many questions as that operand has rows or columns;
// two sides reach further.
type sides struct {
	both bool
	inA  bool // one side: A makes the difference
	a, b format.Format
	flat int // one side: the exponent of the operand that is the same everywhere
	// low and high bound the exponents of products.
	low, high int
}

func (s *Signature) oneSide(flushed bool) sides {
	x := sides{inA: s.M > s.N, a: s.A, b: s.B}
	vary := s.B
	if x.inA {
		vary = s.A
	}
	x.low, x.high = reach(vary, flushed)
	return x
}

func (s *Signature) twoSides(flushed bool) sides {
	lowA, highA := reach(s.A, flushed)
	lowB, highB := reach(s.B, flushed)
	return sides{both: true, a: s.A, b: s.B, low: lowA + lowB, high: highA + highB}
}

// terms is a question being made: products at k.
type terms struct {
	s    sides
	a, b vector
}

func (x sides) new() *terms {
	t := &terms{s: x}
	if !x.both {
		flatFormat, to := x.a, &t.a
		if x.inA {
			flatFormat, to = x.b, &t.b
		}
		to.fill, _ = power(flatFormat, x.flat, false)
	}
	return t
}

// add makes the product at k ±2^e. Positions must come in ascending order, or sorted is called at the end.
func (t *terms) add(k, e int, negative bool) bool {
	x := &t.s
	if !x.both {
		f, to := x.b, &t.b
		if x.inA {
			f, to = x.a, &t.a
		}
		bits, ok := power(f, e-x.flat, negative)
		to.at = append(to.at, entry{k, bits})
		return ok
	}
	ea := e / 2
	lowA, highA := reach(x.a, false)
	lowB, highB := reach(x.b, false)
	ea = min(max(ea, e-highB, lowA), e-lowB, highA)
	a, okA := power(x.a, ea, negative)
	b, okB := power(x.b, e-ea, false)
	t.a.at, t.b.at = append(t.a.at, entry{k, a}), append(t.b.at, entry{k, b})
	return okA && okB
}

// question sorts the terms.
func (t *terms) question() question {
	byK := func(x, y entry) int { return x.k - y.k }
	slices.SortFunc(t.a.at, byK)
	slices.SortFunc(t.b.at, byK)
	return question{a: t.a, b: t.b}
}
