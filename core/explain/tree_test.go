package explain

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

func tree(t *testing.T, p *profile.Profile, k int, o TreeOptions) string {
	t.Helper()
	text, err := Tree(p, k, o)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func lanes(t *testing.T, count, run int, folds ...int) *profile.Profile {
	p := load(t, "hopper/f32")
	chain := plan.Plain()
	l := &plan.Lanes{Count: count, Run: run, Of: &chain, Merge: plan.Merge{Partial: format.F32, Sum: format.F32}}
	for _, to := range folds {
		l.Folds = append(l.Folds, plan.Fold{To: to})
	}
	p.Plan = plan.Plan{Lanes: l}
	return p
}

func TestTreeText(t *testing.T) {
	split := load(t, "hopper/bf16")
	split.Plan = plan.SplitK(3, 64, plan.Tiled(plan.ResidueFirst, 32), format.BF16, format.F32)
	want := `output: the sum (and an addend, if any), rounded once to bf16
└─ sum of 3 parts in f32, left to right, beginning with +0, each rounded to bf16 first
   ├─ accumulator of 128 products, k = 0…127; 8 steps of up to 16
   ├─ accumulator of 128 products, k = 128…255; 8 steps of up to 16
   └─ accumulator of 45 products, k = 256…268 and 19 zeros, then 269…300; 3 steps of up to 16
`
	if got := tree(t, split, 301, TreeOptions{}); got != want {
		t.Errorf("drawn:\n%s", got)
	}
	want = `output: the sum (and an addend, if any) in f32
└─ sum of 2 parts in f32, left to right
   ├─ sum of 2 parts in f32, left to right
   │  ├─ sum of 2 parts in f32, left to right
   │  │  ├─ accumulator of 8 products, k = 0, 8, …, 56
   │  │  └─ accumulator of 8 products, k = 4, 12, …, 60
   │  └─ … 1 more alike, from k = 2
   └─ … 1 more alike, from k = 1
`
	if got := tree(t, lanes(t, 8, 1, 4, 2, 1), 64, TreeOptions{}); got != want {
		t.Errorf("drawn:\n%s", got)
	}
	want = `output: the sum (and an addend, if any) in f32
└─ sum of 33 parts in f32, left to right
   ├─ accumulator of 4 products, k = 0, 33, …, 99
   ├─ accumulator of 4 products, k = 1, 34, …, 100
   ├─ … 30 more alike, from k = 2…31
   └─ accumulator of 4 products, k = 32, 65, …, 131
`
	if got := tree(t, lanes(t, 33, 1, 1), 132, TreeOptions{}); got != want {
		t.Errorf("drawn:\n%s", got)
	}
	chain := plan.Plain()
	serial := load(t, "hopper/bf16")
	serial.Plan = plan.Plan{Serial: &plan.Serial{Slices: 2, Grain: 8, Of: &chain}}
	if got := tree(t, serial, 32, TreeOptions{}); !strings.Contains(got, "goes through the epilogue") || strings.Count(got, "\n") != 3 {
		t.Errorf("drawn:\n%s", got)
	}
	if got := tree(t, lanes(t, 8, 1, 1), 3, TreeOptions{}); !strings.Contains(got, "without products: +0") {
		t.Errorf("lanes without k:\n%s", got)
	}
}

// dots is the plan of a dot kernel: 56 blocks of 128 threads of 2 chains.
func dots(t *testing.T) *profile.Profile {
	p := load(t, "hopper/f32")
	merge := plan.Merge{Partial: format.F32, Sum: format.F32}
	chain := plan.Plain()
	thread := &plan.Plan{Lanes: &plan.Lanes{Count: 2, Run: 1, Of: &chain, Folds: []plan.Fold{{To: 1}}, Merge: merge}}
	block := &plan.Plan{Lanes: &plan.Lanes{Count: 128, Run: 2, Of: thread, Merge: merge,
		Folds: []plan.Fold{{To: 64}, {To: 32}, {To: 16}, {To: 8}, {To: 4}, {To: 2}, {To: 1}}}}
	p.Plan = plan.Plan{Lanes: &plan.Lanes{Count: 56, Run: 256, Of: block, Folds: []plan.Fold{{To: 32}, {To: 4}, {To: 1}}, Merge: merge}}
	return p
}

func TestTreesAreBounded(t *testing.T) {
	for _, k := range []int{16384, 16381, 5000, 70000} {
		short := tree(t, dots(t), k, TreeOptions{})
		if lines := strings.Count(short, "\n"); lines > 2*mostNodes || lines < 10 {
			t.Errorf("K = %d: %d lines", k, lines)
		}
		narrow := tree(t, dots(t), k, TreeOptions{Width: 60})
		for line := range strings.Lines(narrow) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 60 {
				t.Fatalf("a line of %d characters: %s", n, line)
			}
		}
	}
	full := tree(t, dots(t), 16384, TreeOptions{Full: true})
	if n := strings.Count(full, "accumulator"); n != 56*128*2 {
		t.Errorf("all of 14336 accumulators: %d are drawn", n)
	}
	if strings.Contains(full, "…  more") || strings.Contains(full, "alike") {
		t.Error("a full drawing leaves parts out")
	}
	// More than even a full drawing holds, and every list of a tree that nobody would write by hand.
	huge := tree(t, lanes(t, 1<<18, 1, 1), 1<<18, TreeOptions{Full: true})
	if lines := strings.Count(huge, "\n"); lines > mostNodesFull+8 || !strings.Contains(huge, "more, not drawn") && !strings.Contains(huge, "parts more") {
		t.Errorf("%d lines", lines)
	}
	root := &plan.Tree{Merge: &plan.Merge{Partial: format.F32, Sum: format.F32}}
	for k, n := 0, 1; k < 2000; n++ { // 62 parts, no two alike
		root.Sum = append(root.Sum, &plan.Tree{Chain: []plan.Range{{Start: k, Stop: min(k+n, 2000)}}})
		k += n
	}
	odd := load(t, "hopper/f32")
	odd.Plan = plan.Plan{Tree: &plan.Fixed{K: 2000, Root: root}}
	if got := tree(t, odd, 2000, TreeOptions{}); strings.Count(got, "\n") > mostParts+3 || !strings.Contains(got, "not drawn") {
		t.Errorf("drawn:\n%s", got)
	}
}

// What is drawn for dot is a tree: every edge joins nodes that are there, every node but the first has one parent.
func TestTreeForGraphviz(t *testing.T) {
	node := regexp.MustCompile(`^\tn(\d+) \[label="((?:[^"\\]|\\.)*)"(, style=dashed)?\];$`)
	edge := regexp.MustCompile(`^\tn(\d+) -> n(\d+);$`)
	p := dots(t)
	p.Name = `mine "too"\`
	for _, o := range []TreeOptions{{Style: Graphviz}, {Style: Graphviz, Full: true}, {Style: Graphviz, Width: 12}} {
		text := tree(t, p, 4096, o)
		if !strings.HasPrefix(text, "digraph summation {\n") || !strings.HasSuffix(text, "}\n") || !strings.Contains(text, `label="mine \"too\"\\, K = 4096"`) {
			t.Fatalf("not a graph: %.200s", text)
		}
		nodes, parents := map[string]bool{}, map[string]int{}
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if m := node.FindStringSubmatch(line); m != nil {
				nodes[m[1]] = true
			} else if m := edge.FindStringSubmatch(line); m != nil {
				if !nodes[m[1]] || !nodes[m[2]] {
					t.Fatalf("%s joins what is not there", line)
				}
				parents[m[2]]++
			} else if strings.HasPrefix(line, "\tn") && !strings.HasPrefix(line, "\tnode ") {
				t.Fatalf("not understood: %s", line)
			}
		}
		if len(nodes) < 10 || len(parents) != len(nodes)-1 {
			t.Errorf("%d nodes and %d with a parent", len(nodes), len(parents))
		}
		for n, count := range parents {
			if count != 1 {
				t.Errorf("n%s has %d parents", n, count)
			}
		}
	}
}
