package explain

import (
	"slices"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/plan"
)

func TestKLists(t *testing.T) {
	for _, c := range []struct {
		ks   []int
		want string
	}{
		{nil, "no k"},
		{[]int{7}, "k = 7"},
		{[]int{0, 1}, "k = 0…1"},
		{[]int{0, 1, 2, 3, 4}, "k = 0…4"},
		{[]int{0, 32}, "k = 0, 32"},
		{[]int{0, 32, 64}, "k = 0, 32, 64"},
		{[]int{5, 37, 69, 101}, "k = 5, 37, …, 101"},
		{[]int{0, 1, 2, 3, 64, 65, 66, 67}, "k = 0…3, 64…67"},
		{[]int{0, 64, 65, 66}, "k = 0, 64…66"},
		{[]int{9, 3}, "k = 9, 3"},
		{[]int{0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 60, 61}, "k = 0…1, 10…11, 20…21, …, 60…61 (7 runs)"},
	} {
		if got := kList(runs(c.ks), false); got != c.want {
			t.Errorf("%v is written %q, want %q", c.ks, got, c.want)
		}
	}
}

// Whatever the list, its runs give it back.
func TestRunsKeepTheList(t *testing.T) {
	seed := uint64(1)
	for range 2000 {
		var ks []int
		at := 0
		for range keyOf(int(seed)) % 30 {
			seed++
			at += []int{1, 1, 1, 2, 7, 64, 64, -3}[keyOf(int(seed))%8]
			ks = append(ks, at)
		}
		seed++
		var back []int
		for _, r := range runs(ks) {
			for i := range r.count {
				back = append(back, r.start+i*r.step)
			}
		}
		if !slices.Equal(back, ks) {
			t.Fatalf("%v became %v", ks, back)
		}
	}
}

func TestRanges(t *testing.T) {
	for _, c := range []struct {
		chain []plan.Range
		full  bool
		want  string
	}{
		{[]plan.Range{{Start: 0, Stop: 100}}, false, "k = 0…99"},
		{[]plan.Range{{Start: 3, Stop: 100, Step: 32}}, false, "k = 3, 35, …, 99"},
		{[]plan.Range{{Start: 0, Stop: 5, Pad: 27}, {Start: 5, Stop: 100}}, false, "k = 0…4 and 27 zeros, then 5…99"},
		{[]plan.Range{{Start: 0, Stop: 1, Pad: 1}}, false, "k = 0 and 1 zero"},
	} {
		if got := ranges(c.chain, c.full); got != c.want {
			t.Errorf("%v: %q, want %q", c.chain, got, c.want)
		}
	}
	var many []plan.Range
	for i := range 50 {
		many = append(many, plan.Range{Start: 100 * i, Stop: 100*i + 4})
	}
	if got, want := ranges(many, false), "k = 0…3, 100…103, 200…203, …, 4900…4903 (50 runs)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := ranges(many, true); len(got) < 50*7 {
		t.Errorf("all of 50 runs: %q", got)
	}
}
