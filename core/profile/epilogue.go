package profile

import (
	"fmt"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// Form is the order of operations between the merged sum and the output element. acc is the merged sum in the
// accumulator's format (f32, or f64 for f64), c the addend (a bias or a matrix), rne() a rounding to the output format;
// sums and products without rne() are rounded to nearest even in the accumulator's format. Source of the rules: measured
// on an H200, docs/arithmetic.md.
type Form string

// The forms. Without an addend every form but those in f16 and those with alpha in an operand gives rne(acc), or
// rne(alpha·acc) where alpha is not 1.
const (
	FormAdd          Form = "add"            // rne(acc + c); alpha = beta = 1
	FormRoundThenAdd Form = "round-then-add" // rne(rne(alpha·acc) + c); beta = 1
	FormFMAAlpha     Form = "fma-alpha"      // rne(fma(alpha, acc, beta·c))
	FormFMABeta      Form = "fma-beta"       // rne(fma(beta, c, alpha·acc))
	FormHalf         Form = "half"           // h(beta·c + h(alpha·acc)) in f16, alpha and beta rounded to f16
	FormHalfAlpha    Form = "half-alpha"     // h(alpha·acc + h(beta·c)), likewise (one kernel measured, h1688)
	// FormAlphaInA multiplies every element of A by alpha, rounded to nearest even in f32, before the products. What
	// follows knows of no alpha: rne(fma(beta, c, acc)), rne(acc) without an addend (gemmSN_TN; one case measured).
	FormAlphaInA Form = "alpha-in-a"
	// FormAlphaInB is the same with B (gemv2T, where the vector is the second operand).
	FormAlphaInB Form = "alpha-in-b"
	// FormProductB is for K = 1 alone: rne(fma(rne(alpha·b), a, rne(beta·c))), without an addend rne(rne(alpha·b)·a), so
	// that the sign of a product of zeros stays (gemmk1). FormProductA has alpha in a.
	FormProductA Form = "product-a"
	FormProductB Form = "product-b"
)

// Product tells whether the output is one fused multiply-add, without an accumulator.
func (f Form) Product() bool { return f == FormProductA || f == FormProductB }

// ZeroAlpha says what an alpha of 0 does where there is an addend and beta is not 0.
type ZeroAlpha string

// The cases (docs/arithmetic.md): the kernel multiplies its sum by 0, so that NaN and Inf in A and B show; it takes the sum
// as +0 and reads neither; no kernel runs, and the output is the addend bit for bit (beta 1).
const (
	ZeroAlphaUnknown ZeroAlpha = ""
	ZeroAlphaRead    ZeroAlpha = "read"
	ZeroAlphaSkip    ZeroAlpha = "skip"
	ZeroAlphaCopy    ZeroAlpha = "copy"
)

// InOperand tells whether alpha is multiplied into an operand before the products; what follows knows of no alpha.
func (f Form) InOperand() bool { return f == FormAlphaInA || f == FormAlphaInB }

// Scaling says how the scales of f8 operands enter.
type Scaling string

// The scalings.
const (
	ScalingNone   Scaling = ""
	ScalingTensor Scaling = "tensor" // acc·(s_a·s_b), one scale an operand
	ScalingRow    Scaling = "row"    // (acc·s_b)·s_a, a scale a row of A and a column of B
)

// Epilogue is everything between the merged sum and the stored output element.
type Epilogue struct {
	Out     format.Format `json:"out"`
	Form    Form          `json:"form"`
	Scaling Scaling       `json:"scaling,omitempty"`
	// ZeroAlpha is how alpha = 0 is treated; empty: not known.
	ZeroAlpha ZeroAlpha `json:"zero_alpha,omitempty"`
	// PlusZero: without an addend the output is rne(fma(alpha, acc, +0)), so that alpha·acc is never -0 unless it underflows.
	PlusZero bool `json:"plus_zero,omitempty"`
}

func (e *Epilogue) validate(path string, s *step.Params) error {
	accumulator := s.Result
	switch e.Form {
	case FormAdd, FormRoundThenAdd, FormFMAAlpha, FormFMABeta:
	case FormHalf, FormHalfAlpha:
		if accumulator != format.F16 {
			return fmt.Errorf("%s.form: %s goes with an f16 accumulator, the step's is %v", path, e.Form, accumulator)
		}
	case FormAlphaInA, FormAlphaInB:
		if s.Kind != step.FMA || accumulator != format.F32 {
			return fmt.Errorf("%s.form: %s goes with a chain of fused multiply-adds in f32 (step kind fma, result f32)", path, e.Form)
		}
	case FormProductA, FormProductB:
		if s.Kind != step.FMA || accumulator != format.F32 && accumulator != format.F64 {
			return fmt.Errorf("%s.form: %s goes with fused multiply-adds in f32 or f64 (step kind fma, result f32 or f64)", path, e.Form)
		}
	default:
		return fmt.Errorf("%s.form: must be add, round-then-add, fma-alpha, fma-beta, half, half-alpha, alpha-in-a, alpha-in-b, product-a or product-b, is %q", path, e.Form)
	}
	switch e.ZeroAlpha {
	case ZeroAlphaUnknown, ZeroAlphaRead, ZeroAlphaSkip, ZeroAlphaCopy:
	default:
		return fmt.Errorf("%s.zero_alpha: must be read, skip or copy (or absent), is %q", path, e.ZeroAlpha)
	}
	switch e.Scaling {
	case ScalingNone, ScalingTensor, ScalingRow:
	default:
		return fmt.Errorf("%s.scaling: must be tensor or row (or absent), is %q", path, e.Scaling)
	}
	return CheckOut(path+".out", accumulator, e.Out)
}

// outputs are the formats an accumulator's format is known to be rounded to.
var outputs = map[format.Format][]format.Format{
	format.F32: {format.F16, format.BF16, format.F32},
	format.F16: {format.F16, format.F32},
	format.F64: {format.F64},
	format.S32: {format.S32},
}

// CheckOut tells whether an accumulator's format can be rounded to out.
func CheckOut(path string, accumulator, out format.Format) error {
	if !slices.Contains(outputs[accumulator], out) {
		return fmt.Errorf("%s: no known rounding of an accumulator in %v to %v", path, accumulator, out)
	}
	return nil
}

// Describe says the epilogue in a sentence.
func (e *Epilogue) Describe() string {
	text := map[Form]string{
		FormAdd:          "an addend, if any, is added to the sum before the one rounding to %v",
		FormRoundThenAdd: "the sum is rounded to %[1]v, an addend, if any, is added and the result rounded to %[1]v again",
		FormFMAAlpha:     "the output is fma(alpha, sum, beta·c) rounded to %v",
		FormFMABeta:      "the output is fma(beta, c, alpha·sum) rounded to %v",
		FormHalf:         "alpha, beta and every result are rounded to %v",
		FormHalfAlpha:    "alpha, beta, beta·c and the result are rounded to %v",
		FormAlphaInA:     "the output is fma(beta, c, sum) rounded to %v; alpha has been multiplied into A before the products",
		FormAlphaInB:     "the output is fma(beta, c, sum) rounded to %v; alpha has been multiplied into B before the products",
		FormProductA:     "the output is fma(alpha·a, b, beta·c) rounded to %v, without an accumulator",
		FormProductB:     "the output is fma(alpha·b, a, beta·c) rounded to %v, without an accumulator",
	}[e.Form]
	text = fmt.Sprintf(text, e.Out)
	switch e.Scaling {
	case ScalingTensor:
		text = "the sum is multiplied by the product of the two scales; " + text
	case ScalingRow:
		text = "the sum is multiplied by the column's scale, then by the row's; " + text
	}
	switch e.ZeroAlpha {
	case ZeroAlphaRead:
		text += "; an alpha of 0 multiplies the sum, NaN and Inf too"
	case ZeroAlphaSkip:
		text += "; with an alpha of 0 the operands are not read"
	case ZeroAlphaCopy:
		text += "; with an alpha of 0 the output is the addend as it is"
	}
	if e.PlusZero {
		text += "; without an addend +0 is added to alpha·sum"
	}
	return text
}
