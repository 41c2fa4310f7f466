package discover

import (
	"math/rand/v2"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// explicitly writes a join out as a summation tree: steps of whole groups become chains, meetings of two sums become merges in
// one format. Where two sums meet of which one is a step's, the join does not tell a merge from another step of the other's
// accumulator: such events are open, and decided by choices.
type explicitly struct {
	join    *join
	step    *step.Params
	merge   *plan.Merge
	choices map[*join]int // of open events, which of their readings; the likely one where nothing is said
	open    []openEvent

	predictor predictor
	hashes    map[*join]uint64
	chains    map[*join]*chainOf
	failed    bool
}

// openEvent is an event with several readings: 0 is a merge, the others are steps. left and right are summands of its two sums.
type openEvent struct {
	at          *join
	left, right int
	readings    int
}

// chainOf is a sum read as one accumulator's: the k of its steps, in order.
type chainOf struct {
	spans [][]int
	rest  *join // what it was before the last step
	ok    bool
	// weak: two steps with a gap between them, a chain only if others follow in the same stride.
	weak     bool
	readings int
}

func explicit(j *join, s *step.Params, f format.Format) *explicitly {
	e := &explicitly{join: j, step: s, merge: ptr(plan.In(f)), choices: map[*join]int{}, hashes: map[*join]uint64{}}
	e.predictor = predictor{step: s}
	if s.Group > 1 || s.Span() > 1 {
		e.predictor.groups = s.Groups(s.Span())
	}
	return e
}

// tree gives the tree by the choices made; ok is false where some event is neither a step nor a merge.
func (e *explicitly) tree() (t *plan.Tree, ok bool) {
	e.chains, e.open, e.failed = map[*join]*chainOf{}, nil, false
	t = e.node(e.join)
	return t, !e.failed && t != nil
}

// node turns a sum into a node.
func (e *explicitly) node(j *join) *plan.Tree {
	c := e.chain(j)
	if c.readings > 0 && len(j.parts) == 2 {
		e.open = append(e.open, openEvent{j, j.parts[0].least(), j.parts[1].least(), c.readings + 1})
	}
	if c.ok && !c.weak {
		for at := c.rest; at != nil; {
			before := e.chain(at)
			if before.readings > 0 && len(at.parts) == 2 {
				e.open = append(e.open, openEvent{at, at.parts[0].least(), at.parts[1].least(), before.readings + 1})
			}
			at = before.rest
		}
		return &plan.Tree{Chain: rangesOf(c.spans, e.step.Span())}
	}
	if len(j.parts) != 2 {
		e.failed = true
		return nil
	}
	// A sum and another: the sums on the left side of one another become one node with several children.
	x, y := j.parts[0], j.parts[1]
	if y.least() < x.least() {
		x, y = y, x
	}
	left, right := e.node(x), e.node(y)
	if left == nil || right == nil {
		return nil
	}
	if !left.Leaf() {
		return &plan.Tree{Sum: append(slices.Clone(left.Sum), right), Merge: e.merge}
	}
	return &plan.Tree{Sum: []*plan.Tree{left, right}, Merge: e.merge}
}

// chain reads a sum as one accumulator's, if it is one by the choices made.
func (e *explicitly) chain(j *join) *chainOf {
	if c := e.chains[j]; c != nil {
		return c
	}
	var readings []chainOf
	all := j.positions()
	switch {
	case len(all) == 0: // the start value
		readings = append(readings, chainOf{ok: true})
	case len(all) <= e.step.Span() && e.once(0, all) == e.hash(j):
		readings = append(readings, chainOf{spans: [][]int{all}, ok: true})
	}
	for _, s := range e.last(j) {
		if c := e.chain(s.rest); c.ok {
			r := chainOf{spans: append(slices.Clone(c.spans), s.span), rest: s.rest, ok: true}
			r.weak = len(r.spans) == 2 && !regular(r.spans) && r.spans[1][0] > r.spans[0][0]
			readings = append(readings, r)
		}
	}
	c := &chainOf{}
	if chosen, said := e.choices[j]; said {
		if chosen > 0 && chosen <= len(readings) {
			*c = readings[chosen-1]
			c.weak = false
		}
	} else {
		for _, r := range readings {
			if len(j.parts) != 2 || len(r.spans) < 2 || regular(r.spans) || r.weak {
				*c = r
				break
			}
		}
	}
	c.readings = len(readings)
	e.chains[j] = c
	return c
}

// lastStep is a sum's last step: what it was before, and the k that the step adds.
type lastStep struct {
	rest *join
	span []int
}

// last gives the ways in which the end of a sum may be a step.
func (e *explicitly) last(j *join) []lastStep {
	var list []lastStep
	switch e.step.Kind {
	case step.CDNA2, step.CDNA3, step.Converted: // the accumulator meets the sum of the products
		if len(j.parts) != 2 {
			return nil
		}
		for i, y := range j.parts {
			all := y.positions()
			if len(all) <= e.step.Span() && e.once(0, all) == e.hash(y) {
				list = append(list, lastStep{j.parts[1-i], all})
			}
		}
	default: // the products of a group join it at one event, those of the step's next group at another
		var span []int
		for at := j; !at.leaf() && len(span) < e.step.Span(); {
			var rest *join
			for i, p := range at.parts {
				if !p.leaf() || p.position == start {
					if rest != nil {
						return list
					}
					rest = at.parts[i]
				}
			}
			if rest == nil { // single ones alone: any of them may be the accumulator, with one step of one product before
				if len(at.parts) == 2 && len(span) == 0 {
					for i, p := range at.parts {
						list = append(list, lastStep{at.parts[1-i], []int{p.position}})
					}
				}
				return list
			}
			for _, p := range at.parts {
				if p != rest {
					span = append(span, p.position)
				}
			}
			slices.Sort(span)
			if len(span) <= e.step.Span() && e.once(e.hash(rest), span) == e.hash(j) {
				list = append(list, lastStep{rest, slices.Clone(span)})
			}
			at = rest
		}
	}
	return list
}

// once is the hash of a step over some k, ascending, that adds to a sum.
func (e *explicitly) once(sum uint64, span []int) uint64 {
	if e.predictor.groups == nil {
		return pair(sum, hashOf(uint64(span[0])+2), false)
	}
	e.predictor.span = append(e.predictor.span[:0], span...)
	return e.predictor.step1(sum)
}

func (e *explicitly) hash(j *join) uint64 {
	h, seen := e.hashes[j]
	if !seen {
		h = j.hash()
		e.hashes[j] = h
	}
	return h
}

// positions are the summands of a sum, ascending, but for the start value.
func (j *join) positions() []int {
	var list []int
	var walk func(j *join)
	walk = func(j *join) {
		if j.leaf() && j.position != start {
			list = append(list, j.position)
		}
		for _, p := range j.parts {
			walk(p)
		}
	}
	walk(j)
	slices.Sort(list)
	return list
}

// resolve decides the open events of a tree that is written out: a large product in one of the two sums and a small one in the
// other, all else zero, show how that event alone rounds, which a merge does in another way than a step. What gives the same
// either way is left as it is.
func (f *finder) resolve(r *reader, x structure, s step.Params) (structure, error) {
	f.q.phase = "which sums are merged"
	e := x.written
	rand := rand.New(rand.NewPCG(f.o.Seed, 53))
	done := map[*join]bool{}
	for {
		o := e.smallest(done)
		if o == nil {
			return x, nil
		}
		done[o.at] = true
		seen, err := f.meet(r, o, &s, rand)
		if err != nil {
			return x, err
		}
		if seen == nil {
			continue
		}
		if x, err = f.choose(r, x, o, seen, &s); err != nil {
			return x, err
		}
	}
}

// smallest is the open event of the fewest k that is not done, nil where all are: whether a sum is one accumulator decides what
// may follow in it.
func (e *explicitly) smallest(done map[*join]bool) *openEvent {
	var next *openEvent
	size := 0
	for i, o := range e.open {
		if n := len(o.at.positions()); !done[o.at] && (next == nil || n < size) {
			next, size = &e.open[i], n
		}
	}
	if next == nil {
		return nil
	}
	o := *next // e.open does not last
	return &o
}

// meet asks what comes of numbers in the two halves of an open event; nil: nothing could be asked.
func (f *finder) meet(r *reader, o *openEvent, s *step.Params, rand *rand.Rand) (*exchange, error) {
	lane := f.lane
	defer func() { f.lane = lane }()
	f.lane.spans = [][]int{{o.left}, {o.right}}
	inside := o.at.positions()
	for k := range r.k { // where a large one is taken off again, so that a narrow output shows what is left
		if _, in := slices.BinarySearch(inside, k); !in && f.q.s.D.Info().MantissaBits < s.Result.Info().MantissaBits {
			f.lane.spans = append(f.lane.spans, []int{k})
			break
		}
	}
	list := meetings(f.q.s, s.Result, rand)
	if f.q.fewAnswers() {
		const some = 40
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = cut(list, some)
	}
	questions, kept := f.encodeAll(list)
	answers, err := f.q.ask(questions)
	if err != nil || len(kept) == 0 {
		return nil, err
	}
	spans := f.lane.spans
	return f.exchangeOf("which sums are merged", kept, answers, f.q.s.K, func(p *factor) int { return spans[p.span][0] }), nil
}

// choose takes the reading of an open event that explains most of what was seen, and x as it is where it explains all.
func (f *finder) choose(r *reader, x structure, o *openEvent, seen *exchange, s *step.Params) (structure, error) {
	e := x.written
	readings, choices := []structure{x}, []int{-1}
	best := func(want int) ([]int, int, error) {
		return seen.best(f, want, func(i int) []*profile.Profile { return f.withForms(*s, readings[i].plan) })
	}
	if _, n, err := best(1); err != nil || n == len(seen.want) {
		return x, err
	}
	was, said := e.choices[o.at]
	for choice := range o.readings {
		e.choices[o.at] = choice
		if y, ok := r.explicit(e); ok {
			readings, choices = append(readings, y), append(choices, choice)
		}
	}
	order, _, err := best(len(readings))
	if err != nil {
		return x, err
	}
	switch {
	case order[0] > 0:
		e.choices[o.at] = choices[order[0]]
	case said:
		e.choices[o.at] = was
	default:
		delete(e.choices, o.at)
	}
	e.tree() // the open events of what has been chosen
	return readings[order[0]], nil
}

// meetings are sums of two products, one large and one about as small as the last digit of a format, and of random ones.
func meetings(s *Signature, result format.Format, r *rand.Rand) []sum {
	var list []sum
	digits := result.Info().MantissaBits
	for d := digits - 1; d <= digits+2; d++ {
		for _, m := range []int64{1, 3, -1, -3} {
			large, small := factor{number: number{1, 0}}, factor{number: number{m, -d - 1}}
			for i := range 2 {
				large.span, small.span = i, 1-i
				minus := large
				minus.m = -1
				list = append(list, sum{factors: []factor{large, small}}, sum{factors: []factor{minus, small}})
				again, off := large, minus
				again.span, off.span = 2, 2
				list = append(list, sum{factors: []factor{large, small, off}}, sum{factors: []factor{minus, small, again}})
			}
		}
	}
	random := func(f format.Format, e int) uint64 {
		digits := r.Uint64()
		return normal(f, digits, e, r.Uint64N(2) == 1)
	}
	some := 12
	if s.A.Info().MantissaBits+s.B.Info().MantissaBits+2 > digits+1 { // products longer than sums: to nearest, few show it
		some = 48
	}
	for n := range some {
		var factors []factor
		for span := range 2 {
			factors = append(factors, factor{span: span, given: true, a: random(s.A, -r.IntN(1+n%12)), b: random(s.B, -r.IntN(1+n%12))})
		}
		off := factors[n%2]
		off.span, off.a = 2, off.a^1<<(s.A.Info().Bits-1)
		list = append(list, sum{factors: factors}, sum{factors: append(slices.Clone(factors), off)})
	}
	return list
}

// regular tells whether the steps of a chain follow each other without a gap, or, where there are three or more, in even
// strides.
func regular(spans [][]int) bool {
	gap := 0
	for i := 1; i < len(spans); i++ {
		d := spans[i][0] - spans[i-1][len(spans[i-1])-1]
		if d <= 0 || i > 1 && d != gap {
			return false
		}
		gap = d
	}
	return gap <= 1 || len(spans) > 2
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
