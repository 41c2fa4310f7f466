package gemm_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// positions draws places of an output: all over it, in few rows or columns, or one again and again.
func positions(r *rand.Rand, d *gemm.Matrix, count int) []gemm.Position {
	rows, columns := d.Rows, d.Columns
	switch r.IntN(4) {
	case 0:
		rows = min(rows, 1+r.IntN(3))
	case 1:
		columns = min(columns, 1+r.IntN(3))
	}
	at := make([]gemm.Position, count)
	for i := range at {
		if at[i] = (gemm.Position{Batch: r.IntN(d.Batch), Row: r.IntN(rows), Column: r.IntN(columns)}); i > 0 && r.IntN(8) == 0 {
			at[i] = at[r.IntN(i)]
		}
	}
	return at
}

// compare asks for elements of a run in both ways.
func (p *problem) compare(probe *gemm.Probe, args gemm.Args, at []gemm.Position, memory []byte) error {
	values := patterns(memory, args.D.Format)
	for name, get := range map[string]func() ([]uint64, error){
		"Elements":       func() ([]uint64, error) { return gemm.Elements(context.Background(), &args, at) },
		"Probe.Elements": func() ([]uint64, error) { return probe.Elements(context.Background(), args.Profile) },
	} {
		got, err := get()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(got) != len(at) {
			return fmt.Errorf("%s: %d values for %d positions", name, len(got), len(at))
		}
		for i, x := range at {
			if want := values[p.d.index(x.Batch, x.Row, x.Column)]; got[i] != want {
				return fmt.Errorf("%s: element %+v is %#x, want %#x", name, x, got[i], want)
			}
		}
	}
	return nil
}

// TestProbe: elements alone, and of one probe under several plans, some of them at the same time, are those of whole runs
// with these plans; on random problems of every profile, input, layout, plan and epilogue, with sums long enough for
// several strips.
func TestProbe(t *testing.T) {
	count := 2400
	if testing.Short() {
		count = 200
	}
	known := append(runnable(), chains(t)...)
	var plans, serial, folded, scaled atomic.Uint64
	parallel(t, count, func(i int) error {
		r := rand.New(rand.NewPCG(uint64(i), 21))
		p := newProblem(uint64(i)|1<<40, known, restrict{work: pick(r, 2000, 20000, 60000), long: r.IntN(2) == 0})
		d := p.args.D
		if d.Empty() {
			return nil
		}
		level := pick(r, simd.Levels()...)
		if p.args.D.Batch*d.Rows*d.Columns*p.args.A.Columns > 20000 {
			level = pick(r, fastLevels()...)
		}
		at := positions(r, d, 1+r.IntN(40))
		base := p.args
		base.Profile, base.Level = nil, &level
		untouched := *d
		untouched.Data = nil
		base.D = &untouched
		probe, err := gemm.NewProbe(&base, at)
		if err != nil {
			return fmt.Errorf("%v: %w", p, err)
		}
		original := p.args.Profile
		var group sync.WaitGroup
		errs := make([]error, 4)
		for n := range errs {
			prof := *original
			if n > 0 && p.args.Start == nil && !isSerial(&prof.Plan) {
				for prof.Plan = randomPlan(r, prof.Step, p.args.A.Columns); isSerial(&prof.Plan); {
					prof.Plan = randomPlan(r, prof.Step, p.args.A.Columns)
				}
			}
			// The step's constants, and whether alpha is multiplied into A, may change from one candidate to the next too.
			if n > 1 {
				if step := otherConstants(r, prof.Step); step.TakesF32() == prof.Step.TakesF32() {
					prof.Step = step
				}
				if p.args.C == nil && takesAlphaInA(prof.Step) && !isSerial(&prof.Plan) {
					prof.Epilogue.Form = pick(r, profile.FormAlphaInA, profile.FormAlphaInB, profile.FormFMAAlpha)
				}
			}
			p.args.Profile = &prof
			memory, err := p.run(level)
			if err != nil {
				return fmt.Errorf("%v: %v: %w", p, level, err)
			}
			plans.Add(1)
			if isSerial(&prof.Plan) {
				serial.Add(1)
			}
			if prof.Plan.Lanes != nil {
				folded.Add(1)
			}
			if prof.Epilogue.Form.InOperand() && p.args.Alpha != 1 {
				scaled.Add(1)
			}
			args := base
			args.Profile = &prof
			group.Add(1)
			go func() {
				defer group.Done()
				if err := p.compare(probe, args, at, memory); err != nil {
					errs[n] = fmt.Errorf("%v: %v: plan %s: %w", p, level, prof.Plan.Describe(), err)
				}
			}()
		}
		group.Wait()
		return errors.Join(errs...)
	})
	t.Logf("%d plans, of them %d serial, %d of lanes, %d with alpha in A", plans.Load(), serial.Load(), folded.Load(), scaled.Load())
	if serial.Load() == 0 || folded.Load() == 0 || scaled.Load() == 0 {
		t.Error("a kind of plan did not occur")
	}
}

// manyLanes is a plan whose leaves are many for its products, so that elements are walked one by one.
func manyLanes(r *rand.Rand, s step.Params, k int) plan.Plan {
	of := plan.Plain()
	if r.IntN(2) == 0 {
		of = plan.Tiled(pick(r, plan.ResidueFirst, plan.ResidueLast), pick(r, 2, 3, 4, 8))
	}
	lanes := pick(r, 16, 32, 64, 128)
	folds := pick(r, plan.CountDown(lanes), plan.Neighbours(lanes), plan.Forward())
	p := plan.Dealt(lanes, pick(r, 1, 1, 2, 3), of, folds, randomMerge(r, s))
	if r.IntN(5) == 0 {
		p = plan.SerialK(1+r.IntN(4), pick(r, 1, 8), p)
	}
	return p
}

// chains are f32 chains of each format of operands.
func chains(t testing.TB) (list []*profile.Profile) {
	for _, a := range []format.Format{format.F32, format.F16, format.BF16} {
		p := *load(t, "hopper/f32", plan.Plain(), format.F32)
		p.Step.A, p.Step.B = a, a
		list = append(list, &p)
	}
	return list
}

// TestManyLanes: the paths for trees of many short chains give the scalar model's bits, and the reference's.
func TestManyLanes(t *testing.T) {
	count := 3000
	if testing.Short() {
		count = 800
	}
	known := append(chains(t), load(t, "hopper/f64", plan.Plain(), format.F64))
	parallel(t, count, func(i int) error {
		r := rand.New(rand.NewPCG(uint64(i), 23))
		limit := restrict{work: 400, plan: manyLanes}
		if r.IntN(3) == 0 {
			limit.kind = "mixed" // NaNs meet each other
		}
		p := newProblem(uint64(i)|1<<41, known, limit)
		want, err := p.run(simd.Oracle)
		if err != nil {
			return fmt.Errorf("%v: oracle: %w", p, err)
		}
		if err := p.againstReference(want); err != nil {
			return fmt.Errorf("%v: oracle against the reference: %w", p, err)
		}
		for _, level := range fastLevels() {
			got, err := p.run(level)
			if err != nil {
				return fmt.Errorf("%v: %v: %w", p, level, err)
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("%v: %v against the oracle: %s", p, level, p.difference(got, want))
			}
			if err := p.elementsAgree(level, want); err != nil {
				return fmt.Errorf("%v: %v: Elements: %w", p, level, err)
			}
		}
		return nil
	})
}

// TestDoubtfulSums: an f32 fused multiply-add whose f64 sum is a tie of f32 neighbours, or lies among the subnormals, is
// rounded once.
func TestDoubtfulSums(t *testing.T) {
	p := load(t, "hopper/f32", plan.Dealt(64, 1, plan.Plain(), plan.CountDown(64), plan.In(format.F32)), format.F32)
	r := rand.New(rand.NewPCG(33, 33))
	const n, k = 400, 65 // lane 0 holds two products
	a, b := make([]uint64, 2*k), make([]uint64, k*n)
	for i := range n {
		// In even columns (with row 0) a normal number, in odd ones (with row 1) a subnormal, and half a unit in its last
		// place or 2^-46 of that more or less, which is more than an f64 holds.
		half, x := math.Ldexp(1+float64(r.IntN(1<<23))/(1<<23), r.IntN(60)-30), 0.
		half, x = math.Ldexp(1, math.Ilogb(half)-24), half
		if i%2 == 1 {
			half, x = 0x1p-75, math.Ldexp(float64(r.IntN(1<<24)), -149)
		}
		b[i], b[64*n+i] = f32bits(float32(x)), f32bits(float32(half*pick(r, 1, 1+0x1p-23, -1, -1-0x1p-23)))
	}
	for i := range a {
		a[i] = f32bits(1)
	}
	for _, factor := range []float32{1, 1 - 0x1p-23, 0.5} {
		a[64], a[k+64] = f32bits(factor), f32bits(factor*0x1p-75)
		x, y := dense(format.F32, a, 2, k), dense(format.F32, b, k, n)
		whole := run(t, simd.Oracle, p, x, y, nil)
		for _, level := range fastLevels() {
			if got := run(t, level, p, x, y, nil); !slices.Equal(got, whole) {
				t.Fatalf("%v gives other bits than the oracle, factor %g", level, factor)
			}
		}
		// And one by one.
		args := gemm.Args{Profile: p, A: x, B: y, Alpha: 1, Beta: 1, D: &gemm.Matrix{Format: format.F32, Batch: 1, Rows: 2, Columns: n}}
		for i, want := range patterns(whole, format.F32) {
			got, err := gemm.Elements(context.Background(), &args, []gemm.Position{{Row: i / n, Column: i % n}})
			if err != nil {
				t.Fatal(err)
			}
			if got[0] != want {
				t.Fatalf("element (%d, %d), factor %g: %#x, want %#x", i/n, i%n, factor, got[0], want)
			}
		}
	}
}

// TestVanishingLanes: lanes of products that round to -0 keep or lose the sign as padding and merges say.
func TestVanishingLanes(t *testing.T) {
	signs := map[uint64]int{}
	for _, name := range []string{"hopper/f32", "hopper/f64"} {
		base := load(t, name, plan.Plain(), format.F32)
		f := base.Step.Result
		for _, of := range []plan.Plan{plan.Plain(), plan.Tiled(plan.ResidueLast, 2), plan.Tiled(plan.ResidueFirst, 3)} {
			for _, zero := range []bool{false, true} {
				merge := plan.In(f)
				merge.FromZero = zero
				p := load(t, name, plan.Dealt(128, 1, of, plan.CountDown(128), merge), f)
				small := f32bits(-0x1p-120)
				if f == format.F64 {
					small = f64bits(-0x1p-900)
				}
				list := slices.Repeat([]uint64{small}, 128)
				a := dense(f, list, 1, 128)
				for i := range list {
					list[i] ^= 1 << (f.Info().Bits - 1)
				}
				b := dense(f, list, 128, 1)
				want := run(t, simd.Oracle, p, a, b, nil)
				signs[patterns(want, f)[0]]++
				args := gemm.Args{Profile: p, A: a, B: b, Alpha: 1, Beta: 1, D: &gemm.Matrix{Format: f, Batch: 1, Rows: 1, Columns: 1}}
				got, err := gemm.Elements(context.Background(), &args, []gemm.Position{{}})
				if err != nil || got[0] != patterns(want, f)[0] {
					t.Errorf("%s, %s, from zero %v: %#x, %v, want %x", name, of.Describe(), zero, got, err, want)
				}
				for _, level := range fastLevels() {
					if got := run(t, level, p, a, b, nil); !slices.Equal(got, want) {
						t.Errorf("%s, %s, from zero %v: %v gives %x, want %x", name, of.Describe(), zero, level, got, want)
					}
				}
			}
		}
	}
	if signs[0] != 10 || len(signs) != 3 {
		t.Errorf("the zeros are %v: want -0 in each format where nothing pads and merges do not start from zero", signs)
	}
}

// TestProbeTF32: whether f32 operands hold tf32 alone is asked of the whole operand, once.
func TestProbeTF32(t *testing.T) {
	p := *load(t, "hopper/tf32", plan.Plain(), format.F32)
	p.Step.InputRounding = ""
	values := []uint64{f32bits(1), f32bits(2), f32bits(1.5), f32bits(3)}
	args := gemm.Args{A: dense(format.F32, values, 2, 2), B: dense(format.F32, values, 2, 2), Alpha: 1, Beta: 1,
		D: &gemm.Matrix{Format: format.F32, Batch: 1, Rows: 2, Columns: 2}}
	probe, err := gemm.NewProbe(&args, []gemm.Position{{Row: 1, Column: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := probe.Elements(context.Background(), &p); err != nil || got[0] != f32bits(1.5*2+3*3) {
			t.Errorf("%x, %v", got, err)
		}
	}
	values[0]++ // in a row and a column that the element does not need
	args.A = dense(format.F32, values, 2, 2)
	if probe, err = gemm.NewProbe(&args, []gemm.Position{{Row: 1, Column: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := probe.Elements(context.Background(), &p); err == nil || !strings.Contains(err.Error(), "is not known: round it yourself") {
		t.Errorf("an operand that is not tf32: %v", err)
	}
}

// TestDotSums: a tree of thousands of leaves of a few k, of which some lanes have none, gives the scalar model's bits for
// outputs of few elements, alone and in rows.
func TestDotSums(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 31))
	for _, name := range []string{"hopper/f32", "hopper/f64"} {
		for _, c := range []struct{ blocks, vector, k, m, n, batch int }{{56, 2, 5000, 1, 1, 1}, {8, 1, 1300, 1, 7, 2}, {3, 2, 2049, 5, 1, 1}, {56, 2, 33, 1, 3, 1}} {
			base := load(t, name, plan.Plain(), format.F32)
			result := base.Step.Result
			p := load(t, name, plan.Dot(c.blocks, c.vector, plan.In(result)), result)
			for _, kind := range []string{"normal", "mixed"} {
				a, b := operandsOf(r, p, kind, c.batch, c.m, c.n, c.k)
				want := run(t, simd.Oracle, p, a, b, nil)
				for _, level := range fastLevels() {
					for _, threads := range []int{1, 3} {
						if got := run(t, level, p, a, b, func(x *gemm.Args) { x.Threads = threads }); !slices.Equal(got, want) {
							t.Errorf("%s %+v %s: %v gives other bits than the oracle", name, c, kind, level)
						}
					}
				}
			}
		}
	}
}

// TestSerialRefusals: what is not known of serial sums and of alpha in A is refused.
func TestSerialRefusals(t *testing.T) {
	serial := func(a *gemm.Args) {
		p := *a.Profile
		p.Plan = plan.SerialK(2, 1, plan.Plain())
		a.Profile = &p
	}
	for _, c := range []struct {
		name, message string
		change        func(*gemm.Args)
	}{
		{"alpha", "how alpha enters the further slices of a serial sum", func(a *gemm.Args) {
			serial(a)
			a.Alpha = 0.5
		}},
		{"start", "start goes with a plan of one accumulator", func(a *gemm.Args) {
			serial(a)
			a.Start = gemm.Dense(alignedBytes(4*2*3*5), format.F32, 2, 3, 5)
		}},
		{"alpha in A of a tensor core", "alpha-in-a goes with a chain", func(a *gemm.Args) {
			p := *a.Profile
			p.Epilogue.Form = profile.FormAlphaInA
			a.Profile = &p
		}},
		{"alpha in narrow elements", "how alpha is multiplied into elements of e4m3 is not known", func(a *gemm.Args) {
			p := *a.Profile
			p.Step = step.Params{Kind: step.FMA, A: format.E4M3, B: format.BF16, Group: 1, Result: format.F32, ResultRounding: format.NearestEven, ZeroSign: step.IEEEZero}
			p.Epilogue.Form = profile.FormAlphaInA
			a.Profile, a.A.Format, a.Alpha = &p, format.E4M3, 0.5
		}},
	} {
		args := valid(t)
		c.change(args)
		_, elements := gemm.Elements(context.Background(), args, []gemm.Position{{}})
		for name, err := range map[string]error{"Run": gemm.Run(context.Background(), args), "Elements": elements} {
			var refusal *gemm.Error
			if !errors.As(err, &refusal) || !strings.Contains(err.Error(), c.message) {
				t.Errorf("%s: %s says %v, want %q", c.name, name, err, c.message)
			}
		}
	}
}

// TestProbeCancelled: a context ends a probe's long work within the tile it is at.
func TestProbeCancelled(t *testing.T) {
	const k = 1 << 22
	p := load(t, "hopper/f32", plan.Plain(), format.F32)
	line := alignedBytes(4)
	// One element in memory, read k times.
	a := &gemm.Matrix{Data: gemm.Dense(line, format.F32, 1, 1, 1).Data, Format: format.F32, Batch: 1, Rows: 1, Columns: k}
	b := *a
	b.Rows, b.Columns = k, 1
	args := gemm.Args{Profile: p, A: a, B: &b, Alpha: 1, Beta: 1, D: &gemm.Matrix{Format: format.F32, Batch: 1, Rows: 1, Columns: 1}}
	probe, err := gemm.NewProbe(&args, []gemm.Position{{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := probe.Elements(context.Background(), p); err != nil { // gathers
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	reason := errors.New("enough")
	cancel(reason)
	if _, err := probe.Elements(ctx, p); !errors.Is(err, reason) {
		t.Errorf("cancelled before: %v", err)
	}
	ctx, cancel = context.WithCancelCause(context.Background())
	time.AfterFunc(time.Millisecond, func() { cancel(reason) })
	slow := simd.Oracle
	args.Level = &slow
	if probe, err = gemm.NewProbe(&args, []gemm.Position{{}}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if _, err := probe.Elements(ctx, p); !errors.Is(err, reason) {
		t.Errorf("cancelled midway: %v", err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("a cancelled probe went on for %v", took)
	}
}

// TestProbeForms: strips of A that alpha has been multiplied into are not taken for those of A, nor the other way round.
func TestProbeForms(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 35))
	p := load(t, "hopper/f32", plan.Plain(), format.F32)
	a, b := operandsOf(r, p, "normal", 1, 4, 4, 600)
	args := gemm.Args{A: a, B: b, Alpha: 0.3, Beta: 1, D: &gemm.Matrix{Format: format.F32, Batch: 1, Rows: 4, Columns: 4}}
	at := []gemm.Position{{Row: 0, Column: 1}, {Row: 1, Column: 3}, {Row: 3, Column: 3}}
	probe, err := gemm.NewProbe(&args, at)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []profile.Form{profile.FormFMAAlpha, profile.FormAlphaInA, profile.FormAlphaInB, profile.FormFMAAlpha, profile.FormAlphaInA, profile.FormAlphaInB} {
		p := *p
		p.Epilogue.Form = form
		whole := patterns(run(t, simd.Oracle, &p, a, b, func(x *gemm.Args) { x.Alpha = args.Alpha }), format.F32)
		got, err := probe.Elements(context.Background(), &p)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range at {
			if got[i] != whole[4*x.Row+x.Column] {
				t.Errorf("%s: %+v is %#x, want %#x", form, x, got[i], whole[4*x.Row+x.Column])
			}
		}
	}
}

// TestProbeRefuses: a probe refuses what Elements refuses, and a profile for other operands.
func TestProbeRefuses(t *testing.T) {
	args := valid(t)
	if _, err := gemm.NewProbe(args, []gemm.Position{{Row: 3}}); err == nil || !strings.Contains(err.Error(), "at[0] is (0, 3, 0)") {
		t.Errorf("a place outside: %v", err)
	}
	probe, err := gemm.NewProbe(args, nil)
	if err != nil {
		t.Fatal(err)
	}
	if values, err := probe.Elements(context.Background(), args.Profile); err != nil || len(values) != 0 {
		t.Errorf("no places: %v, %v", values, err)
	}
	if _, err := probe.Elements(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "profile is missing") {
		t.Errorf("no profile: %v", err)
	}
	if _, err := probe.Elements(context.Background(), load(t, "hopper/f16", plan.Plain(), format.BF16)); err == nil || !strings.Contains(err.Error(), "a is bf16") {
		t.Errorf("a profile of f16: %v", err)
	}
}
