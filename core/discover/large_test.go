package discover

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// Where K is large, some of its positions tell the order.
func TestLargeK(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	f32 := plan.In(format.F32)
	for _, x := range []struct {
		step    string
		out     format.Format
		m, n, k int
		plan    plan.Plan
	}{
		{"hopper/bf16", format.BF16, 64, 64, 4096, plan.Plain()},
		{"hopper/bf16", format.BF16, 64, 64, 4096, plan.SplitK(6, 64, plan.Plain(), format.F32, format.F32)},
		{"hopper/f16", format.F16, 32, 80, 3000, plan.SplitK(5, 8, plan.Tiled(plan.ResidueFirst, 32), format.F16, format.F32)},
		{"hopper/e4m3", format.BF16, 64, 64, 2048, plan.Promoted(128, plan.Plain())},
		{"cuda-core/f32", format.F32, 1, 32, 2000, plan.Contiguous(8, 64, plan.Plain(), plan.CountDown(8), f32)},
		{"cuda-core/f32", format.F32, 1, 1, 4096, plan.Dot(8, 2, f32)},
		{"hopper/tf32", format.F32, 64, 64, 4000, plan.Strided(5, 32, plan.Plain(), f32)},
	} {
		if only := os.Getenv("LARGE"); only != "" && !strings.Contains(x.plan.Describe(), only) {
			continue
		}
		entry, ok := step.Find(x.step)
		if !ok {
			t.Fatal(x.step)
		}
		p := &profile.Profile{SchemaVersion: 1, Step: entry.Params, Plan: x.plan, Epilogue: profile.Epilogue{Out: x.out, Form: profile.FormAdd}}
		s := Signature{A: p.Step.A, B: p.Step.B, D: x.out, Batch: 1, M: x.m, N: x.n, K: x.k, Alpha: 1, Beta: 1}
		if s.A == format.TF32 {
			s.A, s.B = format.F32, format.F32
		}
		began := time.Now()
		r, err := Run(context.Background(), s, boxOf(p, s), Options{Elements: 4096})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %s: %d calls, %d questions, %d tried, %.1f s %s %v", x.step, x.plan.Describe(), r.Calls, r.Questions, r.Tried, time.Since(began).Seconds(), r.Reason, r.Findings)
		if r.Profile == nil {
			t.Errorf("%s: %s: %s", x.step, x.plan.Describe(), r.Reason)
		} else {
			t.Log(r.Profile.Plan.Describe())
		}
	}
}
