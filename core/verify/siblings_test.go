package verify

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/trace/tracetest"
)

// exchangeable are products of one shape with weights of their own, f32 by chains.
func exchangeable(count int) []*cases.Case {
	var list []*cases.Case
	for i := range count {
		generator := func(recipe string) *cases.Generator {
			return &cases.Generator{Recipe: recipe, Kind: "normal", Seed: uint64(100 + i)}
		}
		list = append(list, &cases.Case{
			RecordVersion: cases.RecordVersion, Op: "mm", Device: map[string]string{"gpu": "NVIDIA H200"},
			A:       cases.Tensor{Format: format.F32, Shape: []int{1, 24, 40}, Strides: []int{960, 40, 1}, Generator: generator("operands-a")},
			B:       cases.Tensor{Format: format.F32, Shape: []int{1, 40, 20}, Strides: []int{800, 20, 1}, Generator: generator("operands-b")},
			Out:     cases.Output{Format: format.F32, Shape: []int{1, 24, 20}},
			Kernels: []string{"sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas"},
		})
	}
	return list
}

// computed is a product of a's A and b's B in the arithmetic that the kernel's name tells.
func computed(t *testing.T, a, b *cases.Case) []byte {
	t.Helper()
	choice := choose(a, Options{})
	if len(choice.candidates) == 0 {
		t.Fatal(choice.unknown)
	}
	x, err := a.Materialize()
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.Materialize()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 24*20*4)
	if err := gemm.Run(context.Background(), &gemm.Args{
		Profile: choice.candidates[0].profile, A: x.A, B: y.B, D: gemm.Dense(out, format.F32, 1, 24, 20), Alpha: 1,
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestExchangedWeights: a product with the weights, or the input, of another line is wrong, and the other line is named;
// also where only the hash of the output is there.
func TestExchangedWeights(t *testing.T) {
	for _, samples := range []bool{true, false} {
		list := exchangeable(5)
		w := tracetest.New(t, filepath.Join(t.TempDir(), "run.hawk"))
		for i, c := range list {
			a, b := c, c
			switch i {
			case 1:
				b = list[4]
			case 2:
				a = list[0]
			}
			out := computed(t, a, b)
			c.Out.Hash = fmt.Sprintf("%x", sha256.Sum256(out))
			more := tracetest.More{Module: fmt.Sprintf("Net.fc%d", i)}
			if samples {
				more.Samples = out
			}
			w.Add(0, c, more)
		}
		w.Seal()
		s := openSet(t, w.Dir)
		for i, want := range []string{"", "B is the one of another product (r0-000004, Net.fc4)", "A is the one of another product (r0-000000, Net.fc0)", "", ""} {
			v, err := s.Replay(context.Background(), i, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if want == "" {
				if v.Outcome != Exact {
					t.Errorf("samples %v, line %d: %s: %s", samples, i, v.Outcome, v.Reason)
				}
				continue
			}
			if v.Outcome != Wrong || v.Difference == nil || v.Difference.Kind != DifferentOperands || !strings.Contains(v.Reason, want) {
				t.Errorf("samples %v, line %d: %s: %s", samples, i, v.Outcome, v.Reason)
			}
		}
	}
}
