package simd

import (
	"math"
	"math/bits"
	"sync"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

//go:generate go run -C _gen ./far -level avx2 -out ../far_avx2_amd64.s -stubs ../far_avx2_amd64.go -pkg simd
//go:generate go run -C _gen ./far -level avx512 -out ../far_avx512_amd64.s -stubs ../far_avx512_amd64.go -pkg simd

// The far kernels run the tiles that the fused kernels decline because exponents lie too far apart: they hold every
// exponent as an int32 and scale by multiplying, at about two thirds of the speed.
//
// # Why they are exact
//
// Numbers are unscaled; la, ha, lb, hb are the least and greatest exponents (unnormalised) of the panels' nonzero
// elements, F and G the step's. For every group and element the kernels compute
//
//	E = max(F-126, exponents of products, exponent field of c - 127)
//	N = int(c·2^(F-E)) + Σ int(a·b·2^(F-E))        int truncates toward zero
//	d = float(N)·2^(E-F), float rounding toward zero, its low bits cut where results keep fewer
//
// which is the step, if
//
//  1. no operand and no c is a NaN or an infinity, nor c subnormal;
//  2. products are exact in f32: at most 24 significant bits by the formats, the lowest bit of a subnormal product at
//     la + lb less both mantissa widths at least 2^-126, magnitudes below 2^(ha+hb+2) at most 2^127;
//  3. the clamp changes nothing: a nonzero product has an exponent of at least la + lb ≥ F-126. In a group without one d
//     is c cut to a multiple of 2^(E-F); c is 0, or on entry at least 2^(F-126), or a multiple of 2^(la+lb-F) ≥ 2^-126,
//     which the unit 2^-126 of the clamp leaves whole, and has no more bits than a result keeps;
//  4. the exponent field of a zero c is 0, and 0 - 127 is below the clamp: a zero takes no part; products with a zero
//     operand have exponents far below it;
//  5. F-126 ≤ E ≤ 126 makes both powers of two normal f32. Scaling by them is exact, or the result is below 2^-126 and
//     truncates to 0 whatever it became;
//  6. |N| ≤ (2·S+2)·2^F ≤ 2^31 - 1, S the greatest sum of significands of a group of a lane of B, those of A being below 2;
//  7. a nonzero d is at least 2^(E-F) ≥ 2^-126, hence normal, and |d| < 2^127: |c| < 2^126 on entry and K products add
//     less than 2^126;
//  8. no floor of a step is above -126 < F-126 ≤ E.
//
// With f16 accumulators (the half kernels, whose c are f16 values held as f32) the clamp is the step's floor itself, a
// nonzero c counts with at least f16's least exponent -14, and d is rounded to nearest even in f16: float(N) is made odd
// where it lost bits, so that the second rounding, 13 bits shorter, falls as one rounding of N would. In place of 3, 5
// and 7:
//
//  9. the floor is known and at least F-126; every |c| on entry is at most 2^14 and K products add at most 2^14, roundings
//     at most a 2^-11th of that a group: |d| stays below 2^15.25, no result overflows. c is always an f16 value.

// FarPanel is a packed strip for the far kernels: an f32 and an int32 exponent an element.
type FarPanel struct {
	data            []uint32
	lanes, k        int
	padded          int
	stride          int // of a row of A, in bytes
	refused         bool
	least, greatest int // exponents of nonzero elements
	crowd           int // greatest sum of significands of a group of a lane, in units of 2^-mantissa
	mantissa        int
}

// FarShape is the step's arithmetic as the far kernels take it.
type FarShape struct {
	FusedShape
	Half  bool // f16 accumulators, rounded to nearest even after every group
	Floor int  // Half: the least exponent of an alignment
}

// FarSupports tells whether the far kernels know the step; they still decline tiles.
func FarSupports(a, b format.Format, s FarShape) bool {
	if !FusedSupports(a, b, s.FusedShape) {
		return false
	}
	return !s.Half || s.Floor >= s.Fraction-126 && s.Floor < 0
}

// Far is one level's kernel.
type Far struct {
	Level  Level
	MR, NR int
}

// FarKernel is the kernel of a level, nil where it has none: the portable level's slower path does as much.
func FarKernel(l Level) *Far {
	switch f := fusedKernels[l]; l {
	case AVX2, AVX512:
		return &Far{Level: l, MR: f.MR, NR: f.NR}
	}
	return nil
}

type farElement struct {
	value       float32
	exponent    int32
	significand int32
	special     bool
}

// noExponent marks a zero: any sum with it lies below every clamp.
const noExponent = -1 << 20

var farTables sync.Map // format.Format → []farElement

func farDecode(f format.Format, pattern uint64) farElement {
	n := f.Decode(pattern)
	e := farElement{exponent: noExponent, special: n.Class >= format.Inf}
	if n.Class == format.Finite {
		value := math.Ldexp(float64(n.Sig), n.Exp)
		if n.Neg {
			value = -value
		}
		e.value, e.exponent, e.significand = float32(value), int32(n.Exponent), int32(n.Sig)
	}
	return e
}

func farTable(f format.Format) []farElement {
	if t, ok := farTables.Load(f); ok {
		return t.([]farElement)
	}
	table := make([]farElement, 1<<(8*f.Bytes()))
	for i := range table {
		table[i] = farDecode(f, uint64(i))
	}
	actual, _ := farTables.LoadOrStore(f, table)
	return actual.([]farElement)
}

// PackA packs rows of A for s, as Fused's does.
func (f *Far) PackA(p *FarPanel, src *Source, s FarShape) { f.pack(p, src, s, false) }

// PackB packs columns of B likewise.
func (f *Far) PackB(p *FarPanel, src *Source, s FarShape) { f.pack(p, src, s, true) }

func (f *Far) pack(p *FarPanel, src *Source, s FarShape, columns bool) {
	padded := (src.K + s.Group - 1) / s.Group * s.Group
	mantissa := src.As.Info().MantissaBits
	*p = FarPanel{data: p.data, lanes: src.Lanes, k: src.K, padded: padded, stride: padded * 8, least: math.MaxInt32, greatest: math.MinInt32, mantissa: mantissa}
	count := src.Lanes * padded * 2
	laneStep, kStep, exponentAt := 2*padded, 2, 1
	if columns {
		count = padded * f.NR * 2
		laneStep, kStep, exponentAt = 1, 2*f.NR, f.NR
	}
	if cap(p.data) < count {
		p.data = make([]uint32, count)
	}
	p.data = p.data[:count]
	clear(p.data) // padding is zeros
	var none int32 = noExponent
	if columns {
		for k := range padded {
			for l := range f.NR {
				p.data[k*kStep+exponentAt+l] = uint32(none)
			}
		}
	} else {
		for i := 1; i < count; i += 2 {
			p.data[i] = uint32(none)
		}
	}
	size := src.Format.Bytes()
	var table []farElement
	if size <= 2 {
		table = farTable(src.Format)
	}
	for l := range src.Lanes {
		crowd := 0
		for k := range src.K {
			if k%s.Group == 0 {
				crowd = 0
			}
			e := farLoad(src, table, l, k, size)
			if e.special {
				p.refused = true
				return
			}
			if e.significand == 0 {
				continue
			}
			crowd += int(e.significand)
			p.crowd = max(p.crowd, crowd)
			p.least, p.greatest = min(p.least, int(e.exponent)), max(p.greatest, int(e.exponent))
			at := l*laneStep + k*kStep
			p.data[at], p.data[at+exponentAt] = math.Float32bits(e.value), uint32(e.exponent)
		}
	}
}

func farLoad(src *Source, table []farElement, lane, k, size int) farElement {
	at := unsafe.Pointer(src.element(lane, k, size))
	switch size {
	case 1:
		return table[*(*uint8)(at)]
	case 2:
		return table[*(*uint16)(at)]
	}
	v := *(*uint32)(at)
	if src.Format == format.F32 {
		v = format.F32ToTF32(v, src.InputRounding)
	}
	return farDecode(format.TF32, uint64(v))
}

// farConstants are the numbers a kernel works with; the generator knows the layout.
type farConstants struct {
	lowest int32  // below every exponent
	bias   int32  // 127
	clamp  int32  // the least E: F - 126, or the step's floor in the half kernels
	align  int32  // F + 127
	back   int32  // 127 - F
	cut    uint32 // mask of the bits a result keeps
	// What the half kernels use alone.
	minimum int32 // the least exponent of a nonzero c
	one     uint32
}

// Run continues the chains of an MR×NR tile, as Fused's Run does: false means that it could not prove the result exact
// and changed nothing.
func (f *Far) Run(c []float32, ldc int, a, b *FarPanel, s FarShape) bool {
	if a.lanes == 0 || b.lanes == 0 || a.k == 0 {
		return true
	}
	k, ok := f.admit(a, b, s)
	if !ok {
		return false
	}
	_ = c[(a.lanes-1)*ldc+f.NR-1]
	low, high := math.Ldexp(1, int(k.clamp)), 0x1p126 // 1, 3, 7: what a nonzero c may be
	if s.Half {
		low, high = 0x1p-24, 0x1p14 // 9
	}
	for r := range a.lanes {
		row := c[r*ldc : r*ldc+f.NR]
		for i, v := range row {
			if i >= b.lanes {
				row[i] = 0 // padding: whatever it held must not count
				continue
			}
			if magnitude := math.Abs(float64(v)); !(v == 0 || magnitude >= low && magnitude < high) {
				return false
			}
		}
	}
	farRun(f.Level, s.Half, &c[0], ldc*4, a.lanes, &a.data[0], a.stride, &b.data[0], b.padded/s.Group, s.Group, &k)
	return true
}

// admit checks what the panels' summaries must satisfy; the numbers are those of the proof above.
func (f *Far) admit(a, b *FarPanel, s FarShape) (farConstants, bool) {
	F := s.Fraction
	k := farConstants{lowest: noExponent, bias: 127, clamp: int32(F - 126), align: int32(F + 127), back: int32(127 - F),
		cut: ^uint32(0) << (23 - s.ResultFraction), minimum: -14, one: 1}
	if s.Half {
		k.clamp = int32(s.Floor)
	}
	if a.refused || b.refused || a.k != b.k { // 1
		return k, false
	}
	if a.least > a.greatest || b.least > b.greatest { // nothing but zeros: every group is trunc(c)
		return k, true
	}
	least, greatest := a.least+b.least, a.greatest+b.greatest
	if least-a.mantissa-b.mantissa < -126 || !s.Half && least < F-126 { // 2, 3
		return k, false
	}
	top := 126 // 2, 5, 7
	if s.Half {
		top = 14 // 9
	}
	if greatest+2+bits.Len(uint(a.k)) > top {
		return k, false
	}
	// 6: a product is below 2 in A's significand, and so is one of A with all of a group of B's together.
	significands := (2*b.crowd + 1<<b.mantissa - 1) >> b.mantissa // 2·S, rounded up
	return k, uint64(significands+2)<<F < 1<<31
}
