package verify

import (
	"encoding/json"

	"github.com/hawkeye-audit/hawkeye/core/trace"
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
	// Compared is what was compared: "sha256 of the whole output", "the whole output", "stored elements", of a
	// part "40 of 1048576 elements, in 16 rows", or "rows" of single instructions.
	Compared string `json:"compared,omitempty"`
	Elements int    `json:"elements"` // output elements compared
	// EvidenceBits is the base-2 logarithm of the odds against chance: for a profile the kernel names determine, the bits
	// of the compared elements; for a searched one, how unlikely it is that a wrong plan of those tried agrees (see
	// evidence.go).
	EvidenceBits float64 `json:"evidence_bits"`
	PlansTried   int     `json:"plans_tried"`
	// Others are further plans that agree on everything compared, described.
	Others       []string `json:"others,omitempty"`
	MultiplyAdds uint64   `json:"multiply_adds"` // of the case itself, not of the search
	Seconds      float64  `json:"seconds"`       // of the last whole replay
	// ReplaySeconds is what the verdict would have taken with its profile given: operands, one whole replay, comparison.
	// SearchSeconds is everything beyond that.
	ReplaySeconds float64 `json:"replay_seconds,omitempty"`
	SearchSeconds float64 `json:"search_seconds,omitempty"`
	// Comparison counts the differences between the stored elements and the replay, where there are any.
	Comparison *Comparison `json:"comparison,omitempty"`
	// Difference says what a difference looks like, and which known fault gives it.
	Difference *Difference `json:"difference,omitempty"`
	// Notes are remarks on a verdict that stands: what this output could not have shown, for example.
	Notes []string `json:"notes,omitempty"`
	// Elsewhere: the record is of another device than those the rules were measured on, and of which. The outcome is never
	// Wrong then.
	Elsewhere string `json:"elsewhere,omitempty"`
	// Discovered names the profile that gives these bits where it is none of the rules' but one of Options.Suspects.
	Discovered string `json:"discovered,omitempty"`
	// Reused: the profile was found for an earlier line of the trace with the same signature, and confirmed on this one.
	Reused bool `json:"reused,omitempty"`
	// Broken says where the trace is not as it was written, which leaves nothing to verify: the outcome is Undecided.
	Broken *trace.Problem `json:"broken,omitempty"`
	// Stopped: the progress callback or the context ended the work; the verdict says how far it came.
	Stopped bool            `json:"stopped,omitempty"`
	Profile json.RawMessage `json:"profile,omitempty"` // canonical JSON
}
