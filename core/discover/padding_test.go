package discover

import (
	"bytes"
	"context"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// A step that keeps fewer bits of its accumulator than the result has cuts it in a group of zeros too, so that padding shows:
// a discovery found it out. Every path computes it as the scalar model does.
func TestPaddingCutsTheAccumulator(t *testing.T) {
	const m, n, k = 16, 16, 21
	a, b := operands(format.BF16, format.BF16, "normal", 5, m, n, k)
	run := func(fraction int, p plan.Plan, level *simd.Level) []byte {
		d := make([]byte, m*n*4)
		err := gemm.Run(context.Background(), &gemm.Args{
			Profile: &profile.Profile{
				SchemaVersion: profile.SchemaVersion, Plan: p, Epilogue: profile.Epilogue{Out: format.F32, Form: profile.FormAdd},
				Step: step.Params{Kind: step.Fused, A: format.BF16, B: format.BF16, Group: 4, Fraction: fraction, Align: format.TowardZero, Result: format.F32, ResultRounding: format.TowardZero},
			},
			A: gemm.Dense(a, format.BF16, 1, m, k), B: gemm.Dense(b, format.BF16, 1, k, n), D: gemm.Dense(d, format.F32, 1, m, n), Alpha: 1, Beta: 1, Level: level,
		})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, fraction := range []int{10, 13, 20, 23, 25} {
		plain, padded := plan.Plain(), plan.Tiled(plan.ResidueLast, 32)
		for _, p := range []plan.Plan{plain, padded} {
			if !bytes.Equal(run(fraction, p, nil), run(fraction, p, ptr(simd.Oracle))) {
				t.Errorf("%d fraction bits, %s: not as the scalar model", fraction, p.Describe())
			}
		}
		if shows := !bytes.Equal(run(fraction, plain, nil), run(fraction, padded, nil)); shows != (fraction < 23) {
			t.Errorf("%d fraction bits: padding shows: %v", fraction, shows)
		}
	}
}
