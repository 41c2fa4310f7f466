package cuda

import (
	"fmt"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// architectures are the names of the step catalogue. A capability that is not here has no rows of its own: those of B200 are
// not taken for the RTX Blackwells' (12.x).
var architectures = map[Capability]string{
	{7, 5}: "turing", {8, 0}: "ampere", {8, 6}: "ampere", {8, 7}: "ampere", {8, 9}: "ada", {9, 0}: "hopper",
	{10, 0}: "blackwell", {10, 3}: "blackwell",
}

// row is the name of the catalogue's row for an instruction, "" where it has none.
func row(i *Instruction, c Capability) string {
	operands := i.A.String()
	if i.B != i.A {
		operands += "-" + i.B.String()
	}
	architecture := architectures[c]
	name := architecture + "/" + operands
	switch {
	case i.A == format.F64:
		name = "cuda-core/f64"
	case i.A.Info().Integer:
		name = "integer/" + operands
	case architecture == "":
		return ""
	case i.A.Bytes() == 1:
		if i.K != 32 && architecture != "hopper" {
			return "" // the rows speak of k32; a Hopper's k16 gives the bits of its k32 with zeros beyond (H200)
		}
		if i.Family == MMA && architecture != "ada" {
			name += "-mma" // without a unit of its own
		}
		name += half(i)
	default:
		name += half(i) + shorter(i, architecture)
	}
	if _, found := step.Find(name); !found {
		return ""
	}
	return name
}

// half is the part of a row's name that says that the accumulator is f16.
func half(i *Instruction) string {
	if i.Accumulator == format.F16 {
		return "-f16"
	}
	return ""
}

// shorter is the part of a row's name for an instruction that takes half of the k of a row without it. Before Hopper the
// longer instruction is two shorter ones, and one row serves both.
func shorter(i *Instruction, architecture string) string {
	full := 32 / i.A.Bytes()
	if i.K == full || architecture != "hopper" && architecture != "blackwell" {
		return ""
	}
	return fmt.Sprintf("-k%d", i.K)
}
