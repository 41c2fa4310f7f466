package discover

import (
	"time"

	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// Options are how much is asked, and what is told meanwhile.
type Options struct {
	// Elements is how many output elements must agree, with no exception, before a certificate is given; 0: 65,536.
	Elements int
	// Seed makes other inputs of the same kinds; the answers do not depend on it.
	Seed uint64
	// MaxCalls bounds the calls of the box, certificate included; 0: 20,000.
	MaxCalls int
	Threads  int // of the replays; 0: the default
	// Suspects are profiles that are tried beside those that the answers suggest.
	Suspects []*profile.Profile
	// Hardware and Library go into the provenance of the profile found; Now is its date, the zero value for today.
	Hardware, Library string
	Now               time.Time
	// Progress is called from the goroutine of Run, before every call of the box and about ten times a second while profiles
	// are tried; its error ends the discovery and is returned.
	Progress func(Progress) error
}

// Progress says how far a discovery is.
type Progress struct {
	Phase     string // what is being found out, in a few words
	Calls     int    // of the box, so far
	Questions int    // answered by them
	// Done and Total count the certificate's elements; 0 before it.
	Done, Total int
}

// Result is what a discovery found.
type Result struct {
	// Profile explains every answer; Certificate says what it was held against. Both are nil where no certificate could be
	// given.
	Profile     *profile.Profile `json:"profile,omitempty"`
	Certificate *Certificate     `json:"certificate,omitempty"`
	// Best is the profile that explains most where none explains all, and Broken the test that it fails.
	Best   *profile.Profile `json:"best,omitempty"`
	Broken string           `json:"broken,omitempty"`
	// Reason is why there is no certificate, "" where there is one.
	Reason string `json:"reason,omitempty"`
	// Findings are the questions asked and their answers, in order, for a person.
	Findings  []Finding `json:"findings"`
	Calls     int       `json:"calls"`
	Questions int       `json:"questions"`
	Tried     int       `json:"tried"` // profiles held against the answers
	Seconds   float64   `json:"seconds"`
}

// Finding is one thing found out: "fraction bits: 25".
type Finding struct {
	About  string `json:"about"`
	Answer string `json:"answer"`
}

// Certificate says what a profile was held against after it had been found: fresh inputs, none of which was looked at before,
// with no element differing.
type Certificate struct {
	Elements int            `json:"elements"` // compared, all equal
	Calls    int            `json:"calls"`
	Kinds    map[string]int `json:"kinds"` // of inputs, with the elements of each
	Date     string         `json:"date"`  // as 2026-11-30
	Seed     uint64         `json:"seed"`
	Box      string         `json:"box"` // the signature in words
}
