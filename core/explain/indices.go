package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/plan"
)

// run is an arithmetic progression of k: count of them from start on, step apart.
type run struct{ start, step, count int }

func (r run) last() int { return r.start + (r.count-1)*r.step }

// String writes a run: 7, "0…15", "0, 32, …, 480".
func (r run) String() string {
	switch {
	case r.count == 1:
		return fmt.Sprint(r.start)
	case r.count == 2 && r.step != 1:
		return fmt.Sprintf("%d, %d", r.start, r.last())
	case r.step == 1:
		return fmt.Sprintf("%d…%d", r.start, r.last())
	case r.count == 3:
		return fmt.Sprintf("%d, %d, %d", r.start, r.start+r.step, r.last())
	}
	return fmt.Sprintf("%d, %d, …, %d", r.start, r.start+r.step, r.last())
}

func runOf(r plan.Range) run { return run{r.Start, r.Stride(), r.Len()} }

// runs takes a list of k apart into progressions, in the order of the list: consecutive k where there are any, else the
// longest progression that begins there.
func runs(ks []int) []run {
	var list []run
	for at := 0; at < len(ks); {
		r := run{start: ks[at], step: 1, count: 1}
		if at+1 < len(ks) && ks[at+1] > ks[at] {
			r.step = ks[at+1] - ks[at]
			for at+r.count < len(ks) && ks[at+r.count] == r.start+r.count*r.step {
				r.count++
			}
			// Of 0, 1, 2, 3, 64, 65, … the 3 begins no progression of its own; two k far apart are two runs unless a third
			// follows.
			if r.count == 2 && r.step != 1 && at+2 < len(ks) {
				r.count, r.step = 1, 1
			}
		}
		list = append(list, r)
		at += r.count
	}
	return list
}

// shownRuns is how many runs of a list are written before and after the gap.
const shownRuns = 3

// kList writes runs, at most 2·shownRuns-1 of them unless full.
func kList(runs []run, full bool) string {
	if len(runs) == 0 {
		return "no k"
	}
	words := make([]string, len(runs))
	for i, r := range runs {
		words[i] = r.String()
	}
	if !full && len(words) > 2*shownRuns {
		words = append(append(words[:shownRuns:shownRuns], "…"), words[len(words)-1])
		return fmt.Sprintf("k = %s (%d runs)", strings.Join(words, ", "), len(runs))
	}
	return "k = " + strings.Join(words, ", ")
}

// ranges writes the k of a chain with its padding: "k = 0…4 and 27 zeros, then 5…100".
func ranges(chain []plan.Range, full bool) string {
	padded := false
	for _, r := range chain {
		padded = padded || r.Pad > 0
	}
	var all []run
	for _, r := range chain {
		if r.Len() > 0 {
			all = append(all, runOf(r))
		}
	}
	if !padded || len(all) > 2*shownRuns && !full {
		text := kList(all, full)
		if padded {
			text += ", with zeros between them"
		}
		return text
	}
	var words []string
	for _, r := range chain {
		word := runOf(r).String()
		if r.Pad > 0 {
			word += fmt.Sprintf(" and %s", count(r.Pad, "zero"))
		}
		words = append(words, word)
	}
	return "k = " + strings.Join(words, ", then ")
}

// count writes a number with its noun: "1 product", "7 products".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// indices lists the k that a tree sums, in the order of its leaves.
func indices(t *plan.Tree) []int {
	var ks []int
	collect(t, &ks)
	return ks
}

func collect(t *plan.Tree, ks *[]int) {
	for _, child := range t.Sum {
		collect(child, ks)
	}
	for _, r := range t.Chain {
		for k := r.Start; k < r.Stop; k += r.Stride() {
			*ks = append(*ks, k)
		}
	}
}

// products counts the k of a tree.
func products(t *plan.Tree) int {
	n := 0
	for _, child := range t.Sum {
		n += products(child)
	}
	for _, r := range t.Chain {
		n += r.Len()
	}
	return n
}

func sorted(ks []int) []int {
	slices.Sort(ks)
	return ks
}
