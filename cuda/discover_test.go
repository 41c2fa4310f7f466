package cuda

import (
	"context"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/discover"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// An instruction's signature holds enough to find its row again: the box is simulated by the row, where there is no GPU.
func TestDiscoveriesFindTheRow(t *testing.T) {
	for _, name := range []string{
		"mma.m16n8k8.f16.f16.f16.f16", "mma.m16n8k16.f32.bf16.bf16.f32", "mma.m16n8k4.f32.tf32.tf32.f32", "mma.m16n8k8.f32.tf32.tf32.f32",
		"mma.m8n8k4.f64.f64.f64.f64", "mma.m8n8k16.s32.s8.u8.s32", "wgmma.m64n8k16.f32.bf16.bf16",
		"mma.m16n8k32.f32.e4m3.e4m3.f32", "mma.m16n8k32.f16.e5m2.e5m2.f16", "mma.m16n8k16.f32.e4m3.e5m2.f32", "mma.m16n8k16.f16.e4m3.e4m3.f16",
	} {
		if testing.Short() && name != "mma.m16n8k8.f32.tf32.tf32.f32" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, err := Find(Capability{9, 0}, name)
			if err != nil {
				t.Fatal(err)
			}
			tiles := 4096 / (i.M * i.N)
			s := i.Signature(tiles)
			p := found(t, i, i.Catalogue, func(p *step.Params) {
				if i.A == format.TF32 {
					p.InputRounding = format.TowardZero // as the instruction does, whatever kernels do before it
				}
			})
			box := func(ctx context.Context, c *discover.Call) error {
				a := &gemm.Args{
					Profile: p, A: gemm.Dense(c.A, s.A, tiles, i.M, i.K), B: gemm.Dense(c.B, s.B, tiles, i.K, i.N),
					Start: gemm.Dense(c.C, s.C, tiles, i.M, i.N), D: gemm.Dense(c.D, s.D, tiles, i.M, i.N), Alpha: 1, Beta: 1,
				}
				if c.Wanted == nil {
					return gemm.Run(ctx, a)
				}
				values, err := gemm.Elements(ctx, a, c.Wanted)
				size := s.D.Info().Bytes
				for x, at := range c.Wanted {
					if err == nil {
						put(c.D[((at.Batch*i.M+at.Row)*i.N+at.Column)*size:], size, values[x])
					}
				}
				return err
			}
			result, err := discover.Run(context.Background(), s, box, discover.Options{Elements: 1 << 14})
			if err != nil {
				t.Fatal(err)
			}
			if result.Certificate == nil {
				t.Fatalf("nothing is certified: %s; %s", result.Reason, result.Broken)
			}
			if got := i.Compare(result.Profile); !got.Equal || i.A == format.TF32 && result.Profile.Step.InputRounding != format.TowardZero {
				t.Errorf("%+v", got)
			}
		})
	}
}

func put(to []byte, size int, v uint64) {
	for i := range size {
		to[i] = byte(v >> (8 * i))
	}
}
