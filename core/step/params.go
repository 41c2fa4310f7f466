package step

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// Kind names how a step combines its products.
type Kind string

// The kinds of step.
const (
	Fused     Kind = "fused"     // align to the largest exponent, truncate, sum exactly, round once
	FMA       Kind = "fma"       // one fused multiply-add a k, rounded once
	Exact     Kind = "exact"     // the group's products and the accumulator summed exactly, rounded once
	Integer   Kind = "integer"   // exact integer products and sums, wrapping in s32
	Converted Kind = "converted" // the emulated f8 mma.sync of Hopper: through f16 steps from zero, C added last
	CDNA2     Kind = "cdna2"     // ((p0+p1)+(p2+p3)) then + C, each rounded
	CDNA3     Kind = "cdna3"     // product sum and C aligned apart
	Scaled    Kind = "scaled"    // MX: fused with block scales
)

// Order names which elements of an instruction make up its groups.
type Order string

// The orders.
const (
	// Consecutive (the default): the first Group elements, then the next.
	Consecutive Order = ""
	// Pairs: within every InstructionK elements first those with k mod 4 < 2, then the others, cut into groups in that
	// order.
	Pairs Order = "pairs"
)

// ZeroSign names the sign of a result of zero.
type ZeroSign string

// The signs of zero.
const (
	// PositiveZero (the default): +0 always, also for a negative sum that rounds to zero and for -0 alone.
	PositiveZero ZeroSign = ""
	// SumZero: a nonzero sum that rounds to zero keeps its sign; a sum of exactly zero is +0.
	SumZero ZeroSign = "sum"
	// IEEEZero: as SumZero, and a sum of negative zeros alone is -0.
	IEEEZero ZeroSign = "ieee"
)

// Bits is a bit pattern, hexadecimal in JSON.
type Bits uint64

// MarshalText writes 0x and lower-case digits.
func (b Bits) MarshalText() ([]byte, error) {
	return []byte("0x" + strconv.FormatUint(uint64(b), 16)), nil
}

// UnmarshalText reads what MarshalText writes.
func (b *Bits) UnmarshalText(text []byte) error {
	digits, found := strings.CutPrefix(string(text), "0x")
	v, err := strconv.ParseUint(digits, 16, 64)
	if !found || err != nil {
		return fmt.Errorf("bit pattern %q: want 0x and hexadecimal digits, of at most 64 bits", text)
	}
	*b = Bits(v)
	return nil
}

// Params is one step's arithmetic. The zero value of an optional field means "does not apply", or the default its comment
// gives: what every NVIDIA tensor core measured so far does.
type Params struct {
	Kind Kind          `json:"kind"`
	A    format.Format `json:"a"`
	B    format.Format `json:"b"`
	// InputRounding says how a wider operand (f32 where A and B are tf32) becomes the step's format; empty: operands
	// must already be of the format. Dot takes operands that went through it (see Input).
	InputRounding format.Rounding `json:"input_rounding,omitempty"`
	// Group is G: how many consecutive k one step sums together.
	Group int `json:"group"`
	// Order is which k make up a group, InstructionK how many k one instruction takes where that matters (Order Pairs,
	// kind Converted).
	Order        Order `json:"order,omitempty"`
	InstructionK int   `json:"instruction_k,omitempty"`

	// Fraction is F: terms are aligned to multiples of 2^(E-F).
	Fraction int `json:"fraction_bits,omitempty"`
	// Align is how a term is cut to that multiple.
	Align format.Rounding `json:"align,omitempty"`
	// Floor is the least E an alignment uses; nil: none is known.
	Floor *int `json:"exponent_floor,omitempty"`
	// NormalisedTerms: E is taken from the terms' leading bits instead of the sums of the operands' own exponents, and
	// likewise for a subnormal accumulator.
	NormalisedTerms bool `json:"normalised_terms,omitempty"`
	// ZerosAlign: a product with a zero factor, and an accumulator of zero, take part in E with the exponents of their
	// exponent fields.
	ZerosAlign bool `json:"zeros_align,omitempty"`

	// Via (kind Converted) is the format operands are converted to first, and Partial that of the sum of the products,
	// rounded to by PartialRounding after every group.
	Via             format.Format   `json:"via,omitempty"`
	Partial         format.Format   `json:"partial,omitempty"`
	PartialRounding format.Rounding `json:"partial_rounding,omitempty"`

	// SumFraction, AccumulatorFraction and JoinAlign (kind CDNA3): the sum of the products, truncated at Fraction bits
	// below their own largest exponent, and the accumulator are then cut at these many bits below the larger of the two
	// exponents, by the rounding JoinAlign.
	SumFraction         int             `json:"sum_fraction_bits,omitempty"`
	AccumulatorFraction int             `json:"accumulator_fraction_bits,omitempty"`
	JoinAlign           format.Rounding `json:"join_align,omitempty"`
	// Interleaved (kind CDNA3): products of even and of odd k are summed apart, each below its own largest exponent, and
	// joined by JoinAlign at Fraction bits below the larger one.
	Interleaved bool `json:"interleaved,omitempty"`
	// DropBelow (kind CDNA3): an accumulator whose exponent is more than this below E counts as zero; 0: never.
	DropBelow int `json:"drop_below,omitempty"`

	// Scale is the format of the block scales of kind Scaled, ScaleBlock how many k share one.
	Scale      format.Format `json:"scale,omitempty"`
	ScaleBlock int           `json:"scale_block,omitempty"`
	// ExactGroup (kind Scaled): so many consecutive products are summed exactly into one term before scaling, and the
	// term's exponent is that of its scales alone. 0: every product is a term, of the exponents of operands and scales.
	ExactGroup int `json:"exact_group,omitempty"`

	// Result is the accumulator's format, rounded to by ResultRounding keeping ResultFraction fraction bits
	// (23 in f32, 10 in f16; 13 where f8 results are cut); 0 keeps all.
	Result         format.Format   `json:"result"`
	ResultRounding format.Rounding `json:"result_rounding,omitempty"`
	ResultFraction int             `json:"result_fraction_bits,omitempty"`
	// Overflow is what a magnitude beyond the largest finite result becomes; empty: Inf, toward zero too.
	Overflow format.Overflow `json:"overflow,omitempty"`
	ZeroSign ZeroSign        `json:"zero_sign,omitempty"`
	// FlushInputs makes subnormal operands and accumulators zero, FlushOutputs subnormal results, those of every single
	// sum where the step rounds more than once.
	FlushInputs  bool `json:"flush_inputs,omitempty"`
	FlushOutputs bool `json:"flush_outputs,omitempty"`
	// NaN is the pattern of a NaN result; 0: Result's canonical one.
	NaN Bits `json:"nan,omitempty"`
	// KeepNaN: a NaN operand's own pattern, made quiet, is the result. NaNFirst says whose comes before the accumulator's;
	// the other operand's comes after it. Empty: the accumulator's, then A's, then B's.
	KeepNaN  bool    `json:"keep_nan,omitempty"`
	NaNFirst Operand `json:"nan_first,omitempty"`
}

// Operand names one of a step's two operands.
type Operand string

// The operands.
const (
	OperandA Operand = "a"
	OperandB Operand = "b"
)

// Span is how many k one Step takes: the instruction's where it matters, else the group.
func (p Params) Span() int { return max(p.Group, p.InstructionK) }

// TakesF32 says whether f32 operands are taken, rounded by Input.
func (p Params) TakesF32() bool {
	return p.A == format.TF32 && p.B == format.TF32 && p.InputRounding != ""
}

// Input rounds an f32 operand to what the step takes.
func (p Params) Input(f32 uint32) uint64 { return uint64(format.F32ToTF32(f32, p.InputRounding)) }
