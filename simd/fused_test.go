package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// The reference below is written from the definition of the step alone (docs/arithmetic.md), element by element in
// integers, and shares nothing with the kernels.

// layoutOf is a format's fields.
type layoutOf struct {
	width, mantissa, bias int
	infinity              uint32 // magnitude of Inf, 0 for none
	nan                   func(bits, magnitude uint32) bool
}

func never(_, _ uint32) bool { return false }

var layouts = map[format.Format]layoutOf{
	format.F16:      {16, 10, 15, 0x7C00, func(_, m uint32) bool { return m > 0x7C00 }},
	format.BF16:     {16, 7, 127, 0x7F80, func(_, m uint32) bool { return m > 0x7F80 }},
	format.TF32:     {32, 23, 127, 0x7F800000, func(_, m uint32) bool { return m > 0x7F800000 }},
	format.E4M3:     {8, 3, 7, 0, func(_, m uint32) bool { return m == 0x7F }},
	format.E5M2:     {8, 2, 15, 0x7C, func(_, m uint32) bool { return m > 0x7C }},
	format.E4M3FNUZ: {8, 3, 8, 0, func(b, _ uint32) bool { return b == 0x80 }},
	format.E5M2FNUZ: {8, 2, 16, 0, func(b, _ uint32) bool { return b == 0x80 }},
	format.E2M1:     {4, 1, 1, 0, never},
	format.E3M2:     {6, 2, 3, 0, never},
	format.E2M3:     {6, 3, 1, 0, never},
}

// number is (-1)^neg · sig · 2^exp with the format's own exponent e.
type number struct {
	neg     bool
	sig     int64
	exp, e  int
	special bool
}

func decode(f format.Format, bits uint32) number {
	l := layouts[f]
	magnitude := bits & (1<<(l.width-1) - 1)
	if f == format.TF32 {
		if magnitude > 0x7F800000 { // a NaN stays one
			return number{special: true}
		}
		magnitude &^= 0x1FFF
	}
	if l.nan(bits&(1<<l.width-1), magnitude) || l.infinity != 0 && magnitude >= l.infinity {
		return number{special: true}
	}
	n := number{neg: bits>>(l.width-1)&1 != 0, sig: int64(magnitude & (1<<l.mantissa - 1))}
	field := int(magnitude >> l.mantissa)
	if field > 0 {
		n.sig += 1 << l.mantissa
	} else {
		field = 1
	}
	n.e = field - l.bias
	n.exp = n.e - l.mantissa
	return n
}

// decodeF32 is decode for the accumulator.
func decodeF32(x uint32) number {
	n := number{neg: x>>31 != 0, sig: int64(x & 0x7FFFFF), special: x>>23&0xFF == 0xFF}
	field := int(x >> 23 & 0xFF)
	if field > 0 {
		n.sig += 1 << 23
	} else {
		field = 1
	}
	n.e, n.exp = field-127, field-127-23
	return n
}

// toMultiple is the number as a multiple of 2^quantum, cut toward zero.
func (n number) toMultiple(quantum int) int64 {
	v := n.sig
	switch shift := n.exp - quantum; {
	case shift >= 0 && (shift > 62 || v<<shift>>shift != v) && v != 0:
		panic("reference: the alignment is wrong")
	case shift >= 0:
		v <<= shift
	case shift > -63:
		v >>= -shift
	default:
		v = 0
	}
	if n.neg {
		return -v
	}
	return v
}

// referenceStep is one step; no operand may be special. floor is the least exponent an alignment uses.
func referenceStep(a, b []number, c uint32, s FusedShape) uint32 {
	const floor = -133
	acc := decodeF32(c)
	e := floor
	if acc.sig != 0 {
		e = max(e, acc.e)
	}
	for i := range a {
		if a[i].sig != 0 && b[i].sig != 0 {
			e = max(e, a[i].e+b[i].e)
		}
	}
	quantum := e - s.Fraction
	sum := acc.toMultiple(quantum)
	for i := range a {
		p := number{neg: a[i].neg != b[i].neg, sig: a[i].sig * b[i].sig, exp: a[i].exp + b[i].exp}
		sum += p.toMultiple(quantum)
	}
	if sum == 0 {
		return 0
	}
	sign := uint32(0)
	if sum < 0 {
		sign, sum = 1<<31, -sum
	}
	// Toward zero to s.ResultFraction+1 bits, fewer below f32's normal numbers.
	least := -149
	for sum >= 1<<(s.ResultFraction+1) || quantum < least {
		sum, quantum = sum>>1, quantum+1
	}
	if sum == 0 {
		return 0
	}
	for sum < 1<<23 && quantum > least {
		sum, quantum = sum<<1, quantum-1
	}
	if sum < 1<<23 {
		return sign | uint32(sum)
	}
	if quantum+23 > 127 {
		return sign | 0x7F800000
	}
	return sign | uint32(quantum+23+127)<<23 | uint32(sum)&0x7FFFFF
}

func referenceChain(a, b []number, c uint32, s FusedShape) uint32 {
	for len(a) > 0 {
		n := min(s.Group, len(a))
		c = referenceStep(a[:n], b[:n], c, s)
		a, b = a[n:], b[n:]
	}
	return c
}

// roundTF32 rounds f32 bits to tf32 as real numbers would be, by comparing the two neighbours.
func roundTF32(x uint32, how format.Rounding) uint32 {
	if x&0x7F800000 == 0x7F800000 {
		return x
	}
	down := x &^ 0x1FFF
	rest := x & 0x1FFF
	switch {
	case how == format.TowardZero || rest < 0x1000:
		return down
	case rest > 0x1000 || how == format.NearestAway || down&0x2000 != 0:
		return down + 0x2000
	}
	return down
}

// The kinds of input of tests/goldens/inputs.py.
var fusedKinds = []string{"normal", "wide", "tiny", "sparse", "cancel", "bits"}

// randomElement is one element; cancel is up to the caller.
func randomElement(r *rand.Rand, f format.Format, kind string) uint32 {
	l := layouts[f]
	w := r.Uint64()
	if kind == "bits" {
		return uint32(w) & (1<<l.width - 1)
	}
	top := 1
	if l.width <= 8 {
		top = 2
	}
	g := 0
	for ; g < 15 && w>>g&1 == 0; g++ {
	}
	e := top - g
	switch kind {
	case "wide":
		low, high := -12, 12
		if l.bias == 127 {
			low, high = -40, 40
		} else if l.width <= 8 {
			low, high = 1-l.bias, l.bias
		}
		e = low + int(w>>40)%(high-low+1)
	case "tiny":
		e = -l.bias + int(w>>40)%4
	case "sparse":
		if w>>56&1 != 0 {
			return 0
		}
	}
	most := 1<<(l.width-1-l.mantissa) - 1
	if l.infinity != 0 {
		most--
	}
	field := min(max(e+l.bias, 0), most)
	bits := uint32(w>>63)<<(l.width-1) | uint32(field)<<l.mantissa | uint32(w>>16)&(1<<l.mantissa-1)
	if decode(f, bits).special {
		bits ^= 1
	}
	if decode(f, bits).special { // the bits of -0
		bits = 0
	}
	return bits
}

// operand is a strip of an operand in some layout.
type operand struct {
	source  Source
	memory  []byte
	numbers [][]number // [lane][k], of the format the step takes
}

// The layouts tried; strides count elements.
var fusedLayouts = []string{"lanes", "k", "odd", "negative", "zero lane", "zero k"}

func makeOperand(stored, as format.Format, rounding format.Rounding, layout string, lanes, k int, at func(lane, k int) uint32) *operand {
	size := max(layouts[as].width/8, 1)
	o := &operand{source: Source{Format: stored, As: as, InputRounding: rounding, Lanes: lanes, K: k}}
	s := &o.source
	switch layout {
	case "lanes":
		s.LaneStride, s.KStride = 1, lanes+3
	case "k":
		s.LaneStride, s.KStride = k+5, 1
	case "odd":
		s.LaneStride, s.KStride = 3*k+1, 3
	case "negative":
		s.LaneStride, s.KStride = -k, -1
	case "zero lane":
		s.LaneStride, s.KStride = 0, 1
	case "zero k":
		s.LaneStride, s.KStride = 1, 0
	}
	low := min(0, (lanes-1)*s.LaneStride) + min(0, (k-1)*s.KStride)
	high := max(0, (lanes-1)*s.LaneStride) + max(0, (k-1)*s.KStride)
	o.memory = make([]byte, (high-low+1)*size)
	base := unsafe.Pointer(unsafe.SliceData(o.memory))
	s.Pointer = unsafe.Add(base, -low*size)
	element := func(l, j int) unsafe.Pointer { return unsafe.Add(s.Pointer, (l*s.LaneStride+j*s.KStride)*size) }
	for l := range lanes {
		for j := range k {
			bits := at(l, j)
			switch size {
			case 1:
				*(*uint8)(element(l, j)) = uint8(bits)
			case 2:
				*(*uint16)(element(l, j)) = uint16(bits)
			case 4:
				*(*uint32)(element(l, j)) = bits
			}
		}
	}
	o.numbers = make([][]number, lanes)
	for l := range o.numbers {
		o.numbers[l] = make([]number, k)
		for j := range k {
			var bits uint32
			switch size {
			case 1:
				bits = uint32(*(*uint8)(element(l, j)))
			case 2:
				bits = uint32(*(*uint16)(element(l, j)))
			case 4:
				bits = *(*uint32)(element(l, j))
				if stored == format.F32 {
					bits = roundTF32(bits, rounding)
				}
			}
			o.numbers[l][j] = decode(as, bits)
		}
	}
	return o
}

func (o *operand) special() bool {
	for _, lane := range o.numbers {
		for _, n := range lane {
			if n.special {
				return true
			}
		}
	}
	return false
}

// tile is an accumulator tile with a guard around it.
type tile struct {
	c   []float32
	ldc int
}

const fusedGuard = 0x7FA5A5A5 // a NaN, so that padding that is read unmasked shows

func newTile(f *Fused, ldc int) *tile {
	t := &tile{c: make([]float32, f.MR*ldc), ldc: ldc}
	for i := range t.c {
		t.c[i] = math.Float32frombits(fusedGuard)
	}
	return t
}

func (t *tile) set(i, j int, bits uint32) { t.c[i*t.ldc+j] = math.Float32frombits(bits) }
func (t *tile) get(i, j int) uint32       { return math.Float32bits(t.c[i*t.ldc+j]) }

// panels are reused from tile to tile, as a caller would: what an earlier strip left must not show.
var panelA, panelB FusedPanel

// runFused packs and runs one tile against the reference, and says whether the kernel did it.
func runFused(t *testing.T, f *Fused, s FusedShape, a, b *operand, acc *tile) bool {
	t.Helper()
	m, n := a.source.Lanes, b.source.Lanes
	before := append([]float32(nil), acc.c...)
	f.PackA(&panelA, &a.source, s)
	f.PackB(&panelB, &b.source, s)
	ok := f.Run(acc.c, acc.ldc, &panelA, &panelB, s)
	if ok && a.source.K > 0 && m > 0 && n > 0 && (a.special() || b.special()) {
		t.Fatalf("%v %+v: a NaN or an infinity was taken", f.Level, s)
	}
	for i := range f.MR {
		for j := range acc.ldc {
			got, was := acc.get(i, j), math.Float32bits(before[i*acc.ldc+j])
			switch {
			case i < m && j < n:
				want := was
				if ok {
					want = referenceChain(a.numbers[i], b.numbers[j], was, s)
				}
				if got != want {
					t.Fatalf("%v %+v %v×%v K=%d row %d column %d ok=%v: c %08x gave %08x, want %08x\na %+v\nb %+v", f.Level, s,
						a.source.Format, b.source.Format, a.source.K, i, j, ok, was, got, want, a.numbers[i], b.numbers[j])
				}
			case (i >= m || j >= f.NR) && got != was:
				t.Fatalf("%v %+v: wrote row %d column %d outside of %d×%d", f.Level, s, i, j, m, n)
			}
		}
	}
	runtime.KeepAlive(a.memory)
	runtime.KeepAlive(b.memory)
	return ok
}

// fusedLevels are the kernels this processor has.
func fusedLevels() (kernels []*Fused) {
	for _, l := range Levels() {
		if f := FusedKernel(l); f != nil {
			kernels = append(kernels, f)
		}
	}
	return kernels
}

func fusedShapes() (shapes []FusedShape) {
	for _, g := range []int{4, 8, 16, 32} {
		for _, f := range []int{23, 24, 25} {
			shapes = append(shapes, FusedShape{g, f, 23})
		}
		shapes = append(shapes, FusedShape{g, 13, 13})
	}
	return shapes
}

// randomOperands makes the two operands of a tile of some kind.
func randomOperands(r *rand.Rand, fa, fb format.Format, kind string, m, n, k int) (a, b *operand) {
	layout := func() string { return fusedLayouts[r.IntN(len(fusedLayouts))] }
	stored := func(f format.Format) (format.Format, format.Rounding) {
		roundings := []format.Rounding{format.NearestEven, format.NearestAway, format.TowardZero}
		if i := r.IntN(4); f == format.TF32 && i < 3 {
			return format.F32, roundings[i]
		}
		return f, ""
	}
	negate := uint32(1) << (layouts[fb].width - 1)
	va, vb := make([]uint32, m*k), make([]uint32, n*k)
	for i := range va {
		va[i] = randomElement(r, fa, kind)
	}
	for i := range vb {
		vb[i] = randomElement(r, fb, kind)
	}
	if kind == "cancel" { // pairs of k whose products cancel, in a random order
		order := r.Perm(k)
		for i := 0; i+3 < k; i += 2 {
			x, y := order[i], order[i+1]
			for l := range m {
				va[l*k+y] = va[l*k+x]
			}
			for l := range n {
				if vb[l*k+x] != 0 {
					vb[l*k+y] = vb[l*k+x] ^ negate
				} else {
					vb[l*k+y] = 0
				}
			}
		}
	}
	sa, ra := stored(fa)
	sb, rb := stored(fb)
	a = makeOperand(sa, fa, ra, layout(), m, k, func(l, j int) uint32 { return va[l*k+j] })
	b = makeOperand(sb, fb, rb, layout(), n, k, func(l, j int) uint32 { return vb[l*k+j] })
	return a, b
}

// randomC is an accumulator of ordinary size, or a zero of either sign.
func randomC(r *rand.Rand) uint32 {
	switch r.IntN(8) {
	case 0:
		return 0
	case 1:
		return 1 << 31
	}
	return r.Uint32()&0x807FFFFF | uint32(127-20+r.IntN(28))<<23
}

var fusedTestFormats = []format.Format{format.F16, format.BF16, format.TF32, format.E4M3, format.E5M2, format.E4M3FNUZ,
	format.E5M2FNUZ, format.E2M1, format.E3M2, format.E2M3}

// TestFusedRandom compares every level with the reference over all shapes, formats and kinds, tails, lanes and layouts.
func TestFusedRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	taken, declined := map[string]int{}, map[string]int{}
	for _, f := range fusedLevels() {
		for _, s := range fusedShapes() {
			for _, fa := range fusedTestFormats {
				for _, kind := range fusedKinds {
					m, n, k := 1+r.IntN(f.MR), 1+r.IntN(f.NR), 1+r.IntN(70)
					switch r.IntN(10) {
					case 0:
						n = f.NR
					case 1:
						m, n, k = 1+r.IntN(2), 1+r.IntN(9), 200+r.IntN(FusedMaxK-199)
					}
					fb := fa
					if layouts[fa].width == 8 && r.IntN(3) == 0 {
						fb = fusedTestFormats[3+r.IntN(2)]
					}
					acc := newTile(f, f.NR+r.IntN(3))
					zeroC := r.IntN(3) == 0
					for i := range m {
						for j := range n {
							c := randomC(r)
							if zeroC {
								c = 0
							}
							acc.set(i, j, c)
						}
					}
					for range 2 { // the second continues the chains of the first
						a, b := randomOperands(r, fa, fb, kind, m, n, k)
						if runFused(t, f, s, a, b, acc) {
							taken[kind]++
							continue
						}
						declined[kind]++
						switch {
						case kind == "normal" || kind == "sparse" || kind == "cancel":
							t.Fatalf("%v %+v %v×%v %s: declined", f.Level, s, fa, fb, kind)
						case kind == "wide" && layouts[fa].bias < 127 || kind == "tiny" && layouts[fa].bias < 127:
							t.Fatalf("%v %+v %v×%v %s: declined", f.Level, s, fa, fb, kind)
						}
					}
				}
			}
		}
	}
	t.Log("taken", taken, "declined", declined)
	for _, kind := range fusedKinds {
		if taken[kind] == 0 {
			t.Errorf("no tile of kind %s was taken", kind)
		}
	}
}

var _ = fmt.Sprint
