package gemm_test

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
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
	switch {
	case r.skips():
		return r.epilogue(real{class: format.Zero})
	case !r.tree.Serial:
		return r.epilogue(r.walk(r.tree))
	}
	// The first slice's sum goes through the epilogue, the others are added to the output in the accumulator's type.
	out, wide := r.args.D.Format, r.args.Profile.Step.Result
	for i, slice := range r.tree.Sum {
		acc := r.walk(slice)
		if i == 0 {
			bits, anyNaN = r.epilogue(acc)
			continue
		}
		d := realOf(bits, out)
		if a := r.args.Alpha; a != 1 && !r.args.Profile.Epilogue.Form.InOperand() {
			bits, anyNaN = r.furtherSlice(acc, d), wide == format.F64
			continue
		}
		switch {
		case wide == format.S32:
			bits = uint64(uint32(bits) + uint32(roundedBits(acc, format.S32)))
		case wide == format.F64 && acc.class == format.NaN:
			bits, anyNaN = acc.nan, false // of two NaNs the further slice's
		case wide == format.F64 && d.class == format.NaN:
		default:
			bits = roundedBits(rounded(sum(d, acc), wide), out)
		}
	}
	return bits, anyNaN
}

// skips: alpha is 0, and operands are not read.
func (r *reference) skips() bool {
	a, e := r.args, r.args.Profile.Epilogue
	zero := func(v float64) bool {
		return v == 0 || a.Profile.Step.Result != format.F64 && float32(v) == 0
	}
	return zero(a.Alpha) && a.Start == nil && (a.C == nil || zero(a.Beta) || e.ZeroAlpha == profile.ZeroAlphaSkip || e.ZeroAlpha == profile.ZeroAlphaCopy)
}

// furtherSlice is the epilogue with what is there as the addend and a beta of 1.
func (r *reference) furtherSlice(acc, d real) uint64 {
	a, h := r.args, format.F16
	wide := a.Profile.Step.Result
	alpha := rounded(realOf(f64bits(a.Alpha), format.F64), map[bool]format.Format{true: format.F64, false: format.F32}[wide == format.F64])
	switch a.Profile.Epilogue.Form {
	case profile.FormHalf:
		return roundedBits(rounded(sum(d, rounded(product(rounded(alpha, h), acc), h)), h), a.D.Format)
	case profile.FormHalfAlpha:
		return roundedBits(rounded(fma(rounded(alpha, h), acc, d), h), a.D.Format)
	case profile.FormFMAAlpha:
		return roundedBits(rounded(fma(alpha, acc, d), wide), a.D.Format)
	}
	return roundedBits(rounded(sum(d, rounded(product(alpha, acc), wide)), wide), a.D.Format)
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
	if float32(x.Alpha) != 1 {
		scaled := func(v uint64, f format.Format) uint64 {
			return roundedBits(rounded(product(realOf(f32bits(float32(x.Alpha)), format.F32), realOf(v, f)), format.F32), format.F32)
		}
		switch x.Profile.Epilogue.Form {
		case profile.FormAlphaInA:
			a = scaled(a, p.A)
		case profile.FormAlphaInB:
			b = scaled(b, p.B)
		}
	}
	return a, b
}

// step is the step as it is run: where alpha is multiplied into A, the products are those of f32 elements.
func (r *reference) step() step.Params {
	p := r.args.Profile.Step
	if float32(r.args.Alpha) != 1 {
		switch r.args.Profile.Epilogue.Form {
		case profile.FormAlphaInA:
			p.A = format.F32
		case profile.FormAlphaInB:
			p.B = format.F32
		}
	}
	return p
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
	p := r.step()
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
			running = rounded(sum(running, partial), t.Merge.Sum)
		}
	}
	return running
}

func (r *reference) epilogue(acc real) (bits uint64, anyNaN bool) {
	whole, p := r.args, r.args.Profile
	unread := *whole
	a := &unread
	if float32(a.Beta) == 0 && (p.Step.Result != format.F64 || a.Beta == 0) {
		a.C = nil
	}
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
	zero := realOf(0, wide)
	e := p.Epilogue
	empty := a.A.Columns == 0 && a.Start == nil
	skips := r.skips()
	switch {
	case a.C == nil && (empty || skips):
		return roundedBits(zero, out), false
	case a.C != nil && empty:
		return roundedBits(rounded(product(beta, r.addend(row, column)), wide), out), wide == format.F64
	case skips && e.ZeroAlpha == profile.ZeroAlphaCopy:
		return a.C.Bits(r.batch, row, column), false
	case skips:
		acc = zero
	}
	if e.Form.Product() && !skips {
		x, y := r.operands(0)
		first, second := rounded(product(alpha, realOf(y, p.Step.B)), wide), realOf(x, p.Step.A)
		if e.Form == profile.FormProductA {
			first, second = rounded(product(alpha, realOf(x, p.Step.A)), wide), realOf(y, p.Step.B)
		}
		if a.C == nil {
			return roundedBits(rounded(product(first, second), wide), out), wide == format.F64
		}
		return roundedBits(rounded(fma(first, second, rounded(product(beta, r.addend(row, column)), wide)), wide), out), wide == format.F64
	}
	if e.Form.Product() {
		return roundedBits(rounded(fma(alpha, acc, rounded(product(beta, r.addend(row, column)), wide)), wide), out), wide == format.F64
	}
	if p.Epilogue.Form.InOperand() {
		if a.C == nil {
			return roundedBits(acc, out), false
		}
		return roundedBits(rounded(fma(beta, r.addend(row, column), acc), wide), out), false
	}
	scaled := acc
	switch {
	case a.Alpha != 1 && a.C == nil && e.PlusZero:
		scaled = rounded(fma(alpha, acc, zero), wide)
	case a.Alpha != 1:
		scaled = rounded(product(alpha, acc), wide)
	}
	if p.Epilogue.Form == profile.FormHalfAlpha && a.C != nil {
		h := format.F16
		addend := rounded(product(rounded(beta, h), r.addend(row, column)), h)
		return roundedBits(rounded(fma(rounded(alpha, h), acc, addend), h), out), false
	}
	if p.Epilogue.Form == profile.FormHalf || p.Epilogue.Form == profile.FormHalfAlpha {
		h := format.F16
		switch {
		case a.Alpha != 1 && a.C == nil && e.PlusZero:
			acc = rounded(fma(rounded(alpha, h), acc, zero), h)
		case a.Alpha != 1:
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

// TestHalfEpilogue: h(beta·c + h(alpha·acc)) is rounded once at each h, also where accumulator and addend are f32 and
// their sum needs more bits than f64 has.
func TestHalfEpilogue(t *testing.T) {
	p := load(t, "hopper/f16-f16", plan.SplitK(2, 1, plan.Plain(), format.F32, format.F32), format.F32)
	p.Epilogue.Form = profile.FormHalf
	const n = 4000
	r := rand.New(rand.NewPCG(15, 15))
	ties, addends := make([]uint64, 2*n), make([]uint64, n) // two slices of one k: their sum is an f32
	for i := range n {
		ties[i] = uint64(r.Uint32N(0x7C00)) | uint64(r.Uint32N(2))<<15
		// Half a last place beside it, so that the sum is a midpoint, and an addend that takes it off by a little; or anything.
		half := math.Float32frombits(format.F16ToF32(uint16(ties[i]&0x7C00))) * 0x1p-11
		ties[n+i] = uint64(format.F32ToF16(math.Float32bits(half)))
		addends[i] = f32bits(float32(math.Ldexp(float64(r.IntN(3)-1), -24-r.IntN(100))))
		if r.IntN(4) == 0 {
			addends[i] = uint64(r.Uint32())
		}
	}
	ones := dense(format.F16, []uint64{0x3C00, 0x3C00}, 1, 2)
	args := gemm.Args{Profile: p, A: ones, B: dense(format.F16, ties, 2, n), C: dense(format.F32, addends, 1, n), Alpha: 1, Beta: 1}
	for _, scalars := range [][2]float64{{1, 1}, {1, -1}, {0.5, 3}, {1.0009765625, 0.33325195}, {-65504, 6e-8}} {
		args.Alpha, args.Beta = scalars[0], scalars[1]
		memory := alignedBytes(4 * n)
		args.D = gemm.Dense(memory, format.F32, 1, 1, n)
		if err := gemm.Run(context.Background(), &args); err != nil {
			t.Fatal(err)
		}
		ref := newReference(&args)
		for i, got := range patterns(memory, format.F32) {
			if want, _ := ref.element(0, 0, i); got != want {
				t.Fatalf("alpha %g, beta %g: %#x and an addend of %#x gave %#x, want %#x", args.Alpha, args.Beta, ties[i], addends[i], got, want)
			}
		}
	}
}
