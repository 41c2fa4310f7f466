package gemm_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
)

// BenchmarkNarrow times whole products with one row under the plans of gemv and dot kernels, with B's rows and B's columns
// side by side in memory.
func BenchmarkNarrow(b *testing.B) {
	for _, c := range []struct {
		name string
		plan plan.Plan
	}{
		{"chain", plan.Plain()},
		{"lanes32", laneSums(32, 1)},
		{"lanes16x4", laneSums(16, 4)},
		{"dot56", dotSums(56, 2)},
	} {
		for _, n := range []int{1, 11, 96, 5000} {
			for _, layout := range []string{"N", "T"} {
				b.Run(fmt.Sprintf("%s/n%d/%s", c.name, n, layout), func(b *testing.B) {
					const k = 4096
					p := load(b, "hopper/f32", c.plan, format.F32)
					r := rand.New(rand.NewPCG(1, 2))
					normals := func(count int) []uint64 {
						list := make([]uint64, count)
						for i := range list {
							list[i] = f32bits(float32(r.NormFloat64()))
						}
						return list
					}
					x := dense(format.F32, normals(k), 1, k)
					y := dense(format.F32, normals(k*n), k, n)
					if layout == "T" {
						y.RowStride, y.ColumnStride = 1, k
					}
					args := gemm.Args{Profile: p, A: x, B: y, Alpha: 1, Beta: 1, Threads: 1, D: gemm.Dense(alignedBytes(4*n), format.F32, 1, 1, n)}
					for b.Loop() {
						if err := gemm.Run(context.Background(), &args); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
