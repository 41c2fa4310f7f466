package discover

import (
	"context"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// The least exponent of alignment of f16 sums shows in hardly any product: 2^-25, a tie, and 2^-47 are 2^-24, or 0 where the
// floor of -21 cuts the second. It is asked for, since f16 sums come before f32 sums of as many digits, whose least number is
// another.
func TestFloorOfF16Sums(t *testing.T) {
	merge := plan.In(format.F16)
	merge.FromZero = true
	p := &profile.Profile{
		SchemaVersion: profile.SchemaVersion,
		Step: step.Params{
			Kind: step.Fused, A: format.F16, B: format.F16, Group: 16, Fraction: 25, Align: format.TowardZero, Floor: ptr(-21),
			Result: format.F16, ResultRounding: format.NearestEven,
		},
		Plan:     plan.Plan{Split: &plan.Split{Slices: 2, Grain: 64, Of: ptr(plan.Plain()), Merge: merge}},
		Epilogue: profile.Epilogue{Out: format.F16, Form: profile.FormAdd},
	}
	s := Signature{A: format.F16, B: format.F16, D: format.F16, Batch: 1, M: 16, N: 16, K: 128, Alpha: 1, Beta: 1}
	r, err := Run(context.Background(), s, boxOf(p, s), Options{Elements: 4096})
	if err != nil || r.Profile == nil {
		t.Fatal(err, r)
	}
	if floor := r.Profile.Step.Floor; floor == nil || *floor != -21 || r.Profile.Step.Result != format.F16 {
		t.Errorf("found %s", r.Profile.JSON())
	}
}

// Two products show the floor as well as many do; of f32 operands that a step rounds to tf32 only those that stay what they are.
func TestFloorOfTwoProducts(t *testing.T) {
	for name, operands := range map[string]format.Format{"hopper/tf32": format.F32, "hopper/bf16": format.BF16} {
		p, err := profile.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		x := *p
		x.Epilogue = profile.Epilogue{Out: format.F32, Form: profile.FormAdd}
		s := Signature{A: operands, B: operands, D: format.F32, Batch: 1, M: 16, N: 16, K: 2, Alpha: 1, Beta: 1}
		r, err := Run(context.Background(), s, boxOf(&x, s), Options{Elements: 4096})
		if err != nil || r.Profile == nil {
			t.Fatal(name, err, r)
		}
		if floor := r.Profile.Step.Floor; floor == nil || *floor != -133 {
			t.Errorf("%s: found %s", name, r.Profile.JSON())
		}
	}
}
