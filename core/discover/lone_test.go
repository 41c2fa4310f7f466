package discover

import (
	"context"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// A residue of one product is a step of its own that rounds nothing: it looks like one more term of the next step, but for its
// exponent, which is a normalised number's there.
func TestResidueOfOne(t *testing.T) {
	for _, k := range []int{33, 129} {
		p, err := profile.Load("hopper/f16")
		if err != nil {
			t.Fatal(err)
		}
		x := *p
		x.Plan, x.Epilogue = plan.Tiled(plan.ResidueFirst, 32), profile.Epilogue{Out: format.F16, Form: profile.FormAdd}
		s := Signature{A: format.F16, B: format.F16, D: format.F16, Batch: 1, M: 16, N: 16, K: k, Alpha: 1, Beta: 1}
		r, err := Run(context.Background(), s, boxOf(&x, s), Options{Elements: 4096})
		if err != nil || r.Profile == nil {
			t.Errorf("K = %d: %v %+v", k, err, r)
			continue
		}
		if r.Profile.Step.Group != 16 || r.Profile.Plan.Chain == nil || r.Profile.Plan.Chain.Residue != plan.ResidueFirst {
			t.Errorf("K = %d: found %s", k, r.Profile.JSON())
		}
	}
}
