package rules

import (
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
)

// As torch 2.11 names them on an H200, cut at the end.
const (
	groupedKernel = "_ZN7cutlass13device_kernelIN2at4cuda6detail25enable_3x_kernel_for_sm9xINS_4gemm6kernel13GemmUniversalINS5_17GroupProblemShapeIN4cute5tupleIJiiiEEEEENS5_10collective13CollectiveMmaINS5_39MainloopSm90ArrayTmaGmmaWarpSpecializedILi4ENSA_IJNS9_1CILi2EEENSG_ILi1EEESI_EEENS5_43KernelPtrArrayTmaWarpSpecializedCooperativeEEENSA_IJNSG_ILi128EEENSG_ILi256EEENSG_ILi64EEEEEENS_10bfloat16_tEPNSA_IJlSI_NSG_ILi0EEEEEESQ_PNSA_IJSI_lSR_EEENS9_8TiledMMAINS9_8MMA_AtomIJNS9_4SM904GMMA28MMA_64x256x16_F32BF16BF16_SSILNSZ_5MajorE0ELS11_1ELNSZ_7ScaleInE1ELS12_1EEEEEENS9_6La"
	groupedData   = "void at::cuda::detail::prepare_grouped_gemm_data<cutlass::bfloat16_t, cutlass::bfloat16_t, cutlass::bfloat16_t, float, cute::tuple<int, int, int>, cute::tuple<long, cute::C<1>, cute::C<0> >, cute::tuple<cute::C<1>, long, cute::C<0> >, cute::tuple<long, cute::C<1>, cute::C<0> > >(cutlass::bfloat16_t*, cutlass::bfloat1)"
)

// TestGroupedProducts: torch's own grouped kernel has one accumulator, and the kernel before it computes nothing.
func TestGroupedProducts(t *testing.T) {
	c := &cases.Case{
		RecordVersion: cases.RecordVersion, Op: "grouped_mm",
		A:       cases.Tensor{Format: format.BF16, Shape: []int{1, 5, 512}, Strides: []int{2560, 512, 1}},
		B:       cases.Tensor{Format: format.BF16, Shape: []int{1, 512, 64}, Strides: []int{32768, 64, 1}},
		Out:     cases.Output{Format: format.BF16, Shape: []int{1, 5, 64}},
		Kernels: []string{groupedData, groupedKernel},
	}
	got := Choose(c, Options{})
	if got.Unknown != "" || got.Family != "cutlass grouped" || len(got.Candidates) != 1 || got.Uncertain || got.Candidates[0].Rule != "cutlass-grouped" {
		t.Fatalf("%+v", got)
	}
	if plan := got.Candidates[0].Profile.Plan.Describe(); !strings.Contains(plan, "one accumulator") {
		t.Errorf("%s", plan)
	}
	k := Parse(groupedKernel)
	if k.Tile != [3]int{64, 256, 16} || k.Op != "F32BF16BF16" {
		t.Errorf("%+v", k)
	}
	for _, other := range [][]string{
		{groupedKernel}, // what points to the groups did not run: another kernel
		{groupedData, strings.Replace(groupedKernel, "F32BF16BF16", "F32F16F16", 1)},
		{groupedData, strings.Replace(groupedKernel, "F32BF16BF16", "F16BF16BF16", 1)},
		{groupedData, groupedKernel, groupedKernel},
	} {
		c.Kernels = other
		for _, candidate := range Choose(c, Options{}).Candidates {
			if candidate.Rule == "cutlass-grouped" {
				t.Errorf("%.300q", other)
			}
		}
	}
}
