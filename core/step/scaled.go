package step

import (
	"fmt"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// DotScaled is Dot for a step with block scales: every ScaleBlock consecutive k of a share one scale of scaleA, the first
// the first, and those of b one of scaleB, bit patterns of p.Scale.
func (p Params) DotScaled(a, b, scaleA, scaleB []uint64, c uint64) uint64 {
	if p.Kind != Scaled {
		panic("step: a step of kind " + string(p.Kind) + " takes no scales")
	}
	if blocks := (len(a) + p.ScaleBlock - 1) / p.ScaleBlock; len(a) != len(b) || len(scaleA) != blocks || len(scaleB) != blocks {
		panic(fmt.Sprintf("step: operands of %d and %d elements, %d and %d scales of %d elements",
			len(a), len(b), len(scaleA), len(scaleB), p.ScaleBlock))
	}
	for start := 0; start < len(a); start += p.Group {
		end := min(start+p.Group, len(a))
		terms := []term{p.term(p.Result, c)}
		width := max(p.ExactGroup, 1)
		for k := start; k < end; k += width {
			scale := p.term(p.Scale, scaleA[k/p.ScaleBlock]).times(p.term(p.Scale, scaleB[k/p.ScaleBlock]))
			for _, t := range p.exactGroup(a, b, k, min(k+width, end)) {
				terms = append(terms, t.times(scale))
			}
		}
		c = p.fused(terms)
	}
	return c
}

// exactGroup is the products of some k, as one term where the step sums them exactly before it scales them. Its exponent
// is then 0, so that scaling leaves it the scales' own.
func (p Params) exactGroup(a, b []uint64, from, to int) []term {
	products := p.products(a[from:to], b[from:to])
	if p.ExactGroup == 0 {
		return products
	}
	sum := term{class: format.Zero}
	for _, t := range products {
		switch t.class {
		case format.NaN, format.Inf: // kept apart for the rules of special values
			return products
		case format.Finite: // products that cancel still count with the exponent of their scales
			sum.class = format.Finite
		}
	}
	sum.Exact, _ = total(products)
	return []term{sum}
}
