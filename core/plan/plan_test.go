package plan

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

var f32Merge = Merge{Partial: format.F32, Sum: format.F32}

// sequence is every k of a leaf in the order it is summed, -1 for each padding zero, and -2 where a new range begins, which
// no group crosses.
func sequence(ranges []Range) []int {
	var list []int
	for i, r := range ranges {
		if i > 0 {
			list = append(list, -2)
		}
		for k := r.Start; k < r.Stop; k += max(r.Step, 1) {
			list = append(list, k)
		}
		for range r.Pad {
			list = append(list, -1)
		}
	}
	return list
}

// leaves lists the sequences of a tree's leaves from left to right.
func leaves(t *Tree) [][]int {
	if len(t.Sum) == 0 {
		return [][]int{sequence(t.Chain)}
	}
	var list [][]int
	for _, child := range t.Sum {
		list = append(list, leaves(child)...)
	}
	return list
}

// covered fails unless every k of 0..k-1 is in exactly one place of the tree.
func covered(t *testing.T, name string, tree *Tree, k int) {
	t.Helper()
	count := make([]int, k)
	for _, leaf := range leaves(tree) {
		for _, i := range leaf {
			if i >= k || i < -2 {
				t.Fatalf("%s: K = %d: k = %d is out of range", name, k, i)
			}
			if i >= 0 {
				count[i]++
			}
		}
	}
	for i, n := range count {
		if n != 1 {
			t.Fatalf("%s: K = %d: k = %d is in %d places", name, k, i, n)
		}
	}
}

func consecutive(from, to int) []int {
	list := []int{}
	for k := from; k < to; k++ {
		list = append(list, k)
	}
	return list
}

// tiles is a chain by its definition: K as whole tiles and a zero-padded rest, written out tile by tile.
func tiles(where Residue, tile, from, to int) []int {
	if where == ResidueNone {
		return consecutive(from, to)
	}
	rest := (to - from) % tile
	padded := func(k0, k1 int) []int {
		list := consecutive(k0, k1)
		for len(list) < tile {
			list = append(list, -1)
		}
		return list
	}
	var list []int
	join := func(piece []int) {
		if len(list) > 0 {
			list = append(list, -2)
		}
		list = append(list, piece...)
	}
	switch {
	case rest == 0:
		join(consecutive(from, to))
	case where == ResidueFirst:
		join(padded(from, from+rest))
		if to > from+rest {
			join(consecutive(from+rest, to))
		}
	default:
		if to > from+rest {
			join(consecutive(from, to-rest))
		}
		join(padded(to-rest, to))
	}
	return list
}

// split is the bounds of S slices by the rule as it stands in docs/arithmetic.md: ceil(ceil(K/g)/S)·g long, the last one
// short, none empty; sizes are worked out in floating point, unlike the code's.
func split(count, grain, k int) [][2]int {
	width := int(math.Ceil(math.Ceil(float64(k)/float64(grain))/float64(count))) * grain
	var bounds [][2]int
	for s := range count {
		from, to := s*width, (s+1)*width
		if to > k {
			to = k
		}
		if from < to {
			bounds = append(bounds, [2]int{from, to})
		}
	}
	return bounds
}

func same(t *testing.T, name string, k int, got, want [][]int) {
	t.Helper()
	if len(got) == 0 && len(want) == 0 {
		return
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !slices.Equal(got[i], want[i]) {
			t.Fatalf("%s: K = %d: the accumulators run through %v, want %v", name, k, got, want)
		}
	}
}

func TestChain(t *testing.T) {
	for k := range 300 {
		for _, where := range []Residue{ResidueNone, ResidueFirst, ResidueLast} {
			for _, tile := range []int{1, 2, 3, 7, 8, 16, 32, 33, 64, 299, 500} {
				p := Tiled(where, tile)
				if where == ResidueNone {
					p = Plain()
				}
				tree, err := p.Expand(k)
				if err != nil {
					t.Fatal(err)
				}
				if !tree.Leaf() || tree.Depth() != 1 || tree.Leaves() != 1 {
					t.Fatalf("a chain of K = %d is no leaf", k)
				}
				name := fmt.Sprintf("%q tile %d", where, tile)
				covered(t, name, tree, k)
				same(t, name, k, leaves(tree), [][]int{tiles(where, tile, 0, k)})
			}
		}
	}
}

func TestSplit(t *testing.T) {
	for _, of := range []Plan{Plain(), Tiled(ResidueFirst, 32), Tiled(ResidueLast, 5)} {
		for _, count := range []int{1, 2, 3, 4, 6, 8, 11, 12, 16, 25, 86, 343, 400} {
			for _, grain := range []int{1, 2, 4, 8, 16, 32, 64, 128, 100} {
				p := SplitK(count, grain, of, format.BF16, format.F32)
				name := fmt.Sprintf("%d slices of %d, %s", count, grain, of.Describe())
				for k := 0; k < 700; k += 1 + k/40 {
					tree, err := p.Expand(k)
					if err != nil {
						t.Fatal(err)
					}
					covered(t, name, tree, k)
					if k == 0 {
						continue
					}
					if tree.Leaf() || tree.Merge == nil || *tree.Merge != p.Split.Merge {
						t.Fatalf("%s: K = %d: no merge; one slice goes through the workspace too", name, k)
					}
					var want [][]int
					for _, b := range split(count, grain, k) {
						want = append(want, tiles(of.Chain.Residue, of.Chain.Tile, b[0], b[1]))
					}
					same(t, name, k, leaves(tree), want)
				}
			}
		}
	}
}

// The slices of cases measured on an H200 (docs/arithmetic.md).
func TestSplitExamples(t *testing.T) {
	for _, c := range []struct{ slices, grain, k, first, count, last int }{
		{3, 64, 4096, 1408, 3, 1280},
		{86, 64, 5504, 64, 86, 64},
		{4, 8, 100, 32, 4, 4},
		{8, 64, 300, 64, 5, 44}, // five of eight are left
		{343, 64, 11528, 64, 181, 8},
	} {
		p := SplitK(c.slices, c.grain, Plain(), format.F32, format.F32)
		tree, err := p.Expand(c.k)
		if err != nil {
			t.Fatal(err)
		}
		got := leaves(tree)
		if len(got) != c.count || len(got[0]) != c.first || len(got[len(got)-1]) != c.last {
			t.Errorf("K = %d in %d slices of %d: %d slices, the first %d long, the last %d; want %d, %d, %d",
				c.k, c.slices, c.grain, len(got), len(got[0]), len(got[len(got)-1]), c.count, c.first, c.last)
		}
		if !tree.Merge.FromZero {
			t.Error("a split sum turns a lone -0 into +0")
		}
	}
}

func TestPromote(t *testing.T) {
	for _, interval := range []int{1, 3, 16, 32, 127, 128, 129, 1000} {
		p := Promoted(interval, Plain())
		for k := range 400 {
			tree, err := p.Expand(k)
			if err != nil {
				t.Fatal(err)
			}
			covered(t, "promoted", tree, k)
			var want [][]int
			for from := 0; from < k; from += interval {
				want = append(want, consecutive(from, min(from+interval, k)))
			}
			if k == 0 {
				want = [][]int{{}}
			}
			same(t, fmt.Sprintf("promoted every %d", interval), k, leaves(tree), want)
			if k > 0 && (tree.Merge == nil || *tree.Merge != f32Merge) {
				t.Fatalf("blocks are merged by %+v", tree.Merge)
			}
		}
	}
}

func TestNestedRules(t *testing.T) {
	p := SplitK(3, 128, Promoted(128, Tiled(ResidueFirst, 32)), format.F16, format.F32)
	for k := 0; k < 1500; k += 7 {
		tree, err := p.Expand(k)
		if err != nil {
			t.Fatal(err)
		}
		covered(t, "nested", tree, k)
		var want [][]int
		for _, b := range split(3, 128, k) {
			for from := b[0]; from < b[1]; from += 128 {
				want = append(want, tiles(ResidueFirst, 32, from, min(from+128, b[1])))
			}
		}
		if k == 0 {
			want = [][]int{{}}
		}
		same(t, "nested", k, leaves(tree), want)
		if k > 0 {
			for _, child := range tree.Sum {
				if child.Leaf() || *child.Merge != f32Merge || *tree.Merge != (Merge{Partial: format.F16, Sum: format.F32, FromZero: true}) {
					t.Fatalf("K = %d: the merges are mixed up", k)
				}
			}
			if tree.Depth() > 3 {
				t.Fatalf("K = %d: a depth of %d", k, tree.Depth())
			}
		}
	}
}

// TestExpandedTreesValidate: what a rule expands to is itself a tree that may be written out, and gives itself back.
func TestExpandedTreesValidate(t *testing.T) {
	for _, p := range []Plan{Plain(), Tiled(ResidueFirst, 32), Tiled(ResidueLast, 24), SplitK(5, 8, Tiled(ResidueFirst, 16), format.BF16, format.F32),
		Promoted(128, Plain()), SplitK(2, 64, Promoted(128, Plain()), format.F32, format.F32)} {
		for _, k := range []int{0, 1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300, 511} {
			tree, err := p.Expand(k)
			if err != nil {
				t.Fatal(err)
			}
			fixed := Plan{Tree: &Fixed{K: k, Root: tree}}
			if err := fixed.Validate("plan"); err != nil {
				t.Errorf("%s, K = %d: %v", p.Describe(), k, err)
			}
			again, err := fixed.Expand(k)
			if err != nil || !reflect.DeepEqual(again, tree) {
				t.Errorf("%s, K = %d: %v", p.Describe(), k, err)
			}
			if _, err := fixed.Expand(k + 1); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("K = %d", k+1)) {
				t.Errorf("a tree for K = %d ran for %d: %v", k, k+1, err)
			}
		}
	}
}

func TestJSONRoundTrip(t *testing.T) {
	for _, p := range []Plan{
		Plain(), Tiled(ResidueFirst, 32), Tiled(ResidueLast, 16), SplitK(343, 64, Tiled(ResidueFirst, 32), format.BF16, format.F32),
		Promoted(128, Plain()), SplitK(3, 128, Promoted(128, Plain()), format.F32, format.F32),
		SplitK(3, 16, Plain(), format.F64, format.F64), SplitK(2, 4, Plain(), format.F16, format.F16),
		{Tree: &Fixed{K: 9, Partial: true, Root: &Tree{
			Merge: &Merge{Partial: format.F16, Sum: format.F32, FromZero: true},
			Sum: []*Tree{
				{Chain: []Range{{Start: 0, Stop: 9, Step: 2, Pad: 3}}},
				{Merge: &f32Merge, Sum: []*Tree{{Chain: []Range{{Start: 1, Stop: 2}, {Start: 3, Stop: 9, Step: 4}}}, {}}},
			},
		}}},
	} {
		if err := p.Validate("plan"); err != nil {
			t.Fatalf("%s: %v", p.Describe(), err)
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var again Plan
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !reflect.DeepEqual(again, p) {
			t.Errorf("%s came back as %+v", text, again)
		}
		second, _ := json.Marshal(again)
		if string(second) != string(text) {
			t.Errorf("%s became %s", text, second)
		}
	}
	text, _ := json.Marshal(SplitK(4, 64, Tiled(ResidueFirst, 32), format.BF16, format.F32))
	if want := `{"split":{"slices":4,"grain":64,"of":{"chain":{"residue":"first","tile":32}},"merge":{"partial":"bf16","sum":"f32","from_zero":true}}}`; string(text) != want {
		t.Errorf("the JSON is %s, want %s", text, want)
	}
}

// TestErrorsNameTheField: every rule that is no rule is refused, and the error begins with where.
func TestErrorsNameTheField(t *testing.T) {
	const merge = `"merge":{"partial":"f32","sum":"f32"}`
	const of = `"of":{"chain":{}}`
	tree := func(k int, root string) string { return fmt.Sprintf(`{"tree":{"k":%d,"root":%s}}`, k, root) }
	for _, c := range []struct{ text, where string }{
		{`{}`, "plan: must hold exactly one"},
		{`{"chain":{},"tree":{"k":0,"root":{}}}`, "plan: must hold exactly one"},
		{`{"chain":{"tile":32}}`, "plan.chain.tile:"},
		{`{"chain":{"residue":"first"}}`, "plan.chain.tile:"},
		{`{"chain":{"residue":"last","tile":0}}`, "plan.chain.tile:"},
		{`{"chain":{"residue":"last","tile":-5}}`, "plan.chain.tile:"},
		{`{"chain":{"residue":"last","tile":9223372036854775807}}`, "plan.chain.tile:"},
		{`{"chain":{"residue":"middle","tile":32}}`, "plan.chain.residue:"},
		{`{"split":{"slices":0,"grain":8,` + of + `,` + merge + `}}`, "plan.split.slices:"},
		{`{"split":{"slices":-1,"grain":8,` + of + `,` + merge + `}}`, "plan.split.slices:"},
		{`{"split":{"slices":9223372036854775807,"grain":8,` + of + `,` + merge + `}}`, "plan.split.slices:"},
		{`{"split":{"slices":2,` + of + `,` + merge + `}}`, "plan.split.grain:"},
		{`{"split":{"slices":2,"grain":9223372036854775807,` + of + `,` + merge + `}}`, "plan.split.grain:"},
		{`{"split":{"slices":2,"grain":8,` + merge + `}}`, "plan.split.of: missing"},
		{`{"split":{"slices":2,"grain":8,"of":{},` + merge + `}}`, "plan.split.of: must hold exactly one"},
		{`{"split":{"slices":2,"grain":8,` + of + `}}`, "plan.split.merge.partial:"},
		{`{"split":{"slices":2,"grain":8,` + of + `,"merge":{"partial":"f32","sum":"bf16"}}}`, "plan.split.merge.sum:"},
		{`{"split":{"slices":2,"grain":8,` + of + `,"merge":{"partial":"e4m3","sum":"f32"}}}`, "plan.split.merge.partial:"},
		{`{"split":{"slices":2,"grain":8,"of":{"tree":{"k":4,"root":{}}},` + merge + `}}`, "plan.split.of: a fixed tree"},
		{`{"promote":{"interval":0,` + of + `,` + merge + `}}`, "plan.promote.interval:"},
		{`{"promote":{"interval":9223372036854775807,` + of + `,` + merge + `}}`, "plan.promote.interval:"},
		{`{"promote":{"interval":8,` + merge + `}}`, "plan.promote.of:"},
		{`{"promote":{"interval":8,"of":{"split":{"slices":1,"grain":0,` + of + `,` + merge + `}},` + merge + `}}`, "plan.promote.of.split.grain:"},
		{`{"tree":{"k":1}}`, "plan.tree.root: missing"},
		{tree(-1, `{}`), "plan.tree.k:"},
		{tree(math.MaxInt, `{}`), "plan.tree.k:"},
		{tree(1, `{}`), "plan.tree.root: k = 0 is in no chain"},
		{tree(70, `{"chain":[{"start":0,"stop":64},{"start":65,"stop":70}]}`), "plan.tree.root: k = 64 is in no chain"},
		{tree(4, `{"chain":[{"start":0,"stop":3}]}`), "plan.tree.root: k = 3 is in no chain"},
		{tree(4, `{"chain":[{"start":0,"stop":5}]}`), "plan.tree.root.chain[0].stop: 5 reaches past"},
		{tree(4, `{"chain":[{"start":-1,"stop":4}]}`), "plan.tree.root.chain[0]:"},
		{tree(4, `{"chain":[{"start":3,"stop":1},{"start":0,"stop":4}]}`), "plan.tree.root.chain[0]:"},
		{tree(4, `{"chain":[{"start":0,"stop":4},{"start":2,"stop":3}]}`), "plan.tree.root.chain[1]: k = 2 is already"},
		{tree(4, `{"chain":[{"start":0,"stop":4,"step":-2}]}`), "plan.tree.root.chain[0]:"},
		{tree(4, `{"chain":[{"start":0,"stop":4,"pad":-1}]}`), "plan.tree.root.chain[0]:"},
		{tree(4, `{"chain":[{"start":0,"stop":4,"pad":9223372036854775807}]}`), "plan.tree.root.chain[0]:"},
		{tree(4, `{"chain":[{"start":1,"stop":4,"step":9223372036854775807}]}`), "plan.tree.root.chain[0]:"},
		{tree(4, `{"chain":[{"start":0,"stop":4},{"start":2,"stop":2,"pad":1}]}`), "plan.tree.root.chain[1].pad:"},
		{tree(4, `{"chain":[{"start":0,"stop":4}],"sum":[{}],`+merge+`}`), "plan.tree.root: has both"},
		{tree(4, `{"chain":[{"start":0,"stop":4}],`+merge+`}`), "plan.tree.root.merge: belongs to a sum"},
		{tree(4, `{"sum":[{"chain":[{"start":0,"stop":4}]}]}`), "plan.tree.root.merge: missing"},
		{tree(4, `{"sum":[null],`+merge+`}`), "plan.tree.root.sum[0]: is null"},
		{tree(4, `{"sum":[{"chain":[{"start":0,"stop":4}]},{"sum":[{}],"merge":{"partial":"u8","sum":"f32"}}],`+merge+`}`), "plan.tree.root.sum[1].merge.partial:"},
		{tree(4, `{"sum":[{"chain":[{"start":0,"stop":2}]},{"chain":[{"start":1,"stop":4}]}],`+merge+`}`), "plan.tree.root.sum[1].chain[0]: k = 1 is already"},
	} {
		var p Plan
		if err := json.Unmarshal([]byte(c.text), &p); err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if err := p.Validate("plan"); err == nil || !strings.HasPrefix(err.Error(), c.where) {
			t.Errorf("%s: %v, want %s …", c.text, err, c.where)
		}
	}
	for _, k := range []int{-1, math.MinInt, math.MaxInt} {
		p := Plain()
		if _, err := p.Expand(k); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("K = %d", k)) {
			t.Errorf("K = %d: %v", k, err)
		}
	}
	if _, err := (&Plan{}).Expand(3); err == nil {
		t.Error("an empty plan expands")
	}
}

// TestPartialTree: a tree may leave products out if it says so, but use none twice.
func TestPartialTree(t *testing.T) {
	p := Plan{Tree: &Fixed{K: 100, Partial: true, Root: &Tree{Chain: []Range{{Start: 0, Stop: 64}}}}}
	if err := p.Validate("plan"); err != nil {
		t.Error(err)
	}
	p.Tree.Root.Chain = append(p.Tree.Root.Chain, Range{Start: 63, Stop: 64})
	if err := p.Validate("plan"); err == nil {
		t.Error("k = 63 is used twice")
	}
}

// TestHostileSizes: no plan from a file may ask for endless memory or time.
func TestHostileSizes(t *testing.T) {
	huge := Promoted(1, Plain())
	if _, err := huge.Expand(1 << 30); err == nil || !strings.Contains(err.Error(), "partial sums") {
		t.Errorf("2^30 accumulators: %v", err)
	}
	product := SplitK(1<<11, 1, Promoted(1, Plain()), format.F32, format.F32) // each level alone is small enough
	if _, err := product.Expand(1 << 21); err == nil || !strings.Contains(err.Error(), "partial sums") {
		t.Errorf("2^11 times 2^10 accumulators: %v", err)
	}
	deep := Plain()
	for range 1000 {
		deep = SplitK(1, 1, deep, format.F32, format.F32)
	}
	if err := deep.Validate("plan"); err == nil || !strings.Contains(err.Error(), "nested deeper") {
		t.Errorf("1000 rules inside each other: %v", err)
	}
	root := &Tree{Chain: []Range{{Start: 0, Stop: 1}}}
	for range 1000 {
		root = &Tree{Sum: []*Tree{root}, Merge: &f32Merge}
	}
	fixed := Plan{Tree: &Fixed{K: 1, Root: root}}
	if err := fixed.Validate("plan"); err == nil || !strings.Contains(err.Error(), "deeper") {
		t.Errorf("1000 sums inside each other: %v", err)
	}
	wide := Plan{Tree: &Fixed{K: maxFixed, Partial: true, Root: &Tree{Chain: []Range{{Start: 0, Stop: maxFixed, Step: maxParameter}}}}}
	allocated := testing.AllocsPerRun(1, func() {
		if err := wide.Validate("plan"); err != nil {
			t.Error(err)
		}
	})
	if allocated > 20 {
		t.Errorf("%g allocations", allocated)
	}
	for _, p := range []Plan{Plain(), Tiled(ResidueFirst, maxParameter), SplitK(maxParameter, maxParameter, Plain(), format.F32, format.F32)} {
		expandsLongest(t, p)
	}
}

func flat(t *Tree) []*Tree {
	if t.Leaf() {
		return []*Tree{t}
	}
	var list []*Tree
	for _, child := range t.Sum {
		list = append(list, flat(child)...)
	}
	return list
}

func TestRange(t *testing.T) {
	for start := range 12 {
		for stop := range 12 {
			for step := range 6 {
				r := Range{Start: start, Stop: stop, Step: step}
				want := 0
				for k := start; k < stop; k += max(step, 1) {
					want++
				}
				if r.Len() != want {
					t.Errorf("%+v has %d k, Len says %d", r, want, r.Len())
				}
			}
		}
	}
}

func TestDepthAndLeaves(t *testing.T) {
	leaf := func() *Tree { return &Tree{} }
	sum := func(children ...*Tree) *Tree { return &Tree{Sum: children, Merge: &f32Merge} }
	for _, c := range []struct {
		tree          *Tree
		depth, leaves int
	}{
		{leaf(), 1, 1},
		{sum(leaf()), 1, 1},
		{sum(leaf(), leaf()), 2, 2},
		{sum(sum(sum(leaf(), leaf()), leaf()), leaf()), 2, 4}, // leaning left needs no more
		{sum(leaf(), sum(leaf(), sum(leaf(), leaf()))), 4, 4}, // leaning right does
		{sum(sum(leaf(), leaf()), sum(leaf(), leaf())), 3, 4},
	} {
		if c.tree.Depth() != c.depth || c.tree.Leaves() != c.leaves {
			t.Errorf("depth %d and %d leaves, want %d and %d", c.tree.Depth(), c.tree.Leaves(), c.depth, c.leaves)
		}
	}
}

// TestDescribe: the sentence says everything that tells one plan from another.
func TestDescribe(t *testing.T) {
	seen := map[string]Plan{}
	for _, p := range []Plan{
		Plain(), Tiled(ResidueFirst, 32), Tiled(ResidueFirst, 64), Tiled(ResidueLast, 32),
		SplitK(3, 64, Plain(), format.F32, format.F32), SplitK(4, 64, Plain(), format.F32, format.F32), SplitK(3, 32, Plain(), format.F32, format.F32),
		SplitK(3, 64, Tiled(ResidueFirst, 32), format.F32, format.F32), SplitK(3, 64, Plain(), format.BF16, format.F32),
		SplitK(3, 64, Plain(), format.F16, format.F16), Promoted(128, Plain()), Promoted(64, Plain()),
		SplitK(3, 128, Promoted(128, Plain()), format.F32, format.F32),
		SplitK(1, 64, Plain(), format.F32, format.F32), {Split: &Split{Slices: 3, Grain: 64, Of: &Plan{Chain: &Chain{}}, Merge: f32Merge}},
		Promoted(128, Tiled(ResidueFirst, 32)), Promoted(128, Dealt(2, 1, Plain(), Forward(), f32Merge)),
		SerialK(3, 64, Plain()), SerialK(4, 64, Plain()), SerialK(3, 32, Plain()), SerialK(3, 64, Tiled(ResidueFirst, 32)),
		Dealt(16, 4, Plain(), CountDown(16), f32Merge), Dealt(16, 4, Plain(), Forward(), f32Merge), Dealt(16, 4, Plain(), Neighbours(16), f32Merge),
		Dealt(16, 1, Plain(), CountDown(16), f32Merge), Dealt(16, 4, Plain(), []Fold{{To: 8, Adjacent: true}, {To: 4}, {To: 1}}, f32Merge),
		Dealt(16, 4, Plain(), []Fold{{To: 8}, {To: 4}, {To: 1}}, f32Merge), Dealt(32, 4, Plain(), CountDown(32), f32Merge),
		Dealt(16, 4, Tiled(ResidueLast, 8), CountDown(16), f32Merge), Dealt(16, 4, Promoted(8, Plain()), CountDown(16), f32Merge),
		Dealt(16, 4, Plain(), CountDown(16), In(format.F64)), Dealt(16, 4, Plain(), CountDown(16), Merge{Partial: format.F32, Sum: format.F32, FromZero: true}),
		Dealt(16, 4, Plain(), CountDown(16), Merge{Partial: format.BF16, Sum: format.F32}), Dealt(1, 4, Plain(), Forward(), f32Merge),
		Contiguous(16, 64, Plain(), CountDown(16), f32Merge), Contiguous(16, 32, Plain(), CountDown(16), f32Merge),
		Contiguous(16, maxParameter, Plain(), CountDown(16), f32Merge),
		Buffered(16, 4, 1, Plain(), f32Merge), Buffered(16, 4, 8, Plain(), f32Merge), Buffered(16, 4, 4, Plain(), f32Merge),
		Dot(56, 2, f32Merge), Dot(56, 1, f32Merge), Dot(8, 2, f32Merge),
		{Tree: &Fixed{K: 4, Root: &Tree{Chain: []Range{{Start: 0, Stop: 4}}}}},
		{Tree: &Fixed{K: 4, Partial: true, Root: &Tree{Chain: []Range{{Start: 0, Stop: 4}}}}},
		{Tree: &Fixed{K: 4, Root: &Tree{Serial: true, Sum: []*Tree{{Chain: []Range{{Start: 0, Stop: 4}}}}}}},
	} {
		text := p.Describe()
		if other, taken := seen[text]; taken {
			t.Errorf("%+v and %+v are both %q", p, other, text)
		}
		seen[text] = p
		if strings.Contains(text, "%!") || text == "" {
			t.Errorf("%q", text)
		}
	}
}

// TestDescribeReads: whole sentences, as a person reads them.
func TestDescribeReads(t *testing.T) {
	for _, c := range []struct {
		plan Plan
		want string
	}{
		{Tiled(ResidueFirst, 32), "one accumulator; the K mod 32 residue first in a zero-padded tile, then k ascending"},
		{SplitK(1, 64, Plain(), format.F32, format.F32), "1 slice of K in units of 64 k, partial sums added forward in f32 from +0"},
		{SplitK(3, 64, Tiled(ResidueFirst, 32), format.BF16, format.F32),
			"3 slices of K in units of 64 k (in each slice: one accumulator; the residue of its k modulo 32 first in a zero-padded tile, then k ascending), " +
				"partial sums rounded to bf16, added forward in f32 from +0"},
		{Promoted(128, Tiled(ResidueLast, 32)),
			"an accumulator restarted every 128 k (in each block: one accumulator, k ascending; the residue of its k modulo 32 last in a zero-padded tile), block totals added forward in f32"},
		{Dealt(16, 4, Plain(), CountDown(16), f32Merge),
			"16 lanes that take runs of 4 consecutive k in turn, lane sums added by a count-down tree (those 8, 4, 2 and 1 apart) in f32"},
		{Buffered(5, 32, 2, Plain(), In(format.F64)),
			"5 lanes that take runs of 32 consecutive k in turn, lane sums added in f64: all but the last into 2 buffers in turn, which are then added to the last lane's one after another"},
		{Contiguous(6, maxParameter, Plain(), Forward(), f32Merge), "6 lanes of ceil(K/6) consecutive k, lane sums added forward in f32"},
		{Dot(56, 2, f32Merge), "56 lanes that take runs of 256 consecutive k in turn (in each lane: 128 lanes that take runs of 2 consecutive k in turn " +
			"(in each lane: 2 lanes that take single k in turn (lane i: its k number i, i+2, …), lane sums added forward in f32), " +
			"lane sums added by a count-down tree (those 64, 32, 16, 8, 4, 2 and 1 apart) in f32), lane sums folded to 32, 4 and 1 (value t of n takes t+n, t+2n, …) in f32"},
		{SerialK(3, 64, Plain()), "3 slices of K in units of 64 k, added in the output: the first sum goes through the whole epilogue, " +
			"each further one is added to the stored element and rounded to its format again"},
	} {
		if got := c.plan.Describe(); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

// expandsLongest checks that the plan is valid and that its tree of the longest K holds every product.
func expandsLongest(t *testing.T, p Plan) {
	t.Helper()
	if err := p.Validate("plan"); err != nil {
		t.Error(err)
	}
	tree, err := p.Expand(maxSize)
	if err != nil {
		t.Errorf("%s: %v", p.Describe(), err)
		return
	}
	total := 0
	for _, leaf := range flat(tree) {
		for _, r := range leaf.Chain {
			total += r.Len()
		}
	}
	if total != maxSize {
		t.Errorf("%s: K = 2^40 came out as %d", p.Describe(), total)
	}
}
