package rules

import (
	"fmt"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
)

// TestImpossibleLaunches: a record whose launches cannot have been, or are not those of its kernels, is read as one without
// launches.
func TestImpossibleLaunches(t *testing.T) {
	golden, err := cases.ReadGolden("../../tests/goldens/h200-torch2.11.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	type axes = [3]int
	launch := func(grid, block axes) []cases.Launch { return []cases.Launch{{Grid: grid, Block: block}} }
	odd := map[string][]cases.Launch{
		"negative": launch(axes{-1, -5, -7}, axes{-2, -2, -2}), "zero": launch(axes{}, axes{}),
		"too many threads": launch(axes{1, 1, 1}, axes{128, 16, 1}), "too many blocks": launch(axes{1 << 40, 1, 1 << 40}, axes{32, 1, 1}),
		"threads that overflow": launch(axes{1, 1, 1}, axes{1 << 40, 1 << 40, 1 << 40}),
	}
	families := map[string]int{}
	for _, c := range golden.Cases {
		x := *c
		x.Launches = nil
		without := Choose(&x, Options{})
		if families[without.Family]++; families[without.Family] > 3 || without.Unknown != "" {
			continue
		}
		check := func(what string, launches []cases.Launch) {
			x.Launches = launches
			got := Choose(&x, Options{})
			if a, b := texts(got), texts(without); a != b {
				t.Errorf("%s (%s), %s: %d candidates, without launches %d; unknown: %q", c.ID, without.Family, what, len(got.Candidates), len(without.Candidates), got.Unknown)
			}
		}
		for what, l := range odd {
			var list []cases.Launch
			for range c.Kernels {
				list = append(list, l...)
			}
			check(what, list)
		}
		if len(c.Launches) > 0 {
			check("one too many", append(launch(axes{3, 3, 3}, axes{3, 3, 3}), c.Launches...))
			check("one too few", c.Launches[1:])
		}
	}
	if len(families) < 10 {
		t.Errorf("%d families", len(families))
	}
}

func texts(c Choice) string {
	text := c.Family
	for _, x := range c.Candidates {
		text += fmt.Sprintf(" %s", x.Profile.ID())
	}
	return text
}
