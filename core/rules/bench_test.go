package rules

import (
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// BenchmarkChoose: a search is to cost little beside the replay of the case.
func BenchmarkChoose(b *testing.B) {
	for name, c := range map[string]call{
		"nvjet":           {a: format.BF16, size: [4]int{1, 64, 64, 64}, kernels: []string{"nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_NNT"}},
		"gemvx":           {a: format.F32, size: [4]int{1, 40, 1, 3070}, kernels: []string{gemvx("float", true, 7)}},
		"gemvx split-K":   {a: format.F32, size: [4]int{1, 40, 1, 3070}, kernels: []string{gemvx("float", true, 7), reduceKernel("float", "float")}},
		"cutlass split-K": {a: format.BF16, size: [4]int{1, 5, 736, 14216}, kernels: []string{cutlass("cutlass_75_tensorop_bf16_s1688gemm_bf16_64x64_tt_align1"), reduceKernel("float", "__nv_bfloat16")}},
	} {
		r := c.record()
		b.Run(name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				n = len(Choose(r, Options{}).Candidates)
			}
			b.ReportMetric(float64(n), "candidates")
		})
	}
}
