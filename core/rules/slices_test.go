package rules

import (
	"maps"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
)

// recordedSlices is a line of tests/goldens/h200-slices.jsonl: the launch of a kernel that cuts K. Missing, where it is there,
// is how many products an output of ones came out short by.
type recordedSlices struct {
	Size     [3]int
	Layout   string
	A, Out   string
	TF32     bool `json:"tf32"`
	Kernels  []int
	Launches [][6]int
	Missing  *int
}

func (r *recordedSlices) record(t *testing.T, names []string) *cases.Case {
	scalars := recordedScalars{Op: "mm", Size: [4]int{1, r.Size[0], r.Size[1], r.Size[2]}, Layout: r.Layout, A: r.A, TF32: r.TF32, Alpha: 1, Kernels: r.Kernels, Launches: r.Launches}
	c := scalars.record(t, names)
	c.C, c.Scalars = nil, nil
	if r.Out != "" {
		f, err := format.Parse(r.Out)
		if err != nil {
			t.Fatal(err)
		}
		c.Out.Format = f
	}
	return c
}

const slicesSet = "../../tests/goldens/h200-slices.jsonl"

// TestSlices: into how many slices an H200's kernels cut K, as their launches say, is what the rules try first without the
// launches: always, or as often as docs/arithmetic.md says.
func TestSlices(t *testing.T) {
	var names []string
	type tally struct{ lines, first, tried int }
	count := map[string]*tally{}
	for number, r := range readLines[recordedSlices](t, slicesSet, &names) {
		if testing.Short() && number%7 != 0 {
			continue
		}
		c := r.record(t, names)
		told := Choose(c, Options{})
		c.Launches = nil
		guessed := Choose(c, Options{})
		if told.Unknown+guessed.Unknown != "" || len(told.Candidates) == 0 {
			t.Fatalf("line %d: %q, %q", number, told.Unknown, guessed.Unknown)
		}
		n := count[told.Family]
		if n == nil {
			n = new(tally)
			count[told.Family] = n
		}
		n.lines++
		want := cut(&told.Candidates[0].Profile.Plan, r.Size[2])
		for at, x := range guessed.Candidates {
			if cut(&x.Profile.Plan, r.Size[2]) == want {
				if n.tried++; at == 0 {
					n.first++
				}
				break
			}
		}
		if split := told.Candidates[0].Profile.Plan.Split; told.Family == "nvjet split-K" {
			s, most := split.Slices, guessed.Candidates[0].Profile.Plan.Split.Slices
			if s > most || 5*s < 4*most {
				t.Errorf("line %d, %v by %s: %d slices, expected to be at most %d and at least 0.8 of it", number, r.Size, names[r.Kernels[0]], s, most)
			}
		}
	}
	for family, least := range map[string]float64{"nvjet split-K": 0.88, "gemvx split-K": 1, "xmma f64 split-K": 0.9, "dot": 0.97} {
		n := count[family]
		if n == nil {
			t.Fatalf("no line of %s", family)
		}
		t.Logf("%s: %d launches, %d tried, %d first", family, n.lines, n.tried, n.first)
		if n.tried < n.lines || float64(n.first) < least*float64(n.lines) && !testing.Short() {
			t.Errorf("%s: of %d launches %d are tried without them, %d first", family, n.lines, n.tried, n.first)
		}
	}
}

// cut says how a plan cuts K at its top: the same for numbers of slices or lanes that leave the same ones not empty.
func cut(p *plan.Plan, k int) int {
	ceil := func(a, b int) int { return (a + b - 1) / b }
	if p.Split != nil {
		return ceil(ceil(k, p.Split.Grain), p.Split.Slices)
	}
	return min(p.Lanes.Count, ceil(k, p.Lanes.Run))
}

// TestDropped: which products of nvjet's split-K are left out, of ones whose sum an H200 gave.
func TestDropped(t *testing.T) {
	var names []string
	count := map[bool]int{}
	for number, r := range readLines[recordedSlices](t, slicesSet, &names) {
		if r.Missing == nil {
			continue
		}
		c := r.record(t, names)
		p := Choose(c, Options{}).Candidates[0].Profile
		if got := Dropped(p, c.A.Format, r.Size[2]); got != *r.Missing {
			t.Errorf("line %d: %d slices of K = %d: %d dropped, recorded %d", number, p.Plan.Split.Slices, r.Size[2], got, *r.Missing)
		}
		count[*r.Missing > 0]++
	}
	if !maps.Equal(count, map[bool]int{false: 1690, true: 9}) {
		t.Error(count)
	}
}
