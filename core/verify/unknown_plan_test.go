package verify

import (
	"context"
	"testing"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/cases"
)

// verdictAmong is ReplayCase with candidates of one's own.
func verdictAmong(t *testing.T, c *cases.Case, stored []byte, ch choice) Verdict {
	t.Helper()
	return verdictAmongRows(t, c, stored, ch, 0)
}

// verdictAmongRows is the same of so many rows, 0 for all.
func verdictAmongRows(t *testing.T, c *cases.Case, stored []byte, ch choice, rows int) Verdict {
	t.Helper()
	known, err := readOutput(c, stored)
	if err != nil {
		t.Fatal(err)
	}
	operands, err := c.Materialize()
	if err != nil {
		t.Fatal(err)
	}
	batch, m, n, k := c.Sizes()
	r := &replay{c: c, operands: operands, options: Options{Threads: 1}, known: known, polled: time.Now(), batch: batch, m: m, n: n, k: k, count: batch * m * n}
	if rows > 0 {
		r.known.keep(c, rows, nil)
		r.count = len(r.known.samples)
	}
	v, err := r.verdict(context.Background(), Verdict{ID: c.ID, MultiplyAdds: c.MultiplyAdds()}, ch)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestUnknownPlanIsNotWrong: what a GPU computed in an order that is not among the plans tried is undecided, however well a
// fault on top of another plan, or a pattern beside it, would explain it. The plans that give the recorded output are taken
// out of the candidates.
func TestUnknownPlanIsNotWrong(t *testing.T) {
	golden := openGolden(t)
	limit, count := uint64(2e5), 1<<30
	if testing.Short() {
		limit, count = 5e4, 40
	}
	tried := 0
	for _, original := range smallCases(golden, limit, count) {
		data := stored(t, golden, original)
		for _, blind := range []bool{false, true} {
			c := *original
			c.Launches = nil
			ch := choose(&c, Options{Blind: blind})
			if ch.unknown != "" || !ch.searched && !ch.uncertain || len(ch.candidates) > 100 {
				continue
			}
			var kept []candidate
			for _, x := range ch.candidates {
				if out, err := wholeOutput(&c, x.profile.JSON()); err == nil && hashOf(out) != c.Out.Hash {
					kept = append(kept, x)
				}
			}
			if len(kept) == 0 {
				continue
			}
			ch.candidates, ch.searched, ch.uncertain = kept, len(kept) > 1, true
			for what, data := range map[string][]byte{"hash and samples": data, "the hash": nil} {
				tried++
				if v := verdictAmong(t, &c, data, ch); v.Outcome != Undecided {
					t.Errorf("%s (%s, %s), blind %v, by %s: %s among %d plans that do not give it: %s", c.ID, c.A.Generator.Kind, ch.family, blind, what, v.Outcome, len(kept), v.Reason)
				}
			}
		}
	}
	if tried < 20 {
		t.Errorf("%d verdicts", tried)
	}
	t.Logf("%d verdicts", tried)
}
