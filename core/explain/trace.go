package explain

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// partial is one partial sum of an element, in the order in which an accumulator or a merge holds them.
type partial struct {
	key  uint64 // of the set of k summed: partial sums over the same products have the same key
	bits uint64
	as   format.Format
	node *plan.Tree // the accumulator, or the sum
	// taken is how many products of the accumulator are in, or how many parts of the sum have been joined.
	taken, before int
}

// same tells whether two partial sums have one value, whatever their formats.
func (p *partial) same(q *partial) bool {
	if p.as == q.as {
		return p.bits == q.bits
	}
	x, y := p.as.Decode(p.bits), q.as.Decode(q.bits)
	if x.Class != y.Class || x.Class != format.NaN && x.Neg != y.Neg {
		return false
	}
	if x.Class != format.Finite {
		return true
	}
	quantum := min(x.Exp, y.Exp)
	return x.Exact().Multiple(quantum, format.TowardZero).Cmp(y.Exact().Multiple(quantum, format.TowardZero)) == 0
}

// keyOf spreads k over 64 bits (splitmix64's finisher). The key of a set is the sum of its members' keys.
func keyOf(k int) uint64 {
	z := (uint64(k) + 1) * 0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// tracer computes one element with the scalar model and keeps every partial sum.
type tracer struct {
	ctx   context.Context
	given *gemm.Args
	args  *gemm.Args // given, with the formats that the step takes once an operand is multiplied
	at    gemm.Position
	// By which A and B are multiplied before the products, and are f32 from then on; 1: they are not.
	scaleA, scaleB float32
	sums           []partial
}

// trace gives every partial sum of the element at; the last is the merged sum. args must be ones that package gemm takes.
func trace(ctx context.Context, args *gemm.Args, at gemm.Position) (sums []partial, err error) {
	tree, err := args.Profile.Plan.Expand(args.A.Columns)
	if err != nil {
		return nil, err
	}
	p, scaled := *args.Profile, *args
	t := tracer{ctx: ctx, given: args, args: &scaled, at: at, scaleA: 1, scaleB: 1}
	scaled.Profile = &p
	switch alpha := float32(args.Alpha); {
	case alpha == 1:
	case p.Epilogue.Form == profile.FormAlphaInA:
		t.scaleA, p.Step.A = alpha, format.F32
	case p.Epilogue.Form == profile.FormAlphaInB:
		t.scaleB, p.Step.B = alpha, format.F32
	}
	if _, _, err := t.walk(tree); err != nil {
		return nil, err
	}
	return t.sums, nil
}

func (t *tracer) note(p partial) { t.sums = append(t.sums, p) }

// walk evaluates a tree and returns the key of its products and its value.
func (t *tracer) walk(tree *plan.Tree) (key uint64, sum value, err error) {
	switch {
	case tree.Serial:
		return t.serial(tree)
	case tree.Leaf():
		return t.chain(tree)
	}
	m := tree.Merge
	for i, child := range tree.Sum {
		k, v, err := t.walk(child)
		if err != nil {
			return 0, value{}, err
		}
		key += k
		if v.as != m.Partial && v.as != format.F64 && v.as != format.S32 {
			v = v.round(m.Partial)
		}
		if i == 0 {
			if m.FromZero && v.as.Decode(v.bits).Class == format.Zero {
				v.bits = 0
			}
			sum = v.round(m.Sum)
		} else {
			sum = sum.add(v, m.Sum)
		}
		now := partial{key, sum.bits, sum.as, tree, i + 1, i}
		if last := &t.sums[len(t.sums)-1]; i > 0 || !now.same(last) { // a first part that stays as it was is nothing new
			t.note(now)
		}
	}
	return key, sum, nil
}

// serial evaluates a chain of slices through the output: what is stored after each slice is what package gemm stores of
// that many.
func (t *tracer) serial(tree *plan.Tree) (key uint64, sum value, err error) {
	out := t.args.D.Format
	for i, child := range tree.Sum {
		k, _, err := t.walk(child)
		if err != nil {
			return 0, value{}, err
		}
		key += k
		p := *t.given.Profile
		p.Plan = plan.Plan{Tree: &plan.Fixed{K: t.args.A.Columns, Partial: true, Root: &plan.Tree{Serial: true, Sum: tree.Sum[:i+1]}}}
		args := *t.given
		args.Profile = &p
		stored, err := gemm.Elements(t.ctx, &args, []gemm.Position{t.at})
		if err != nil {
			return 0, value{}, err
		}
		sum = value{stored[0], out}
		t.note(partial{key, sum.bits, sum.as, tree, i + 1, i})
	}
	return key, sum, nil
}

// chain runs one accumulator, step by step.
func (t *tracer) chain(tree *plan.Tree) (key uint64, sum value, err error) {
	p := &t.args.Profile.Step
	sum = value{p.Result.Zero(false), p.Result}
	a, b := make([]uint64, 0, p.Span()), make([]uint64, 0, p.Span())
	taken := 0
	for _, r := range tree.Chain {
		pad := min(r.Pad, p.Span()) // more zeros do what any number of them does
		for k := r.Start; k < r.Stop || pad > 0; {
			if t.ctx.Err() != nil {
				return 0, value{}, context.Cause(t.ctx)
			}
			a, b = a[:0], b[:0]
			before := taken
			for ; k < r.Stop && len(a) < p.Span(); k += r.Stride() {
				a, b = append(a, t.a(k)), append(b, t.b(k))
				key += keyOf(k)
				taken++
			}
			for ; k >= r.Stop && pad > 0 && len(a) < p.Span(); pad-- {
				a, b = append(a, 0), append(b, 0)
			}
			sum.bits = p.Step(a, b, sum.bits)
			t.note(partial{key, sum.bits, sum.as, tree, taken, before})
		}
	}
	if len(t.sums) == 0 || t.sums[len(t.sums)-1].node != tree { // no products: +0
		t.note(partial{key, sum.bits, sum.as, tree, 0, 0})
	}
	return key, sum, nil
}

func (t *tracer) a(k int) uint64 {
	return scaledBy(t.scaleA, t.operand(t.args.A, t.at.Row, k), t.args.A.Format)
}

func (t *tracer) b(k int) uint64 {
	return scaledBy(t.scaleB, t.operand(t.args.B, k, t.at.Column), t.args.B.Format)
}

// scaledBy multiplies an element in f32, rounded to nearest even; a scale of 1 leaves it as it is.
func scaledBy(scale float32, v uint64, f format.Format) uint64 {
	if scale == 1 {
		return v
	}
	wide := value{v, f}.round(format.F32)
	return uint64(math.Float32bits(float32(scale * math.Float32frombits(uint32(wide.bits)))))
}

// operand reads one element as the step takes it.
func (t *tracer) operand(m *gemm.Matrix, row, column int) uint64 {
	v := m.Bits(t.at.Batch, row, column)
	if p := &t.args.Profile.Step; m.Format == format.F32 && p.TakesF32() {
		return p.Input(uint32(v))
	}
	return v
}

// value is a number by its bits.
type value struct {
	bits uint64
	as   format.Format
}

// round rounds to nearest even into a format; a NaN becomes the canonical one.
func (v value) round(to format.Format) value {
	if v.as == to {
		return v
	}
	return value{to.EncodeNumber(v.as.Decode(v.bits), format.Encoding{}), to}
}

// add is v + w rounded once into a format, as package gemm merges (docs/arithmetic.md): wrapping in s32, and in f64 the
// second operand's NaN wins.
func (v value) add(w value, to format.Format) value {
	x, y := v.as.Decode(v.bits), w.as.Decode(w.bits)
	switch {
	case to == format.S32:
		return value{uint64(uint32(v.bits) + uint32(w.bits)), to}
	case to == format.F64 && y.Class == format.NaN:
		return w
	case to == format.F64 && x.Class == format.NaN:
		return v
	case x.Class == format.NaN || y.Class == format.NaN || x.Class == format.Inf && y.Class == format.Inf && x.Neg != y.Neg:
		return value{to.NaN(), to}
	case x.Class == format.Inf:
		return value{to.Inf(x.Neg), to}
	case y.Class == format.Inf:
		return value{to.Inf(y.Neg), to}
	}
	quantum := min(x.Exp, y.Exp)
	n := new(big.Int).Add(x.Exact().Multiple(quantum, format.TowardZero), y.Exact().Multiple(quantum, format.TowardZero))
	sum := format.Exact{Neg: n.Sign() < 0, Mag: new(big.Int).Abs(n), Exp: quantum}
	if n.Sign() == 0 { // IEEE 754: -0 only of two negative zeros
		sum.Neg = x.Class == format.Zero && y.Class == format.Zero && x.Neg && y.Neg
	}
	return value{to.Encode(sum, format.Encoding{}), to}
}

// String writes the number and its bits: "-0.25 (0xbe800000)".
func (v value) String() string { return fmt.Sprintf("%s (%s)", v.decimal(), v.hexadecimal()) }

func (v value) hexadecimal() string { return fmt.Sprintf("0x%0*x", (v.as.Info().Bits+3)/4, v.bits) }

// decimal writes enough digits to tell the number from its neighbours.
func (v value) decimal() string {
	n := v.as.Decode(v.bits)
	sign := ""
	if n.Neg {
		sign = "-"
	}
	switch n.Class {
	case format.NaN:
		return "NaN"
	case format.Inf:
		return sign + "Inf"
	case format.Zero:
		return sign + "0"
	}
	x := math.Ldexp(float64(n.Sig), n.Exp)
	if n.Neg {
		x = -x
	}
	if v.as == format.F64 || v.as.Info().Integer {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', -1, 32)
}
