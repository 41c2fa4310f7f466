package verify

import (
	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/rules"
)

// candidate is a profile that may explain a case.
type candidate struct {
	profile *profile.Profile
}

// choice is what is known before any bit is compared: the family, and the profiles to try in order.
type choice struct {
	family     string
	candidates []candidate
	searched   bool   // several candidates: one that agrees must agree on enough elements
	uncertain  bool   // such kernels are known to walk k in further ways
	unknown    string // why no candidate is given
	elsewhere  string // why the rules do not speak for what computed the case: that no candidate fits says nothing then
}

// determined tells whether output that the first candidate does not give is wrong.
func (c *choice) determined() bool { return !c.searched && !c.uncertain && c.elsewhere == "" }

// choose asks package rules for the profiles to try, unless the caller names one.
func choose(c *cases.Case, o Options) choice {
	r := rules.Choose(c, rules.Options{Blind: o.Blind})
	result := choice{family: r.Family, searched: len(r.Candidates) > 1, uncertain: r.Uncertain, unknown: r.Unknown}
	elsewhere := rules.Elsewhere(c.Device)
	if o.Profile != nil {
		given := choice{family: r.Family, candidates: []candidate{{profile: o.Profile}}}
		if o.trying { // a profile of the rules, not the caller's
			given.elsewhere = elsewhere
		}
		return given
	}
	result.elsewhere = elsewhere
	for _, x := range r.Candidates {
		result.candidates = append(result.candidates, candidate{profile: x.Profile})
	}
	return result
}
