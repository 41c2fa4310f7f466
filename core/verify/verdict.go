package verify

import (
	"encoding/json"
	"math"
)

// Outcome is what a verdict comes to.
type Outcome string

// The outcomes.
const (
	Exact     Outcome = "exact"     // every compared bit agrees, and enough was compared
	Wrong     Outcome = "wrong"     // the arithmetic is known and the bits differ
	Undecided Outcome = "undecided" // something is missing: a plan, or enough output; the reason says what
)

// Verdict is what is known of one recorded case after replaying it, with how much it rests on.
type Verdict struct {
	ID        string  `json:"id"`
	Outcome   Outcome `json:"verdict"`
	Plan      string  `json:"plan,omitempty"`   // the order, in a sentence
	Reason    string  `json:"reason,omitempty"` // why, where the outcome is not plainly exact
	Op        string  `json:"op"`
	DType     string  `json:"dtype"` // formats of a and b
	Out       string  `json:"out"`
	Family    string  `json:"family"`
	ProfileID string  `json:"profile_id,omitempty"`
	// Compared is what was compared: "sha256 of the whole output", "stored elements" or "rows".
	Compared string `json:"compared,omitempty"`
	Elements int    `json:"elements"` // output elements compared
	// EvidenceBits is the base-2 logarithm of the odds against chance: for a profile the kernel names determine, the bits
	// of the compared elements; for a searched one, how unlikely it is that a wrong plan of those tried agrees (see
	// evidence).
	EvidenceBits float64 `json:"evidence_bits"`
	PlansTried   int     `json:"plans_tried"`
	// Others are further plans that agree on everything compared, described.
	Others       []string        `json:"others,omitempty"`
	MultiplyAdds uint64          `json:"multiply_adds"` // of the case itself, not of the search
	Seconds      float64         `json:"seconds"`       // of the last whole replay
	Comparison   *Comparison     `json:"comparison,omitempty"`
	Profile      json.RawMessage `json:"profile,omitempty"` // canonical JSON
}

// wantedBits is the evidence under which a searched plan stays undecided: chance agreement below 2^-30.
const wantedBits = 30

// evidence estimates the odds against chance, as a base-2 logarithm, for a plan found among several when others were
// rejected. Of the tested elements of rejected plans, disagreements told the plan from the output; their ratio is how
// often one element gives a wrong plan away. A wrong plan then agrees on all n elements with probability (1-ratio)^n,
// and any of the plans tried with at most that many times as much.
func evidence(disagreements, tested, tried, n int) float64 {
	if disagreements == 0 { // no element was seen to give a plan away: agreement on any number of them is none either
		return -math.Log2(float64(max(tried, 1)))
	}
	// One agreement more than was seen (Laplace): no finite test shows that agreement is impossible.
	agree := float64(tested-disagreements+1) / float64(tested+2)
	return -float64(n)*math.Log2(agree) - math.Log2(float64(max(tried, 1)))
}
