package discover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// start is the position of the value that an accumulator starts from, where the signature has one; others are k.
const start = -1

// join says which summands of a sum meet when: a summand, or an event at which several sums become one. Summands of one event
// are lost in one another as soon as one is large enough, unless the event is exact. Addition is commutative, so that the
// order of an event's parts means nothing.
type join struct {
	position int // of a summand, without parts
	parts    []*join
	exact    bool
}

func (j *join) leaf() bool { return len(j.parts) == 0 }

// event joins sums; one alone is itself.
func event(exact bool, parts ...*join) *join {
	if len(parts) == 1 {
		return parts[0]
	}
	return &join{parts: parts, exact: exact}
}

// hash is equal for equal joins, whatever the order of parts.
func (j *join) hash() uint64 {
	if j.leaf() {
		return hashOf(uint64(j.position) + 2)
	}
	var h hasher
	for _, p := range j.parts {
		h.add(p.hash())
	}
	return h.event(j.exact)
}

func hashOf(v uint64) uint64 {
	v += 0x9E3779B97F4A7C15
	v = (v ^ v>>30) * 0xBF58476D1CE4E5B9
	v = (v ^ v>>27) * 0x94D049BB133111EB
	return v ^ v>>31
}

// hasher collects the parts of one event.
type hasher struct {
	n    int
	sum  uint64
	only uint64
}

func (h *hasher) add(part uint64) {
	if part == 0 { // nothing
		return
	}
	h.n, h.sum, h.only = h.n+1, h.sum+hashOf(part), part
}

// event is the hash of what was added: 0 for nothing, a part alone is itself.
func (h *hasher) event(exact bool) uint64 {
	switch {
	case h.n == 0:
		return 0
	case h.n == 1:
		return h.only
	case exact && h.n > 2: // of two summands nothing tells whether they meet without error
		return hashOf(h.sum ^ 0x5555)
	}
	return hashOf(h.sum)
}

// least is the first position of a sum.
func (j *join) least() int {
	if j.leaf() {
		return j.position
	}
	least := j.parts[0].least()
	for _, p := range j.parts[1:] {
		least = min(least, p.least())
	}
	return least
}

// String shows who meets when; exact events have braces.
func (j *join) String() string {
	var b strings.Builder
	j.write(&b)
	return b.String()
}

func (j *join) write(b *strings.Builder) {
	if j.leaf() {
		if j.position == start {
			b.WriteString("c")
		} else {
			fmt.Fprint(b, j.position)
		}
		return
	}
	brackets := "()"
	if j.exact {
		brackets = "{}"
	}
	b.WriteByte(brackets[0])
	parts := slices.Clone(j.parts)
	slices.SortFunc(parts, func(x, y *join) int { return x.least() - y.least() })
	for i, p := range parts {
		if i > 0 {
			b.WriteByte(' ')
		}
		p.write(b)
	}
	b.WriteByte(brackets[1])
}

// predicted is the hash of the join of some positions that a step and a summation tree give. among tells which k take part;
// withStart adds the accumulators' first value, which plans of one accumulator know.
func predicted(s *step.Params, t *plan.Tree, among []bool, withStart bool) uint64 {
	p := predictor{step: s, among: among, withStart: withStart}
	if s.Group > 1 || s.Span() > 1 {
		p.groups = s.Groups(s.Span())
	}
	return p.tree(t)
}

type predictor struct {
	step      *step.Params
	groups    [][]int
	among     []bool
	withStart bool
	span      []int // positions of one span that take part, -1 for others
}

func (p *predictor) tree(t *plan.Tree) uint64 {
	if t.Leaf() {
		return p.chain(t.Chain)
	}
	sum := p.tree(t.Sum[0])
	for _, child := range t.Sum[1:] {
		sum = pair(sum, p.tree(child), false)
	}
	return sum
}

func pair(x, y uint64, exact bool) uint64 {
	var h hasher
	h.add(x)
	h.add(y)
	return h.event(exact)
}

func (p *predictor) chain(ranges []plan.Range) uint64 {
	var sum uint64
	if p.withStart {
		sum = hashOf(start + 2)
	}
	for _, r := range ranges {
		if p.groups == nil {
			for k := r.Start; k < r.Stop; k += r.Stride() {
				if p.among[k] {
					sum = pair(sum, hashOf(uint64(k)+2), false)
				}
			}
			continue
		}
		span := p.step.Span()
		for from := r.Start; from < r.Stop; from += span * r.Stride() {
			p.span = p.span[:0]
			any := false
			for k := from; k < r.Stop && len(p.span) < span; k += r.Stride() {
				if p.among[k] {
					p.span, any = append(p.span, k), true
				} else {
					p.span = append(p.span, -1)
				}
			}
			if any {
				sum = p.step1(sum)
			}
		}
	}
	return sum
}

// at is the hash of member i of the span.
func (p *predictor) at(i int) uint64 {
	if i >= len(p.span) || p.span[i] < 0 {
		return 0
	}
	return hashOf(uint64(p.span[i]) + 2)
}

func (p *predictor) group(members []int, of func(i int) bool) uint64 {
	var h hasher
	for _, i := range members {
		if of == nil || of(i) {
			h.add(p.at(i))
		}
	}
	return h.event(false)
}

// step1 is one run of the step over the span.
func (p *predictor) step1(sum uint64) uint64 {
	switch p.step.Kind {
	case step.Converted:
		var inner uint64
		for _, members := range p.groups {
			var h hasher
			h.add(inner)
			for _, i := range members {
				h.add(p.at(i))
			}
			inner = h.event(false)
		}
		return pair(sum, inner, false)
	case step.CDNA2:
		level := make([]uint64, p.step.Group)
		for i := range level {
			level[i] = p.at(i)
		}
		for len(level) > 1 {
			for i := range len(level) / 2 {
				level[i] = pair(level[2*i], level[2*i+1], false)
			}
			level = level[:len(level)/2]
		}
		return pair(sum, level[0], false)
	case step.CDNA3:
		members := p.groups[0]
		if p.step.Interleaved {
			even := p.group(members, func(i int) bool { return i%2 == 0 })
			odd := p.group(members, func(i int) bool { return i%2 == 1 })
			return pair(sum, pair(even, odd, false), false)
		}
		return pair(sum, p.group(members, nil), false)
	}
	exact := p.step.Kind == step.Exact || p.step.Kind == step.Integer
	for _, members := range p.groups {
		var h hasher
		h.add(sum)
		for _, i := range members {
			h.add(p.at(i))
		}
		sum = h.event(exact)
	}
	return sum
}
