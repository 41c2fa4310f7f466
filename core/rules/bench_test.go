package rules

import (
	"github.com/hawkeye-audit/hawkeye/core/cases/casestest"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// BenchmarkChoose: a search is to cost little beside the replay of the case.
func BenchmarkChoose(b *testing.B) {
	for name, c := range map[string]call{
		"nvjet":           {A: format.BF16, Size: [4]int{1, 64, 64, 64}, Kernels: []string{"nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_NNT"}},
		"gemvx":           {A: format.F32, Size: [4]int{1, 40, 1, 3070}, Kernels: []string{gemvx("float", true, 7)}},
		"gemvx split-K":   {A: format.F32, Size: [4]int{1, 40, 1, 3070}, Kernels: []string{gemvx("float", true, 7), casestest.ReduceKernel("float", "float")}},
		"cutlass split-K": {A: format.BF16, Size: [4]int{1, 5, 736, 14216}, Kernels: []string{casestest.Cutlass("cutlass_75_tensorop_bf16_s1688gemm_bf16_64x64_tt_align1"), casestest.ReduceKernel("float", "__nv_bfloat16")}},
	} {
		r := c.Record()
		b.Run(name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				n = len(Choose(r, Options{}).Candidates)
			}
			b.ReportMetric(float64(n), "candidates")
		})
	}
}
