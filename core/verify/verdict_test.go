package verify

import (
	"math"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
)

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
		weighed  float64 // bits; 0: nothing was rejected
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
			"too little output to identify the plan: one of 3 plans tried agrees on 1 element, worth 16.0 bits, and 30 are wanted"},
		{"two f16 elements are enough then", format.F16, 2, 2, true, true, 0, 3, two, Exact, hashed, 2, 32, "2 further plans agree"},
		{"a search that rejected most", format.BF16, 100, 100, true, true, 400, 32, nil, Exact, hashed, 100, 400, ""},
		{"never more than the bits compared", format.F16, 100, 100, true, true, 1 << 20, 2, nil, Exact, hashed, 100, 1600, ""},
		{"a search on few elements", format.BF16, 5, 5, true, true, 7.9, 32, nil, Undecided, hashed, 5, 7.9,
			"too little output to identify the plan: one of 32 plans tried agrees on 5 elements, worth 7.9 bits, and 30 are wanted"},
		{"a search worth nothing says 0 bits", format.BF16, 1, 1, true, true, -3, 1024, two, Undecided, hashed, 1, 0,
			"too little output to identify the plan: one of 1024 plans tried agrees on 1 element, worth 0.0 bits"},
		{"a search on stored elements", format.F32, 9000, 500, false, true, 300, 4, two, Exact, stored, 500, 300, "2 further plans agree"},
	} {
		r := replay{c: &cases.Case{Out: cases.Output{Format: test.out}}, count: test.count}
		w := weighed{bits: test.weighed}
		if test.weighed != 0 {
			w.rejected = test.tried - 1
		}
		if test.hash {
			r.known.hash = strings.Repeat("a0", 32)
		}
		r.known.samples, r.known.whole = make([]uint64, test.samples), test.samples == test.count
		v := r.judge(Verdict{PlansTried: test.tried, Others: test.others}, choice{searched: test.searched, uncertain: true}, w)
		if v.Outcome != test.outcome || v.Compared != test.compared || v.Elements != test.elements || math.Abs(v.EvidenceBits-test.bits) > 1e-9*math.Abs(test.bits) {
			t.Errorf("%s: %s, %s, %d elements, %g bits; want %s, %s, %d, %g", test.name, v.Outcome, v.Compared, v.Elements, v.EvidenceBits,
				test.outcome, test.compared, test.elements, test.bits)
		}
		if !strings.HasPrefix(v.Reason, test.reason) || test.reason == "" && v.Reason != "" {
			t.Errorf("%s: reason %q, want %q", test.name, v.Reason, test.reason)
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
