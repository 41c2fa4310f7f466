package plan

import (
	"errors"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// view is a list of k that a rule works on, by position: all of K for the outermost rule, otherwise a contiguous piece
// of the parent's positions or the positions dealt to one lane. It is never written out; positions are mapped upwards.
type view struct {
	parent *view // nil: position and k are the same
	length int
	offset int // of a contiguous piece, in the parent's positions

	// Of a lane: it takes runs number lane, lane+lanes, … of run positions. lanes is 0 for a contiguous piece.
	lane, lanes, run int
}

// progression is positions start, start+step, … of a view.
type progression struct{ start, count, step int }

// dealt is the number of positions that one of so many lanes takes of length positions in runs.
func dealt(length, lane, lanes, run int) int {
	round := run * lanes
	return length/round*run + min(max(length%round-lane*run, 0), run)
}

// up is a position of the lane as the parent's.
func (v *view) up(at int) int { return (at/v.run*v.lanes+v.lane)*v.run + at%v.run }

var (
	errLeaves = errors.New("the plan makes more than 1048576 partial sums")
	errNodes  = errors.New("the plan makes more than 3145728 sums of partial sums")
	errRanges = errors.New("the plan makes more than 4194304 runs of k")
)

// raise maps progressions of v's positions to the parent's. A progression that is in step with the runs stays one;
// another is cut where a run ends, since no group of a fused step reaches across two runs.
func (v *view) raise(from, to []progression, b *builder) ([]progression, error) {
	if v.lanes == 0 {
		for _, p := range from {
			p.start += v.offset
			to = append(to, p)
		}
		return to, nil
	}
	if v.lanes == 1 {
		return append(to, from...), nil
	}
	for _, p := range from {
		if p.count == 1 || p.step%v.run == 0 {
			p.start = v.up(p.start)
			if p.count > 1 { // a lone k keeps its step of 1, and so nothing overflows
				p.step *= v.lanes
			}
			to = append(to, p)
			continue
		}
		cuts := min(p.count, (p.start%v.run+(p.count-1)*p.step)/v.run)
		if b.cuts += cuts; b.cuts > maxRanges {
			return nil, errRanges
		}
		for p.count > 0 {
			part := progression{start: v.up(p.start), step: p.step, count: min(p.count, ceilDiv(v.run-p.start%v.run, p.step))}
			p.start, p.count = p.start+part.count*p.step, p.count-part.count
			if part.count == 1 {
				part.step = 1
			}
			to = append(to, part)
		}
	}
	return to, nil
}

// piece is consecutive positions of a view that an accumulator runs through, and zero products after them.
type piece struct{ from, length, pad int }

// builder makes the nodes of one expansion and keeps it within bounds. Nodes and ranges are carved from blocks: a plan
// of ten thousand lanes is expanded for every candidate of a search.
type builder struct {
	leaves, nodes, ranges, cuts int

	trees    []Tree
	runs     []Range
	merges   map[*Merge]*Merge
	later    map[format.Format]*Merge
	from, to []progression
}

const block = 256

func (b *builder) node(t Tree) (*Tree, error) {
	if b.nodes++; b.nodes > maxNodes {
		return nil, errNodes
	}
	if len(b.trees) == cap(b.trees) {
		b.trees = make([]Tree, 0, min(max(2*cap(b.trees), 1), block))
	}
	b.trees = append(b.trees, t)
	return &b.trees[len(b.trees)-1], nil
}

// leaf is one accumulator that runs through pieces of v. Empty pieces are left out.
func (b *builder) leaf(v *view, pieces ...piece) (*Tree, error) {
	if b.leaves++; b.leaves > maxLeaves {
		return nil, errLeaves
	}
	first := len(b.runs)
	for _, p := range pieces {
		if p.length == 0 {
			continue
		}
		b.from = append(b.from[:0], progression{start: p.from, count: p.length, step: 1})
		for at := v; at.parent != nil; at = at.parent {
			var err error
			if b.to, err = at.raise(b.from, b.to[:0], b); err != nil {
				return nil, err
			}
			b.from, b.to = b.to, b.from
		}
		if b.ranges += len(b.from); b.ranges > maxRanges {
			return nil, errRanges
		}
		if len(b.runs)+len(b.from) > cap(b.runs) {
			// What this leaf has so far moves to the new block with it.
			grown := make([]Range, len(b.runs)-first, max(len(b.runs)-first+len(b.from), min(2*cap(b.runs), block)))
			copy(grown, b.runs[first:])
			b.runs, first = grown, 0
		}
		for _, q := range b.from {
			r := Range{Start: q.start, Stop: q.start + (q.count-1)*q.step + 1}
			if q.step > 1 {
				r.Step = q.step
			}
			b.runs = append(b.runs, r)
		}
		b.runs[len(b.runs)-1].Pad = p.pad
	}
	if len(b.runs) == first {
		return b.node(Tree{})
	}
	return b.node(Tree{Chain: b.runs[first:len(b.runs):len(b.runs)]})
}

// merge is a copy of a rule's merge, one for all nodes of the expansion that share it: the plan may change later.
func (b *builder) merge(m *Merge) *Merge {
	if b.merges == nil {
		b.merges = map[*Merge]*Merge{}
	}
	if b.merges[m] == nil {
		copied := *m
		b.merges[m] = &copied
	}
	return b.merges[m]
}
