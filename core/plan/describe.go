package plan

import (
	"fmt"
	"strconv"
	"strings"
)

// Describe says the order in one sentence for a person, from the outside in: how K is dealt out, what runs inside each
// part, how the sums of the parts become one.
func (p *Plan) Describe() string { return p.describe("the K mod %d residue", "K") }

// describe takes the words for the residue modulo a tile and for the number of k: a rule inside another works on the k
// of its own slice or lane.
func (p *Plan) describe(residue, length string) string {
	switch {
	case p.Chain != nil:
		switch p.Chain.Residue {
		case ResidueFirst:
			return "one accumulator; " + fmt.Sprintf(residue, p.Chain.Tile) + " first in a zero-padded tile, then k ascending"
		case ResidueLast:
			return "one accumulator, k ascending; " + fmt.Sprintf(residue, p.Chain.Tile) + " last in a zero-padded tile"
		}
		return "one accumulator, k ascending"
	case p.Split != nil:
		s := p.Split
		return describeSlices(s.Slices, s.Grain, length) + inside(s.Of, "slice") + ", " + s.Merge.rounded("partial sums") + " added forward " + s.Merge.adding()
	case p.Promote != nil:
		m := &p.Promote.Merge
		return fmt.Sprintf("an accumulator restarted every %d k", p.Promote.Interval) + inside(p.Promote.Of, "block") + ", " +
			m.rounded("block totals") + " added forward " + m.adding()
	case p.Lanes != nil:
		return p.Lanes.describe(length)
	case p.Serial != nil:
		s := p.Serial
		return describeSlices(s.Slices, s.Grain, length) + inside(s.Of, "slice") +
			", added in the output: the first sum goes through the whole epilogue, each further one is added to the stored element and rounded to its format again"
	case p.Tree != nil:
		text := fmt.Sprintf("an explicit summation tree for K = %d with %s", p.Tree.K, count(p.Tree.Root.Leaves(), "accumulator"))
		if p.Tree.Root.Serial {
			text += fmt.Sprintf(", the %d sums at its root added in the output one after another", len(p.Tree.Root.Sum))
		}
		if p.Tree.Partial {
			text += ", which may leave products out"
		}
		return text
	}
	return "no order"
}

func describeSlices(slices, grain int, length string) string {
	return fmt.Sprintf("%s of %s in units of %d k", count(slices, "slice"), length, grain)
}

// inside says what runs in each part, unless it is the plainest there is.
func inside(of *Plan, part string) string {
	if of.Chain != nil && of.Chain.Residue == ResidueNone {
		return ""
	}
	return " (in each " + part + ": " + of.describe("the residue of its k modulo %d", "its k") + ")"
}

func (l *Lanes) describe(length string) string {
	var b strings.Builder
	lanes := count(l.Count, "lane")
	switch {
	case l.Count == 1:
		b.WriteString("1 lane that takes every k")
	case l.Whole && l.Run == maxParameter:
		fmt.Fprintf(&b, "%s of ceil(%s/%d) consecutive k", lanes, length, l.Count)
	case l.Whole:
		fmt.Fprintf(&b, "%s that take runs of ceil(%s/%d) consecutive k, at most %d, in turn", lanes, length, l.Count, l.Run)
	case l.Run == 1:
		fmt.Fprintf(&b, "%s that take single k in turn (lane i: %s)", lanes, every(length, l.Count))
	default:
		fmt.Fprintf(&b, "%s that take runs of %d consecutive k in turn", lanes, l.Run)
	}
	b.WriteString(inside(l.Of, "lane") + ", ")
	m := &l.Merge
	switch {
	case l.Buffers == 1:
		fmt.Fprintf(&b, "%s added %s: all but the last into one buffer, which is then added to the last lane's", m.rounded("lane sums"), m.adding())
	case l.Buffers > 1:
		fmt.Fprintf(&b, "%s added %s: all but the last into %d buffers in turn, which are then added to the last lane's one after another", m.rounded("lane sums"), m.adding(), l.Buffers)
	default:
		fmt.Fprintf(&b, "%s %s %s", m.rounded("lane sums"), describeFolds(l.Count, l.Folds), m.adding())
	}
	return b.String()
}

// every names the k of lane i: their numbers, or, inside another rule, their places among its k.
func every(length string, lanes int) string {
	if length == "K" {
		return fmt.Sprintf("k = i, i+%d, …", lanes)
	}
	return fmt.Sprintf("its k number i, i+%d, …", lanes)
}

func describeFolds(n int, folds []Fold) string {
	if len(folds) == 1 {
		return "added forward"
	}
	distances, apart, neighbours := make([]string, len(folds)), true, true
	for i, f := range folds {
		distances[i] = strconv.Itoa(f.To)
		halves := f.To*2 >= n // each value takes one other at most
		apart = apart && halves && (!f.Adjacent || f.To == 1)
		neighbours = neighbours && f.To*2 == n && (f.Adjacent || f.To == 1)
		n = f.To
	}
	switch {
	case apart:
		return "added by a count-down tree (those " + list(distances) + " apart)"
	case neighbours:
		return "added by a tree of neighbours"
	}
	for i, f := range folds {
		if f.Adjacent {
			distances[i] += " by neighbours"
		}
	}
	return "folded to " + list(distances) + " (value t of n takes t+n, t+2n, …)"
}

// list joins words as a sentence does.
func list(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// rounded says what becomes of partial sums before they are added.
func (m *Merge) rounded(sums string) string {
	if m.Partial == m.Sum {
		return sums
	}
	return fmt.Sprintf("%s rounded to %v,", sums, m.Partial)
}

func (m *Merge) adding() string {
	if m.FromZero {
		return fmt.Sprintf("in %v from +0", m.Sum)
	}
	return fmt.Sprintf("in %v", m.Sum)
}
