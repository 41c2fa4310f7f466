package discover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// structure is a reading of a join: a step's kind and groups, without its constants, and a plan.
type structure struct {
	step step.Params
	plan plan.Plan
	tree *plan.Tree
	// written is how the tree was written out, of one that no family has.
	written *explicitly
}

// shape is what the events of a join look like.
type shape struct {
	// grouped are the numbers of single summands that join a sum at one event, fresh those that begin one; sums says that two
	// sums meet somewhere.
	grouped, fresh map[int]int
	sums, exact    bool
}

func shapeOf(j *join) shape {
	s := shape{grouped: map[int]int{}, fresh: map[int]int{}}
	var walk func(j *join)
	walk = func(j *join) {
		if j.leaf() {
			return
		}
		s.exact = s.exact || j.exact
		single, joined := 0, 0
		for _, p := range j.parts {
			if p.leaf() && p.position != start {
				single++
			} else {
				joined++
			}
			walk(p)
		}
		switch {
		case joined == 0:
			s.fresh[single]++
		case joined == 1 && single > 0:
			s.grouped[single]++
		default:
			s.sums = true
		}
	}
	walk(j)
	return s
}

// steps are the kinds of step and groups that such events may come from, the likely ones first.
func (s *shape) steps() []step.Params {
	var sizes []int
	for n := range s.grouped {
		sizes = append(sizes, n)
	}
	slices.SortFunc(sizes, func(a, b int) int { return s.grouped[b] - s.grouped[a] })
	var fresh []int
	for n := range s.fresh {
		fresh = append(fresh, n)
	}
	slices.SortFunc(fresh, func(a, b int) int { return s.fresh[b] - s.fresh[a] })
	for _, n := range fresh {
		if !slices.Contains(sizes, n) {
			sizes = append(sizes, n)
		}
	}
	var list []step.Params
	if s.exact {
		for _, n := range sizes {
			list = append(list, step.Params{Kind: step.Exact, Group: n})
		}
		return list
	}
	for _, n := range sizes {
		if n == 1 {
			list = append(list, step.Params{Kind: step.FMA, Group: 1})
		} else {
			list = append(list, step.Params{Kind: step.Fused, Group: n})
		}
	}
	if !slices.Contains(sizes, 1) {
		list = append(list, step.Params{Kind: step.FMA, Group: 1})
	}
	for _, n := range sizes {
		for _, times := range []int{2, 4} {
			if n > 1 && n*times%4 == 0 {
				list = append(list, step.Params{Kind: step.Fused, Group: n, Order: step.Pairs, InstructionK: times * n})
			}
		}
	}
	if !s.exact && len(sizes) > 0 { // pairs of an instruction that K, or a slice of it, does not fill
		for _, instruction := range []int{8, 16, 32, 64, 128} {
			list = append(list, step.Params{Kind: step.Fused, Group: instruction / 2, Order: step.Pairs, InstructionK: instruction})
		}
	}
	if !s.exact && len(sizes) > 0 && slices.Max(sizes) == 2 { // of two, nothing tells yet whether they are summed without error
		list = append(list, step.Params{Kind: step.Exact, Group: 2})
	}
	if !s.sums {
		return list
	}
	for _, n := range fresh {
		if n < 2 {
			continue
		}
		list = append(list, step.Params{Kind: step.CDNA3, Group: n})
		for _, times := range []int{2, 4} {
			if n*times%4 == 0 {
				list = append(list, step.Params{Kind: step.Converted, Group: n, Order: step.Pairs, InstructionK: times * n})
			}
			list = append(list, step.Params{Kind: step.Converted, Group: n, InstructionK: times * n})
		}
		list = append(list, step.Params{Kind: step.CDNA3, Group: 2 * n, Interleaved: true})
	}
	for n := 4; n <= 64; n *= 2 {
		list = append(list, step.Params{Kind: step.CDNA2, Group: n})
	}
	return list
}

// groupsOf says which k a kind of step sums at once in a tree: steps that do not differ in that differ at most in the zeros with
// which groups are filled.
func groupsOf(s *step.Params, t *plan.Tree) string {
	var b strings.Builder
	fmt.Fprint(&b, s.Kind, s.Order != "" && s.Kind != step.Fused, s.Interleaved)
	var walk func(t *plan.Tree)
	walk = func(t *plan.Tree) {
		for _, r := range t.Chain {
			for at := 0; at < r.Len(); at += s.Span() {
				for _, group := range s.Groups(min(s.Span(), r.Len()-at)) {
					b.WriteByte('|')
					for _, i := range group {
						fmt.Fprint(&b, " ", r.Start+(at+i)*r.Stride())
					}
				}
				b.WriteByte('/')
			}
		}
		for _, child := range t.Sum {
			b.WriteByte('(')
			walk(child)
		}
		b.WriteByte(')')
	}
	walk(t)
	return b.String()
}

// allows tells whether a kind of step can make such events at all.
func (s *shape) allows(st *step.Params) bool {
	grouped, fresh := 0, 0
	for n := range s.grouped {
		grouped = max(grouped, n)
	}
	for n := range s.fresh {
		fresh = max(fresh, n)
	}
	switch st.Kind {
	case step.FMA:
		return grouped <= 1 && fresh <= 2
	case step.Fused, step.Exact, step.Integer: // a first step of one product alone joins the next group as one of its terms
		return grouped <= st.Group && fresh <= st.Group+1
	case step.Converted:
		return grouped <= st.Group && fresh <= st.Group
	case step.CDNA3:
		return grouped <= 1 && fresh <= st.Group
	case step.CDNA2:
		return grouped <= 1 && fresh <= 2
	}
	return true
}

// reader turns a join of some of k products into structures.
type reader struct {
	join      *join
	k         int
	f         format.Format
	among     []bool
	withStart bool
	complete  bool // all k take part
	want      uint64
	seen      []earlier
	shape     shape
	tick      func() error
	a, b      format.Format // of the operands
}

func newReader(j *join, positions []int, k int, f format.Format) *reader {
	r := &reader{join: j, k: k, f: f, among: make([]bool, k), want: j.hash(), seen: earliers(j), shape: shapeOf(j)}
	for _, p := range positions {
		if p == start {
			r.withStart = true
		} else {
			r.among[p] = true
		}
	}
	r.complete = !slices.Contains(r.among, false)
	return r
}

func (r *reader) fits(st *step.Params, tree *plan.Tree) bool {
	return predicted(st, tree, r.among, r.withStart) == r.want
}

// family gives the structures of known families, simple ones or those with one rule inside another.
func (r *reader) family(nested bool) ([]structure, error) {
	most := 64
	if r.complete { // all that agree are the same order
		most = 20
	}
	const mostTried = 12000
	var steps []step.Params
	for _, st := range r.shape.steps() {
		if r.shape.allows(&st) {
			steps = append(steps, st)
		}
	}
	by := make([][]structure, len(steps)) // by step
	tried := 0
	var stop error
	plans(r.k, r.f, r.seen, nested, func(p plan.Plan) bool {
		tried++
		full := 0
		if tree, err := p.Expand(r.k); err == nil {
			for i := range steps {
				switch {
				case len(by[i]) == most:
					full++
				case r.fits(&steps[i], tree):
					by[i] = append(by[i], structure{step: steps[i], plan: p, tree: tree})
				}
			}
		}
		stop = r.tick()
		return full < len(steps) && tried < mostTried && stop == nil
	})
	if stop != nil {
		return nil, stop
	}
	found := slices.Concat(by...)
	// Steps that hardware is known to have first, then the simpler plans.
	rank := func(x *structure) int {
		n := depth(&x.plan)
		if !r.known(&x.step) {
			n += 10
		}
		return n
	}
	slices.SortStableFunc(found, func(a, b structure) int { return rank(&a) - rank(&b) })
	return found, nil
}

// known tells whether a row of the catalogue has such groups for such operands, and is one that somebody here has compared.
func (r *reader) known(s *step.Params) bool {
	for _, entry := range step.Catalogue() {
		p := entry.Params
		if entry.Runnable && sameShape(&p, s) && r.operand(p.A, r.a) && r.operand(p.B, r.b) {
			return true
		}
	}
	return false
}

func (*reader) operand(of, given format.Format) bool {
	return of == given || of == format.TF32 && given == format.F32
}

// written gives the order written out, where all k are known.
func (r *reader) written() ([]structure, error) {
	if !r.complete {
		return nil, nil
	}
	var found []structure
	for _, st := range r.shape.steps() {
		if x, ok := r.explicit(explicit(r.join, &st, r.f)); ok {
			found = append(found, x)
		}
	}
	return found, nil
}

// explicit gives a tree that is written out, by the choices made.
func (r *reader) explicit(e *explicitly) (structure, bool) {
	tree, ok := e.tree()
	if !ok || !r.fits(e.step, tree) {
		return structure{}, false
	}
	p := plan.Plan{Tree: &plan.Fixed{K: r.k, Root: tree}}
	return structure{step: *e.step, plan: p, tree: tree, written: e}, p.Validate("plan") == nil
}

// depth is how many rules stand one inside another.
func depth(p *plan.Plan) int {
	switch {
	case p.Split != nil:
		return 1 + depth(p.Split.Of)
	case p.Promote != nil:
		return 1 + depth(p.Promote.Of)
	case p.Lanes != nil:
		return 1 + depth(p.Lanes.Of)
	case p.Serial != nil:
		return 1 + depth(p.Serial.Of)
	}
	return 0
}
