package verify

import (
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// splitKernels are a CUTLASS split-K, whose number of slices is searched for.
var splitKernels = []string{
	"void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_64x64_64x4_nn_align8>(x)",
	"void cublasLt::splitKreduce_kernel<32, 16, int, float, __half, float, __half, true, __half, __half>(x)",
}

var f16Operands = map[string]any{"a": "f16", "b": "f16", "out": "f16", "layout": "NT"}

func f16Record(kernels []string, extra map[string]any) *record {
	r := newRecord(kernels, f16Operands)
	for name, v := range extra {
		r.line[name] = v
	}
	return r
}

// TestNothingSeenIsNoEvidence: elements that were never compared with a wrong plan's, or that never differed from them, do
// not tell plans apart, however many there are.
func TestNothingSeenIsNoEvidence(t *testing.T) {
	for _, tested := range []int{0, 1, 56, 1 << 20} {
		if bits := evidence(0, tested, 5, 40<<20); bits > 0 {
			t.Errorf("no disagreement in %d elements is worth %g bits", tested, bits)
		}
	}
	if bits := evidence(30, 32, 5, 512); bits < 1000 {
		t.Errorf("nearly all disagree: %g bits", bits)
	}
	if bits := evidence(1, 8192, 5, 8192); bits > wantedBits {
		t.Errorf("one of 8192 disagrees: %g bits", bits)
	}
}

// TestMajority: zeros, NaNs and any one pattern repeated say nothing.
func TestMajority(t *testing.T) {
	for _, c := range []struct {
		out  []uint16
		want int
	}{{nil, 0}, {[]uint16{7}, 1}, {[]uint16{7, 7, 7, 7}, 4}, {[]uint16{7, 1, 7, 2, 7}, 3}, {[]uint16{1, 7, 7, 2, 7, 7, 3}, 4}, {[]uint16{7, 7, 1, 2}, 0}, {[]uint16{1, 2, 3}, 0}} {
		var out []byte
		for _, v := range c.out {
			out = binary.LittleEndian.AppendUint16(out, v)
		}
		if got := majority(out, 2); got != c.want {
			t.Errorf("%v: %d, want %d", c.out, got, c.want)
		}
	}
}

// TestAllNaN: random bits and a long K make every element a NaN under every plan. The hash agrees; that is no evidence.
func TestAllNaN(t *testing.T) {
	r := f16Record(splitKernels, map[string]any{"kind": "bits", "k": 4096, "m": 64, "n": 64})
	r.hash(r.compute(t, "hopper/f16", plan.Plain(), profile.FormAdd))
	if v := r.wants(t, "all NaN", Undecided, "4096 of 4096 elements of the output are the same"); v.EvidenceBits != 0 {
		t.Errorf("%g bits of evidence from NaNs alone", v.EvidenceBits)
	}
}

// TestHashAlone: where a record holds no elements, the plans not run whole are tried on those of the output that agrees, so
// that a verdict does not list plans nobody looked at, nor take the first for the only one.
func TestHashAlone(t *testing.T) {
	r := f16Record(splitKernels, map[string]any{"out": "f32", "kind": "cancel", "k": 1024, "m": 40, "n": 40})
	three := plan.SplitK(3, 64, plan.Tiled(plan.ResidueFirst, 64), format.F32, format.F32)
	r.hash(r.compute(t, "hopper/f16", three, profile.FormAdd))
	v := r.wants(t, "three slices", Exact, "")
	if v.PlansTried < 5 || len(v.Others) != 0 || v.EvidenceBits < 1000 {
		t.Errorf("%d plans tried, %d others, %g bits: %s", v.PlansTried, len(v.Others), v.EvidenceBits, v.Plan)
	}
	// One slice is the first plan tried: nothing is rejected before it agrees.
	one := plan.SplitK(1, 64, plan.Tiled(plan.ResidueFirst, 64), format.F32, format.F32)
	r.hash(r.compute(t, "hopper/f16", one, profile.FormAdd))
	if v := r.wants(t, "one slice", Exact, ""); len(v.Others) != 0 {
		t.Errorf("%d others", len(v.Others))
	}
}

// TestVerdictIsShort: hundreds of plans agree, and the verdict still fits the C interface's 64 KiB.
func TestVerdictIsShort(t *testing.T) {
	r := f16Record(splitKernels, map[string]any{"m": 1, "n": 1, "k": 200_000, "kind": "tiny"})
	r.hash(r.compute(t, "hopper/f16", plan.Plain(), profile.FormAdd))
	v := r.replay(t)
	text, err := json.Marshal(v)
	if err != nil || len(text) > 32<<10 || len(v.Others) > maxOthers {
		t.Errorf("%d bytes, %d others, %v", len(text), len(v.Others), err)
	}
}

// TestAllZeros: operands so small that every element is zero. The bits are right, and of other operands too: the evidence
// is one element's, and the verdict says so.
func TestAllZeros(t *testing.T) {
	r := newRecord([]string{plainKernel}, map[string]any{"kind": "tiny"})
	r.hash(make([]byte, 2*32*48))
	if v := r.wants(t, "all zeros", Exact, "all 1536 elements of the output are the same"); v.EvidenceBits != 16 {
		t.Errorf("%g bits of evidence from zeros alone", v.EvidenceBits)
	}
}
