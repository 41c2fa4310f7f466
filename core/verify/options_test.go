package verify

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// TestGivenProfile: the caller's profile alone is tried, and differing bits are wrong then, whatever the kernels are called.
func TestGivenProfile(t *testing.T) {
	c := splitCall(17, 13, 129, "cancel").Record()
	out := compute(t, c, "hopper/bf16-k8", splitPlan(3), profile.Epilogue{})
	c.Out.Hash = hashOf(out)
	found := replayed(t, c, out)
	if found.Outcome != Exact {
		t.Fatalf("%s: %s", found.Outcome, found.Reason)
	}
	right, err := profile.Parse(found.Profile)
	if err != nil {
		t.Fatal(err)
	}
	other := *right
	other.Plan = splitPlan(5)
	for _, kernels := range [][]string{c.Kernels, nil, {"my_own_kernel"}} {
		c.Kernels = kernels
		v, err := ReplayCase(t.Context(), c, out, Options{Profile: right})
		if err != nil || v.Outcome != Exact || v.PlansTried != 1 || v.ProfileID != found.ProfileID || v.EvidenceBits != 17*13*32 {
			t.Errorf("%v: %+v, %v", kernels, v, err)
		}
		v, err = ReplayCase(t.Context(), c, out, Options{Profile: &other})
		if err != nil || v.Outcome != Wrong || v.Difference == nil || v.Difference.Kind != Scattered || v.Comparison.Differing == 0 {
			t.Errorf("%v, another profile: %+v, %v", kernels, v, err)
		}
	}
}

// TestEstimate: the callback hears of the work once, before it begins, and of as much as there is.
func TestEstimate(t *testing.T) {
	c := splitCall(60, 70, 400, "cancel").Record()
	out := compute(t, c, "hopper/bf16-k8", splitPlan(4), profile.Epilogue{})
	c.Out.Hash = hashOf(out)
	var got []Estimate
	progressed := false
	o := Options{Estimate: func(e Estimate) {
		got = append(got, e)
		if progressed {
			t.Error("the estimate came after the work began")
		}
	}, Progress: func(uint64, uint64) error { progressed = true; return nil }}
	v, err := ReplayCase(t.Context(), c, samplesOf(out, 4), o)
	if err != nil || len(got) != 1 || got[0].Candidates != v.PlansTried || got[0].MultiplyAdds != 60*70*400 || got[0].Seconds <= 0 || got[0].Seconds > 10 {
		t.Errorf("%+v, %v; %+v", got, err, v)
	}
	if v.ReplaySeconds <= 0 || v.SearchSeconds < 0 {
		t.Errorf("%g s of replay, %g s of search", v.ReplaySeconds, v.SearchSeconds)
	}
	big := got[0]
	learn(&profile.Profile{}, 1e9, 50*time.Millisecond, 1) // other arithmetic: does not count
	r := replay{c: c, count: 60 * 70, k: 400, options: Options{Threads: 1}}
	if twice := r.estimate(choose(c, Options{}).candidates); twice.Seconds < big.Seconds/100 {
		t.Errorf("%+v after %+v", twice, big)
	}
	if none := r.estimate(nil); none.Seconds != 0 || none.Candidates != 0 {
		t.Errorf("no candidates: %+v", none)
	}
}

// TestStoppedAfterSome: what was tried and what remains stands in the verdict beside the error.
func TestStoppedAfterSome(t *testing.T) {
	c := splitCall(100, 90, 3000, "cancel").Record()
	out := compute(t, c, "hopper/bf16-k8", splitPlan(4), profile.Epilogue{})
	c.Out.Hash = hashOf(out)
	for _, allowed := range []int{0, 1, 3, 20} {
		ctx, cancel := context.WithCancelCause(t.Context())
		calls := &countdown{Context: ctx, left: allowed}
		v, err := ReplayCase(calls, c, samplesOf(out, 4), Options{})
		cancel(nil)
		if !errors.Is(err, context.Canceled) || !v.Stopped || v.Outcome != Undecided || v.EvidenceBits != 0 || !strings.HasPrefix(v.Reason, "stopped") {
			t.Errorf("after %d looks: %+v, %v", allowed, v, err)
		}
	}
}

// countdown is a context that ends after it was asked so many times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// tailCase reads one of the products of ones recorded on an H200 whose K is no multiple of 64.
func tailCase(t *testing.T, index int) (*cases.Case, []byte) {
	t.Helper()
	golden, err := cases.ReadGolden("../../tests/goldens/h200-tails.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return golden.Cases[index], stored(t, golden, golden.Cases[index])
}

// TestTails: cuBLAS's split-K drops the last 8 products of K = 11528 and of 57608. The verdict says so, and where f16 output
// hides it, that it could not be seen.
func TestTails(t *testing.T) {
	for index, want := range []struct {
		outcome Outcome
		text    string
	}{
		{Wrong, "8 products missing"}, {Wrong, "8 products missing"}, {Exact, "a dropped tail could not be seen here"}, {Wrong, "8 products missing"},
	} {
		c, data := tailCase(t, index)
		for what, data := range map[string][]byte{"samples": data, "the hash": nil} {
			v := replayed(t, c, data)
			said := v.Reason + strings.Join(v.Notes, "; ")
			if v.Outcome != want.outcome || !strings.Contains(said, want.text) || want.outcome == Wrong && !strings.Contains(said, "known fault of cuBLAS") {
				t.Errorf("%s, K = %d, out %v, by %s: %s: %s; notes %q", c.ID, c.A.Shape[2], c.Out.Format, what, v.Outcome, v.Reason, v.Notes)
			}
			if want.outcome == Wrong && (v.Difference == nil || v.Difference.MissingProducts != 8 || v.Difference.Kind != MissingProducts) {
				t.Errorf("%s by %s: %+v", c.ID, what, v.Difference)
			}
		}
	}
}
