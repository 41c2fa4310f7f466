package simd

import (
	"math/bits"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

//go:generate go run -C _gen ./fused -level avx2 -kernel step -out ../fused_avx2_amd64.s -stubs ../fused_avx2_amd64.go -pkg simd
//go:generate go run -C _gen ./fused -level avx512 -kernel step -out ../fused_avx512_amd64.s -stubs ../fused_avx512_amd64.go -pkg simd
//go:generate go run -C _gen ./fused -level avx2 -kernel pack -out ../pack_fused_avx2_amd64.s -stubs ../pack_fused_avx2_amd64.go -pkg simd
//go:generate go run -C _gen ./fused -level avx512 -kernel pack -out ../pack_fused_avx512_amd64.s -stubs ../pack_fused_avx512_amd64.go -pkg simd

// # Why the fast path is exact
//
// One step is d = RZ(trunc(c) + Σ trunc(a·b)) over a group of G products, trunc cutting toward zero to multiples of
// 2^(E-F), E the largest of the nonzero products' exponents ea+eb (unnormalised: a subnormal keeps its format's least one)
// and of c's (docs/arithmetic.md). The kernels work on scaled numbers: each panel's elements times a power of two of its
// own (2^shift), c times the product of both (2^α), d divided by it. Everything below is about scaled numbers unless it
// says real; la, ha, lb, hb are the least and greatest exponents of the panels' nonzero elements. Per lane the kernels do
//
//	f = max(clamp, bytes of ea + eb, field of c)   f = E + 127: an f32's exponent field, so 2^E is f << 23
//	s = (F + 127 - f) << 23                        F - E in an exponent's place
//	N = int(c + s) + Σ int(a·b + s)                s added to the bits, int truncates; N is the exact sum over 2^(E-F)
//	d = float(N) - s                               float rounds toward zero, s is subtracted from the bits
//
// which is the step if (every line is checked by admit, or by the kernel on c before it changes anything)
//
//  1. nothing is a NaN or an infinity: the panels' flag, and the range of c;
//  2. the panels' scaled values are exact and normal, as are their products: la + lb, less the stored mantissa bits of each
//     operand that may hold subnormals, at least -126. A product has at most 24 significant bits by the formats, so that
//     a·b does not round, whatever the rounding mode;
//  3. the exponent bytes add without wrapping: an element's is e + 63 in A and e + 64 in B, where packing makes e at most
//     top ≤ 0 and e ≥ -126 bounds it from below (-63, -62); the byte of a zero is -64. So a sum lies in [-128, 127], and
//     one with a zero is at most 0, below the clamp F + 1: a zero takes no part;
//  4. the clamp, E ≥ F - 126, changes nothing. Where a group has a nonzero product E is at least la + lb, and la + lb ≥
//     F - 126 is required. Where it has none, d = trunc(c), and the clamp matters only to a nonzero c of a lower exponent.
//     No c on entry is that low; such a c came out of an earlier group with nonzero products, is a multiple of
//     2^(la+lb-F), hence of 2^(clamp-F), has no more bits than a result keeps, and passes unchanged;
//  5. E ≤ F, so that 0 ≤ s ≤ 126·2^23: |c| < 2^F on entry, and K products of less than 4·2^(2·top) each add less than 2^F
//     since 4·FusedMaxK·2^(2·top) ≤ 2^F; all later |c| < 2^(F+1). Adding s to the bits of a normal number below 2^(F+2)
//     multiplies it by 2^(F-E) (the field stays in range: the scaled term is below 2^(F+2)); added to those of a zero of
//     either sign it makes a number of at most 2^-1, which truncates to 0;
//  6. N fits: |N| < (4·G + 2)·2^F, at most 2^31, or else the significands of each group of each lane of B sum to at most
//     S with (2·S + 2)·2^F ≤ 2^31 (a significand of A is below 2); where neither holds the kernel splits every eight
//     products' sum (at most 32·2^F < 2^31) into two halves of 16 bits, whose sums convert exactly, and joins them with
//     one multiply-add rounded toward zero;
//  7. d - s: a nonzero float(N) has a field of at least 127, s at most 126 there: no borrow. Zero gives zero since the
//     subtraction saturates 16-bit words and s has bits only in the upper one. So a zero sum is +0;
//  8. real results are normal f32, so that scaling and unscaling c is exact and f32's own limits play no part: a nonzero d
//     is a multiple of 2^(E-F) with E ≥ la + lb, real la + lb - F ≥ -126 is required, or else it is a c cut to fewer bits,
//     and c on entry is zero or normal; real |c| < 2^127 on entry and 4·K·2^(ha+hb) ≤ 2^127, so that |d| < 2^128;
//  9. the least exponent an alignment may use (a step's floor) is at most -126: real E is never less, by 8. Steps with a
//     higher floor must not come here.
//
// Padding is zeros, which take no part, so that a short last group is a group of fewer products, as it should be.

// FusedShape is the fused step's arithmetic as the kernels take it: toward-zero alignment and rounding, an f32 accumulator,
// an exponent floor (if any) of at most -126.
type FusedShape struct {
	Group          int // G: products summed together: 4, 8, 16 or 32
	Fraction       int // F: terms are aligned to multiples of 2^(E-F): 13 to 25
	ResultFraction int // fraction bits of a result: 23, or fewer
}

// FusedMaxK is the longest strip a panel holds, a multiple of every group.
const FusedMaxK = 512

// fusedRows is how many rows of A a tile has. They hide each other's latency, and share a group of B in the first cache.
const fusedRows = 16

// Fused is one level's kernel.
type Fused struct {
	Level Level
	MR    int // rows of A a tile takes
	NR    int // columns of B
	KC    int // a strip length, a multiple of every group, at which the panels stay in the second cache
}

var fusedKernels = map[Level]*Fused{
	Portable: {Level: Portable, MR: fusedRows, NR: 32, KC: 256},
	AVX2:     {Level: AVX2, MR: fusedRows, NR: 32, KC: 256},
	AVX512:   {Level: AVX512, MR: fusedRows, NR: 64, KC: 256},
}

// FusedKernel is level l's kernel, nil where it has none.
func FusedKernel(l Level) *Fused { return fusedKernels[l] }

// FusedSupports tells whether the kernels know the step. They still decline tiles that they cannot prove exact.
func FusedSupports(a, b format.Format, s FusedShape) bool {
	_, knowA := fusedFormats[a]
	_, knowB := fusedFormats[b]
	return knowA && knowB && a != format.F32 && b != format.F32 && s.valid()
}

func (s FusedShape) valid() bool {
	switch s.Group {
	case 4, 8, 16, 32:
	default:
		return false
	}
	return s.Fraction >= 13 && s.Fraction <= 25 && s.ResultFraction >= 1 && s.ResultFraction <= 23
}

// top is the greatest scaled exponent of a panel's elements: low enough to leave c 25 binades above the products.
func (s FusedShape) top() int { return min(0, (s.Fraction-25)/2) }

// The kernels' variants.
const (
	fusedPlain = iota
	fusedCut   // results keep fewer bits than f32
	fusedWide  // sums may pass 31 bits; cuts too
)

// fusedConstants are the numbers a kernel works with; the generator knows the layout.
type fusedConstants struct {
	scale   uint32 // 2^α, bits of an f32
	unscale uint32 // 2^-α
	least   uint32 // the least magnitude, as bits, that a nonzero real c may have
	span    uint32 // how many magnitudes from there on it may have
	align   uint32 // (F + 127) << 23
	clamp   uint32 // the exponent byte of the clamp, four times
	cut     uint32 // mask of the bits a result keeps
	// What is the same in every call.
	exponent uint32 // the bits of an f32's exponent
	low      uint32 // 2^16 - 1
	split    uint32 // 2^16, bits of an f32
}

// Run continues the chains of an MR×NR tile of c, whose rows lie ldc floats apart, through the K of the panels. It
// computes the panels' lanes only, but c must hold the whole tile: padding of a live row may be overwritten. It reports
// whether it did: false means that it could not prove the result exact and has changed no element in a panel's lane. The
// panels must have been packed by f for s; they are only read, so that several calls may share them.
func (f *Fused) Run(c []float32, ldc int, a, b *FusedPanel, s FusedShape) bool {
	if a.lanes == 0 || b.lanes == 0 || a.k == 0 && b.k == 0 {
		return true
	}
	k, mode, ok := f.admit(a, b, s)
	if !ok {
		return false
	}
	_ = c[(a.lanes-1)*ldc+f.NR-1]
	lanes := f.NR / 4
	vectors := (b.lanes + lanes - 1) / lanes
	if vectors == 3 {
		vectors = 4
	}
	if live := vectors * lanes; b.lanes < live {
		for r := range a.lanes { // whatever the padding held must not make the kernel decline
			clear(c[r*ldc+b.lanes : r*ldc+live])
		}
	}
	return fusedRun(f.Level, mode, vectors, &c[0], ldc*4, a.lanes, a.start(), a.stride, b.start(), b.padded/s.Group, s.Group, &k)
}

// admit checks what the panels' summaries must satisfy; the numbers are those of the proof above.
func (f *Fused) admit(a, b *FusedPanel, s FusedShape) (k fusedConstants, mode int, ok bool) {
	if a.shape != s || b.shape != s || a.k != b.k || a.level != f.Level || b.level != f.Level || a.columns || !b.columns {
		return k, 0, false
	}
	if a.refused || b.refused { // 1
		return k, 0, false
	}
	F := s.Fraction
	clamp := F - 126
	alpha := a.shift + b.shift
	least, greatest := a.least+b.least, a.greatest+b.greatest
	if a.leastNormal < -126 || b.leastNormal < -126 || a.leastNormal+b.leastNormal < -126 { // 2
		return k, 0, false
	}
	if least < clamp { // 4
		return k, 0, false
	}
	if least-alpha-F < -126 || greatest-alpha+2+bits.Len(uint(a.k-1)) > 127 { // 8
		return k, 0, false
	}
	if alpha < -126 || alpha > 126 {
		return k, 0, false
	}
	low, high := max(-126, clamp-alpha), min(127, F-alpha) // 4, 5, 8: real c in [2^low, 2^high)
	if low < high {
		k.least = uint32(low+127) << 23
		k.span = uint32(high-low) << 23
	}
	k.scale, k.unscale = uint32(127+alpha)<<23, uint32(127-alpha)<<23
	k.align = uint32(F+127) << 23
	k.clamp = uint32(clamp+127) * 0x01010101
	k.cut = ^uint32(0) << (23 - s.ResultFraction)
	k.exponent, k.low, k.split = 0x7F800000, 0xFFFF, 143<<23
	if s.ResultFraction < 23 {
		mode = fusedCut
	}
	if (4*s.Group+2)<<F > 1<<31 { // 6
		significands := uint64(s.Group)<<23 + uint64(b.crowd) // at most, over 2^23: each is at most 1 and its fraction
		if 2*significands > (1<<31>>F-2)<<23 {
			mode = fusedWide
		}
	}
	return k, mode, true
}

// start is the panel's first byte.
func (p *FusedPanel) start() *byte { return unsafe.SliceData(p.data) }
