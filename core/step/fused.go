package step

import (
	"math/big"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// fused is the tensor core's step: d = c + the sum of a_i * b_i, all terms at once. terms holds the group's exact products
// and the accumulator; their order does not matter. The numbers in comments are those of docs/arithmetic.md.
func (p Params) fused(terms []term) uint64 {
	if result, found := p.special(terms); found { // 5. NaN and Inf
		return result
	}
	e, found := p.alignment(terms)
	if !found { // zeros alone
		return p.round(total(terms))
	}
	// 3. Every term is cut to a multiple of 2^(E-F); the sum of these is exact.
	quantum := e - p.Fraction
	sum := new(big.Int)
	for _, t := range terms {
		sum.Add(sum, t.Multiple(quantum, p.Align))
	}
	return p.round(signed(sum, quantum), false) // 4. rounded once
}

// alignment is E: the largest exponent of the terms that are not zero, but not below the floor (2). found is false where
// nothing takes part in it.
func (p Params) alignment(terms []term) (e int, found bool) {
	for _, t := range terms {
		exponent := t.exponent
		switch {
		case t.class == format.Zero && !p.ZerosAlign:
			continue
		case t.class == format.Finite && p.NormalisedTerms:
			exponent = t.Exp + t.Mag.BitLen() - 1
		}
		if !found || exponent > e {
			e, found = exponent, true
		}
	}
	if found && p.Floor != nil {
		e = max(e, *p.Floor)
	}
	return e, found
}
