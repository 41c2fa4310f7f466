package discover

import (
	"context"
	"slices"
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
	for _, x := range []struct {
		step    string
		out     format.Format
		m, n, k int
		plan    plan.Plan
	}{
		{"hopper/bf16", format.BF16, 64, 64, 4096, plan.SplitK(6, 64, plan.Plain(), format.F32, format.F32)},
		{"hopper/e4m3", format.BF16, 64, 64, 1024, plan.Promoted(128, plan.Plain())},
	} {
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
		t.Logf("%s: %s: %d calls, %d questions, %d tried, %.1f s", x.step, x.plan.Describe(), r.Calls, r.Questions, r.Tried, time.Since(began).Seconds())
		if r.Profile == nil {
			t.Errorf("%s: %s: %s", x.step, x.plan.Describe(), r.Reason)
			continue
		}
		want, _ := p.Plan.Expand(x.k)
		got, err := r.Profile.Plan.Expand(x.k)
		among := slices.Repeat([]bool{true}, x.k)
		if err != nil || predicted(&p.Step, want, among, false) != predicted(&r.Profile.Step, got, among, false) {
			t.Errorf("%s: %s: found %s", x.step, x.plan.Describe(), r.Profile.Plan.Describe())
		}
	}
}
