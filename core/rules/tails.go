package rules

import (
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// Dropped is how many of the last of k products nvjet's split-K leaves out of operands in format a: a fault of the library. 0:
// none, or p is not such a kernel's profile.
//
// A slice gets ceil(floor(K/S)/64)·64 products. That is one unit of 64 too few where K mod 64·S is less than S, and nothing
// comes after the last slice [H200: 1,700 products of ones with S from their launch; 9 were short, exactly those]. With f8
// operands, whose unit is 128, nobody looked.
func Dropped(p *profile.Profile, a format.Format, k int) int {
	const unit = 64
	s := p.Plan.Split
	if s == nil || s.Grain != unit || s.Of.Chain == nil || s.Of.Chain.Residue != plan.ResidueNone || a.Bytes() != 2 {
		return 0
	}
	if rest := k % (unit * s.Slices); rest < s.Slices && rest < k {
		return rest
	}
	return 0
}
