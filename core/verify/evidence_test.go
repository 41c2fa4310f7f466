package verify

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
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

// evidenceOf makes a replay of an output format for the evidence's functions.
func evidenceOf(f format.Format, count int) *replay {
	return &replay{c: &cases.Case{Out: cases.Output{Format: f}}, count: count}
}

// TestNothingSeenIsNoEvidence: elements that were never compared with a wrong plan's, or that never differed from them, do
// not tell plans apart, however many there are.
func TestNothingSeenIsNoEvidence(t *testing.T) {
	r := evidenceOf(format.BF16, 1<<20)
	for _, n := range []int{0, 1, 56, 5000} {
		for _, plans := range []int{0, 1, 7} {
			s := seen{}
			for i := range n {
				want := uint64(0x3f80 + i%7)
				var values []uint64
				for range plans {
					values = append(values, want)
				}
				s.want, s.values = append(s.want, want), append(s.values, values)
			}
			if bits := r.chance(s); bits != 0 {
				t.Errorf("no disagreement of %d plans in %d elements is worth %g bits", plans, n, bits)
			}
		}
	}
}

// TestSpreadBits: the estimate is that of the densest neighbourhood, and one far plan is worth its distance.
func TestSpreadBits(t *testing.T) {
	log := func(x float64) float64 { return math.Log2(x) }
	for _, test := range []struct {
		distances []float64
		want      float64
	}{
		{[]float64{0}, 0},
		{[]float64{10}, 10},
		{[]float64{0, 0, 0}, 0},
		{[]float64{0, 5, 5}, 1},                    // two of four would have it
		{[]float64{5, 5, 5}, 5},                    // three at a distance: the fourth too
		{[]float64{5, 5, 20}, 5 - log(3.0/4)},      // nearer ones count
		{[]float64{1, 20, 20, 20}, 1 - log(2.0/5)}, // one near of four
	} {
		if got := spreadBits(test.distances); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("%v: %g, want %g", test.distances, got, test.want)
		}
	}
}

// TestChance: what plans have in common with the record says nothing, where they are spread says much, repeats count once,
// and an element is never worth more than its bits.
func TestChance(t *testing.T) {
	for _, test := range []struct {
		name     string
		f        format.Format
		elements [][]uint64 // the recorded value, then the plans'
		low, hi  float64
	}{
		{"one far plan, one element", format.F32, [][]uint64{{0x3f800000, 0x3f800000 + 500}}, 9, 11},
		{"twice", format.F32, [][]uint64{{0x3f800000, 0x3f800000 + 500}, {0x3f800001, 0x3f800000 + 400}}, 18, 21},
		{"a repeated element", format.F32, [][]uint64{{0x3f800000, 0x3f800000 + 500}, {0x3f800000, 0x3f800000 + 500}}, 9, 11},
		{"a NaN is no more than the bits", format.F16, [][]uint64{{0x3c00, 0x7fff}}, 16, 16},
		{"zeros of both signs are a step apart", format.F16, [][]uint64{{0, 0x8000}}, 1, 2},
		{"half agree", format.F32, [][]uint64{{9, 9, 9, 1 << 20, 1 << 20}}, 0.5, 1.5},
	} {
		var s seen
		for _, e := range test.elements {
			s.want, s.values = append(s.want, e[0]), append(s.values, e[1:])
		}
		if got := evidenceOf(test.f, 100).chance(s); got < test.low || got > test.hi {
			t.Errorf("%s: %g bits, want %g to %g", test.name, got, test.low, test.hi)
		}
	}
}

// TestOneChangeAway: only a small change of one element of a small output makes plans neighbours.
func TestOneChangeAway(t *testing.T) {
	for _, test := range []struct {
		count, differing int
		ulps             uint64
		want             bool
	}{
		{100, 1, 1, true}, {100, 1, 256, true}, {100, 1, 257, false}, {100, 2, 1, false}, {1 << 20, 1, 256, true}, {1 << 28, 1, 200, false}, {1, 0, 1, false},
	} {
		g := &gap{differing: test.differing, bits: ulpBits(test.ulps)}
		if got := evidenceOf(format.F32, test.count).near(g); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
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

// TestAllNaN: random bits and a long K make every element a NaN under every plan. The bits are right, and worth one element.
func TestAllNaN(t *testing.T) {
	r := f16Record(splitKernels, map[string]any{"kind": "bits", "k": 4096, "m": 64, "n": 64})
	r.hash(r.compute(t, "hopper/f16", plan.Plain(), profile.FormAdd))
	if v := r.wants(t, "all NaN", Exact, "all 4096 elements of the output are the same"); v.EvidenceBits != 16 {
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
	if v.PlansTried < 5 || len(v.Others) != 0 || v.EvidenceBits < wantedBits {
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
