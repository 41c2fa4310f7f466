package gemm_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	_ "unsafe" // for go:linkname

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/simd"
)

//go:linkname readMXCSR github.com/hawkeye-audit/hawkeye/simd.readMXCSR
func readMXCSR() uint32

//go:linkname writeMXCSR github.com/hawkeye-audit/hawkeye/simd.writeMXCSR
func writeMXCSR(uint32)

// environments are what a host may have set: flush to zero, denormals as zero, each rounding, and all at once.
var environments = []uint32{0x1F80, 0x1F80 | 1<<15, 0x1F80 | 1<<6, 0x1F80 | 1<<13, 0x1F80 | 2<<13, 0x1F80 | 3<<13, 0x9FC0 | 3<<13, 0x9FC0 | 2<<13}

// under runs f with the thread's floating-point environment set to mxcsr and reports what f left.
func under(mxcsr uint32, f func()) (left uint32) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	saved := readMXCSR()
	writeMXCSR(mxcsr)
	f()
	left = readMXCSR()
	writeMXCSR(saved)
	return left
}

// TestHostFloatEnvironment: a calling thread that rounds otherwise or flushes subnormals gets the same bits, from every
// level, path and epilogue, and keeps its environment. Alpha and beta are rounded to f32 on the way, where its rounding
// would show first.
func TestHostFloatEnvironment(t *testing.T) {
	under(0x1F80|3<<13, func() { // the test itself must be able to fail
		one, tiny := float32(1), float32(0x1p-30)
		if runtime.KeepAlive(&one); one-tiny == 1 {
			t.Error("the environment was not set")
		}
	})
	const m, n, k = 5, 21, 70
	profiles := sums(t)
	for name, form := range map[string]profile.Form{"add": profile.FormAdd, "rta": profile.FormRoundThenAdd, "fma-alpha": profile.FormFMAAlpha, "fma-beta": profile.FormFMABeta} {
		for _, out := range []format.Format{format.F32, format.BF16} {
			p := load(t, "hopper/bf16", plan.SplitK(3, 8, plan.Plain(), format.BF16, format.F32), out)
			p.Epilogue.Form = form
			profiles[fmt.Sprintf("bf16 %s %v", name, out)] = p
		}
		p := load(t, "hopper/f64", plan.SplitK(2, 8, plan.Plain(), format.F64, format.F64), format.F64)
		p.Epilogue.Form = form
		profiles["f64 "+name] = p
	}
	half := load(t, "hopper/f16-f16", plan.SplitK(3, 8, plan.Plain(), format.F16, format.F16), format.F16)
	half.Epilogue.Form = profile.FormHalf
	profiles["half"] = half
	row := load(t, "hopper/e4m3-fast", plan.Plain(), format.BF16)
	row.Epilogue.Scaling = profile.ScalingRow
	profiles["row scales"] = row
	for name, p := range profiles {
		r := rand.New(rand.NewPCG(13, 13))
		kinds := []string{"normal", "tiny", "finite"}
		if p.Step.A == format.S8 {
			kinds = []string{"bits"}
		}
		for _, kind := range kinds {
			a, b := operandsOf(r, p, kind, 1, m, n, k)
			for _, level := range fastLevels() {
				call := func(threads int) []byte {
					return run(t, level, p, a, b, func(args *gemm.Args) {
						args.Threads = threads
						if form := p.Epilogue.Form; form != profile.FormAdd {
							args.C = dense(p.Epilogue.Out, handMadeElements(rand.New(rand.NewPCG(1, 1)), p.Epilogue.Out, "finite", m*n), m, n)
							if args.Alpha = 0.1; form != profile.FormRoundThenAdd {
								args.Beta = 0.7
							}
						}
						if p.Epilogue.Scaling == profile.ScalingRow {
							args.ScaleA, args.ScaleB = make([]float32, m), make([]float32, n)
							for i := range args.ScaleA {
								args.ScaleA[i] = 0x1.5p-120
							}
							for i := range args.ScaleB {
								args.ScaleB[i] = 0x1.234p-20
							}
						}
					})
				}
				want := call(1)
				for _, mxcsr := range environments {
					for _, threads := range []int{1, 2} {
						var got []byte
						left := under(mxcsr, func() { got = call(threads) })
						if !bytes.Equal(got, want) {
							t.Errorf("%s, %s, %v, %d threads: other bits under MXCSR %#x", name, kind, level, threads, mxcsr)
						}
						if left&^0x3F != mxcsr&^0x3F { // but for the exception flags
							t.Errorf("%s, %v: the thread's MXCSR was %#x and became %#x", name, level, mxcsr, left)
						}
					}
				}
			}
		}
	}
}

// TestHostFloatEnvironmentElements: likewise for single elements, and the checks of a call.
func TestHostFloatEnvironmentElements(t *testing.T) {
	const m, n, k = 5, 6, 90
	for name, p := range sums(t) {
		a, b := operandsOf(rand.New(rand.NewPCG(14, 14)), p, "tiny", 1, m, n, k)
		for _, level := range simd.Levels() {
			call := func() []uint64 {
				args := gemm.Args{Profile: p, A: a, B: b, D: gemm.Dense(nil, p.Epilogue.Out, 1, m, n), Alpha: 0.1, Beta: 1, Level: &level}
				if p.Step.Result == format.S32 {
					args.Alpha = 1
				}
				if p.Step.Result == format.F64 {
					args.Alpha = 0x1p-1070 // 0 where denormals are zero
				}
				got, err := gemm.Elements(context.Background(), &args, []gemm.Position{{}, {Row: m - 1, Column: n - 1}, {Row: 2, Column: 3}})
				if err != nil {
					t.Errorf("%s, %v: %v", name, level, err)
				}
				return got
			}
			want := call()
			for _, mxcsr := range environments {
				var got []uint64
				under(mxcsr, func() { got = call() })
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s, %v: %#x under MXCSR %#x, want %#x", name, level, got, mxcsr, want)
				}
			}
		}
	}
}
