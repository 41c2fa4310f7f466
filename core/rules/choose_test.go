package rules

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// call describes a multiplication to build a case from.
type call struct {
	op        string
	a, b, out format.Format // b and out: a's where they are Invalid
	size      [4]int        // batch, m, n, k
	layout    string        // NN where empty
	kind      string        // normal where empty
	seed      uint64
	c         string // bias, full or nothing
	alpha     float32
	beta      float32 // alpha and beta of 0 are left out
	scaling   string  // tensor or row
	flags     cases.Flags
	kernels   []string
	launches  []cases.Launch
}

func (x call) record() *cases.Case {
	if x.b == format.Invalid {
		x.b = x.a
	}
	if x.out == format.Invalid {
		x.out = x.a
	}
	if x.layout == "" {
		x.layout = "NN"
	}
	if x.kind == "" {
		x.kind = "normal"
	}
	batch, m, n, k := x.size[0], x.size[1], x.size[2], x.size[3]
	operand := func(f format.Format, rows, columns int, layout byte, recipe string) cases.Tensor {
		t := cases.Tensor{Format: f, Shape: []int{batch, rows, columns}, Strides: []int{rows * columns, columns, 1},
			Generator: &cases.Generator{Recipe: recipe, Kind: x.kind, Seed: x.seed}}
		if layout == 'T' {
			t.Strides = []int{rows * columns, 1, rows}
		}
		return t
	}
	c := &cases.Case{
		RecordVersion: cases.RecordVersion, ID: "made", Op: x.op, Kernels: x.kernels, Launches: x.launches, Flags: x.flags,
		A: operand(x.a, m, k, x.layout[0], "operands-a"), B: operand(x.b, k, n, x.layout[1], "operands-b"),
		Out: cases.Output{Format: x.out, Shape: []int{batch, m, n}}, Scalars: map[string]cases.Scalar{},
	}
	if c.Op == "" {
		c.Op = "mm"
	}
	scalar := func(name string, v float32) {
		if v != 0 {
			c.Scalars[name] = scalarOf(v)
		}
	}
	scalar("alpha", x.alpha)
	scalar("beta", x.beta)
	addend := &cases.Generator{Recipe: "elements", Kind: "normal", Seed: x.seed*3<<20 + 7}
	switch x.c {
	case "bias":
		c.C = &cases.Tensor{Format: x.out, Shape: c.Out.Shape, Strides: []int{0, 0, 1}, Generator: addend}
	case "full":
		c.C = &cases.Tensor{Format: x.out, Shape: c.Out.Shape, Strides: []int{m * n, n, 1}, Generator: addend}
	}
	scales := func(n int, seed uint64) *cases.Tensor {
		return &cases.Tensor{Format: format.F32, Shape: []int{n}, Strides: []int{1}, Generator: &cases.Generator{Recipe: "scales", Kind: "normal", Seed: seed}}
	}
	switch x.scaling {
	case "tensor":
		scalar("scale_a", 0.013)
		scalar("scale_b", 2)
	case "row":
		c.ScaleA, c.ScaleB = scales(m, (x.seed*3+1)<<21), scales(n, (x.seed*3+2)<<21)
	}
	return c
}

// reduceKernel is the name of the kernel that merges split-K partial sums: its 4th argument is the workspace, and the 9th
// tells how a bias is added. The output's type stands beside them.
func reduceKernel(workspace, ninth string) string { return reduceKernelOf(workspace, ninth, ninth) }

func reduceKernelOf(workspace, out, ninth string) string {
	return "void cublasLt::splitKreduce_kernel<32, 16, int, " + workspace + ", " + out + ", float, " + out + ", false, " + ninth +
		", " + out + ", " + out + ", true, false, false, false>(cublasLt::cublasSplitKParams<float>, " + workspace + " const*)"
}

func cutlass(name string) string {
	return "void cutlass::Kernel2<" + name + ">(" + name + "::Params)"
}

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
		{"nvjet", call{a: format.BF16, size: [4]int{1, 14336, 2560, 32}, kernels: []string{"nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_NNT"}},
			"nvjet", "hopper/bf16", plan.Plain(), 1, add, false},
		{"nvjet, f16", call{a: format.F16, out: format.F32, size: [4]int{1, 64, 64, 64}, kernels: []string{"nvjet_sm90_hss_64x8_64x16_4x1_v_bz_TNN"}},
			"nvjet", "hopper/f16", plan.Plain(), 1, add, false},
		{"nvjet, tf32", call{a: format.F32, size: [4]int{1, 64, 64, 64}, kernels: []string{"nvjet_sm90_sss_64x8_64x16_4x1_v_bz_TNN"}},
			"nvjet", "hopper/tf32", plan.Plain(), 1, add, false},
		{"nvjet, bias", call{a: format.F16, size: [4]int{1, 64, 64, 64}, c: "bias", kernels: []string{"nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_bias_TNN"}},
			"nvjet", "hopper/f16", plan.Plain(), 1, add, false},
		{"nvjet, addend", call{op: "baddbmm", a: format.BF16, size: [4]int{64, 512, 384, 96}, c: "full", alpha: 0.125, beta: 1,
			kernels: []string{"nvjet_sm90_tst_128x256_64x4_1x2_h_badd_coopA_NNN"}},
			"nvjet", "hopper/bf16", plan.Plain(), 1, rounded, false},
		{"nvjet, alpha and beta", call{op: "addmm", a: format.BF16, size: [4]int{1, 512, 384, 96}, c: "full", alpha: 0.75, beta: -1.5,
			kernels: []string{"nvjet_sm90_tst_128x256_64x4_1x2_h_bx_coopA_NNN"}},
			"nvjet", "hopper/bf16", plan.Plain(), 1, []profile.Form{profile.FormFMAAlpha}, false},
		{"nvjet, f8 with fast accumulation", call{op: "scaled_mm", a: format.E5M2, b: format.E4M3, out: format.BF16, size: [4]int{1, 32, 16, 16}, scaling: "row",
			kernels: []string{"nvjet_sm90_qrtst_128x128_128x6_2x1_v_bz_ovscale_TNT"}},
			"nvjet", "hopper/e5m2-e4m3-fast", plan.Plain(), 1, add, false},
		{"nvjet, f8 promoted", call{op: "scaled_mm", a: format.E4M3, out: format.BF16, size: [4]int{1, 1648, 16, 16}, scaling: "tensor",
			kernels: []string{"nvjet_sm90_rqtst_8x64_128x16_2x4_h_bz_algo2_TNN"}},
			"nvjet promoted", "hopper/e4m3-fast", plan.Promoted(128, plan.Plain()), 1, add, false},
		{"nvjet split-K", call{a: format.BF16, size: [4]int{1, 8, 576, 11528},
			kernels: []string{"nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT", reduceKernel("float", "__nv_bfloat16")}},
			"nvjet split-K", "hopper/bf16", plan.SplitK(1, 64, plan.Plain(), format.F32, format.F32), slicings(11528, 64), add, true},
		{"nvjet split-K, bias and a rounding workspace", call{a: format.F16, size: [4]int{1, 8, 576, 640}, c: "bias",
			kernels: []string{"nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_splitK_bias_TNT", reduceKernel("__half", "__half")}},
			"nvjet split-K", "hopper/f16", plan.SplitK(1, 64, plan.Plain(), format.F16, format.F32), slicings(640, 64), add, true},
		{"nvjet split-K, f8 promoted", call{op: "scaled_mm", a: format.E5M2, b: format.E4M3, out: format.BF16, size: [4]int{1, 128, 128, 11216}, scaling: "tensor",
			kernels: []string{"nvjet_sm90_qrtst_64x32_128x16_2x4_h_bz_algo2_splitK_TNT", reduceKernel("float", "__nv_bfloat16")}},
			"nvjet split-K promoted", "hopper/e5m2-e4m3-fast",
			plan.SplitK(1, 128, plan.Promoted(128, plan.Plain()), format.F32, format.F32), slicings(11216, 128), add, true},

		{"cutlass, f16 takes fma-beta", call{op: "addmm", a: format.F16, size: [4]int{1, 1018, 61, 32}, c: "full", alpha: 0.125, beta: 1,
			kernels: []string{cutlass("cutlass_75_wmma_tensorop_f16_s161616gemm_f16_32x32_64x1_nn_align1")}},
			"cutlass", "hopper/f16", plan.Tiled(plan.ResidueFirst, 64), 1, []profile.Form{profile.FormFMABeta}, true},
		{"cutlass, bf16 takes fma-alpha", call{op: "baddbmm", a: format.BF16, size: [4]int{8, 25, 314, 17}, c: "full", alpha: 0.125, beta: 1,
			kernels: []string{cutlass("cutlass_75_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_nn_align1")}},
			"cutlass", "hopper/bf16", plan.Tiled(plan.ResidueFirst, 32), 1, []profile.Form{profile.FormFMAAlpha}, true},
		{"cutlass, two forms", call{op: "addmm", a: format.F16, size: [4]int{1, 100, 64, 48}, c: "full", alpha: 0.125, beta: 1,
			kernels: []string{cutlass("cutlass_80_tensorop_f16_s16816gemm_f16_64x64_64x5_nn_align2")}},
			"cutlass", "hopper/f16", plan.Tiled(plan.ResidueFirst, 64), 2, []profile.Form{profile.FormFMABeta, profile.FormFMAAlpha}, true},
		{"cutlass, alpha and beta of 1", call{op: "addmm", a: format.F16, size: [4]int{1, 416, 24, 82}, c: "full", alpha: 1, beta: 1,
			kernels: []string{cutlass("cutlass_80_wmma_tensorop_f16_s161616gemm_f16_32x32_64x1_tt_align2")}},
			"cutlass", "hopper/f16", plan.Tiled(plan.ResidueFirst, 64), 1, add, true},
		{"cutlass, 1688 without a tile", call{a: format.BF16, size: [4]int{1, 13, 1267, 16},
			kernels: []string{cutlass("cutlass_75_tensorop_bf16_s1688gemm_bf16_64x64_tn_align1")}},
			"cutlass", "hopper/bf16-k8", plan.Tiled(plan.ResidueFirst, 32), 1, add, true},
		{"cutlass, 16816", call{op: "bmm", a: format.BF16, size: [4]int{64, 10, 200, 244},
			kernels: []string{cutlass("cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_64x3_nn_align2")}},
			"cutlass", "hopper/bf16", plan.Tiled(plan.ResidueFirst, 64), 1, add, true},
		{"cutlass, tf32 keeps its group at 1688", call{a: format.F32, size: [4]int{1, 64, 64, 64}, flags: cases.Flags{AllowTF32: true},
			kernels: []string{cutlass("cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align4")}},
			"cutlass", "hopper/tf32", plan.Tiled(plan.ResidueFirst, 16), 1, add, true},
		{"cutlass split-K, tf32, 16-byte units", call{a: format.F32, size: [4]int{1, 739, 667, 1023}, layout: "NT",
			kernels: []string{cutlass("cutlass_80_tensorop_s1688gemm_128x256_32x3_tn_align1"), reduceKernel("float", "float")}},
			"cutlass split-K", "hopper/tf32", plan.SplitK(1, 4, plan.Tiled(plan.ResidueFirst, 32), format.F32, format.F32), 31, add, true},
		{"cutlass split-K, tf32, 128-byte units", call{a: format.F32, size: [4]int{1, 4, 768, 256}, layout: "NT",
			kernels: []string{cutlass("cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align4"), reduceKernel("float", "float")}},
			"cutlass split-K", "hopper/tf32", plan.SplitK(1, 32, plan.Tiled(plan.ResidueFirst, 16), format.F32, format.F32), 5, add, true},
		{"cutlass split-K, a alone contiguous along k", call{a: format.F16, size: [4]int{1, 4, 768, 256}, layout: "NN",
			kernels: []string{cutlass("cutlass_75_wmma_tensorop_s161616gemm_f16_32x32_64x1_nn_align1"), reduceKernel("float", "__half")}},
			"cutlass split-K", "hopper/f16", plan.SplitK(1, 64, plan.Tiled(plan.ResidueFirst, 64), format.F32, format.F32), slicings(256, 64), add, true},
		{"cutlass split-K, b alone contiguous along k", call{a: format.F64, size: [4]int{1, 4, 768, 256}, layout: "TT",
			kernels: []string{cutlass("cutlass_80_tensorop_d884gemm_32x32_16x5_nn_align1"), reduceKernel("double", "double")}},
			"cutlass f64 split-K", "hopper/f64", plan.SplitK(1, 16, plan.Tiled(plan.ResidueFirst, 16), format.F64, format.F64), slicings(256, 16), add, true},
		{"cutlass split-K, no operand contiguous along k", call{a: format.F32, size: [4]int{1, 4, 768, 256}, layout: "TN",
			kernels: []string{cutlass("cutlass_80_tensorop_s1688gemm_64x64_16x6_nt_align4"), reduceKernel("float", "float")}},
			"cutlass split-K", "hopper/tf32", plan.SplitK(1, 4, plan.Tiled(plan.ResidueFirst, 16), format.F32, format.F32), slicings(256, 4), add, true},
		{"cutlass split-K, bf16 workspace", call{a: format.BF16, size: [4]int{1, 5, 736, 14216}, layout: "TT",
			kernels: []string{cutlass("cutlass_75_tensorop_bf16_s1688gemm_bf16_64x64_tt_align1"), reduceKernel("__nv_bfloat16", "__nv_bfloat16")}},
			"cutlass split-K", "hopper/bf16-k8", plan.SplitK(1, 8, plan.Tiled(plan.ResidueFirst, 32), format.BF16, format.F32), 80, add, true},
		{"cutlass split-K of one slice", call{a: format.BF16, size: [4]int{1, 65, 361, 2},
			kernels: []string{cutlass("cutlass_75_tensorop_bf16_s1688gemm_bf16_128x64_nn_align1"), reduceKernel("__nv_bfloat16", "__nv_bfloat16")}},
			"cutlass split-K", "hopper/bf16-k8", plan.SplitK(1, 8, plan.Tiled(plan.ResidueFirst, 32), format.BF16, format.F32), 1, add, true},
		{"cutlass split-K, alpha and beta", call{op: "addmm", a: format.BF16, size: [4]int{1, 45, 795, 21}, c: "full", alpha: 0.75, beta: -1.5,
			kernels: []string{cutlass("cutlass_75_tensorop_s1688gemm_bf16_64x64_nt_align1"), reduceKernel("float", "__nv_bfloat16")}},
			"cutlass split-K", "hopper/bf16-k8", plan.SplitK(1, 8, plan.Tiled(plan.ResidueFirst, 32), format.F32, format.F32), 3,
			[]profile.Form{profile.FormFMABeta}, true},
		{"cutlass split-K, the 9th argument rounds before a bias", call{op: "linear", a: format.F16, size: [4]int{1, 299, 12, 8132}, layout: "NT", c: "bias",
			kernels: []string{cutlass("cutlass_80_wmma_tensorop_s161616gemm_f16_32x32_128x2_tn_align2"), reduceKernel("float", "__half")}},
			"cutlass split-K", "hopper/f16", plan.SplitK(1, 8, plan.Tiled(plan.ResidueFirst, 128), format.F32, format.F32), 61, rounded, true},
		{"cutlass split-K, a 9th argument of float does not", call{op: "linear", a: format.F32, size: [4]int{1, 116, 3, 9494}, layout: "NT", c: "bias",
			kernels: []string{cutlass("cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align1"), reduceKernel("float", "float")}},
			"cutlass split-K", "hopper/tf32", plan.SplitK(1, 4, plan.Tiled(plan.ResidueFirst, 16), format.F32, format.F32), 92, add, true},
		{"cutlass split-K, the 9th argument alone decides", call{op: "linear", a: format.F16, size: [4]int{1, 299, 12, 8132}, layout: "NT", c: "bias",
			kernels: []string{cutlass("cutlass_80_wmma_tensorop_s161616gemm_f16_32x32_128x2_tn_align2"), reduceKernelOf("__half", "__half", "float")}},
			"cutlass split-K", "hopper/f16", plan.SplitK(1, 8, plan.Tiled(plan.ResidueFirst, 128), format.F16, format.F32), 61, add, true},
		{"cutlass split-K, another 9th argument", call{op: "linear", a: format.BF16, out: format.F32, size: [4]int{1, 299, 12, 8132}, layout: "NT", c: "bias",
			kernels: []string{cutlass("cutlass_80_wmma_tensorop_s161616gemm_bf16_32x32_128x2_tn_align2"), reduceKernelOf("float", "float", "__nv_bfloat16")}},
			"cutlass split-K", "hopper/bf16", plan.SplitK(1, 8, plan.Tiled(plan.ResidueFirst, 128), format.F32, format.F32), 61, rounded, true},
		{"cutlass, bias by a later kernel", call{op: "linear", a: format.F16, size: [4]int{1, 11, 29, 2}, c: "bias",
			kernels: []string{cutlass("cutlass_75_wmma_tensorop_f16_s161616gemm_f16_32x32_64x1_tn_align1"), globalKernel}},
			"cutlass", "hopper/f16", plan.Tiled(plan.ResidueFirst, 64), 1, rounded, true},
		{"cutlass, f16 accumulation", call{op: "linear", a: format.F16, size: [4]int{1, 33, 4096, 384}, flags: cases.Flags{F16Accumulation: true},
			kernels: []string{cutlass("cutlass_80_tensorop_h16816gemm_64x64_64x6_tn_align8")}},
			"cutlass f16 accumulation", "hopper/f16-f16", plan.Tiled(plan.ResidueFirst, 64), 1, add, true},
		{"cutlass split-K, f16 accumulation", call{op: "addmm", a: format.F16, size: [4]int{1, 57, 84, 713}, c: "full", alpha: 0.5, beta: 2,
			flags:   cases.Flags{F16Accumulation: true},
			kernels: []string{cutlass("cutlass_75_wmma_tensorop_h161616gemm_32x32_64x1_nn_align1"), reduceKernel("__half", "__half")}},
			"cutlass f16 accumulation split-K", "hopper/f16-f16", plan.SplitK(1, 8, plan.Tiled(plan.ResidueFirst, 64), format.F16, format.F16), 18,
			[]profile.Form{profile.FormHalf}, true},
		{"cutlass integer", call{op: "int_mm", a: format.S8, out: format.S32, size: [4]int{1, 24, 24, 1528},
			kernels: []string{cutlass("cutlass_80_wmma_tensorop_i161616gemm_s8_forwardCompat_128x128_32x2_nn_align4")}},
			"cutlass integer", "hopper/s8", plan.Plain(), 1, add, false},
		{"cutlass f64", call{a: format.F64, size: [4]int{1, 4, 85, 68}, kernels: []string{cutlass("cutlass_80_tensorop_d884gemm_32x32_16x5_nn_align1")}},
			"cutlass f64", "hopper/f64", plan.Tiled(plan.ResidueFirst, 16), 1, add, true},
		{"cutlass simt", call{op: "addmm", a: format.F32, size: [4]int{1, 37, 154, 1}, c: "full",
			kernels: []string{cutlass("cutlass_80_simt_sgemm_128x32_8x5_nn_align1")}},
			"cutlass simt", "hopper/f32", plan.Tiled(plan.ResidueFirst, 8), 1, add, true},
		{"cutlass simt split-K", call{op: "linear", a: format.F32, size: [4]int{1, 8, 5, 3581}, layout: "NT",
			kernels: []string{cutlass("cutlass_80_simt_sgemm_64x64_8x5_tn_align1"), reduceKernel("float", "float")}},
			"cutlass simt split-K", "hopper/f32", plan.SplitK(1, 4, plan.Tiled(plan.ResidueFirst, 8), format.F32, format.F32), 57, add, true},

		{"xmma chain, f32", call{op: "baddbmm", a: format.F32, size: [4]int{12, 100, 3, 2}, c: "full", alpha: 0.5, beta: 2,
			kernels: []string{"sm80_xmma_gemm_f32f32_f32f32_f32_nt_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas"}},
			"xmma chain", "hopper/f32", plan.Tiled(plan.ResidueLast, 8), 1, []profile.Form{profile.FormFMAAlpha}, true},
		{"xmma chain, f16", call{op: "bmm", a: format.F16, size: [4]int{64, 50, 119, 8},
			kernels: []string{"sm80_xmma_gemm_f16f16_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna2_alignc2_execute_kernel__5x_cublas"}},
			"xmma chain", "cuda-core/f16", fromZero(plan.Tiled(plan.ResidueLast, 8)), 1, add, true},
		{"xmma tf32 on sm80", call{a: format.F32, size: [4]int{1, 248, 19, 226},
			kernels: []string{"sm80_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize32x32x64_stage3_warpsize2x2x1_tensor16x8x8_aligna4_alignc4_execute_kernel__5x_cublas"}},
			"xmma tf32", "hopper/tf32", plan.Plain(), 1, add, true},
		{"xmma tf32 on sm90", call{a: format.F32, size: [4]int{1, 96, 14336, 256},
			kernels: []string{"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"}},
			"xmma tf32", "hopper/tf32", plan.Plain(), 1, add, true},
		{"xmma f64", call{op: "addmm", a: format.F64, size: [4]int{1, 33, 512, 384}, c: "full",
			kernels: []string{"sm90_xmma_gemm_f64f64_f64f64_f64_tn_n_tilesize32x32x32_stage5_warpsize2x2x1_tensor16x8x16_execute_kernel__5x_cublas"}},
			"xmma f64", "hopper/f64", plan.Tiled(plan.ResidueLast, 32), 1, add, true},
		{"xmma f16 accumulation", call{a: format.F16, size: [4]int{1, 64, 64, 64}, flags: cases.Flags{F16Accumulation: true},
			kernels: []string{"sm90_xmma_gemm_f16f16_f16f16_f16_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"}},
			"xmma f16 accumulation", "hopper/f16-f16", plan.Plain(), 1, add, true},
		{"gemv2N", call{op: "mv", a: format.BF16, size: [4]int{1, 209, 1, 9},
			kernels: []string{"void gemv2N_kernel<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128, 1, 2, 4, 1, false>(int)"}},
			"gemv2N", "cuda-core/bf16", fromZero(plan.Plain()), 1, add, false},
		{"gemmk1", call{a: format.F32, size: [4]int{1, 403, 1000, 1}, kernels: []string{"void gemmk1_kernel<int, float, 256, 5, true, false>(int)"}},
			"gemmk1", "hopper/f32", plan.Plain(), 1, add, false},
		{"magma", call{a: format.F32, size: [4]int{1, 40, 10, 30}, kernels: []string{"void magma_sgemmEx_kernel<float, float, float, true, false>(int)"}},
			"magma", "hopper/f32", fromZero(plan.Plain()), 1, add, false},
		{"kernels that copy are no part of it", call{a: format.BF16, size: [4]int{1, 64, 64, 64}, kernels: []string{elementwise, "nvjet_sm90_tst_64x64_64x3_1x2_h_bz_NNT"}},
			"nvjet", "hopper/bf16", plan.Plain(), 1, add, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Choose(test.call.record(), Options{})
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
			wantScaling := map[string]profile.Scaling{"": profile.ScalingNone, "tensor": profile.ScalingTensor, "row": profile.ScalingRow}[test.call.scaling]
			if e := first.Epilogue; e.Scaling != wantScaling || e.Out != test.call.record().Out.Format {
				t.Errorf("epilogue %+v, want scaling %q", e, wantScaling)
			}
		})
	}
}

// TestSlicesTried: every width of slices that up to 400 slices give is tried once, each with the fewest slices.
func TestSlicesTried(t *testing.T) {
	for _, k := range []int{1, 7, 8, 9, 63, 64, 1000, 3200, 3201, 11528, 57608} {
		c := call{a: format.BF16, size: [4]int{1, 5, 7, k}, layout: "TN",
			kernels: []string{cutlass("cutlass_75_tensorop_s1688gemm_bf16_64x64_nt_align1"), reduceKernel("float", "__nv_bfloat16")}}
		got := Choose(c.record(), Options{})
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
		{"gemvx, launch known, lanes along x", call{a: format.F32, size: [4]int{1, 40, 1, 307}, kernels: []string{gemvx("float", true, 7)}, launches: launch(10, 1, 1, 32, 4)[:1]},
			"gemvx", []plan.Plan{plan.Contiguous(32, 64, chain, plan.CountDown(32), zero), plan.Dealt(32, 1, chain, plan.CountDown(32), zero)}, true},
		{"gemvx, launch known, lanes along y", call{a: format.F16, size: [4]int{1, 1, 40, 307}, kernels: []string{gemvx("__half", false, 7)}, launches: launch(2, 1, 1, 64, 2)[:1]},
			"gemvx", []plan.Plan{plan.Contiguous(2, 64, chain, plan.CountDown(2), zero)}, true},
		{"gemvx without a launch", call{a: format.F32, size: [4]int{1, 40, 1, 307}, kernels: []string{gemvx("float", true, 7)}},
			"gemvx", []plan.Plan{plan.Contiguous(2, 64, chain, plan.CountDown(2), zero), plan.Dealt(16, 1, chain, plan.CountDown(16), zero)}, false},
		{"gemvx split-K, launch known", call{a: format.F32, size: [4]int{1, 1495, 1, 4422}, kernels: []string{gemvx("float", false, 6), reduceKernel("float", "float")}, launches: launch(48, 1, 8, 32, 2)},
			"gemvx split-K", []plan.Plan{plan.SplitK(8, 1, plan.Dealt(2, 1, chain, plan.CountDown(2), f32), format.F32, format.F32)}, false},
		{"gemvNSP of 32 lanes", call{a: format.F32, size: [4]int{3, 1, 256, 300}, kernels: []string{"void gemvNSP_kernel<float, float, float, float, 1, 32, 4, 1024, false>(int)"}},
			"gemvNSP", []plan.Plan{plan.Dealt(32, 4, chain, plan.CountDown(32), zero)}, true},
		{"gemvNSP of 24 lanes, named 16", call{a: format.F32, size: [4]int{3, 1, 256, 300}, kernels: []string{"void gemvNSP_kernel<float, float, float, float, 1, 16, 4, 1024, false>(int)"}},
			"gemvNSP", []plan.Plan{plan.Dealt(24, 4, chain, plan.CountDown(24), zero)}, true},
		{"gemv2T", call{a: format.F32, size: [4]int{1, 1, 3792, 785}, kernels: []string{gemv2T}},
			"gemv2T", []plan.Plan{plan.Dealt(16, 1, restarted(32), plan.Forward(), zero)}, true},
		{"gemmSN_NN", call{a: format.F32, size: [4]int{8, 4, 192, 1500}, kernels: sn("NN", "128, 2, 4, 8, 4, 4, false")},
			"gemmSN_NN", []plan.Plan{{Split: &plan.Split{Slices: 2, Grain: 1, Of: ptr(restarted(256)), Merge: zero}}}, true},
		{"gemmSN_TN", call{a: format.F16, size: [4]int{1, 2, 17, 2084}, layout: "NT", kernels: sn("TN", "128, 16, 2, 4, 2, 2, true")},
			"gemmSN_TN", []plan.Plan{plan.Dealt(16, 1, restarted(16), plan.Forward(), zero)}, true},
		{"dot of two vectors along k, launch known", call{a: format.F32, size: [4]int{1, 4, 1, 19800}, kernels: dot, launches: launch(62, 1, 4, 128, 1)},
			"dot", []plan.Plan{dotPlan(62, 2)}, true},
		{"dot with a strided vector", call{a: format.BF16, size: [4]int{1, 33, 1, 5120}, layout: "TN", kernels: dot},
			"dot", []plan.Plan{dotPlan(31, 1), dotPlan(64, 1)}, false},
		{"largek", call{op: "linear", a: format.F32, size: [4]int{1, 96, 768, 1024}, layout: "NT", c: "bias",
			kernels: []string{"void scal_kernel<float, float, 1, true, 6, 5, 5, 3>(int)", "void sgemm_largek_lds64<true, false, 5, 5, 4, 4, 4, 34>(int)", globalKernel}},
			"largek", []plan.Plan{{Split: &plan.Split{Slices: 3, Grain: 8, Of: &chain, Merge: f32}}}, false},
		{"xmma in two launches", call{a: format.F32, size: [4]int{1, 256, 2048, 5120},
			kernels: []string{"sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas",
				"sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_split_k_kernel__5x_cublas"}},
			"xmma chain split-K", []plan.Plan{plan.Strided(8, 8, plan.Tiled(plan.ResidueLast, 8), zero)}, false},
		{"xmma in one launch that splits", call{a: format.F64, size: [4]int{1, 12, 512, 8192},
			kernels: []string{"sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize32x32x32_stage5_warpsize2x2x1_tensor16x8x16_execute_kernel__5x_cublas"}, launches: launch(1, 16, 7, 128, 1)[:1]},
			"xmma f64", []plan.Plan{plan.Buffered(7, 32, 4, plan.Tiled(plan.ResidueLast, 32), plan.In(format.F64))}, false},
		{"cutlass in one launch that splits", call{a: format.BF16, size: [4]int{1, 3, 11008, 768}, layout: "TN",
			kernels: []string{cutlass("cutlass_75_tensorop_bf16_s1688gemm_bf16_64x64_nt_align1")}, launches: launch(1, 172, 2, 128, 1)[:1]},
			"cutlass", []plan.Plan{plan.SerialK(2, 8, plan.Tiled(plan.ResidueFirst, 32))}, true},
		{"cutlass in one launch that does not split", call{a: format.BF16, size: [4]int{1, 3, 11008, 768}, layout: "TN",
			kernels: []string{cutlass("cutlass_75_tensorop_bf16_s1688gemm_bf16_64x64_nt_align1")}, launches: launch(1, 172, 1, 128, 1)[:1]},
			"cutlass", []plan.Plan{plan.Tiled(plan.ResidueFirst, 32)}, true},
		{"cutlass without a launch", call{a: format.BF16, size: [4]int{1, 3, 11008, 768}, layout: "TN",
			kernels: []string{cutlass("cutlass_75_tensorop_bf16_s1688gemm_bf16_64x64_nt_align1")}},
			"cutlass", []plan.Plan{plan.Tiled(plan.ResidueFirst, 32), plan.SerialK(2, 8, plan.Tiled(plan.ResidueFirst, 32)), plan.SerialK(24, 8, plan.Tiled(plan.ResidueFirst, 32))}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Choose(test.call.record(), Options{})
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
	c := call{op: "addmm", a: format.F32, size: [4]int{1, 4, 29, 15}, layout: "NT", c: "full", alpha: 0.5, beta: 2,
		kernels: []string{"void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true>(int)"}}
	got := Choose(c.record(), Options{})
	if len(got.Candidates) != 1 || !got.Determined || got.Candidates[0].Profile.Epilogue.Form != profile.FormAlphaInA {
		t.Errorf("%+v", got)
	}
	gemv := call{op: "addmm", a: format.F32, size: [4]int{1, 3792, 1, 785}, layout: "NT", c: "full", alpha: 0.5, beta: 2,
		kernels: []string{"void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, false>(int)"}}
	for _, size := range [][4]int{{1, 3792, 1, 785}, {1, 1, 3792, 785}} { // the vector is B, then A
		gemv.size = size
		want := map[int]profile.Form{1: profile.FormAlphaInB, 3792: profile.FormAlphaInA}[size[2]]
		if got := Choose(gemv.record(), Options{}); len(got.Candidates) != 1 || got.Candidates[0].Profile.Epilogue.Form != want {
			t.Errorf("%v: %d candidates, want %s; %s", size, len(got.Candidates), want, got.Unknown)
		}
	}
	c.alpha = 1
	if got = Choose(c.record(), Options{}); len(got.Candidates) != 1 || got.Candidates[0].Profile.Epilogue.Form != profile.FormFMABeta {
		t.Errorf("%+v", got)
	}
}

// TestDeclined: what cannot be computed as any row says is declined with a reason, never guessed.
func TestDeclined(t *testing.T) {
	plain := func(kernels ...string) call {
		return call{a: format.BF16, size: [4]int{1, 8, 8, 8}, kernels: kernels}
	}
	nvjet := "nvjet_sm90_tst_64x64_64x3_1x2_h_bz_NNT"
	for _, test := range []struct {
		call         call
		family, want string
	}{
		{plain(elementwise), "unnamed", "none of the recorded kernels multiplies"},
		{plain(reduceKernel("float", "float"), globalKernel), "unnamed", "none of the recorded kernels multiplies"},
		{plain(nvjet, "void scal_kernel<float, float>(int)"), "several launches", "several kernels share the multiplication (" + nvjet + ", scal_kernel)"},
		{plain(nvjet, nvjet), "several launches", "several kernels share the multiplication"},
		{plain("void a<int>(int)", "void b<int>(int)"), "several launches", "several kernels of no known family share the multiplication (a, b)"},
		{plain("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT"), "nvjet", "no plan of this version fits nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT"},
		{plain("void dot_kernel<float, 128, 0>(int)"), "", "no plan of this version fits dot_kernel"},
		{plain("void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_99999999999999999999x5_nn_align1>(x)"), "cutlass simt", "which no kernel has"},
		{plain("void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_0x5_nn_align1>(x)"), "cutlass simt", "which no kernel has"},
		{plain(nvjet, reduceKernel("int", "float")), "nvjet split-K", "do not go together"},
		{call{a: format.F64, size: [4]int{1, 8, 8, 8}, kernels: []string{nvjet}}, "", "no plan of this version fits " + nvjet},
		{call{a: format.F16, size: [4]int{1, 8, 8, 8}, kernels: []string{nvjet}}, "", "no plan of this version fits " + nvjet},
		{call{a: format.S8, out: format.S32, size: [4]int{1, 8, 8, 8}, kernels: []string{nvjet}}, "", "no plan of this version fits " + nvjet},
		{plain("void gemmSN_NN_kernel<float>(int)"), "gemmSN_NN", "is not known of this case"},
	} {
		got := Choose(test.call.record(), Options{})
		if test.family != "" && got.Family != test.family || !strings.Contains(got.Unknown, test.want) || len(got.Candidates) != 0 {
			t.Errorf("%v:\n got family %q, %d candidates, %q\nwant %q, %q", test.call.kernels, got.Family, len(got.Candidates), got.Unknown, test.family, test.want)
		}
	}
}

// TestUnknownNames: a name of no known family is no error; the shape and the formats are what is left.
func TestUnknownNames(t *testing.T) {
	base := call{a: format.BF16, size: [4]int{1, 9, 8, 9}}
	blind := Choose(base.record(), Options{Blind: true})
	if blind.Family != "unnamed" || len(blind.Candidates) < 5 || blind.Determined || !blind.Uncertain {
		t.Fatalf("blind: family %q, %d candidates", blind.Family, len(blind.Candidates))
	}
	for _, kernels := range [][]string{nil, {""}, {"void my_kernel<float>(float*)"}, {"nvjet_sm100_tst_64x64_64x3_1x2_h_bz_NNT"}, {"my_nvjet_sm90_tst_64x64"},
		{"nvjet_sm90_hhh_64x8_64x16_4x1_v_bz_NNT"}, {"ampere_bf16_s16816gemm_bf16_64x64_ldg8_f2f_stages_64x5_tn"}, {strings.Repeat("<", 10000)}} {
		c := base
		c.kernels = kernels
		got := Choose(c.record(), Options{})
		if got.Unknown == "" && len(got.Candidates) != len(blind.Candidates) || got.Determined {
			t.Errorf("%.60v: %d candidates, determined %v, want %d; %s", kernels, len(got.Candidates), got.Determined, len(blind.Candidates), got.Unknown)
		}
	}
	// What a name says is not looked at.
	c := base
	c.kernels = []string{"nvjet_sm90_tst_64x64_64x3_1x2_h_bz_NNT"}
	if got := Choose(c.record(), Options{Blind: true}); len(got.Candidates) != len(blind.Candidates) {
		t.Errorf("%d candidates, want %d", len(got.Candidates), len(blind.Candidates))
	}
}

// TestNoTwoAlike: no two candidates make the same tree with the same step and epilogue, whatever was asked.
func TestNoTwoAlike(t *testing.T) {
	for _, k := range []int{1, 2, 3, 7, 8, 9} {
		for _, x := range []call{{a: format.F16}, {a: format.F32, flags: cases.Flags{AllowTF32: true}}, {a: format.F64}, {a: format.F16, c: "full", alpha: 0.5, beta: 2}} {
			x.size = [4]int{1, 1, 3, k}
			seen := map[string]string{}
			for _, c := range Choose(x.record(), Options{Blind: true}).Candidates {
				tree, err := c.Profile.Plan.Expand(k)
				if err != nil {
					t.Fatal(err)
				}
				key := string(appendTree(nil, tree)) + string(c.Profile.Epilogue.Form) + c.Profile.Step.Describe()
				if seen[key] != "" {
					t.Errorf("%v, K = %d: %s is %s", x.a, k, c.Profile.Plan.Describe(), seen[key])
				}
				seen[key] = c.Profile.Plan.Describe()
			}
		}
	}
}

func scalarOf(v float32) cases.Scalar {
	return cases.Scalar{Format: format.F32, Bits: uint64(math.Float32bits(v))}
}
