package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/rules"
)

// compare fills Differences and SameArithmetic.
func (r *Reasons) compare(a, b *cases.Case) {
	add := func(part, x, y string) {
		if x != y {
			r.Differences = append(r.Differences, Difference{part, x, y})
		}
	}
	add("shape", r.A.Shape, r.B.Shape)
	add("kernel", kernels(a, r.A.Family), kernels(b, r.B.Family))
	add("operands", r.A.DType, r.B.DType)
	before := len(r.Differences)
	p, q := r.A.profile, r.B.profile
	if p == nil || q == nil {
		add("output", r.A.Out, r.B.Out)
		return
	}
	other := q.Step
	other.A, other.B = p.Step.A, p.Step.B // that operands differ is said
	if !alike(p.Step, other) {
		x, y := stepSentence(&p.Step), stepSentence(&q.Step)
		if x == y { // they differ in a corner that the short sentence leaves out
			x, y = p.Step.Describe(), q.Step.Describe()
		}
		add("step", x, y)
	}
	_, _, _, ka := a.Sizes()
	_, _, _, kb := b.Sizes()
	x, y := orderOf(p, ka), orderOf(q, kb)
	if x.tree == nil || y.tree == nil || !alike(x.tree, y.tree) {
		add("order", x.order, y.order)
		add("merge", x.merge, y.merge)
	}
	add("epilogue", epilogueWords(p, a), epilogueWords(q, b))
	add("output", r.A.Out, r.B.Out)
	r.SameArithmetic = len(r.Differences) == before && r.A.DType == r.B.DType && ka == kb
}

// alike compares two values of one type by what they say in JSON.
func alike(x, y any) bool {
	a, errA := json.Marshal(x)
	b, errB := json.Marshal(y)
	return errA == nil && errB == nil && string(a) == string(b)
}

// longestName is where a kernel's name is cut: template arguments may run to kilobytes.
const longestName = 72

// kernels says the family and the names of the kernels that ran.
func kernels(c *cases.Case, family string) string {
	var names []string
	for _, name := range c.Kernels {
		names = append(names, cut(rules.Parse(name).Text, longestName))
	}
	const most = 3
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("%d more", len(names)-most))
	}
	switch {
	case len(names) == 0:
		return "no name recorded"
	case family == "":
		return strings.Join(names, " + ")
	}
	return family + ": " + strings.Join(names, " + ")
}

// order is how a profile sums one K.
type order struct {
	order, merge string
	tree         *plan.Tree // nil where the plan has none for this K
}

func orderOf(p *profile.Profile, k int) order {
	o := order{order: p.Plan.Describe(), merge: "no partial sums are joined"}
	tree, err := p.Plan.Expand(k)
	if err != nil {
		return o
	}
	o.tree = tree
	if text := partsWords(p, tree, k); text != "" {
		o.order += ". " + text
	}
	var merges []string
	var walk func(t *plan.Tree)
	walk = func(t *plan.Tree) {
		for _, child := range t.Sum {
			walk(child)
		}
		if m := t.Merge; m != nil {
			text := fmt.Sprintf("partial sums are added in %v", m.Sum)
			if narrows(p.Step.Result, m.Partial) && m.Partial != m.Sum {
				text = fmt.Sprintf("partial sums are rounded to %v and added in %v", m.Partial, m.Sum)
			}
			if !slices.Contains(merges, text) {
				merges = append(merges, text)
			}
		}
	}
	walk(tree)
	if tree.Serial {
		merges = append(merges, fmt.Sprintf("the sum of each slice is added to the stored output, in %v", p.Epilogue.Out))
	}
	if len(merges) > 0 {
		o.merge = strings.Join(merges, "; ")
	}
	return o
}

// epilogueWords says what happens to the sum of a case on its way out.
func epilogueWords(p *profile.Profile, c *cases.Case) string {
	var with []string
	switch {
	case c.C == nil:
	case c.C.Strides[1] == 0:
		with = append(with, "a bias")
	default:
		with = append(with, "an addend")
	}
	for _, name := range []string{"alpha", "beta"} {
		if s, given := c.Scalars[name]; given && s.Value() != 1 {
			text := name + " = " + value{s.Bits, s.Format}.decimal()
			if c.RoundsScalars(name) {
				text += fmt.Sprintf(" rounded to %s by torch", c.A.Format)
			}
			with = append(with, text)
		}
	}
	if p.Epilogue.Scaling != profile.ScalingNone {
		with = append(with, fmt.Sprintf("scales a %s", p.Epilogue.Scaling))
	}
	if len(with) == 0 {
		return "no addend and no factors"
	}
	return "with " + strings.Join(with, ", ") + ": " + p.Epilogue.Describe()
}
