package gemm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// A wrong constant must show through the whole of gemm, at every instruction set: a path that ignored it would give the
// bits of the right one. (Package step tests the same of its scalar model.)

// mutant is one wrong constant of a step.
type mutant struct {
	name  string
	apply func(*step.Params)
	// exists says which steps have such a constant; nil: all that align.
	exists func(step.Params) bool
	// blind says of which steps no operands can show the difference.
	blind func(step.Params) bool
	// kernels: the kernels take the constant as an argument; the inputs that show it must be ones they accept.
	kernels bool
}

func fused(p step.Params) bool { return p.Kind == step.Fused }

func wideRange(p step.Params) bool { return p.A.Info().MinExponent < -100 }

// coarse: every product is a multiple of the unit that the floor cuts at.
func coarse(p step.Params) bool {
	return 2*(p.A.Info().MinExponent-p.A.Info().MantissaBits) > *p.Floor-p.Fraction
}

// uncut: with operands this narrow and an f16 accumulator no cut ever reaches the result.
func uncut(p step.Params) bool {
	return p.Result == format.F16 && p.Fraction == 25 && p.A.Info().MinExponent-p.A.Info().MantissaBits > -8
}

// shallow: no product lies below 2^-25, nor a last place of the accumulator.
func shallow(p step.Params) bool {
	return p.Result == format.F16 && p.Fraction >= 24 && 2*(p.A.Info().MinExponent-p.A.Info().MantissaBits) > -24
}

var mutants = []mutant{
	{name: "F + 1", apply: func(p *step.Params) { p.Fraction++ }, blind: uncut, kernels: true},
	{name: "F - 1", apply: func(p *step.Params) { p.Fraction-- }, blind: uncut, kernels: true},
	{name: "G halved", apply: func(p *step.Params) { p.Group /= 2 }, exists: fused, kernels: true},
	{name: "G doubled", apply: func(p *step.Params) { p.Group *= 2 }, exists: fused, kernels: true},
	{name: "RNE for RZ", apply: func(p *step.Params) { p.ResultRounding = format.NearestEven },
		exists: func(p step.Params) bool { return p.ResultRounding == format.TowardZero }},
	{name: "RZ for RNE", apply: func(p *step.Params) { p.ResultRounding = format.TowardZero },
		exists: func(p step.Params) bool { return p.ResultRounding == format.NearestEven && p.Kind != step.Integer }},
	{name: "floor + 1", apply: func(p *step.Params) { floor := *p.Floor + 1; p.Floor = &floor }, exists: hasFloor, blind: coarse},
	{name: "floor - 1", apply: func(p *step.Params) { floor := *p.Floor - 1; p.Floor = &floor }, exists: hasFloor, blind: coarse},
	{name: "no floor", apply: func(p *step.Params) { p.Floor = nil }, exists: hasFloor, blind: coarse},
	{name: "a floor of 0", apply: func(p *step.Params) { floor := 0; p.Floor = &floor }, exists: fused, blind: shallow},
	{name: "one fraction bit fewer", apply: func(p *step.Params) {
		if p.ResultFraction == 0 {
			p.ResultFraction = p.Result.Info().MantissaBits
		}
		p.ResultFraction--
	}, exists: func(p step.Params) bool { return p.Kind == step.Fused || p.Kind == step.FMA }, kernels: true},
	{name: "one fraction bit more", apply: func(p *step.Params) { p.ResultFraction++ },
		exists: func(p step.Params) bool { return p.ResultFraction > 0 }},
	{name: "the sign of a zero, of a rounded sum", apply: func(p *step.Params) { p.ZeroSign = step.SumZero },
		exists: func(p step.Params) bool { return p.ZeroSign == step.PositiveZero && fused(p) },
		blind: func(p step.Params) bool {
			a, b := p.A.Info(), p.B.Info()
			return p.Result == format.F32 && !wideRange(p) ||
				p.Result == format.F16 && a.MinExponent-a.MantissaBits+b.MinExponent-b.MantissaBits > -25
		}},
	{name: "the sign of a zero, of an FMA", apply: func(p *step.Params) { p.ZeroSign = step.PositiveZero },
		exists: func(p step.Params) bool { return p.ZeroSign == step.IEEEZero },
		blind:  func(p step.Params) bool { return !wideRange(p) }}, // no product underflows, and chains start at +0
	{name: "alignment to nearest", apply: func(p *step.Params) { p.Align = format.NearestEven }, exists: fused, blind: uncut},
	{name: "alignment down", apply: func(p *step.Params) { p.Align = format.Down }, exists: fused, blind: uncut},
	{name: "normalised terms", apply: func(p *step.Params) { p.NormalisedTerms = true }, exists: fused, blind: uncut},
	{name: "subnormal operands flushed", apply: func(p *step.Params) { p.FlushInputs = true },
		exists: func(p step.Params) bool { return p.Kind == step.Fused || p.Kind == step.FMA }},
	{name: "overflow saturates", apply: func(p *step.Params) { p.Overflow = format.Saturate },
		exists: func(p step.Params) bool { return p.Kind == step.Fused || p.Kind == step.FMA },
		blind:  func(p step.Params) bool { return p.Result == format.F32 && !wideRange(p) }},
	{name: "tf32 operands cut", apply: func(p *step.Params) { p.InputRounding = format.TowardZero },
		exists: func(p step.Params) bool { return p.InputRounding == format.NearestEven }},
	{name: "tf32 operands away from ties", apply: func(p *step.Params) { p.InputRounding = format.NearestAway },
		exists: func(p step.Params) bool { return p.InputRounding == format.NearestEven }},
}

func hasFloor(p step.Params) bool { return p.Floor != nil && p.Kind == step.Fused }

// adversarial makes A (m × k) and B (k × n) in which the constants of p show. round 0 is ordinary numbers, which the
// kernels accept.
func adversarial(r *rand.Rand, p step.Params, stored format.Format, round, m, n, k int) (a, b []uint64) {
	kinds := []string{"ordinary", "aimed", "cancelling", "floor", "edge", "least", "window", "extreme", "mixed", "zeros", "ones", "powers"}
	kind := kinds[round%len(kinds)]
	info := stored.Info()
	switch kind {
	case "ordinary", "cancelling":
		if slices.Contains(recipeFormats, stored) {
			return makeInputs(r, stored, stored, map[string]string{"ordinary": "normal", "cancelling": "cancel"}[kind], 1, m, n, k)
		}
		a, b = handMadeElements(r, stored, "finite", m*k), handMadeElements(r, stored, "finite", k*n)
		if kind == "cancelling" { // each product and its negative, so that the accumulator shows what was cut from it
			for i := 1; i < k; i += 2 {
				for row := range m {
					a[row*k+i] = a[row*k+i-1]
				}
				for column := range n {
					b[i*n+column] = b[(i-1)*n+column] ^ 1<<(info.Bits-1)
				}
			}
		}
		return a, b
	case "edge":
		return edge(r, p, stored, m, n, k)
	case "least":
		a, b = make([]uint64, m*k), make([]uint64, k*n)
		for _, list := range [][]uint64{a, b} {
			for i := range list {
				list[i] = compose(stored, r.IntN(2) == 0, info.MinExponent-1+r.IntN(3), r.Uint64()&(1<<info.MantissaBits-1))
			}
		}
		if r.IntN(2) == 0 { // or a single product, of the least numbers
			for i := range a {
				a[i] = compose(stored, r.IntN(2) == 0, info.MinExponent-1, uint64(i%k/(k-1)))
			}
			for column := range n {
				b[(k-1)*n+column] = compose(stored, r.IntN(2) == 0, info.MinExponent-1, 1)
			}
		}
		return a, b
	case "aimed", "floor":
		return aimed(r, p, stored, kind == "floor", m, n, k)
	}
	return handMadeElements(r, stored, kind, m*k), handMadeElements(r, stored, kind, k*n)
}

// aimed makes products of one exponent for each k: a pair of large ones that cancel, and others about F lower, which the
// cut reaches; or, at the floor, products whose last places lie below 2^(floor-F), in sums of a few units in the last
// place of the result.
func aimed(r *rand.Rand, p step.Params, stored format.Format, floor bool, m, n, k int) (a, b []uint64) {
	info := stored.Info()
	least := 2 * (info.MinExponent - info.MantissaBits)
	top := min(2*info.MaxExponent, least+p.Fraction+r.IntN(12))
	if r.IntN(2) == 0 {
		top = min(2*info.MaxExponent, r.IntN(10))
	}
	exponents := make([]int, k)
	for i := range k {
		switch {
		case floor && p.Floor != nil:
			exponents[i] = *p.Floor + 2 - r.IntN(37)
		case i%8 < 2:
			exponents[i] = top
		default:
			exponents[i] = top - p.Fraction + r.IntN(8) - 2
		}
	}
	a, b = make([]uint64, m*k), make([]uint64, k*n)
	for i, e := range exponents {
		ea := max(info.MinExponent-1, min(info.MaxExponent, e/2+r.IntN(9)-4))
		eb := max(info.MinExponent-1, min(info.MaxExponent, e-ea))
		ea = max(info.MinExponent-1, min(info.MaxExponent, e-eb))
		for row := range m {
			a[row*k+i] = compose(stored, r.IntN(2) == 0, ea, r.Uint64()&(1<<info.MantissaBits-1))
			if !floor && i%8 == 1 {
				a[row*k+i] = a[row*k+i-1]
			}
		}
		for column := range n {
			b[i*n+column] = compose(stored, r.IntN(2) == 0, eb, r.Uint64()&(1<<info.MantissaBits-1))
			if !floor && i%8 == 1 {
				b[i*n+column] = b[(i-1)*n+column] ^ 1<<(info.Bits-1)
			}
		}
	}
	return a, b
}

// edge makes one group whose sum stands at the least result but for a last place of 2^(floor-F): in some columns that
// place is a product of its own, in others half of it, which is cut. So the floor shows, by one either way.
func edge(r *rand.Rand, p step.Params, stored format.Format, m, n, k int) (a, b []uint64) {
	a, b = make([]uint64, m*k), make([]uint64, k*n)
	if p.Floor == nil {
		return a, b
	}
	info, kept := stored.Info(), p.Result.Info()
	last := *p.Floor - p.Fraction
	least := kept.MinExponent - kept.MantissaBits
	type power struct{ exponent, ones int } // (1 + 1/2 + …, so many ones)·2^exponent
	kept0, cut := power{last, 1}, power{last - 1, 1}
	first := power{least - 1, 1} // a tie
	terms := [][]power{{first, kept0}, {first, cut}}
	if p.ResultRounding == format.TowardZero {
		first = power{least - 1, least - last - 1} // one unit of 2·2^last short
		terms = [][]power{{first, kept0, kept0}, {first, kept0, cut, cut}}
	}
	if first.ones-1 > info.MantissaBits || first.ones < 1 {
		return a, b // the format has no such number, and the floor does not show
	}
	// The exponents are shared out between A, which is the same for all columns, and B.
	half := []int{(least - 1) / 2, last / 2, last / 2, last / 2}
	at := (k - 1) / p.Group * p.Group // the last group, so that the sign of a result of zero lasts
	for row := range m {
		a[row*k+at] = compose(stored, false, half[0], (1<<(first.ones-1)-1)<<(info.MantissaBits-first.ones+1))
		for i := 1; i < len(half); i++ {
			a[row*k+at+i] = powerOf(stored, false, half[i])
		}
	}
	for column := range n {
		negative := r.IntN(2) == 0
		for i, t := range terms[column%2] {
			b[(at+i)*n+column] = powerOf(stored, negative, t.exponent-half[i])
		}
	}
	return a, b
}

// powerOf is ±2^e, a subnormal where it must be.
func powerOf(f format.Format, negative bool, e int) uint64 {
	info := f.Info()
	if e >= info.MinExponent {
		return compose(f, negative, e, 0)
	}
	if below := info.MinExponent - e; below <= info.MantissaBits {
		return compose(f, negative, info.MinExponent-1, 1<<(info.MantissaBits-below))
	}
	return f.Zero(negative)
}

func TestMutationsThroughKernels(t *testing.T) {
	const m, n, k = 3, 17, 72
	var caught, blind atomic.Int64
	type job struct {
		p *profile.Profile
		m mutant
	}
	var jobs []job
	steps := map[string]bool{}
	for _, p := range runnable() {
		if testing.Short() && !strings.HasPrefix(p.Name, "hopper/") {
			continue
		}
		text, err := json.Marshal(p.Step)
		if err != nil {
			t.Fatal(err)
		}
		if steps[string(text)] {
			continue // the step again, on another architecture or under another plan
		}
		steps[string(text)] = true
		for _, mutant := range mutants {
			exists := mutant.exists
			if exists == nil {
				exists = fused
			}
			if exists(p.Step) {
				jobs = append(jobs, job{p, mutant})
			}
		}
	}
	levels := slices.DeleteFunc(simd.Levels(), func(l simd.Level) bool { return l == simd.Oracle })
	parallel(t, len(jobs), func(i int) error {
		p, mutant := jobs[i].p, jobs[i].m
		right := *p
		right.Plan = plan.Plain()
		right.Epilogue = profile.Epilogue{Out: p.Step.Result, Form: profile.FormAdd}
		wrong := right
		mutant.apply(&wrong.Step)
		if err := wrong.Step.Validate(); err != nil {
			return fmt.Errorf("%s, %s: no step: %w", p.Name, mutant.name, err)
		}
		stored := [2]format.Format{right.Step.A, right.Step.B}
		if right.TakesF32() {
			stored = [2]format.Format{format.F32, format.F32}
		}
		rounds := 120
		isBlind := mutant.blind != nil && mutant.blind(p.Step)
		if isBlind {
			rounds = 24
		}
		for round := range rounds {
			r := rand.New(rand.NewPCG(uint64(round), 11))
			a, b := adversarial(r, right.Step, stored[0], round, m, n, k)
			if stored[1] != stored[0] {
				_, b = adversarial(rand.New(rand.NewPCG(uint64(round), 11)), right.Step, stored[1], round, m, n, k)
			}
			var start []uint64
			if round/12%2 == 1 { // after all kinds without
				start = starts(r, right.Step, m*n)
			}
			seen := 0
			for _, level := range levels {
				if !bytes.Equal(plainRun(&right, level, stored, a, b, start, m, n, k), plainRun(&wrong, level, stored, a, b, start, m, n, k)) {
					seen++
				}
			}
			switch {
			case seen > 0 && isBlind:
				return fmt.Errorf("%s: mutant %q cannot be seen, yet inputs of round %d show it", p.Name, mutant.name, round)
			case seen > 0 && seen < len(levels):
				return fmt.Errorf("%s: mutant %q shows at %d of %v on inputs of round %d", p.Name, mutant.name, seen, levels, round)
			case seen > 0:
				if mutant.kernels && kernelShape(right.Step) && kernelShape(wrong.Step) && !kernelsAccept(levels, stored, &right.Step, a, b, start, m, n, k) {
					continue // shown by another path than the kernels': look further
				}
				caught.Add(1)
				return nil
			}
		}
		if isBlind {
			blind.Add(1)
			return nil
		}
		return fmt.Errorf("%s: mutant %q survives", p.Name, mutant.name)
	})
	if !t.Failed() {
		t.Logf("%d wrong constants of %d steps caught at each of %v, %d invisible to any operands", caught.Load(), len(steps), levels, blind.Load())
	}
}

// starts makes accumulators against which products stand F bits lower, where there are such.
func starts(r *rand.Rand, p step.Params, count int) []uint64 {
	list := handMadeElements(r, p.Result, "finite", count)
	if p.Kind != step.Fused {
		return list
	}
	info := p.Result.Info()
	aims := []int{
		2*(p.A.Info().MinExponent-p.A.Info().MantissaBits) + p.Fraction, // the least product stands F lower
		p.Fraction - 4,   // one of 1 does, about
		0,                // beside the products
		-30,              // below them
		info.MaxExponent, // about to overflow
	}
	if r.IntN(2) == 0 { // which the kernels accept
		aims = aims[:3]
	}
	for i := range list {
		e := max(info.MinExponent, min(info.MaxExponent, aims[i%len(aims)]+r.IntN(12)-5))
		list[i] = compose(p.Result, r.IntN(2) == 0, e, r.Uint64()&(1<<info.MantissaBits-1))
	}
	return list
}

// plainRun is A·B with dense operands, its accumulators starting at start or at zero.
func plainRun(p *profile.Profile, level simd.Level, stored [2]format.Format, a, b, start []uint64, m, n, k int) []byte {
	out := alignedBytes(m * n * p.Epilogue.Out.Bytes())
	args := gemm.Args{Profile: p, A: dense(stored[0], a, m, k), B: dense(stored[1], b, k, n), D: gemm.Dense(out, p.Epilogue.Out, 1, m, n), Alpha: 1, Beta: 1, Threads: 1, Level: &level}
	if start != nil {
		args.Start = dense(p.Step.Result, start, m, n)
	}
	if err := gemm.Run(context.Background(), &args); err != nil {
		panic(err)
	}
	return out
}

// dense packs row-major bit patterns.
func dense(f format.Format, values []uint64, rows, columns int) *gemm.Matrix {
	memory := alignedBytes(len(values) * f.Bytes())
	for i, v := range values {
		putBits(memory, f.Bytes(), i, v)
	}
	return gemm.Dense(memory, f, 1, rows, columns)
}

func shapeOf(p *step.Params) simd.FusedShape {
	shape := simd.FusedShape{Group: p.Group, Fraction: p.Fraction, ResultFraction: p.ResultFraction}
	if shape.ResultFraction == 0 {
		shape.ResultFraction = p.Result.Info().MantissaBits
	}
	return shape
}

// kernelShape tells whether the kernels know the step's constants.
func kernelShape(p step.Params) bool {
	return p.Kind == step.Fused && p.Result == format.F32 && p.Fraction >= shapeOf(&p).ResultFraction && simd.FusedSupports(p.A, p.B, shapeOf(&p))
}

// kernelsAccept tells whether the kernels of all levels take the first tile of these operands.
func kernelsAccept(levels []simd.Level, stored [2]format.Format, p *step.Params, a, b, start []uint64, m, n, k int) bool {
	for _, level := range levels {
		f, shape := simd.FusedKernel(level), shapeOf(p)
		rows, columns := min(m, f.MR), min(n, f.NR)
		x, y := dense(stored[0], a, m, k), dense(stored[1], b, k, n)
		source := func(m *gemm.Matrix, as format.Format, lanes, laneStride, kStride int) *simd.Source {
			return &simd.Source{Pointer: m.Data, Format: m.Format, As: as, InputRounding: p.InputRounding, Lanes: lanes, K: k, LaneStride: laneStride, KStride: kStride}
		}
		var pa, pb simd.FusedPanel
		f.PackA(&pa, source(x, p.A, rows, k, 1), shape)
		f.PackB(&pb, source(y, p.B, columns, 1, n), shape)
		c := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(alignedBytes(4*f.MR*f.NR)))), f.MR*f.NR)
		for i, v := range start {
			if row, column := i/n, i%n; row < rows && column < columns {
				c[row*f.NR+column] = math.Float32frombits(uint32(v))
			}
		}
		if !f.Run(c, f.NR, &pa, &pb, shape) {
			return false
		}
	}
	return true
}

// TestPlanAndEpilogueMutations: another order of sums, another merge and another epilogue give other bits, at every level.
func TestPlanAndEpilogueMutations(t *testing.T) {
	const m, n, k = 9, 33, 200
	bf16, err := profile.Load("hopper/bf16")
	if err != nil {
		t.Fatal(err)
	}
	half, err := profile.Load("hopper/f16-f16")
	if err != nil {
		t.Fatal(err)
	}
	chain, err := profile.Load("hopper/f32")
	if err != nil {
		t.Fatal(err)
	}
	f16 := profile.Profile{SchemaVersion: 1, Step: half.Step}
	split := func(slices, grain int, workspace, sum format.Format) plan.Plan {
		return plan.SplitK(slices, grain, plan.Plain(), workspace, sum)
	}
	for _, c := range []struct {
		name         string
		base         *profile.Profile
		right, wrong plan.Plan
		other        profile.Form // of wrong; right's is add
	}{
		{"plain, residue first", bf16, plan.Plain(), plan.Tiled(plan.ResidueFirst, 32), ""},
		{"plain, residue last in tiles of 28", bf16, plan.Plain(), plan.Tiled(plan.ResidueLast, 28), ""},
		{"tile 32, tile 64", bf16, plan.Tiled(plan.ResidueFirst, 32), plan.Tiled(plan.ResidueFirst, 128), ""},
		{"3 slices, 4 slices", bf16, split(3, 8, format.F32, format.F32), split(4, 8, format.F32, format.F32), ""},
		{"grain 8, grain 64", bf16, split(3, 8, format.F32, format.F32), split(3, 64, format.F32, format.F32), ""},
		{"workspace f32, bf16", bf16, split(3, 8, format.F32, format.F32), split(3, 8, format.BF16, format.F32), ""},
		{"workspace bf16, f16", bf16, split(3, 8, format.BF16, format.F32), split(3, 8, format.F16, format.F32), ""},
		{"sum f32, f16", &f16, split(3, 8, format.F32, format.F32), split(3, 8, format.F32, format.F16), ""},
		{"one slice, plain, workspace bf16", bf16, split(1, 8, format.BF16, format.F32), plan.Plain(), ""},
		{"promoted every 64, 128", bf16, plan.Promoted(64, plan.Plain()), plan.Promoted(128, plan.Plain()), ""},
		{"chain in 2 slices", chain, plan.Plain(), split(2, 8, format.F32, format.F32), ""},
		{"round then add", bf16, plan.Plain(), plan.Plain(), profile.FormRoundThenAdd},
		{"fma alpha for fma beta", bf16, plan.Plain(), plan.Plain(), profile.FormFMAAlpha},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			f := c.base.Step.A
			a, b := makeInputs(r, f, f, "normal", 1, m, n, k)
			addend := dense(format.F32, handMadeElements(r, format.F32, "finite", m*n), m, n)
			for _, level := range simd.Levels() {
				run := func(p plan.Plan, form profile.Form) []byte {
					prof := *c.base
					out := prof.Step.Result
					args := gemm.Args{Alpha: 1, Beta: 1}
					if form == "" {
						form = profile.FormAdd
					}
					if c.other != "" { // f32 sums, bf16 output, an addend
						out, args.C = format.BF16, addend
						if c.other == profile.FormFMAAlpha {
							args.Alpha, args.Beta = 0.3, 0.7
							if form == profile.FormAdd {
								form = profile.FormFMABeta
							}
							out = format.F32
						}
					}
					prof.Plan, prof.Epilogue = p, profile.Epilogue{Out: out, Form: form}
					memory := alignedBytes(m * n * out.Bytes())
					args.Profile, args.A, args.B, args.D, args.Level = &prof, dense(f, a, m, k), dense(f, b, k, n), gemm.Dense(memory, out, 1, m, n), &level
					if err := gemm.Run(context.Background(), &args); err != nil {
						t.Fatal(err)
					}
					return memory
				}
				if bytes.Equal(run(c.right, ""), run(c.wrong, c.other)) {
					t.Errorf("%v: the bits are the same", level)
				}
			}
		})
	}
}
