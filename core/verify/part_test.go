package verify

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/trace/tracetest"
)

// inRows is ReplayCase of so many rows.
func inRows(t *testing.T, c *cases.Case, stored []byte, rows int) Verdict {
	t.Helper()
	v, err := ReplayCase(t.Context(), c, stored, Options{Rows: rows})
	if err != nil {
		t.Fatalf("%s: %v", c.ID, err)
	}
	return v
}

// namedCall is a product whose kernel determines the plan, with its output.
func namedCall(t *testing.T, m, n, k int) (*cases.Case, []byte) {
	t.Helper()
	c := call{A: format.BF16, Size: [4]int{1, m, n, k}, Layout: "TN", Kind: "cancel", Seed: 5, Kernels: []string{"nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"}}.Record()
	out := compute(t, c, "hopper/bf16", plan.Plain(), profile.Epilogue{})
	c.Out.Hash = hashOf(out)
	return c, out
}

// TestDrawLines: rows are drawn alike by everybody, each once, and all are drawn by some seed.
func TestDrawLines(t *testing.T) {
	seen := map[int]bool{}
	for seed := range uint64(200) {
		list := drawLines(seed, 50, 4)
		if len(list) != 4 || !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != 4 || list[0] < 0 || list[3] > 49 ||
			!slices.Equal(list, drawLines(seed, 50, 4)) {
			t.Fatalf("%v", list)
		}
		for _, v := range list {
			seen[v] = true
		}
	}
	if len(seen) != 50 {
		t.Errorf("%d of 50 rows were ever drawn", len(seen))
	}
	if list := drawLines(1, 3, 9); !slices.Equal(list, []int{0, 1, 2}) {
		t.Errorf("%v", list)
	}
}

// TestPart: the elements in the chosen rows decide, and the others and the hash do not matter.
func TestPart(t *testing.T) {
	for _, size := range [][2]int{{40, 60}, {150, 130}} { // stored whole, and sampled
		for _, searched := range []bool{false, true} {
			var c *cases.Case
			var out []byte
			if searched {
				c = splitCall(size[0], size[1], 129, "cancel").Record()
				out = compute(t, c, "hopper/bf16-k8", splitPlan(3), profile.Epilogue{})
				c.Out.Hash = hashOf(out)
			} else {
				c, out = namedCall(t, size[0], size[1], 129)
			}
			width, count := c.Out.Format.Bytes(), size[0]*size[1]
			data := samplesOf(out, width)
			v := inRows(t, c, data, 12)
			var got, of, rows int
			if _, err := fmt.Sscanf(v.Compared, "%d of %d elements, in %d rows", &got, &of, &rows); err != nil {
				t.Fatalf("%v: %s: %s (%s)", size, v.Outcome, v.Reason, v.Compared)
			}
			if v.Outcome != Exact || got != v.Elements || of != count || rows != 12 || got < 12 || got > 12*size[1] || v.Seconds != 0 ||
				v.EvidenceBits > float64(got*8*width) || v.EvidenceBits < wantedBits || !slices.Equal(v.Notes, []string{noHash}) {
				t.Errorf("%v: %+v", size, v)
			}
			if want := replayed(t, c, data); v.ProfileID != want.ProfileID || v.Plan != want.Plan {
				t.Errorf("%v: %s, want %s", size, v.Plan, want.Plan)
			}
			// An element changed inside, with its hash or not; and outside.
			known, err := readOutput(c, data)
			if err != nil {
				t.Fatal(err)
			}
			known.keep(c, 12, nil)
			inside := map[int]bool{}
			for _, i := range known.indices {
				inside[i] = true
			}
			if len(inside) != got {
				t.Errorf("%d elements, want %d", len(inside), got)
			}
			tried := map[bool]int{}
			for i, index := range cases.SampleIndices(count) {
				if tried[inside[index]] >= 5 {
					continue
				}
				tried[inside[index]]++
				changed := slices.Clone(data)
				changed[i*width] ^= 4
				v := inRows(t, c, changed, 12)
				switch {
				case !inside[index] && v.Outcome != Exact:
					t.Errorf("%v: element %d outside of the rows: %s: %s", size, index, v.Outcome, v.Reason)
				case inside[index] && !searched && (v.Outcome != Wrong || v.Comparison == nil || v.Comparison.Differing != 1 || v.Comparison.First != index || v.Comparison.Count != got ||
					v.Difference == nil || v.Difference.Kind != DifferentElement):
					t.Errorf("%v: element %d: %s: %s; %+v", size, index, v.Outcome, v.Reason, v.Comparison)
				case inside[index] && searched && v.Outcome != Undecided:
					t.Errorf("%v, searched: element %d: %s: %s", size, index, v.Outcome, v.Reason)
				}
			}
			if tried[true] < 5 || tried[false] < 5 {
				t.Errorf("%v", tried)
			}
			// The hash is not looked at, and the note is there only where there is one.
			other := *c
			other.Out.Hash = strings.Repeat("0", 64)
			if v := inRows(t, &other, data, 12); v.Outcome != Exact || !slices.Equal(v.Notes, []string{noHash}) {
				t.Errorf("another hash: %s: %s; %q", v.Outcome, v.Reason, v.Notes)
			}
			other.Out.Hash = ""
			if v := inRows(t, &other, data, 12); v.Outcome != Exact || len(v.Notes) > 0 {
				t.Errorf("no hash: %s: %s; %q", v.Outcome, v.Reason, v.Notes)
			}
			if v := inRows(t, c, nil, 12); v.Outcome != Undecided || v.Reason != "only the hash of the output is recorded: a part of it cannot be compared; leave out --rows" {
				t.Errorf("the hash alone: %s: %s", v.Outcome, v.Reason)
			}
			// An output of no more rows is compared whole.
			if v := inRows(t, c, data, size[0]); v.Outcome != Exact || v.Compared != "sha256 of the whole output" || len(v.Notes) > 0 {
				t.Errorf("all rows: %+v", v)
			}
		}
	}
}

// TestPartOfLittle: few elements are no evidence, also where a name determines the plan.
func TestPartOfLittle(t *testing.T) {
	c, out := namedCall(t, 40, 1, 64)
	if v := replayed(t, c, out); v.Outcome != Exact {
		t.Fatalf("%+v", v)
	}
	v := inRows(t, c, out, 1)
	if v.Outcome != Undecided || v.Compared != "1 of 40 elements, in 1 row" || v.EvidenceBits != 16 || !strings.HasSuffix(v.Reason, "more rows hold more") || len(v.Notes) > 0 {
		t.Errorf("%+v", v)
	}
	if v := inRows(t, c, out, 3); v.Outcome != Exact || v.EvidenceBits > 48 {
		t.Errorf("%+v", v)
	}
	// All elements of one row differ, and no pattern is made of it: other rows were not looked at.
	c, out = namedCall(t, 40, 50, 129)
	changed := slices.Clone(out)
	for i := 0; i < len(changed); i += 2 {
		changed[i] ^= 2
	}
	if v := inRows(t, c, changed, 1); v.Outcome != Wrong || v.Difference.Kind == DifferentRow || strings.Contains(v.Reason, "all of them in it") {
		t.Errorf("%s: %s", v.Outcome, v.Reason)
	}
}

// TestPartOfUnknownPlan: among plans of which none gives the whole recorded output, none is exact for a part, nor is the part
// wrong.
func TestPartOfUnknownPlan(t *testing.T) {
	golden := openGolden(t)
	tally := map[Outcome]int{}
	for _, original := range smallCases(golden, 2e5, 60) {
		data := stored(t, golden, original)
		c := *original
		c.Launches = nil
		ch := choose(&c, Options{Blind: true})
		batch, m, _, _ := c.Sizes()
		if ch.unknown != "" || len(ch.candidates) > 100 {
			continue
		}
		var kept []candidate
		for _, x := range ch.candidates {
			if out, err := wholeOutput(&c, x.profile.JSON()); err == nil && hashOf(out) != c.Out.Hash {
				kept = append(kept, x)
			}
		}
		for _, rows := range []int{1, 2, 3, 5, 8, 20} {
			if rows >= batch*m || len(kept) < 2 {
				continue
			}
			ch.candidates, ch.searched, ch.uncertain = kept, true, true
			v := verdictAmongRows(t, &c, data, ch, rows)
			tally[v.Outcome]++
			if v.Outcome != Undecided {
				t.Errorf("%s (%s), %d of %d rows: %s on %g bits, %d elements, %d plans: %s", c.ID, c.A.Generator.Kind, rows, batch*m, v.Outcome, v.EvidenceBits, v.Elements, len(kept), v.Reason)
			}
		}
	}
	t.Log(tally)
	if tally[Undecided] < 50 {
		t.Errorf("%v", tally)
	}
}

// TestPartIsSound: for any case of the golden set, a part says nothing that the whole denies.
func TestPartIsSound(t *testing.T) {
	golden := openGolden(t)
	tally := map[Outcome]int{}
	limit, count, enough := uint64(1e6), 80, 100
	if testing.Short() { // run again at every instruction set, and by the race detector
		limit, count, enough = 1e5, 12, 5
	}
	for _, original := range smallCases(golden, limit, count) {
		data := stored(t, golden, original)
		for _, blind := range []bool{false, true} {
			whole, err := ReplayCase(t.Context(), original, data, Options{Blind: blind})
			if err != nil {
				t.Fatal(err)
			}
			for _, rows := range []int{1, 3, 20} {
				v, err := ReplayCase(t.Context(), original, data, Options{Blind: blind, Rows: rows})
				if err != nil {
					t.Fatal(err)
				}
				tally[v.Outcome]++
				if v.Outcome == Wrong && whole.Outcome != Wrong {
					t.Errorf("%s, %d rows, blind %v: wrong: %s; the whole is %s", original.ID, rows, blind, v.Reason, whole.Outcome)
				}
				// Two plans that the whole output cannot tell apart, because of one element, may both be right in these rows.
				neighbours := strings.Contains(whole.Reason, "differ in one element alone")
				if part := strings.Contains(v.Compared, " in "); part && v.Outcome == Exact && whole.Outcome != Exact && !neighbours {
					t.Errorf("%s, %d rows, blind %v: exact; the whole is %s: %s", original.ID, rows, blind, whole.Outcome, whole.Reason)
				}
				if v.Outcome == Exact && v.EvidenceBits < wantedBits && strings.Contains(v.Compared, "in ") {
					t.Errorf("%s: exact on %g bits", original.ID, v.EvidenceBits)
				}
			}
		}
	}
	t.Log(tally)
	if tally[Exact] < enough {
		t.Errorf("%v", tally)
	}
}

// TestPartElsewhere: elements in 16 bits come out alike on much hardware, so a part of an output says nothing of a device that
// the rules were not measured on.
func TestPartElsewhere(t *testing.T) {
	c, out := namedCall(t, 40, 60, 129)
	c.Device = onA100
	if v := inRows(t, c, out, 12); v.Outcome != Undecided || !strings.Contains(v.Reason, "only the whole output could tell") || v.Compared == "" || len(v.Notes) > 0 {
		t.Errorf("%+v", v)
	}
	if v := replayed(t, c, out); v.Outcome != Exact {
		t.Errorf("%+v", v)
	}
	sampled, whole := namedCall(t, 150, 130, 129)
	sampled.Device, sampled.Out.Hash = onA100, ""
	if v := replayed(t, sampled, samplesOf(whole, 2)); v.Outcome != Undecided || v.Compared != "stored elements" {
		t.Errorf("%+v", v)
	}
}

// TestPartUnnamed: a large product without names has one candidate, and may have been computed otherwise. Elements that come out
// alike in any order do not make it exact, and those that would not do.
func TestPartUnnamed(t *testing.T) {
	golden := openGolden(t)
	for id, want := range map[string][3]Outcome{ // of 8, 64 and 600 rows
		"dev-0309": {Undecided, Exact, Exact},         // products that nearly cancel
		"dev-0333": {Undecided, Undecided, Exact},     // of wide exponents
		"dev-0442": {Undecided, Undecided, Undecided}, // like weights and activations, in bf16
	} {
		for _, c := range golden.Cases {
			if c.ID != id {
				continue
			}
			data := stored(t, golden, c)
			for i, rows := range []int{8, 64, 600} {
				v, err := ReplayCase(t.Context(), c, data, Options{Blind: true, Rows: rows})
				if err != nil || v.Outcome != want[i] || v.PlansTried != 1 || (v.EvidenceBits >= wantedBits) != (v.Outcome == Exact) {
					t.Errorf("%s, %d rows: %s: %s, %g bits, %d plans, %v", id, rows, v.Outcome, v.Reason, v.EvidenceBits, v.PlansTried, err)
				}
				if named := inRows(t, c, data, rows); named.Outcome != Exact || named.Compared != v.Compared {
					t.Errorf("%s, %d rows, named: %s: %s", id, rows, named.Outcome, named.Reason)
				}
			}
		}
	}
}

// TestPartOfTrace: of an output kept whole, all elements of the chosen rows are compared.
func TestPartOfTrace(t *testing.T) {
	c, out := namedCall(t, 200, 150, 64)
	w := tracetest.New(t, filepath.Join(t.TempDir(), "run.hawk"))
	w.Add(0, c, tracetest.More{Output: out})
	w.Add(0, c, tracetest.More{Step: 1, Samples: samplesOf(out, 2)})
	w.Add(0, c, tracetest.More{Step: 2})
	changed := slices.Clone(out)
	for row := range 200 {
		changed[2*150*row] ^= 1
	}
	w.Add(0, c, tracetest.More{Step: 3, Output: changed})
	w.Seal()
	s := openSet(t, w.Dir)
	for i, want := range []struct {
		outcome  Outcome
		compared string
	}{{Exact, "600 of 30000 elements, in 4 rows"}, {Exact, " of 30000 elements, in 4 rows"}, {Undecided, ""}, {Wrong, ""}} {
		v, err := s.Replay(t.Context(), i, Options{Rows: 4})
		if err != nil || v.Outcome != want.outcome || !strings.HasSuffix(v.Compared, want.compared) {
			t.Errorf("line %d: %s: %s (%s), %v", i, v.Outcome, v.Reason, v.Compared, err)
		}
		if i == 3 && (v.Comparison.Differing != 4 || v.Comparison.Count != 600) {
			t.Errorf("%+v", v.Comparison)
		}
	}
	if v, err := s.Replay(t.Context(), 0, Options{}); err != nil || v.Compared != "sha256 of the whole output" {
		t.Errorf("%+v, %v", v, err)
	}
}
