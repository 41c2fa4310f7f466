package verify

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// fault is one way in which a multiplication may have gone wrong everywhere: other operands, another profile, another last
// step. It is tried by computing what it gives.
type fault struct {
	kind    DifferenceKind
	text    string
	missing int
	args    *gemm.Args
	// finish turns an element as args computes it into the output's bits; nil: it is them.
	finish func(p gemm.Position, bits uint64) uint64
	// own: where the kernel's names leave a choice, it may as well be the kernel's own arithmetic, and proves nothing wrong.
	own bool
	// twins compute without the fault, in the orders and steps that it brings with it. Where one of them gives the same bits,
	// these are another plan's and not the fault's.
	twins []*gemm.Args
}

// faults lists what may explain an output that the profile does not give, the likelier first.
func (r *replay) faults(c candidate) []fault {
	var list []fault
	add := func(kind DifferenceKind, text string, change func(a *gemm.Args), finish func(gemm.Position, uint64) uint64) *fault {
		a := r.args(c, nil)
		a.Progress = nil
		change(a)
		if a.Profile.Validate() != nil {
			return nil
		}
		list = append(list, fault{kind: kind, text: text, args: a, finish: finish, own: kind == DifferentAddend})
		return &list[len(list)-1]
	}
	list = append(list, r.tails(c)...)
	r.addendFaults(c, add)
	r.roundingFaults(c, add)
	r.operandFaults(c, add)
	r.typeFaults(c, add)
	r.siblingFaults(add)
	return list
}

type adder func(kind DifferenceKind, text string, change func(a *gemm.Args), finish func(gemm.Position, uint64) uint64) *fault

// grains are the units of K whose remainder may be lost. nvjet's split-K loses K mod 64·S (docs/arithmetic.md).
var grains = []int{64, 128, 32, 16, 8, 256, 512}

// tails leave out the last products, in two readings: the plan of the whole K without them, and the plan of the shorter K.
func (r *replay) tails(c candidate) []fault {
	var list []fault
	var seen []int
	try := func(lost int) {
		if lost == 0 || lost == r.k || slices.Contains(seen, lost) {
			return
		}
		seen = append(seen, lost)
		list = append(list, r.tail(c, lost)...)
	}
	try(r.dropped(c.profile))
	for _, grain := range grains {
		try(r.k % grain)
	}
	return list
}

func (r *replay) tail(c candidate, lost int) []fault {
	var list []fault
	kept := r.k - lost
	text := fmt.Sprintf("%d products missing: the output is what comes of leaving out the last %d of K = %d products", lost, lost, r.k)
	if lost == r.dropped(c.profile) {
		text += fmt.Sprintf(", a known fault of cuBLAS: nvjet's split-K kernels leave them out of %d slices", c.profile.Plan.Split.Slices)
	}
	short := r.args(c, nil)
	short.Progress = nil
	a, b := *short.A, *short.B
	a.Columns, b.Rows = kept, kept
	short.A, short.B = &a, &b
	if c.profile.Plan.Tree == nil {
		list = append(list, fault{kind: MissingProducts, text: text, missing: lost, args: short})
	}
	whole, err := c.profile.Plan.Expand(r.k)
	if err != nil || whole.Leaf() {
		return list
	}
	if shorter, err := c.profile.Plan.Expand(kept); err == nil && sameTree(shorter, cutTree(whole, kept)) {
		return list
	}
	left := r.args(c, nil)
	left.Progress = nil
	p := *c.profile
	p.Plan = plan.Plan{Tree: &plan.Fixed{K: r.k, Partial: true, Root: cutTree(whole, kept)}}
	left.Profile = &p
	if p.Validate() == nil {
		list = append(list, fault{kind: MissingProducts, text: text, missing: lost, args: left})
	}
	return list
}

// cutTree is a tree without the products from stop on.
func cutTree(t *plan.Tree, stop int) *plan.Tree {
	cut := *t
	cut.Chain, cut.Sum = nil, nil
	for _, part := range t.Chain {
		part.Stop = min(part.Stop, stop)
		if part.Start < part.Stop {
			cut.Chain = append(cut.Chain, part)
		}
	}
	for _, child := range t.Sum {
		cut.Sum = append(cut.Sum, cutTree(child, stop))
	}
	return &cut
}

// sameTree compares leaves and shape, not merges: both trees come from one plan.
func sameTree(a, b *plan.Tree) bool {
	if len(a.Sum) != len(b.Sum) || !slices.Equal(a.Chain, b.Chain) {
		return false
	}
	for i := range a.Sum {
		if !sameTree(a.Sum[i], b.Sum[i]) {
			return false
		}
	}
	return true
}

// addendFaults round a bias twice for once, or once for twice, or combine alpha and beta in another of the known ways.
func (r *replay) addendFaults(c candidate, add adder) {
	form := c.profile.Epilogue.Form
	if r.c.C == nil || form == profile.FormHalf {
		return
	}
	plain := r.c.Number("alpha", 1) == 1 && r.c.Number("beta", 1) == 1
	texts := map[profile.Form]string{
		profile.FormAdd:          "the addend is added before the one rounding of the output, where the sum was to be rounded first (rounded once, not twice)",
		profile.FormRoundThenAdd: "the sum is rounded to the output's format before the addend is added, and the result again (rounded twice)",
		profile.FormFMAAlpha:     "alpha·sum and beta·c meet as fma(alpha, sum, beta·c)",
		profile.FormFMABeta:      "alpha·sum and beta·c meet as fma(beta, c, alpha·sum)",
	}
	for _, other := range []profile.Form{profile.FormRoundThenAdd, profile.FormAdd, profile.FormFMAAlpha, profile.FormFMABeta} {
		if other == form || other == profile.FormAdd != plain && other != profile.FormRoundThenAdd {
			continue
		}
		add(DifferentAddend, texts[other], func(a *gemm.Args) {
			p := *c.profile
			p.Epilogue.Form = other
			a.Profile = &p
		}, nil)
	}
	add(DifferentAddend, "the addend is left out", func(a *gemm.Args) { a.C = nil }, nil)
}

// roundingFaults round the output in another way, or through another format first.
func (r *replay) roundingFaults(c candidate, add adder) {
	out, p := r.c.Out.Format, c.profile
	if p.Step.Result != format.F32 || p.Plan.Serial != nil {
		return
	}
	raw := func(a *gemm.Args) { // the merged sum itself
		bare := *p
		bare.Epilogue = profile.Epilogue{Out: format.F32, Form: profile.FormAdd}
		a.Profile, a.C, a.D, a.Alpha, a.Beta, a.ScaleA, a.ScaleB = &bare, nil, r.shape(format.F32), 1, 1, nil, nil
	}
	finish := func(inner, last func(float32) uint64) func(gemm.Position, uint64) uint64 {
		return func(at gemm.Position, bits uint64) uint64 {
			return r.finish(&p.Epilogue, at, math.Float32frombits(uint32(bits)), inner, last)
		}
	}
	nearest := func(v float32) uint64 { return narrow(v, out, format.NearestEven) }
	if out == format.F16 || out == format.BF16 {
		for _, mode := range []struct {
			rounding format.Rounding
			text     string
		}{
			{format.TowardZero, "toward zero"}, {format.Down, "down"}, {format.Up, "up"}, {format.NearestAway, "to nearest with ties away from zero"},
		} {
			other := func(v float32) uint64 { return narrow(v, out, mode.rounding) }
			text := fmt.Sprintf("the output is rounded %s, not to nearest even", mode.text)
			add(DifferentRounding, text, raw, finish(other, other))
			if p.Epilogue.Form == profile.FormRoundThenAdd && r.c.C != nil {
				add(DifferentRounding, text, raw, finish(nearest, other))
			}
		}
	}
	for _, via := range []format.Format{format.BF16, format.F16} {
		if via == out {
			continue
		}
		kind, text := DifferentRounding, fmt.Sprintf("the output is rounded twice, to %v first and then to %v", via, out)
		if out == format.F32 {
			kind, text = DifferentType, fmt.Sprintf("the output was computed in %v and widened to f32", via)
		}
		through := func(v float32) uint64 {
			return narrow(math.Float32frombits(widened(narrow(v, via, format.NearestEven), via)), out, format.NearestEven)
		}
		add(kind, text, raw, finish(nearest, through))
	}
}

// finish is the epilogue of an f32 sum with roundings of one's own: inner to the output's format before an addend is added
// to the rounded sum, last at the end. The same steps as package gemm's, for profiles whose accumulator is f32.
func (r *replay) finish(e *profile.Epilogue, at gemm.Position, acc float32, inner, last func(float32) uint64) uint64 {
	switch e.Scaling {
	case profile.ScalingTensor:
		acc = float32(acc * float32(r.operands.ScaleA[0]*r.operands.ScaleB[0]))
	case profile.ScalingRow:
		acc = float32(float32(acc*r.operands.ScaleB[at.Column]) * r.operands.ScaleA[at.Row])
	}
	alpha, beta := float32(r.c.Number("alpha", 1)), float32(r.c.Number("beta", 1))
	if r.operands.C == nil {
		if alpha != 1 {
			acc = float32(alpha * acc)
		}
		return last(acc)
	}
	c := math.Float32frombits(widened(r.operands.C.Bits(at.Batch, at.Row, at.Column), r.operands.C.Format))
	switch e.Form {
	case profile.FormRoundThenAdd:
		if alpha != 1 {
			acc = float32(alpha * acc)
		}
		return last(math.Float32frombits(widened(inner(acc), r.c.Out.Format)) + c)
	case profile.FormFMAAlpha:
		return last(simd.FMA32(alpha, acc, float32(beta*c)))
	case profile.FormFMABeta:
		return last(simd.FMA32(beta, c, float32(alpha*acc)))
	}
	return last(acc + c)
}

// narrow rounds an f32 to a format.
func narrow(v float32, to format.Format, how format.Rounding) uint64 {
	bits := math.Float32bits(v)
	switch {
	case to == format.F32:
		return uint64(bits)
	case how == format.NearestEven && to == format.F16:
		return uint64(format.F32ToF16(bits))
	case how == format.NearestEven && to == format.BF16:
		return uint64(format.F32ToBF16(bits))
	}
	return to.EncodeNumber(format.F32.Decode(uint64(bits)), format.Encoding{Rounding: how, Overflow: format.IEEE})
}

// widened is an element as f32 bits; an f64 is rounded.
func widened(bits uint64, from format.Format) uint32 {
	switch from {
	case format.F16:
		return format.F16ToF32(uint16(bits))
	case format.BF16:
		return format.BF16ToF32(uint16(bits))
	case format.E4M3:
		return format.E4M3ToF32(uint8(bits))
	case format.E5M2:
		return format.E5M2ToF32(uint8(bits))
	case format.F64:
		return format.F64ToF32(bits)
	}
	return uint32(bits)
}

// transposed is a matrix seen the other way round.
func transposed(m *gemm.Matrix) *gemm.Matrix {
	t := *m
	t.Rows, t.Columns, t.RowStride, t.ColumnStride = m.Columns, m.Rows, m.ColumnStride, m.RowStride
	return &t
}

// misread is a dense matrix read in the other layout, rows for columns; nil where there is no other.
func misread(m *gemm.Matrix) *gemm.Matrix {
	t := *m
	switch {
	case m.Rows < 2 || m.Columns < 2:
		return nil
	case m.ColumnStride == 1 && m.RowStride == m.Columns:
		t.RowStride, t.ColumnStride = 1, m.Rows
	case m.RowStride == 1 && m.ColumnStride == m.Rows:
		t.RowStride, t.ColumnStride = m.Columns, 1
	default:
		return nil
	}
	return &t
}

// operandFaults multiply transposed, swapped or misread operands, where the shapes allow it.
func (r *replay) operandFaults(_ candidate, add adder) {
	a, b := r.operands.A, r.operands.B
	ta, tb := transposed(a), transposed(b)
	shaped := func(x, y *gemm.Matrix) bool {
		return x.Rows == r.m && x.Columns == y.Rows && y.Columns == r.n && x.Columns == r.k
	}
	use := func(text string, x, y *gemm.Matrix) {
		if x == nil || y == nil || !shaped(x, y) || x.Format != a.Format || y.Format != b.Format {
			return
		}
		add(DifferentOperands, text, func(args *gemm.Args) { args.A, args.B = x, y }, nil)
	}
	use("A is transposed", ta, b)
	use("B is transposed", a, tb)
	use("the operands are swapped: B·A", b, a)
	use("A and B are both transposed", ta, tb)
	// (A·B)ᵀ = Bᵀ·Aᵀ
	use("the output is transposed: (A·B)ᵀ", tb, ta)
	use("the operands are swapped and one is transposed: Bᵀ·A", tb, a)
	use("the operands are swapped and one is transposed: B·Aᵀ", b, ta)
	use("A is read in the other layout (rows for columns)", misread(a), b)
	use("B is read in the other layout (rows for columns)", a, misread(b))
	use("A and B are both read in the other layout (rows for columns)", misread(a), misread(b))
}

// typeFaults compute in another precision or from operands of another.
func (r *replay) typeFaults(c candidate, add adder) {
	p := c.profile
	plans := []plan.Plan{p.Plan}
	for _, other := range []plan.Plan{plan.Plain(), plan.Tiled(plan.ResidueFirst, 32)} {
		if other.Describe() != p.Plan.Describe() {
			plans = append(plans, other)
		}
	}
	// plain are the steps that the operands may go through as they are.
	plain := []*profile.Profile{p}
	for _, name := range []string{"hopper/", "cuda-core/"} {
		if base, err := profile.Load(name + r.c.A.Format.String()); err == nil && r.c.A.Format.Bytes() == 2 {
			plain = append(plain, base)
		}
	}
	twins := func(order plan.Plan) (list []*gemm.Args) {
		for _, base := range plain {
			q := *p
			q.Step, q.Plan = base.Step, order
			if q.Validate() == nil {
				a := r.args(c, nil)
				a.Progress, a.Profile = nil, &q
				list = append(list, a)
			}
		}
		return list
	}
	// through runs the step of a name on operands as they are or converted to its format. own: flags of the record allow it.
	through := func(kind DifferenceKind, text, name string, own bool, convert format.Format, out format.Format, finish func(gemm.Position, uint64) uint64) {
		base, err := profile.Load(name)
		if err != nil {
			return
		}
		for _, order := range plans {
			f := add(kind, text, func(a *gemm.Args) {
				q := *p
				q.Step, q.Plan, q.Epilogue.Out = base.Step, order, out
				if q.Epilogue.Form == profile.FormHalf && q.Step.Result != format.F16 {
					q.Epilogue.Form = profile.FormAdd
				}
				a.Profile, a.D = &q, r.shape(out)
				if convert != format.Invalid {
					a.A, a.B = r.converted("a", a.A, convert, convert), r.converted("b", a.B, convert, convert)
				}
			}, finish)
			if f != nil {
				f.own, f.twins = own, twins(order)
			}
		}
	}
	rounded := func(via format.Format) func(a *gemm.Args) {
		return func(a *gemm.Args) {
			a.A, a.B = r.converted("a", a.A, via, a.A.Format), r.converted("b", a.B, via, a.B.Format)
		}
	}
	out := r.c.Out.Format
	switch r.c.A.Format {
	case format.F32:
		if p.Step.A == format.TF32 {
			through(DifferentTF32, "the products are of f32 operands, where tf32 was claimed", "hopper/f32", true, format.Invalid, out, nil)
		} else {
			through(DifferentTF32, "the operands are rounded to tf32, where f32 was claimed", "hopper/tf32", r.c.Flags.AllowTF32, format.Invalid, out, nil)
			if f := add(DifferentTF32, "the operands are rounded to tf32 (and multiplied in f32), where f32 was claimed", rounded(format.TF32), nil); f != nil {
				f.own = r.c.Flags.AllowTF32
			}
		}
		for _, via := range []format.Format{format.BF16, format.F16} {
			text := fmt.Sprintf("the operands are rounded to %v first", via)
			through(DifferentType, text, "hopper/"+via.String(), false, via, out, nil)
			add(DifferentType, text, rounded(via), nil)
		}
	case format.F16, format.BF16:
		via := format.BF16
		if r.c.A.Format == format.BF16 {
			via = format.F16
		}
		text := fmt.Sprintf("the operands are converted to %v first", via)
		through(DifferentType, text, "hopper/"+via.String(), false, via, out, nil)
		add(DifferentType, text, rounded(via), nil)
		if r.c.A.Format == format.F16 {
			if p.Step.Result == format.F16 {
				through(DifferentType, "the sums are kept in f32, where f16 was claimed", "hopper/f16", true, format.Invalid, out, nil)
			} else if out == format.F16 || out == format.F32 {
				through(DifferentType, "the sums are kept in f16, where f32 was claimed", "hopper/f16-f16", r.c.Flags.F16Accumulation, format.Invalid, out, nil)
			}
		}
	case format.F64:
		single := "the operands are rounded to f32 first"
		widen := func(_ gemm.Position, bits uint64) uint64 { return format.F32ToF64(uint32(bits)) }
		if r.c.C == nil {
			through(DifferentType, single+" and the output is computed in f32", "hopper/f32", false, format.F32, format.F32, widen)
		}
		add(DifferentType, single, rounded(format.F32), nil)
		add(DifferentType, "the output is rounded to f32 and widened to f64", func(*gemm.Args) {}, func(_ gemm.Position, bits uint64) uint64 {
			return format.F32ToF64(format.F64ToF32(bits))
		})
	}
}

// converted is an operand with every element rounded to nearest even to via, kept in the format as. Conversions are kept:
// several faults use one.
func (r *replay) converted(name string, m *gemm.Matrix, via, as format.Format) *gemm.Matrix {
	if r.mixed == nil {
		r.mixed = map[string]*gemm.Matrix{}
	}
	key := name + via.String() + as.String()
	if kept := r.mixed[key]; kept != nil {
		return kept
	}
	size := as.Bytes()
	data := make([]byte, m.Batch*m.Rows*m.Columns*size)
	at := 0
	for b := range m.Batch {
		for i := range m.Rows {
			for j := range m.Columns {
				putBits(data[at:], size, convert(m.Bits(b, i, j), m.Format, via, as))
				at += size
			}
		}
	}
	made := gemm.Dense(data, as, m.Batch, m.Rows, m.Columns)
	r.mixed[key] = made
	return made
}

func putBits(to []byte, size int, bits uint64) {
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], bits)
	copy(to[:size], word[:size])
}

// convert rounds an element of a format to via, and writes that in the format as, which holds it.
func convert(bits uint64, from, via, as format.Format) uint64 {
	wide := widened(bits, from)
	var narrowed uint64
	switch via {
	case format.TF32:
		wide = format.F32ToTF32(wide, format.NearestEven)
		narrowed = uint64(wide)
	case format.F32:
		narrowed = uint64(wide)
	default:
		narrowed = narrow(math.Float32frombits(wide), via, format.NearestEven)
		wide = widened(narrowed, via)
	}
	switch as {
	case via:
		return narrowed
	case format.F32:
		return uint64(wide)
	case format.F64:
		return format.F32ToF64(wide)
	}
	return narrow(math.Float32frombits(wide), as, format.NearestEven)
}
