package explain

import (
	"fmt"
	"strings"
)

// text says all of the reasons for a person: what was multiplied, what differs, and an element that shows it. Lines are
// not broken; a terminal breaks them.
func (r *Reasons) text() string {
	var b strings.Builder
	say := func(form string, args ...any) { fmt.Fprintf(&b, form+"\n", args...) }
	say("A is %s", r.A.words())
	say("B is %s", r.B.words())
	switch {
	case r.A.ID == r.B.ID:
		say("\nThey are the same case.")
	case r.SameArithmetic:
		say("\nBoth follow the same arithmetic, in the same order: for equal operands they give equal bits. What differs is what was multiplied.")
	case len(r.Differences) == 0:
		say("\nNo difference is known.")
	default:
		say("\nWhat differs:")
	}
	for _, d := range r.Differences {
		if r.SameArithmetic {
			break
		}
		say("  %s", d.Part)
		say("    A: %s", d.A)
		say("    B: %s", d.B)
	}
	if r.Unshown != "" {
		say("\nNo element of both is shown: %s.", strings.TrimSuffix(r.Unshown, "."))
	}
	if r.Element != nil {
		b.WriteString("\n" + r.Element.words())
	}
	return strings.TrimRight(b.String(), "\n")
}

func (s *Side) words() string {
	of := s.DType
	if s.Out != s.DType {
		of += " to " + s.Out
	}
	text := fmt.Sprintf("%s: %s of %s, %s; %s", s.ID, s.Op, of, s.Shape, s.Verdict)
	if s.Caveat != "" {
		text = fmt.Sprintf("%s: %s of %s, %s; %s", s.ID, s.Op, of, s.Shape, strings.TrimSuffix(s.Caveat, "."))
	}
	return text + "."
}

func (e *Element) words() string {
	var said strings.Builder
	say := func(form string, args ...any) { fmt.Fprintf(&said, form+"\n", args...) }
	where := fmt.Sprintf("%s of A", e.At)
	if e.AtB == e.At {
		where = fmt.Sprintf("%s of both", e.At)
	} else {
		where += fmt.Sprintf(" and %s of B", e.AtB)
	}
	if e.Shared != "" {
		say("Both have %s. Take %s:", e.Shared, where)
	} else {
		say("They share no row and column, so both orders were run on the operands of %s (without addend). Take %s:", e.Operands, e.At)
	}
	p := &e.Parting
	switch {
	case p.NextA == nil && p.NextB == nil:
		say("  All %d partial sums are alike.", p.Alike)
	case p.Alike == 0:
		say("  They part at once.")
	case p.Alike == 1:
		say("  The first partial sum is the same in both: over %s it is %s.", p.LastAlike.Over, p.LastAlike.number())
	default:
		say("  The first %d partial sums are the same in both; the last of them, over %s, is %s.", p.Alike, p.LastAlike.Over, p.LastAlike.number())
	}
	for _, next := range []struct {
		name string
		sum  *Sum
	}{{"A", p.NextA}, {"B", p.NextB}} {
		switch {
		case p.NextA == nil && p.NextB == nil:
		case next.sum == nil:
			say("  Then %s is done.", next.name)
		default:
			say("  Then %s %s: %s.", next.name, next.sum.What, next.sum.number())
		}
	}
	if p.DifferentA != nil {
		say("  The first partial sums over the same products that differ are those of %s: %s in A, %s in B.", p.DifferentA.Over, p.DifferentA.number(), p.DifferentB.number())
	} else if p.NextA != nil || p.NextB != nil {
		say("  No partial sums over the same products differ.")
	}
	output := "the output element is"
	if e.OutA != e.SumA.number() || e.OutB != e.SumB.number() {
		output = "after the epilogue (addend, factors, last rounding) " + output
	}
	say("  The whole sum is %s in A and %s in B; %s %s in A and %s in B.", e.SumA.number(), e.SumB.number(), output, e.OutA, e.OutB)
	if e.Equal {
		say("  Of %s compared, no output element differs.", count(e.Compared, "element"))
	}
	return said.String()
}

func (s *Sum) number() string { return fmt.Sprintf("%s (%s)", s.Number, s.Bits) }
