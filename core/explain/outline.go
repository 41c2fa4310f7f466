package explain

import (
	"fmt"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// outline is a summation tree made ready for drawing: each node has its words, and long lists of alike children are
// folded into one node that counts them.
type outline struct {
	label    string
	folded   bool // stands for nodes that are not drawn
	children []*outline
}

// What an abbreviated drawing shows of a list: of accumulators that are alike the first two and the last, of larger parts
// that are alike the first, of parts that all differ so many.
const (
	headAlike = 2
	mostParts = 24
	// mostNodes bounds an abbreviated drawing, mostNodesFull a full one.
	mostNodes     = 150
	mostNodesFull = 1 << 17
)

// outliner folds one tree.
type outliner struct {
	step  stepWords
	full  bool
	left  int // nodes that may still be drawn
	forms map[*plan.Tree]form
	ids   map[string]int
}

// form tells which trees are alike: equal but for the k they begin at.
type form struct {
	id    int
	first int // the first k, -1 where there is none
}

// newOutline outlines the tree with the output above it.
func newOutline(p *profile.Profile, tree *plan.Tree, full bool) *outline {
	o := &outliner{step: wordsOf(p), full: full, left: mostNodes, forms: map[*plan.Tree]form{}, ids: map[string]int{}}
	if full {
		o.left = mostNodesFull
	} else {
		o.formOf(tree)
	}
	top := &outline{label: "output: " + outputWords(p)}
	if tree.Serial {
		top.label = "output: the first part's sum goes through the epilogue (" + outputWords(p) + "); each further part is added to what is stored, rounded to nearest even to " + p.Epilogue.Out.String()
		top.children = o.parts(tree)
		return top
	}
	top.children = []*outline{o.node(tree)}
	return top
}

// formOf finds the form of a tree and of everything in it.
func (o *outliner) formOf(t *plan.Tree) form {
	if f, known := o.forms[t]; known { // a tree may stand in several places
		return f
	}
	var key strings.Builder
	first := -1
	relative := func(k int) int {
		if first < 0 {
			first = k
		}
		return k - first
	}
	if t.Leaf() {
		for _, r := range t.Chain {
			fmt.Fprintf(&key, "%d+%d/%d,%d ", relative(r.Start), r.Len(), r.Stride(), r.Pad)
		}
	} else {
		fmt.Fprintf(&key, "%v:", t.Serial)
		if t.Merge != nil {
			fmt.Fprintf(&key, "%d %d %v:", t.Merge.Partial, t.Merge.Sum, t.Merge.FromZero)
		}
		for _, child := range t.Sum {
			f := o.formOf(child)
			at := -1
			if f.first >= 0 {
				at = relative(f.first)
			}
			fmt.Fprintf(&key, "%d@%d ", f.id, at)
		}
	}
	id, known := o.ids[key.String()]
	if !known {
		id = len(o.ids)
		o.ids[key.String()] = id
	}
	f := form{id, first}
	o.forms[t] = f
	return f
}

func (o *outliner) node(t *plan.Tree) *outline {
	o.left--
	if t.Leaf() {
		return &outline{label: o.step.chain(t.Chain, o.full)}
	}
	n := &outline{label: sumWords(t)}
	if o.left <= 0 {
		n.label += fmt.Sprintf(": %s over %s, not drawn", count(t.Leaves(), "accumulator"), kList(runs(indices(t)), false))
		n.folded = true
		return n
	}
	n.children = o.parts(t)
	return n
}

// parts outlines the children of a sum.
func (o *outliner) parts(t *plan.Tree) []*outline {
	var list []*outline
	for at := 0; at < len(t.Sum); {
		if o.left <= 0 || !o.full && len(list) >= mostParts {
			list = append(list, &outline{label: fmt.Sprintf("… %s more, not drawn", count(len(t.Sum)-at, "part")), folded: true})
			break
		}
		alike := o.alike(t.Sum[at:])
		shown, last := alike, 0
		switch {
		case o.full:
		case !t.Sum[at].Leaf() && alike > 1:
			shown = 1
		case alike > headAlike+2:
			shown, last = headAlike, 1
		}
		for _, child := range t.Sum[at : at+shown] {
			list = append(list, o.node(child))
		}
		if hidden := alike - shown - last; hidden > 0 {
			list = append(list, o.more(t.Sum[at+shown:at+shown+hidden]))
		}
		if last > 0 {
			list = append(list, o.node(t.Sum[at+alike-1]))
		}
		at += alike
	}
	return list
}

// alike counts the children from the first on that are alike.
func (o *outliner) alike(list []*plan.Tree) int {
	if o.full {
		return 1
	}
	n := 1
	for n < len(list) && o.forms[list[n]].id == o.forms[list[0]].id {
		n++
	}
	return n
}

// more stands for parts that are like the one before.
func (o *outliner) more(hidden []*plan.Tree) *outline {
	o.left--
	var starts []int
	for _, t := range hidden {
		if f := o.forms[t].first; f >= 0 {
			starts = append(starts, f)
		}
	}
	label := fmt.Sprintf("… %d more alike", len(hidden))
	if len(starts) > 0 {
		from := strings.TrimPrefix(kList(runs(starts), false), "k = ")
		label += ", from k = " + from
	}
	return &outline{label: label, folded: true}
}

// sumWords says how a node joins its parts.
func sumWords(t *plan.Tree) string {
	m := t.Merge
	text := fmt.Sprintf("sum of %s in %v, left to right", count(len(t.Sum), "part"), m.Sum)
	if len(t.Sum) == 1 {
		text = fmt.Sprintf("1 part, as %v", m.Sum)
	}
	if m.FromZero {
		text += ", beginning with +0"
	}
	if m.Partial != m.Sum {
		text += fmt.Sprintf(", each rounded to %v first", m.Partial)
	}
	return text
}

// stepWords says how many steps a chain takes.
type stepWords struct {
	span int
}

func wordsOf(p *profile.Profile) stepWords {
	return stepWords{span: max(p.Step.Span(), 1)}
}

// chain says what one accumulator runs through.
func (s stepWords) chain(chain []plan.Range, full bool) string {
	n := 0
	for _, r := range chain {
		n += r.Len()
	}
	if n == 0 {
		return "an accumulator without products: +0"
	}
	text := fmt.Sprintf("accumulator of %s, %s", count(n, "product"), ranges(chain, full))
	if s.span > 1 {
		text += fmt.Sprintf("; %s of up to %d", count(s.steps(chain), "step"), s.span)
	}
	return text
}

// steps counts the steps of a chain that take products; no step reaches across two ranges.
func (s stepWords) steps(chain []plan.Range) int {
	n := 0
	for _, r := range chain {
		n += (r.Len() + s.span - 1) / s.span
	}
	return n
}

// outputWords says in few words what becomes of the merged sum.
func outputWords(p *profile.Profile) string {
	e := &p.Epilogue
	switch {
	case e.Form != profile.FormAdd || e.Scaling != profile.ScalingNone:
		return e.Describe()
	case e.Out == p.Step.Result && e.Out == format.S32:
		return "the sum, in s32"
	case e.Out == p.Step.Result:
		return fmt.Sprintf("the sum (and an addend, if any) in %v", e.Out)
	}
	return fmt.Sprintf("the sum (and an addend, if any), rounded once to %v", e.Out)
}
