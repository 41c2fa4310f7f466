package discover

import (
	"context"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// boxOf is a profile as a black box.
func boxOf(p *profile.Profile, s Signature) Box {
	return func(ctx context.Context, c *Call) error {
		a := argsOf(&s, c, p)
		if c.Wanted == nil {
			return gemm.Run(ctx, a)
		}
		values, err := gemm.Elements(ctx, a, c.Wanted)
		if err != nil {
			return err
		}
		size := s.D.Info().Bytes
		for i, at := range c.Wanted {
			cases.Put(c.D[((at.Batch*s.M+at.Row)*s.N+at.Column)*size:], size, values[i])
		}
		return nil
	}
}
