package step

import "github.com/hawkeye-audit/hawkeye/core/format"

// converted is the f8 mma.sync of Hopper and B200, which have no such unit: the operands become Via (f16, exactly), the
// products are summed by fused steps from a zero accumulator of the format Partial, and C is added last, rounded on its
// own. With an f16 result the partial sums are f16 too, rounded to nearest after every group: sums kept in f32 differ from
// a third of the results recorded on an H100 and a B200.
func (p Params) converted(a, b []uint64, c uint64) uint64 {
	inner := p.inner()
	sum := inner.Step(convert(p.A, p.Via, a), convert(p.B, p.Via, b), 0)
	return p.exact([]term{p.term(p.Partial, sum), p.term(p.Result, c)})
}

// inner is the fused step the products go through.
func (p Params) inner() Params {
	p.Kind, p.A, p.B = Fused, p.Via, p.Via
	p.Result, p.ResultRounding, p.ResultFraction = p.Partial, p.PartialRounding, 0
	p.Via, p.Partial, p.PartialRounding, p.ZeroSign, p.Overflow, p.NaN = 0, 0, "", PositiveZero, "", 0
	return p
}

func convert(from, to format.Format, x []uint64) []uint64 {
	y := make([]uint64, len(x))
	for k := range x {
		y[k] = to.EncodeNumber(from.Decode(x[k]), format.Encoding{})
	}
	return y
}
