package step

import (
	"math/big"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// joined is CDNA3's step: the products are truncated below their own largest exponent and summed, and that sum and the
// accumulator are cut again, each at its own width below the larger of their exponents, added and rounded.
func (p Params) joined(products []term, accumulator term) uint64 {
	all := append(slices.Clone(products), accumulator)
	if result, found := p.special(all); found {
		return result
	}
	var sum term
	if p.Interleaved {
		var even, odd []term
		for k, t := range products {
			if k%2 == 0 {
				even = append(even, t)
			} else {
				odd = append(odd, t)
			}
		}
		sum = p.join(p.truncated(even), p.truncated(odd), p.Fraction, p.Fraction)
	} else {
		sum = p.truncated(products)
	}
	if e, found := p.alignment([]term{sum, accumulator}); found && p.DropBelow > 0 && accumulator.exponent < e-p.DropBelow {
		accumulator = term{}
	}
	joined := p.join(sum, accumulator, p.SumFraction, p.AccumulatorFraction)
	if joined.class == format.Zero {
		_, negativeZeros := total(all)
		return p.round(format.Exact{}, negativeZeros)
	}
	return p.round(joined.Exact, false)
}

// truncated sums terms cut below their largest exponent, which the sum keeps as its own.
func (p Params) truncated(terms []term) term {
	e, found := p.alignment(terms)
	if !found {
		return term{}
	}
	sum := new(big.Int)
	for _, t := range terms {
		sum.Add(sum, t.Multiple(e-p.Fraction, p.Align))
	}
	return aligned(sum, e-p.Fraction, e)
}

// join adds two terms, each cut at its own number of bits below the larger exponent.
func (p Params) join(x, y term, bitsX, bitsY int) term {
	e, found := p.alignment([]term{x, y})
	if !found {
		return term{}
	}
	// Both to the finer of the two multiples before adding.
	widest := max(bitsX, bitsY)
	n := x.Multiple(e-bitsX, p.JoinAlign)
	n.Lsh(n, uint(widest-bitsX))
	m := y.Multiple(e-bitsY, p.JoinAlign)
	n.Add(n, m.Lsh(m, uint(widest-bitsY)))
	return aligned(n, e-widest, e)
}

// aligned is the term n * 2^exp of an exponent; nonzero operands that sum to zero are a zero.
func aligned(n *big.Int, exp, exponent int) term {
	t := term{class: format.Finite, Exact: signed(n, exp), exponent: exponent}
	if n.Sign() == 0 {
		t.class = format.Zero
	}
	return t
}
