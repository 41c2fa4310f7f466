package discover

import (
	"context"
	"fmt"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// Addend says what a multiplication's third operand is.
type Addend string

// The addends.
const (
	AddendNone Addend = ""     // there is none
	AddendBias Addend = "bias" // n elements, one for each column
	AddendFull Addend = "full" // batch × m × n elements, added in the epilogue
	// AddendStart is the value that every accumulator starts from, batch × m × n elements in the accumulator's format: the C
	// of a single instruction.
	AddendStart Addend = "start"
)

// Signature is what stays the same from one call of a multiplication to the next.
type Signature struct {
	A, B           format.Format // of the operands as they are handed over
	C              format.Format // of the addend; 0 where there is none
	D              format.Format // of the output
	Batch, M, N, K int
	Addend         Addend
	Alpha, Beta    float64         // 1 and 1 where nothing is scaled
	Scaling        profile.Scaling // which scales a call hands over
}

// Validate says what is wrong with a signature.
func (s *Signature) Validate() error {
	for _, f := range []struct {
		name string
		f    format.Format
	}{{"a", s.A}, {"b", s.B}, {"d", s.D}} {
		if !f.f.Valid() || f.f.Info().Bytes == 0 {
			return fmt.Errorf("discover: %s: a number format is missing", f.name)
		}
	}
	for _, size := range []struct {
		name string
		n    int
	}{{"batch", s.Batch}, {"m", s.M}, {"n", s.N}, {"k", s.K}} {
		if size.n < 1 || size.n > 1<<30 {
			return fmt.Errorf("discover: %s: must be 1 to 2^30, is %d", size.name, size.n)
		}
	}
	switch s.Addend {
	case AddendNone, AddendBias, AddendFull, AddendStart:
	default:
		return fmt.Errorf("discover: addend: must be bias, full or start (or absent), is %q", s.Addend)
	}
	if (s.Addend != AddendNone) != s.C.Valid() {
		return fmt.Errorf("discover: c: a format goes with an addend and an addend with a format")
	}
	if s.Alpha == 0 || s.Addend != AddendNone && s.Beta == 0 {
		return fmt.Errorf("discover: alpha and beta: must not be 0: nothing of the operands would show")
	}
	switch s.Scaling {
	case profile.ScalingNone, profile.ScalingTensor, profile.ScalingRow:
	default:
		return fmt.Errorf("discover: scaling: must be tensor or row (or absent), is %q", s.Scaling)
	}
	return nil
}

// Call is one execution of a black box. Matrices are dense and row-major, elements little-endian bit patterns of the
// signature's formats; what a call hands over is not to be kept.
type Call struct {
	A []byte // batch × m × k
	B []byte // batch × k × n
	C []byte // nil, n elements (bias) or batch × m × n
	D []byte // batch × m × n, to be written
	// ScaleA and ScaleB are one element each (tensor), m and n of them (row), or nil.
	ScaleA, ScaleB []float32
	// Wanted are the elements of D that will be looked at, nil for all. A box that simulates may leave the others alone.
	Wanted []gemm.Position
}

// Box is a matrix multiplication: D = epilogue(A·B, C). Run calls it on its own goroutine, one call after another. An error
// ends the discovery.
type Box func(ctx context.Context, c *Call) error
