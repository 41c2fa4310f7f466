package verify

import (
	"bufio"
	"cmp"
	"context"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/simd"
)

const (
	goldenPath   = "../../tests/goldens/h200-torch2.11.jsonl"
	expectedPath = "../../tests/goldens/h200-torch2.11.expected"
)

// openGolden reads the golden set of the repository, which is always there.
func openGolden(t testing.TB) *cases.Golden {
	t.Helper()
	golden, err := cases.ReadGolden(goldenPath)
	if err != nil {
		t.Fatal(err)
	}
	return golden
}

// stored reads the recorded output elements of a case.
func stored(t testing.TB, golden *cases.Golden, c *cases.Case) []byte {
	t.Helper()
	data, err := golden.Stored(c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// useLevel runs what follows in the test at a level.
func useLevel(t testing.TB, level simd.Level) {
	t.Helper()
	before := simd.Active()
	simd.SetActive(level)
	t.Cleanup(func() { simd.SetActive(before) })
}

// group sorts a case by its kernels' names alone, apart from the families the chooser names, so that the counts below do
// not rest on what they test.
func group(c *cases.Case) string {
	all := strings.Join(c.Kernels, " ")
	switch {
	case c.Op == "int_mm":
		return "integer"
	case !strings.Contains(all, "nvjet_"):
		return "other"
	case strings.Contains(all, "splitK"):
		return "nvjet split-K"
	case strings.Contains(all, "algo2"):
		return "nvjet promoted"
	case c.A.Format.Bytes() == 1:
		return "nvjet f8 fast"
	}
	return "nvjet plain"
}

// wantedGroups are the cases of the set whose kernels determine the arithmetic: all must be exact.
var wantedGroups = map[string]int{"nvjet plain": 113, "nvjet split-K": 17, "nvjet f8 fast": 40, "nvjet promoted": 36, "integer": 9}

const (
	wantedCases    = 517
	wantedExpected = 515 // listed in the .expected file
	wantedExact    = 515 // over the whole set
)

// expectedExact reads the ids whose replay must be exact.
func expectedExact(t testing.TB) map[string]bool {
	t.Helper()
	file, err := os.Open(expectedPath)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ids := map[string]bool{}
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		if id := strings.TrimSpace(scanner.Text()); id != "" && !strings.HasPrefix(id, "#") {
			ids[id] = true
		}
	}
	return ids
}

// eachGolden calls f for cases with their stored elements, one a processor, the largest first, so that the small ones fill
// the gaps at the end.
func eachGolden(t *testing.T, golden *cases.Golden, list []*cases.Case, f func(i int, c *cases.Case, data []byte)) {
	t.Helper()
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *cases.Case) int { return cmp.Compare(b.MultiplyAdds(), a.MultiplyAdds()) })
	var workers sync.WaitGroup
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for {
				i := int(next.Add(1)) - 1
				if i >= len(list) {
					return
				}
				data, err := golden.Stored(list[i])
				if err != nil {
					t.Errorf("%s: %v", list[i].ID, err)
					continue
				}
				f(i, list[i], data)
			}
		}()
	}
	workers.Wait()
}

// replayAll replays cases, for a verdict each.
func replayAll(t *testing.T, golden *cases.Golden, list []*cases.Case) map[string]Verdict {
	t.Helper()
	verdicts := map[string]Verdict{}
	var lock sync.Mutex
	eachGolden(t, golden, list, func(_ int, c *cases.Case, data []byte) {
		v, err := ReplayCase(context.Background(), c, data, Options{Threads: 1})
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
		}
		lock.Lock()
		verdicts[c.ID] = v
		lock.Unlock()
	})
	return verdicts
}

// checkVerdicts holds verdicts of golden cases against what must be exact, and returns how many are, in all and by group.
func checkVerdicts(t *testing.T, list []*cases.Case, verdicts map[string]Verdict) (exact int, groups map[string]int) {
	t.Helper()
	expected := expectedExact(t)
	groups = map[string]int{}
	for _, c := range list {
		v, which := verdicts[c.ID], group(c)
		switch v.Outcome {
		case Exact:
			exact++
			groups[which]++
			if v.Plan == "" || len(v.ProfileID) != 64 || len(v.Profile) == 0 || v.Compared != "sha256 of the whole output" {
				t.Errorf("%s: an exact verdict without its grounds: %+v", c.ID, v)
			}
			batch, m, n, _ := c.Sizes()
			if v.Elements != batch*m*n || v.PlansTried < 1 || v.EvidenceBits <= 0 {
				t.Errorf("%s: %d elements, %d plans tried, %g bits", c.ID, v.Elements, v.PlansTried, v.EvidenceBits)
			}
		case Undecided:
			if v.Reason == "" {
				t.Errorf("%s: undecided without a reason", c.ID)
			}
		default:
			t.Errorf("%s: %s (%s): %s; kernels %v", c.ID, v.Outcome, v.Family, v.Reason, c.Kernels)
		}
		if v.Outcome != Exact && (wantedGroups[which] > 0 || expected[c.ID]) {
			t.Errorf("%s: %s, want exact (%s): %s", c.ID, v.Outcome, which, v.Reason)
		}
		if v.ID != c.ID || v.Op != c.Op || v.MultiplyAdds != c.MultiplyAdds() || v.Family == "" {
			t.Errorf("%s: the verdict names another case: %s, %s, %d, %q", c.ID, v.ID, v.Op, v.MultiplyAdds, v.Family)
		}
	}
	return exact, groups
}

// logFamilies prints what became of each family.
func logFamilies(t *testing.T, list []*cases.Case, verdicts map[string]Verdict) {
	t.Helper()
	counts := map[string]map[Outcome]int{}
	for _, c := range list {
		v := verdicts[c.ID]
		if counts[v.Family] == nil {
			counts[v.Family] = map[Outcome]int{}
		}
		counts[v.Family][v.Outcome]++
	}
	for _, family := range slices.Sorted(maps.Keys(counts)) {
		n := counts[family]
		t.Logf("  %-36s %3d cases: %3d exact, %3d undecided, %d wrong", family, n[Exact]+n[Undecided]+n[Wrong], n[Exact], n[Undecided], n[Wrong])
	}
}

// smallCases are those of at most limit multiply-adds, at most count of them, taken evenly from the whole set.
func smallCases(golden *cases.Golden, limit uint64, count int) []*cases.Case {
	var small []*cases.Case
	for _, c := range golden.Cases {
		if c.MultiplyAdds() <= limit {
			small = append(small, c)
		}
	}
	if len(small) <= count {
		return small
	}
	var list []*cases.Case
	for i := range count {
		list = append(list, small[i*len(small)/count])
	}
	return list
}

// TestGolden replays what cuBLAS computed on an H200: every case at the best level, small ones at the others.
func TestGolden(t *testing.T) {
	golden := openGolden(t)
	if len(golden.Cases) != wantedCases {
		t.Fatalf("the set has %d cases, want %d", len(golden.Cases), wantedCases)
	}
	levels := simd.Levels()
	for i, level := range levels {
		list := smallCases(golden, 2e6, 150)
		switch {
		case i == 0 && !testing.Short():
			list = golden.Cases
		case testing.Short() && level == simd.Oracle:
			list = smallCases(golden, 2e4, 5)
		case testing.Short():
			list = smallCases(golden, 3e5, 40)
		case level == simd.Oracle:
			list = smallCases(golden, 1e5, 20)
		}
		t.Run(level.String(), func(t *testing.T) {
			useLevel(t, level)
			start := time.Now()
			verdicts := replayAll(t, golden, list)
			exact, groups := checkVerdicts(t, list, verdicts)
			t.Logf("%d cases: %d exact, in %.1f s; exact by group: %v", len(list), exact, time.Since(start).Seconds(), groups)
			if len(list) < len(golden.Cases) {
				return
			}
			logFamilies(t, list, verdicts)
			for which, want := range wantedGroups {
				if groups[which] != want {
					t.Errorf("%s: %d exact, want %d", which, groups[which], want)
				}
			}
			if exact < wantedExact {
				t.Errorf("%d exact, want at least %d", exact, wantedExact)
			}
		})
	}
}

// TestExpectedNamesCases: an id nobody can replay would make the list of expected cases weaker than it reads.
func TestExpectedNamesCases(t *testing.T) {
	known := map[string]bool{}
	for _, c := range openGolden(t).Cases {
		if known[c.ID] {
			t.Errorf("%s is there twice", c.ID)
		}
		known[c.ID] = true
	}
	expected := expectedExact(t)
	for id := range expected {
		if !known[id] {
			t.Errorf("%s is expected to be exact but not in the set", id)
		}
	}
	if len(expected) < wantedExpected {
		t.Errorf("%d cases are expected to be exact, want at least %d", len(expected), wantedExpected)
	}
}

// TestLessKnown: without the launches, and without the kernels' names too, fewer cases are decided, and none is wrong.
func TestLessKnown(t *testing.T) {
	if testing.Short() {
		t.Skip("searches hundreds of plans a case")
	}
	golden := openGolden(t)
	for _, known := range []struct {
		what    string
		options Options
		exact   int // of 99
	}{{"names alone", Options{}, 94}, {"blind", Options{Blind: true}, 92}} {
		count, exact := 0, 0
		for i, c := range golden.Cases {
			if i%4 != 0 || c.MultiplyAdds() > 1e8 {
				continue
			}
			count++
			x := *c
			x.Launches = nil
			v, err := ReplayCase(context.Background(), &x, stored(t, golden, c), known.options)
			switch {
			case err != nil:
				t.Fatalf("%s, %s: %v", known.what, c.ID, err)
			case v.Outcome == Wrong:
				t.Errorf("%s, %s: wrong: %s", known.what, c.ID, v.Reason)
			case v.Outcome == Exact:
				exact++
			}
		}
		t.Logf("%s: %d of %d cases exact", known.what, exact, count)
		if exact < known.exact {
			t.Errorf("%s: %d cases are exact, want %d", known.what, exact, known.exact)
		}
	}
}
