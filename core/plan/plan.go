package plan

import (
	"fmt"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// Plan is a rule that gives a summation tree for every K. Exactly one field is set.
type Plan struct {
	Chain   *Chain   `json:"chain,omitempty"`
	Split   *Split   `json:"split,omitempty"`
	Promote *Promote `json:"promote,omitempty"`
	Tree    *Fixed   `json:"tree,omitempty"`
}

// Residue says where the K mod Tile products that fill no whole tile are taken.
type Residue string

// The places of a residue.
const (
	// ResidueNone walks k in order; the last group may be short.
	ResidueNone Residue = ""
	// ResidueFirst takes the first K mod Tile products as a zero-padded tile of their own, as CUTLASS does.
	ResidueFirst Residue = "first"
	// ResidueLast takes the last K mod Tile products as a zero-padded tile of their own, as xmma does.
	ResidueLast Residue = "last"
)

// Chain is one accumulator with k ascending.
type Chain struct {
	Residue Residue `json:"residue,omitempty"`
	Tile    int     `json:"tile,omitempty"` // k a tile, where Residue is first or last
}

// Split cuts K into Slices contiguous slices of ceil(ceil(K/Grain)/Slices)·Grain, the last one short, runs Of on each
// and merges the partial sums from slice 0 on. Slices left empty by the rounding up take no part.
type Split struct {
	Slices int   `json:"slices"`
	Grain  int   `json:"grain"`
	Of     *Plan `json:"of"`
	Merge  Merge `json:"merge"`
}

// Promote restarts the accumulator every Interval k and adds the block totals in order, as Merge says (f8 with
// use_fast_accum=False: every 128 k, in f32).
type Promote struct {
	Interval int   `json:"interval"`
	Of       *Plan `json:"of"`
	Merge    Merge `json:"merge"`
}

// Fixed is a tree written out for one K. Partial allows it to leave products out.
type Fixed struct {
	K       int   `json:"k"`
	Partial bool  `json:"partial,omitempty"`
	Root    *Tree `json:"root"`
}

// Bounds of what a plan from a file may ask for.
const (
	maxLeaves    = 1 << 20 // accumulators of an expansion: memory
	maxFixed     = 1 << 28 // K of a tree written out: a bit each to check it
	maxParameter = 1 << 30 // sizes in k, and slices: sums of them stay far from overflow
	maxSize      = 1 << 40 // K of an expansion
)

// Validate checks the rule itself; path names the JSON field in errors.
func (p *Plan) Validate(path string) error { return p.validate(path, 1) }

func (p *Plan) validate(path string, depth int) error {
	if depth > maxTreeDepth {
		return fmt.Errorf("%s: rules are nested deeper than %d levels", path, maxTreeDepth)
	}
	set := 0
	for _, b := range []bool{p.Chain != nil, p.Split != nil, p.Promote != nil, p.Tree != nil} {
		if b {
			set++
		}
	}
	if set != 1 {
		return fmt.Errorf("%s: must hold exactly one of chain, split, promote, tree; it holds %d", path, set)
	}
	switch {
	case p.Chain != nil:
		c, at := p.Chain, path+".chain"
		switch c.Residue {
		case ResidueNone:
			if c.Tile != 0 {
				return fmt.Errorf("%s.tile: means something only where residue is first or last", at)
			}
		case ResidueFirst, ResidueLast:
			if err := parameter(at+".tile", c.Tile); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s.residue: must be first or last (or absent), is %q", at, c.Residue)
		}
	case p.Split != nil:
		s, at := p.Split, path+".split"
		if err := parameter(at+".slices", s.Slices); err != nil {
			return err
		}
		if err := parameter(at+".grain", s.Grain); err != nil {
			return err
		}
		return validateInner(at, s.Of, &s.Merge, depth)
	case p.Promote != nil:
		if err := parameter(path+".promote.interval", p.Promote.Interval); err != nil {
			return err
		}
		return validateInner(path+".promote", p.Promote.Of, &p.Promote.Merge, depth)
	case p.Tree != nil:
		f, at := p.Tree, path+".tree"
		if f.K < 0 || f.K > maxFixed {
			return fmt.Errorf("%s.k: must be 0 to %d, is %d", at, maxFixed, f.K)
		}
		if f.Root == nil {
			return fmt.Errorf("%s.root: missing", at)
		}
		return f.Root.Validate(at+".root", f.K, f.Partial)
	}
	return nil
}

func parameter(path string, v int) error {
	if v < 1 || v > maxParameter {
		return fmt.Errorf("%s: must be 1 to %d, is %d", path, maxParameter, v)
	}
	return nil
}

func validateInner(path string, of *Plan, merge *Merge, depth int) error {
	if of == nil {
		return fmt.Errorf("%s.of: missing; say what runs inside, such as {\"chain\":{}}", path)
	}
	if of.Tree != nil {
		return fmt.Errorf("%s.of: a fixed tree cannot stand inside another rule", path)
	}
	if err := of.validate(path+".of", depth+1); err != nil {
		return err
	}
	return merge.validate(path + ".merge")
}

// Expand gives the summation tree for K = k.
func (p *Plan) Expand(k int) (*Tree, error) {
	if k < 0 || k > maxSize {
		return nil, fmt.Errorf("K = %d is not in 0..%d", k, maxSize)
	}
	if p.Tree != nil {
		if p.Tree.K != k {
			return nil, fmt.Errorf("the plan is a tree written out for K = %d, this multiplication has K = %d", p.Tree.K, k)
		}
		return p.Tree.Root, nil
	}
	leaves := 0
	return p.expand(0, k, &leaves)
}

// expand counts the accumulators in leaves.
func (p *Plan) expand(start, stop int, leaves *int) (*Tree, error) {
	switch {
	case p.Chain != nil:
		if *leaves++; *leaves > maxLeaves {
			return nil, fmt.Errorf("the plan makes more than %d partial sums", maxLeaves)
		}
		return p.Chain.expand(start, stop), nil
	case p.Split != nil:
		s := p.Split
		return merged(start, stop, ceilDiv(ceilDiv(stop-start, s.Grain), s.Slices)*s.Grain, s.Of, s.Merge, leaves)
	case p.Promote != nil:
		return merged(start, stop, p.Promote.Interval, p.Promote.Of, p.Promote.Merge, leaves)
	}
	return nil, fmt.Errorf("the plan is empty")
}

// merged cuts [start, stop) into pieces of width k. One nonempty piece still passes through the merge: its partial is
// rounded to the workspace's format like any other.
func merged(start, stop, width int, of *Plan, m Merge, leaves *int) (*Tree, error) {
	if stop == start {
		return of.expand(start, stop, leaves)
	}
	if (stop-start)/width > maxLeaves-*leaves { // before anything is made
		return nil, fmt.Errorf("the plan makes more than %d partial sums", maxLeaves)
	}
	t := &Tree{Merge: &m}
	for at := start; at < stop; at += width {
		child, err := of.expand(at, min(at+width, stop), leaves)
		if err != nil {
			return nil, err
		}
		t.Sum = append(t.Sum, child)
	}
	return t, nil
}

func (c *Chain) expand(start, stop int) *Tree {
	if c.Residue == ResidueNone {
		return &Tree{Chain: []Range{{Start: start, Stop: stop}}}
	}
	residue := (stop - start) % c.Tile
	if residue == 0 {
		return &Tree{Chain: []Range{{Start: start, Stop: stop}}}
	}
	pad := c.Tile - residue
	if c.Residue == ResidueFirst {
		return &Tree{Chain: compact(Range{Start: start, Stop: start + residue, Pad: pad}, Range{Start: start + residue, Stop: stop})}
	}
	return &Tree{Chain: compact(Range{Start: start, Stop: stop - residue}, Range{Start: stop - residue, Stop: stop, Pad: pad})}
}

func compact(ranges ...Range) []Range {
	var kept []Range
	for _, r := range ranges {
		if r.Len() > 0 {
			kept = append(kept, r)
		}
	}
	return kept
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// Plain is one accumulator, k ascending.
func Plain() Plan { return Plan{Chain: &Chain{}} }

// Tiled takes the residue of K modulo tile first or last, in a zero-padded tile of its own.
func Tiled(where Residue, tile int) Plan { return Plan{Chain: &Chain{Residue: where, Tile: tile}} }

// SplitK cuts K into slices and adds their partial sums in the format sum, from +0, each first rounded to workspace.
func SplitK(slices, grain int, of Plan, workspace, sum format.Format) Plan {
	return Plan{Split: &Split{Slices: slices, Grain: grain, Of: &of, Merge: Merge{Partial: workspace, Sum: sum, FromZero: true}}}
}

// Promoted restarts the accumulator every interval k and adds the totals in f32.
func Promoted(interval int, of Plan) Plan {
	return Plan{Promote: &Promote{Interval: interval, Of: &of, Merge: Merge{Partial: format.F32, Sum: format.F32}}}
}

// Describe says the order in one sentence for a person.
func (p *Plan) Describe() string {
	switch {
	case p.Chain != nil:
		switch p.Chain.Residue {
		case ResidueFirst:
			return fmt.Sprintf("one accumulator; the K mod %d residue first, then k ascending", p.Chain.Tile)
		case ResidueLast:
			return fmt.Sprintf("one accumulator, k ascending; the K mod %d residue last in a zero-padded tile", p.Chain.Tile)
		}
		return "one accumulator, k ascending"
	case p.Split != nil:
		s := p.Split
		inner := ""
		if s.Of.Chain == nil || s.Of.Chain.Residue != ResidueNone {
			inner = " (" + s.Of.Describe() + " in each)"
		}
		workspace := ""
		if s.Merge.Partial != s.Merge.Sum {
			workspace = fmt.Sprintf(" rounded to %v", s.Merge.Partial)
		}
		return fmt.Sprintf("%d slices of K in units of %d%s, partial sums%s added forward in %v",
			s.Slices, s.Grain, inner, workspace, s.Merge.Sum)
	case p.Promote != nil:
		return fmt.Sprintf("an accumulator restarted every %d k, block totals added forward in %v", p.Promote.Interval, p.Promote.Merge.Sum)
	case p.Tree != nil:
		return fmt.Sprintf("an explicit summation tree for K = %d with %d accumulators", p.Tree.K, p.Tree.Root.Leaves())
	}
	return "no order"
}
