package step

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// Dot runs the step over consecutive spans of k (see Span), the last one possibly short, and returns the accumulator after
// them: every step takes the result of the one before as its c. a and b hold bit patterns of p.A and p.B and are of one
// length, c and the answer are bit patterns of p.Result. With no elements the answer is c. p must be valid; a step with
// block scales needs DotScaled.
func (p Params) Dot(a, b []uint64, c uint64) uint64 {
	if len(a) != len(b) {
		panic(fmt.Sprintf("step: operands of %d and %d elements", len(a), len(b)))
	}
	for span := p.Span(); len(a) > 0; {
		n := min(span, len(a))
		c = p.Step(a[:n], b[:n], c)
		a, b = a[n:], b[n:]
	}
	return c
}

// Step runs the step once, over at most Span elements.
func (p Params) Step(a, b []uint64, c uint64) uint64 {
	if len(a) != len(b) || len(a) > p.Span() {
		panic(fmt.Sprintf("step: operands of %d and %d elements, the step takes %d", len(a), len(b), p.Span()))
	}
	switch p.Kind {
	case Integer:
		return p.integer(a, b, c)
	case Converted:
		return p.converted(a, b, c)
	}
	products := p.products(a, b)
	switch p.Kind {
	case Fused:
		for _, members := range p.Groups(len(a)) {
			group := []term{p.term(p.Result, c)}
			for _, k := range members {
				group = append(group, products[k])
			}
			c = p.fused(group)
		}
		return c
	case FMA, Exact:
		if nan, found := p.keptNaN(a, b, c); found {
			return nan
		}
		return p.exact(append(products, p.term(p.Result, c)))
	case CDNA2:
		return p.pairwise(products, p.term(p.Result, c))
	case CDNA3:
		return p.joined(products, p.term(p.Result, c))
	case Scaled:
		panic("step: a scaled step needs its scales: use DotScaled")
	}
	panic("step: unknown kind " + string(p.Kind))
}

// Groups lists the k of every group of a span of n elements. A short span's groups are those of a full one padded with
// zeros, which add nothing.
func (p Params) Groups(n int) [][]int {
	var order []int
	switch p.Order {
	case Consecutive:
		for k := range p.Span() {
			order = append(order, k)
		}
	case Pairs:
		for half := range 2 {
			for k := range p.Span() {
				if k%4/2 == half {
					order = append(order, k)
				}
			}
		}
	default:
		panic("step: unknown order " + string(p.Order))
	}
	var groups [][]int
	for members := range slices.Chunk(order, p.Group) {
		if members = slices.DeleteFunc(members, func(k int) bool { return k >= n }); len(members) > 0 {
			groups = append(groups, members)
		}
	}
	return groups
}

// term is one summand: a product, the accumulator or a partial sum. exponent is the one alignment uses; a product's is the
// sum of its factors' own, so that its magnitude lies in [0, 4) * 2^exponent.
type term struct {
	class format.Class
	format.Exact
	exponent int
}

// term decodes one operand, flushing a subnormal where the step does.
func (p Params) term(f format.Format, pattern uint64) term {
	n := f.Decode(pattern)
	t := term{n.Class, n.Exact(), n.Exponent}
	if p.FlushInputs && n.Class == format.Finite && n.Sig < 1<<f.Info().MantissaBits {
		t.class, t.Mag = format.Zero, new(big.Int)
	}
	return t
}

// products are exact (1: and their significands are not normalised).
func (p Params) products(a, b []uint64) []term {
	products := make([]term, len(a))
	for k := range a {
		products[k] = p.term(p.A, a[k]).times(p.term(p.B, b[k]))
	}
	return products
}

func (x term) times(y term) term {
	z := term{exponent: x.exponent + y.exponent}
	z.Neg = x.Neg != y.Neg
	switch zero := x.class == format.Zero || y.class == format.Zero; {
	case x.class == format.NaN || y.class == format.NaN:
		z.class = format.NaN
	case x.class == format.Inf || y.class == format.Inf:
		z.class = format.Inf
		if zero {
			z.class = format.NaN
		}
	case zero:
		z.class = format.Zero
	default:
		z.class = format.Finite
		z.Mag = new(big.Int).Mul(x.Mag, y.Mag)
		z.Exp = x.Exp + y.Exp
	}
	return z
}

// special is the result where some term is NaN or Inf: NaN for any NaN or for Inf of both signs, else the Inf.
func (p Params) special(terms []term) (result uint64, found bool) {
	var inf [2]bool
	for _, t := range terms {
		switch {
		case t.class == format.NaN:
			return p.nan(), true
		case t.class == format.Inf && t.Neg:
			inf[1] = true
		case t.class == format.Inf:
			inf[0] = true
		}
	}
	if inf[0] && inf[1] {
		return p.nan(), true
	}
	return p.Result.Inf(inf[1]), inf[0] || inf[1]
}

func (p Params) nan() uint64 {
	if p.NaN != 0 {
		return uint64(p.NaN)
	}
	return p.Result.NaN()
}

// keptNaN is the NaN among the operands that the result repeats: the highest mantissa bit set makes it quiet, the sign stays.
// On an H200 the NaN of one operand wins over the accumulator's, and that over the other operand's: the first is B's with
// matrix kernels (cuBLAS, column-major, takes torch's B first), the vector's with gemv and dot (docs/arithmetic.md).
func (p Params) keptNaN(a, b []uint64, c uint64) (nan uint64, found bool) {
	if !p.KeepNaN {
		return 0, false
	}
	order := [][]uint64{{c}, a, b}
	switch p.NaNFirst {
	case OperandA:
		order = [][]uint64{a, {c}, b}
	case OperandB:
		order = [][]uint64{b, {c}, a}
	}
	for _, x := range slices.Concat(order...) {
		if p.Result.Decode(x).Class == format.NaN {
			return x | 1<<(p.Result.Info().MantissaBits-1), true
		}
	}
	return 0, false
}

// round rounds a finite sum to the result, once (4). negativeZeros says that the sum is one of negative zeros alone.
func (p Params) round(sum format.Exact, negativeZeros bool) uint64 {
	how := format.Encoding{Rounding: p.ResultRounding, FractionBits: p.ResultFraction, Overflow: p.Overflow,
		PositiveZero: p.ZeroSign == PositiveZero, Flush: p.FlushOutputs}
	if sum.IsZero() {
		sum.Neg = negativeZeros && p.ZeroSign == IEEEZero
	}
	return p.Result.Encode(sum, how)
}

// total adds terms without rounding.
func total(terms []term) (sum format.Exact, negativeZeros bool) {
	lowest, negativeZeros := 0, true
	for i, t := range terms {
		if i == 0 || t.class == format.Finite && t.Exp < lowest {
			lowest = t.Exp
		}
		negativeZeros = negativeZeros && t.Neg && t.class == format.Zero
	}
	n := new(big.Int)
	for _, t := range terms {
		n.Add(n, t.Multiple(lowest, format.TowardZero)) // exact: lowest divides every term
	}
	return signed(n, lowest), negativeZeros
}

// signed is n * 2^exp.
func signed(n *big.Int, exp int) format.Exact {
	return format.Exact{Neg: n.Sign() < 0, Mag: new(big.Int).Abs(n), Exp: exp}
}
