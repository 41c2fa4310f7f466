package plan

import "fmt"

// Plan is a rule that gives a summation tree for every K. Exactly one field is set.
type Plan struct {
	Chain   *Chain   `json:"chain,omitempty"`
	Split   *Split   `json:"split,omitempty"`
	Promote *Promote `json:"promote,omitempty"`
	Lanes   *Lanes   `json:"lanes,omitempty"`
	Serial  *Serial  `json:"serial,omitempty"` // the outermost rule only
	Tree    *Fixed   `json:"tree,omitempty"`   // the outermost rule only
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
	maxNodes     = 3 << 20 // accumulators and sums of an expansion: memory
	maxRanges    = 1 << 22 // runs of k of an expansion: memory
	maxFixed     = 1 << 28 // K of a tree written out: a bit each to check it
	maxParameter = 1 << 30 // sizes in k, and slices: sums of them stay far from overflow
	maxSize      = 1 << 40 // K of an expansion
)

// Validate checks the rule itself; path names the JSON field in errors.
func (p *Plan) Validate(path string) error { return p.validate(path, 1) }

// validate checks a rule whose trees hang at the given level of the whole tree, the root being level 1.
func (p *Plan) validate(path string, level int) error {
	if level > maxTreeDepth {
		return fmt.Errorf("%s: rules are nested deeper than %d levels of sums", path, maxTreeDepth)
	}
	set := 0
	for _, b := range []bool{p.Chain != nil, p.Split != nil, p.Promote != nil, p.Lanes != nil, p.Serial != nil, p.Tree != nil} {
		if b {
			set++
		}
	}
	if set != 1 {
		return fmt.Errorf("%s: must hold exactly one of chain, split, promote, lanes, serial, tree; it holds %d", path, set)
	}
	switch {
	case p.Chain != nil:
		return p.Chain.validate(path + ".chain")
	case p.Split != nil:
		s, at := p.Split, path+".split"
		if err := sliced(at, s.Slices, s.Grain); err != nil {
			return err
		}
		return validateInner(at, s.Of, &s.Merge, level+1)
	case p.Promote != nil:
		if err := parameter(path+".promote.interval", p.Promote.Interval, maxParameter); err != nil {
			return err
		}
		return validateInner(path+".promote", p.Promote.Of, &p.Promote.Merge, level+1)
	case p.Lanes != nil:
		return p.Lanes.validate(path+".lanes", level)
	case p.Serial != nil:
		s, at := p.Serial, path+".serial"
		if err := sliced(at, s.Slices, s.Grain); err != nil {
			return err
		}
		return validateOf(at, s.Of, level+1)
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

func (c *Chain) validate(path string) error {
	switch c.Residue {
	case ResidueNone:
		if c.Tile != 0 {
			return fmt.Errorf("%s.tile: means something only where residue is first or last", path)
		}
	case ResidueFirst, ResidueLast:
		return parameter(path+".tile", c.Tile, maxParameter)
	default:
		return fmt.Errorf("%s.residue: must be first or last (or absent), is %q", path, c.Residue)
	}
	return nil
}

func parameter(path string, v, most int) error {
	if v < 1 || v > most {
		return fmt.Errorf("%s: must be 1 to %d, is %d", path, most, v)
	}
	return nil
}

func sliced(path string, count, grain int) error {
	if err := parameter(path+".slices", count, maxParameter); err != nil {
		return err
	}
	return parameter(path+".grain", grain, maxParameter)
}

func validateInner(path string, of *Plan, merge *Merge, level int) error {
	if err := validateOf(path, of, level); err != nil {
		return err
	}
	return merge.validate(path + ".merge")
}

func validateOf(path string, of *Plan, level int) error {
	switch {
	case of == nil:
		return fmt.Errorf("%s.of: missing; say what runs inside, such as {\"chain\":{}}", path)
	case of.Tree != nil:
		return fmt.Errorf("%s.of: a fixed tree cannot stand inside another rule", path)
	case of.Serial != nil:
		return fmt.Errorf("%s.of: serial slices pass through the output, so they cannot stand inside another rule", path)
	}
	return of.validate(path+".of", level)
}

// Expand gives the summation tree for K = k. The plan must be valid; the tree is not to be changed.
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
	return p.expand(&view{length: k}, new(builder))
}

func (p *Plan) expand(v *view, b *builder) (*Tree, error) {
	switch {
	case p.Chain != nil:
		return p.Chain.expand(v, b)
	case p.Split != nil:
		s := p.Split
		return merged(v, ceilDiv(ceilDiv(v.length, s.Grain), s.Slices)*s.Grain, s.Of, &s.Merge, b)
	case p.Promote != nil:
		return merged(v, p.Promote.Interval, p.Promote.Of, &p.Promote.Merge, b)
	case p.Lanes != nil:
		return p.Lanes.expand(v, b)
	case p.Serial != nil:
		return p.Serial.expand(v, b)
	}
	return nil, fmt.Errorf("the plan is empty")
}

// pieces runs of on consecutive pieces of width k.
func pieces(v *view, width int, of *Plan, b *builder) ([]*Tree, error) {
	if v.length/width > maxLeaves-b.leaves { // before anything is made
		return nil, errLeaves
	}
	list := make([]*Tree, 0, ceilDiv(v.length, width))
	piece := view{parent: v}
	for at := 0; at < v.length; at += width {
		piece.offset, piece.length = at, min(width, v.length-at)
		child, err := of.expand(&piece, b)
		if err != nil {
			return nil, err
		}
		list = append(list, child)
	}
	return list, nil
}

// merged sums consecutive pieces. One nonempty piece still passes through the merge: its partial is rounded to the
// workspace's format like any other.
func merged(v *view, width int, of *Plan, m *Merge, b *builder) (*Tree, error) {
	if v.length == 0 {
		return of.expand(v, b)
	}
	list, err := pieces(v, width, of, b)
	if err != nil {
		return nil, err
	}
	return b.node(Tree{Sum: list, Merge: b.merge(m)})
}

func (c *Chain) expand(v *view, b *builder) (*Tree, error) {
	if c.Residue == ResidueNone {
		return b.leaf(v, piece{length: v.length})
	}
	residue := v.length % c.Tile
	if residue == 0 {
		return b.leaf(v, piece{length: v.length})
	}
	pad := c.Tile - residue
	if c.Residue == ResidueFirst {
		return b.leaf(v, piece{length: residue, pad: pad}, piece{from: residue, length: v.length - residue})
	}
	return b.leaf(v, piece{length: v.length - residue}, piece{from: v.length - residue, length: residue, pad: pad})
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
