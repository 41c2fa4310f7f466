package gemm_test

import (
	"math/big"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// The reference computes single output elements by the definitions: the step's scalar model along the tree the plan
// expands to, then merges and epilogue in exact arithmetic with the roundings written out. It shares no code with package
// gemm, whose paths share merges and epilogue with each other.

// real is a number with its class; zeros and infinities have a sign.
type real struct {
	class format.Class
	neg   bool
	exact format.Exact
	nan   uint64 // an f64 NaN's own pattern
}

func realOf(bits uint64, f format.Format) real {
	n := f.Decode(bits)
	x := real{class: n.Class, neg: n.Neg, exact: n.Exact()}
	if n.Class == format.NaN && f == format.F64 {
		x.nan = bits
	}
	return x
}

var one = realOf(0x3F800000, format.F32)

// fma is a·b + c, exact.
func fma(a, b, c real) real {
	if a.class == format.NaN || b.class == format.NaN || c.class == format.NaN {
		return real{class: format.NaN}
	}
	neg := a.neg != b.neg
	switch {
	case a.class == format.Inf || b.class == format.Inf:
		if a.class == format.Zero || b.class == format.Zero || c.class == format.Inf && c.neg != neg {
			return real{class: format.NaN}
		}
		return real{class: format.Inf, neg: neg}
	case c.class == format.Inf:
		return c
	}
	zero := a.class == format.Zero || b.class == format.Zero
	if zero && c.class == format.Zero {
		return real{class: format.Zero, neg: neg && c.neg}
	}
	sum, exp := new(big.Int), 0
	if !zero {
		sum.Mul(a.exact.Mag, b.exact.Mag)
		exp = a.exact.Exp + b.exact.Exp
		if neg {
			sum.Neg(sum)
		}
	}
	if c.class != format.Zero {
		term := new(big.Int).Set(c.exact.Mag)
		if c.neg {
			term.Neg(term)
		}
		if zero {
			sum, exp = term, c.exact.Exp
		} else {
			low := min(exp, c.exact.Exp)
			sum.Lsh(sum, uint(exp-low))
			sum.Add(sum, term.Lsh(term, uint(c.exact.Exp-low)))
			exp = low
		}
	}
	if sum.Sign() == 0 {
		return real{class: format.Zero}
	}
	return real{class: format.Finite, neg: sum.Sign() < 0, exact: format.Exact{Neg: sum.Sign() < 0, Mag: sum.Abs(sum), Exp: exp}}
}

func product(a, b real) real {
	c := real{class: format.Zero, neg: a.neg != b.neg} // so that a product of zero keeps its sign
	return fma(a, b, c)
}

func sum(a, b real) real { return fma(a, one, b) }

// rounded is x rounded to nearest even to f, and rounded's bits that.
func rounded(x real, f format.Format) real { return realOf(roundedBits(x, f), f) }

func roundedBits(x real, f format.Format) uint64 {
	switch x.class {
	case format.NaN:
		if f == format.F64 && x.nan != 0 {
			return x.nan
		}
		return f.NaN()
	case format.Inf:
		return f.Inf(x.neg)
	case format.Zero:
		return f.Zero(x.neg)
	}
	return f.Encode(x.exact, format.Encoding{})
}

// reference is one output element of a run.
type reference struct {
	args               *gemm.Args
	tree               *plan.Tree
	batch, row, column int // as in D
}

func newReference(a *gemm.Args) *reference {
	tree, err := a.Profile.Plan.Expand(a.A.Columns)
	if err != nil {
		panic(err)
	}
	return &reference{args: a, tree: tree}
}

// element is the output element's bits, and whether which NaN it is may be asked for.
func (r *reference) element(batch, row, column int) (bits uint64, anyNaN bool) {
	r.batch, r.row, r.column = batch, row, column
	acc := r.walk(r.tree)
	return r.epilogue(acc)
}

func (r *reference) operands(k int) (a, b uint64) {
	x, p := r.args, r.args.Profile.Step
	row, column := r.whole()
	a, b = x.A.Bits(r.batch, row, k), x.B.Bits(r.batch, k, column)
	if x.A.Format == format.F32 && p.A == format.TF32 {
		a = p.Input(uint32(a))
	}
	if x.B.Format == format.F32 && p.B == format.TF32 {
		b = p.Input(uint32(b))
	}
	return a, b
}

// whole is the element's place among all rows and columns.
func (r *reference) whole() (row, column int) {
	row, column = r.row, r.column
	if r.args.Rows != nil {
		row = r.args.Rows[row]
	}
	if r.args.Columns != nil {
		column = r.args.Columns[column]
	}
	return row, column
}

func (r *reference) walk(t *plan.Tree) real {
	p := r.args.Profile.Step
	if len(t.Sum) == 0 {
		acc := uint64(0)
		if s := r.args.Start; s != nil {
			acc = s.Bits(r.batch, r.row, r.column)
		}
		for _, span := range t.Chain {
			var a, b []uint64
			for k := span.Start; k < span.Stop; k += max(span.Step, 1) {
				x, y := r.operands(k)
				a, b = append(a, x), append(b, y)
			}
			for range min(span.Pad, 2*p.Span()) { // more change nothing more
				a, b = append(a, 0), append(b, 0)
			}
			acc = p.Dot(a, b, acc)
		}
		return realOf(acc, p.Result)
	}
	if p.Result == format.S32 {
		total := new(big.Int)
		for _, child := range t.Sum {
			x := r.walk(child)
			if x.class == format.Finite {
				n := x.exact.Multiple(0, format.TowardZero)
				total.Add(total, n)
			}
		}
		return realOf(format.S32.Encode(format.Exact{Neg: total.Sign() < 0, Mag: new(big.Int).Abs(total)}, format.Encoding{Overflow: format.Wrap}), format.S32)
	}
	var running real
	for i, child := range t.Sum {
		partial := rounded(r.walk(child), t.Merge.Partial)
		switch {
		case i == 0 && t.Merge.FromZero:
			running = rounded(sum(real{class: format.Zero}, partial), t.Merge.Sum)
			if partial.class == format.NaN {
				running.nan = partial.nan
			}
		case i == 0:
			running = rounded(partial, t.Merge.Sum)
		case t.Merge.Sum == format.F64 && partial.class == format.NaN:
			running = partial // the second operand's NaN wins
		case t.Merge.Sum == format.F64 && running.class == format.NaN:
		default:
			// Sums are kept in f32 registers: an addition rounds to f32, and its result to a narrower sum.
			running = sum(running, partial)
			if t.Merge.Sum != format.F64 {
				running = rounded(running, format.F32)
			}
			running = rounded(running, t.Merge.Sum)
		}
	}
	return running
}

func (r *reference) epilogue(acc real) (bits uint64, anyNaN bool) {
	a, p := r.args, r.args.Profile
	out, wide := a.D.Format, format.F32
	if p.Step.Result == format.S32 {
		return roundedBits(acc, format.S32), false
	}
	if p.Step.Result == format.F64 {
		wide = format.F64
	}
	scalar := func(v float64) real {
		x := realOf(f64bits(v), format.F64)
		return rounded(x, wide)
	}
	row, column := r.whole()
	switch p.Epilogue.Scaling {
	case profile.ScalingTensor:
		both := rounded(product(realOf(f32bits(a.ScaleA[0]), format.F32), realOf(f32bits(a.ScaleB[0]), format.F32)), format.F32)
		acc = rounded(product(acc, both), format.F32)
	case profile.ScalingRow:
		acc = rounded(product(acc, realOf(f32bits(a.ScaleB[column]), format.F32)), format.F32)
		acc = rounded(product(acc, realOf(f32bits(a.ScaleA[row]), format.F32)), format.F32)
	}
	alpha, beta := scalar(a.Alpha), scalar(a.Beta)
	scaled := acc
	if a.Alpha != 1 {
		scaled = rounded(product(alpha, acc), wide)
	}
	if p.Epilogue.Form == profile.FormHalf {
		h := format.F16
		if a.Alpha != 1 {
			acc = rounded(product(rounded(alpha, h), acc), h)
		}
		if a.C != nil {
			acc = rounded(fma(rounded(beta, h), r.addend(row, column), acc), h)
		}
		return roundedBits(acc, out), false
	}
	// Which NaN an f64 epilogue with arithmetic of its own gives is not known.
	anyNaN = wide == format.F64 && (a.C != nil || a.Alpha != 1)
	if a.C == nil {
		return roundedBits(scaled, out), anyNaN
	}
	c := r.addend(row, column)
	switch p.Epilogue.Form {
	case profile.FormRoundThenAdd:
		return roundedBits(rounded(sum(rounded(scaled, out), c), wide), out), anyNaN
	case profile.FormFMAAlpha:
		return roundedBits(rounded(fma(alpha, acc, rounded(product(beta, c), wide)), wide), out), anyNaN
	case profile.FormFMABeta:
		return roundedBits(rounded(fma(beta, c, rounded(product(alpha, acc), wide)), wide), out), anyNaN
	}
	return roundedBits(rounded(sum(acc, c), wide), out), anyNaN
}

func (r *reference) addend(row, column int) real {
	c := r.args.C
	return realOf(c.Bits(r.batch, row, column), c.Format)
}
