package rules

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/cases/casestest"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

type call = casestest.Call

const (
	globalKernel = "void cublasLt::epilogue::impl::globalKernel<8, 32, __half, __half, float, true, true, 1>(int)"
	elementwise  = "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<direct_copy_kernel_cuda>>(int)"
)

// slicings counts how many ways there are to cut K into at most 400 slices of whole units: every number of slices that
// gives another width.
func slicings(k, grain int) int {
	units := (k + grain - 1) / grain
	widths := map[int]bool{}
	for s := 1; s <= 400 && s <= units; s++ {
		widths[(units+s-1)/s] = true
	}
	return len(widths)
}

// kind tells the outermost rules of plans apart.
func kind(p *plan.Plan) string {
	switch {
	case p.Chain != nil:
		return "chain"
	case p.Split != nil:
		return "split"
	case p.Promote != nil:
		return "promote"
	case p.Lanes != nil:
		return "lanes"
	}
	return "serial"
}

// TestChooser reads kernel lists as a profiler recorded them on an H200 with cuBLAS 13.1.0.3.
func TestChooser(t *testing.T) {
	add := []profile.Form{profile.FormAdd}
	rounded := []profile.Form{profile.FormRoundThenAdd}
	for _, test := range []struct {
		name      string
		call      call
		family    string
		step      string // whose parameters the profile has
		plan      plan.Plan
		count     int // of candidates
		forms     []profile.Form
		uncertain bool
	}{
		{"nvjet", call{A: format.BF16, Size: [4]int{1, 14336, 2560, 32}, Kernels: []string{"nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_NNT"}},
			"nvjet", "hopper/bf16", plan.Plain(), 1, add, false},
		{"nvjet, f16", call{A: format.F16, Out: format.F32, Size: [4]int{1, 64, 64, 64}, Kernels: []string{"nvjet_sm90_hss_64x8_64x16_4x1_v_bz_TNN"}},
			"nvjet", "hopper/f16", plan.Plain(), 1, add, false},
		{"nvjet, tf32", call{A: format.F32, Size: [4]int{1, 64, 64, 64}, Kernels: []string{"nvjet_sm90_sss_64x8_64x16_4x1_v_bz_TNN"}},
			"nvjet", "hopper/tf32", plan.Plain(), 1, add, false},
		{"nvjet, bias", call{A: format.F16, Size: [4]int{1, 64, 64, 64}, C: "bias", Kernels: []string{"nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_bias_TNN"}},
			"nvjet", "hopper/f16", plan.Plain(), 1, add, false},
		{"nvjet, addend", call{Op: "baddbmm", A: format.BF16, Size: [4]int{64, 512, 384, 96}, C: "full", Alpha: 0.125, Beta: 1,
			Kernels: []string{"nvjet_sm90_tst_128x256_64x4_1x2_h_badd_coopA_NNN"}},
			"nvjet", "hopper/bf16", plan.Plain(), 1, rounded, false},
		{"nvjet, alpha and beta", call{Op: "addmm", A: format.BF16, Size: [4]int{1, 512, 384, 96}, C: "full", Alpha: 0.75, Beta: -1.5,
			Kernels: []string{"nvjet_sm90_tst_128x256_64x4_1x2_h_bx_coopA_NNN"}},
			"nvjet", "hopper/bf16", plan.Plain(), 1, []profile.Form{profile.FormFMAAlpha}, false},
		{"nvjet, f8 with fast accumulation", call{Op: "scaled_mm", A: format.E5M2, B: format.E4M3, Out: format.BF16, Size: [4]int{1, 32, 16, 16}, Scaling: "row",
			Kernels: []string{"nvjet_sm90_qrtst_128x128_128x6_2x1_v_bz_ovscale_TNT"}},
			"nvjet", "hopper/e5m2-e4m3-fast", plan.Plain(), 1, add, false},
		{"nvjet, f8 promoted", call{Op: "scaled_mm", A: format.E4M3, Out: format.BF16, Size: [4]int{1, 1648, 16, 16}, Scaling: "tensor",
			Kernels: []string{"nvjet_sm90_rqtst_8x64_128x16_2x4_h_bz_algo2_TNN"}},
			"nvjet promoted", "hopper/e4m3-fast", plan.Promoted(128, plan.Plain()), 1, add, false},
		{"nvjet split-K", call{A: format.BF16, Size: [4]int{1, 8, 576, 11528},
			Kernels: []string{"nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT", casestest.ReduceKernel("float", "__nv_bfloat16")}},
			"nvjet split-K", "hopper/bf16", plan.SplitK(9, 64, plan.Plain(), format.F32, format.F32), slicings(11528, 64), add, true},
		{"nvjet split-K, bias and a rounding workspace", call{A: format.F16, Size: [4]int{1, 8, 576, 640}, C: "bias",
			Kernels: []string{"nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_splitK_bias_TNT", casestest.ReduceKernel("__half", "__half")}},
			"nvjet split-K", "hopper/f16", plan.SplitK(1, 64, plan.Plain(), format.F16, format.F32), slicings(640, 64), add, true},
		{"nvjet split-K, f8 promoted", call{Op: "scaled_mm", A: format.E5M2, B: format.E4M3, Out: format.BF16, Size: [4]int{1, 128, 128, 11216}, Scaling: "tensor",
			Kernels: []string{"nvjet_sm90_qrtst_64x32_128x16_2x4_h_bz_algo2_splitK_TNT", casestest.ReduceKernel("float", "__nv_bfloat16")}},
			"nvjet split-K promoted", "hopper/e5m2-e4m3-fast",
			plan.SplitK(4, 128, plan.Promoted(128, plan.Plain()), format.F32, format.F32), slicings(11216, 128), add, true},

		{"cutlass, f16 takes fma-beta", call{Op: "addmm", A: format.F16, Size: [4]int{1, 1018, 61, 32}, C: "full", Alpha: 0.125, Beta: 1,
			Kernels: []string{casestest.Cutlass("cutlass_75_wmma_tensorop_f16_s161616gemm_f16_32x32_64x1_nn_align1")}},
			"cutlass", "hopper/f16", plan.Tiled(plan.ResidueFirst, 64), 1, []profile.Form{profile.FormFMABeta}, true},
		{"cutlass, bf16 takes fma-alpha", call{Op: "baddbmm", A: format.BF16, Size: [4]int{8, 25, 314, 17}, C: "full", Alpha: 0.125, Beta: 1,
			Kernels: []string{casestest.Cutlass("cutlass_75_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_nn_align1")}},
			"cutlass", "hopper/bf16", plan.Tiled(plan.ResidueFirst, 32), 1, []profile.Form{profile.FormFMAAlpha}, true},
		{"cutlass, 16816 takes fma-alpha", call{Op: "addmm", A: format.F16, Size: [4]int{1, 100, 64, 48}, C: "full", Alpha: 0.125, Beta: 1,
			Kernels: []string{casestest.Cutlass("cutlass_80_tensorop_f16_s16816gemm_f16_64x64_64x5_nn_align2")}},
			"cutlass", "hopper/f16", plan.Tiled(plan.ResidueFirst, 64), 1, []profile.Form{profile.FormFMAAlpha}, true},
		{"cutlass, tf32 of alignment 1 takes fma-beta", call{Op: "addmm", A: format.F32, Size: [4]int{1, 64, 64, 64}, C: "full", Alpha: 0.125, Beta: 1, Flags: cases.Flags{AllowTF32: true},
			Kernels: []string{casestest.Cutlass("cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align1")}},
			"cutlass", "hopper/tf32", plan.Tiled(plan.ResidueFirst, 16), 1, []profile.Form{profile.FormFMABeta}, true},
		{"cutlass, tf32 of alignment 4 takes fma-alpha", call{Op: "addmm", A: format.F32, Size: [4]int{1, 64, 64, 64}, C: "full", Alpha: 0.125, Beta: 1, Flags: cases.Flags{AllowTF32: true},
			Kernels: []string{casestest.Cutlass("cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align4")}},
			"cutlass", "hopper/tf32", plan.Tiled(plan.ResidueFirst, 16), 1, []profile.Form{profile.FormFMAAlpha}, true},
		{"cutlass, alpha and beta of 1", call{Op: "addmm", A: format.F16, Size: [4]int{1, 416, 24, 82}, C: "full", Alpha: 1, Beta: 1,
			Kernels: []string{casestest.Cutlass("cutlass_80_wmma_tensorop_f16_s161616gemm_f16_32x32_64x1_tt_align2")}},
			"cutlass", "hopper/f16", plan.Tiled(plan.ResidueFirst, 64), 1, add, true},
		{"cutlass, 1688 without a tile", call{A: format.BF16, Size: [4]int{1, 13, 1267, 16},
			Kernels: []string{casestest.Cutlass("cutlass_75_tensorop_bf16_s1688gemm_bf16_64x64_tn_align1")}},
			"cutlass", "hopper/bf16-k8", plan.Tiled(plan.ResidueFirst, 32), 1, add, true},
		{"cutlass, 16816", call{Op: "bmm", A: format.BF16, Size: [4]int{64, 10, 200, 244},
			Kernels: []string{casestest.Cutlass("cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_64x3_nn_align2")}},
			"cutlass", "hopper/bf16", plan.Tiled(plan.ResidueFirst, 64), 1, add, true},
		{"cutlass, tf32 keeps its group at 1688", call{A: format.F32, Size: [4]int{1, 64, 64, 64}, Flags: cases.Flags{AllowTF32: true},
			Kernels: []string{casestest.Cutlass("cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align4")}},
			"cutlass", "hopper/tf32", plan.Tiled(plan.ResidueFirst, 16), 1, add, true},
		{"cutlass split-K, tf32, 16-byte units", call{A: format.F32, Size: [4]int{1, 739, 667, 1023}, Layout: "NT",
			Kernels: []string{casestest.Cutlass("cutlass_80_tensorop_s1688gemm_128x256_32x3_tn_align1"), casestest.ReduceKernel("float", "float")}},
			"cutlass split-K", "hopper/tf32", plan.SplitK(1, 4, plan.Tiled(plan.ResidueFirst, 32), format.F32, format.F32), 31, add, true},
		{"cutlass split-K, tf32, 128-byte units", call{A: format.F32, Size: [4]int{1, 4, 768, 256}, Layout: "NT",
			Kernels: []string{casestest.Cutlass("cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align4"), casestest.ReduceKernel("float", "float")}},
			"cutlass split-K", "hopper/tf32", plan.SplitK(1, 32, plan.Tiled(plan.ResidueFirst, 16), format.F32, format.F32), 5, add, true},
		{"cutlass split-K, a alone contiguous along k", call{A: format.F16, Size: [4]int{1, 4, 768, 256}, Layout: "NN",
			Kernels: []string{casestest.Cutlass("cutlass_75_wmma_tensorop_s161616gemm_f16_32x32_64x1_nn_align1"), casestest.ReduceKernel("float", "__half")}},
			"cutlass split-K", "hopper/f16", plan.SplitK(1, 64, plan.Tiled(plan.ResidueFirst, 64), format.F32, format.F32), slicings(256, 64), add, true},
		{"cutlass split-K, b alone contiguous along k", call{A: format.F64, Size: [4]int{1, 4, 768, 256}, Layout: "TT",
			Kernels: []string{casestest.Cutlass("cutlass_80_tensorop_d884gemm_32x32_16x5_nn_align1"), casestest.ReduceKernel("double", "double")}},
			"cutlass f64 split-K", "hopper/f64", plan.SplitK(1, 16, plan.Tiled(plan.ResidueFirst, 16), format.F64, format.F64), slicings(256, 16), add, true},
		{"cutlass split-K, no operand contiguous along k", call{A: format.F32, Size: [4]int{1, 4, 768, 256}, Layout: "TN",
			Kernels: []string{casestest.Cutlass("cutlass_80_tensorop_s1688gemm_64x64_16x6_nt_align4"), casestest.ReduceKernel("float", "float")}},
			"cutlass split-K", "hopper/tf32", plan.SplitK(1, 4, plan.Tiled(plan.ResidueFirst, 16), format.F32, format.F32), slicings(256, 4), add, true},
		{"cutlass split-K, bf16 workspace", call{A: format.BF16, Size: [4]int{1, 5, 736, 14216}, Layout: "TT",
			Kernels: []string{casestest.Cutlass("cutlass_75_tensorop_bf16_s1688gemm_bf16_64x64_tt_align1"), casestest.ReduceKernel("__nv_bfloat16", "__nv_bfloat16")}},
			"cutlass split-K", "hopper/bf16-k8", plan.SplitK(1, 8, plan.Tiled(plan.ResidueFirst, 32), format.BF16, format.F32), 80, add, true},
		{"cutlass split-K of one slice", call{A: format.BF16, Size: [4]int{1, 65, 361, 2},
			Kernels: []string{casestest.Cutlass("cutlass_75_tensorop_bf16_s1688gemm_bf16_128x64_nn_align1"), casestest.ReduceKernel("__nv_bfloat16", "__nv_bfloat16")}},
			"cutlass split-K", "hopper/bf16-k8", plan.SplitK(1, 8, plan.Tiled(plan.ResidueFirst, 32), format.BF16, format.F32), 1, add, true},
		{"cutlass split-K, alpha and beta", call{Op: "addmm", A: format.BF16, Size: [4]int{1, 45, 795, 21}, C: "full", Alpha: 0.75, Beta: -1.5,
			Kernels: []string{casestest.Cutlass("cutlass_75_tensorop_s1688gemm_bf16_64x64_nt_align1"), casestest.ReduceKernel("float", "__nv_bfloat16")}},
			"cutlass split-K", "hopper/bf16-k8", plan.SplitK(1, 8, plan.Tiled(plan.ResidueFirst, 32), format.F32, format.F32), 3,
			[]profile.Form{profile.FormFMABeta}, true},
		{"cutlass split-K, the 9th argument rounds before a bias", call{Op: "linear", A: format.F16, Size: [4]int{1, 299, 12, 8132}, Layout: "NT", C: "bias",
			Kernels: []string{casestest.Cutlass("cutlass_80_wmma_tensorop_s161616gemm_f16_32x32_128x2_tn_align2"), casestest.ReduceKernel("float", "__half")}},
			"cutlass split-K", "hopper/f16", plan.SplitK(1, 8, plan.Tiled(plan.ResidueFirst, 128), format.F32, format.F32), 61, rounded, true},
		{"cutlass split-K, a 9th argument of float does not", call{Op: "linear", A: format.F32, Size: [4]int{1, 116, 3, 9494}, Layout: "NT", C: "bias",
			Kernels: []string{casestest.Cutlass("cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align1"), casestest.ReduceKernel("float", "float")}},
			"cutlass split-K", "hopper/tf32", plan.SplitK(1, 4, plan.Tiled(plan.ResidueFirst, 16), format.F32, format.F32), 92, add, true},
		{"cutlass split-K, the 9th argument alone decides", call{Op: "linear", A: format.F16, Size: [4]int{1, 299, 12, 8132}, Layout: "NT", C: "bias",
			Kernels: []string{casestest.Cutlass("cutlass_80_wmma_tensorop_s161616gemm_f16_32x32_128x2_tn_align2"), casestest.ReduceKernelOf("__half", "__half", "float")}},
			"cutlass split-K", "hopper/f16", plan.SplitK(1, 8, plan.Tiled(plan.ResidueFirst, 128), format.F16, format.F32), 61, add, true},
		{"cutlass split-K, another 9th argument", call{Op: "linear", A: format.BF16, Out: format.F32, Size: [4]int{1, 299, 12, 8132}, Layout: "NT", C: "bias",
			Kernels: []string{casestest.Cutlass("cutlass_80_wmma_tensorop_s161616gemm_bf16_32x32_128x2_tn_align2"), casestest.ReduceKernelOf("float", "float", "__nv_bfloat16")}},
			"cutlass split-K", "hopper/bf16", plan.SplitK(1, 8, plan.Tiled(plan.ResidueFirst, 128), format.F32, format.F32), 61, rounded, true},
		{"cutlass, bias by a later kernel", call{Op: "linear", A: format.F16, Size: [4]int{1, 11, 29, 2}, C: "bias",
			Kernels: []string{casestest.Cutlass("cutlass_75_wmma_tensorop_f16_s161616gemm_f16_32x32_64x1_tn_align1"), globalKernel}},
			"cutlass", "hopper/f16", plan.Tiled(plan.ResidueFirst, 64), 1, rounded, true},
		{"cutlass, f16 accumulation", call{Op: "linear", A: format.F16, Size: [4]int{1, 33, 4096, 384}, Flags: cases.Flags{F16Accumulation: true},
			Kernels: []string{casestest.Cutlass("cutlass_80_tensorop_h16816gemm_64x64_64x6_tn_align8")}},
			"cutlass f16 accumulation", "hopper/f16-f16", plan.Tiled(plan.ResidueFirst, 64), 1, add, true},
		{"cutlass split-K, f16 accumulation", call{Op: "addmm", A: format.F16, Size: [4]int{1, 57, 84, 713}, C: "full", Alpha: 0.5, Beta: 2,
			Flags:   cases.Flags{F16Accumulation: true},
			Kernels: []string{casestest.Cutlass("cutlass_75_wmma_tensorop_h161616gemm_32x32_64x1_nn_align1"), casestest.ReduceKernel("__half", "__half")}},
			"cutlass f16 accumulation split-K", "hopper/f16-f16", plan.SplitK(1, 8, plan.Tiled(plan.ResidueFirst, 64), format.F16, format.F16), 18,
			[]profile.Form{profile.FormHalf}, true},
		{"cutlass integer", call{Op: "int_mm", A: format.S8, Out: format.S32, Size: [4]int{1, 24, 24, 1528},
			Kernels: []string{casestest.Cutlass("cutlass_80_wmma_tensorop_i161616gemm_s8_forwardCompat_128x128_32x2_nn_align4")}},
			"cutlass integer", "hopper/s8", plan.Plain(), 1, add, false},
		{"cutlass f64", call{A: format.F64, Size: [4]int{1, 4, 85, 68}, Kernels: []string{casestest.Cutlass("cutlass_80_tensorop_d884gemm_32x32_16x5_nn_align1")}},
			"cutlass f64", "hopper/f64", plan.Tiled(plan.ResidueFirst, 16), 1, add, true},
		{"cutlass simt", call{Op: "addmm", A: format.F32, Size: [4]int{1, 37, 154, 1}, C: "full",
			Kernels: []string{casestest.Cutlass("cutlass_80_simt_sgemm_128x32_8x5_nn_align1")}},
			"cutlass simt", "hopper/f32", plan.Tiled(plan.ResidueFirst, 8), 1, add, true},
		{"cutlass simt split-K", call{Op: "linear", A: format.F32, Size: [4]int{1, 8, 5, 3581}, Layout: "NT",
			Kernels: []string{casestest.Cutlass("cutlass_80_simt_sgemm_64x64_8x5_tn_align1"), casestest.ReduceKernel("float", "float")}},
			"cutlass simt split-K", "hopper/f32", plan.SplitK(1, 4, plan.Tiled(plan.ResidueFirst, 8), format.F32, format.F32), 57, add, true},

		{"xmma chain, f32", call{Op: "baddbmm", A: format.F32, Size: [4]int{12, 100, 3, 2}, C: "full", Alpha: 0.5, Beta: 2,
			Kernels: []string{"sm80_xmma_gemm_f32f32_f32f32_f32_nt_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas"}},
			"xmma chain", "hopper/f32", plan.Tiled(plan.ResidueLast, 8), 1, []profile.Form{profile.FormFMAAlpha}, true},
		{"xmma chain, f16", call{Op: "bmm", A: format.F16, Size: [4]int{64, 50, 119, 8},
			Kernels: []string{"sm80_xmma_gemm_f16f16_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna2_alignc2_execute_kernel__5x_cublas"}},
			"xmma chain", "cuda-core/f16", fromZero(plan.Tiled(plan.ResidueLast, 8)), 1, add, true},
		{"xmma tf32 on sm80", call{A: format.F32, Size: [4]int{1, 248, 19, 226},
			Kernels: []string{"sm80_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize32x32x64_stage3_warpsize2x2x1_tensor16x8x8_aligna4_alignc4_execute_kernel__5x_cublas"}},
			"xmma tf32", "hopper/tf32", plan.Plain(), 1, add, true},
		{"xmma tf32 on sm90", call{A: format.F32, Size: [4]int{1, 96, 14336, 256},
			Kernels: []string{"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"}},
			"xmma tf32", "hopper/tf32", plan.Plain(), 1, add, true},
		{"xmma f64", call{Op: "addmm", A: format.F64, Size: [4]int{1, 33, 512, 384}, C: "full",
			Kernels: []string{"sm90_xmma_gemm_f64f64_f64f64_f64_tn_n_tilesize32x32x32_stage5_warpsize2x2x1_tensor16x8x16_execute_kernel__5x_cublas"}},
			"xmma f64", "hopper/f64", plan.Tiled(plan.ResidueLast, 32), 1, add, true},
		{"xmma f16 accumulation", call{A: format.F16, Size: [4]int{1, 64, 64, 64}, Flags: cases.Flags{F16Accumulation: true},
			Kernels: []string{"sm90_xmma_gemm_f16f16_f16f16_f16_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"}},
			"xmma f16 accumulation", "hopper/f16-f16", plan.Plain(), 1, add, true},
		{"gemv2N", call{Op: "mv", A: format.BF16, Size: [4]int{1, 209, 1, 9},
			Kernels: []string{"void gemv2N_kernel<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128, 1, 2, 4, 1, false>(int)"}},
			"gemv2N", "cuda-core/bf16", fromZero(plan.Plain()), 1, add, false},
		{"gemmk1", call{A: format.F32, Size: [4]int{1, 403, 1000, 1}, Kernels: []string{"void gemmk1_kernel<int, float, 256, 5, true, false>(int)"}},
			"gemmk1", "hopper/f32", plan.Plain(), 1, []profile.Form{profile.FormProductB}, false},
		{"magma", call{A: format.F32, Size: [4]int{1, 40, 10, 30}, Kernels: []string{"void magma_sgemmEx_kernel<float, float, float, true, false>(int)"}},
			"magma", "hopper/f32", fromZero(plan.Plain()), 1, add, false},
		{"kernels that copy are no part of it", call{A: format.BF16, Size: [4]int{1, 64, 64, 64}, Kernels: []string{elementwise, "nvjet_sm90_tst_64x64_64x3_1x2_h_bz_NNT"}},
			"nvjet", "hopper/bf16", plan.Plain(), 1, add, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Choose(test.call.Record(), Options{})
			alike := 0 // candidates of the same rule as the wanted plan; serial and interleaved splits come beside them
			for _, c := range got.Candidates {
				if kind(&c.Profile.Plan) == kind(&test.plan) {
					alike++
				}
			}
			if got.Unknown != "" || got.Family != test.family || alike != test.count {
				t.Fatalf("family %q, %d candidates of %d, %q; want %q, %d", got.Family, alike, len(got.Candidates), got.Unknown, test.family, test.count)
			}
			if got.Determined != (len(got.Candidates) == 1 && !test.uncertain) || got.Uncertain != test.uncertain {
				t.Errorf("determined %v, uncertain %v; want uncertain %v", got.Determined, got.Uncertain, test.uncertain)
			}
			base, err := profile.Load(test.step)
			if err != nil {
				t.Fatal(err)
			}
			var forms []profile.Form
			ids := map[string]bool{}
			for _, c := range got.Candidates {
				if !reflect.DeepEqual(c.Profile.Step, base.Step) {
					t.Fatalf("the step is %+v, want %s", c.Profile.Step, test.step)
				}
				if !slices.Contains(forms, c.Profile.Epilogue.Form) {
					forms = append(forms, c.Profile.Epilogue.Form)
				}
				if err := c.Profile.Validate(); err != nil {
					t.Errorf("a candidate is no profile: %v", err)
				}
				ids[c.Profile.ID()] = true
			}
			if !slices.Equal(forms, test.forms) {
				t.Errorf("forms %v, want %v", forms, test.forms)
			}
			if len(ids) != len(got.Candidates) {
				t.Errorf("%d candidates have %d identities", len(got.Candidates), len(ids))
			}
			first := got.Candidates[0].Profile
			want := &profile.Profile{SchemaVersion: first.SchemaVersion, Step: first.Step, Plan: test.plan, Epilogue: first.Epilogue}
			if first.ID() != want.ID() {
				t.Errorf("the first plan is %s, want %s", first.Plan.Describe(), test.plan.Describe())
			}
			wantScaling := map[string]profile.Scaling{"": profile.ScalingNone, "tensor": profile.ScalingTensor, "row": profile.ScalingRow}[test.call.Scaling]
			if e := first.Epilogue; e.Scaling != wantScaling || e.Out != test.call.Record().Out.Format {
				t.Errorf("epilogue %+v, want scaling %q", e, wantScaling)
			}
		})
	}
}

// TestSlicesTried: every width of slices that up to 400 slices give is tried once, each with the fewest slices.
func TestSlicesTried(t *testing.T) {
	for _, k := range []int{1, 7, 8, 9, 63, 64, 1000, 3200, 3201, 11528, 57608} {
		c := call{A: format.BF16, Size: [4]int{1, 5, 7, k}, Layout: "TN",
			Kernels: []string{casestest.Cutlass("cutlass_75_tensorop_s1688gemm_bf16_64x64_nt_align1"), casestest.ReduceKernel("float", "__nv_bfloat16")}}
		got := Choose(c.Record(), Options{})
		if want := slicings(k, 8); len(got.Candidates) != want {
			t.Errorf("K = %d: %d plans, want %d", k, len(got.Candidates), want)
		}
		last, units := 0, (k+7)/8
		for _, candidate := range got.Candidates {
			s := candidate.Profile.Plan.Split.Slices
			if s <= last || s > 400 || s != candidate.Slices || s > 1 && (units+s-1)/s == (units+s-2)/(s-1) {
				t.Errorf("K = %d: %d slices after %d", k, s, last)
			}
			last = s
		}
	}
}

func gemvx(f string, along bool, log2 int) string {
	t := map[bool]string{true: "true", false: "false"}[along]
	return "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, " + f + ", " + f + ", " + f + ", float, false, true, " + t +
		", false, " + map[int]string{6: "6", 7: "7", 9: "9"}[log2] + ", false, cublasGemvParamsEx<int>>(int)"
}

// TestVectors: kernels of vectors and of few rows, with and without their launches.
func TestVectors(t *testing.T) {
	f32 := plan.In(format.F32)
	zero := f32 // the last merge of such kernels never gives -0
	zero.FromZero = true
	dotPlan := func(blocks, vector int) plan.Plan {
		p := plan.Dot(blocks, vector, f32)
		p.Lanes.Merge = zero
		return p
	}
	launch := func(x, y, z, bx, by int) []cases.Launch {
		return []cases.Launch{{Grid: [3]int{x, y, z}, Block: [3]int{bx, by, 1}}, {Grid: [3]int{1, 1, 1}, Block: [3]int{128, 1, 1}}}
	}
	dot := []string{"void dot_kernel<float, 128, 0, cublasDotParams<int>>(int)", "void reduce_1Block_kernel<float, 128, 7>(int)"}
	sn := func(letters, args string) []string {
		return []string{"void gemmSN_" + letters + "_kernel<float, " + args + ">(int)"}
	}
	chain := plan.Plain()
	restarted := func(interval int) plan.Plan {
		return plan.Plan{Promote: &plan.Promote{Interval: interval, Of: &chain, Merge: f32}}
	}
	gemv2T := "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, false>(int)"
	for _, test := range []struct {
		name   string
		call   call
		family string
		wanted []plan.Plan // all candidates where whole, else candidates among others
		whole  bool
	}{
		{"gemvx, launch known, lanes along x", call{A: format.F32, Size: [4]int{1, 40, 1, 307}, Kernels: []string{gemvx("float", true, 7)}, Launches: launch(10, 1, 1, 32, 4)[:1]},
			"gemvx", []plan.Plan{plan.Contiguous(32, 64, chain, plan.CountDown(32), zero)}, true},
		{"gemvx, launch known, long lanes along x", call{A: format.F32, Size: [4]int{1, 40, 1, 1307}, Kernels: []string{gemvx("float", true, 7)}, Launches: launch(10, 1, 1, 32, 4)[:1]},
			"gemvx", []plan.Plan{plan.Dealt(32, 1, chain, plan.CountDown(32), zero)}, true},
		{"gemvx, launch known, lanes along y", call{A: format.F16, Size: [4]int{1, 1, 40, 307}, Kernels: []string{gemvx("__half", false, 7)}, Launches: launch(2, 1, 1, 64, 2)[:1]},
			"gemvx", []plan.Plan{plan.Contiguous(2, 64, chain, plan.CountDown(2), zero)}, true},
		{"gemvx without a launch", call{A: format.F32, Size: [4]int{1, 40, 1, 307}, Kernels: []string{gemvx("float", true, 7)}},
			"gemvx", []plan.Plan{plan.Contiguous(2, 64, chain, plan.CountDown(2), zero), plan.Dealt(16, 1, chain, plan.CountDown(16), zero)}, false},
		{"gemvx split-K, launch known", call{A: format.F32, Size: [4]int{1, 1495, 1, 4422}, Kernels: []string{gemvx("float", false, 6), casestest.ReduceKernel("float", "float")}, Launches: launch(48, 1, 8, 32, 2)},
			"gemvx split-K", []plan.Plan{plan.SplitK(8, 1, plan.Dealt(2, 1, chain, plan.CountDown(2), f32), format.F32, format.F32)}, false},
		{"gemvNSP of 32 lanes", call{A: format.F32, Size: [4]int{3, 1, 256, 300}, Kernels: []string{"void gemvNSP_kernel<float, float, float, float, 1, 32, 4, 1024, false>(int)"}},
			"gemvNSP", []plan.Plan{plan.Dealt(32, 4, chain, plan.CountDown(32), zero)}, true},
		{"gemvNSP of 24 lanes, named 16", call{A: format.F32, Size: [4]int{3, 1, 256, 300}, Kernels: []string{"void gemvNSP_kernel<float, float, float, float, 1, 16, 4, 1024, false>(int)"}},
			"gemvNSP", []plan.Plan{plan.Dealt(24, 4, chain, plan.CountDown(24), zero)}, true},
		{"gemv2T", call{A: format.F32, Size: [4]int{1, 1, 3792, 785}, Kernels: []string{gemv2T}},
			"gemv2T", []plan.Plan{plan.Dealt(16, 1, restarted(32), plan.Forward(), zero)}, true},
		{"gemmSN_NN", call{A: format.F32, Size: [4]int{8, 4, 192, 1500}, Kernels: sn("NN", "128, 2, 4, 8, 4, 4, false")},
			"gemmSN_NN", []plan.Plan{{Split: &plan.Split{Slices: 2, Grain: 1, Of: ptr(restarted(256)), Merge: zero}}}, true},
		{"gemmSN_TN", call{A: format.F16, Size: [4]int{1, 2, 17, 2084}, Layout: "NT", Kernels: sn("TN", "128, 16, 2, 4, 2, 2, true")},
			"gemmSN_TN", []plan.Plan{plan.Dealt(16, 1, restarted(16), plan.Forward(), zero)}, true},
		{"dot of two vectors along k, launch known", call{A: format.F32, Size: [4]int{1, 4, 1, 19800}, Kernels: dot, Launches: launch(62, 1, 4, 128, 1)},
			"dot", []plan.Plan{dotPlan(62, 2)}, true},
		{"dot with a strided vector", call{A: format.BF16, Size: [4]int{1, 33, 1, 5120}, Layout: "TN", Kernels: dot},
			"dot", []plan.Plan{dotPlan(31, 1), dotPlan(64, 1)}, false},
		{"largek", call{Op: "linear", A: format.F32, Size: [4]int{1, 96, 768, 1024}, Layout: "NT", C: "bias",
			Kernels: []string{"void scal_kernel<float, float, 1, true, 6, 5, 5, 3>(int)", "void sgemm_largek_lds64<true, false, 5, 5, 4, 4, 4, 34>(int)", globalKernel}},
			"largek", []plan.Plan{{Split: &plan.Split{Slices: 3, Grain: 8, Of: &chain, Merge: f32}}}, false},
		{"xmma in two launches", call{A: format.F32, Size: [4]int{1, 256, 2048, 5120},
			Kernels: []string{"sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas",
				"sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_split_k_kernel__5x_cublas"}},
			"xmma chain split-K", []plan.Plan{plan.Strided(8, 8, plan.Tiled(plan.ResidueLast, 8), zero)}, false},
		{"xmma in one launch that splits", call{A: format.F64, Size: [4]int{1, 12, 512, 8192},
			Kernels: []string{"sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize32x32x32_stage5_warpsize2x2x1_tensor16x8x16_execute_kernel__5x_cublas"}, Launches: launch(1, 16, 7, 128, 1)[:1]},
			"xmma f64", []plan.Plan{plan.Buffered(7, 32, 4, plan.Tiled(plan.ResidueLast, 32), plan.In(format.F64))}, false},
		{"cutlass in one launch that splits", call{A: format.BF16, Size: [4]int{1, 3, 11008, 768}, Layout: "TN",
			Kernels: []string{casestest.Cutlass("cutlass_75_tensorop_bf16_s1688gemm_bf16_64x64_nt_align1")}, Launches: launch(1, 172, 2, 128, 1)[:1]},
			"cutlass", []plan.Plan{plan.SerialK(2, 8, plan.Tiled(plan.ResidueFirst, 32))}, true},
		{"cutlass in one launch that does not split", call{A: format.BF16, Size: [4]int{1, 3, 11008, 768}, Layout: "TN",
			Kernels: []string{casestest.Cutlass("cutlass_75_tensorop_bf16_s1688gemm_bf16_64x64_nt_align1")}, Launches: launch(1, 172, 1, 128, 1)[:1]},
			"cutlass", []plan.Plan{plan.Tiled(plan.ResidueFirst, 32)}, true},
		{"cutlass without a launch", call{A: format.BF16, Size: [4]int{1, 3, 11008, 768}, Layout: "TN",
			Kernels: []string{casestest.Cutlass("cutlass_75_tensorop_bf16_s1688gemm_bf16_64x64_nt_align1")}},
			"cutlass", []plan.Plan{plan.Tiled(plan.ResidueFirst, 32), plan.SerialK(2, 8, plan.Tiled(plan.ResidueFirst, 32)), plan.SerialK(24, 8, plan.Tiled(plan.ResidueFirst, 32))}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Choose(test.call.Record(), Options{})
			if got.Family != test.family || got.Unknown != "" {
				t.Fatalf("family %q, %q; want %q", got.Family, got.Unknown, test.family)
			}
			if test.whole && len(got.Candidates) != len(test.wanted) {
				t.Errorf("%d candidates, want %d", len(got.Candidates), len(test.wanted))
			}
			for i, want := range test.wanted {
				at := slices.IndexFunc(got.Candidates, func(c Candidate) bool { return reflect.DeepEqual(c.Profile.Plan, want) })
				if at < 0 || test.whole && at != i {
					t.Errorf("%s is at %d of %d candidates; the first is %s", want.Describe(), at, len(got.Candidates), got.Candidates[0].Profile.Plan.Describe())
				}
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

// fromZero adds a sum to +0, so that it is never -0.
func fromZero(p plan.Plan) plan.Plan { return plan.SplitK(1, 1, p, format.F32, format.F32) }

// TestAlphaInOperands: kernels of few rows multiply alpha into an operand.
func TestAlphaInOperands(t *testing.T) {
	c := call{Op: "addmm", A: format.F32, Size: [4]int{1, 4, 29, 15}, Layout: "NT", C: "full", Alpha: 0.5, Beta: 2,
		Kernels: []string{"void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true>(int)"}}
	got := Choose(c.Record(), Options{})
	if len(got.Candidates) != 1 || !got.Determined || got.Candidates[0].Profile.Epilogue.Form != profile.FormAlphaInA {
		t.Errorf("%+v", got)
	}
	gemv := call{Op: "addmm", A: format.F32, Size: [4]int{1, 3792, 1, 785}, Layout: "NT", C: "full", Alpha: 0.5, Beta: 2,
		Kernels: []string{"void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, false>(int)"}}
	for _, size := range [][4]int{{1, 3792, 1, 785}, {1, 1, 3792, 785}} { // the vector is B, then A
		gemv.Size = size
		want := map[int]profile.Form{1: profile.FormAlphaInB, 3792: profile.FormAlphaInA}[size[2]]
		if got := Choose(gemv.Record(), Options{}); len(got.Candidates) != 1 || got.Candidates[0].Profile.Epilogue.Form != want {
			t.Errorf("%v: %d candidates, want %s; %s", size, len(got.Candidates), want, got.Unknown)
		}
	}
	c.Alpha = 1
	if got = Choose(c.Record(), Options{}); len(got.Candidates) != 1 || got.Candidates[0].Profile.Epilogue.Form != profile.FormFMABeta {
		t.Errorf("%+v", got)
	}
}

// TestDeclined: what cannot be computed as any row says is declined with a reason, never guessed.
func TestDeclined(t *testing.T) {
	plain := func(kernels ...string) call {
		return call{A: format.BF16, Size: [4]int{1, 8, 8, 8}, Kernels: kernels}
	}
	nvjet := "nvjet_sm90_tst_64x64_64x3_1x2_h_bz_NNT"
	for _, test := range []struct {
		call         call
		family, want string
	}{
		{plain(elementwise), "unnamed", "none of the recorded kernels multiplies"},
		{plain(casestest.ReduceKernel("float", "float"), globalKernel), "unnamed", "none of the recorded kernels multiplies"},
		{plain(nvjet, "void scal_kernel<float, float>(int)"), "several launches", "several kernels share the multiplication (" + nvjet + ", scal_kernel)"},
		{plain(nvjet, nvjet), "several launches", "several kernels share the multiplication"},
		{plain("void a<int>(int)", "void b<int>(int)"), "several launches", "several kernels of no known family share the multiplication (a, b)"},
		{plain("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT"), "nvjet", "no plan of this version fits nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT"},
		{plain("void dot_kernel<float, 128, 0>(int)"), "", "no plan of this version fits dot_kernel"},
		{plain("void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_99999999999999999999x5_nn_align1>(x)"), "cutlass simt", "which no kernel has"},
		{plain("void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_0x5_nn_align1>(x)"), "cutlass simt", "which no kernel has"},
		{plain(nvjet, casestest.ReduceKernel("int", "float")), "nvjet split-K", "do not go together"},
		{call{A: format.F64, Size: [4]int{1, 8, 8, 8}, Kernels: []string{nvjet}}, "", "no plan of this version fits " + nvjet},
		{call{A: format.F16, Size: [4]int{1, 8, 8, 8}, Kernels: []string{nvjet}}, "", "no plan of this version fits " + nvjet},
		{call{A: format.S8, Out: format.S32, Size: [4]int{1, 8, 8, 8}, Kernels: []string{nvjet}}, "", "no plan of this version fits " + nvjet},
		{plain("void gemmSN_NN_kernel<float>(int)"), "gemmSN_NN", "is not known of this case"},
	} {
		got := Choose(test.call.Record(), Options{})
		if test.family != "" && got.Family != test.family || !strings.Contains(got.Unknown, test.want) || len(got.Candidates) != 0 {
			t.Errorf("%v:\n got family %q, %d candidates, %q\nwant %q, %q", test.call.Kernels, got.Family, len(got.Candidates), got.Unknown, test.family, test.want)
		}
	}
}

// TestUnknownNames: a name of no known family is no error; the shape and the formats are what is left.
func TestUnknownNames(t *testing.T) {
	base := call{A: format.BF16, Size: [4]int{1, 9, 8, 9}}
	blind := Choose(base.Record(), Options{Blind: true})
	if blind.Family != "unnamed" || len(blind.Candidates) < 5 || blind.Determined || !blind.Uncertain {
		t.Fatalf("blind: family %q, %d candidates", blind.Family, len(blind.Candidates))
	}
	for _, kernels := range [][]string{nil, {""}, {"void my_kernel<float>(float*)"}, {"nvjet_sm100_tst_64x64_64x3_1x2_h_bz_NNT"}, {"my_nvjet_sm90_tst_64x64"},
		{"nvjet_sm90_hhh_64x8_64x16_4x1_v_bz_NNT"}, {"ampere_bf16_s16816gemm_bf16_64x64_ldg8_f2f_stages_64x5_tn"}, {strings.Repeat("<", 10000)}} {
		c := base
		c.Kernels = kernels
		got := Choose(c.Record(), Options{})
		if got.Unknown == "" && len(got.Candidates) != len(blind.Candidates) || got.Determined {
			t.Errorf("%.60v: %d candidates, determined %v, want %d; %s", kernels, len(got.Candidates), got.Determined, len(blind.Candidates), got.Unknown)
		}
	}
	// What a name says is not looked at.
	c := base
	c.Kernels = []string{"nvjet_sm90_tst_64x64_64x3_1x2_h_bz_NNT"}
	if got := Choose(c.Record(), Options{Blind: true}); len(got.Candidates) != len(blind.Candidates) {
		t.Errorf("%d candidates, want %d", len(got.Candidates), len(blind.Candidates))
	}
}

// TestFlagsOfOtherFormats: a setting that is not about a product's formats changes nothing. It stands in every record of a
// process.
func TestFlagsOfOtherFormats(t *testing.T) {
	for _, size := range [][4]int{{1, 4, 8, 9}, {3, 5, 65, 5}, {1, 1, 40, 3000}, {1, 70, 33, 513}, {1, 64, 64, 4096}} {
		for a, flags := range map[format.Format]cases.Flags{format.BF16: {AllowTF32: true, F16Accumulation: true, FastAccumulation: true},
			format.F16: {AllowTF32: true, FastAccumulation: true}, format.F64: {AllowTF32: true, F16Accumulation: true}, format.F32: {F16Accumulation: true}} {
			x := call{A: a, Size: size}
			without := texts(Choose(x.Record(), Options{Blind: true}))
			if x.Flags = flags; texts(Choose(x.Record(), Options{Blind: true})) != without {
				t.Errorf("%v of %v: other candidates with %+v", a, size, flags)
			}
		}
	}
}

// TestBiasOrCopy: torch gives the library a vector where beta is 1 and the product has two columns and two k or more, one row
// too; elsewhere it copies the vector into the output first, and the addend is a whole one.
func TestBiasOrCopy(t *testing.T) {
	for _, test := range []struct {
		size   [4]int
		beta   float32
		op     string
		addend string
	}{
		{[4]int{1, 4, 8, 9}, 1, "addmm", "bias"}, {[4]int{1, 1, 8, 9}, 1, "linear", "bias"}, {[4]int{1, 4, 8, 9}, 0.5, "addmm", "full"},
		{[4]int{1, 4, 1, 9}, 1, "linear", "full"}, {[4]int{1, 4, 8, 1}, 1, "linear", "full"}, {[4]int{1, 1, 1, 9}, 1, "addmm", "full"},
		{[4]int{1, 1, 16, 16}, 1, "scaled_mm", "bias"},
	} {
		c := (&call{Op: test.op, A: format.F16, Size: test.size, C: "bias", Alpha: 1, Beta: test.beta}).Record()
		if got := caseScope(c)["addend"].word; got != test.addend {
			t.Errorf("%s of %v with beta = %g: the addend is %s, want %s", test.op, test.size, test.beta, got, test.addend)
		}
	}
}

// TestNoTwoAlike: no two candidates make the same tree with the same step and epilogue, whatever was asked.
func TestNoTwoAlike(t *testing.T) {
	for _, k := range []int{1, 2, 3, 7, 8, 9} {
		for _, x := range []call{{A: format.F16}, {A: format.F32, Flags: cases.Flags{AllowTF32: true}}, {A: format.F64}, {A: format.F16, C: "full", Alpha: 0.5, Beta: 2}} {
			x.Size = [4]int{1, 1, 3, k}
			seen := map[string]string{}
			for _, c := range Choose(x.Record(), Options{Blind: true}).Candidates {
				tree, err := c.Profile.Plan.Expand(k)
				if err != nil {
					t.Fatal(err)
				}
				key := string(appendTree(nil, tree)) + string(c.Profile.Epilogue.Form) + c.Profile.Step.Describe()
				if seen[key] != "" {
					t.Errorf("%v, K = %d: %s is %s", x.A, k, c.Profile.Plan.Describe(), seen[key])
				}
				seen[key] = c.Profile.Plan.Describe()
			}
		}
	}
}
