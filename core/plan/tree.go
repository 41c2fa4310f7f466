package plan

import (
	"fmt"
	"math/bits"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// Range is a run of k: Start, Start+Step, … below Stop. A chain steps through it in consecutive groups; a group never
// reaches across two ranges. Pad adds that many zero products at the end: a fused step that keeps fewer fraction bits than
// its result cuts the accumulator there once more, and other fused steps are not changed by them; in a chain of fused
// multiply-adds they turn a sum of -0 into +0.
type Range struct {
	Start int `json:"start"`
	Stop  int `json:"stop"`
	Step  int `json:"step,omitempty"` // 0 means 1
	Pad   int `json:"pad,omitempty"`
}

// Stride is the distance between two k of the range, at least 1.
func (r Range) Stride() int { return max(r.Step, 1) }

// Len counts the k of the range, padding excluded.
func (r Range) Len() int {
	if r.Stop <= r.Start {
		return 0
	}
	return (r.Stop - r.Start + r.Stride() - 1) / r.Stride()
}

// Merge says how partial sums become one: each partial is rounded to Partial (the workspace's format), then they are
// added from the first to the last in the format Sum, each addition rounded to nearest even. FromZero starts at +0, which
// turns a lone -0 into +0.
type Merge struct {
	Partial  format.Format `json:"partial"`
	Sum      format.Format `json:"sum"`
	FromZero bool          `json:"from_zero,omitempty"`
}

// Tree is an explicit summation order for one K: a leaf is one accumulator that starts at +0 and runs through its ranges
// in order; an inner node merges its children from left to right. Serial, at the root alone, is a sum that passes
// through the output (see Serial, the rule): it has no merge.
type Tree struct {
	Chain  []Range `json:"chain,omitempty"`
	Sum    []*Tree `json:"sum,omitempty"`
	Merge  *Merge  `json:"merge,omitempty"`
	Serial bool    `json:"serial,omitempty"`
}

// Leaf tells whether t is a single accumulator.
func (t *Tree) Leaf() bool { return len(t.Sum) == 0 }

// Depth counts the accumulators that evaluating t left to right needs at once.
func (t *Tree) Depth() int {
	if t.Leaf() {
		return 1
	}
	depth := t.Sum[0].Depth()
	for _, child := range t.Sum[1:] {
		depth = max(depth, 1+child.Depth())
	}
	return depth
}

// Leaves counts the accumulators.
func (t *Tree) Leaves() int {
	if t.Leaf() {
		return 1
	}
	n := 0
	for _, child := range t.Sum {
		n += child.Leaves()
	}
	return n
}

// maxTreeDepth bounds hand-written trees: evaluation keeps an accumulator tile a level.
const maxTreeDepth = 64

// Validate checks that t is well formed for K = k: every k from 0 to k-1 is used exactly once, unless partial allows
// some to be left out (a library's fault may be described as well as its rule). path names the JSON field in errors.
func (t *Tree) Validate(path string, k int, partial bool) error {
	used := &coverage{size: k, words: make([]uint64, (k+63)/64)}
	if err := t.validate(path, used, 1); err != nil {
		return err
	}
	if !partial {
		if i := used.missing(); i < k {
			return fmt.Errorf("%s: k = %d is in no chain; every k from 0 to %d must be in one", path, i, k-1)
		}
	}
	return nil
}

// coverage says which of size k are in a chain, a bit each.
type coverage struct {
	size  int
	words []uint64
}

// add reports whether k is new.
func (c *coverage) add(k int) bool {
	word, bit := &c.words[k/64], uint64(1)<<(k%64)
	isNew := *word&bit == 0
	*word |= bit
	return isNew
}

// missing is the least k in no chain, or size or more.
func (c *coverage) missing() int {
	for i, word := range c.words {
		if word != ^uint64(0) {
			return i*64 + bits.TrailingZeros64(^word)
		}
	}
	return c.size
}

func (t *Tree) validate(path string, used *coverage, depth int) error {
	switch {
	case depth > maxTreeDepth:
		return fmt.Errorf("%s: the tree is deeper than %d levels", path, maxTreeDepth)
	case len(t.Sum) > 0 && len(t.Chain) > 0:
		return fmt.Errorf("%s: has both chain and sum; a node is one or the other", path)
	case t.Serial && depth > 1:
		return fmt.Errorf("%s.serial: belongs to the root alone", path)
	case t.Serial && len(t.Sum) == 0:
		return fmt.Errorf("%s.serial: belongs to a sum, not to a chain", path)
	case t.Serial && t.Merge != nil:
		return fmt.Errorf("%s.merge: a serial sum has none; it passes through the output", path)
	case len(t.Sum) > 0:
		if !t.Serial {
			if t.Merge == nil {
				return fmt.Errorf("%s.merge: missing; a sum needs one", path)
			}
			if err := t.Merge.validate(path + ".merge"); err != nil {
				return err
			}
		}
		for i, child := range t.Sum {
			if child == nil {
				return fmt.Errorf("%s.sum[%d]: is null", path, i)
			}
			if err := child.validate(fmt.Sprintf("%s.sum[%d]", path, i), used, depth+1); err != nil {
				return err
			}
		}
		return nil
	case t.Merge != nil:
		return fmt.Errorf("%s.merge: belongs to a sum, not to a chain", path)
	}
	for i, r := range t.Chain {
		at := fmt.Sprintf("%s.chain[%d]", path, i)
		if r.Start < 0 || r.Stop < r.Start || r.Step < 0 || r.Pad < 0 {
			return fmt.Errorf("%s: start, stop, step and pad must not be negative nor stop before start", at)
		}
		if r.Stop > used.size {
			return fmt.Errorf("%s.stop: %d reaches past K = %d", at, r.Stop, used.size)
		}
		if r.Step > maxParameter || r.Pad > maxParameter {
			return fmt.Errorf("%s: step and pad are at most %d", at, maxParameter)
		}
		if r.Pad > 0 && r.Len() == 0 {
			return fmt.Errorf("%s.pad: follows products, and the range has none", at)
		}
		for k := r.Start; k < r.Stop; k += r.Stride() {
			if !used.add(k) {
				return fmt.Errorf("%s: k = %d is already in another chain", at, k)
			}
		}
	}
	return nil
}

func (m *Merge) validate(path string) error {
	for _, f := range []struct {
		name string
		f    format.Format
	}{{"partial", m.Partial}, {"sum", m.Sum}} {
		switch f.f {
		case format.F16, format.BF16, format.F32, format.F64, format.S32:
		default:
			return fmt.Errorf("%s.%s: must be f16, bf16, f32, f64 or s32", path, f.name)
		}
	}
	if m.Sum == format.BF16 {
		return fmt.Errorf("%s.sum: a running sum is kept in f16, f32, f64 or s32", path)
	}
	return nil
}
