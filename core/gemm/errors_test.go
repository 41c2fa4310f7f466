package gemm_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// valid is a call that runs: 2 × (3×4 by 4×5) of bf16.
func valid(t testing.TB) *gemm.Args {
	p := load(t, "hopper/bf16", plan.Plain(), format.BF16)
	zeros := func(n int) []byte { return alignedBytes(2 * n) }
	return &gemm.Args{
		Profile: p, Alpha: 1, Beta: 1,
		A: gemm.Dense(zeros(2*3*4), format.BF16, 2, 3, 4),
		B: gemm.Dense(zeros(2*4*5), format.BF16, 2, 4, 5),
		D: gemm.Dense(bytes.Repeat([]byte{0x5A}, 2*2*3*5), format.BF16, 2, 3, 5),
	}
}

func addend(a *gemm.Args) *gemm.Matrix {
	return gemm.Dense(alignedBytes(2*2*3*5), format.BF16, 2, 3, 5)
}

// TestRefusals: everything that cannot be run is refused, with its kind and the field's name, before D is touched. Elements
// refuses the same, but for what is wrong with D's memory alone.
func TestRefusals(t *testing.T) {
	huge := math.MaxInt / 2
	for _, c := range []struct {
		name    string
		change  func(*gemm.Args)
		kind    gemm.Kind
		message string
		memory  bool // concerns D's memory alone
	}{
		{"no profile", func(a *gemm.Args) { a.Profile = nil }, gemm.KindArgument, "profile is missing", false},
		{"no a", func(a *gemm.Args) { a.A = nil }, gemm.KindArgument, "a is missing", false},
		{"no b", func(a *gemm.Args) { a.B = nil }, gemm.KindArgument, "b is missing", false},
		{"no d", func(a *gemm.Args) { a.D = nil }, gemm.KindArgument, "d is missing", false},
		{"null a", func(a *gemm.Args) { a.A.Data = nil }, gemm.KindArgument, "a: data is", false},
		{"null d", func(a *gemm.Args) { a.D.Data = nil }, gemm.KindArgument, "d: data is", true},
		{"crooked d", func(a *gemm.Args) { a.D.Data = unsafe.Add(a.D.Data, 1) }, gemm.KindArgument, "d: data is not aligned", true},
		{"crooked b", func(a *gemm.Args) { a.B.Data = unsafe.Add(a.B.Data, 1) }, gemm.KindArgument, "b: data is not aligned", false},
		{"negative rows", func(a *gemm.Args) { a.A.Rows = -1 }, gemm.KindShape, "a: it has -1 rows", false},
		{"negative batch", func(a *gemm.Args) { a.B.Batch = -2 }, gemm.KindShape, "b: it has -2 matrices", false},
		{"no format", func(a *gemm.Args) { a.B.Format = 0 }, gemm.KindFormat, "b: ", false},
		{"unknown format", func(a *gemm.Args) { a.A.Format = 99 }, gemm.KindFormat, "a: ", false},
		{"huge stride", func(a *gemm.Args) { a.A.RowStride = huge }, gemm.KindShape, "a: ", false},
		{"least stride", func(a *gemm.Args) { a.B.ColumnStride = math.MinInt }, gemm.KindShape, "b: ", false},
		{"huge offset", func(a *gemm.Args) { a.D.Offset = math.MaxInt }, gemm.KindShape, "d: ", true},
		{"inner sizes", func(a *gemm.Args) { a.B.Rows = 3 }, gemm.KindShape, "inner sizes 4 and 3", false},
		{"rows of d", func(a *gemm.Args) { a.D.Rows = 2 }, gemm.KindShape, "d is 2×5", false},
		{"columns of d", func(a *gemm.Args) { a.D.Columns = 4 }, gemm.KindShape, "d is 3×4", false},
		{"batches", func(a *gemm.Args) { a.A.Batch = 1 }, gemm.KindShape, "batch", false},
		{"row too far", func(a *gemm.Args) { a.Rows, a.D.Rows = []int{0, 3}, 2 }, gemm.KindShape, "rows[1] is 3", false},
		{"row negative", func(a *gemm.Args) { a.Rows, a.D.Rows = []int{-1}, 1 }, gemm.KindShape, "rows[0] is -1", false},
		{"column too far", func(a *gemm.Args) { a.Columns, a.D.Columns = []int{5}, 1 }, gemm.KindShape, "columns[0] is 5", false},
		{"chosen rows, whole d", func(a *gemm.Args) { a.Rows = []int{1} }, gemm.KindShape, "the product is 1×5", false},
		{"2^67 multiply-adds", func(a *gemm.Args) { // of one element all over
			a.A.Rows, a.A.Columns, a.B.Rows, a.B.Columns = 1<<13, 1<<40, 1<<40, 1<<13
			for _, m := range []*gemm.Matrix{a.A, a.B} {
				m.BatchStride, m.RowStride, m.ColumnStride = 0, 0, 0
			}
			a.D.Rows, a.D.Columns, a.D.RowStride, a.D.BatchStride = 1<<13, 1<<13, 1<<13, 1<<26
		}, gemm.KindShape, "2^64 multiply-adds", false},
		{"c too small", func(a *gemm.Args) { a.C = addend(a); a.C.Rows = 2 }, gemm.KindShape, "c is 2×5", false},
		{"c for the chosen rows", func(a *gemm.Args) { a.C = addend(a); a.C.Rows = 1; a.Rows = []int{0}; a.D.Rows = 1 }, gemm.KindShape, "the whole product is 3×5", false},
		{"c of another batch", func(a *gemm.Args) { a.C = addend(a); a.C.Batch = 1 }, gemm.KindShape, "batch", false},
		{"c of another format", func(a *gemm.Args) { a.C = addend(a); a.C.Format = format.F16 }, gemm.KindFormat, "c is f16", false},
		{"start of the output's format", func(a *gemm.Args) { a.Start = addend(a) }, gemm.KindFormat, "start is bf16", false},
		{"start too small", func(a *gemm.Args) { a.Start = gemm.Dense(alignedBytes(4*5), format.F32, 2, 1, 5) }, gemm.KindShape, "start is 2×1×5", false},
		{"start with several accumulators", func(a *gemm.Args) {
			a.Start = gemm.Dense(alignedBytes(4*2*3*5), format.F32, 2, 3, 5)
			a.Profile.Plan = plan.SplitK(2, 1, plan.Plain(), format.F32, format.F32)
		}, gemm.KindUnsupported, "start goes with a plan of one accumulator", false},
		{"a of another format", func(a *gemm.Args) { a.A.Format = format.F16 }, gemm.KindFormat, "a is f16, but profile hopper/bf16 takes bf16", false},
		{"f32 where none is taken", func(a *gemm.Args) {
			a.B = gemm.Dense(alignedBytes(4*2*4*5), format.F32, 2, 4, 5)
		}, gemm.KindFormat, "b is f32", false},
		{"d that the sum is not rounded to", func(a *gemm.Args) { a.D.Format = format.E4M3 }, gemm.KindFormat, "d: no known rounding", false},
		{"d in s32", func(a *gemm.Args) {
			a.D = gemm.Dense(alignedBytes(4*2*3*5), format.S32, 2, 3, 5)
		}, gemm.KindFormat, "d: no known rounding", false},
		{"scales unknown to the profile", func(a *gemm.Args) { a.ScaleA = []float32{1} }, gemm.KindUnsupported, "says nothing of scales", false},
		{"scales of a wrong length", func(a *gemm.Args) { a.ScaleA = []float32{1, 2} }, gemm.KindShape, "scale_a has 2 elements", false},
		{"one scale of two", func(a *gemm.Args) {
			a.Profile.Epilogue.Scaling, a.ScaleA = profile.ScalingTensor, []float32{1}
		}, gemm.KindArgument, "one scale_a and one scale_b", false},
		{"no scale a row", func(a *gemm.Args) {
			a.Profile.Epilogue.Scaling, a.ScaleA, a.ScaleB = profile.ScalingRow, []float32{1}, []float32{1}
		}, gemm.KindShape, "a scale_a for each of 3 rows", false},
		{"scales, addend and a form of which nothing is known", func(a *gemm.Args) {
			a.Profile.Epilogue = profile.Epilogue{Out: format.BF16, Form: profile.FormFMAAlpha, Scaling: profile.ScalingTensor}
			a.ScaleA, a.ScaleB, a.C = []float32{1}, []float32{1}, addend(a)
		}, gemm.KindUnsupported, "form add alone", false},
		{"alpha where c is added unscaled", func(a *gemm.Args) { a.C, a.Alpha = addend(a), 2 }, gemm.KindUnsupported, "adds c unscaled", false},
		{"beta where c is added unscaled", func(a *gemm.Args) { a.C, a.Beta = addend(a), 2 }, gemm.KindUnsupported, "adds c unscaled", false},
		{"beta after rounding", func(a *gemm.Args) {
			a.C, a.Beta, a.Profile.Epilogue.Form = addend(a), 2, profile.FormRoundThenAdd
		}, gemm.KindUnsupported, "beta 1 alone", false},
		{"alpha 0 with an addend", func(a *gemm.Args) {
			a.C, a.Alpha, a.Profile.Epilogue.Form = addend(a), 0, profile.FormFMABeta
		}, gemm.KindUnsupported, "alpha is 0", false},
		{"alpha 0 that copies an addend with a beta", func(a *gemm.Args) {
			a.C, a.Alpha, a.Beta, a.Profile.Epilogue.Form, a.Profile.Epilogue.ZeroAlpha = addend(a), 0, 0.5, profile.FormFMABeta, profile.ZeroAlphaCopy
		}, gemm.KindUnsupported, "copies c where alpha is 0", false},
		{"a product's form with K 5", func(a *gemm.Args) {
			a.Profile = load(t, "hopper/f32", plan.Plain(), format.F32)
			a.A.Format, a.B.Format, a.Profile.Epilogue.Form = format.F32, format.F32, profile.FormProductA
		}, gemm.KindUnsupported, "K = 1", false},
		{"f16 operands of a tf32 profile", func(a *gemm.Args) {
			a.Profile = load(t, "hopper/tf32", plan.Plain(), format.F32)
			a.A.Format = format.F16
		}, gemm.KindFormat, "a is f16, but profile hopper/tf32 takes tf32 or f32 there", false},
		{"a profile without a name", func(a *gemm.Args) { a.Profile.Name = ""; a.A.Format = format.F16 }, gemm.KindFormat, "profile (sha256 ", false},
		{"scales of an f16 accumulator", func(a *gemm.Args) {
			a.Profile = load(t, "hopper/f16-f16", plan.Plain(), format.F16)
			a.Profile.Epilogue.Scaling = profile.ScalingTensor
			a.A.Format, a.B.Format, a.D.Format = format.F16, format.F16, format.F16
			a.ScaleA, a.ScaleB = []float32{1}, []float32{1}
		}, gemm.KindUnsupported, "f32 accumulators", false},
		{"alpha of integers", func(a *gemm.Args) {
			a.Profile = load(t, "hopper/s8", plan.Plain(), format.S32)
			a.A.Format, a.B.Format, a.Alpha = format.S8, format.S8, 2
			a.D = gemm.Dense(alignedBytes(4*2*3*5), format.S32, 2, 3, 5)
		}, gemm.KindUnsupported, "integer products", false},
		{"an addend of integers", func(a *gemm.Args) {
			a.Profile = load(t, "hopper/s8", plan.Plain(), format.S32)
			a.A.Format, a.B.Format = format.S8, format.S8
			a.D = gemm.Dense(alignedBytes(4*2*3*5), format.S32, 2, 3, 5)
			a.C = gemm.Dense(alignedBytes(4*2*3*5), format.S32, 2, 3, 5)
		}, gemm.KindUnsupported, "integer products", false},
		{"a NaN of its own in f32", func(a *gemm.Args) { a.Profile.Step.NaN = 0x7FC00000 }, gemm.KindUnsupported, "step.nan", false},
		{"a tree for another K", func(a *gemm.Args) {
			a.Profile.Plan = plan.Plan{Tree: &plan.Fixed{K: 5, Root: &plan.Tree{Chain: []plan.Range{{Start: 0, Stop: 5}}}}}
		}, gemm.KindUnsupported, "K = 5, this multiplication has K = 4", false},
		{"no plan", func(a *gemm.Args) { a.Profile.Plan = plan.Plan{} }, gemm.KindArgument, "plan: must hold exactly one", false},
		{"an instruction set that does not exist", func(a *gemm.Args) { level := simd.Level(9); a.Level = &level }, gemm.KindUnsupported, "instruction set", false},
		{"data-only steps", func(a *gemm.Args) {
			a.Profile = load(t, "cdna3/bf16", plan.Plain(), format.BF16)
			level := simd.Levels()[0]
			a.Level = &level
		}, gemm.KindUnsupported, "data and scalar model only", false},
		{"block scales", func(a *gemm.Args) {
			a.Profile = load(t, "mx/e4m3", plan.Plain(), format.BF16)
			a.A.Format, a.B.Format = format.E4M3, format.E4M3
			level := simd.Oracle
			a.Level = &level
		}, gemm.KindUnsupported, "block scales", false},
		{"d over itself", func(a *gemm.Args) { a.D.RowStride = 4 }, gemm.KindOverlap, "d: two of its elements share", true},
		{"d repeated", func(a *gemm.Args) { a.D.BatchStride = 0 }, gemm.KindOverlap, "d: two of its elements share", true},
		{"d over a", func(a *gemm.Args) { a.A.Data = a.D.Data }, gemm.KindOverlap, "d overlaps a", true},
		{"d over the end of b", func(a *gemm.Args) {
			memory := alignedBytes(2 * (2*4*5 + 2*3*5))
			a.B = gemm.Dense(memory, format.BF16, 2, 4, 5)
			a.D = gemm.Dense(memory[2*(2*4*5-1):], format.BF16, 2, 3, 5)
		}, gemm.KindOverlap, "d overlaps b", true},
		{"d over c", func(a *gemm.Args) { a.C = a.D }, gemm.KindOverlap, "d overlaps c", true},
		{"d over start", func(a *gemm.Args) {
			a.Start = gemm.Dense(alignedBytes(4*2*3*5), format.F32, 2, 3, 5)
			a.D.Format = format.F32
			a.D.Data = a.Start.Data
		}, gemm.KindOverlap, "d overlaps start", true},
	} {
		a := valid(t)
		before := unsafe.Slice((*byte)(a.D.Data), 2*2*3*5)
		c.change(a)
		check := func(call string, err error) {
			var refusal *gemm.Error
			switch {
			case err == nil:
				t.Errorf("%s: %s ran", c.name, call)
			case !errors.As(err, &refusal):
				t.Errorf("%s: %s: %v is no *gemm.Error", c.name, call, err)
			case refusal.Kind != c.kind || !strings.Contains(refusal.Message, c.message):
				t.Errorf("%s: %s: kind %d, %q; want kind %d and %q", c.name, call, refusal.Kind, refusal.Message, c.kind, c.message)
			}
		}
		check("Run", gemm.Run(context.Background(), a))
		for _, b := range before {
			if b != 0x5A {
				t.Errorf("%s: D was touched", c.name)
				break
			}
		}
		if !c.memory {
			_, err := gemm.Elements(context.Background(), a, []gemm.Position{{}})
			check("Elements", err)
		}
	}
	if err := gemm.Run(context.Background(), valid(t)); err != nil {
		t.Errorf("the call that all of these change: %v", err)
	}
}

// TestElementsRefusesPlaces: an element outside the output is refused, not read from memory that is not the caller's.
func TestElementsRefusesPlaces(t *testing.T) {
	for _, at := range []gemm.Position{{2, 0, 0}, {0, 3, 0}, {0, 0, 5}, {-1, 0, 0}, {0, -1, 0}, {0, 0, -1}, {0, math.MaxInt, 0}} {
		_, err := gemm.Elements(context.Background(), valid(t), []gemm.Position{{}, at})
		var refusal *gemm.Error
		if !errors.As(err, &refusal) || refusal.Kind != gemm.KindShape || !strings.Contains(refusal.Message, "at[1]") {
			t.Errorf("%+v: %v", at, err)
		}
	}
	a := valid(t)
	a.D.Data = nil
	if got, err := gemm.Elements(context.Background(), a, []gemm.Position{{1, 2, 4}}); err != nil || len(got) != 1 {
		t.Errorf("an output without memory: %v, %v", got, err)
	}
}

// TestNoPanicEscapes: nonsense that no check foresees comes back as an error.
func TestNoPanicEscapes(t *testing.T) {
	for name, change := range map[string]func(*gemm.Args){
		"an unknown kind of step": func(a *gemm.Args) { a.Profile.Step.Kind = "new" },
		"an unknown rounding":     func(a *gemm.Args) { a.Profile.Step.ResultRounding = "sideways" },
		"a group of 0":            func(a *gemm.Args) { a.Profile.Step.Group = 0 },
		"a negative group":        func(a *gemm.Args) { a.Profile.Step.Group = -3 },
		"a tree with a hole": func(a *gemm.Args) {
			a.Profile.Plan = plan.Plan{Tree: &plan.Fixed{K: 4, Root: &plan.Tree{Sum: []*plan.Tree{nil}}}}
		},
		"a range beyond the memory": func(a *gemm.Args) { a.Profile.Plan = plan.Plan{Tree: &plan.Fixed{K: 4, Root: nil}} },
		"a callback that panics":    func(a *gemm.Args) { a.Progress = func(_, _ uint64) error { panic("in the callback") } },
		"a callback that panics, oracle": func(a *gemm.Args) {
			l := simd.Oracle
			a.Level = &l
			a.Progress = func(_, _ uint64) error { panic("in the callback") }
		},
	} {
		a := valid(t)
		change(a)
		if err := gemm.Run(context.Background(), a); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestLayoutsAccepted: outputs that lie between operands in one buffer without touching them are run.
func TestLayoutsAccepted(t *testing.T) {
	p := load(t, "hopper/bf16", plan.Plain(), format.BF16)
	for name, layout := range map[string]struct{ aStride, aColumn, aOffset, dStride, dColumn, dOffset int }{
		"columns side by side":   {40, 1, 0, 40, 1, 20},
		"interleaved columns":    {40, 2, 0, 40, 2, 1},
		"interleaved rows":       {80, 1, 0, 80, 1, 40},
		"a transposed":           {1, 40, 0, 1, 40, 20},
		"d backwards":            {40, 1, 0, -40, -1, 20 + 15 + 40*15},
		"columns that interlock": {40, 1, 20, 40, 1, 0},
	} {
		memory := alignedBytes(2 * 4000)
		for i := range memory {
			memory[i] = byte(i * 37 % 61)
		}
		view := func(stride, column, offset int) *gemm.Matrix {
			return &gemm.Matrix{Data: unsafe.Pointer(unsafe.SliceData(memory)), Format: format.BF16, Batch: 1, Rows: 16, Columns: 16, RowStride: stride, ColumnStride: column, Offset: offset}
		}
		a, d := view(layout.aStride, layout.aColumn, layout.aOffset), view(layout.dStride, layout.dColumn, layout.dOffset)
		b := gemm.Dense(bytes.Clone(memory[:2*16*16]), format.BF16, 1, 16, 16)
		values := make([]uint64, 0, 256)
		for i := range 256 {
			values = append(values, a.Bits(0, i/16, i%16))
		}
		want := run(t, simd.Oracle, p, dense(format.BF16, values, 16, 16), b, nil)
		if err := gemm.Run(context.Background(), &gemm.Args{Profile: p, A: a, B: b, D: d, Alpha: 1, Beta: 1}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, v := range patterns(want, format.BF16) {
			if d.Bits(0, i/16, i%16) != v {
				t.Errorf("%s: element %d is %#x, want %#x", name, i, d.Bits(0, i/16, i%16), v)
				break
			}
		}
		for i, v := range values {
			if a.Bits(0, i/16, i%16) != v {
				t.Errorf("%s: a was written", name)
				break
			}
		}
	}
}

// TestTF32Already: where it is not known how a GPU's kernels round f32 operands to tf32, those that are tf32 already are
// taken, with the bits of the step's own format, and others are refused with what to do.
func TestTF32Already(t *testing.T) {
	p, err := profile.Load("ampere/tf32")
	if err != nil {
		t.Fatal(err)
	}
	if p.TakesF32() {
		t.Skip("ampere/tf32 knows its rounding by now")
	}
	a, b := make([]byte, 4*3*5), make([]byte, 4*5*2)
	for i := range a {
		a[i] = byte(37 * i)
	}
	for i := range b {
		b[i] = byte(91 * i)
	}
	for _, m := range [][]byte{a, b} {
		for i := 0; i < len(m); i += 4 {
			m[i], m[i+1], m[i+3] = 0, m[i+1]&0xE0, m[i+3]&0xBF // low 13 bits clear, no exponent near the top
		}
	}
	run := func(f format.Format) ([]byte, error) {
		d := make([]byte, 4*3*2)
		err := gemm.Run(context.Background(), &gemm.Args{Profile: p, Alpha: 1, Beta: 1, A: gemm.Dense(a, f, 1, 3, 5), B: gemm.Dense(b, f, 1, 5, 2), D: gemm.Dense(d, format.F32, 1, 3, 2)})
		return d, err
	}
	want, err := run(format.TF32)
	if err != nil {
		t.Fatal(err)
	}
	got, err := run(format.F32)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("f32 operands that are tf32: %v, the bits are equal: %v", err, bytes.Equal(got, want))
	}
	a[4] = 1
	var refusal *gemm.Error
	if _, err = run(format.F32); !errors.As(err, &refusal) || refusal.Kind != gemm.KindFormat || !strings.Contains(err.Error(), "low 13 bits") {
		t.Errorf("an f32 operand that is no tf32: %v", err)
	}
}
