package verify

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
)

// determined are the families whose kernel names leave one profile: a bit that differs is wrong. Elsewhere another plan may
// explain it, and the verdict is undecided.
var determined = map[string]bool{"nvjet": true, "nvjet promoted": true, "cutlass integer": true, "gemv2N": true, "gemmk1": true}

// tamperedCases are small exact cases of every family that has a plan: some stored whole, some sampled.
func tamperedCases(t *testing.T, golden *cases.Golden) []*cases.Case {
	t.Helper()
	expected := expectedExact(t)
	byFamily := map[string][]*cases.Case{}
	for _, c := range golden.Cases {
		if choice := choose(c, Options{}); choice.unknown == "" && expected[c.ID] {
			key := fmt.Sprintf("%s, stored whole: %v", choice.family, wholeStored(c))
			byFamily[key] = append(byFamily[key], c)
		}
	}
	each, limit := 2, uint64(1e7)
	if testing.Short() {
		each, limit = 1, 1e6
	}
	var list []*cases.Case
	for _, family := range byFamily {
		slices.SortStableFunc(family, func(a, b *cases.Case) int { return cmp.Compare(a.MultiplyAdds(), b.MultiplyAdds()) })
		for _, c := range family[:min(each, len(family))] {
			if c.MultiplyAdds() <= limit {
				list = append(list, c)
			}
		}
	}
	slices.SortFunc(list, func(a, b *cases.Case) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

func wholeStored(c *cases.Case) bool {
	batch, m, n, _ := c.Sizes()
	return c.Out.Samples.Elements == batch*m*n
}

// checkCaught fails unless a verdict of changed bits is what the family allows: never exact.
func checkCaught(t *testing.T, what string, c *cases.Case, v Verdict) {
	t.Helper()
	want := v.Outcome == Wrong || v.Outcome == Undecided // a searched plan may be known well enough to say what is wrong
	if determined[v.Family] {
		want = v.Outcome == Wrong
	}
	if !want || v.Reason == "" || v.EvidenceBits != 0 || v.Compared != "" {
		t.Errorf("%s (%s), %s: %s, want wrong (or, where the names leave a choice, undecided): %s", c.ID, v.Family, what, v.Outcome, v.Reason)
	}
}

// TestTamper changes one bit of recorded outputs that replay exactly, in every way a record allows.
func TestTamper(t *testing.T) {
	golden := openGolden(t)
	random := rand.New(rand.NewPCG(17, 4))
	families := map[string]int{}
	for _, original := range tamperedCases(t, golden) {
		data := stored(t, golden, original)
		c := *original
		if v := replayed(t, &c, data); v.Outcome != Exact {
			t.Errorf("%s: %s before anything was changed: %s", c.ID, v.Outcome, v.Reason)
			continue
		}
		width := c.Out.Format.Bytes()
		element, bit := random.IntN(len(data)/width), random.IntN(8*width)
		changed := bytes.Clone(data)
		changed[element*width+bit/8] ^= 1 << (bit % 8)
		batch, m, n, _ := c.Sizes()
		index := cases.SampleIndices(batch * m * n)[element]

		hashes := map[string]string{"hash kept": original.Out.Hash, "no hash": ""}
		if wholeStored(original) {
			hashes["hash made anew"] = hashOf(changed)
		}
		for what, hash := range hashes {
			c.Out.Hash = hash
			v := replayed(t, &c, changed)
			checkCaught(t, fmt.Sprintf("bit %d of element %d, %s", bit, index, what), original, v)
			if v.Outcome != Wrong {
				continue
			}
			begin := fmt.Sprintf("1 of %d stored elements differ, first at %d (recorded 0x", len(data)/width, index)
			if !strings.HasPrefix(v.Reason, begin) {
				t.Errorf("%s, %s: %q, want %q…", c.ID, what, v.Reason, begin)
			}
			if d := v.Comparison; d == nil || d.Differing != 1 || d.First != index || d.Worst != index || d.FirstExpected^d.FirstActual != 1<<bit {
				t.Errorf("%s, %s: %+v, want a difference in bit %d at %d", c.ID, what, d, bit, index)
			}
			if v.Plan == "" || len(v.ProfileID) != 64 {
				t.Errorf("%s, %s: wrong without saying by which profile: %+v", c.ID, what, v)
			}
		}

		// The hash alone, with the true samples and with none.
		digit := []byte(original.Out.Hash)
		at := random.IntN(len(digit))
		digit[at] = "0123456789abcdef"[(strings.IndexByte("0123456789abcdef", digit[at])+1)%16]
		c.Out.Hash = string(digit)
		v := replayed(t, &c, data)
		checkCaught(t, "a wrong hash", original, v)
		if v.Outcome == Wrong {
			want := fmt.Sprintf("the %d stored elements agree, but the hash of the whole output differs from the recorded one", len(data)/width)
			if v.Reason != want {
				t.Errorf("%s: %q, want %q", c.ID, v.Reason, want)
			}
		}
		v = replayed(t, &c, nil)
		checkCaught(t, "a wrong hash and no samples", original, v)
		if v.Outcome == Wrong && v.Reason != "the hash of the output differs from the recorded one" {
			t.Errorf("%s: %q", c.ID, v.Reason)
		}
		families[v.Family]++
	}
	t.Logf("cases by family: %v", families)
	for family := range determined {
		if families[family] == 0 && !testing.Short() {
			t.Errorf("no case of %s was tried", family)
		}
	}
	if wanted := 12; len(families) < wanted && !testing.Short() {
		t.Errorf("%d families, want at least %d", len(families), wanted)
	}
}

// TestTamperedInputs: operands that are not those of the recorded output are never exact either.
func TestTamperedInputs(t *testing.T) {
	golden := openGolden(t)
	expected := expectedExact(t)
	tried := 0
	for _, original := range smallCases(golden, 2e5, 60) {
		data := stored(t, golden, original)
		width := original.Out.Format.Bytes()
		// An output of NaNs alone is the same for other operands.
		if !expected[original.ID] || bytes.Count(data, data[:width])*width == len(data) {
			continue
		}
		tried++
		c := *original
		a, b := *c.A.Generator, *c.B.Generator
		a.Seed++
		b.Seed++
		c.A.Generator, c.B.Generator = &a, &b
		checkCaught(t, "another seed", original, replayed(t, &c, data))
	}
	if tried < 10 {
		t.Errorf("%d cases were tried", tried)
	}
}
