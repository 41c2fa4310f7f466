package gemm_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// What must not change a result: which other rows and columns are computed with it, how many threads do it, the order of
// products inside a group, powers of two, transposition.

// load is a profile of the catalogue with another plan and output.
func load(t testing.TB, name string, p plan.Plan, out format.Format) *profile.Profile {
	t.Helper()
	base, err := profile.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	prof := *base
	prof.Plan, prof.Epilogue = p, profile.Epilogue{Out: out, Form: profile.FormAdd}
	return &prof
}

// run multiplies and gives D's memory; change may alter the call.
func run(t testing.TB, level simd.Level, p *profile.Profile, a, b *gemm.Matrix, change func(*gemm.Args)) []byte {
	t.Helper()
	args := gemm.Args{Profile: p, A: a, B: b, Alpha: 1, Beta: 1, Level: &level, Threads: 1}
	rows, columns := a.Rows, b.Columns
	out := p.Epilogue.Out
	if change != nil {
		change(&args)
		if args.Rows != nil {
			rows = len(args.Rows)
		}
		if args.Columns != nil {
			columns = len(args.Columns)
		}
	}
	memory := alignedBytes(a.Batch * rows * columns * out.Bytes())
	if args.D == nil {
		args.D = gemm.Dense(memory, out, a.Batch, rows, columns)
	}
	if err := gemm.Run(context.Background(), &args); err != nil {
		t.Fatalf("%v: %v", level, err)
	}
	return memory
}

// sums are profiles of each path through the package, under plans of each kind.
func sums(t testing.TB) map[string]*profile.Profile {
	return map[string]*profile.Profile{
		"bf16 plain":        load(t, "hopper/bf16", plan.Plain(), format.F32),
		"f16 residue first": load(t, "hopper/f16", plan.Tiled(plan.ResidueFirst, 32), format.F16),
		"f16 split":         load(t, "ampere/f16", plan.SplitK(3, 8, plan.Tiled(plan.ResidueFirst, 32), format.F16, format.F32), format.F32),
		"f16 accumulation":  load(t, "hopper/f16-f16", plan.SplitK(2, 64, plan.Plain(), format.F16, format.F16), format.F16),
		"e4m3 promoted":     load(t, "hopper/e4m3-fast", plan.Promoted(128, plan.Plain()), format.BF16),
		"e5m2 mma":          load(t, "hopper/e5m2-mma", plan.Plain(), format.F32),
		"tf32":              load(t, "hopper/tf32", plan.Plain(), format.F32),
		"f32 residue last":  load(t, "hopper/f32", plan.Tiled(plan.ResidueLast, 16), format.F32),
		"f64 split":         load(t, "hopper/f64", plan.SplitK(4, 16, plan.Plain(), format.F64, format.F64), format.F64),
		"s8":                load(t, "hopper/s8", plan.Plain(), format.S32),
	}
}

// operandsOf makes dense operands of a profile.
func operandsOf(r *rand.Rand, p *profile.Profile, kind string, batch, m, n, k int) (a, b *gemm.Matrix) {
	x, y := p.Step.A, p.Step.B
	if p.TakesF32() {
		x, y = format.F32, format.F32
	}
	valuesA, valuesB := makeInputs(r, x, y, kind, batch, m, n, k)
	a, b = dense(x, valuesA, batch*m, k), dense(y, valuesB, batch*k, n)
	a.Batch, a.Rows, a.BatchStride = batch, m, m*k
	b.Batch, b.Rows, b.BatchStride = batch, k, k*n
	return a, b
}

// fastLevels are the levels with kernels.
func fastLevels() []simd.Level {
	levels := simd.Levels()
	return levels[:len(levels)-1]
}

// TestBlockInvariance: any row, column, element or selection of a large replay equals the same replayed alone.
func TestBlockInvariance(t *testing.T) {
	for name, p := range sums(t) {
		m, n, k := 75, 150, 333
		if p.Step.Kind == step.Converted { // the scalar model's
			m, n, k = 11, 18, 90
		}
		if p.Step.Result == format.F64 { // NaNs are
			m, n, k = 30, 33, 90
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(5, 5))
			for _, kind := range []string{"normal", "mixed"} {
				a, b := operandsOf(r, p, kind, 1, m, n, k)
				size := p.Epilogue.Out.Bytes()
				whole := run(t, simd.Levels()[0], p, a, b, nil)
				at := func(row, column int) []byte { return whole[(row*n+column)*size:][:size] }
				for _, level := range fastLevels() {
					if got := run(t, level, p, a, b, nil); !bytes.Equal(got, whole) {
						t.Fatalf("%s: %v gives other bits than %v", kind, level, simd.Levels()[0])
					}
					row, column := r.IntN(m), r.IntN(n)
					one := *a
					one.Offset, one.Rows = a.Offset+row*a.RowStride, 1
					if got := run(t, level, p, &one, b, nil); !bytes.Equal(got, whole[row*n*size:(row+1)*n*size]) {
						t.Fatalf("%s: %v: row %d alone has other bits", kind, level, row)
					}
					side := *b
					side.Offset, side.Columns = b.Offset+column, 1
					got := run(t, level, p, a, &side, nil)
					for i := range m {
						if !bytes.Equal(got[i*size:(i+1)*size], at(i, column)) {
							t.Fatalf("%s: %v: column %d alone has other bits, in row %d", kind, level, column, i)
						}
					}
					if got := run(t, level, p, &one, &side, nil); !bytes.Equal(got, at(row, column)) {
						t.Fatalf("%s: %v: element (%d, %d) alone has other bits", kind, level, row, column)
					}
					rows, columns := []int{m - 1, 0, row, row, m / 2}, []int{column, n - 1, n / 2, 0, n/2 - 1, column}
					chosen := run(t, level, p, a, b, func(args *gemm.Args) { args.Rows, args.Columns = rows, columns })
					for i, row := range rows {
						for j, column := range columns {
							if !bytes.Equal(chosen[(i*len(columns)+j)*size:][:size], at(row, column)) {
								t.Fatalf("%s: %v: chosen element (%d, %d) has other bits", kind, level, row, column)
							}
						}
					}
				}
			}
		})
	}
}

// TestThreads: the number of threads changes no bit, on outputs of several tiles.
func TestThreads(t *testing.T) {
	for name, p := range sums(t) {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(6, 6))
			m, n, k := 530, 300, 40
			if p.Step.Kind == step.Converted { // the scalar model's
				m, n = 40, 33
			}
			a, b := operandsOf(r, p, "normal", 1, m, n, k)
			want := run(t, simd.Levels()[0], p, a, b, nil)
			for _, threads := range []int{2, 7, 64} {
				for _, level := range fastLevels() {
					if got := run(t, level, p, a, b, func(args *gemm.Args) { args.Threads = threads }); !bytes.Equal(got, want) {
						t.Errorf("%v: %d threads give other bits than one", level, threads)
					}
				}
			}
		})
	}
}

// TestPermutationInsideGroup: the order of products inside a group does not matter, which group they are in does.
func TestPermutationInsideGroup(t *testing.T) {
	const m, n, k = 13, 37, 160
	for _, name := range []string{"hopper/bf16", "hopper/f16", "ampere/bf16", "volta/f16", "hopper/tf32", "hopper/e4m3-fast", "hopper/f16-f16", "blackwell/e5m2"} {
		p := load(t, name, plan.Plain(), format.F32)
		for _, kind := range []string{"normal", "cancel", "finite"} {
			r := rand.New(rand.NewPCG(7, 7))
			a, b := operandsOf(r, p, kind, 1, m, n, k)
			inside, across := make([]int, k), r.Perm(k)
			for start := 0; start < k; start += p.Step.Group {
				size := min(p.Step.Group, k-start)
				for i, j := range r.Perm(size) {
					inside[start+i] = start + j
				}
			}
			for _, level := range fastLevels() {
				want := run(t, level, p, a, b, nil)
				permuted := func(order []int) []byte {
					x, y := permutedK(a, b, order)
					return run(t, level, p, x, y, nil)
				}
				if !bytes.Equal(permuted(inside), want) {
					t.Errorf("%s, %s, %v: an order inside groups of %d changed the bits", name, kind, level, p.Step.Group)
				}
				if kind != "finite" && bytes.Equal(permuted(across), want) { // huge numbers leave nothing else to see
					t.Errorf("%s, %s, %v: an order across groups changed nothing", name, kind, level)
				}
			}
		}
	}
}

func permutedK(a, b *gemm.Matrix, order []int) (x, y *gemm.Matrix) {
	valuesA, valuesB := make([]uint64, 0, a.Rows*a.Columns), make([]uint64, 0, b.Rows*b.Columns)
	for row := range a.Rows {
		for _, k := range order {
			valuesA = append(valuesA, a.Bits(0, row, k))
		}
	}
	for _, k := range order {
		for column := range b.Columns {
			valuesB = append(valuesB, b.Bits(0, k, column))
		}
	}
	return dense(a.Format, valuesA, a.Rows, a.Columns), dense(b.Format, valuesB, b.Rows, b.Columns)
}

// TestPowerOfTwoScaling: A times a power of two multiplies every f32 result by it, bit for bit, while nothing is
// subnormal and nothing overflows. The kernels see quite other exponents.
func TestPowerOfTwoScaling(t *testing.T) {
	const m, n, k = 9, 35, 96
	for _, name := range []string{"hopper/bf16", "ampere/bf16", "hopper/tf32", "hopper/f32"} {
		p := load(t, name, plan.Plain(), format.F32)
		r := rand.New(rand.NewPCG(8, 8))
		a, b := operandsOf(r, p, "normal", 1, m, n, k)
		mantissa := a.Format.Info().MantissaBits
		for _, level := range fastLevels() {
			want := run(t, level, p, a, b, nil)
			for _, scale := range []int{-60, -13, -1, 1, 5, 40, 100} {
				values := make([]uint64, 0, m*k)
				for row := range m {
					for column := range k {
						v := a.Bits(0, row, column)
						values = append(values, uint64(int64(v)+int64(scale)<<mantissa))
					}
				}
				got := run(t, level, p, dense(a.Format, values, m, k), b, nil)
				for i := 0; i < len(want); i += 4 {
					x, y := binary.LittleEndian.Uint32(want[i:]), binary.LittleEndian.Uint32(got[i:])
					if x<<1 != 0 {
						x = uint32(int64(x) + int64(scale)<<23)
					}
					if x != y {
						t.Fatalf("%s, %v: times 2^%d element %d is %#x, want %#x", name, level, scale, i/4, y, x)
					}
				}
			}
		}
	}
}

// TestTransposition: (A·B) transposed is the transposed operands multiplied the other way round; one of the two fills
// kernel tiles better and is what runs.
func TestTransposition(t *testing.T) {
	for name, p := range sums(t) {
		for _, size := range [][2]int{{1, 200}, {200, 1}, {1, 1}, {3, 70}, {70, 3}, {17, 65}} {
			m, n, k := size[0], size[1], 130
			if p.Step.Kind == step.Converted { // the scalar model's
				k = 35
			}
			r := rand.New(rand.NewPCG(9, 9))
			kind := "finite" // which of two NaNs an f64 chain keeps depends on which operand it came from
			if p.Step.A == format.S8 {
				kind = "bits"
			}
			a, b := operandsOf(r, p, kind, 1, m, n, k)
			for _, level := range fastLevels() {
				want := run(t, level, p, a, b, nil)
				memory := alignedBytes(len(want))
				x, y := transposed(b), transposed(a)
				run(t, level, p, x, y, func(args *gemm.Args) {
					args.D = transposed(gemm.Dense(memory, p.Epilogue.Out, 1, m, n))
				})
				if !bytes.Equal(memory, want) {
					t.Errorf("%s, %d×%d, %v: the transposed product has other bits", name, m, n, level)
				}
			}
		}
	}
}

func transposed(m *gemm.Matrix) *gemm.Matrix {
	x := *m
	x.Rows, x.Columns, x.RowStride, x.ColumnStride = m.Columns, m.Rows, m.ColumnStride, m.RowStride
	return &x
}

// TestBatchSharingB: a batch that shares B is run as one tall matrix where memory allows; its bits are those of the single
// products, and so are those of batches that share A, or both.
func TestBatchSharingB(t *testing.T) {
	const batch, n, k = 5, 66, 70
	for name, p := range sums(t) {
		for _, m := range []int{1, 3, 130} {
			if p.Step.Kind == step.Converted && m > 1 { // the scalar model's
				continue
			}
			r := rand.New(rand.NewPCG(10, 10))
			a, b := operandsOf(r, p, "normal", batch, m, n, k)
			for _, shared := range []string{"a", "b", "both"} {
				x, y := *a, *b
				if shared != "b" {
					x.BatchStride = 0
				}
				if shared != "a" {
					y.BatchStride = 0
				}
				for _, level := range fastLevels() {
					got := run(t, level, p, &x, &y, func(args *gemm.Args) { args.Threads = 2 })
					size := m * n * p.Epilogue.Out.Bytes()
					for i := range batch {
						oneA, oneB := x, y
						oneA.Batch, oneA.Offset = 1, x.Offset+i*x.BatchStride
						oneB.Batch, oneB.Offset = 1, y.Offset+i*y.BatchStride
						if !bytes.Equal(run(t, level, p, &oneA, &oneB, nil), got[i*size:(i+1)*size]) {
							t.Fatalf("%s, m %d, %s shared, %v: product %d alone has other bits", name, m, shared, level, i)
						}
					}
				}
			}
		}
	}
}

// TestLongSums runs K through many strips, at every level, against the scalar model on a few elements.
func TestLongSums(t *testing.T) {
	const m, n = 3, 5
	k := 9001
	if testing.Short() {
		k = 2203
	}
	for name, p := range sums(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(11, 11))
			for _, kind := range []string{"normal", "cancel"} {
				a, b := operandsOf(r, p, kind, 1, m, n, k)
				want := run(t, simd.Levels()[0], p, a, b, nil)
				for _, level := range fastLevels()[1:] {
					if got := run(t, level, p, a, b, nil); !bytes.Equal(got, want) {
						t.Fatalf("%s: %v gives other bits than %v", kind, level, simd.Levels()[0])
					}
				}
				oracle := simd.Oracle
				at := []gemm.Position{{Row: 0, Column: 0}, {Row: 2, Column: 4}}
				got, err := gemm.Elements(context.Background(), &gemm.Args{Profile: p, A: a, B: b, D: gemm.Dense(nil, p.Epilogue.Out, 1, m, n), Alpha: 1, Beta: 1, Level: &oracle}, at)
				if err != nil {
					t.Fatal(err)
				}
				values := patterns(want, p.Epilogue.Out)
				for i, x := range at {
					if values[x.Row*n+x.Column] != got[i] {
						t.Errorf("%s: element %+v is %#x, the scalar model has %#x", kind, x, values[x.Row*n+x.Column], got[i])
					}
				}
			}
		})
	}
}

// TestStart: an accumulator that starts where another stopped continues its sum.
func TestStart(t *testing.T) {
	const m, n, k = 7, 40, 192
	for _, name := range []string{"hopper/bf16", "hopper/f16-f16", "hopper/e5m2-fast", "hopper/f32", "hopper/f64", "hopper/s8"} {
		base, err := profile.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		p := load(t, name, plan.Plain(), base.Step.Result)
		r := rand.New(rand.NewPCG(12, 12))
		a, b := operandsOf(r, p, "bits", 1, m, n, k)
		if name != "hopper/s8" && name != "hopper/f64" {
			a, b = operandsOf(r, p, "normal", 1, m, n, k)
		}
		for _, level := range fastLevels() {
			want := run(t, level, p, a, b, nil)
			for _, cut := range []int{0, 32, 96, 192} { // whole groups
				head, tail, top, bottom := *a, *a, *b, *b
				head.Columns, top.Rows = cut, cut
				tail.Columns, bottom.Rows = k-cut, k-cut
				tail.Offset, bottom.Offset = a.Offset+cut*a.ColumnStride, b.Offset+cut*b.RowStride
				first := run(t, level, p, &head, &top, nil)
				got := run(t, level, p, &tail, &bottom, func(args *gemm.Args) {
					args.Start = gemm.Dense(first, p.Step.Result, 1, m, n)
				})
				if !bytes.Equal(got, want) {
					t.Errorf("%s, %v: cut at %d the sum has other bits", name, level, cut)
				}
			}
		}
	}
}

// TestZeroSizes: an empty output is left alone, and an empty sum is +0.
func TestZeroSizes(t *testing.T) {
	for name, p := range sums(t) {
		for _, level := range simd.Levels() {
			for _, s := range [][4]int{{0, 3, 4, 5}, {2, 0, 4, 5}, {2, 3, 0, 5}, {2, 3, 4, 0}, {0, 0, 0, 0}, {1, 0, 0, 7}} {
				batch, m, n, k := s[0], s[1], s[2], s[3]
				a, b := operandsOf(rand.New(rand.NewPCG(1, 1)), p, "bits", batch, m, n, k)
				memory := bytes.Repeat([]byte{0xA5}, batch*m*n*p.Epilogue.Out.Bytes()+16)
				aligned := alignedBytes(len(memory))
				copy(aligned, memory)
				run(t, level, p, a, b, func(args *gemm.Args) { args.D = gemm.Dense(aligned, p.Epilogue.Out, batch, m, n) })
				for i := range batch * m * n * p.Epilogue.Out.Bytes() {
					memory[i] = 0
				}
				if !bytes.Equal(aligned, memory) {
					t.Errorf("%s, %v: %s", name, level, fmt.Sprint(s))
				}
			}
		}
	}
}
