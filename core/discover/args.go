package discover

import (
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// argsOf is a call of the box as a multiplication under a profile.
func argsOf(s *Signature, c *Call, p *profile.Profile) *gemm.Args {
	a := &gemm.Args{
		Profile: p, A: gemm.Dense(c.A, s.A, s.Batch, s.M, s.K), B: gemm.Dense(c.B, s.B, s.Batch, s.K, s.N),
		D: gemm.Dense(c.D, s.D, s.Batch, s.M, s.N), Alpha: s.Alpha, Beta: 1, ScaleA: c.ScaleA, ScaleB: c.ScaleB,
	}
	switch s.Addend {
	case AddendBias:
		a.C, a.Beta = gemm.Dense(c.C, s.C, s.Batch, s.M, s.N), s.Beta
		a.C.BatchStride, a.C.RowStride = 0, 0
	case AddendFull:
		a.C, a.Beta = gemm.Dense(c.C, s.C, s.Batch, s.M, s.N), s.Beta
	case AddendStart:
		a.Start = gemm.Dense(c.C, s.C, s.Batch, s.M, s.N)
	}
	return a
}
