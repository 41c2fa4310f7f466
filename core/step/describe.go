package step

import (
	"fmt"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// Describe says in one paragraph what the step does.
func (p Params) Describe() string {
	var s strings.Builder
	say := func(form string, arguments ...any) { fmt.Fprintf(&s, form, arguments...) }
	operands := p.A.String()
	if p.A != p.B {
		operands = p.A.String() + " by " + p.B.String()
	}
	if p.InputRounding != "" {
		say("f32 operands are rounded %s to %s. ", words(p.InputRounding), p.A)
	}
	align := func() {
		say("cut %s to multiples of 2^(E-%d), E being the largest exponent among those that are not zero", words(p.Align), p.Fraction)
		if p.ZerosAlign {
			say(" (zeros count too)")
		}
		if p.NormalisedTerms {
			say(", of normalised terms")
		}
		if p.Floor != nil {
			say(" and at least %d", *p.Floor)
		}
	}
	result := p.Result.String()
	if p.ResultFraction != 0 {
		result += fmt.Sprintf(" of %d fraction bits", p.ResultFraction)
	}
	switch p.Kind {
	case Fused:
		say("Groups of %d products of %s%s: the exact products and the %s accumulator are ", p.Group, operands, p.membership(), p.Result)
		align()
		say(", summed exactly and rounded once, %s, to %s", words(p.ResultRounding), result)
	case FMA:
		say("One fused multiply-add for every k, in order: the exact product of %s and the accumulator are summed and rounded once, %s, to %s", operands, words(p.ResultRounding), result)
	case Exact:
		say("Groups of %d products of %s: products and accumulator are summed exactly and rounded once, %s, to %s", p.Group, operands, words(p.ResultRounding), result)
	case Integer:
		say("Products of %s are summed exactly in %s, wrapping beyond it", operands, p.Result)
		return s.String() + "."
	case Converted:
		say("Operands of %s become %s; groups of %d products%s, from a zero accumulator, are ", operands, p.Via, p.Group, p.membership())
		align()
		say(", summed exactly and rounded %s to %s; C is added last and the sum rounded %s to %s", words(p.PartialRounding), p.Partial, words(p.ResultRounding), result)
	case CDNA2:
		say("Groups of %d products of %s are added in pairs, ((p0+p1)+(p2+p3)), then to the accumulator; every product and sum is rounded %s to %s", p.Group, operands, words(p.ResultRounding), result)
	case CDNA3:
		say("Groups of %d exact products of %s", p.Group, operands)
		if p.Interleaved {
			say(", those of even and odd k apart,")
		}
		say(" are ")
		align()
		say(", and summed; ")
		if p.Interleaved {
			say("the two sums are cut %s at %d bits below the larger exponent and added; ", words(p.JoinAlign), p.Fraction)
		}
		say("that sum, cut %s at %d bits below the larger exponent of the two, and the accumulator, at %d bits", words(p.JoinAlign), p.SumFraction, p.AccumulatorFraction)
		if p.DropBelow != 0 {
			say(" (dropped where it lies more than %d below)", p.DropBelow)
		}
		say(", are added and rounded %s to %s", words(p.ResultRounding), result)
	case Scaled:
		say("Groups of %d products of %s with one %s scale for every %d k of each operand: ", p.Group, operands, p.Scale, p.ScaleBlock)
		if p.ExactGroup != 0 {
			say("every %d products are summed exactly and scaled; these terms", p.ExactGroup)
		} else {
			say("the exact scaled products")
		}
		say(" and the accumulator are ")
		align()
		say(", summed exactly and rounded once, %s, to %s", words(p.ResultRounding), result)
	default:
		return fmt.Sprintf("A step of unknown kind %q.", p.Kind)
	}
	switch p.Overflow {
	case format.Saturate:
		say("; overflow saturates")
	case format.IEEE:
		say("; overflow is IEEE 754's")
	default:
		say("; overflow gives Inf")
	}
	switch p.ZeroSign {
	case SumZero:
		say(", a sum that rounds to zero keeps its sign")
	case IEEEZero:
		say(", zeros have IEEE 754's signs")
	default:
		say(", zero is +0")
	}
	switch {
	case p.FlushInputs && p.FlushOutputs:
		say(", subnormal operands and results become zero")
	case p.FlushInputs:
		say(", subnormal operands become zero")
	case p.FlushOutputs:
		say(", subnormal results become zero")
	}
	if p.KeepNaN {
		say(", a NaN operand stays, made quiet (%s), and an invalid operation gives %#x",
			map[Operand]string{"": "the accumulator's before a's before b's", OperandA: "a's before the accumulator's before b's", OperandB: "b's before the accumulator's before a's"}[p.NaNFirst], p.nan())
	} else {
		say(", NaN is %#x", p.nan())
	}
	return s.String() + "."
}

func (p Params) membership() string {
	switch {
	case p.Order == Pairs:
		return fmt.Sprintf(" (of %d k first those with k mod 4 < 2, then the others)", p.InstructionK)
	case p.InstructionK != 0:
		return fmt.Sprintf(" (of %d k)", p.InstructionK)
	}
	return ""
}

func words(r format.Rounding) string {
	switch r {
	case format.NearestEven:
		return "to nearest even"
	case format.NearestAway:
		return "to nearest, ties away from zero"
	}
	return strings.ReplaceAll(string(r), "-", " ")
}
