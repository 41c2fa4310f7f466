package gemm

import "context"

// Position is one output element.
type Position struct{ Batch, Row, Column int }

// Elements computes single output elements anywhere in the output, as bit patterns of the format of a.D, whose memory is
// not touched. It serves to test a profile on recorded samples before the whole output is computed; to test several on the
// same samples, make a Probe.
func Elements(ctx context.Context, a *Args, at []Position) ([]uint64, error) {
	if a.Profile == nil {
		return nil, a.checkProfile()
	}
	p, err := newProbe(a, at)
	if err != nil {
		return nil, err
	}
	return p.elements(ctx, a.Profile, true)
}
