package simd

import (
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

// filled makes an operand whose element (lane, k) is at(lane, k).
func filled(f format.Format, lanes, k int, at func(lane, k int) uint32) *operand {
	return makeOperand(f, f, "", "k", lanes, k, at)
}

// encode is the bits of (-1)^neg · 2^e · 1.fraction, a subnormal where e is below the format's least exponent.
func encode(f format.Format, e int, fraction uint32) uint32 {
	l := layouts[f]
	if field := e + l.bias; field >= 1 {
		return uint32(field)<<l.mantissa | fraction
	}
	return (1<<l.mantissa | fraction) >> (1 - l.bias - e)
}

// TestFusedTails runs every length of K and every number of rows and columns.
func TestFusedTails(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, f := range fusedLevels() {
		for k := range 71 {
			a, b := randomOperands(r, format.BF16, format.BF16, "normal", 1+k%3, 1+k%5, k)
			if !runFused(t, f, fusedShapes()[k%16], a, b, newTile(f, f.NR).zero()) {
				t.Fatalf("%v: declined K = %d", f.Level, k)
			}
		}
		for m := range f.MR + 1 {
			for _, n := range []int{0, 1, f.NR/4 - 1, f.NR / 4, f.NR/4 + 1, f.NR / 2, f.NR/2 + 1, f.NR*3/4 + 1, f.NR} {
				a, b := randomOperands(r, format.F16, format.F16, "normal", m, n, 21)
				if !runFused(t, f, FusedShape{16, 25, 23}, a, b, newTile(f, f.NR).zero()) {
					t.Fatalf("%v: declined %d×%d", f.Level, m, n)
				}
			}
		}
	}
}

func (t *tile) zero() *tile {
	for i := range t.c {
		if math.Float32bits(t.c[i]) == fusedGuard && i%t.ldc < t.ldc {
			t.c[i] = 0
		}
	}
	return t
}

// TestFusedLayouts packs every layout of every format at full and at odd sizes.
func TestFusedLayouts(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	s := FusedShape{16, 25, 23}
	for _, f := range fusedLevels() {
		for _, form := range append([]format.Format{format.F32}, fusedTestFormats...) {
			as, rounding := form, format.Rounding("")
			if form == format.F32 {
				as, rounding = format.TF32, format.NearestEven
			}
			for _, layout := range fusedLayouts {
				for _, size := range [][3]int{{f.MR, f.NR, 64}, {f.MR - 1, f.NR - 3, 37}, {9, 17, 8}} {
					element := func(_, _ int) uint32 { return randomElement(r, as, "normal") }
					a := makeOperand(form, as, rounding, layout, size[0], size[2], element)
					b := makeOperand(form, as, rounding, layout, size[1], size[2], element)
					if !runFused(t, f, s, a, b, newTile(f, f.NR).zero()) {
						t.Fatalf("%v %v %s %v: declined", f.Level, form, layout, size)
					}
				}
			}
		}
	}
}

// TestFusedLargeSums takes sums to and past 31 bits: full significands of one sign, alone or against c.
func TestFusedLargeSums(t *testing.T) {
	for _, f := range fusedLevels() {
		for _, s := range fusedShapes() {
			for _, form := range []format.Format{format.F16, format.BF16, format.TF32, format.E5M2, format.E4M3} {
				most := uint32(1)<<layouts[form].mantissa - 1
				for _, k := range []int{s.Group, 2 * s.Group, FusedMaxK} {
					for _, negative := range []uint32{0, 1 << (layouts[form].width - 1)} {
						// A few fractions below the fullest reach the limit between the two ways to sum.
						for _, less := range []uint32{0, most / 16, most / 2, most} {
							a := filled(form, 3, k, func(_, _ int) uint32 { return encode(form, 1, most) })
							b := filled(form, 5, k, func(l, j int) uint32 {
								if l == 1 && j%2 == 0 {
									return 0
								}
								return encode(form, 1, most-less) | negative
							})
							acc := newTile(f, f.NR).zero()
							for i := range 3 {
								for j := range 5 {
									acc.set(i, j, []uint32{0, 0x407FFFFF, 0xC07FFFFF, 0x4B7FFFFF, 0x3F800001}[(i+j)%5])
								}
							}
							if !runFused(t, f, s, a, b, acc) {
								t.Fatalf("%v %+v %v: declined", f.Level, s, form)
							}
						}
					}
				}
			}
		}
	}
}

// TestFusedWindow walks products and accumulators through all exponents. What is taken must be right, and what lies well
// inside must be taken.
func TestFusedWindow(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, f := range fusedLevels() {
		taken := 0
		for _, form := range []format.Format{format.BF16, format.TF32} {
			for _, s := range []FusedShape{{16, 25, 23}, {8, 24, 23}, {4, 23, 23}, {32, 13, 13}, {16, 25, 13}} {
				fraction := func() uint32 {
					x := r.Uint32() & (1<<layouts[form].mantissa - 1)
					if form == format.TF32 {
						x &^= 0x1FFF
					}
					return x
				}
				for e := -266; e <= 254; e += 3 {
					spread := []int{0, 1, 12, 40, 90, 100 + r.IntN(27), 100 + r.IntN(10), 126}[r.IntN(8)]
					ea := max(min(e/2+r.IntN(9)-4, 127), -132)
					eb := max(min(e-ea, 127), -132)
					lowered := spread * r.IntN(2)
					every := []int{1, s.Group}[r.IntN(2)] // the small ones among the large, or groups of them alone
					length, flip, zero := 6*every, r.IntN(2), r.IntN(4)
					// A second row has the small ones only, a third zeros: nothing large hides what is lost of them or of c.
					a := filled(form, 3, length, func(l, k int) uint32 {
						if k/every == zero || l == 2 {
							return 0
						}
						return encode(form, max(ea-max(l, (k/every+flip)%2)*(spread-lowered), -132), fraction()) | r.Uint32()>>31<<(layouts[form].width-1)
					})
					b := filled(form, 1, length, func(_, k int) uint32 { return encode(form, max(eb-(k/every/2+flip)%2*lowered, -132), fraction()) })
					for c := -1; c < 255; c += 1 + r.IntN(9) {
						acc := newTile(f, f.NR)
						x := r.Uint32()&0x807FFFFF | uint32(max(c, 0))<<23
						if c < 0 {
							x &= 1 << 31
						}
						acc.set(0, 0, x)
						acc.set(1, 0, x*uint32(r.IntN(2)))
						acc.set(2, 0, x*uint32(r.IntN(2)))
						ok := runFused(t, f, s, a, b, acc)
						if ok {
							taken++
						}
						if ok && c == 0 && x<<1 != 0 {
							t.Fatalf("%v %+v %v: took a subnormal accumulator", f.Level, s, form)
						}
						if !ok && spread <= 12 && e >= -40 && e <= 60 && s.Fraction >= 23 && (c < 0 || c >= 127+e-30 && c <= 127+e+15) {
							t.Fatalf("%v %+v %v: declined products of 2^%d, spread %d, with c of 2^%d", f.Level, s, form, e, spread, c-127)
						}
					}
				}
			}
		}
		t.Logf("%v: %d taken", f.Level, taken)
	}
}

// TestFusedOverflow takes sums to and past f32's largest number.
func TestFusedOverflow(t *testing.T) {
	for _, f := range fusedLevels() {
		taken, infinite := 0, 0
		for _, s := range fusedShapes() {
			for _, k := range []int{1, 2, 16, 40} {
				for e := 118; e <= 127; e++ {
					for c := 120; c <= 127; c++ {
						a := filled(format.BF16, 1, k, func(_, _ int) uint32 { return encode(format.BF16, e/2, 0x7F) })
						b := filled(format.BF16, 1, k, func(_, _ int) uint32 { return encode(format.BF16, e-e/2, 0x7F) })
						acc := newTile(f, f.NR)
						acc.set(0, 0, uint32(c+127)<<23|0x7FFFFF)
						if runFused(t, f, s, a, b, acc) {
							taken++
						}
						if acc.get(0, 0)>>23 == 0xFF {
							infinite++
						}
					}
				}
			}
		}
		if taken == 0 || infinite > 0 {
			t.Errorf("%v: %d taken, %d of them infinite", f.Level, taken, infinite)
		}
	}
}

// TestFusedAccumulators puts every special accumulator beside ordinary products.
func TestFusedAccumulators(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	cases := []struct {
		c    uint32
		take bool
	}{{0, true}, {1 << 31, true}, {0x3F800000, true}, {0xBF800001, true}, {1, false}, {0x807FFFFF, false}, {0x7F800000, false},
		{0xFF800000, false}, {0x7FC00000, false}, {0x7F800001, false}, {0xFFFFFFFF, false}, {0x7F7FFFFF, false}}
	for _, f := range fusedLevels() {
		for _, s := range fusedShapes() {
			for _, c := range cases {
				for _, at := range [][2]int{{0, 0}, {2, 0}, {1, f.NR/4 - 1}, {4, f.NR - 1}, {0, f.NR / 2}} {
					a, b := randomOperands(r, format.F16, format.F16, "normal", 5, f.NR, 19)
					acc := newTile(f, f.NR).zero()
					acc.set(at[0], at[1], c.c)
					if ok := runFused(t, f, s, a, b, acc); ok != c.take {
						t.Fatalf("%v %+v: c = %08x taken: %v", f.Level, s, c.c, ok)
					}
				}
			}
		}
	}
}

// TestFusedZeroSigns: a sum of zeros and one that cancels are +0, whatever the signs.
func TestFusedZeroSigns(t *testing.T) {
	for _, f := range fusedLevels() {
		for _, s := range fusedShapes() {
			a := filled(format.BF16, 3, 9, func(l, k int) uint32 {
				switch l {
				case 0:
					return 0x8000
				case 1:
					return []uint32{0x3F81, 0xBF81}[k%2] &^ (0xFFFF * uint32(k/8)) // ± pairs, then a zero
				}
				return []uint32{0, 0x4000, 0x8000}[k%3]
			})
			b := filled(format.BF16, 4, 9, func(l, k int) uint32 {
				if a := uint32(k % 3); l == 3 && a == 1 {
					return 0x8000
				}
				return []uint32{0x3F81, 0xBF81, 0, 0x3F81}[l]
			})
			acc := newTile(f, f.NR).zero()
			for j := range 4 {
				acc.set(0, j, 1<<31)
			}
			if !runFused(t, f, s, a, b, acc) {
				t.Fatalf("%v %+v: declined", f.Level, s)
			}
			if x := acc.get(0, 0) | acc.get(1, 0) | acc.get(1, 1) | acc.get(2, 3); x != 0 {
				t.Fatalf("%v %+v: a zero sum gave %08x", f.Level, s, x)
			}
		}
	}
}

// TestFusedSpecials: one NaN or infinity anywhere makes the tile decline.
func TestFusedSpecials(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	specials := map[format.Format][]uint32{
		format.F16: {0x7C00, 0xFC00, 0x7C01, 0xFFFF}, format.BF16: {0x7F80, 0xFF80, 0x7F81, 0xFFFF},
		format.TF32: {0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF}, format.E4M3: {0x7F, 0xFF},
		format.E5M2: {0x7C, 0xFD, 0x7F}, format.E4M3FNUZ: {0x80}, format.E5M2FNUZ: {0x80},
		format.F32: {0x7F800000, 0x7F7FFFFF}, // the latter rounds to infinity
	}
	for _, f := range fusedLevels() {
		for form, bits := range specials {
			as, rounding := form, format.Rounding("")
			if form == format.F32 {
				as, rounding = format.TF32, format.NearestAway
			}
			for _, x := range bits {
				for _, layout := range []string{"lanes", "k", "odd"} {
					m, n, k := 1+r.IntN(f.MR), 1+r.IntN(f.NR), 1+r.IntN(66)
					lane, at := r.IntN(m), r.IntN(k)
					inA := r.IntN(2) == 0
					if !inA {
						lane = r.IntN(n)
					}
					element := func(here bool) func(l, j int) uint32 {
						return func(l, j int) uint32 {
							if here && l == lane && j == at {
								return x
							}
							return randomElement(r, as, "normal")
						}
					}
					a := makeOperand(form, as, rounding, layout, m, k, element(inA))
					b := makeOperand(form, as, rounding, layout, n, k, element(!inA))
					if runFused(t, f, FusedShape{8, 25, 23}, a, b, newTile(f, f.NR).zero()) {
						t.Fatalf("%v: took %v %x", f.Level, form, x)
					}
				}
			}
		}
	}
}

// TestFusedChain continues one tile's chains through many strips.
func TestFusedChain(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	for _, f := range fusedLevels() {
		for _, s := range []FusedShape{{16, 25, 23}, {8, 24, 23}, {32, 13, 13}} {
			acc := newTile(f, f.NR).zero()
			for i := range 30 {
				a, b := randomOperands(r, format.BF16, format.BF16, fusedKinds[i%5/4*4], 3, 7, 16*(1+r.IntN(12)))
				if !runFused(t, f, s, a, b, acc) {
					t.Fatalf("%v %+v: declined strip %d", f.Level, s, i)
				}
			}
		}
	}
}

// TestFusedMismatch: panels that do not belong together are declined.
func TestFusedMismatch(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	s, other := FusedShape{16, 25, 23}, FusedShape{8, 25, 23}
	for _, f := range fusedLevels() {
		a, b := randomOperands(r, format.F16, format.F16, "normal", 2, 2, 16)
		short, _ := randomOperands(r, format.F16, format.F16, "normal", 2, 2, 15)
		wrong := *a
		wrong.source.As = format.BF16
		c := make([]float32, f.MR*f.NR)
		var pa, pb FusedPanel
		f.PackB(&pb, &b.source, s)
		for name, pack := range map[string]func(){
			"shape":   func() { f.PackA(&pa, &a.source, other) },
			"length":  func() { f.PackA(&pa, &short.source, s) },
			"operand": func() { f.PackB(&pa, &a.source, s) },
			"format":  func() { f.PackA(&pa, &wrong.source, s) },
			"level": func() {
				FusedKernel(map[bool]Level{true: AVX2, false: Portable}[f.Level == Portable]).PackA(&pa, &a.source, s)
			},
		} {
			if name == "level" && !assembly {
				continue
			}
			if pack(); f.Run(c, f.NR, &pa, &pb, s) {
				t.Errorf("%v: took panels of another %s", f.Level, name)
			}
		}
	}
	if FusedSupports(format.F64, format.F64, s) || FusedSupports(format.F16, format.F16, FusedShape{16, 35, 23}) ||
		FusedSupports(format.F16, format.F16, FusedShape{5, 25, 23}) || !FusedSupports(format.E4M3, format.E5M2, FusedShape{32, 13, 13}) {
		t.Error("FusedSupports is wrong")
	}
}

// TestFusedPanels compares the packing of AVX2 with that of portable Go, whose panels have the same layout.
func TestFusedPanels(t *testing.T) {
	f, twin := FusedKernel(AVX2), FusedKernel(Portable)
	if !assembly {
		t.Skip("this build has no assembly")
	}
	r := rand.New(rand.NewPCG(19, 20))
	var p, q FusedPanel
	for _, form := range fusedTestFormats {
		for _, kind := range fusedKinds {
			for range 12 {
				a, b := randomOperands(r, form, form, kind, 1+r.IntN(f.MR), 1+r.IntN(f.NR), 1+r.IntN(100))
				s := fusedShapes()[r.IntN(16)]
				for _, columns := range []bool{false, true} {
					source := &a.source
					if columns {
						source = &b.source
					}
					f.pack(&p, source, s, columns)
					twin.pack(&q, source, s, columns)
					if p.refused != q.refused || !p.refused && (p.least != q.least || p.greatest != q.greatest || p.leastNormal != q.leastNormal ||
						p.crowd != q.crowd || p.shift != q.shift || string(p.used()) != string(q.used())) {
						t.Fatalf("%v %s %+v columns=%v: the panels differ: refused %v %v, least %d %d, greatest %d %d, crowd %d %d", form, kind, source,
							columns, p.refused, q.refused, p.least, q.least, p.greatest, q.greatest, p.crowd, q.crowd)
					}
				}
			}
		}
	}
}

// used is the panel's bytes without the gaps between rows of A.
func (p *FusedPanel) used() (used []byte) {
	if p.columns {
		return p.data
	}
	for l := range p.lanes {
		used = append(used, p.data[l*p.stride:l*p.stride+8*p.padded]...)
	}
	return used
}

// TestFusedAllocations: once its panels have grown, a kernel allocates nothing.
func TestFusedAllocations(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	s := FusedShape{16, 25, 23}
	for _, f := range fusedLevels() {
		a, b := randomOperands(r, format.BF16, format.BF16, "normal", f.MR, f.NR, 40)
		c := make([]float32, f.MR*f.NR)
		var pa, pb FusedPanel
		n := testing.AllocsPerRun(10, func() {
			f.PackA(&pa, &a.source, s)
			f.PackB(&pb, &b.source, s)
			f.Run(c, f.NR, &pa, &pb, s)
		})
		if n != 0 {
			t.Errorf("%v: %v allocations a tile", f.Level, n)
		}
	}
}

// FuzzFused lets a fuzzer choose the bits of a tile of one element.
func FuzzFused(f *testing.F) {
	f.Add([]byte("\x80\x3f\x81\xbf\x00\x00\x80\x3f"), uint32(0x3F800000), uint8(1), uint8(2))
	f.Add([]byte{0xFF, 0x7B, 0xFF, 0x7B, 0x01, 0x00, 0x01, 0x80}, uint32(1<<31), uint8(0), uint8(10))
	f.Fuzz(func(t *testing.T, data []byte, c uint32, form, shape uint8) {
		x := fusedTestFormats[int(form)%len(fusedTestFormats)]
		s := fusedShapes()[shape%16]
		size := max(layouts[x].width/8, 1)
		k := min(len(data)/(2*size), FusedMaxK)
		element := func(i int) (v uint32) {
			for j := range size {
				v |= uint32(data[i*size+j]) << (8 * j)
			}
			return v
		}
		a := filled(x, 1, k, func(_, j int) uint32 { return element(2 * j) })
		b := filled(x, 1, k, func(_, j int) uint32 { return element(2*j + 1) })
		for _, kernel := range fusedLevels() {
			acc := newTile(kernel, kernel.NR)
			acc.set(0, 0, c)
			runFused(t, kernel, s, a, b, acc)
		}
	})
}
