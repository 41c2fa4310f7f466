package verify

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/trace/tracetest"
)

// ownKernel is a multiplication by kernels that no rule knows, in an order that none of the rules' plans has. Where one such
// kernel runs, plans of every family are tried; where two do, none.
func ownKernel(t *testing.T, m, n, k int) (c *cases.Case, out []byte, right, other *profile.Profile) {
	t.Helper()
	c = splitCall(m, n, k, "cancel").Record()
	c.Kernels, c.Device = []string{"my_own_kernel", "my_other_kernel"}, onA100
	p := plan.SplitK(2, 40, plan.Tiled(plan.ResidueLast, 24), format.F32, format.F32)
	out = compute(t, c, "hopper/bf16-k8", p, profile.Epilogue{})
	c.Out.Hash = hashOf(out)
	profileOf := func(p plan.Plan) *profile.Profile {
		base, err := profile.Load("hopper/bf16-k8")
		if err != nil {
			t.Fatal(err)
		}
		base.Plan, base.Epilogue.Out, base.Epilogue.Form = p, format.F32, profile.FormAdd
		base.Provenance = profile.Provenance{Source: "probed", Hardware: "an NVIDIA A100", Library: "my library 7", Certified: "65536 elements, 2026-11-30"}
		return base
	}
	return c, out, profileOf(p), profileOf(splitPlan(5))
}

// brief is a verdict without what would fill a screen.
func brief(v Verdict) string {
	return fmt.Sprintf("%s by %q of %d plans, %g bits: %s; notes %q", v.Outcome, v.Discovered, v.PlansTried, v.EvidenceBits, v.Reason, v.Notes)
}

func withSuspects(t *testing.T, c *cases.Case, data []byte, suspects ...*profile.Profile) Verdict {
	t.Helper()
	v, err := ReplayCase(t.Context(), c, data, Options{Suspects: suspects})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSuspectDecides: where no rule speaks, a discovered profile that gives the output makes it exact, and is named.
func TestSuspectDecides(t *testing.T) {
	c, out, right, other := ownKernel(t, 17, 13, 129)
	alone := replayed(t, c, out)
	if alone.Outcome != Undecided || alone.PlansTried != 0 || alone.Discovered != "" {
		t.Fatalf("without suspects: %s", brief(alone))
	}
	name := "discovered/" + right.ID()[:12]
	for _, data := range [][]byte{out, nil} {
		for _, suspects := range [][]*profile.Profile{{right}, {other, right}, {right, right, other}} {
			v := withSuspects(t, c, data, suspects...)
			if v.Outcome != Exact || v.ProfileID != right.ID() || v.Discovered != name || v.EvidenceBits < wantedBits {
				t.Errorf("%d suspects: %s", len(suspects), brief(v))
			}
			want := "by the profile " + name + ", found by probing an NVIDIA A100 with my library 7, certified: 65536 elements, 2026-11-30"
			if len(v.Notes) == 0 || v.Notes[0] != want || strings.Contains(strings.Join(v.Notes, " "), "measured on") {
				t.Errorf("notes %q", v.Notes)
			}
		}
	}
	if v := withSuspects(t, c, out, other, right); v.PlansTried != 2 {
		t.Errorf("%d plans tried", v.PlansTried)
	}
	c.Kernels = c.Kernels[:1]
	alone = replayed(t, c, out)
	if v := withSuspects(t, c, out, right); alone.Outcome != Undecided || v.Outcome != Exact || v.Discovered != name || v.PlansTried != alone.PlansTried+1 {
		t.Errorf("%s; alone %s", brief(v), brief(alone))
	}
}

// TestSuspectNeverWrong: a suspect that does not give the output leaves the outcome as it is without it, and is counted.
func TestSuspectNeverWrong(t *testing.T) {
	c, out, right, other := ownKernel(t, 17, 13, 129)
	v := withSuspects(t, c, out, other)
	if v.Outcome != Undecided || v.PlansTried != 1 || v.Discovered != "" || v.Difference != nil ||
		!strings.HasSuffix(v.Reason, "the discovered profile for it, discovered/"+other.ID()[:12]+", does not give it either") {
		t.Errorf("%s", brief(v))
	}
	for what, changed := range changes(c, out) {
		d := *c
		d.Out.Hash = hashOf(changed)
		for _, device := range []map[string]string{onA100, onH200, nil} {
			d.Device = device
			if v := withSuspects(t, &d, changed, right, other); v.Outcome != Undecided || v.PlansTried != 2 || v.Discovered != "" {
				t.Errorf("%s of %v: %s", what, device, brief(v))
			}
		}
	}
}

// TestSuspectTakesNothing: what the rules show of the golden cases is the same with suspects that do not fit, but for the
// number of plans where it is not exact.
func TestSuspectTakesNothing(t *testing.T) {
	golden := openGolden(t)
	_, _, right, other := ownKernel(t, 3, 3, 40)
	exact, rest := 0, 0
	for _, original := range smallCases(golden, 3e5, 40) {
		data := stored(t, golden, original)
		zero := *original
		zero.Out.Hash = strings.Repeat("0", 64)
		for _, c := range []*cases.Case{original, &zero} {
			alone, v := replayed(t, c, data), withSuspects(t, c, data, right, other)
			if v.Outcome != alone.Outcome || v.ProfileID != alone.ProfileID || v.EvidenceBits != alone.EvidenceBits || v.Discovered != "" {
				t.Errorf("%s: %s (%s) with suspects, %s (%s) without", c.ID, v.Outcome, v.Reason, alone.Outcome, alone.Reason)
			}
			if v.Outcome == Exact {
				exact++
			} else {
				rest++
			}
		}
	}
	if exact < 20 || rest < 20 {
		t.Errorf("%d exact and %d others were tried", exact, rest)
	}
}

// TestSuspectOfDeterminedKernel: the name says one plan and the device does another, which was found by probing: not wrong.
func TestSuspectOfDeterminedKernel(t *testing.T) {
	c := call{A: format.BF16, Size: [4]int{1, 24, 16, 320}, Layout: "TN", Kind: "cancel", Kernels: []string{"nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"}}.Record()
	p := plan.SplitK(2, 64, plan.Plain(), format.F32, format.F32)
	out := compute(t, c, "hopper/bf16", p, profile.Epilogue{})
	c.Out.Hash = hashOf(out)
	if v := replayed(t, c, out); v.Outcome != Wrong {
		t.Fatalf("%s", brief(v))
	}
	suspect, err := profile.Load("hopper/bf16")
	if err != nil {
		t.Fatal(err)
	}
	suspect.Plan = p
	if v := withSuspects(t, c, out, suspect); v.Outcome != Exact || v.Discovered == "" || v.PlansTried != 2 {
		t.Errorf("%s", brief(v))
	}
	// The rules' own plan is exact by the rules, a suspect of the same arithmetic or not.
	own, err := profile.Load("hopper/bf16")
	if err != nil {
		t.Fatal(err)
	}
	out = compute(t, c, "hopper/bf16", plan.Plain(), profile.Epilogue{})
	c.Out.Hash = hashOf(out)
	if v := withSuspects(t, c, out, own, suspect); v.Outcome != Exact || v.Discovered != "" || v.PlansTried != 1 {
		t.Errorf("%s", brief(v))
	}
}

// TestSuspectLittleOutput: one element fits many plans, also where the only one tried was found by probing.
func TestSuspectLittleOutput(t *testing.T) {
	c, _, right, _ := ownKernel(t, 1, 1, 129)
	c.Out.Format = format.BF16
	right.Epilogue.Out = format.BF16
	out := compute(t, c, "hopper/bf16-k8", right.Plan, profile.Epilogue{})
	c.Out.Hash = hashOf(out)
	v := withSuspects(t, c, out, right)
	if v.Outcome != Undecided || v.Discovered == "" || len(v.Notes) != 0 || !strings.HasPrefix(v.Reason, "too little output") {
		t.Errorf("%s", brief(v))
	}
}

// TestSuspectInTrace: lines are decided by it, and a line that is not its own is not.
func TestSuspectInTrace(t *testing.T) {
	c, _, right, other := ownKernel(t, 17, 13, 129)
	w := tracetest.New(t, filepath.Join(t.TempDir(), "run.hawk"))
	w.Add(0, c, tracetest.More{})
	w.Add(0, c, tracetest.More{Step: 1})
	wrong := *c
	wrong.Out.Hash = strings.Repeat("0", 64)
	w.Add(0, &wrong, tracetest.More{Step: 2})
	w.Seal()
	s := openSet(t, w.Dir)
	for i, want := range []Outcome{Exact, Exact, Undecided} {
		v, err := s.Replay(t.Context(), i, Options{Suspects: []*profile.Profile{other, right}})
		if err != nil || v.Outcome != want || (v.Discovered != "") != (want == Exact) || v.Reused != (i == 1) {
			t.Errorf("line %d: %s, %v", i, brief(v), err)
		}
	}
	if v, err := s.Replay(t.Context(), 0, Options{Profile: other, Suspects: []*profile.Profile{right}}); err != nil || v.Outcome != Wrong || v.Discovered != "" {
		t.Errorf("another profile is given: %s, %v", brief(v), err)
	}
}
