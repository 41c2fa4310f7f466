package gemm_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

var laneMerge = plan.Merge{Partial: format.F32, Sum: format.F32}

// laneSums deals k to lanes in runs and adds the lanes by a count-down tree.
func laneSums(lanes, run int) plan.Plan {
	of := plan.Plain()
	return plan.Plan{Lanes: &plan.Lanes{Count: lanes, Run: run, Of: &of, Folds: countDown(lanes), Merge: laneMerge}}
}

func countDown(lanes int) (folds []plan.Fold) {
	for n := lanes / 2; n >= 1; n /= 2 {
		folds = append(folds, plan.Fold{To: n})
	}
	return folds
}

// dotSums is the order of a dot product by so many blocks of 128 threads of v chains.
func dotSums(blocks, v int) plan.Plan {
	of := plan.Plain()
	chains := plan.Plan{Lanes: &plan.Lanes{Count: v, Run: 1, Of: &of, Folds: []plan.Fold{{To: 1}}, Merge: laneMerge}}
	threads := plan.Plan{Lanes: &plan.Lanes{Count: 128, Run: v, Of: &chains, Folds: countDown(128), Merge: laneMerge}}
	return plan.Plan{Lanes: &plan.Lanes{Count: blocks, Run: 128 * v, Of: &threads, Folds: []plan.Fold{{To: 1}}, Merge: laneMerge}}
}

// BenchmarkElements times one candidate plan on few elements, as a search for plans asks for them.
func BenchmarkElements(b *testing.B) {
	for _, c := range []struct {
		name, profile string
		plan          func(k int) plan.Plan
		out           format.Format
	}{
		{"f16", "hopper/f16", func(int) plan.Plan { return plan.Plain() }, format.F16},
		{"f16-split3", "hopper/f16", func(int) plan.Plan { return plan.SplitK(3, 64, plan.Plain(), format.F32, format.F32) }, format.F16},
		{"f32", "hopper/f32", func(int) plan.Plan { return plan.Plain() }, format.F32},
		{"f32-split5", "hopper/f32", func(int) plan.Plan { return plan.SplitK(5, 8, plan.Plain(), format.F32, format.F32) }, format.F32},
		{"f32-lanes32", "hopper/f32", func(int) plan.Plan { return laneSums(32, 1) }, format.F32},
		{"f32-lanes16x4", "hopper/f32", func(int) plan.Plan { return laneSums(16, 4) }, format.F32},
		{"f32-dot56", "hopper/f32", func(int) plan.Plan { return dotSums(56, 2) }, format.F32},
		{"f64", "hopper/f64", func(int) plan.Plan { return plan.Plain() }, format.F64},
	} {
		for _, k := range []int{64, 1024, 16384} {
			for _, count := range []int{4, 32} {
				b.Run(fmt.Sprintf("%s/k%d/%d", c.name, k, count), func(b *testing.B) {
					p := load(b, c.profile, c.plan(k), c.out)
					benchmarkElements(b, p, 512, 512, k, count)
				})
			}
		}
	}
}

func benchmarkElements(b *testing.B, p *profile.Profile, m, n, k, count int) {
	r := rand.New(rand.NewPCG(1, 2))
	x, y := operandsOf(r, p, "normal", 1, m, n, k)
	args := gemm.Args{Profile: p, A: x, B: y, Alpha: 1, Beta: 1, D: &gemm.Matrix{Format: p.Epilogue.Out, Batch: 1, Rows: m, Columns: n, RowStride: n, ColumnStride: 1}}
	at := make([]gemm.Position, count)
	for i := range at {
		at[i] = gemm.Position{Row: r.IntN(m), Column: r.IntN(n)}
	}
	b.Run("once", func(b *testing.B) {
		for b.Loop() {
			if _, err := gemm.Elements(context.Background(), &args, at); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("probe", func(b *testing.B) {
		probe, err := gemm.NewProbe(&args, at)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := probe.Elements(context.Background(), p); err != nil { // gathers and packs
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := probe.Elements(context.Background(), p); err != nil {
				b.Fatal(err)
			}
		}
	})
}
