package verify

import (
	"fmt"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/trace"
)

// What looking for exchanged operands may cost: lines to either side, operands read, and their bytes.
const (
	siblingReach = 512
	maxSiblings  = 16
	siblingBytes = 128 << 20
)

// sibling is an operand of another line that could stand in the place of one of this line's.
type sibling struct {
	text string
	a, b *gemm.Matrix // the one that is exchanged; nil: as recorded
}

// siblings are operands of neighbouring lines in the format and the shape of this line's, the nearest lines first: with
// swapped weights the output is that of another layer's.
func (s *Set) siblings(index int, l *trace.Line) []sibling {
	var list []sibling
	seen := []string{l.Case.A.File, l.Case.B.File}
	bytes := 0
	try := func(i int) {
		if i < 0 || i >= s.trace.Len() || len(list) >= maxSiblings || s.trace.Broken(i) != nil {
			return
		}
		other, err := s.trace.Line(i)
		if err != nil {
			return
		}
		for _, x := range []struct {
			name        string
			own, theirs *cases.Tensor
		}{{"b", &l.Case.B, &other.Case.B}, {"a", &l.Case.A, &other.Case.A}} {
			size := x.own.Format.Bytes()
			for _, n := range x.own.Shape {
				size *= n
			}
			if x.own.Format != x.theirs.Format || !slices.Equal(x.own.Shape, x.theirs.Shape) || slices.Contains(seen, x.theirs.File) ||
				len(list) >= maxSiblings || bytes+size > siblingBytes {
				continue
			}
			seen = append(seen, x.theirs.File)
			m, err := other.Case.Factor(x.name)
			if err != nil { // changed, or not revealed
				continue
			}
			bytes += size
			whose := other.Case.ID
			if other.Module != "" {
				whose += ", " + other.Module
			}
			found := sibling{text: fmt.Sprintf("B is the one of another product (%s): operands were exchanged", whose), b: m}
			if x.name == "a" {
				found = sibling{text: fmt.Sprintf("A is the one of another product (%s): operands were exchanged", whose), a: m}
			}
			list = append(list, found)
		}
	}
	for away := 1; away <= siblingReach; away++ {
		try(index - away)
		try(index + away)
	}
	return list
}

// siblingFaults multiply with operands of other lines.
func (r *replay) siblingFaults(add adder) {
	if r.options.siblings == nil {
		return
	}
	for _, other := range r.options.siblings() {
		add(DifferentOperands, other.text, func(a *gemm.Args) {
			if other.a != nil {
				a.A = other.a
			} else {
				a.B = other.b
			}
		}, nil)
	}
}
