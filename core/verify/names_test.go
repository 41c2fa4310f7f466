package verify

import (
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

const (
	plainKernel = "nvjet_sm90_tst_64x8_64x16_4x1_v_bx_NNT"
	addend      = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#1}>>(int)"
	addition    = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>(int)"
)

// TestFlagOfTheProcess: allow_fp16_accumulation is on for a whole process; products in bf16, and f16 kernels that sum in
// f32, have nothing to do with it. A GPU's right answer was called wrong.
func TestFlagOfTheProcess(t *testing.T) {
	full := map[string]any{"op": "addmm", "c": "full", "alpha": 1.7, "beta": 0.3, "f16acc": true}
	r := newRecord([]string{plainKernel}, full)
	r.hash(r.compute(t, "hopper/bf16", plan.Plain(), profile.FormFMAAlpha))
	r.wants(t, "bf16 under the flag", Exact, "")

	f16 := map[string]any{"a": "f16", "b": "f16", "out": "f16", "f16acc": true}
	r = newRecord([]string{"void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_64x64_64x4_nn_align8>(x)"}, f16)
	r.hash(r.compute(t, "hopper/f16", plan.Tiled(plan.ResidueFirst, 64), profile.FormAdd))
	r.wants(t, "an s kernel under the flag", Exact, "")

	r = newRecord([]string{"void cutlass::Kernel2<cutlass_80_tensorop_h16816gemm_64x64_64x4_nn_align8>(x)"}, f16)
	r.hash(r.compute(t, "hopper/f16-f16", plan.Tiled(plan.ResidueFirst, 64), profile.FormAdd))
	r.wants(t, "an h kernel under the flag", Exact, "")
}

// TestElementwise: only the copy of an addend beside a multiplication is known; another elementwise kernel computes
// something that no rule knows, and a verdict of wrong would be a guess.
func TestElementwise(t *testing.T) {
	bias := map[string]any{"op": "linear", "c": "bias"}
	r := newRecord([]string{addend, plainKernel}, bias)
	r.hash(r.compute(t, "hopper/bf16", plan.Plain(), profile.FormAdd))
	r.wants(t, "a copied addend", Exact, "")

	r = newRecord([]string{plainKernel, addition}, bias)
	r.hash(r.compute(t, "hopper/bf16", plan.Plain(), profile.FormRoundThenAdd))
	r.wants(t, "an addition of its own", Undecided, "several kernels")
}

// TestUnseenNames: names beside the measured ones are no rule's.
func TestUnseenNames(t *testing.T) {
	f16 := map[string]any{"a": "f16", "b": "f16", "out": "f16", "sha256": strings.Repeat("0", 64)}
	newRecord([]string{"nvjet_sm90_hhh_64x8_64x16_4x1_v_bz_NNT"}, f16).wants(t, "sums in f16", Undecided, "unknown kernels")
	newRecord([]string{plainKernel}, f16).wants(t, "a bf16 kernel for f16", Undecided, "no plan")
	f32 := map[string]any{"a": "f32", "b": "f32", "out": "f32", "sha256": strings.Repeat("0", 64)}
	for _, tile := range []string{"0", "99999999999999999999"} {
		newRecord([]string{"void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_" + tile + "x5_nn_align1>(x)"}, f32).
			wants(t, "tile "+tile, Undecided, "which no kernel has")
	}
	newRecord([]string{plainKernel, "void cublasLt::splitKreduce_kernel<32, 16, int, int, __nv_bfloat16, float, __nv_bfloat16, true, float>(x)"},
		map[string]any{"sha256": strings.Repeat("0", 64)}).wants(t, "an integer workspace", Undecided, "do not go together")
}
