package discover

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

var (
	boxCount    = flag.Int("boxes", 0, "how many random black boxes are discovered; 0: some of which each once showed a fault")
	boxElements = flag.Int("box-elements", 4096, "of each certificate")
	boxFirst    = flag.Int("first-box", 0, "the number of the first of them")
	boxMostK    = flag.Int("box-most-k", 0, "their largest K; 0: as the kept ones have it")
)

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// a synthetic is a random black box.
type synthetic struct {
	what  string
	p     *profile.Profile
	s     Signature
	noise int // one element in so many changes its last bit, 0 for none
}

var allRoundings = []format.Rounding{format.TowardZero, format.NearestEven, format.NearestAway, format.Down, format.Up}

func randomStep(r *rand.Rand) (string, step.Params) {
	// What the unit takes, and how its accumulators are kept.
	operand := pick(r, format.F16, format.BF16, format.TF32, format.E4M3, format.E5M2, format.BF16, format.F16)
	p := step.Params{A: operand, B: operand, Result: format.F32, ResultRounding: pick(r, allRoundings...)}
	if operand == format.TF32 {
		p.InputRounding = pick(r, allRoundings...)
	}
	if (operand == format.F16 || operand == format.E5M2) && r.IntN(3) == 0 {
		p.Result = format.F16
	}
	if r.IntN(10) == 0 {
		p.FlushInputs = true
	}
	if r.IntN(10) == 0 {
		p.FlushOutputs = true
	}
	p.ZeroSign = pick(r, step.PositiveZero, step.PositiveZero, step.SumZero, step.IEEEZero)
	group := pick(r, 1, 2, 3, 4, 8, 16, 32, 64, 1+r.IntN(64))
	aligned := func() {
		p.Group = group
		p.Fraction = 10 + r.IntN(31)
		p.Align = pick(r, allRoundings...)
		if r.IntN(3) == 0 {
			low, _ := reach(p.Result, true)
			p.Floor = ptr(low - r.IntN(12) + 2)
		}
		p.NormalisedTerms = r.IntN(10) == 0
		p.ZerosAlign = r.IntN(10) == 0
	}
	switch kind := r.IntN(10); kind {
	case 0, 1, 2, 3:
		p.Kind = step.Fused
		aligned()
		if p.Result == format.F32 && r.IntN(4) == 0 {
			p.ResultFraction = 10 + r.IntN(13)
		}
		if group%2 == 0 && r.IntN(6) == 0 {
			p.Order, p.InstructionK = step.Pairs, 2*group
		}
		if r.IntN(8) == 0 {
			p.Overflow = pick(r, format.Saturate, format.IEEE)
		}
		return "in the group", p
	case 4:
		p.Kind = step.CDNA3
		group = max(group, 2)
		aligned()
		p.SumFraction, p.AccumulatorFraction, p.JoinAlign = unbounded, unbounded, format.TowardZero
		return "after it", p
	case 5:
		p.Kind = step.Converted
		group = max(group, 2)
		aligned()
		p.Via, p.Partial, p.PartialRounding = operand, p.Result, pick(r, allRoundings...)
		if p.Result == format.F16 {
			p.Partial = pick(r, format.F16, format.F32)
		}
		return "a separate add", p
	case 6:
		p.Kind = step.CDNA2
		p.Group = pick(r, 2, 4, 8, 16, 32)
		return "pairwise", p
	case 7:
		p.Kind = step.Exact
		p.Group = group
		if r.IntN(2) == 0 {
			p.Group = 4096 // the whole sum without error
		}
		return "Kulisch", p
	}
	p.Kind, p.Group = step.FMA, 1
	p.InputRounding = ""
	f := pick(r, format.F32, format.F32, format.F64, format.F16, format.BF16)
	p.A, p.B, p.Result = f, f, format.F32
	if f == format.F64 {
		p.Result = f
	}
	if r.IntN(3) > 0 {
		p.ResultRounding, p.ZeroSign, p.FlushInputs, p.FlushOutputs = format.NearestEven, step.IEEEZero, false, false
	}
	return "FMA", p
}

func randomPlan(r *rand.Rand, k int, s *step.Params, out format.Format) (string, plan.Plan) {
	result := s.Result
	merge := plan.In(result)
	if result == format.F32 {
		merge.Partial = pick(r, format.F32, format.F32, format.F32, format.F16, format.BF16)
		if merge.Partial != format.F32 && merge.Partial != out {
			merge.Partial = format.F32
		}
	}
	merge.FromZero = r.IntN(2) == 0
	chain := func(k int) plan.Plan {
		tile := pick(r, 8, 16, 32, 64, 4)
		switch r.IntN(5) {
		case 0:
			return plan.Tiled(plan.ResidueFirst, tile)
		case 1:
			return plan.Tiled(plan.ResidueLast, tile)
		}
		return plan.Plain()
	}
	fold := func(n int) []plan.Fold {
		switch r.IntN(4) {
		case 0:
			return plan.CountDown(n)
		case 1:
			if n&(n-1) == 0 {
				return plan.Neighbours(n)
			}
		case 2:
			if to := 2 + r.IntN(3); to*2 <= n {
				return []plan.Fold{{To: to}, {To: 1}}
			}
		}
		return plan.Forward()
	}
	switch r.IntN(9) {
	case 0, 1:
		return "chain", chain(k)
	case 2:
		of := chain(k)
		return "split", plan.Plan{Split: &plan.Split{Slices: 2 + r.IntN(6), Grain: pick(r, 1, 8, 16, 32, 64), Of: &of, Merge: merge}}
	case 3:
		of := chain(k)
		return "promote", plan.Plan{Promote: &plan.Promote{Interval: pick(r, 8, 16, 32, 64, 1+r.IntN(64)), Of: &of, Merge: merge}}
	case 4:
		n := 2 + r.IntN(31)
		return "lanes", plan.Dealt(n, pick(r, 1, 2, 4, 8, 16), chain(k), fold(n), merge)
	case 5:
		n := 2 + r.IntN(15)
		return "contiguous lanes", plan.Contiguous(n, pick(r, whole, 64, 32), chain(k), fold(n), merge)
	case 6:
		n := 2 + r.IntN(7)
		return "buffered lanes", plan.Buffered(n, pick(r, 4, 8, 16), min(n, 1+r.IntN(4)), plan.Plain(), merge)
	case 7:
		n := 2 + r.IntN(7)
		inner := plan.Dealt(n, pick(r, 1, 2, 4), plan.Plain(), fold(n), merge)
		return "split lanes", plan.Plan{Split: &plan.Split{Slices: 2 + r.IntN(3), Grain: pick(r, 8, 16, 32), Of: &inner, Merge: merge}}
	}
	if r.IntN(2) == 0 {
		of := chain(k)
		return "serial", plan.Plan{Serial: &plan.Serial{Slices: 2 + r.IntN(3), Grain: pick(r, 8, 16, 32), Of: &of}}
	}
	// A tree that no family gives: pieces merged in a random order.
	var nodes []*plan.Tree
	for at := 0; at < k; {
		to := min(k, at+s.Group*(1+r.IntN(3)))
		nodes = append(nodes, &plan.Tree{Chain: []plan.Range{{Start: at, Stop: to}}})
		at = to
	}
	m := plan.In(result)
	for len(nodes) > 1 {
		i, j := r.IntN(len(nodes)), r.IntN(len(nodes))
		if i == j {
			continue
		}
		nodes[i] = &plan.Tree{Sum: []*plan.Tree{nodes[i], nodes[j]}, Merge: &m}
		nodes = slices.Delete(nodes, j, j+1)
	}
	return "tree", plan.Plan{Tree: &plan.Fixed{K: k, Root: nodes[0]}}
}

func randomBox(seed int) synthetic {
	r := rand.New(rand.NewPCG(uint64(seed), 20261130))
	for {
		place, st := randomStep(r)
		k := 0
		if *boxMostK > 0 {
			k = 1 + r.IntN(*boxMostK)
		} else {
			k = pick(r, 16, 24, 37, 48, 64, 80, 96, 100, 129, 160, 1+r.IntN(160))
		}
		outs := []format.Format{format.F32}
		switch {
		case st.Result == format.F64:
			outs = []format.Format{format.F64}
		case st.Result == format.F16:
			outs = []format.Format{format.F16, format.F32}
		case st.A == format.BF16:
			outs = []format.Format{format.BF16, format.F32}
		case st.A == format.F16:
			outs = []format.Format{format.F16, format.F32}
		case st.A.Info().Bits == 8:
			outs = []format.Format{format.BF16, format.F16, format.F32}
		}
		out := pick(r, outs...)
		family, pl := randomPlan(r, k, &st, out)
		box := synthetic{p: &profile.Profile{SchemaVersion: 1, Step: st, Plan: pl, Epilogue: profile.Epilogue{Out: out, Form: profile.FormAdd}, Provenance: profile.Provenance{Source: "a test"}}}
		box.s = Signature{A: st.A, B: st.B, D: out, Batch: pick(r, 1, 1, 1, 3), M: pick(r, 16, 16, 24, 7, 1), N: pick(r, 16, 16, 33, 8, 1), K: k, Alpha: 1, Beta: 1}
		if st.A == format.TF32 {
			box.s.A, box.s.B = format.F32, format.F32
		}
		what := fmt.Sprintf("%s, %s", place, family)
		switch {
		case r.IntN(3) == 0 && pl.Serial == nil:
			box.s.Addend, box.s.C = pick(r, AddendBias, AddendFull), out
			form := pick(r, profile.FormAdd, profile.FormRoundThenAdd, profile.FormFMAAlpha, profile.FormFMABeta)
			if st.Result == format.F16 {
				form = pick(r, profile.FormHalf, profile.FormHalfAlpha)
			}
			if form != profile.FormAdd && form != profile.FormRoundThenAdd {
				box.s.Alpha, box.s.Beta = pick(r, 1, 0.5, 1.25, -3, 0.7), pick(r, 1, 2, -0.3)
			}
			box.p.Epilogue.Form = form
			what += ", " + string(form)
		case st.A.Info().Bits == 8 && r.IntN(2) == 0 && pl.Serial == nil && st.Result == format.F32:
			box.s.Scaling = pick(r, profile.ScalingTensor, profile.ScalingRow)
			box.p.Epilogue.Scaling = box.s.Scaling
			what += ", scaled"
		}
		if r.IntN(20) == 0 {
			box.noise = pick(r, 5, 50, 500)
			what += fmt.Sprintf(", noise in one of %d", box.noise)
		}
		box.what = fmt.Sprintf("%s, %s", what, box.s.String())
		if box.p.Validate() == nil {
			if _, err := pl.Expand(k); err == nil {
				return box
			}
		}
	}
}

// multiply is the box.
func (b *synthetic) multiply() Box {
	plain := boxOf(b.p, b.s)
	if b.noise == 0 {
		return plain
	}
	r := rand.New(rand.NewPCG(9, 9))
	return func(ctx context.Context, c *Call) error {
		if err := plain(ctx, c); err != nil {
			return err
		}
		size := b.s.D.Info().Bytes
		flip := func(at int) {
			if r.IntN(b.noise) == 0 {
				c.D[at*size] ^= 1
			}
		}
		if c.Wanted == nil {
			for at := range len(c.D) / size {
				flip(at)
			}
		}
		for _, at := range c.Wanted {
			flip((at.Batch*b.s.M+at.Row)*b.s.N + at.Column)
		}
		return nil
	}
}

// differs looks for an element on which two profiles disagree: on many inputs that the discovery has not seen.
func (b *synthetic) differs(t *testing.T, found *profile.Profile, anyNaN bool) string {
	t.Helper()
	s := b.s
	s.Batch = 1
	s.M, s.N = 6, 6
	for seed := range uint64(5) {
		for _, kind := range kinds {
			a, bb := operands(s.A, s.B, kind, seed*31+5000, s.M, s.N, s.K)
			c := &Call{A: a, B: bb, D: make([]byte, s.M*s.N*s.D.Info().Bytes)}
			r := rand.New(rand.NewPCG(seed, 5))
			switch s.Addend {
			case AddendBias:
				c.C, _ = operands(s.C, s.C, "edges", seed, 1, 0, s.N)
			case AddendFull:
				c.C, _ = operands(s.C, s.C, "normal", seed, 1, 0, s.M*s.N)
			}
			switch s.Scaling {
			case profile.ScalingTensor:
				c.ScaleA, c.ScaleB = scales(r, 1), scales(r, 1)
			case profile.ScalingRow:
				c.ScaleA, c.ScaleB = scales(r, s.M), scales(r, s.N)
			}
			if err := gemm.Run(context.Background(), argsOf(&s, c, b.p)); err != nil {
				t.Fatal(err)
			}
			want := slices.Clone(c.D)
			if err := gemm.Run(context.Background(), argsOf(&s, c, found)); err != nil {
				return err.Error()
			}
			size := s.D.Info().Bytes
			for i := range s.M * s.N {
				x, y := load(want[i*size:], size), load(c.D[i*size:], size)
				if x != y && !(anyNaN && isNaN(s.D, x) && isNaN(s.D, y)) {
					return fmt.Sprintf("inputs of kind %s: %#x, not %#x", kind, x, y)
				}
			}
		}
	}
	return b.differsAtTheLeast(t, found)
}

// differsAtTheLeast looks at sums about the least numbers of the box's accumulators, which random inputs hardly have: half of
// the least one and something smaller, in the first two of all k.
func (b *synthetic) differsAtTheLeast(t *testing.T, found *profile.Profile) string {
	t.Helper()
	s := b.s
	if s.K < 2 {
		return ""
	}
	s.Batch, s.M, s.N = 1, 1, 1
	least, _ := reach(b.p.Step.Result, false)
	sizeA, sizeB, sizeD := s.A.Info().Bytes, s.B.Info().Bytes, s.D.Info().Bytes
	for small := least - 30; small < least; small++ {
		for _, large := range []int{least - 1, least, least + 1} {
			for _, signs := range [][2]int64{{1, 1}, {1, -1}, {-1, 1}, {-1, -1}} {
				c := &Call{A: make([]byte, s.K*sizeA), B: make([]byte, s.K*sizeB), D: make([]byte, sizeD)}
				whole := true
				for k, n := range []number{{signs[0] * 3, large - 1}, {signs[1], small}} {
					p := factor{number: n}
					whole = whole && p.split(s.A, s.B)
					cases.Put(c.A[k*sizeA:], sizeA, p.a)
					cases.Put(c.B[k*sizeB:], sizeB, p.b)
				}
				if !whole {
					continue
				}
				switch s.Addend {
				case AddendBias, AddendFull:
					c.C = make([]byte, s.C.Info().Bytes)
				}
				if s.Scaling != profile.ScalingNone {
					c.ScaleA, c.ScaleB = ones(1), ones(1)
				}
				var got [2]uint64
				for i, p := range []*profile.Profile{b.p, found} {
					if err := gemm.Run(context.Background(), argsOf(&s, c, p)); err != nil {
						return err.Error()
					}
					got[i] = load(c.D, sizeD)
				}
				if got[0] != got[1] {
					return fmt.Sprintf("3·2^%d and 2^%d, signs %v: %#x, not %#x", large-1, small, signs, got[0], got[1])
				}
			}
		}
	}
	return ""
}

// Random black boxes are recovered or declined, never certified wrongly.
func TestSyntheticBoxes(t *testing.T) {
	type outcome struct {
		seed, calls, questions int
		seconds                float64
		recovered, wrong       bool
		noisy                  bool
	}
	var outcomes []outcome
	seeds := []int{48, 190, 225, 261, 76, 100} // small ones
	if testing.Short() {
		seeds = seeds[:2]
	}
	if *boxCount > 0 {
		seeds = nil
		for i := range *boxCount {
			seeds = append(seeds, *boxFirst+i)
		}
	}
	for _, seed := range seeds {
		b := randomBox(seed)
		began := time.Now()
		result, err := Run(context.Background(), b.s, b.multiply(), Options{Elements: *boxElements, Seed: uint64(seed)})
		if err != nil {
			t.Errorf("box %d (%s): %v", seed, b.what, err)
			continue
		}
		o := outcome{seed: seed, calls: result.Calls, questions: result.Questions, seconds: time.Since(began).Seconds(), noisy: b.noise > 0}
		if result.Profile != nil {
			why := ""
			if b.noise == 0 {
				why = b.differs(t, result.Profile, false)
			} else {
				why = "a noisy box has a certificate"
			}
			o.recovered, o.wrong = why == "", why != ""
			if o.wrong {
				truth, _ := json.Marshal(b.p)
				t.Errorf("box %d (%s) is certified wrongly: %s\nit is  %s\nfound  %s", seed, b.what, why, truth, result.Profile.JSON())
			}
		}
		if result.Profile == nil && b.noise == 0 {
			if *boxCount == 0 {
				t.Errorf("box %d is not recovered", seed)
			}
			truth, _ := json.Marshal(b.p)
			best := "none"
			if result.Best != nil {
				best = string(result.Best.JSON())
			}
			t.Logf("box %d (%s) declined: %s\nit is  %s\nbest   %s\n%v", seed, b.what, result.Reason, truth, best, result.Findings)
		}
		if result.Profile == nil && result.Reason == "" {
			t.Errorf("box %d (%s): no profile and no reason", seed, b.what)
		}
		outcomes = append(outcomes, o)
		t.Logf("box %d: recovered %v, wrong %v, noisy %v, %d calls, %d questions, %.1f s", seed, o.recovered, o.wrong, o.noisy, o.calls, o.questions, o.seconds)
	}
	recovered, wrong, noisy := 0, 0, 0
	var calls, questions []int
	var seconds []float64
	for _, o := range outcomes {
		if o.noisy {
			noisy++
		}
		if o.recovered {
			recovered++
		}
		if o.wrong {
			wrong++
		}
		calls, questions, seconds = append(calls, o.calls), append(questions, o.questions), append(seconds, o.seconds)
	}
	sort.Ints(calls)
	sort.Ints(questions)
	sort.Float64s(seconds)
	n := len(outcomes)
	if n == 0 {
		return
	}
	t.Logf("%d boxes, %d of them noisy: %d of the others recovered, %d certified wrongly; calls: median %d, most %d; questions: median %d; seconds: median %.2f, most %.1f",
		n, noisy, recovered, wrong, calls[n/2], calls[n-1], questions[n/2], seconds[n/2], seconds[n-1])
}
