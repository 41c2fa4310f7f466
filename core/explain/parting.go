package explain

import (
	"fmt"

	"github.com/hawkeye-audit/hawkeye/core/plan"
)

// Sum is one partial sum, for a person and for a program.
type Sum struct {
	What    string `json:"what"`    // what this partial sum does: "begins an accumulator with k = 0…15"
	Over    string `json:"over"`    // everything it sums: "k = 0…1407"
	Number  string `json:"number"`  // in decimal digits that tell it from its neighbours
	Bits    string `json:"bits"`    // hexadecimal
	Format  string `json:"format"`  // of the bits
	Ordinal int    `json:"ordinal"` // which partial sum of its order it is, from 0 on
}

// Parting says where two orders of summing the same products part.
type Parting struct {
	// Alike counts the partial sums at the beginning that are over the same products and have the same value in both.
	Alike int `json:"alike"`
	// LastAlike is the last of them.
	LastAlike *Sum `json:"last_alike,omitempty"`
	// NextA and NextB are the first partial sums that sum other products, or have another value; one is absent where its
	// order ends.
	NextA *Sum `json:"next_a,omitempty"`
	NextB *Sum `json:"next_b,omitempty"`
	// DifferentA and DifferentB are the first partial sums over the same products that have different values.
	DifferentA *Sum `json:"different_a,omitempty"`
	DifferentB *Sum `json:"different_b,omitempty"`
}

// part compares two traces of one element.
func part(a, b []partial) Parting {
	var p Parting
	for p.Alike < len(a) && p.Alike < len(b) && a[p.Alike].key == b[p.Alike].key && a[p.Alike].same(&b[p.Alike]) {
		p.Alike++
	}
	if p.Alike > 0 {
		p.LastAlike = sumAt(a, p.Alike-1)
	}
	p.NextA, p.NextB = sumAt(a, p.Alike), sumAt(b, p.Alike)
	byKey := map[uint64][]int{}
	for i := range b {
		byKey[b[i].key] = append(byKey[b[i].key], i)
	}
	for i := range a {
		found := byKey[a[i].key]
		if len(found) == 0 || products0(&a[i]) {
			continue
		}
		agrees := false
		for _, j := range found {
			agrees = agrees || a[i].same(&b[j])
		}
		if !agrees {
			p.DifferentA, p.DifferentB = sumAt(a, i), sumAt(b, found[0])
			break
		}
	}
	return p
}

// products0 tells whether a partial sum has no products: those of empty lanes are all over the same nothing.
func products0(p *partial) bool { return p.key == 0 }

func sumAt(sums []partial, i int) *Sum {
	if i >= len(sums) {
		return nil
	}
	p := &sums[i]
	v := value{p.bits, p.as}
	return &Sum{What: p.what(), Over: p.over(), Number: v.decimal(), Bits: v.hexadecimal(), Format: p.as.String(), Ordinal: i}
}

// over lists the products summed.
func (p *partial) over() string {
	if p.node.Leaf() {
		return kList(runs(taken(p.node, 0, p.taken)), false)
	}
	return kList(runs(sorted(indices(&plan.Tree{Sum: p.node.Sum[:p.taken]}))), false)
}

// what says what this partial sum adds to the one before.
func (p *partial) what() string {
	if p.node.Leaf() {
		now := taken(p.node, p.before, p.taken)
		switch {
		case p.taken == 0:
			return "an accumulator without products holds +0"
		case len(now) == 0:
			return "adds zeros that fill a tile"
		case p.before == 0:
			return "begins an accumulator with " + kList(runs(now), false)
		}
		return "goes on in that accumulator with " + kList(runs(now), false)
	}
	part := p.node.Sum[p.taken-1]
	switch {
	case p.node.Serial && p.taken == 1:
		return "stores the sum of the first slice"
	case p.node.Serial:
		return fmt.Sprintf("adds the sum of slice %d to what is stored", p.taken-1)
	case p.taken == 1 && narrows(p.node.Merge.Sum, p.node.Merge.Partial):
		return fmt.Sprintf("rounds a partial sum to %v", p.node.Merge.Partial)
	case p.taken == 1 && !(p.node.Merge.FromZero && p.bits == 0):
		return fmt.Sprintf("rounds a partial sum to %v", p.as)
	case p.taken == 1:
		return "begins a sum of partial sums with +0"
	}
	return fmt.Sprintf("adds the partial sum of %s", kList(runs(sorted(indices(part))), false))
}

// taken lists the k of a chain from the one at position from on, below position to.
func taken(leaf *plan.Tree, from, to int) []int {
	var ks []int
	at := 0
	for _, r := range leaf.Chain {
		n := r.Len()
		for i := max(from-at, 0); i < n && at+i < to; i++ {
			ks = append(ks, r.Start+i*r.Stride())
		}
		at += n
	}
	return ks
}
