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

// ---- a second model of the rules: k as written-out lists, an order of additions as text such as ((0+16)+(8+24)) ----

// nothing is the +0 of an accumulator without products.
const nothing = "∅"

// add is one addition. Nothing added to nothing is nothing.
func add(a, b string) string {
	if a == nothing && b == nothing {
		return nothing
	}
	return "(" + a + "+" + b + ")"
}

// as is a value rounded to a format; f32 is what accumulators hold here.
func as(f format.Format, v string) string {
	if f == format.F32 || v == nothing || strings.HasPrefix(v, f.String()+"[") {
		return v
	}
	return f.String() + "[" + v + "]"
}

// addUp adds values that are already in the format of the sum.
func addUp(values []string, sum format.Format) string {
	total := values[0]
	for _, v := range values[1:] {
		total = as(sum, add(total, v))
	}
	return total
}

// enter is what the merge makes of the first of a row of partial sums, and what it makes of the others.
func enter(v string, m *Merge, isFirst bool) string {
	v = as(m.Partial, v)
	if !isFirst {
		return v
	}
	if m.FromZero && v != nothing {
		v = "(∅+" + v + ")"
	}
	return as(m.Sum, v)
}

func mergeAll(parts []string, m *Merge) string {
	total := enter(parts[0], m, true)
	for _, v := range parts[1:] {
		total = as(m.Sum, add(total, enter(v, m, false)))
	}
	return total
}

// orderOf is the order in which p sums the products of a list of k, by the sentences of docs/profile.md.
func orderOf(p *Plan, ks []int) string {
	switch {
	case p.Chain != nil:
		return chainOf(p.Chain, ks)
	case p.Split != nil:
		s := p.Split
		return mergeOf(s.Of, cut(ks, (len(ks)+s.Grain-1)/s.Grain, s.Slices, s.Grain), &s.Merge)
	case p.Promote != nil:
		var blocks [][]int
		for block := range slices.Chunk(ks, p.Promote.Interval) {
			blocks = append(blocks, block)
		}
		return mergeOf(p.Promote.Of, blocks, &p.Promote.Merge)
	case p.Lanes != nil:
		return lanesOf(p.Lanes, ks)
	case p.Serial != nil:
		s := p.Serial
		parts := cut(ks, (len(ks)+s.Grain-1)/s.Grain, s.Slices, s.Grain)
		if len(parts) == 0 {
			return nothing
		}
		text := orderOf(s.Of, parts[0])
		for _, part := range parts[1:] {
			text = "out[" + text + "]+" + orderOf(s.Of, part)
		}
		return text
	}
	panic("no rule")
}

// cut makes slices of ceil(units/count) units of grain, none empty.
func cut(ks []int, units, count, grain int) [][]int {
	long := 0
	for long*count < units {
		long++
	}
	var parts [][]int
	for at := 0; at < len(ks); at += long * grain {
		parts = append(parts, ks[at:min(at+long*grain, len(ks))])
	}
	return parts
}

func mergeOf(of *Plan, parts [][]int, m *Merge) string {
	if len(parts) == 0 {
		return nothing
	}
	var sums []string
	for _, part := range parts {
		sums = append(sums, orderOf(of, part))
	}
	return mergeAll(sums, m)
}

// chainOf writes one accumulator as its k and a z for each padding zero.
func chainOf(c *Chain, ks []int) string {
	var words []string
	zeros := func(n int) {
		for range n {
			words = append(words, "z")
		}
	}
	rest := 0
	if c.Residue != ResidueNone {
		rest = len(ks) % c.Tile
	}
	for i, k := range ks {
		words = append(words, fmt.Sprint(k))
		if c.Residue == ResidueFirst && i == rest-1 {
			zeros(c.Tile - rest)
		}
	}
	if c.Residue == ResidueLast && rest > 0 {
		zeros(c.Tile - rest)
	}
	if len(words) == 0 {
		return nothing
	}
	return strings.Join(words, ".")
}

// dealOut gives every lane its k, one k after another.
func dealOut(ks []int, lanes, run int) [][]int {
	list := make([][]int, lanes)
	for i, k := range ks {
		lane := i / run % lanes
		list[lane] = append(list[lane], k)
	}
	return list
}

func lanesOf(l *Lanes, ks []int) string {
	run := l.Run
	if l.Whole && len(ks) > 0 {
		run = min(run, int(math.Ceil(float64(len(ks))/float64(l.Count))))
	}
	var sums []string
	for _, lane := range dealOut(ks, l.Count, run) {
		sums = append(sums, orderOf(l.Of, lane))
	}
	if l.Buffers > 0 {
		buffers := make([][]string, l.Buffers)
		last := len(sums) - 1
		for i, v := range sums[:last] {
			buffers[i%l.Buffers] = append(buffers[i%l.Buffers], v)
		}
		total := enter(sums[last], &l.Merge, true)
		for _, buffer := range buffers {
			if len(buffer) > 0 {
				total = as(l.Merge.Sum, add(total, mergeAll(buffer, &l.Merge)))
			}
		}
		return total
	}
	for i, f := range l.Folds {
		n := len(sums)
		folded := make([]string, f.To)
		for t := range folded {
			var members []string
			for j, v := range sums {
				if f.Adjacent && j/(n/f.To) == t || !f.Adjacent && j%f.To == t {
					members = append(members, v)
				}
			}
			if i == 0 {
				folded[t] = mergeAll(members, &l.Merge)
			} else {
				folded[t] = addUp(members, l.Merge.Sum)
			}
		}
		sums = folded
	}
	return sums[0]
}

// written is a tree in the same words.
func written(t *Tree) string {
	if t.Leaf() {
		var words []string
		for _, r := range t.Chain {
			for k := r.Start; k < r.Stop; k += max(r.Step, 1) {
				words = append(words, fmt.Sprint(k))
			}
			for range r.Pad {
				words = append(words, "z")
			}
		}
		if len(words) == 0 {
			return nothing
		}
		return strings.Join(words, ".")
	}
	var sums []string
	for _, child := range t.Sum {
		sums = append(sums, written(child))
	}
	if t.Serial {
		text := sums[0]
		for _, v := range sums[1:] {
			text = "out[" + text + "]+" + v
		}
		return text
	}
	return mergeAll(sums, t.Merge)
}

// checkOrder holds the expansion for K = k against the second model.
func checkOrder(t *testing.T, p *Plan, k int) {
	t.Helper()
	tree, err := p.Expand(k)
	if err != nil {
		t.Fatalf("%s, K = %d: %v", p.Describe(), k, err)
	}
	if got, want := written(tree), orderOf(p, consecutive(0, k)); got != want {
		text, _ := json.Marshal(p)
		t.Fatalf("%s, K = %d\n got %s\nwant %s", text, k, got, want)
	}
}

var (
	bf16Merge  = Merge{Partial: format.BF16, Sum: format.F32}
	halfMerge  = Merge{Partial: format.F16, Sum: format.F16, FromZero: true}
	zeroMerge  = Merge{Partial: format.F32, Sum: format.F32, FromZero: true}
	someMerges = []Merge{f32Merge, bf16Merge, halfMerge, zeroMerge, In(format.F16)}
)

// someFolds are ways to add n values.
func someFolds(n int) [][]Fold {
	list := [][]Fold{Forward(), CountDown(n)}
	if n&(n-1) == 0 && n > 1 {
		list = append(list, Neighbours(n))
	}
	if n > 3 {
		list = append(list, []Fold{{To: 3}, {To: 1}}, []Fold{{To: n - 1}, {To: 2}, {To: 1}})
	}
	if n == 6 {
		list = append(list, []Fold{{To: 3, Adjacent: true}, {To: 1, Adjacent: true}}, []Fold{{To: 2, Adjacent: true}, {To: 1}})
	}
	return list
}

// TestLanes: all small counts and runs, whole or not, every way to fold or to buffer, every K up to 70.
func TestLanes(t *testing.T) {
	tried := 0
	for _, count := range []int{1, 2, 3, 4, 5, 6, 7, 8} {
		for _, run := range []int{1, 2, 3, 4, 7, 16, maxParameter} {
			for _, whole := range []bool{false, true} {
				for _, folds := range someFolds(count) {
					for buffers := 0; buffers <= count; buffers++ {
						if buffers > 0 && (len(folds) > 1 || folds[0].Adjacent) {
							break
						}
						p := Dealt(count, run, Plain(), folds, someMerges[tried%len(someMerges)])
						p.Lanes.Whole, p.Lanes.Buffers = whole, buffers
						if err := p.Validate("plan"); err != nil {
							t.Fatal(err)
						}
						for k := range 71 {
							checkOrder(t, &p, k)
						}
						tried++
					}
				}
			}
		}
	}
	if tried < 500 {
		t.Errorf("only %d plans", tried)
	}
}

// TestRulesInsideEachOther: every rule inside every other, three deep, by the k of the slice or lane that it works on.
func TestRulesInsideEachOther(t *testing.T) {
	around := []func(of Plan, m Merge) Plan{
		func(of Plan, m Merge) Plan { return Dealt(2, 1, of, Forward(), m) },
		func(of Plan, m Merge) Plan { return Dealt(3, 4, of, CountDown(3), m) },
		func(of Plan, m Merge) Plan { return Dealt(4, 3, of, Neighbours(4), m) },
		func(of Plan, m Merge) Plan { return Contiguous(3, 5, of, Forward(), m) },
		func(of Plan, m Merge) Plan { return Buffered(4, 2, 2, of, m) },
		func(of Plan, m Merge) Plan {
			return Plan{Split: &Split{Slices: 3, Grain: 4, Of: &of, Merge: m}}
		},
		func(of Plan, m Merge) Plan { return Plan{Promote: &Promote{Interval: 5, Of: &of, Merge: m}} },
	}
	tried := 0
	for _, leaf := range []Plan{Plain(), Tiled(ResidueFirst, 4), Tiled(ResidueLast, 3)} {
		for _, inner := range around {
			for _, middle := range around {
				for _, outer := range around {
					m := func(i int) Merge { return someMerges[(tried+i)%len(someMerges)] }
					p := outer(middle(inner(leaf, m(0)), m(1)), m(2))
					if tried%3 == 0 {
						p = SerialK(2, 8, p)
					}
					if err := p.Validate("plan"); err != nil {
						t.Fatal(err)
					}
					for k := tried % 3; k < 71; k += 3 {
						checkOrder(t, &p, k)
					}
					checkOrder(t, &p, 257)
					tried++
				}
			}
		}
	}
	for _, p := range []Plan{Plain(), Tiled(ResidueFirst, 4), SplitK(3, 4, Tiled(ResidueLast, 8), format.BF16, format.F32), Promoted(7, Plain())} {
		for k := range 71 {
			checkOrder(t, &p, k)
		}
	}
}

// TestOrdersInWords: the rules' own examples, written out by hand.
func TestOrdersInWords(t *testing.T) {
	for _, c := range []struct {
		plan Plan
		k    int
		want string
	}{
		{Dealt(4, 8, Plain(), CountDown(4), f32Merge), 4, "((0.1.2.3+∅)+∅)"},
		{Dealt(4, 1, Plain(), CountDown(4), f32Merge), 8, "((0.4+2.6)+(1.5+3.7))"},
		{Dealt(4, 1, Plain(), Neighbours(4), f32Merge), 8, "((0.4+1.5)+(2.6+3.7))"},
		{Dealt(4, 1, Plain(), Forward(), f32Merge), 8, "(((0.4+1.5)+2.6)+3.7)"},
		{Strided(3, 2, Plain(), f32Merge), 11, "((0.1.6.7+2.3.8.9)+4.5.10)"},
		{Strided(2, 2, Tiled(ResidueLast, 4), f32Merge), 7, "(0.1.4.5+2.3.6.z)"},
		{Buffered(5, 1, 1, Plain(), f32Merge), 5, "(4+(((0+1)+2)+3))"},
		{Buffered(5, 1, 2, Plain(), f32Merge), 5, "((4+(0+2))+(1+3))"},
		{Buffered(1, 4, 1, Plain(), f32Merge), 5, "0.1.2.3.4"},
		{Contiguous(3, maxParameter, Plain(), Forward(), f32Merge), 7, "((0.1.2+3.4.5)+6)"},
		{Contiguous(2, 2, Plain(), Forward(), f32Merge), 7, "(0.1.4.5+2.3.6)"},
		{Dealt(2, 2, Plain(), Forward(), bf16Merge), 4, "(bf16[0.1]+bf16[2.3])"},
		{Dealt(4, 1, Plain(), CountDown(4), Merge{Partial: format.BF16, Sum: format.F16}), 4,
			"f16[(f16[(f16[bf16[0]]+bf16[2])]+f16[(f16[bf16[1]]+bf16[3])])]"},
		{Dealt(2, 1, Plain(), Forward(), zeroMerge), 2, "((∅+0)+1)"},
		{SerialK(2, 2, Tiled(ResidueFirst, 2)), 7, "out[0.1.2.3]+4.z.5.6"},
		{SerialK(9, 4, Plain()), 4, "0.1.2.3"},
		{Dot(3, 2, f32Merge), 0, "∅"},
	} {
		tree, err := c.plan.Expand(c.k)
		if err != nil {
			t.Fatal(err)
		}
		if got := written(tree); got != c.want {
			t.Errorf("%s, K = %d: %s, want %s", c.plan.Describe(), c.k, got, c.want)
		}
	}
}

// TestDot: the two kernels as they run, thread by thread.
func TestDot(t *testing.T) {
	for _, vector := range []int{1, 2} {
		for _, blocks := range []int{1, 2, 3, 4, 5, 8, 31, 32, 33, 56, 64, 65, 128, 129, 200} {
			for _, k := range []int{1, 2, 127, 128, 255, 256, 257, 1000, 5000, 16384, 40001} {
				if blocks > 64 && k < 5000 {
					continue
				}
				chains := map[[3]int][]string{}
				for i := range k {
					block, thread := i/(128*vector)%blocks, i/vector%128
					at := [3]int{block, thread, i % vector}
					chains[at] = append(chains[at], fmt.Sprint(i))
				}
				values := make([]string, blocks)
				for block := range values {
					threads := make([]string, 128)
					for thread := range threads {
						for v := range vector {
							sum := nothing
							if c := chains[[3]int{block, thread, v}]; c != nil {
								sum = strings.Join(c, ".")
							}
							if v == 0 {
								threads[thread] = sum
							} else {
								threads[thread] = add(threads[thread], sum)
							}
						}
					}
					for half := 64; half > 0; half /= 2 {
						for i := range half {
							threads[i] = add(threads[i], threads[i+half])
						}
					}
					values[block] = threads[0]
				}
				// reduce_1Block_kernel; values it has not are not added.
				for _, width := range []int{128, 64, 32, 4, 1} {
					for i := width; i < len(values); i++ {
						values[i%width] = add(values[i%width], values[i])
					}
					values = values[:min(width, len(values))]
				}
				p := Dot(blocks, vector, f32Merge)
				tree, err := p.Expand(k)
				if err != nil {
					t.Fatal(err)
				}
				if got := written(tree); got != values[0] {
					t.Fatalf("vector %d, %d blocks, K = %d:\n got %.300s\nwant %.300s", vector, blocks, k, got, values[0])
				}
				covered(t, p.Describe(), tree, k)
			}
		}
	}
}

// TestRangesOfLanes: as few ranges as the rule allows, and no others.
func TestRangesOfLanes(t *testing.T) {
	for _, c := range []struct {
		plan Plan
		k    int
		leaf int
		want []Range
	}{
		{Dealt(32, 1, Plain(), CountDown(32), f32Merge), 1 << 30, 5, []Range{{Start: 5, Stop: 1<<30 - 32 + 6, Step: 32}}},
		{Dealt(32, 1, Plain(), CountDown(32), f32Merge), 6, 4, []Range{{Start: 4, Stop: 5}}},
		{Dealt(1, 4, Plain(), Forward(), f32Merge), 100, 0, []Range{{Start: 0, Stop: 100}}},
		{Dealt(2, 4, Plain(), Forward(), f32Merge), 18, 0, []Range{{Start: 0, Stop: 4}, {Start: 8, Stop: 12}, {Start: 16, Stop: 18}}},
		{Contiguous(4, maxParameter, Plain(), Forward(), f32Merge), 18, 3, []Range{{Start: 15, Stop: 18}}},
		{Dot(4, 2, f32Merge), 2560, 3, []Range{{Start: 3, Stop: 2052, Step: 1024}}},
		{Strided(2, 32, Tiled(ResidueFirst, 32), f32Merge), 100, 0, []Range{{Start: 0, Stop: 32}, {Start: 64, Stop: 96}}},
		{Strided(2, 32, Tiled(ResidueFirst, 32), f32Merge), 100, 1, []Range{{Start: 32, Stop: 36, Pad: 28}, {Start: 36, Stop: 64}, {Start: 96, Stop: 100}}},
		{Dealt(2, 1, Tiled(ResidueLast, 4), Forward(), f32Merge), 11, 0, []Range{{Start: 0, Stop: 7, Step: 2}, {Start: 8, Stop: 11, Step: 2, Pad: 2}}},
		{SplitK(2, 8, Dealt(2, 1, Plain(), Forward(), f32Merge), format.F32, format.F32), 16, 0, []Range{{Start: 0, Stop: 7, Step: 2}}},
	} {
		tree, err := c.plan.Expand(c.k)
		if err != nil {
			t.Fatal(err)
		}
		list := flat(tree)
		got := slices.IndexFunc(list, func(l *Tree) bool { return reflect.DeepEqual(l.Chain, c.want) })
		if got < 0 {
			t.Errorf("%s, K = %d: no accumulator runs through %+v; the first through %+v", c.plan.Describe(), c.k, c.want, list[0].Chain)
		}
	}
}

// TestGroupsOfLanes: where runs hold whole groups, ranges cut a lane's k into just the groups that its positions do.
func TestGroupsOfLanes(t *testing.T) {
	groups := func(ranges []Range, g int) [][]int {
		var list [][]int
		for _, r := range ranges {
			for group := range slices.Chunk(slices.DeleteFunc(sequence([]Range{r}), func(k int) bool { return k < 0 }), g) {
				list = append(list, group)
			}
		}
		return list
	}
	for _, g := range []int{1, 2, 4, 8} {
		for _, count := range []int{1, 2, 3, 5} {
			for _, tile := range []int{g, 2 * g, 5 * g} {
				for _, inner := range []int{1, 2, 3} {
					p := Strided(count, tile*inner, Strided(inner, tile, Plain(), f32Merge), f32Merge)
					for k := range 200 {
						tree, err := p.Expand(k)
						if err != nil {
							t.Fatal(err)
						}
						var want [][]int
						for _, lane := range dealOut(consecutive(0, k), count, tile*inner) {
							for _, ks := range dealOut(lane, inner, tile) {
								for group := range slices.Chunk(ks, g) {
									want = append(want, group)
								}
							}
						}
						var got [][]int
						for _, leaf := range flat(tree) {
							got = append(got, groups(leaf.Chain, g)...)
						}
						if len(got) != len(want) || !slices.EqualFunc(got, want, slices.Equal) {
							t.Fatalf("groups of %d, %s, K = %d: %v, want %v", g, p.Describe(), k, got, want)
						}
					}
				}
			}
		}
	}
}

// TestLaneTreesValidate: what lanes and serial slices expand to may be written out, and comes back from JSON.
func TestLaneTreesValidate(t *testing.T) {
	for _, p := range []Plan{
		Dot(5, 2, f32Merge), Dealt(32, 4, Plain(), CountDown(32), bf16Merge), Buffered(7, 16, 4, Tiled(ResidueLast, 16), halfMerge),
		SerialK(3, 8, Tiled(ResidueFirst, 8)), SerialK(4, 1, Dealt(2, 1, Plain(), Forward(), zeroMerge)),
		SplitK(2, 64, Promoted(128, Dealt(4, 8, Plain(), Neighbours(4), f32Merge)), format.BF16, format.F32),
	} {
		for _, k := range []int{0, 1, 7, 64, 65, 511, 700} {
			tree, err := p.Expand(k)
			if err != nil {
				t.Fatal(err)
			}
			fixed := Plan{Tree: &Fixed{K: k, Root: tree}}
			if err := fixed.Validate("plan"); err != nil {
				t.Errorf("%s, K = %d: %v", p.Describe(), k, err)
			}
			text, err := json.Marshal(fixed)
			if err != nil {
				t.Fatal(err)
			}
			var again Plan
			if err := json.Unmarshal(text, &again); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(again, fixed) {
				t.Errorf("%s, K = %d: %s came back otherwise", p.Describe(), k, text)
			}
			if tree.Depth() > maxTreeDepth {
				t.Errorf("%s, K = %d: a depth of %d", p.Describe(), k, tree.Depth())
			}
		}
	}
}

// TestExpansionIsItsOwn: what is done to a plan afterwards does not reach a tree, nor one leaf of it another.
func TestExpansionIsItsOwn(t *testing.T) {
	p := Dealt(300, 4, Tiled(ResidueFirst, 3), CountDown(300), bf16Merge)
	tree, err := p.Expand(5000)
	if err != nil {
		t.Fatal(err)
	}
	before := written(tree)
	p.Lanes.Merge.Partial, p.Lanes.Count, p.Lanes.Of.Chain.Tile = format.F16, 2, 7
	list := flat(tree)
	for _, leaf := range list[1:] {
		if cap(leaf.Chain) != len(leaf.Chain) {
			t.Fatal("a leaf has room that another one uses")
		}
	}
	if written(tree) != before {
		t.Error("the tree changed with the plan")
	}
}

// TestHostileLanes: no plan of lanes may ask for endless memory or time.
func TestHostileLanes(t *testing.T) {
	deep := Plain()
	for range 100 {
		deep = Dealt(1, 1, deep, Forward(), f32Merge)
	}
	folded := Plain()
	for range 7 {
		folded = Dealt(1<<10, 1, folded, CountDown(1<<10), f32Merge)
	}
	buffered := Plain()
	for range 32 { // two levels of sums each, above the accumulators'
		buffered = Buffered(4, 1, 2, buffered, f32Merge)
	}
	for _, p := range []Plan{deep, folded, buffered} {
		if err := p.Validate("plan"); err == nil || !strings.Contains(err.Error(), "nested deeper") {
			t.Errorf("nested rules: %v", err)
		}
	}
	narrow := Plain()
	for range maxTreeDepth - 1 {
		narrow = Dealt(2, 2, narrow, Forward(), f32Merge)
	}
	slim := Plain()
	for range maxTreeDepth - 2 {
		slim = SplitK(1, 1, slim, format.F32, format.F32)
	}
	slim = Promoted(1, slim)
	many := Dealt(1<<10, 1, Dealt(1<<10, 1, Dealt(2, 1, Plain(), Forward(), f32Merge), Forward(), f32Merge), Forward(), f32Merge)
	for name, c := range map[string]struct {
		plan Plan
		k    int
		says string
	}{
		"lanes of lanes":    {many, 1 << 21, "partial sums"},
		"2^63 accumulators": {narrow, 1 << 40, "more than"},
		"2^39 runs":         {Dealt(2, 2, Plain(), Forward(), f32Merge), 1 << 40, "runs of k"},
		"9·2^19 runs":       {Dealt(1<<19, 2, Plain(), Forward(), f32Merge), 1 << 19 * 18, "runs of k"},
		"2^22 runs twice":   {Dealt(2, 4, Dealt(2, 2, Plain(), Forward(), f32Merge), Forward(), f32Merge), 1 << 24, "runs of k"},
		"2^26 sums":         {slim, 1 << 20, "sums of partial sums"},
		"2^20 lanes twice":  {Dealt(maxLeaves, 1, Dealt(maxLeaves, 1, Plain(), Forward(), f32Merge), Forward(), f32Merge), 1 << 40, "partial sums"},
	} {
		if err := c.plan.Validate("plan"); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, err := c.plan.Expand(c.k)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s", name, err, c.says)
		}
	}
	for _, p := range []Plan{
		Dealt(maxLeaves, maxParameter, Plain(), Forward(), f32Merge), Contiguous(maxLeaves-1, maxParameter, Plain(), CountDown(maxLeaves-1), f32Merge),
		Dealt(2, maxParameter, Dealt(3, 1, Dealt(5, maxParameter, Plain(), Forward(), f32Merge), Forward(), f32Merge), Forward(), f32Merge),
		SerialK(maxParameter, maxParameter, Plain()),
	} {
		expandsLongest(t, p)
	}
	one := SerialK(4, 8, Plain())
	if tree, err := one.Expand(8); err != nil || !tree.Leaf() {
		t.Errorf("one serial slice is %+v, %v", tree, err)
	}
	// The bounds that the messages name.
	if !strings.Contains(errLeaves.Error(), fmt.Sprint(maxLeaves)) || !strings.Contains(errNodes.Error(), fmt.Sprint(maxNodes)) || !strings.Contains(errRanges.Error(), fmt.Sprint(maxRanges)) {
		t.Error("an error names another bound than the one that is kept")
	}
}

// TestErrorsOfLanes: rules that are none are refused, and the error begins with where.
func TestErrorsOfLanes(t *testing.T) {
	const merge = `"merge":{"partial":"f32","sum":"f32"}`
	const of = `"of":{"chain":{}}`
	lanes := func(inner string) string { return `{"lanes":{` + inner + `}}` }
	for _, c := range []struct{ text, where string }{
		{lanes(`"run":1,"folds":[{"to":1}],` + of + `,` + merge), "plan.lanes.count:"},
		{lanes(`"count":-3,"run":1,"folds":[{"to":1}],` + of + `,` + merge), "plan.lanes.count:"},
		{lanes(`"count":1048577,"run":1,"folds":[{"to":1}],` + of + `,` + merge), "plan.lanes.count:"},
		{lanes(`"count":2,"folds":[{"to":1}],` + of + `,` + merge), "plan.lanes.run:"},
		{lanes(`"count":2,"run":9223372036854775807,"folds":[{"to":1}],` + of + `,` + merge), "plan.lanes.run:"},
		{lanes(`"count":2,"run":1,` + of + `,` + merge), "plan.lanes.folds: missing"},
		{lanes(`"count":2,"run":1,"folds":[],` + of + `,` + merge), "plan.lanes.folds: missing"},
		{lanes(`"count":2,"run":1,"folds":[{}],` + of + `,` + merge), "plan.lanes.folds[0].to:"},
		{lanes(`"count":2,"run":1,"folds":[{"to":2}],` + of + `,` + merge), "plan.lanes.folds[0].to:"},
		{lanes(`"count":2,"run":1,"folds":[{"to":2},{"to":1}],` + of + `,` + merge), "plan.lanes.folds[0].to:"},
		{lanes(`"count":8,"run":1,"folds":[{"to":4},{"to":5},{"to":1}],` + of + `,` + merge), "plan.lanes.folds[1].to:"},
		{lanes(`"count":1,"run":1,"folds":[{"to":1},{"to":1}],` + of + `,` + merge), "plan.lanes.folds[1].to:"},
		{lanes(`"count":8,"run":1,"folds":[{"to":4}],` + of + `,` + merge), "plan.lanes.folds: the last"},
		{lanes(`"count":8,"run":1,"folds":[{"to":3,"adjacent":true},{"to":1}],` + of + `,` + merge), "plan.lanes.folds[0].to:"},
		{lanes(`"count":8,"run":1,"folds":[{"to":4},{"to":1}],"buffers":2,` + of + `,` + merge), "plan.lanes.buffers:"},
		{lanes(`"count":8,"run":1,"folds":[{"to":1,"adjacent":true}],"buffers":2,` + of + `,` + merge), "plan.lanes.buffers:"},
		{lanes(`"count":8,"run":1,"folds":[{"to":1}],"buffers":9,` + of + `,` + merge), "plan.lanes.buffers:"},
		{lanes(`"count":8,"run":1,"folds":[{"to":1}],"buffers":-1,` + of + `,` + merge), "plan.lanes.buffers:"},
		{lanes(`"count":2,"run":1,"folds":[{"to":1}],` + merge), "plan.lanes.of: missing"},
		{lanes(`"count":2,"run":1,"folds":[{"to":1}],"of":{},` + merge), "plan.lanes.of: must hold exactly one"},
		{lanes(`"count":2,"run":1,"folds":[{"to":1}],"of":{"tree":{"k":0,"root":{}}},` + merge), "plan.lanes.of: a fixed tree"},
		{lanes(`"count":2,"run":1,"folds":[{"to":1}],"of":{"serial":{"slices":1,"grain":1,` + of + `}},` + merge), "plan.lanes.of: serial"},
		{lanes(`"count":2,"run":1,"folds":[{"to":1}],` + of), "plan.lanes.merge.partial:"},
		{lanes(`"count":2,"run":1,"folds":[{"to":1}],` + of + `,"merge":{"partial":"f32","sum":"bf16"}`), "plan.lanes.merge.sum:"},
		{`{"serial":{"grain":8,` + of + `}}`, "plan.serial.slices:"},
		{`{"serial":{"slices":8,` + of + `}}`, "plan.serial.grain:"},
		{`{"serial":{"slices":8,"grain":8}}`, "plan.serial.of: missing"},
		{`{"serial":{"slices":8,"grain":8,"of":{"serial":{"slices":8,"grain":8,` + of + `}}}}`, "plan.serial.of: serial"},
		{`{"serial":{"slices":8,"grain":8,` + of + `},"chain":{}}`, "plan: must hold exactly one"},
		{`{"split":{"slices":2,"grain":8,"of":{"serial":{"slices":1,"grain":1,` + of + `}},` + merge + `}}`, "plan.split.of: serial"},
		{`{"tree":{"k":0,"root":{"serial":true}}}`, "plan.tree.root.serial:"},
		{`{"tree":{"k":0,"root":{"serial":true,"sum":[{},{}],` + merge + `}}}`, "plan.tree.root.merge:"},
		{`{"tree":{"k":0,"root":{"serial":true,"sum":[{},{"serial":true,"sum":[{}]}]}}}`, "plan.tree.root.sum[1].serial:"},
		{`{"tree":{"k":1,"root":{"serial":true,"chain":[{"start":0,"stop":1}]}}}`, "plan.tree.root.serial:"},
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
}

// TestLanesInJSON: the JSON is what docs/profile.md says, and comes back as it was.
func TestLanesInJSON(t *testing.T) {
	for _, c := range []struct {
		plan Plan
		want string
	}{
		{Dealt(16, 4, Plain(), CountDown(16), f32Merge),
			`{"lanes":{"count":16,"run":4,"of":{"chain":{}},"folds":[{"to":8},{"to":4},{"to":2},{"to":1}],"merge":{"partial":"f32","sum":"f32"}}}`},
		{Buffered(7, 32, 4, Tiled(ResidueLast, 32), In(format.F64)),
			`{"lanes":{"count":7,"run":32,"of":{"chain":{"residue":"last","tile":32}},"folds":[{"to":1}],"merge":{"partial":"f64","sum":"f64"},"buffers":4}}`},
		{Contiguous(2, 64, Plain(), Neighbours(2), bf16Merge),
			`{"lanes":{"count":2,"run":64,"whole":true,"of":{"chain":{}},"folds":[{"to":1,"adjacent":true}],"merge":{"partial":"bf16","sum":"f32"}}}`},
		{SerialK(3, 64, Tiled(ResidueFirst, 32)), `{"serial":{"slices":3,"grain":64,"of":{"chain":{"residue":"first","tile":32}}}}`},
	} {
		text, err := json.Marshal(c.plan)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != c.want {
			t.Errorf("the JSON is %s, want %s", text, c.want)
		}
		var again Plan
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again, c.plan) {
			t.Errorf("%s came back as %+v", text, again)
		}
	}
}

func BenchmarkExpandDot(b *testing.B) {
	p := Dot(56, 2, f32Merge)
	for b.Loop() {
		if _, err := p.Expand(16384); err != nil {
			b.Fatal(err)
		}
	}
}
