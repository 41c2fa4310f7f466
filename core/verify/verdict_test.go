package verify

import (
	"math"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

func TestEvidence(t *testing.T) {
	for _, test := range []struct {
		disagreements, tested, tried, n int
		want                            float64
	}{
		{0, 0, 1, 10, 0},        // nothing seen: nothing known
		{0, 0, 4, 10, -2},       // and any of four plans could have agreed
		{2, 2, 1, 3, 6},         // (0+1)/(2+2)
		{6, 6, 1, 5, 15},        // 1/8 an element
		{6, 6, 8, 5, 12},        // and eight plans
		{0, 6, 1, 5000, 0},      // wrong plans never showed
		{3, 6, 2, 1, 0},         // one half an element, two plans
		{3, 6, 1024, 1, 1 - 10}, // less than nothing
		{1022, 1022, 400, 512, 5120 - math.Log2(400)},    // 2^-10 an element
		{100, 1000, 0, 100, 100 * math.Log2(1002.0/901)}, // no plan counts as one
	} {
		if got := evidence(test.disagreements, test.tested, test.tried, test.n); math.Abs(got-test.want) > 1e-9*math.Abs(test.want)+1e-12 {
			t.Errorf("evidence(%d, %d, %d, %d) = %g, want %g", test.disagreements, test.tested, test.tried, test.n, got, test.want)
		}
	}
	for tested := 1; tested < 200; tested += 7 { // never without bound, however clear the tests were
		if got := evidence(tested, tested, 1, 1); math.IsInf(got, 0) || got <= evidence(tested-1, tested, 1, 1) {
			t.Errorf("%d of %d: %g", tested, tested, got)
		}
	}
}

func TestJudge(t *testing.T) {
	const hashed, stored, whole = "sha256 of the whole output", "stored elements", "the whole output"
	two := []string{"plan 2", "plan 3"}
	for _, test := range []struct {
		name     string
		out      format.Format
		count    int // elements of the output
		samples  int // stored ones
		hash     bool
		searched bool
		rejected int // plans, in as many comparisons of 4 elements, all of which disagreed
		tried    int
		others   []string
		outcome  Outcome
		compared string
		elements int
		bits     float64
		reason   string // its beginning; empty: none
	}{
		{"a determined plan counts every bit", format.F16, 10, 10, true, false, 0, 1, nil, Exact, hashed, 10, 160, ""},
		{"however few they are", format.BF16, 1, 1, true, false, 0, 1, nil, Exact, hashed, 1, 16, ""},
		{"stored elements alone", format.F32, 9000, 500, false, false, 0, 1, nil, Exact, stored, 500, 16000, ""},
		{"stored whole", format.F64, 12, 12, false, false, 0, 1, nil, Exact, whole, 12, 768, ""},
		{"a search that rejected nothing", format.F16, 10, 10, true, true, 0, 3, two, Exact, hashed, 10, 160, "2 further plans agree on the stored elements looked at"},
		{"a search that rejected nothing on one f16 element", format.F16, 1, 1, true, true, 0, 3, two, Undecided, hashed, 1, 16,
			"too little output to identify the plan: one of 3 plans tried agrees on 1 elements, worth 16.0 bits, and 30 are wanted"},
		{"two f16 elements are enough then", format.F16, 2, 2, true, true, 0, 3, two, Exact, hashed, 2, 32, "2 further plans agree"},
		{"a search that rejected most", format.BF16, 100, 100, true, true, 20, 32, nil, Exact, hashed, 100, 100*math.Log2(82) - 5, ""},
		{"never more than the bits compared", format.F16, 100, 100, true, true, 1 << 20, 1, nil, Exact, hashed, 100, 1600, ""},
		{"a search on few elements", format.BF16, 5, 5, true, true, 1, 32, nil, Undecided, hashed, 5, 5*math.Log2(6) - 5,
			"too little output to identify the plan: one of 32 plans tried agrees on 5 elements, worth 7.9 bits, and 30 are wanted"},
		{"a search worth nothing says 0 bits", format.BF16, 1, 1, true, true, 1, 1024, two, Undecided, hashed, 1, math.Log2(6) - 10,
			"too little output to identify the plan: one of 1024 plans tried agrees on 1 elements, worth 0.0 bits"},
		{"a search on stored elements", format.F32, 9000, 500, false, true, 3, 4, two, Exact, stored, 500, 500*math.Log2(14) - 2, "2 further plans agree"},
	} {
		r := replay{c: &cases.Case{Out: cases.Output{Format: test.out}}, rejected: test.rejected, tested: 4 * test.rejected, disagreed: 4 * test.rejected}
		if test.hash {
			r.known.hash = strings.Repeat("a0", 32)
		}
		r.known.samples, r.known.whole = make([]uint64, test.samples), test.samples == test.count
		v := r.judge(Verdict{PlansTried: test.tried, Others: test.others}, choice{searched: test.searched, uncertain: true}, test.count)
		if v.Outcome != test.outcome || v.Compared != test.compared || v.Elements != test.elements || math.Abs(v.EvidenceBits-test.bits) > 1e-9*math.Abs(test.bits) {
			t.Errorf("%s: %s, %s, %d elements, %g bits; want %s, %s, %d, %g", test.name, v.Outcome, v.Compared, v.Elements, v.EvidenceBits,
				test.outcome, test.compared, test.elements, test.bits)
		}
		if !strings.HasPrefix(v.Reason, test.reason) || test.reason == "" && v.Reason != "" {
			t.Errorf("%s: reason %q, want %q", test.name, v.Reason, test.reason)
		}
	}
}

// TestNoAgreement: differing bits are wrong only where the name leaves neither a choice nor room for other plans.
func TestNoAgreement(t *testing.T) {
	p, err := profile.Load("hopper/bf16")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		searched, uncertain bool
		samples             int
		want                Outcome
		reason              string
	}{
		{false, false, 0, Wrong, "the hash of the output differs from the recorded one"},
		{false, true, 0, Undecided, "the one plan tried for nvjet kernels does not give the recorded output, and such a kernel may have others"},
		{false, true, 5, Undecided, "the one plan tried for nvjet kernels does not give the recorded output, and such a kernel may have others"},
		{true, false, 0, Undecided, "none of 7 plans for nvjet kernels gives the recorded output"},
		{true, false, 5, Undecided, "1 of 7 plans tried agree on the stored elements looked at first, but none gives the whole recorded output"},
		{true, true, 5, Undecided, "1 of 7 plans tried agree on the stored elements looked at first, but none gives the whole recorded output"},
	} {
		r := replay{c: &cases.Case{Out: cases.Output{Format: format.BF16}}, known: recorded{hash: "x", samples: make([]uint64, test.samples)}}
		v := r.noAgreement(Verdict{PlansTried: 7}, choice{family: "nvjet", searched: test.searched, uncertain: test.uncertain}, []candidate{{profile: p}})
		if v.Outcome != test.want || v.Reason != test.reason || (v.ProfileID != "") != (test.want == Wrong) {
			t.Errorf("searched %v, uncertain %v, %d samples: %s, %q; want %s, %q", test.searched, test.uncertain, test.samples, v.Outcome, v.Reason, test.want, test.reason)
		}
	}
}

// TestSpread: whatever n is, every index comes once, and the first few are apart.
func TestSpread(t *testing.T) {
	for n := 1; n <= 520; n++ {
		seen := make([]bool, n)
		order := spread(n)
		for _, i := range order {
			if i < 0 || i >= n || seen[i] {
				t.Fatalf("spread(%d) = %v", n, order)
			}
			seen[i] = true
		}
		if len(order) != n {
			t.Fatalf("spread(%d) has %d", n, len(order))
		}
		if n >= 32 {
			quarters := map[int]bool{}
			for _, i := range order[:8] {
				quarters[4*i/n] = true
			}
			if len(quarters) < 3 {
				t.Errorf("spread(%d) begins %v", n, order[:8])
			}
		}
	}
	if len(spread(0)) != 0 {
		t.Error("spread(0) is not empty")
	}
}
