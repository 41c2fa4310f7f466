package plan

import (
	"fmt"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// Lanes deals k to Count accumulators: the k that the rule works on, by position, are cut into runs of Run consecutive
// positions, and lane l takes the runs l, l+Count, l+2·Count, …. Each lane runs Of over its own k in order; a lane
// without k holds +0 and is added like the others. The partial sums are then reduced by Folds, one after another.
//
// Threads that share a product (gemv, dot), interleaved split-K (xmma) and contiguous chunks (Whole) are all lanes.
// Source of the rules: measured on an H200, docs/arithmetic.md.
type Lanes struct {
	Count int    `json:"count"`
	Run   int    `json:"run"`
	Whole bool   `json:"whole,omitempty"` // the run is min(Run, ceil(length/Count)): one run a lane where Run allows it
	Of    *Plan  `json:"of"`
	Folds []Fold `json:"folds"`
	Merge Merge  `json:"merge"`
	// Buffers replaces the one fold to 1: every lane but the last is added to buffer (its number mod Buffers), the first
	// to come being stored; then the buffers are added, in order, to the last lane's own sum. 0: none.
	Buffers int `json:"buffers,omitempty"`
}

// Fold turns n values into To: x[t] = x[t] + x[t+To] + x[t+2·To] + …, added left to right, or, where Adjacent,
// x[t] = x[t·n/To] + x[t·n/To+1] + … over n/To neighbours. The last fold is to 1.
type Fold struct {
	To       int  `json:"to"`
	Adjacent bool `json:"adjacent,omitempty"`
}

func (l *Lanes) validate(path string, level int) error {
	if err := parameter(path+".count", l.Count, maxLeaves); err != nil {
		return err
	}
	if err := parameter(path+".run", l.Run, maxParameter); err != nil {
		return err
	}
	if len(l.Folds) == 0 {
		return fmt.Errorf("%s.folds: missing; say how the lanes are added, such as [{\"to\":1}] from the first to the last", path)
	}
	n := l.Count
	for i, f := range l.Folds {
		at := fmt.Sprintf("%s.folds[%d]", path, i)
		switch {
		case f.To < 1 || f.To > n || f.To == n && (n > 1 || i > 0):
			return fmt.Errorf("%s.to: turns %d values into fewer, is %d", at, n, f.To)
		case f.Adjacent && n%f.To != 0:
			return fmt.Errorf("%s.to: %d values have no %d equal groups of neighbours", at, n, f.To)
		}
		n = f.To
	}
	if n != 1 {
		return fmt.Errorf("%s.folds: the last is to 1, not to %d", path, n)
	}
	levels := len(l.Folds)
	if l.Buffers != 0 {
		if err := parameter(path+".buffers", l.Buffers, l.Count); err != nil {
			return err
		}
		if len(l.Folds) > 1 || l.Folds[0].Adjacent {
			return fmt.Errorf("%s.buffers: goes with folds [{\"to\":1}], from the first to the last", path)
		}
		levels = 2
	}
	return validateInner(path, l.Of, &l.Merge, level+levels)
}

func (l *Lanes) expand(v *view, b *builder) (*Tree, error) {
	if v.length == 0 {
		return b.leaf(v) // a sum of nothing but +0
	}
	if l.Count > maxLeaves-b.leaves { // before anything is made
		return nil, errLeaves
	}
	run := l.Run
	if l.Whole {
		run = min(run, ceilDiv(v.length, l.Count))
	}
	values := make([]*Tree, l.Count)
	lane := view{parent: v, lanes: l.Count, run: run}
	for i := range values {
		lane.lane, lane.length = i, dealt(v.length, i, l.Count, run)
		var err error
		if values[i], err = l.Of.expand(&lane, b); err != nil {
			return nil, err
		}
	}
	if l.Buffers > 0 {
		return l.buffered(values, b)
	}
	// Partial sums are rounded to the merge's partial format once, on the way out of their lane.
	m := b.merge(&l.Merge)
	for _, f := range l.Folds {
		folded := make([]*Tree, f.To)
		for t := range folded {
			var err error
			if folded[t], err = b.sum(f.members(values, t), m); err != nil {
				return nil, err
			}
		}
		values, m = folded, b.kept(m)
	}
	return values[0], nil
}

// members are the values that fold f makes value t of.
func (f Fold) members(values []*Tree, t int) []*Tree {
	n := len(values) / f.To
	if f.Adjacent || f.To == 1 {
		return values[t*n : (t+1)*n : (t+1)*n]
	}
	list := make([]*Tree, 0, n+1)
	for i := t; i < len(values); i += f.To {
		list = append(list, values[i])
	}
	return list
}

func (l *Lanes) buffered(lanes []*Tree, b *builder) (*Tree, error) {
	m, last := b.merge(&l.Merge), len(lanes)-1
	own, err := b.sum(lanes[last:], m)
	if err != nil {
		return nil, err
	}
	final := []*Tree{own}
	for i := range min(l.Buffers, last) {
		var buffer []*Tree
		for lane := i; lane < last; lane += l.Buffers {
			buffer = append(buffer, lanes[lane])
		}
		sum, err := b.sum(buffer, m)
		if err != nil {
			return nil, err
		}
		final = append(final, sum)
	}
	return b.sum(final, b.kept(m))
}

// sum adds values from left to right. A value alone needs no node where the merge would not change it.
func (b *builder) sum(values []*Tree, m *Merge) (*Tree, error) {
	if len(values) == 1 && m.keeps() {
		return values[0], nil
	}
	return b.node(Tree{Sum: values, Merge: m})
}

// keeps tells whether a lone partial sum leaves the merge as it was. Accumulators are no wider than f32, f64 or s32,
// whichever their family.
func (m *Merge) keeps() bool {
	switch m.Sum {
	case format.F32, format.F64, format.S32:
		return m.Partial == m.Sum && !m.FromZero
	}
	return false
}

// kept is the merge of values that have been through m already.
func (b *builder) kept(m *Merge) *Merge {
	if m.keeps() {
		return m
	}
	if b.later == nil {
		b.later = map[format.Format]*Merge{}
	}
	if b.later[m.Sum] == nil {
		b.later[m.Sum] = &Merge{Partial: m.Sum, Sum: m.Sum}
	}
	return b.later[m.Sum]
}
