package explain

import (
	"context"
	"fmt"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/verify"
)

// Subject is a recorded multiplication with what replaying it showed.
type Subject struct {
	Case    *cases.Case
	Verdict verify.Verdict
}

// Reasons says why the bits of two recorded multiplications differ.
type Reasons struct {
	A Side `json:"a"`
	B Side `json:"b"`
	// Differences are the parts of the arithmetic that are not the same, in the order in which they act.
	Differences []Difference `json:"differences"`
	// SameArithmetic: both profiles are known, and give equal bits for equal operands at these sizes.
	SameArithmetic bool `json:"same_arithmetic"`
	// Element shows one output element of both; absent where there is none to show, which Unshown says.
	Element *Element `json:"element,omitempty"`
	Unshown string   `json:"unshown,omitempty"`
	// Text is all of it for a person.
	Text string `json:"text"`
}

// Side is one of the two multiplications.
type Side struct {
	ID        string `json:"id"`
	Op        string `json:"op"`
	Shape     string `json:"shape"` // batch × m × k by k × n
	DType     string `json:"dtype"`
	Out       string `json:"out"`
	Family    string `json:"family,omitempty"`
	Verdict   string `json:"verdict"`
	Plan      string `json:"plan,omitempty"`
	ProfileID string `json:"profile_id,omitempty"`
	Caveat    string `json:"caveat,omitempty"` // what its verdict leaves open

	profile *profile.Profile
}

// Difference is one part of the arithmetic, as it is in A and in B.
type Difference struct {
	Part string `json:"part"` // shape, kernel, operands, step, order, merge, epilogue, output
	A    string `json:"a"`
	B    string `json:"b"`
}

// Element is one output element of both multiplications.
type Element struct {
	// Shared says which operands of it are equal in both: "row 0 of A and column 3 of B". Empty: none are, and both
	// orders were run on the operands of Operands.
	Shared   string  `json:"shared,omitempty"`
	Operands string  `json:"operands,omitempty"`
	At       string  `json:"at"`   // where in A
	AtB      string  `json:"at_b"` // where in B
	SumA     Sum     `json:"sum_a"`
	SumB     Sum     `json:"sum_b"`
	OutA     string  `json:"out_a"` // the output elements, number and bits
	OutB     string  `json:"out_b"`
	Equal    bool    `json:"equal"` // the output elements have the same bits, as all that were compared
	Compared int     `json:"compared"`
	Parting  Parting `json:"parting"`
}

// Why compares the arithmetic of two recorded multiplications, and, where they share operands (the same row of A and
// column of B, as a row that was multiplied alone and in a batch), an element of both: which partial sum is the first to
// part. Where they share none, both orders are run on the first one's operands.
func Why(ctx context.Context, a, b Subject) (*Reasons, error) {
	r := &Reasons{Differences: []Difference{}}
	var err error
	if r.A, err = side(a); err != nil {
		return nil, err
	}
	if r.B, err = side(b); err != nil {
		return nil, err
	}
	r.compare(a.Case, b.Case)
	if r.A.profile != nil && r.B.profile != nil {
		if err := r.show(ctx, a.Case, b.Case); err != nil {
			return nil, err
		}
	} else {
		r.Unshown = "no arithmetic is known for " + unknownOf(r)
	}
	r.Text = r.text()
	return r, nil
}

func unknownOf(r *Reasons) string {
	switch {
	case r.A.profile == nil && r.B.profile == nil:
		return "either"
	case r.A.profile == nil:
		return r.A.ID
	}
	return r.B.ID
}

func side(s Subject) (Side, error) {
	v := &s.Verdict
	d := Side{ID: v.ID, Op: v.Op, Shape: shape(s.Case), DType: v.DType, Out: v.Out, Family: v.Family, Verdict: string(v.Outcome), Plan: v.Plan,
		ProfileID: v.ProfileID}
	switch v.Outcome {
	case verify.Undecided:
		d.Caveat = "undecided: " + v.Reason
	case verify.Wrong:
		d.Caveat = "its recorded output is not what this arithmetic gives: " + v.Reason
	}
	if len(v.Profile) > 0 {
		p, err := profile.Parse(v.Profile)
		if err != nil {
			return d, err
		}
		d.profile = p
	}
	return d, nil
}

// shape writes the sizes: "5×2048 by 2048×512", with the batch before it.
func shape(c *cases.Case) string {
	batch, m, n, k := c.Sizes()
	text := fmt.Sprintf("%d×%d by %d×%d", m, k, k, n)
	if batch != 1 {
		text = fmt.Sprintf("%d of %s", batch, text)
	}
	return text
}

// InSet replays two cases of a set and says why their bits differ. What it could not finish because the progress function
// of the options stopped it, it does not say.
func InSet(ctx context.Context, set *verify.Set, a, b int, o verify.Options) (*Reasons, error) {
	var subjects [2]Subject
	for i, index := range []int{a, b} {
		c, err := set.Case(index)
		if err != nil {
			return nil, err
		}
		v, err := set.Replay(ctx, index, o)
		if err != nil {
			return nil, err
		}
		subjects[i] = Subject{c, v}
	}
	return Why(ctx, subjects[0], subjects[1])
}
