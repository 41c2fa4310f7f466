package discover

import (
	"context"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// The join that masks find is the one that the profile predicts.
func TestOrder(t *testing.T) {
	f32 := plan.In(format.F32)
	sizes := []int{37, 150}
	if testing.Short() {
		sizes = sizes[:1]
	}
	for name, plans := range map[string][]plan.Plan{
		"hopper/bf16":     {plan.Plain(), plan.Tiled(plan.ResidueFirst, 32), plan.SplitK(3, 32, plan.Plain(), format.F32, format.F32), plan.Strided(4, 16, plan.Plain(), f32)},
		"hopper/f16":      {plan.Plain(), plan.SerialK(3, 16, plan.Plain())},
		"hopper/f16-f16":  {plan.Plain()},
		"hopper/e4m3":     {plan.Plain(), plan.Promoted(64, plan.Plain())},
		"hopper/e4m3-mma": {plan.Plain()},
		"cuda-core/f32":   {plan.Plain(), plan.Dealt(8, 1, plan.Plain(), plan.CountDown(8), f32), plan.Dot(4, 2, f32), plan.Buffered(7, 8, 4, plan.Plain(), f32)},
		"cuda-core/f64":   {plan.Plain()},
		"cdna2/f16":       {plan.Plain()},
		"cdna3/f16":       {plan.Plain()},
		"cdna3/e5m2fnuz":  {plan.Plain()},
	} {
		entry, ok := step.Find(name)
		if !ok {
			t.Errorf("no step is called %s", name)
			continue
		}
		for _, pl := range plans {
			for _, k := range sizes {
				for _, out := range []format.Format{format.BF16, format.F32, format.F16, format.F64} {
					p := &profile.Profile{SchemaVersion: 1, Step: entry.Params, Plan: pl, Epilogue: profile.Epilogue{Out: out, Form: profile.FormAdd}}
					if profile.CheckOut("", p.Step.Result, out) != nil {
						continue
					}
					s := Signature{A: p.Step.A, B: p.Step.B, D: out, Batch: 1, M: 24, N: 20, K: k, Alpha: 1, Beta: 1}
					q, err := newAsker(context.Background(), &s, boxOf(p, s), &Options{MaxCalls: 10000})
					if err != nil {
						t.Fatal(err)
					}
					m, err := calibrate(q, []int{0})
					if err != nil {
						t.Errorf("%s %s K = %d to %v: %v", name, pl.Describe(), k, out, err)
						continue
					}
					all := make([]int, k)
					among := make([]bool, k)
					for i := range all {
						all[i], among[i] = i, true
					}
					j, err := findOrder(m, all)
					if err != nil {
						t.Errorf("%s %s K = %d to %v: %v", name, pl.Describe(), k, out, err)
						continue
					}
					tree, err := pl.Expand(k)
					if err != nil {
						t.Fatal(err)
					}
					ok := j.hash() == predicted(&p.Step, tree, among, false)
					if !ok {
						t.Errorf("%s %s K = %d to %v: %v", name, pl.Describe(), k, out, j)
					}
				}
			}
		}
	}
}
