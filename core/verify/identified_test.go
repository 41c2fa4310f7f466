package verify

import (
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// TestIdentifiedByStoredElements: of a large output 512 elements are stored, and one of them differs. Whether an unknown plan
// leaves that is a matter of those 512, however large the output is: not where another plan differs in one of them too.
func TestIdentifiedByStoredElements(t *testing.T) {
	c := call{A: format.BF16, Size: [4]int{1, 1000, 1000, 64}}.Record()
	for _, test := range []struct {
		nearest int // elements in which the plan that comes nearest to the first one differs from the record
		want    bool
	}{{1, false}, {2, false}, {300, true}} {
		r := &replay{c: c, batch: 1, m: 1000, n: 1000, k: 64, count: 1e6}
		b := &block{}
		for i := range 512 {
			b.at = append(b.at, gemm.Position{Row: i, Column: i})
			b.want = append(b.want, uint64(0x3f00+i%100))
		}
		r.blocks = []*block{b}
		for plan := range 8 {
			x := &trial{done: 1}
			for i, want := range b.want {
				switch {
				case plan == 0 && i == 511, plan == 1 && i < test.nearest, plan > 1 && i%2 == plan%2:
					want += uint64(1 + plan*7 + i%5)
				}
				x.values = append(x.values, want)
			}
			r.trials = append(r.trials, x)
		}
		nearest := r.compare(r.trials[0], b.at, b.want, r.trials[0].values)
		if got := r.identified(nearest, &Difference{Kind: DifferentElement, Differing: 1}); got != test.want {
			t.Errorf("beside a plan that differs in %d: identified %v", test.nearest, got)
		}
	}
}
