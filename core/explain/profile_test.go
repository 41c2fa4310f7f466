package explain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

func parseInt(text, form string, to *int) (int, error) { return fmt.Sscanf(text, form, to) }

func TestProfileSentences(t *testing.T) {
	p := load(t, "hopper/bf16")
	p.Plan = plan.SplitK(8, 64, plan.Plain(), format.BF16, format.F32)
	text, err := Profile(p, About{Family: "nvjet", M: 5, N: 512, K: 300})
	if err != nil {
		t.Fatal(err)
	}
	has(t, text, "nvjet kernel", "5×512 output", "300 products of bf16", "8 slices", "5 accumulators of 64, 64, 64, 64 and 44 products",
		"3 of the 8 slices have nothing to do", "16 products at once", "25 bits below the largest exponent", "toward zero to f32",
		"Each of 5 partial sums is first rounded to bf16", "4 additions join the partial sums in f32, each rounded to nearest even",
		"A lone -0 becomes +0", "rounded once to bf16", "rounded 29 times", "19 times in steps, 9 in merges, 1 on the way out", "Known from: H200")
	nested := load(t, "hopper/f32")
	nested.Plan = plan.SplitK(4, 8, plan.Plan{Lanes: &plan.Lanes{Count: 4, Run: 1, Of: &plan.Plan{Chain: &plan.Chain{}}, Folds: []plan.Fold{{To: 1}},
		Merge: plan.Merge{Partial: format.F32, Sum: format.F32}}}, format.F32, format.F32)
	if nestedText, err := Profile(nested, About{K: 32}); err != nil {
		t.Fatal(err)
	} else {
		has(t, nestedText, "12 additions join the partial sums in f32", "3 further additions join their sums in f32")
	}
	if strings.Contains(text, "\n") {
		t.Error("a paragraph has one line")
	}
	general, err := Profile(p, About{})
	if err != nil {
		t.Fatal(err)
	}
	has(t, general, "a sum of K products", "8 slices of K")
	if strings.Contains(general, "kernel") || strings.Contains(general, "×") {
		t.Errorf("what was not said is spoken of: %s", general)
	}
	fixed := load(t, "hopper/bf16")
	fixed.Plan = plan.Plan{Tree: &plan.Fixed{K: 4, Root: &plan.Tree{Chain: []plan.Range{{Stop: 4}}}}}
	if _, err := Profile(fixed, About{K: 5}); err == nil {
		t.Error("a tree for K = 4 was explained for K = 5")
	}
}

// Every profile of the catalogue has its paragraph, for K given or not, and its tree.
func TestEveryProfileIsExplained(t *testing.T) {
	for _, p := range profile.List() {
		for _, k := range []int{0, 1, 100, 4096} {
			text, err := Profile(p, About{K: k})
			if err != nil || len(text) < 100 || !strings.HasSuffix(text, ".") || strings.Contains(text, "..") || strings.Contains(text, "%!") ||
				strings.Contains(text, " 1 times") && k > 100 {
				t.Errorf("%s for K = %d: %v %s", p.Name, k, err, text)
			}
			tree, err := Tree(p, k, TreeOptions{})
			if err != nil || !strings.Contains(tree, "└─ ") {
				t.Errorf("%s for K = %d: %v %s", p.Name, k, err, tree)
			}
		}
	}
}

func TestRoundings(t *testing.T) {
	chain := plan.Plain()
	f32 := plan.Merge{Partial: format.F32, Sum: format.F32}
	for _, c := range []struct {
		name string
		plan plan.Plan
		out  format.Format
		k    int
		want rounded
	}{
		{"hopper/bf16", chain, format.BF16, 100, rounded{7, 0, 1}},
		{"hopper/bf16", chain, format.F32, 96, rounded{6, 0, 0}},
		{"hopper/f32", chain, format.F32, 100, rounded{100, 0, 0}},
		{"hopper/bf16", plan.SplitK(3, 64, chain, format.F32, format.F32), format.BF16, 192, rounded{12, 2, 1}},
		{"hopper/bf16", plan.SplitK(3, 64, chain, format.BF16, format.F32), format.BF16, 192, rounded{12, 5, 1}},
		{"hopper/bf16", plan.SplitK(3, 64, chain, format.F32, format.F16), format.BF16, 192, rounded{12, 3, 1}},
		{"hopper/bf16", plan.SplitK(3, 64, chain, format.F16, format.F16), format.BF16, 192, rounded{12, 5, 1}},
		{"hopper/f32", plan.Plan{Lanes: &plan.Lanes{Count: 32, Run: 1, Of: &chain, Folds: []plan.Fold{{To: 16}, {To: 8}, {To: 4}, {To: 2}, {To: 1}}, Merge: f32}},
			format.F32, 320, rounded{320, 31, 0}},
		{"hopper/bf16", plan.Plan{Serial: &plan.Serial{Slices: 3, Grain: 64, Of: &chain}}, format.BF16, 192, rounded{12, 2, 3}},
	} {
		p := load(t, c.name)
		p.Plan, p.Epilogue.Out = c.plan, c.out
		tree, err := p.Plan.Expand(c.k)
		if err != nil {
			t.Fatal(err)
		}
		if got := roundings(p, tree); got != c.want {
			t.Errorf("%s, %s: %+v, want %+v", c.name, c.plan.Describe(), got, c.want)
		}
	}
}
