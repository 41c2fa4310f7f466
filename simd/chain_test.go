package simd

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// chainLevels are the levels with kernels that this processor runs.
func chainLevels() []Level {
	var levels []Level
	for _, l := range Levels() {
		if l != Oracle {
			levels = append(levels, l)
		}
	}
	return levels
}

// bigFMA is a·b + c in exact arithmetic, for finite operands, and the sign of an exact zero.
func bigFMA(a, b, c float64) *big.Float {
	const exact = 6000 // more than the distance of any two bits of an f64 product and addend
	x := new(big.Float).SetPrec(exact)
	x.Mul(big.NewFloat(a), big.NewFloat(b))
	return x.Add(x, big.NewFloat(c))
}

// bigFMA32 rounds it to f32, going through specials by the rules of IEEE 754.
func bigFMA32(a, b, c float32) uint32 {
	A, B, C := float64(a), float64(b), float64(c)
	s := A*B + C // specials of f32 operands are specials in f64
	switch {
	case math.IsNaN(s):
		return 0x7FFFFFFF
	case math.IsInf(s, 0):
		return math.Float32bits(float32(s))
	}
	f, _ := bigFMA(A, B, C).Float32()
	return math.Float32bits(f)
}

func bigFMA64(a, b, c float64) float64 {
	for _, x := range []float64{a, b, c} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return math.FMA(a, b, c)
		}
	}
	f, _ := bigFMA(a, b, c).Float64()
	return f
}

// chainTriple32 gives operands whose sums meet the hard places: ties, cancellation, f32's subnormals, overflow.
func chainTriple32(r *rand.Rand) (a, b, c float32) {
	kinds := chainKinds
	pick := func() float32 {
		return math.Float32frombits(uint32(chainElement(r, format.F32, kinds[r.IntN(len(kinds))])))
	}
	a, b, c = pick(), pick(), pick()
	short := func(e int) float32 { // a few bits, so that exact ties are common
		return float32(math.Ldexp(float64(r.IntN(64)-32), e))
	}
	switch r.IntN(8) {
	case 0: // the addend close to the product
		p := float32(float64(a) * float64(b))
		c = -math.Float32frombits(math.Float32bits(p) + uint32(r.IntN(5)) - 2)
	case 1: // a product near half a unit in the addend's last place
		_, e := math.Frexp(float64(c))
		a, b = short(r.IntN(20)-10), 1
		b = float32(math.Ldexp(1+float64(r.IntN(3)-1)*0x1p-23, min(max(e-24+r.IntN(9)-4, -140), 100)))
	case 2: // a sum in the subnormal range, with a tail below it
		e := -60 - r.IntN(30)
		a = float32(math.Ldexp(1+r.Float64(), e))
		b = float32(math.Ldexp(1+r.Float64(), -150-e+r.IntN(26)))
		c = math.Float32frombits(r.Uint32()&(1<<24-1) | r.Uint32()&(1<<31))
	case 3: // a tie of subnormals moved by the product's last bits
		a, b = short(-75), float32(math.Ldexp(1+float64(r.IntN(3))*0x1p-23, -75+r.IntN(6)))
		c = math.Float32frombits(uint32(r.IntN(1<<10)) | r.Uint32()&(1<<31))
	case 4: // about to overflow
		a = float32(math.Ldexp(1+r.Float64(), 63+r.IntN(2)))
		b = float32(math.Ldexp(1+r.Float64(), 63+r.IntN(2)))
		c = math.Float32frombits(0x7F7FFFFF - uint32(r.IntN(3)) | r.Uint32()&(1<<31))
	case 5: // the largest finite number and a product near half its last place
		a, b = short(r.IntN(8)+45), float32(math.Ldexp(1+float64(r.IntN(3)-1)*0x1p-23, 54))
		c = math.Float32frombits(0x7F7FFFFF - uint32(r.IntN(2)) | r.Uint32()&(1<<31))
	case 6:
		specials := []uint32{0, 1 << 31, 1, 1<<31 | 1, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x3F800000, 0xBF800000}
		s := func() float32 { return math.Float32frombits(specials[r.IntN(len(specials))]) }
		a, b, c = s(), s(), s()
	}
	return a, b, c
}

func TestFMA32(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	subnormal, infinite := 0, 0
	for range 150_000 {
		a, b, c := chainTriple32(r)
		got, want := math.Float32bits(FMA32(a, b, c)), bigFMA32(a, b, c)
		if got != want {
			t.Fatalf("FMA32(%x, %x, %x) = %08x, want %08x", a, b, c, got, want)
		}
		if m := want &^ (1 << 31); m > 0 && m < 1<<23 {
			subnormal++
		} else if m == 0x7F800000 {
			infinite++
		}
	}
	if subnormal < 10_000 || infinite < 5_000 {
		t.Errorf("only %d subnormal and %d infinite results: the inputs miss the hard places", subnormal, infinite)
	}
}

func TestFMA64OnBits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func() float64 {
		return math.Float64frombits(chainElement(r, format.F64, chainKinds[r.IntN(len(chainKinds))]))
	}
	for i := range 60_000 {
		a, b, c := pick(), pick(), pick()
		switch r.IntN(6) {
		case 0:
			c = -math.Float64frombits(math.Float64bits(a*b) + r.Uint64N(5) - 2)
		case 1: // into the subnormal range
			a = math.Ldexp(1+r.Float64(), -500-r.IntN(40))
			b = math.Ldexp(1+r.Float64(), -1075+520+r.IntN(40))
			c = math.Float64frombits(r.Uint64()&(1<<53-1) | r.Uint64()&(1<<63))
		case 2: // overflow
			a, b = math.Ldexp(1+r.Float64(), 511+r.IntN(2)), math.Ldexp(1+r.Float64(), 511)
			c = math.Float64frombits(0x7FEFFFFFFFFFFFFF - r.Uint64N(3) | r.Uint64()&(1<<63))
		case 3: // ties
			_, e := math.Frexp(c)
			a, b = float64(r.IntN(64)-32), math.Ldexp(1+float64(r.IntN(3)-1)*0x1p-52, min(max(e-54+r.IntN(9)-4, -1060), 1000))
		case 4:
			s := func() float64 {
				return []float64{0, math.Copysign(0, -1), 0x1p-1074, -0x1p-1022, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN(), 1, -1}[r.IntN(10)]
			}
			a, b, c = s(), s(), s()
		}
		got, want := fma64(a, b, c), math.FMA(a, b, c)
		if i%8 == 0 {
			want = bigFMA64(a, b, c)
		}
		if math.Float64bits(got) != math.Float64bits(want) && !(got != got && want != want) {
			t.Fatalf("fma64(%x, %x, %x) = %x, want %x", a, b, c, got, want)
		}
	}
}

// chainFloat32 is the exact f32 of an element, written apart from the packing.
func chainFloat32(f format.Format, x uint64) float32 {
	l := chainLayouts[f]
	sign, e, m := x>>(l.width-1), int(x>>l.mantissa)&(1<<(l.width-1-l.mantissa)-1), x&(1<<l.mantissa-1)
	v := math.Ldexp(float64(m|1<<l.mantissa), e-l.bias-l.mantissa)
	switch {
	case e == 1<<(l.width-1-l.mantissa)-1 && m != 0:
		return float32(math.NaN())
	case e == 1<<(l.width-1-l.mantissa)-1:
		v = math.Inf(1)
	case e == 0:
		v = math.Ldexp(float64(m), 1-l.bias-l.mantissa)
	}
	if sign == 1 {
		v = -v
	}
	return float32(v)
}

// chainTile gives a tile's memory: a kind's numbers and zeros where lanes live, garbage elsewhere.
func chainTile(r *rand.Rand, f format.Format, kind string, size, ldc, m, n int) []uint64 {
	c := make([]uint64, size)
	for i := range c {
		c[i] = chainElement(r, f, "bits")
		if i%7 == 0 {
			c[i] = 1<<chainLayouts[f].width - 1 // a NaN
		}
	}
	for i := range m {
		for j := range n {
			switch x := chainElement(r, f, kind); r.IntN(4) {
			case 0:
				c[i*ldc+j] = r.Uint64() >> 63 << (chainLayouts[f].width - 1)
			default:
				c[i*ldc+j] = x
			}
		}
	}
	return c
}

func TestChain32(t *testing.T) {
	g := newGuardedMemory(t, 1<<20)
	for _, level := range chainLevels() {
		c := Chain32Kernel(level)
		var pa, pb Panel32
		t.Run(level.String(), func(t *testing.T) {
			chainShapes(t, c.MR, c.NR, func(r *rand.Rand, m, n, k, round int) {
				kind := chainKinds[round%len(chainKinds)]
				fa := []format.Format{format.F32, format.F32, format.F16, format.BF16}[r.IntN(4)]
				fb := fa
				if r.IntN(5) == 0 {
					fb = format.F32
				}
				a, _ := chainOperands(r, fa, kind, m, 0, k)
				_, b := chainOperands(r, fb, kind, 0, n, k)
				if fa == fb {
					a, b = chainOperands(r, fa, kind, m, n, k)
				}
				la, lb := r.IntN(len(chainStrides)), r.IntN(len(chainStrides))
				c.PackA(&pa, chainSource(r, g, fa, la, a, k))
				c.PackB(&pb, chainSource(r, g, fb, lb, b, k))
				chainPadding(t, &pa.slots, m, c.width, k)
				chainPadding(t, &pb.slots, n, c.width, k)
				ldc := c.NR + r.IntN(3)*5
				bits := chainTile(r, format.F32, kind, c.MR*ldc, ldc, m, n)
				acc := make([]float32, len(bits))
				for i := range acc {
					acc[i] = math.Float32frombits(uint32(bits[i]))
				}
				if !c.Run(acc, ldc, &pa, &pb) {
					t.Fatal("an f32 chain declined")
				}
				where := fmt.Sprintf("%s %d×%s (%s), %d×%s (%s), K %d", kind, m, chainName(fa), chainStrides[la].name, n, chainName(fb), chainStrides[lb].name, k)
				for i := range acc {
					got, want := math.Float32bits(acc[i]), uint32(bits[i])
					if i%ldc >= c.NR && got != want {
						t.Fatalf("%s: wrote between the tile's rows", where)
					}
					if i/ldc >= m || i%ldc >= n {
						continue
					}
					z := math.Float32frombits(want)
					for x := range k {
						z = FMA32(chainFloat32(fa, a[i/ldc][x]), chainFloat32(fb, b[i%ldc][x]), z)
					}
					if want = math.Float32bits(z); z != z {
						want = 0x7FFFFFFF
					}
					if got != want {
						t.Fatalf("%s: row %d column %d: %08x, want %08x", where, i/ldc, i%ldc, got, want)
					}
				}
			})
		})
	}
}

// Every level meets the hard places of TestFMA32: the triples stand on the tile's diagonal, their mixtures beside it.
func TestChain32HardPlaces(t *testing.T) {
	for _, level := range chainLevels() {
		k, r := Chain32Kernel(level), rand.New(rand.NewPCG(6, 6))
		var pa, pb Panel32
		a, b, acc, want := make([]float32, k.MR), make([]float32, k.NR), make([]float32, k.MR*k.NR), make([]uint32, k.MR*k.NR)
		for range 60_000 / k.MR {
			var c [16]float32
			for i := range a {
				a[i], b[i], c[i] = chainTriple32(r)
			}
			for j := k.MR; j < k.NR; j++ {
				b[j] = b[j-k.MR]
			}
			for i := range a {
				for j := range b {
					acc[i*k.NR+j] = c[i]
					want[i*k.NR+j] = math.Float32bits(FMA32(a[i], b[j], c[i]))
				}
			}
			k.PackA(&pa, &Source{Pointer: pointerOf(&a[0]), Format: format.F32, LaneStride: 1, KStride: 1, Lanes: k.MR, K: 1})
			k.PackB(&pb, &Source{Pointer: pointerOf(&b[0]), Format: format.F32, LaneStride: 1, KStride: 1, Lanes: k.NR, K: 1})
			k.Run(acc, k.NR, &pa, &pb)
			for i := range acc {
				if got := math.Float32bits(acc[i]); got != want[i] {
					t.Fatalf("%v: fma(%x, %x, %x) = %08x, want %08x", level, a[i/k.NR], b[i%k.NR], c[i/k.NR], got, want[i])
				}
			}
		}
	}
}

func chainName(f format.Format) string {
	return map[format.Format]string{format.F16: "f16", format.BF16: "bf16", format.F32: "f32", format.F64: "f64", format.S8: "s8", format.U8: "u8"}[f]
}

func TestChain64(t *testing.T) {
	g := newGuardedMemory(t, 1<<20)
	for _, level := range chainLevels() {
		c := Chain64Kernel(level)
		var pa, pb Panel64
		ran, declined := 0, 0
		t.Run(level.String(), func(t *testing.T) {
			chainShapes(t, c.MR, c.NR, func(r *rand.Rand, m, n, k, round int) {
				kind := chainKinds[round%len(chainKinds)]
				a, b := chainOperands(r, format.F64, kind, m, n, k)
				la, lb := r.IntN(len(chainStrides)), r.IntN(len(chainStrides))
				c.PackA(&pa, chainSource(r, g, format.F64, la, a, k))
				c.PackB(&pb, chainSource(r, g, format.F64, lb, b, k))
				chainPadding(t, &pa.slots, m, c.width, k)
				chainPadding(t, &pb.slots, n, c.width, k)
				ldc := c.NR + r.IntN(3)*5
				bits := chainTile(r, format.F64, kind, c.MR*ldc, ldc, m, n)
				acc := make([]float64, len(bits))
				for i := range acc {
					acc[i] = math.Float64frombits(bits[i])
				}
				where := fmt.Sprintf("%s %d (%s) × %d (%s), K %d", kind, m, chainStrides[la].name, n, chainStrides[lb].name, k)
				want, nan := append([]uint64{}, bits...), false
				for i := range m {
					for j := range n {
						z := math.Float64frombits(bits[i*ldc+j])
						for x := range k {
							z = math.FMA(math.Float64frombits(a[i][x]), math.Float64frombits(b[j][x]), z)
						}
						want[i*ldc+j] = math.Float64bits(z)
						nan = nan || z != z
					}
				}
				ok := c.Run(acc, ldc, &pa, &pb)
				if ok == nan {
					t.Fatalf("%s: Run returned %v, NaN among the results: %v", where, ok, nan)
				}
				if ran++; !ok {
					declined++
					want = bits
				}
				for i := range acc {
					if live := i/ldc < m && i%ldc < n; live || !ok || i%ldc >= c.NR {
						if got := math.Float64bits(acc[i]); got != want[i] {
							t.Fatalf("%s: row %d column %d: %016x, want %016x (ran: %v)", where, i/ldc, i%ldc, got, want[i], ok)
						}
					}
				}
			})
		})
		if declined == 0 || declined > ran/4 {
			t.Errorf("%v declined %d of %d tiles", level, declined, ran)
		}
	}
}

// A strip of more than one call into assembly continues its chains, and in f64 a NaN after the first call leaves c alone.
func TestChainPieces(t *testing.T) {
	const k = chainPiece + 37
	r := rand.New(rand.NewPCG(3, 3))
	x32, y32 := make([]float32, k), make([]float32, k)
	x64, y64 := make([]float64, k), make([]float64, k)
	for i := range k {
		x64[i], y64[i] = r.NormFloat64(), r.NormFloat64()
		x32[i], y32[i] = float32(x64[i]), float32(y64[i])
	}
	want32, want64 := float32(1), float64(1)
	for i := range k {
		want32, want64 = FMA32(x32[i], y32[i], want32), math.FMA(x64[i], y64[i], want64)
	}
	for _, level := range chainLevels() {
		c, d := Chain32Kernel(level), Chain64Kernel(level)
		var pa, pb Panel32
		source := func(p *float32) *Source {
			return &Source{Pointer: pointerOf(p), Format: format.F32, KStride: 1, LaneStride: k, Lanes: 1, K: k}
		}
		c.PackA(&pa, source(&x32[0]))
		c.PackB(&pb, source(&y32[0]))
		acc := make([]float32, c.MR*c.NR)
		acc[0] = 1
		if c.Run(acc, c.NR, &pa, &pb); acc[0] != want32 {
			t.Errorf("%v f32: %x, want %x", level, acc[0], want32)
		}
		var qa, qb Panel64
		source64 := func(p *float64) *Source {
			return &Source{Pointer: pointerOf(p), Format: format.F64, KStride: 1, LaneStride: k, Lanes: 1, K: k}
		}
		d.PackA(&qa, source64(&x64[0]))
		d.PackB(&qb, source64(&y64[0]))
		acc64 := make([]float64, d.MR*d.NR)
		acc64[0] = 1
		if ok := d.Run(acc64, d.NR, &qa, &qb); !ok || acc64[0] != want64 {
			t.Errorf("%v f64: %v %x, want %x", level, ok, acc64[0], want64)
		}
		acc64[0] = 1
		last := x64[k-1]
		x64[k-1] = math.NaN()
		d.PackA(&qa, source64(&x64[0]))
		if ok := d.Run(acc64, d.NR, &qa, &qb); ok || acc64[0] != 1 {
			t.Errorf("%v f64 with a NaN at the end: %v %x", level, ok, acc64[0])
		}
		x64[k-1] = last
	}
}

// Signed zeros, infinities and NaN, one at a time, at every level.
func TestChainSpecials(t *testing.T) {
	inf, nan, minus := float32(math.Inf(1)), float32(math.NaN()), float32(math.Copysign(0, -1))
	for _, x := range []struct {
		c, a, b float32
		want    uint32
	}{
		{minus, minus, 1, 0x80000000},
		{minus, 0, 1, 0},
		{0, minus, 1, 0},
		{minus, 0, -1, 0x80000000},
		{1, -1, 1, 0},
		{inf, -inf, 1, 0x7FFFFFFF},
		{1, inf, 0, 0x7FFFFFFF},
		{inf, 1, -5, 0x7F800000},
		{1, -inf, 1, 0xFF800000},
		{nan, 1, 1, 0x7FFFFFFF},
		{1, nan, 1, 0x7FFFFFFF},
		{1, 1, -nan, 0x7FFFFFFF},
		{math.MaxFloat32, 0x1p103, 1, 0x7F800000},
		{math.MaxFloat32, 0x1p103, 0x1.fffffep-1, 0x7F7FFFFF},
		{0, 0x1p-75, 0x1p-75, 0},
		{0, 0x1p-75, 0x1.000002p-75, 1},
		{0, -0x1p-76, 0x1p-75, 0x80000000},
		{0x1p-149, 0x1p-75, 0x1p-75, 2},
		{0x1p-149, 0x1p-75, 0x1.fffffep-76, 1},
	} {
		for _, level := range chainLevels() {
			k := Chain32Kernel(level)
			var pa, pb Panel32
			k.PackA(&pa, &Source{Pointer: pointerOf(&x.a), Format: format.F32, Lanes: 1, K: 1})
			k.PackB(&pb, &Source{Pointer: pointerOf(&x.b), Format: format.F32, Lanes: 1, K: 1})
			acc := make([]float32, k.MR*k.NR)
			acc[0] = x.c
			if k.Run(acc, k.NR, &pa, &pb); math.Float32bits(acc[0]) != x.want {
				t.Errorf("%v: fma(%x, %x, %x) = %08x, want %08x", level, x.a, x.b, x.c, math.Float32bits(acc[0]), x.want)
			}
		}
	}
}

// No k at all: nothing is added (a product of zeros would turn -0 into +0), but an f32 NaN becomes the canonical one.
func TestChainNothing(t *testing.T) {
	for _, level := range chainLevels() {
		k, d, e := Chain32Kernel(level), Chain64Kernel(level), Int8Kernel(level)
		var pa, pb Panel32
		k.PackA(&pa, &Source{Format: format.F32, Lanes: 2, K: 0})
		k.PackB(&pb, &Source{Format: format.F16, Lanes: 1, K: 0})
		acc := make([]float32, k.MR*k.NR)
		acc[0], acc[k.NR] = float32(math.Copysign(0, -1)), float32(math.NaN())
		k.Run(acc, k.NR, &pa, &pb)
		if x, y := math.Float32bits(acc[0]), math.Float32bits(acc[k.NR]); x != 1<<31 || y != 0x7FFFFFFF {
			t.Errorf("%v f32: %08x %08x", level, x, y)
		}
		var qa, qb Panel64
		d.PackA(&qa, &Source{Format: format.F64, Lanes: 1, K: 0})
		d.PackB(&qb, &Source{Format: format.F64, Lanes: 1, K: 0})
		acc64 := make([]float64, d.MR*d.NR)
		acc64[0] = math.Copysign(0, -1)
		if ok := d.Run(acc64, d.NR, &qa, &qb); !ok || math.Float64bits(acc64[0]) != 1<<63 {
			t.Errorf("%v f64: %v %x", level, ok, acc64[0])
		}
		var ra, rb PanelInt8
		e.PackA(&ra, &Source{Format: format.S8, Lanes: 1, K: 0})
		e.PackB(&rb, &Source{Format: format.U8, Lanes: 1, K: 0})
		accI := make([]int32, e.MR*e.NR)
		accI[0] = 5
		if ok := e.Run(accI, e.NR, &ra, &rb); !ok || accI[0] != 5 {
			t.Errorf("%v s8: %v %d", level, ok, accI[0])
		}
	}
}

// A strip that does not fit its kernel or its tile must stop before assembly reads past it.
func TestChainMisuse(t *testing.T) {
	refuses := func(what string, f func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s was accepted", what)
			}
		}()
		f()
	}
	for _, level := range chainLevels() {
		k := Chain32Kernel(level)
		x := make([]float32, 64*4)
		src := func(lanes, n int) *Source {
			return &Source{Pointer: pointerOf(&x[0]), Format: format.F32, LaneStride: 1, KStride: 64, Lanes: lanes, K: n}
		}
		var a, b Panel32
		acc := make([]float32, k.MR*k.NR)
		refuses("a strip of too many lanes", func() { k.PackA(&a, src(k.MR+1, 1)) })
		refuses("a format of another kernel", func() { s := src(1, 1); s.Format = format.F64; k.PackA(&a, s) })
		k.PackA(&a, src(k.MR, 3))
		k.PackB(&b, src(k.NR, 4))
		refuses("panels of different K", func() { k.Run(acc, k.NR, &a, &b) })
		k.PackB(&b, src(k.NR, 3))
		refuses("a short tile", func() { k.Run(acc[:len(acc)-1], k.NR, &a, &b) })
		refuses("panels the wrong way round", func() { k.Run(acc, k.NR, &b, &a) })
		if !k.Run(acc, k.NR, &a, &b) {
			t.Error("a fitting tile was refused")
		}
	}
}

// Widening f16 while packing is exact for every pattern.
func TestWidenF16(t *testing.T) {
	for h := range 1 << 16 {
		got, want := math.Float32frombits(widenF16(uint16(h))), chainFloat32(format.F16, uint64(h))
		if got != want && !(got != got && want != want) || (got == 0 && math.Signbit(float64(got)) != (h>>15 == 1)) {
			t.Fatalf("f16 %04x: %x, want %x", h, got, want)
		}
	}
}
