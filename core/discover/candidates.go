package discover

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// refusal tells whether package gemm does not take a profile for these operands.
func refusal(err error) bool {
	var e *gemm.Error
	return errors.As(err, &e)
}

// profileOf joins what was found.
func (f *finder) profileOf(s step.Params, p plan.Plan, form profile.Form) *profile.Profile {
	return &profile.Profile{SchemaVersion: profile.SchemaVersion, Step: s, Plan: p,
		Epilogue: profile.Epilogue{Out: f.q.s.D, Form: form, Scaling: f.q.s.Scaling}}
}

// merges are a plan with every way in which its partial sums may pass, the likely ones first: two levels of merges apart.
func (f *finder) merges(p plan.Plan, result format.Format) []plan.Plan {
	options := f.mergesOf(result)
	levels := mergeLevels(&p)
	if levels == 0 {
		return []plan.Plan{p}
	}
	var list []plan.Plan
	for _, outer := range options {
		inner := options
		if levels == 1 {
			inner = options[:1]
		}
		for _, within := range inner {
			list = append(list, withMerges(p, []plan.Merge{outer, within}))
		}
	}
	return list
}

// mergesOf are the ways in which partial sums may pass.
func (f *finder) mergesOf(result format.Format) []plan.Merge {
	var options []plan.Merge
	add := func(partial, sum format.Format) {
		for _, zero := range bothWays {
			options = append(options, plan.Merge{Partial: partial, Sum: sum, FromZero: zero})
		}
	}
	switch result {
	case format.F64, format.S32:
		add(result, result)
	case format.F16:
		add(format.F32, format.F32)
		add(format.F16, format.F16)
		add(format.F16, format.F32)
	default:
		add(format.F32, format.F32)
		switch f.q.s.D {
		case format.F16, format.BF16:
			add(f.q.s.D, format.F32)
			if f.q.s.D == format.F16 {
				add(format.F16, format.F16)
			}
		default:
			add(format.F16, format.F32)
			add(format.BF16, format.F32)
		}
	}
	return options
}

// mergeLevels counts the merges from the outside in.
func mergeLevels(p *plan.Plan) int {
	switch {
	case p.Split != nil:
		return 1 + mergeLevels(p.Split.Of)
	case p.Promote != nil:
		return 1 + mergeLevels(p.Promote.Of)
	case p.Lanes != nil:
		return 1 + mergeLevels(p.Lanes.Of)
	case p.Serial != nil:
		return mergeLevels(p.Serial.Of)
	case p.Tree != nil:
		return 1
	}
	return 0
}

// withMerges copies a plan with other merges, the last for all that are deeper.
func withMerges(p plan.Plan, list []plan.Merge) plan.Plan {
	rest := list
	if len(list) > 1 {
		rest = list[1:]
	}
	switch {
	case p.Split != nil:
		c := *p.Split
		c.Merge, c.Of = list[0], ptr(withMerges(*c.Of, rest))
		return plan.Plan{Split: &c}
	case p.Promote != nil:
		c := *p.Promote
		c.Merge, c.Of = list[0], ptr(withMerges(*c.Of, rest))
		return plan.Plan{Promote: &c}
	case p.Lanes != nil:
		c := *p.Lanes
		c.Merge, c.Of = list[0], ptr(withMerges(*c.Of, rest))
		return plan.Plan{Lanes: &c}
	case p.Serial != nil:
		c := *p.Serial
		c.Of = ptr(withMerges(*c.Of, list))
		return plan.Plan{Serial: &c}
	case p.Tree != nil:
		c := *p.Tree
		c.Root = treeWith(c.Root, &list[0])
		return plan.Plan{Tree: &c}
	}
	return p
}

func treeWith(t *plan.Tree, m *plan.Merge) *plan.Tree {
	if t.Leaf() {
		return t
	}
	c := plan.Tree{Merge: m, Serial: t.Serial}
	if t.Serial {
		c.Merge = nil
	}
	for _, child := range t.Sum {
		c.Sum = append(c.Sum, treeWith(child, m))
	}
	return &c
}

// serials are plans whose slices are added in the output instead of in a workspace.
func serials(p plan.Plan) []plan.Plan {
	switch {
	case p.Split != nil:
		return []plan.Plan{{Serial: &plan.Serial{Slices: p.Split.Slices, Grain: p.Split.Grain, Of: p.Split.Of}}}
	case p.Tree != nil && !p.Tree.Root.Leaf():
		c := *p.Tree
		c.Root = &plan.Tree{Sum: c.Root.Sum, Serial: true}
		return []plan.Plan{{Tree: &c}}
	}
	return nil
}

// sift keeps the candidates that give all answers of an exchange; where none does, those that give most, and the test is
// noted as broken.
func (f *finder) sift(x *exchange, list []*profile.Profile) ([]*profile.Profile, error) {
	f.q.phase = x.about
	f.tried += len(list)
	best, most, err := x.best(f, len(list), func(i int) []*profile.Profile { return list[i : i+1] })
	if err != nil {
		return nil, err
	}
	if most < len(x.want) && f.broken == "" {
		f.broken = fmt.Sprintf("%s: %d of %d elements at most are explained", x.about, max(most, 0), len(x.want))
	}
	kept := make([]*profile.Profile, len(best))
	for i, at := range best {
		kept[i] = list[at]
	}
	return kept, nil
}

// addend says what the third operand of an exchange holds.
type addendKind int

const (
	addendZero addendKind = iota
	addendRandom
	addendZeros // of both signs
	// addendOpposite nearly cancels the sum: the negative of what the same operands give without an addend.
	addendOpposite
)

// whole asks the box for a few rows and columns of random operands of a kind, all others zero, and keeps the answers.
func (f *finder) whole(kind string, seed uint64, rows, columns int, c addendKind) (*exchange, error) {
	x, _, err := f.wholeCall(kind, seed, rows, columns, c)
	return x, err
}

// wholeCall also gives the call, which may be made again while the buffers are as they are.
func (f *finder) wholeCall(kind string, seed uint64, rows, columns int, c addendKind) (*exchange, *Call, error) {
	var sums []uint64
	if c == addendOpposite {
		x, _, err := f.wholeCall(kind, seed, rows, columns, addendZero)
		if err != nil {
			return nil, nil, err
		}
		sums = x.want
	}
	s := f.q.s
	r := rand.New(rand.NewPCG(seed, 3))
	rowsAt, columnsAt := chosen(r, s.M, rows), chosen(r, s.N, columns)
	m, n := len(rowsAt), len(columnsAt)
	batch := r.IntN(s.Batch)
	a, b := f.special(kind, seed, m, n)
	if a == nil {
		a, b = operands(s.A, s.B, kind, seed, m, n, s.K)
	}
	q := f.q
	q.clear()
	sizeA, sizeB, sizeC := s.A.Info().Bytes, s.B.Info().Bytes, 0
	if s.C.Valid() {
		sizeC = s.C.Info().Bytes
	}
	for i, row := range rowsAt {
		q.dirtyA[batch*s.M+row] = true
		copy(q.a[(batch*s.M+row)*s.K*sizeA:][:s.K*sizeA], a[i*s.K*sizeA:])
	}
	for j, column := range columnsAt {
		q.dirtyB[batch*s.N+column] = true
		for k := range s.K {
			copy(q.b[((batch*s.K+k)*s.N+column)*sizeB:][:sizeB], b[(k*n+j)*sizeB:])
		}
	}
	args := &gemm.Args{A: gemm.Dense(a, s.A, 1, m, s.K), B: gemm.Dense(b, s.B, 1, s.K, n), D: gemm.Dense(nil, s.D, 1, m, n), Alpha: s.Alpha, Beta: 1}
	third := make([]byte, m*n*sizeC)
	if sizeC > 0 {
		switch c {
		case addendRandom:
			third = f.addends(kind, seed+1, m*n)
		case addendOpposite:
			for i, bits := range sums {
				v := -valueOf(s.D, bits) / s.Beta
				if math.IsNaN(v) || math.IsInf(v, 0) {
					v = 0
				}
				cases.Put(third[i*sizeC:], sizeC, nearest(s.C, v))
			}
		case addendZeros:
			for i := range m * n {
				cases.Put(third[i*sizeC:], sizeC, r.Uint64N(2)<<(s.C.Info().Bits-1))
			}
		}
		if s.Addend == AddendBias {
			for i := 1; i < m; i++ {
				copy(third[i*n*sizeC:(i+1)*n*sizeC], third[:n*sizeC])
			}
		}
	}
	for i, row := range rowsAt {
		for j, column := range columnsAt {
			value := third[(i*n+j)*sizeC:][:sizeC]
			switch s.Addend {
			case AddendBias:
				copy(q.c[column*sizeC:], value)
			case AddendFull, AddendStart:
				copy(q.c[((batch*s.M+row)*s.N+column)*sizeC:], value)
			}
		}
	}
	switch s.Addend {
	case AddendBias, AddendFull:
		args.C, args.Beta = gemm.Dense(third, s.C, 1, m, n), s.Beta
	case AddendStart:
		args.Start = gemm.Dense(third, s.C, 1, m, n)
	}
	call := &Call{A: q.a, B: q.b, C: q.c, D: q.d, ScaleA: q.scaleA, ScaleB: q.scaleB}
	switch s.Scaling {
	case profile.ScalingTensor:
		call.ScaleA, call.ScaleB = scales(r, 1), scales(r, 1)
		args.ScaleA, args.ScaleB = call.ScaleA, call.ScaleB
	case profile.ScalingRow:
		call.ScaleA, call.ScaleB = scales(r, s.M), scales(r, s.N)
		for _, row := range rowsAt {
			args.ScaleA = append(args.ScaleA, call.ScaleA[row])
		}
		for _, column := range columnsAt {
			args.ScaleB = append(args.ScaleB, call.ScaleB[column])
		}
	}
	var places []gemm.Position
	for i, row := range rowsAt {
		for j, column := range columnsAt {
			call.Wanted = append(call.Wanted, gemm.Position{Batch: batch, Row: row, Column: column})
			places = append(places, gemm.Position{Row: i, Column: j})
		}
	}
	if err := q.callWith(call); err != nil {
		return nil, nil, err
	}
	x := &exchange{about: "inputs of kind " + kind, d: s.D, anyNaN: f.anyNaN, want: q.read(call.Wanted)}
	q.questions += len(x.want)
	x.args, x.at = args, places
	return x, call, nil
}

// nearest is the number of a format that is nearest to a value.
func nearest(f format.Format, v float64) uint64 {
	fraction, e := math.Frexp(v)
	return f.Encode(number{int64(fraction * (1 << 53)), e - 53}.exact(), format.Encoding{})
}

// special makes the operands of kinds that are about zeros: nil for others.
func (f *finder) special(kind string, seed uint64, m, n int) (a, b []byte) {
	s := f.q.s
	sizeA, sizeB := s.A.Info().Bytes, s.B.Info().Bytes
	switch kind {
	case "negative zeros": // every product is -0
		a, b = make([]byte, m*s.K*sizeA), make([]byte, s.K*n*sizeB)
		one, _ := power(s.A, 0, true)
		for i := range m * s.K {
			cases.Put(a[i*sizeA:], sizeA, one)
		}
	case "underflow", "underflows": // products too small, negative, few or many, among zeros of both signs
		r := rand.New(rand.NewPCG(seed, 9))
		a, b = make([]byte, m*s.K*sizeA), make([]byte, s.K*n*sizeB)
		lowA, _ := reach(s.A, false)
		lowB, _ := reach(s.B, false)
		tinyA, _ := power(s.A, lowA, true)
		tinyB, _ := power(s.B, lowB, false)
		for i := range m * s.K {
			v := uint64(1) << (s.A.Info().Bits - 1)
			if r.IntN(s.K+1) < 2 || kind == "underflows" && (seed%2 == 0 || r.IntN(3) > 0) {
				v = tinyA
			}
			cases.Put(a[i*sizeA:], sizeA, v)
		}
		for i := range s.K * n {
			cases.Put(b[i*sizeB:], sizeB, tinyB)
		}
	}
	return a, b
}

func (f *finder) addends(kind string, seed uint64, n int) []byte {
	switch kind {
	case "bits", "special", "edges", "wide", "tiny":
	default:
		kind = "normal"
	}
	x, _ := operands(f.q.s.C, f.q.s.C, kind, seed, 1, 0, n)
	return x
}

// scales are powers of two and others.
func scales(r *rand.Rand, n int) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(r.Float64() + 0.5)
	}
	return list
}

// chosen draws some of n indices, first and last among them.
func chosen(r *rand.Rand, n, some int) []int {
	if n <= some {
		some = n
	}
	list := r.Perm(n)[:some]
	if some >= 2 && n > some {
		list[0], list[1] = 0, n-1
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// distinct leaves out plans whose trees are the same, node for node.
func distinct(k int, list []structure) []structure {
	seen := map[string]bool{}
	var kept []structure
	for _, s := range list {
		text, err := json.Marshal(s.tree)
		if err != nil || seen[string(text)] {
			continue
		}
		seen[string(text)] = true
		kept = append(kept, s)
	}
	return kept
}

// unique leaves out profiles that are said twice.
func unique(list []*profile.Profile) []*profile.Profile {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(p *profile.Profile) bool {
		if p.Validate() != nil {
			return true
		}
		id := p.ID()
		was := seen[id]
		seen[id] = true
		return was
	})
}

// mainFirst orders steps so that those come first that differ in what most sums show: of several that differ only in what is
// rare, the first, then all their seconds, and so on.
func mainFirst(list []step.Params) []step.Params {
	seen := map[string]int{}
	turn := make([]int, len(list))
	index := make([]int, len(list))
	for i, p := range list {
		p.Floor, p.NormalisedTerms, p.ZerosAlign, p.Overflow = nil, false, false, ""
		p.FlushInputs, p.FlushOutputs, p.KeepNaN, p.NaNFirst, p.NaN = false, false, false, "", 0
		text, err := json.Marshal(p)
		if err != nil {
			return list
		}
		turn[i], index[i] = seen[string(text)], i
		seen[string(text)]++
	}
	slices.SortStableFunc(index, func(i, j int) int { return turn[i] - turn[j] })
	sorted := make([]step.Params, len(list))
	for to, i := range index {
		sorted[to] = list[i]
	}
	return sorted
}

// cut bounds a list.
func cut[T any](list []T, n int) []T { return list[:min(len(list), n)] }

// tick reports about ten times a second, however long what is between two calls of it takes.
func (f *finder) tick() error {
	now := time.Now()
	if now.Sub(f.ticked) < 100*time.Millisecond {
		return nil
	}
	f.ticked = now
	return f.q.report()
}

// elementsOf is the answers that a profile gives, with reports meanwhile.
func (f *finder) elementsOf(x *exchange, p *profile.Profile) ([]uint64, error) {
	x.args.Profile = p
	var values []uint64
	for at := range slices.Chunk(x.at, 256) {
		if err := f.tick(); err != nil {
			return nil, err
		}
		some, err := gemm.Elements(f.ctx, x.args, at)
		if err != nil {
			return nil, err
		}
		values = append(values, some...)
	}
	return values, nil
}
