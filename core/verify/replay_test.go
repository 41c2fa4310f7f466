package verify

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/cases/casestest"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

const nvjetKernel = "nvjet_sm90_tst_64x64_64x3_1x2_h_bz_NNT"

// splitCall is a CUTLASS split-K multiplication in units of 8 k.
func splitCall(m, n, k int, kind string) call {
	return call{A: format.BF16, Out: format.F32, Size: [4]int{1, m, n, k}, Layout: "TN", Kind: kind, Seed: 3,
		Kernels: []string{casestest.Cutlass("cutlass_75_tensorop_s1688gemm_bf16_64x64_nt_align1"), casestest.ReduceKernel("float", "float")}}
}

func splitPlan(slices int) plan.Plan {
	return plan.SplitK(slices, 8, plan.Tiled(plan.ResidueFirst, 32), format.F32, format.F32)
}

// TestFindsSlices: the number of slices, which no name tells, is found again, whatever is known of the output.
func TestFindsSlices(t *testing.T) {
	for _, slices := range []int{1, 2, 3, 5, 9, 17} {
		for _, size := range [][3]int{{17, 13, 129}, {100, 90, 136}} { // stored whole, and sampled
			c := splitCall(size[0], size[1], size[2], "cancel").Record()
			out := compute(t, c, "hopper/bf16-k8", splitPlan(slices), profile.Epilogue{})
			hash, samples := hashOf(out), samplesOf(out, 4)
			tried := slicings(size[2], 8)
			want := splitPlan(slices)
			for name, known := range map[string]struct {
				hash     string
				samples  []byte
				compared string
				elements int
			}{
				"both":        {hash, samples, "sha256 of the whole output", size[0] * size[1]},
				"the hash":    {hash, nil, "sha256 of the whole output", size[0] * size[1]},
				"the samples": {"", samples, map[bool]string{true: "the whole output", false: "stored elements"}[size[0] == 17], len(samples) / 4},
			} {
				c.Out.Hash = known.hash
				v := replayed(t, c, known.samples)
				if v.Outcome != Exact || !strings.HasPrefix(v.Plan, want.Describe()) || v.PlansTried != tried || v.Compared != known.compared || v.Elements != known.elements {
					t.Errorf("%d slices of %v by %s: %s, %q, %d plans tried (of %d), %s of %d elements: %s", slices, size, name, v.Outcome, v.Plan,
						v.PlansTried, tried, v.Compared, v.Elements, v.Reason)
				}
				if v.EvidenceBits < wantedBits || v.EvidenceBits > float64(32*v.Elements) {
					t.Errorf("%d slices of %v by %s: %g bits", slices, size, name, v.EvidenceBits)
				}
				if len(known.samples) == 0 && len(v.Others) > 0 {
					t.Errorf("%d slices of %v by the hash: %d other plans, with which nothing was compared", slices, size, len(v.Others))
				}
				if v.Comparison != nil {
					t.Errorf("an exact verdict with a comparison: %+v", v.Comparison)
				}
			}
		}
	}
}

// TestWrongMemberOfTheSet: a plan that agrees on every sample is not the plan where the whole output's hash says so.
func TestWrongMemberOfTheSet(t *testing.T) {
	c := splitCall(100, 90, 136, "cancel").Record()
	right := compute(t, c, "hopper/bf16-k8", splitPlan(3), profile.Epilogue{})
	other := compute(t, c, "hopper/bf16-k8", splitPlan(2), profile.Epilogue{})
	c.Out.Hash = hashOf(other)
	v := replayed(t, c, samplesOf(right, 4))
	const want = "1 of 8 plans tried agree on the stored elements looked at first, but none gives the whole recorded output"
	if v.Outcome != Undecided || v.Reason != want {
		t.Errorf("%s: %s", v.Outcome, v.Reason)
	}
	c.Out.Hash = hashOf(nil)
	if v := replayed(t, c, nil); v.Outcome != Undecided || v.Reason != "none of 8 plans for cutlass split-K kernels gives the recorded output" {
		t.Errorf("the hash alone: %s: %s", v.Outcome, v.Reason)
	}
	// One stored element, not among the first looked at, is enough too.
	c.Out.Hash = ""
	samples := samplesOf(right, 4)
	last := spread(len(samples) / 4)[len(samples)/4-1]
	samples[4*last] ^= 1
	if v := replayed(t, c, samples); v.Outcome != Wrong || !strings.Contains(v.Reason, "one element changed") {
		t.Errorf("the samples alone: %s: %s", v.Outcome, v.Reason)
	}
}

// TestTooLittleOutput: the right bits of one element fit many plans, and the verdict says so.
func TestTooLittleOutput(t *testing.T) {
	c := splitCall(1, 1, 2000, "normal").Record()
	c.Out.Format = format.BF16
	out := compute(t, c, "hopper/bf16-k8", splitPlan(7), profile.Epilogue{})
	c.Out.Hash = hashOf(out)
	v := replayed(t, c, out)
	if v.Outcome != Undecided || !strings.HasPrefix(v.Reason, "too little output to identify the plan: one of ") || v.EvidenceBits >= wantedBits {
		t.Errorf("%s, %g bits: %s", v.Outcome, v.EvidenceBits, v.Reason)
	}
	if len(v.Others) == 0 || v.Plan == "" {
		t.Errorf("plan %q, others %q: the plans that agree should be named", v.Plan, v.Others)
	}
}

// TestEvidenceOfWholeRuns: plans rejected by the whole output alone count as those rejected by samples do. The plan tried
// last is the right one, so that all others are run whole.
func TestEvidenceOfWholeRuns(t *testing.T) {
	c := splitCall(9, 7, 136, "cancel").Record()
	const last = 17
	right := compute(t, c, "hopper/bf16-k8", splitPlan(last), profile.Epilogue{})
	c.Out.Hash = hashOf(right)
	v := replayed(t, c, nil)
	if v.Outcome != Exact || v.EvidenceBits < wantedBits || v.EvidenceBits >= 32*9*7 || v.PlansTried != slicings(136, 8) || len(v.Others) != 0 || !strings.HasPrefix(v.Plan, "17 slices") {
		t.Errorf("%g bits: %+v", v.EvidenceBits, v)
	}
}

// TestAllPlansAgree: where no plan can be told from another nothing was chosen, and every bit counts.
func TestAllPlansAgree(t *testing.T) {
	c := splitCall(9, 7, 40, "sparse").Record()
	c.A.Generator.Kind, c.B.Generator.Kind = "normal", "normal"
	c.Out.Format = format.BF16
	found := false
	for seed := uint64(0); seed < 500 && !found; seed++ { // sums of few exact products agree in bf16, now and then all of them
		c.A.Generator.Seed, c.B.Generator.Seed = seed, seed
		out := compute(t, c, "hopper/bf16-k8", splitPlan(1), profile.Epilogue{})
		found = true
		for _, slices := range []int{2, 3, 5} {
			found = found && hashOf(compute(t, c, "hopper/bf16-k8", splitPlan(slices), profile.Epilogue{})) == hashOf(out)
		}
		if !found {
			continue
		}
		c.Out.Hash = hashOf(out)
		v := replayed(t, c, out)
		if v.Outcome != Exact || v.EvidenceBits != 63*16 || v.PlansTried != 4 || len(v.Others) != 3 ||
			v.Reason != "3 further plans agree on the stored elements looked at" {
			t.Errorf("seed %d: %s, %g bits, %d plans, others %q: %s", seed, v.Outcome, v.EvidenceBits, v.PlansTried, v.Others, v.Reason)
		}
	}
	if !found {
		t.Error("no seed makes all plans agree: choose a smaller output")
	}
}

// TestForms: the kernel's name says which of two epilogues gives the output; the other is no explanation.
func TestForms(t *testing.T) {
	for _, op := range []string{"addmm", "baddbmm"} {
		for _, form := range []profile.Form{profile.FormFMAAlpha, profile.FormFMABeta} {
			c := call{Op: op, A: format.F16, Out: format.F32, Size: [4]int{2, 13, 17, 50}, Kind: "cancel", C: "full", Alpha: 0.7, Beta: -1.3, Seed: 8,
				Kernels: []string{casestest.Cutlass(map[profile.Form]string{
					profile.FormFMAAlpha: "cutlass_80_tensorop_f16_s16816gemm_f16_64x64_64x5_nn_align2",
					profile.FormFMABeta:  "cutlass_75_wmma_tensorop_f16_s161616gemm_f16_32x32_64x1_nn_align1",
				}[form])}}.Record()
			out := compute(t, c, "hopper/f16", plan.Tiled(plan.ResidueFirst, 64), profile.Epilogue{Form: form})
			c.Out.Hash = hashOf(out)
			v := replayed(t, c, out)
			if v.Outcome != Exact || !strings.Contains(string(v.Profile), `"form":"`+string(form)+`"`) || v.PlansTried != 1 {
				t.Errorf("%s, %s: %s, %s: %s", op, form, v.Outcome, v.Profile, v.Reason)
			}
		}
	}
}

// TestDeclined: what is not known, or not there, is undecided with the reason.
func TestDeclined(t *testing.T) {
	zeros := func(c *cases.Case) []byte {
		batch, m, n, _ := c.Sizes()
		return samplesOf(make([]byte, batch*m*n*c.Out.Format.Bytes()), c.Out.Format.Bytes())
	}
	nvjet := []string{nvjetKernel}
	const empty = "the output is empty or K is 0: nothing was multiplied, and there is no arithmetic to verify"
	for _, test := range []struct {
		name   string
		call   call
		change func(c *cases.Case)
		want   string
	}{
		{"K is 0", call{A: format.BF16, Size: [4]int{1, 3, 5, 0}, Kernels: nvjet}, nil, empty},
		{"K is 0, transposed", call{A: format.BF16, Size: [4]int{1, 3, 5, 0}, Layout: "TT", Kernels: nvjet}, nil, empty},
		{"no rows", call{A: format.BF16, Size: [4]int{1, 0, 5, 4}, Kernels: nvjet}, nil, empty},
		{"no columns", call{A: format.BF16, Size: [4]int{1, 3, 0, 4}, Kernels: nvjet}, nil, empty},
		{"no batch", call{A: format.BF16, Size: [4]int{0, 3, 5, 4}, Kernels: nvjet}, nil, empty},
		{"no recipe", call{A: format.BF16, Size: [4]int{1, 3, 5, 4}, Kernels: nvjet}, func(c *cases.Case) { c.A.Generator = nil },
			"a and b: the record has neither files of them nor one recipe for both"},
		{"a file of no source", call{A: format.BF16, Size: [4]int{1, 3, 5, 4}, Kernels: nvjet}, func(c *cases.Case) { c.A.File = "x" },
			"a: the operand comes from a file, and there is nothing to read it from"},
		{"an addend without a recipe", call{A: format.BF16, Size: [4]int{1, 3, 5, 4}, C: "full", Kernels: nvjet}, func(c *cases.Case) { c.C.Generator = nil },
			"c: the record has neither a file nor a recipe of it"},
		{"an unknown kind", call{A: format.BF16, Size: [4]int{1, 3, 5, 4}, Kind: "noise", Kernels: nvjet}, nil, `no kind of input is called "noise"`},
		{"a scaled bias", call{A: format.BF16, Size: [4]int{1, 3, 5, 4}, C: "bias", Alpha: 2, Kernels: nvjet}, nil, "adds c unscaled; for alpha 2 and beta 1"},
		{"a rounding nobody knows", call{A: format.BF16, Out: format.F64, Size: [4]int{1, 3, 5, 4}, Kernels: nvjet}, nil, "no known rounding of an accumulator in f32 to f64"},
		{"scales without a rule", call{Op: "int_mm", A: format.S8, Out: format.S32, Size: [4]int{1, 3, 5, 4}, Scaling: "tensor",
			Kernels: []string{casestest.Cutlass("cutlass_80_wmma_tensorop_i161616gemm_s8_forwardCompat_128x128_32x2_nn_align4")}}, nil, "scales are known only for f32 accumulators"},
	} {
		c := test.call.Record()
		if test.change != nil {
			test.change(c)
		}
		c.Out.Hash = hashOf(nil)
		v, err := ReplayCase(t.Context(), c, zeros(c), Options{})
		if err != nil || v.Outcome != Undecided || !strings.Contains(v.Reason, test.want) {
			t.Errorf("%s: %s, %q, %v; want undecided, %q", test.name, v.Outcome, v.Reason, err, test.want)
		}
		if v.Plan != "" || v.ProfileID != "" || v.EvidenceBits != 0 || v.Elements != 0 {
			t.Errorf("%s: an undecided verdict claims %+v", test.name, v)
		}
	}
	c := call{A: format.BF16, Size: [4]int{1, 3, 5, 4}, Kernels: nvjet}.Record()
	if v := replayed(t, c, nil); v.Outcome != Undecided || v.Reason != "the record holds neither the output's hash nor any of its elements" {
		t.Errorf("nothing recorded: %+v", v)
	}
}

// TestStoredLength: samples that are not those of the output are an error, not a disagreement.
func TestStoredLength(t *testing.T) {
	c := call{A: format.BF16, Size: [4]int{1, 3, 5, 4}, Kernels: []string{nvjetKernel}}.Record()
	for _, n := range []int{1, 28, 29, 31, 32, 60} {
		if _, err := ReplayCase(t.Context(), c, make([]byte, n), Options{}); err == nil || !strings.Contains(err.Error(), "case made: ") ||
			!strings.Contains(err.Error(), "30 were expected") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// TestVerdictNames: what a verdict says of the case itself.
func TestVerdictNames(t *testing.T) {
	c := call{Op: "scaled_mm", A: format.E5M2, B: format.E4M3, Out: format.BF16, Size: [4]int{1, 16, 32, 48}, Layout: "NT", Scaling: "row", Seed: 4,
		Kernels: []string{"nvjet_sm90_qrtst_128x128_128x6_2x1_v_bz_ovscale_TNT"}}.Record()
	out := compute(t, c, "hopper/e5m2-e4m3-fast", plan.Plain(), profile.Epilogue{Scaling: profile.ScalingRow})
	c.Out.Hash = hashOf(out)
	v := replayed(t, c, out)
	if v.Outcome != Exact || v.DType != "e5m2×e4m3" || v.Out != "bf16" || v.Op != "scaled_mm" || v.MultiplyAdds != 16*32*48 || v.PlansTried != 1 ||
		v.EvidenceBits != 16*32*16 || v.Reason != "" || len(v.Others) != 0 || v.Seconds <= 0 {
		t.Errorf("%+v", v)
	}
	if want := "one accumulator, k ascending; the sum is multiplied by the column's scale, then by the row's; "; !strings.HasPrefix(v.Plan, want) {
		t.Errorf("plan %q, want %q…", v.Plan, want)
	}
}

// bigCall takes seconds to replay: kinds whose NaN and Inf leave the fast kernels.
func bigCall() *cases.Case {
	c := call{A: format.BF16, Size: [4]int{1, 1500, 1500, 6000}, Kind: "bits", Kernels: []string{nvjetKernel}}.Record()
	c.Out.Hash = hashOf(nil)
	return c
}

var errEnough = errors.New("enough")

func TestCancel(t *testing.T) {
	before, cancel := context.WithCancelCause(context.Background())
	cancel(errEnough)
	small := call{A: format.BF16, Size: [4]int{1, 3, 5, 4}, Kernels: []string{nvjetKernel}}.Record()
	small.Out.Hash = hashOf(nil)
	if v, err := ReplayCase(before, small, nil, Options{}); !errors.Is(err, errEnough) || !v.Stopped || v.Outcome != Undecided {
		t.Errorf("cancelled before: %+v, %v", v, err)
	}
	search := splitCall(40, 40, 1000, "cancel").Record() // here the elimination is what is cancelled
	if v, err := ReplayCase(before, search, make([]byte, 40*40*4), Options{}); !errors.Is(err, errEnough) || !v.Stopped || v.Reason != "stopped: 0 of 22 candidates were tried, 22 remain" {
		t.Errorf("a search cancelled before: %+v, %v", v, err)
	}
	if testing.Short() {
		return
	}
	long := splitCall(40, 40, 57608, "cancel").Record() // no plan fits zeros: nothing is run whole
	long.Out.Hash = hashOf(nil)
	searching := 0
	v, err := ReplayCase(context.Background(), long, make([]byte, 40*40*4), Options{Progress: func(done, total uint64) error {
		if searching++; done != 0 || total != 40*40*57608 {
			t.Errorf("a search reports %d of %d", done, total)
		}
		return errEnough
	}})
	if !errors.Is(err, errEnough) || searching != 1 || !v.Stopped {
		t.Errorf("a callback that stops a search: %+v, %v after %d calls", v, err, searching)
	}
	big := bigCall()
	during, stop := context.WithCancelCause(context.Background())
	time.AfterFunc(300*time.Millisecond, func() { stop(errEnough) })
	start := time.Now()
	v, err = ReplayCase(during, big, nil, Options{})
	if took := time.Since(start); !errors.Is(err, errEnough) || !v.Stopped || v.Reason != "stopped before the replay was complete" || took > 10*time.Second {
		t.Errorf("cancelled while running: %+v, %v after %v", v, err, took)
	}
	calls := 0
	v, err = ReplayCase(context.Background(), big, nil, Options{Progress: func(_, _ uint64) error {
		if calls++; calls == 2 {
			return errEnough
		}
		return nil
	}})
	if !errors.Is(err, errEnough) || calls != 2 || !v.Stopped {
		t.Errorf("a refusing callback: %+v, %v after %d calls", v, err, calls)
	}
}

func TestProgress(t *testing.T) {
	c := splitCall(60, 70, 400, "cancel").Record()
	out := compute(t, c, "hopper/bf16-k8", splitPlan(4), profile.Epilogue{})
	c.Out.Hash = hashOf(out)
	last, calls := uint64(0), 0
	v, err := ReplayCase(t.Context(), c, samplesOf(out, 4), Options{Threads: 2, Progress: func(done, total uint64) error {
		if total != 60*70*400 || done > total {
			t.Errorf("%d of %d", done, total)
		}
		if done < last {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last, calls = done, calls+1
		return nil
	}})
	if err != nil || v.Outcome != Exact || calls == 0 || last != v.MultiplyAdds {
		t.Errorf("%+v, %v; %d calls, the last at %d", v, err, calls, last)
	}
	if math.IsNaN(v.Seconds) || v.Seconds <= 0 {
		t.Errorf("%g seconds", v.Seconds)
	}
	// Refusing the last report is refusing the replay.
	v, err = ReplayCase(t.Context(), c, samplesOf(out, 4), Options{Progress: func(done, total uint64) error {
		if done == total {
			return errEnough
		}
		return nil
	}})
	if !errors.Is(err, errEnough) || !v.Stopped || v.Outcome != Undecided {
		t.Errorf("a refusal at the end: %+v, %v", v, err)
	}
}
