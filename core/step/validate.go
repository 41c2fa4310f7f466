package step

import (
	"fmt"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// FieldError says which JSON field of a step is wrong, and why.
type FieldError struct{ Field, Problem string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// Limits of what a step may ask for, wide enough for any hardware; they bound the oracle's time and memory.
const (
	maxGroup    = 4096
	maxFraction = 512
	maxExponent = 1 << 14
)

// Validate says whether the parameters describe a step: nil, or a *FieldError. Every step has one spelling, so a field
// that does not apply must be absent, and so must one that says what is the default anyway.
func (p Params) Validate() error {
	aligned := p.Kind == Fused || p.Kind == Converted || p.Kind == CDNA3 || p.Kind == Scaled
	v := validator{}
	switch p.Kind {
	case Fused, FMA, Exact, Integer, Converted, CDNA2, CDNA3, Scaled:
	default:
		v.fail("kind", "%q is none of fused, fma, exact, integer, converted, cdna2, cdna3, scaled", p.Kind)
	}
	operand := func(field string, f format.Format) {
		fits := f == format.S8 || f == format.U8
		if p.Kind != Integer {
			fits = !f.Info().Integer && f.Info().HasZero
		}
		v.check(f.Valid(), field, "a number format is missing")
		v.check(fits, field, "%s is no operand of a step of kind %s", f, p.Kind)
		v.check(f != format.UE4M3, field, "ue4m3 is a format of scales")
	}
	operand("a", p.A)
	operand("b", p.B)
	if p.Kind == Integer {
		v.check(p.Result == format.S32, "result", "%s, an integer step has s32", p.Result)
	} else {
		v.check(p.Result == format.F16 || p.Result == format.BF16 || p.Result == format.F32 || p.Result == format.F64,
			"result", "%s is none of f16, bf16, f32, f64", p.Result)
	}
	v.rounding("input_rounding", p.InputRounding, false, p.A == format.TF32 && p.B == format.TF32)
	v.within("group", p.Group, 1, maxGroup)
	v.check(p.Kind != FMA || p.Group == 1, "group", "%d, a step of kind fma takes one k", p.Group)
	v.check(p.Kind != CDNA2 || p.Group&(p.Group-1) == 0, "group", "%d is no power of two", p.Group)

	v.check(p.Order == Consecutive || p.Order == Pairs, "order", "%q is none of pairs", p.Order)
	v.applies("order", p.Order != Consecutive, p.Kind == Fused || p.Kind == Converted)
	v.applies("instruction_k", p.InstructionK != 0, p.Kind == Fused || p.Kind == Converted)
	if p.InstructionK != 0 || p.Order == Pairs {
		v.within("instruction_k", p.InstructionK, p.Group+1, maxGroup)
		v.check(p.Group < 1 || p.InstructionK%p.Group == 0, "instruction_k", "%d is no multiple of the group, %d", p.InstructionK, p.Group)
		v.check(p.Order != Pairs || p.InstructionK%4 == 0, "instruction_k", "%d is no multiple of 4, which order pairs needs", p.InstructionK)
	}

	v.applies("fraction_bits", p.Fraction != 0, aligned)
	v.applies("exponent_floor", p.Floor != nil, aligned)
	v.applies("normalised_terms", p.NormalisedTerms, aligned)
	v.applies("zeros_align", p.ZerosAlign, aligned)
	v.rounding("align", p.Align, aligned, aligned)
	if aligned {
		v.within("fraction_bits", p.Fraction, 1, maxFraction)
	}
	if p.Floor != nil {
		v.within("exponent_floor", *p.Floor, -maxExponent, maxExponent)
	}

	converted := p.Kind == Converted
	v.applies("via", p.Via != 0, converted)
	v.applies("partial", p.Partial != 0, converted)
	v.rounding("partial_rounding", p.PartialRounding, converted, converted)
	if converted {
		v.check(holds(p.Via, p.A) && holds(p.Via, p.B), "via", "%s does not hold every %s and %s", p.Via, p.A, p.B)
		v.check(p.Partial == format.F16 || p.Partial == format.F32, "partial", "%s is none of f16, f32", p.Partial)
	}

	cdna3 := p.Kind == CDNA3
	v.applies("sum_fraction_bits", p.SumFraction != 0, cdna3)
	v.applies("accumulator_fraction_bits", p.AccumulatorFraction != 0, cdna3)
	v.applies("interleaved", p.Interleaved, cdna3)
	v.applies("drop_below", p.DropBelow != 0, cdna3)
	v.rounding("join_align", p.JoinAlign, cdna3, cdna3)
	if cdna3 {
		v.within("sum_fraction_bits", p.SumFraction, 1, maxFraction)
		v.within("accumulator_fraction_bits", p.AccumulatorFraction, 1, maxFraction)
		v.within("drop_below", p.DropBelow, 0, maxExponent)
	}

	scaled := p.Kind == Scaled
	v.applies("scale", p.Scale != 0, scaled)
	v.applies("scale_block", p.ScaleBlock != 0, scaled)
	v.applies("exact_group", p.ExactGroup != 0, scaled)
	if scaled {
		v.check(p.Scale == format.E8M0 || p.Scale == format.UE4M3, "scale", "%s is none of e8m0, ue4m3", p.Scale)
		v.within("scale_block", p.ScaleBlock, 1, maxGroup)
		v.check(p.ScaleBlock < 1 || p.Group%p.ScaleBlock == 0, "scale_block", "%d does not divide the group, %d", p.ScaleBlock, p.Group)
		v.within("exact_group", p.ExactGroup, 0, maxGroup)
		v.check(p.ExactGroup < 1 || p.ScaleBlock%p.ExactGroup == 0, "exact_group", "%d does not divide the scale block, %d", p.ExactGroup, p.ScaleBlock)
	}

	v.rounding("result_rounding", p.ResultRounding, p.Kind != Integer, p.Kind != Integer)
	v.within("result_fraction_bits", p.ResultFraction, 0, max(p.Result.Info().MantissaBits-1, 0))
	v.check(p.Overflow == "" || p.Overflow == format.Saturate || p.Overflow == format.IEEE, "overflow",
		"%q is none of saturate, ieee (infinity, the default, is left out)", p.Overflow)
	v.check(slices.Contains([]ZeroSign{PositiveZero, SumZero, IEEEZero}, p.ZeroSign), "zero_sign", "%q is none of sum, ieee", p.ZeroSign)
	v.applies("overflow", p.Overflow != "", p.Kind != Integer)
	v.applies("zero_sign", p.ZeroSign != "", p.Kind != Integer)
	v.applies("flush_inputs", p.FlushInputs, p.Kind != Integer)
	v.applies("flush_outputs", p.FlushOutputs, p.Kind != Integer)
	v.applies("nan", p.NaN != 0, p.Kind != Integer)
	if p.NaN != 0 {
		v.check(uint64(p.NaN)>>p.Result.Info().Bits == 0 && p.Result.Decode(uint64(p.NaN)).Class == format.NaN, "nan", "%#x is no NaN of %s", uint64(p.NaN), p.Result)
		v.check(uint64(p.NaN) != p.Result.NaN(), "nan", "%#x is the default and is left out", uint64(p.NaN))
	}
	v.applies("keep_nan", p.KeepNaN, p.Kind == FMA)
	v.check(p.NaNFirst == "" || p.KeepNaN && (p.NaNFirst == OperandA || p.NaNFirst == OperandB), "nan_first", "must be a or b, and goes with keep_nan, is %q", p.NaNFirst)
	v.check(!p.KeepNaN || p.A == p.Result && p.B == p.Result, "keep_nan", "a NaN of %s or %s is none of %s", p.A, p.B, p.Result)
	return v.err
}

// holds says whether every number of narrow is one of wide.
func holds(wide, narrow format.Format) bool {
	w, n := wide.Info(), narrow.Info()
	return w.MantissaBits >= n.MantissaBits && w.MaxExponent >= n.MaxExponent &&
		w.MinExponent-w.MantissaBits <= n.MinExponent-n.MantissaBits && wide.Valid() && !w.Integer
}

// validator keeps the first problem.
type validator struct{ err error }

func (v *validator) fail(field, problem string, arguments ...any) {
	if v.err == nil {
		v.err = &FieldError{field, fmt.Sprintf(problem, arguments...)}
	}
}

func (v *validator) check(ok bool, field, problem string, arguments ...any) {
	if !ok {
		v.fail(field, problem, arguments...)
	}
}

func (v *validator) within(field string, value, least, most int) {
	v.check(least <= value && value <= most, field, "%d is not in %d..%d", value, least, most)
}

func (v *validator) applies(field string, given, does bool) {
	v.check(does || !given, field, "does not apply to this kind of step")
}

func (v *validator) rounding(field string, r format.Rounding, required, allowed bool) {
	switch {
	case r == "" && required:
		v.fail(field, "a rounding is missing; there are %v", format.Roundings())
	case r == "":
	case !allowed:
		v.fail(field, "does not apply to this step")
	case !r.Valid():
		v.fail(field, "%q is none of %v", r, format.Roundings())
	}
}
