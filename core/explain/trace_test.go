package explain

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

func load(t testing.TB, name string) *profile.Profile {
	t.Helper()
	p, err := profile.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	p.Name = ""
	return p
}

// operand is a random matrix: ordinary numbers, or any bits, with NaN, Inf and zeros among them.
func operand(r *rand.Rand, f format.Format, batch, rows, columns int, wild bool) *gemm.Matrix {
	size := f.Bytes()
	words := make([]uint64, batch*rows*columns*size/8+2) // aligned for every format
	data := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), batch*rows*columns*size)
	info := f.Info()
	for i := range batch * rows * columns {
		v := r.Uint64()
		if !wild && !info.Integer {
			v &= 1<<info.Bits - 1
			exponent := uint64(info.Bias + int(r.IntN(7)) - 3)
			v = v&(1<<(info.Bits-1)|1<<(info.MantissaBits+info.Padding)-1) | exponent<<(info.MantissaBits+info.Padding)
		}
		for b := range size {
			data[i*size+b] = byte(v >> (8 * b))
		}
	}
	return gemm.Dense(data, f, batch, rows, columns)
}

// plansFor gives plans of every family for a step.
func plansFor(p *profile.Profile) []plan.Plan {
	result := p.Step.Result
	list := []plan.Plan{plan.Plain(), plan.Tiled(plan.ResidueFirst, 32), plan.Tiled(plan.ResidueLast, 24)}
	merge := plan.Merge{Partial: result, Sum: result}
	chain := plan.Plain()
	list = append(list, plan.SplitK(3, 8, plan.Plain(), result, result), plan.SplitK(7, 16, plan.Tiled(plan.ResidueFirst, 32), result, result),
		plan.Plan{Promote: &plan.Promote{Interval: 40, Of: &chain, Merge: merge}},
		plan.Plan{Lanes: &plan.Lanes{Count: 8, Run: 4, Of: &chain, Folds: []plan.Fold{{To: 4}, {To: 2}, {To: 1}}, Merge: merge}},
		plan.Plan{Lanes: &plan.Lanes{Count: 5, Run: 16, Whole: true, Of: &chain, Folds: []plan.Fold{{To: 1}}, Merge: merge}},
		plan.Plan{Lanes: &plan.Lanes{Count: 7, Run: 8, Of: &chain, Folds: []plan.Fold{{To: 1}}, Merge: merge, Buffers: 3}})
	if result == format.F32 {
		list = append(list, plan.SplitK(4, 8, chain, format.BF16, format.F32), plan.SplitK(4, 8, chain, format.F16, format.F16),
			plan.SplitK(4, 8, chain, format.F32, format.F16), plan.SplitK(1, 8, chain, format.BF16, format.F32))
	}
	if result == format.F32 || result == format.F64 {
		list = append(list, plan.Plan{Serial: &plan.Serial{Slices: 4, Grain: 8, Of: &chain}})
	}
	return list
}

// The last partial sum of a trace is what package gemm merges, whatever the profile, the plan and the operands.
func TestTraceEndsInTheSum(t *testing.T) {
	r, compared := rand.New(rand.NewPCG(5, 6)), 0
	for _, name := range []string{"hopper/bf16", "hopper/f16", "hopper/tf32", "hopper/f32", "hopper/f64", "hopper/s8", "hopper/e4m3-fast", "hopper/e5m2-mma",
		"hopper/f16-f16", "ampere/tf32", "cuda-core/f16", "cuda-core/bf16"} {
		p := load(t, name)
		for _, pl := range plansFor(p) {
			for round := range 6 {
				q := *p
				q.Plan = pl
				q.Epilogue = profile.Epilogue{Out: q.Step.Result, Form: profile.FormAdd}
				if err := q.Validate(); err != nil {
					continue // an f16 sum has no such merge
				}
				k := []int{1, 7, 33, 100, 257, 64}[round]
				fa, fb := q.Step.A, q.Step.B
				if q.TakesF32() {
					fa, fb = format.F32, format.F32
				}
				compared++
				alpha := 1.0
				if q.Step.Kind == step.FMA && q.Step.Result == format.F32 && round > 1 { // multiplied into an operand
					q.Epilogue.Form, alpha = []profile.Form{profile.FormAlphaInA, profile.FormAlphaInB}[round%2], 1.7
				}
				args := &gemm.Args{Profile: &q, A: operand(r, fa, 2, 3, k, round%3 == 2), B: operand(r, fb, 2, k, 4, round%3 == 2), Alpha: alpha, Beta: 1,
					D: &gemm.Matrix{Format: q.Epilogue.Out, Batch: 2, Rows: 3, Columns: 4, BatchStride: 12, RowStride: 4, ColumnStride: 1}}
				at := gemm.Position{Batch: round % 2, Row: round % 3, Column: round % 4}
				want, err := gemm.Elements(context.Background(), args, []gemm.Position{at})
				if err != nil {
					t.Fatalf("%s, %s, K = %d: %v", name, pl.Describe(), k, err)
				}
				sums, err := trace(context.Background(), args, at)
				if err != nil {
					t.Fatalf("%s, %s, K = %d: %v", name, pl.Describe(), k, err)
				}
				last := sums[len(sums)-1]
				if got := (value{last.bits, last.as}).round(q.Epilogue.Out); got.bits != want[0] {
					t.Errorf("%s, %s, K = %d: the last partial sum is %v, the sum %#x", name, pl.Describe(), k, got, want[0])
				}
				if all := keysOf(k); last.key != all {
					t.Errorf("%s, %s, K = %d: the last partial sum is not over all k", name, pl.Describe(), k)
				}
			}
		}
	}
	if compared < 500 {
		t.Errorf("%d elements were compared", compared)
	}
}

func keysOf(k int) (key uint64) {
	for i := range k {
		key += keyOf(i)
	}
	return key
}

// Every partial sum of a trace is the sum that package gemm makes of the same part of the tree.
func TestTraceOfAChain(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	p := load(t, "hopper/bf16")
	p.Epilogue.Out = format.F32
	const k = 100
	args := &gemm.Args{Profile: p, A: operand(r, format.BF16, 1, 1, k, false), B: operand(r, format.BF16, 1, k, 1, false), Alpha: 1, Beta: 1,
		D: &gemm.Matrix{Format: format.F32, Batch: 1, Rows: 1, Columns: 1, BatchStride: 1, RowStride: 1, ColumnStride: 1}}
	sums, err := trace(context.Background(), args, gemm.Position{})
	if err != nil {
		t.Fatal(err)
	}
	if len(sums) != 7 {
		t.Fatalf("%d partial sums of 100 products, 16 at a time", len(sums))
	}
	for i := range sums {
		n := min(16*(i+1), k)
		q := *p
		q.Plan = plan.Plan{Tree: &plan.Fixed{K: k, Partial: true, Root: &plan.Tree{Chain: []plan.Range{{Stop: n}}}}}
		part := *args
		part.Profile = &q
		want, err := gemm.Elements(context.Background(), &part, []gemm.Position{{}})
		if err != nil {
			t.Fatal(err)
		}
		if sums[i].bits != want[0] || sums[i].key != keysOf(n) || sums[i].taken != n {
			t.Errorf("partial sum %d: %#x of %d products, want %#x of %d", i, sums[i].bits, sums[i].taken, want[0], n)
		}
	}
}

func TestTraceStops(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	p := load(t, "hopper/bf16")
	args := &gemm.Args{Profile: p, A: operand(r, format.BF16, 1, 1, 64, false), B: operand(r, format.BF16, 1, 64, 1, false), Alpha: 1, Beta: 1}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := trace(ctx, args, gemm.Position{}); err == nil {
		t.Error("a cancelled trace went on")
	}
}

func TestAddRoundsAndSigns(t *testing.T) {
	f32 := func(bits uint64) value { return value{bits, format.F32} }
	for _, c := range []struct {
		x, y value
		to   format.Format
		want uint64
	}{
		{f32(0x3f800000), f32(0x33800000), format.F32, 0x3f800000}, // 1 + 2^-24: a tie, to even
		{f32(0x3f800001), f32(0x33800000), format.F32, 0x3f800002},
		{f32(0x80000000), f32(0x80000000), format.F32, 0x80000000},
		{f32(0x80000000), f32(0x00000000), format.F32, 0},
		{f32(0x3f800000), f32(0xbf800000), format.F32, 0},
		{f32(0x7f800000), f32(0xff800000), format.F32, 0x7fffffff},
		{f32(0x7f800000), f32(0x3f800000), format.F32, 0x7f800000},
		{f32(0xffc12345), f32(0x3f800000), format.F32, 0x7fffffff},
		{f32(0x7f7fffff), f32(0x7f7fffff), format.F32, 0x7f800000},
		{value{0x3c00, format.F16}, f32(0x3a000000), format.F16, 0x3c00}, // 1 + 2^-11: a tie
		{value{0x3c00, format.F16}, f32(0x3a000001), format.F16, 0x3c01},
		{value{0x7fffffff, format.S32}, value{1, format.S32}, format.S32, 0x80000000},
		{value{0x7ff8000000000001, format.F64}, value{0x7ff8000000000002, format.F64}, format.F64, 0x7ff8000000000002},
	} {
		if got := c.x.add(c.y, c.to); got.bits != c.want || got.as != c.to {
			t.Errorf("%v + %v in %v is %v, want %#x", c.x, c.y, c.to, got, c.want)
		}
	}
}

func TestPart(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	const k = 200
	a, b := operand(r, format.BF16, 1, 1, k, false), operand(r, format.BF16, 1, k, 1, false)
	traced := func(p *profile.Profile) []partial {
		p.Epilogue.Out = format.F32
		sums, err := trace(context.Background(), &gemm.Args{Profile: p, A: a, B: b, Alpha: 1, Beta: 1}, gemm.Position{})
		if err != nil {
			t.Fatal(err)
		}
		return sums
	}
	plain := load(t, "hopper/bf16")
	split := load(t, "hopper/bf16")
	split.Plan = plan.SplitK(3, 64, plan.Plain(), format.F32, format.F32) // slices of 128 and 72
	p := part(traced(plain), traced(split))
	if p.Alike != 8 || p.LastAlike.Over != "k = 0…127" {
		t.Errorf("a chain and a split are alike in %d partial sums, the last over %v", p.Alike, p.LastAlike)
	}
	if p.NextA.What != "goes on in that accumulator with k = 128…143" || p.NextB.What != "begins an accumulator with k = 128…143" {
		t.Errorf("then one %q, the other %q", p.NextA.What, p.NextB.What)
	}
	if p.DifferentA != nil && (p.DifferentA.Over != "k = 0…199" || p.DifferentA.Bits == p.DifferentB.Bits) {
		t.Errorf("the sums that differ are %v and %v", p.DifferentA, p.DifferentB)
	}
	narrow := load(t, "ampere/bf16") // steps of 8, 24 bits
	p = part(traced(plain), traced(narrow))
	if p.Alike != 0 || p.LastAlike != nil || p.NextA.Over != "k = 0…15" || p.NextB.Over != "k = 0…7" {
		t.Errorf("steps of 16 and of 8: %+v", p)
	}
	same := part(traced(plain), traced(load(t, "hopper/bf16")))
	if same.Alike != 13 || same.NextA != nil || same.NextB != nil || same.DifferentA != nil {
		t.Errorf("one order twice: %+v", same)
	}
	// The first sums over the same products that differ, by looking at all of them.
	x, y := traced(plain), traced(narrow)
	want := -1
	for i := range x {
		j := slices.IndexFunc(y, func(q partial) bool { return q.key == x[i].key })
		if j >= 0 && x[i].bits != y[j].bits {
			want = i
			break
		}
	}
	if p = part(x, y); want >= 0 && p.DifferentA.Ordinal != want {
		t.Errorf("the first that differ are %d, want %d", p.DifferentA.Ordinal, want)
	}
	if want < 0 {
		t.Error("the operands do not tell steps of 16 and of 8 apart: the test shows nothing")
	}
}
