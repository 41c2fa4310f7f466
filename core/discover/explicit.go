package discover

import (
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// explicit writes a join out as a summation tree: steps of whole groups become chains, meetings of two sums become merges in
// format f. ok is false where some event is neither.
func explicit(j *join, s *step.Params, f format.Format) (t *plan.Tree, ok bool) {
	e := explicitly{step: s, merge: ptr(plan.In(f))}
	t = e.tree(j)
	return t, !e.failed && t != nil
}

type explicitly struct {
	step   *step.Params
	merge  *plan.Merge
	failed bool
}

// tree turns a sum into a node.
func (e *explicitly) tree(j *join) *plan.Tree {
	if groups, ok := e.chain(j); ok {
		return &plan.Tree{Chain: rangesOf(groups, e.step.Group)}
	}
	if j.leaf() || len(j.parts) != 2 {
		e.failed = true
		return nil
	}
	// A sum and another: the sums on the left side of one another become one node with several children.
	x, y := j.parts[0], j.parts[1]
	if y.least() < x.least() {
		x, y = y, x
	}
	left, right := e.tree(x), e.tree(y)
	if left == nil || right == nil {
		return nil
	}
	if !left.Leaf() {
		return &plan.Tree{Sum: append(slices.Clone(left.Sum), right), Merge: e.merge}
	}
	return &plan.Tree{Sum: []*plan.Tree{left, right}, Merge: e.merge}
}

// chain reads a sum as one accumulator's: groups of single summands that join it one after another.
func (e *explicitly) chain(j *join) (groups [][]int, ok bool) {
	for {
		if j.leaf() {
			if j.position == start {
				return groups, true
			}
			groups = append([][]int{{j.position}}, groups...)
			return groups, e.step.Group > 1 || even(groups)
		}
		var rest *join
		var group []int
		for _, p := range j.parts {
			switch {
			case p.leaf() && p.position != start:
				group = append(group, p.position)
			case rest == nil:
				rest = p
			case e.after():
			default:
				return nil, false
			}
		}
		if e.after() && rest != nil && len(j.parts) == 2 {
			x, y := j.parts[0], j.parts[1]
			if y.least() < x.least() {
				x, y = y, x
			}
			if all, single := y.single(); single {
				rest, group = x, all
			}
		}
		slices.Sort(group)
		if len(group) == 0 {
			return nil, false
		}
		if rest == nil { // the first event: all of one group, or, where steps take one k, two of them
			if e.step.Group == 1 {
				if len(group) != 2 {
					return nil, false
				}
				groups = append([][]int{group[:1], group[1:]}, groups...)
				return groups, even(groups)
			}
			if len(group) > e.step.Group {
				return nil, false
			}
			return append([][]int{group}, groups...), true
		}
		if len(group) > e.step.Group {
			return nil, false
		}
		groups = append([][]int{group}, groups...)
		if e.step.Group == 1 && !even(groups) { // rather a sum of one product that is merged
			return nil, false
		}
		j = rest
	}
}

// after tells whether the step adds the accumulator to the sum of its products.
func (e *explicitly) after() bool {
	return e.step.Kind == step.CDNA3 && !e.step.Interleaved || e.step.Kind == step.Converted && e.step.InstructionK == 0
}

// single gives the positions of an event of single summands, or of one.
func (j *join) single() ([]int, bool) {
	if j.leaf() {
		return []int{j.position}, j.position != start
	}
	var list []int
	for _, p := range j.parts {
		if !p.leaf() || p.position == start {
			return nil, false
		}
		list = append(list, p.position)
	}
	return list, true
}

// even tells whether groups of one product are in even, ascending steps.
func even(groups [][]int) bool {
	for i := 2; i < len(groups); i++ {
		if groups[i][0]-groups[i-1][0] != groups[1][0]-groups[0][0] {
			return false
		}
	}
	return len(groups) < 2 || groups[1][0] > groups[0][0]
}

// rangesOf are runs of k whose groups are these. A group that is no run in even steps cannot be written so; the caller
// compares what comes out.
func rangesOf(groups [][]int, size int) []plan.Range {
	var list []plan.Range
	open := false // the last range ends with a whole group, so that another may follow in it
	for _, g := range groups {
		stride := 1
		if len(g) > 1 {
			stride = g[1] - g[0]
		}
		if open {
			last := &list[len(list)-1]
			if g[0] == lastOf(last)+last.Stride() && (len(g) == 1 || stride == last.Stride()) {
				last.Stop = g[len(g)-1] + 1
				open = len(g) == size
				continue
			}
			// A range of one k has no step yet.
			if last.Len() == 1 && size == 1 && g[0] > last.Start && len(g) == 1 {
				last.Step, last.Stop = g[0]-last.Start, g[0]+1
				if last.Step == 1 {
					last.Step = 0
				}
				continue
			}
		}
		r := plan.Range{Start: g[0], Stop: g[len(g)-1] + 1}
		if stride > 1 {
			r.Step = stride
		}
		list = append(list, r)
		open = len(g) == size
	}
	return list
}

// lastOf is a range's last k.
func lastOf(r *plan.Range) int { return r.Start + (r.Len()-1)*r.Stride() }
