package verify

import (
	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/rules"
)

// candidate is a profile that may explain a case.
type candidate struct {
	profile *profile.Profile
	suspect bool // one of Options.Suspects: found by probing such a device, for such a multiplication
}

// choice is what is known before any bit is compared: the family, and the profiles to try in order.
type choice struct {
	family     string
	candidates []candidate
	searched   bool   // several candidates: one that agrees must agree on enough elements
	uncertain  bool   // such kernels are known to walk k in further ways
	unknown    string // why no candidate is given
	elsewhere  string // why the rules do not speak for what computed the case: that no candidate fits says nothing then
	suspected  bool   // the plan that agrees is a suspect
}

// determined tells whether output that the first candidate does not give is wrong.
func (c *choice) determined() bool { return !c.searched && !c.uncertain && c.elsewhere == "" }

// choose asks package rules for the profiles to try, unless the caller names one.
func choose(c *cases.Case, o Options) choice {
	r := rules.Choose(c, rules.Options{Blind: o.Blind})
	result := choice{family: r.Family, searched: len(r.Candidates) > 1, uncertain: r.Uncertain, unknown: r.Unknown}
	elsewhere := rules.Elsewhere(c.Device)
	if o.Profile != nil {
		given := choice{family: r.Family, candidates: []candidate{{profile: o.Profile, suspect: o.suspect}}}
		if o.trying { // a profile of the rules, not the caller's
			given.elsewhere = elsewhere
		}
		return given
	}
	result.elsewhere = elsewhere
	for _, x := range r.Candidates {
		result.candidates = append(result.candidates, candidate{profile: x.Profile})
	}
	if len(o.Suspects) > 0 {
		result.add(o.Suspects)
	}
	return result
}

// add puts suspects behind the plans of the rules. What a suspect comes to never determines anything: it is one more plan of a
// search, also where there is no rule and it is the only one.
func (c *choice) add(suspects []*profile.Profile) {
	places := map[string]int{}
	for i, x := range c.candidates {
		places[x.profile.ID()] = i
	}
	for _, p := range suspects {
		id := p.ID()
		if i, there := places[id]; there {
			c.candidates[i].suspect = true
			continue
		}
		places[id] = len(c.candidates)
		c.candidates = append(c.candidates, candidate{profile: p, suspect: true})
	}
	c.searched, c.uncertain, c.unknown = true, true, ""
}
