package gemm_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
	"github.com/hawkeye-audit/hawkeye/simd"
)

func f64bits(v float64) uint64 { return math.Float64bits(v) }
func f32bits(v float32) uint64 { return uint64(math.Float32bits(v)) }

// problem is one random multiplication. Everything follows from its seed.
type problem struct {
	seed    uint64
	profile string // whose step it has
	kind    string
	args    gemm.Args
	d       *layout
	canary  []byte // what D's memory holds before a run
}

func (p *problem) String() string {
	a := &p.args
	return fmt.Sprintf("problem %#x: step of %s, %s inputs, %d×%d×%d×%d, %s, %s, out %v, alpha %g beta %g c %v start %v rows %v columns %v threads %d, a %+v b %+v d %+v",
		p.seed, p.profile, p.kind, a.D.Batch, a.A.Rows, a.B.Columns, a.A.Columns, describeStep(&a.Profile.Step), a.Profile.Plan.Describe(), a.D.Format,
		a.Alpha, a.Beta, a.C, a.Start != nil, a.Rows, a.Columns, a.Threads, *a.A, *a.B, *a.D)
}

func describeStep(p *step.Params) string {
	floor := "none"
	if p.Floor != nil {
		floor = fmt.Sprint(*p.Floor)
	}
	return fmt.Sprintf("%s %v×%v G %d F %d floor %s → %v %s %d", p.Kind, p.A, p.B, p.Group, p.Fraction, floor, p.Result, p.ResultRounding, p.ResultFraction)
}

// run computes D at a level and gives a copy of all its memory, gaps included.
func (p *problem) run(level simd.Level) ([]byte, error) {
	copy(p.d.memory, p.canary)
	p.args.Level = &level
	err := gemm.Run(context.Background(), &p.args)
	return bytes.Clone(p.d.memory), err
}

// restrict says what problems may look like.
type restrict struct {
	work    int // multiply-adds, about
	profile *profile.Profile
	kind    string
	plain   bool // nothing but A·B: no addend, scales, start, selection
	long    bool // sums of hundreds of products
	plan    func(r *rand.Rand, s step.Params, k int) plan.Plan
}

// runnable are the catalogue's profiles that package gemm runs at full speed.
func runnable() []*profile.Profile {
	var list []*profile.Profile
	for _, p := range profile.List() {
		if p.Runnable() && p.Step.Kind != step.Scaled {
			list = append(list, p)
		}
	}
	return list
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func newProblem(seed uint64, known []*profile.Profile, limit restrict) *problem {
	r := rand.New(rand.NewPCG(seed, 0x9E3779B97F4A7C15))
	p := &problem{seed: seed}
	base := limit.profile
	if base == nil {
		base = known[seed%uint64(len(known))] // every profile gets its turn
	}
	p.profile = base.Name
	prof := *base
	if r.IntN(6) == 0 {
		prof.Step = otherConstants(r, prof.Step)
	}
	s := prof.Step

	batch, m, n, k := sizes(r, limit.work)
	if limit.long && batch*m*n > 0 {
		k = min(limit.work/(batch*m*n), 100+r.IntN(2000))
	}
	p.kind = limit.kind
	if kinds := inputKinds(s.A, s.B); p.kind == "" {
		p.kind = pick(r, kinds...)
	}
	storedA, storedB := s.A, s.B
	if prof.TakesF32() {
		storedA, storedB = pick(r, format.F32, format.TF32), pick(r, format.F32, format.TF32)
	}
	fold := r.IntN(12) == 0 && batch > 0
	batchB := batch
	valuesA, valuesB := makeInputs(r, storedA, storedB, p.kind, batch, m, n, k)
	if fold {
		batchB = 1
	}
	a := placed(r, storedA, batch, m, k, true, valuesA)
	b := placed(r, storedB, batchB, k, n, true, valuesB[:batchB*k*n])
	if fold { // one B for the whole batch, the rows of A and D going on
		b.Batch, b.BatchStride = batch, 0
		l := &layout{sizes: [3]int{batch, m, k}, strides: [3]int{m * k, k, 1}, length: batch * m * k}
		l.memory = alignedBytes(l.length * storedA.Bytes())
		l.put(storedA, valuesA)
		a = l.matrix(storedA)
	}

	// r.IntN(5) == 0 keeps the catalogue's own plan.
	if r.IntN(5) > 0 {
		prof.Plan = randomPlan(r, s, k)
	}
	if limit.plan != nil {
		prof.Plan = limit.plan(r, s, k)
	}
	prof.Epilogue = randomEpilogue(r, s)
	if prof.Epilogue.Form.Product() && k != 1 {
		prof.Epilogue.Form = profile.FormFMABeta
	}
	serial := isSerial(&prof.Plan)
	if serial {
		prof.Epilogue.Scaling = profile.ScalingNone // how scales enter is not known
	}
	out := prof.Epilogue.Out
	if r.IntN(4) == 0 { // D's format overrides the profile's
		out = randomOut(r, s)
	}
	args := gemm.Args{Profile: &prof, A: a, B: b, Alpha: 1, Beta: 1, Threads: pick(r, 1, 1, 1, 2, 3)}
	rows, columns := m, n
	if !limit.plain && r.IntN(6) == 0 {
		args.Rows = selection(r, m)
		rows = len(args.Rows)
	}
	if !limit.plain && r.IntN(6) == 0 {
		args.Columns = selection(r, n)
		columns = len(args.Columns)
	}
	if limit.plain {
		prof.Epilogue = profile.Epilogue{Out: out, Form: profile.FormAdd}
	} else {
		p.addEpilogue(r, &args, out, batch, m, n, k)
		if serial && !prof.Epilogue.Form.InOperand() {
			switch half, f := s.Result == format.F16, prof.Epilogue.Form; { // how alpha enters is known of these alone
			case half && (f == profile.FormHalf || f == profile.FormHalfAlpha):
			case !half && s.Result != format.S32 && (f == profile.FormFMAAlpha || f == profile.FormFMABeta):
			default:
				args.Alpha = 1
			}
		}
		if tree, err := prof.Plan.Expand(k); err == nil && tree.Leaf() && args.Alpha != 0 && r.IntN(4) == 0 {
			kind := pick(r, "bits", "mixed", "finite", "zeros")
			args.Start = placed(r, s.Result, batch, rows, columns, true, handMadeElements(r, s.Result, kind, batch*rows*columns))
		}
	}

	p.d = randomLayout(r, out, batch, rows, columns, false)
	if fold {
		p.d = &layout{sizes: [3]int{batch, rows, columns}, strides: [3]int{rows * columns, columns, 1}, length: batch * rows * columns}
		p.d.memory = alignedBytes(p.d.length * out.Bytes())
	}
	p.canary = make([]byte, len(p.d.memory))
	for i := range p.canary {
		p.canary[i] = byte(r.Uint32())
	}
	args.D = p.d.matrix(out)
	p.args = args
	return p
}

// sizes draws batch, m, n and k with about so many multiply-adds in all, zero and one included.
func sizes(r *rand.Rand, work int) (batch, m, n, k int) {
	some := []int{1, 1, 2, 3, 4, 5, 7, 8, 11, 13, 15, 16, 17, 23, 31, 32, 33, 47, 48, 61, 63, 64, 65, 67, 70}
	for {
		batch, m, n, k = pick(r, 1, 1, 1, 1, 2, 3), pick(r, some...), pick(r, some...), 1+r.IntN(70)
		switch r.IntN(8) {
		case 0:
			m, n, k = 1+r.IntN(3), 1+r.IntN(3), 1+r.IntN(300) // long sums
		case 1:
			k = r.IntN(4)
		case 2:
			m = 1
		case 3:
			n = 1
		}
		if r.IntN(60) == 0 {
			*pick(r, &batch, &m, &n, &k) = 0
		}
		if batch*m*n*k <= work {
			return batch, m, n, k
		}
	}
}

func selection(r *rand.Rand, n int) []int {
	list := []int{}
	if n == 0 {
		return list
	}
	for range r.IntN(min(n, 20) + 1) {
		list = append(list, r.IntN(n)) // in any order, some twice
	}
	return list
}

// otherConstants changes a step's constants to others that Params allow: the kernels take a few, the wide path more.
func otherConstants(r *rand.Rand, p step.Params) step.Params {
	was := p
	switch p.Kind {
	case step.Fused:
		if r.IntN(2) == 0 {
			p.Group = pick(r, 1, 2, 3, 4, 5, 8, 12, 16, 24, 32, 33)
		}
		if r.IntN(2) == 0 {
			p.Fraction = pick(r, 1, 7, 10, 12, 13, 14, 22, 23, 24, 25, 26, 27, 35, 60)
		}
		if r.IntN(3) == 0 {
			p.Floor = nil
			if r.IntN(3) > 0 {
				floor := pick(r, -200, -140, -133, -132, -126, -125, -20, 0, 5)
				p.Floor = &floor
			}
		}
		if r.IntN(3) == 0 {
			p.ResultFraction = r.IntN(p.Result.Info().MantissaBits)
		}
		if r.IntN(5) == 0 {
			p.ResultRounding = pick(r, format.NearestEven, format.TowardZero, format.Down, format.NearestAway)
		}
		if r.IntN(8) == 0 {
			p.Align = pick(r, format.NearestEven, format.Down)
		}
		if r.IntN(8) == 0 {
			p.NormalisedTerms = true
		}
		if r.IntN(8) == 0 {
			p.ZerosAlign = true
		}
	case step.FMA:
		if r.IntN(4) == 0 {
			p.ResultRounding = pick(r, format.TowardZero, format.Down)
		}
		if r.IntN(4) == 0 {
			p.ResultFraction = 1 + r.IntN(p.Result.Info().MantissaBits-1)
		}
	default:
		return p
	}
	if r.IntN(4) == 0 {
		p.ZeroSign = pick(r, step.PositiveZero, step.SumZero, step.IEEEZero)
	}
	if r.IntN(6) == 0 {
		p.Overflow = pick(r, format.Saturate, format.IEEE)
	}
	if r.IntN(6) == 0 {
		p.FlushInputs, p.FlushOutputs = r.IntN(2) == 0, r.IntN(2) == 0
	}
	if err := p.Validate(); err != nil {
		return was
	}
	return p
}

func randomOut(r *rand.Rand, s step.Params) format.Format {
	switch s.Result {
	case format.F32:
		return pick(r, format.F16, format.BF16, format.F32, format.F32)
	case format.F16:
		return pick(r, format.F16, format.F16, format.F32)
	}
	return s.Result
}

func randomEpilogue(r *rand.Rand, s step.Params) profile.Epilogue {
	e := profile.Epilogue{Out: randomOut(r, s), Form: profile.FormAdd}
	if s.Result == format.S32 {
		return e
	}
	e.Form = pick(r, profile.FormAdd, profile.FormRoundThenAdd, profile.FormFMAAlpha, profile.FormFMABeta)
	if s.Result == format.F16 && r.IntN(2) == 0 {
		e.Form = pick(r, profile.FormHalf, profile.FormHalfAlpha)
	}
	if takesAlphaInA(s) && r.IntN(2) == 0 {
		e.Form = pick(r, profile.FormAlphaInA, profile.FormAlphaInB)
	}
	if s.Kind == step.FMA && s.Result != format.F16 && s.Result != format.BF16 && r.IntN(3) == 0 {
		e.Form = pick(r, profile.FormProductA, profile.FormProductB)
	}
	e.ZeroAlpha = pick(r, profile.ZeroAlphaUnknown, profile.ZeroAlphaRead, profile.ZeroAlphaSkip, profile.ZeroAlphaCopy)
	e.PlusZero = r.IntN(3) == 0
	if s.Result == format.F32 && !e.Form.Product() && r.IntN(6) == 0 {
		e.Scaling = pick(r, profile.ScalingTensor, profile.ScalingRow)
	}
	return e
}

// addEpilogue draws addend, scalars and scales as far as they are known to go together.
func (p *problem) addEpilogue(r *rand.Rand, args *gemm.Args, out format.Format, batch, m, n, k int) {
	e, s := args.Profile.Epilogue, args.Profile.Step
	if s.Result == format.S32 {
		return
	}
	scalars := []float64{0.5, -1, 3, 0.1, 1.5, 1e-3, 65504, 1e-7, 2.9802322387695312e-08, 1e30, -1e-30, math.Inf(1), math.NaN()}
	if e.Scaling != profile.ScalingNone {
		one := func(count int) []float32 {
			list := make([]float32, count)
			for i := range list {
				list[i] = math.Float32frombits(uint32(handMadeElements(r, format.F32, pick(r, "mixed", "finite", "powers"), 1)[0]))
			}
			return list
		}
		args.ScaleA, args.ScaleB = one(1), one(1)
		if e.Scaling == profile.ScalingRow {
			args.ScaleA, args.ScaleB = one(m), one(n)
		}
	}
	if r.IntN(2) == 0 && (e.Scaling == profile.ScalingNone || e.Form == profile.FormAdd) {
		f := pick(r, out, out, s.Result)
		kind := pick(r, "mixed", "finite", "small", "bits", "zeros")
		if r.IntN(3) == 0 { // a bias
			bias := placed(r, f, 1, 1, n, false, handMadeElements(r, f, kind, n))
			bias.Batch, bias.BatchStride, bias.Rows, bias.RowStride = batch, 0, m, 0
			args.C = bias
		} else {
			args.C = placed(r, f, batch, m, n, true, handMadeElements(r, f, kind, batch*m*n))
		}
		if e.Form != profile.FormAdd && r.IntN(3) > 0 {
			args.Alpha = pick(r, scalars...)
			if e.Form != profile.FormRoundThenAdd {
				args.Beta = pick(r, scalars...)
			}
		}
		if (e.Scaling == profile.ScalingNone || k == 0) && r.IntN(4) == 0 { // the addend is not read
			args.Alpha, args.Beta = pick(r, scalars...), 0
		}
		if args.Beta != 0 && e.Form != profile.FormAdd && e.ZeroAlpha != profile.ZeroAlphaUnknown && r.IntN(3) == 0 {
			args.Alpha = 0
			if e.ZeroAlpha == profile.ZeroAlphaCopy {
				args.Beta, args.C.Format = 1, out
				if f != out {
					args.C = placed(r, out, batch, m, n, true, handMadeElements(r, out, kind, batch*m*n))
				}
			}
		}
	} else if r.IntN(4) == 0 && e.Scaling == profile.ScalingNone {
		args.Alpha = pick(r, scalars...)
	}
}

// randomPlan draws a plan that the step can have, for K = k.
func randomPlan(r *rand.Rand, s step.Params, k int) plan.Plan {
	chain := func() plan.Plan {
		if r.IntN(2) == 0 {
			return plan.Plain()
		}
		return plan.Tiled(pick(r, plan.ResidueFirst, plan.ResidueLast), pick(r, 1, 2, 3, 4, 7, 8, 16, 24, 32, 64))
	}
	switch r.IntN(9) {
	case 0, 1:
		return chain()
	case 6, 7:
		return randomLanes(r, s, k, chain())
	case 8:
		of := chain()
		if r.IntN(3) == 0 {
			of = randomLanes(r, s, k, of)
		}
		return plan.SerialK(1+r.IntN(9), pick(r, 1, 2, 3, 4, 8, 16), of)
	case 2, 3:
		m := randomMerge(r, s)
		of := chain()
		if r.IntN(8) == 0 { // a rule inside a rule inside a rule
			inner := chain()
			of = plan.Plan{Promote: &plan.Promote{Interval: 1 + r.IntN(40), Of: &inner, Merge: randomMerge(r, s)}}
		}
		return plan.Plan{Split: &plan.Split{Slices: 1 + r.IntN(12), Grain: pick(r, 1, 2, 3, 4, 8, 16, 64), Of: &of, Merge: m}}
	case 4:
		of := chain()
		return plan.Plan{Promote: &plan.Promote{Interval: pick(r, 1, 3, 8, 16, 31, 32, 64, 128), Of: &of, Merge: randomMerge(r, s)}}
	}
	partial := r.IntN(5) == 0
	pieces := []plan.Range{{Start: 0, Stop: k}}
	for range r.IntN(7) { // cut a range in two, or deal it out like cards
		i := r.IntN(len(pieces))
		was := pieces[i]
		if was.Len() < 2 {
			continue
		}
		if hands := 2 + r.IntN(3); r.IntN(2) == 0 && hands <= was.Len() {
			pieces = append(pieces[:i], pieces[i+1:]...)
			for h := range hands {
				pieces = append(pieces, plan.Range{Start: was.Start + h*was.Stride(), Stop: was.Stop, Step: hands * was.Stride()})
			}
			continue
		}
		at := was.Start + (1+r.IntN(was.Len()-1))*was.Stride()
		pieces[i].Stop = at
		pieces = append(pieces, plan.Range{Start: at, Stop: was.Stop, Step: was.Step})
	}
	r.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
	for i := range pieces {
		if r.IntN(4) == 0 && pieces[i].Len() > 0 {
			pieces[i].Pad = 1 + r.IntN(9)
		}
	}
	if partial && len(pieces) > 1 {
		pieces = pieces[1:]
	}
	root := randomTree(r, s, pieces)
	if len(root.Sum) > 0 && r.IntN(4) == 0 {
		root.Merge, root.Serial = nil, true
	}
	return plan.Plan{Tree: &plan.Fixed{K: k, Partial: partial, Root: root}}
}

// takesAlphaInA tells whether alpha may be multiplied into the step's A (and its B, which is of the same formats).
func takesAlphaInA(s step.Params) bool {
	chain := func(f format.Format) bool { return f == format.F32 || f == format.F16 || f == format.BF16 }
	return s.Kind == step.FMA && s.Result == format.F32 && chain(s.A) && chain(s.B)
}

// isSerial tells whether sums pass through the output.
func isSerial(p *plan.Plan) bool {
	return p.Serial != nil || p.Tree != nil && p.Tree.Root.Serial
}

// randomLanes deals k to lanes, sometimes those of a lane to further ones, and adds them in some order.
func randomLanes(r *rand.Rand, s step.Params, k int, of plan.Plan) plan.Plan {
	if r.IntN(4) == 0 {
		of = randomLanes(r, s, k, of)
	}
	if r.IntN(8) == 0 && s.Result == format.F32 {
		return plan.Dot(1+r.IntN(2), 1+r.IntN(2), randomMerge(r, s))
	}
	l := &plan.Lanes{Count: 1 + r.IntN(9), Run: pick(r, 1, 1, 2, 3, 4, 8, 16, 64), Whole: r.IntN(3) == 0, Of: &of, Merge: randomMerge(r, s)}
	switch r.IntN(4) {
	case 0:
		l.Count = 1 << r.IntN(6)
		l.Folds = plan.CountDown(l.Count)
	case 1:
		l.Count = 1 << r.IntN(6)
		l.Folds = plan.Neighbours(l.Count)
	case 2:
		l.Folds, l.Buffers = plan.Forward(), 1+r.IntN(l.Count)
	default:
		l.Folds = plan.Forward()
	}
	return plan.Plan{Lanes: l}
}

func randomTree(r *rand.Rand, s step.Params, pieces []plan.Range) *plan.Tree {
	if len(pieces) < 2 || r.IntN(4) == 0 {
		return &plan.Tree{Chain: pieces}
	}
	m := randomMerge(r, s)
	t := &plan.Tree{Merge: &m}
	for len(pieces) > 0 {
		n := 1 + r.IntN(len(pieces))
		if len(t.Sum) == 0 && n == len(pieces) {
			n--
		}
		t.Sum = append(t.Sum, randomTree(r, s, pieces[:n]))
		pieces = pieces[n:]
	}
	return t
}

func randomMerge(r *rand.Rand, s step.Params) plan.Merge {
	m := plan.Merge{Partial: s.Result, Sum: s.Result, FromZero: r.IntN(2) == 0}
	if s.Result == format.F32 || s.Result == format.F16 {
		m.Partial = pick(r, format.F32, format.F32, format.F16, format.BF16)
		m.Sum = pick(r, format.F32, format.F32, format.F32, format.F16)
	}
	return m
}
