package rules

import (
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/cases/casestest"
	"github.com/hawkeye-audit/hawkeye/core/format"
)

const goldenPath = "../../tests/goldens/h200-torch2.11.jsonl"

func readGolden(t testing.TB) *cases.Golden {
	t.Helper()
	g, err := cases.ReadGolden(goldenPath)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestGoldenNames: every name of the golden set is of a known family, and what it says is found.
func TestGoldenNames(t *testing.T) {
	families := map[string]int{}
	seen := map[string]bool{}
	for _, c := range readGolden(t).Cases {
		for _, name := range c.Kernels {
			if seen[name] {
				continue
			}
			seen[name] = true
			k := Parse(name)
			families[k.Family]++
			switch {
			case k.Role == RoleUnknown:
				t.Errorf("%s: %s is of no known family", c.ID, name)
			case (k.Family == "nvjet" || k.Family == "xmma") && (k.Tile[0] == 0 || k.Tile[1] == 0 || k.Tile[2] == 0):
				t.Errorf("%s: tile %v", name, k.Tile)
			case k.Family == "cutlass" && (k.Tile[0] == 0 || k.Tile[1] == 0 || k.Op == ""):
				t.Errorf("%s: tile %v, op %q", name, k.Tile, k.Op)
			case strings.HasPrefix(k.Family, "gem") && (k.Threads < 32 || k.Threads > 1024 || len(k.Args) < 8):
				t.Errorf("%s: %d threads, arguments %q", name, k.Threads, k.Args)
			case k.Family == "splitKreduce" && (k.WorkFormat == format.Invalid || k.Ninth == format.Invalid):
				t.Errorf("%s: workspace %v, 9th %v", name, k.WorkFormat, k.Ninth)
			}
		}
	}
	for _, want := range []string{"nvjet", "cutlass", "xmma", "gemvx", "gemvNSP", "gemv2N", "gemmk1", "gemmSN_NN", "gemmSN_TN", "dot",
		"largek", "reduce_1Block", "splitKreduce", "globalKernel", "scal", "copy"} {
		if families[want] == 0 {
			t.Errorf("no name of the set is of family %s", want)
		}
	}
	if families["nvjet"] < 100 || families["cutlass"] < 80 || len(families) != 16 {
		t.Errorf("names by family: %v", families)
	}
}

// TestParse: the parts of names.
func TestParse(t *testing.T) {
	k := Parse("nvjet_sm90_qqtst_64x32_128x16_2x4_h_bz_algo2_splitK_TNT")
	if k.Family != "nvjet" || k.Letters != "qqtst" || k.Tile != [3]int{64, 32, 128} || !k.Promoted || !k.SplitK || k.Bias || k.RoundedAddend || k.ScaledAddend {
		t.Errorf("%+v", k)
	}
	k = Parse("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align2>(cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align2::Params)")
	if k.Family != "cutlass" || k.Op != "s161616" || k.Tile != [3]int{32, 32, 128} || strings.Contains(k.Text, "Kernel2") {
		t.Errorf("%+v", k)
	}
	k = Parse("void cutlass::Kernel2<cutlass_75_tensorop_s1688gemm_bf16_64x64_nt_align1>(x)")
	if k.Op != "s1688" || k.Tile != [3]int{64, 64, 0} {
		t.Errorf("%+v", k)
	}
	k = Parse("sm90_xmma_gemm_f64f64_f64f64_f64_tn_n_tilesize64x32x16_stage3_warpsize2x2x1_tensor16x8x16_aligna8_alignc8_execute_split_k_kernel__5x_cublas")
	if k.Family != "xmma" || k.Tile != [3]int{64, 32, 16} || k.Warps != "2x2x1" || k.Op != "tensor16x8x16" || !k.SplitK {
		t.Errorf("%+v", k)
	}
	k = Parse(gemvx("__half", true, 7))
	if k.Family != "gemvx" || k.Threads != 128 || k.Args[8] != "true" || k.Args[2] != "__half" || len(k.Args) != 13 {
		t.Errorf("%+v", k)
	}
	k = Parse(casestest.ReduceKernelOf("__half", "float", "__nv_bfloat16"))
	if k.Family != "splitKreduce" || k.Role != RoleMerge || k.WorkFormat != format.F16 || k.Ninth != format.BF16 {
		t.Errorf("%+v", k)
	}
	if k = Parse("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>(int)"); k.Role != RoleUnknown {
		t.Errorf("an addition is taken for %+v", k)
	}
}

// FuzzParse: names come from files of others.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"", "void ", "<", ">(", "std::enable_if<", "cutlass::Kernel2<>(x)", gemvx("float", true, 9), casestest.ReduceKernel("float", "x"),
		"nvjet_sm90_tst_99999999999999999999x1_1x1_", strings.Repeat("<", 5000), strings.Repeat("(", 5000)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		k := Parse(name)
		if k.Role == "" || k.Family == "" && k.Role != RoleUnknown {
			t.Errorf("%q: %+v", name, k)
		}
		for _, size := range append(k.Tile[:], k.Threads) {
			if size < 0 || size > largestSize {
				t.Errorf("%q: %+v", name, k)
			}
		}
		c := call{A: format.F16, Size: [4]int{1, 3, 5, 70}, Kernels: []string{name}}
		got := Choose(c.Record(), Options{})
		if (got.Unknown == "") != (len(got.Candidates) > 0) {
			t.Errorf("%q: %d candidates, %q", name, len(got.Candidates), got.Unknown)
		}
	})
}
