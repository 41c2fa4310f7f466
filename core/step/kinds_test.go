package step

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

func find(t testing.TB, name string) Params {
	e, found := Find(name)
	if !found {
		t.Fatalf("no entry %s", name)
	}
	return e.Params
}

// TestFMA compares the chain with the processor's fused multiply-add in f64, and with fractions in f32.
func TestFMA(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	f64, f32 := find(t, "cuda-core/f64"), find(t, "cuda-core/f32")
	for range 100000 {
		x, y, z := element(r, format.F64), element(r, format.F64), element(r, format.F64)
		if r.IntN(2) == 0 { // near cancellation
			z = math.Float64bits(-math.Float64frombits(x) * math.Float64frombits(y))
		}
		want := math.FMA(math.Float64frombits(x), math.Float64frombits(y), math.Float64frombits(z))
		got := f64.Dot([]uint64{x}, []uint64{y}, z)
		if math.IsNaN(want) {
			if f64.Result.Decode(got).Class != format.NaN {
				t.Fatalf("fma(%#x, %#x, %#x) is %#x, want NaN", x, y, z, got)
			}
		} else if got != math.Float64bits(want) {
			t.Fatalf("fma(%#x, %#x, %#x) is %#x, want %#x", x, y, z, got, math.Float64bits(want))
		}

		a, b, c := uint32(element(r, format.F32)), uint32(element(r, format.F32)), uint32(element(r, format.F32))
		af, bf, cf := math.Float32frombits(a), math.Float32frombits(b), math.Float32frombits(c)
		if r.IntN(2) == 0 {
			cf = -float32(af * bf)
			c = math.Float32bits(cf)
		}
		got32 := uint32(f32.Dot([]uint64{uint64(a)}, []uint64{uint64(b)}, uint64(c)))
		// In f64 the product is exact and the sum at least as large: enough for the special values.
		if s := float64(float64(af)*float64(bf)) + float64(cf); math.IsNaN(s) || math.IsInf(s, 0) {
			want := uint32(0x7fffffff)
			if !math.IsNaN(s) {
				want = math.Float32bits(float32(s))
			}
			if got32 != want {
				t.Fatalf("f32 fma(%v, %v, %v) is %#x, want %#x", af, bf, cf, got32, want)
			}
			continue
		}
		q := new(big.Rat).SetFloat64(float64(af))
		q.Mul(q, new(big.Rat).SetFloat64(float64(bf))).Add(q, new(big.Rat).SetFloat64(float64(cf)))
		rounded, _ := q.Float32()
		want32 := math.Float32bits(rounded)
		negative := (a^b)>>31 == 1
		if q.Sign() < 0 && rounded == 0 || q.Sign() == 0 && negative && c>>31 == 1 && float64(af)*float64(bf) == 0 {
			want32 = 0x80000000
		}
		if got32 != want32 {
			t.Fatalf("f32 fma(%v, %v, %v) is %#x, want %#x", af, bf, cf, got32, want32)
		}
	}
}

func TestFMAZerosAndNaN(t *testing.T) {
	f32, f64 := find(t, "cuda-core/f32"), find(t, "cuda-core/f64")
	const minus = 0x80000000
	one, minusOne := enc(format.F32, 1), enc(format.F32, -1)
	for _, c := range []struct{ a, b, c, want uint64 }{
		{0, one, minus, 0}, {minus, one, minus, minus}, {minus, one, 0, 0}, {one, one, minusOne, 0}, {1, minusOne, minus, 0x80000001},
		{1, 0x80000001, 0, minus}, // -2^-298 rounds to -0
	} {
		if got := f32.Dot([]uint64{c.a}, []uint64{c.b}, c.c); got != c.want {
			t.Errorf("f32 fma(%#x, %#x, %#x) is %#x, want %#x", c.a, c.b, c.c, got, c.want)
		}
	}
	// Measured on an H200 (1,096 products of f64, tests/gpu/open_questions.py): a NaN operand comes out quiet with its sign,
	// B's before the accumulator's before A's; an invalid operation gives 0xFFF8000000000000.
	const inf, minusInf = 0x7ff0000000000000, 0xfff0000000000000
	x, y := uint64(0xfff1f60e8121e063), uint64(0xfff55de53dd63fa5)
	for _, c := range []struct {
		a, b []uint64
		c    uint64
		want uint64
	}{
		{[]uint64{0x7ff1d0ddd3e11611}, []uint64{inf}, 0, 0x7ff9d0ddd3e11611},
		{[]uint64{x, y}, []uint64{5, 6}, 0, x | 1<<51},
		{[]uint64{y, x}, []uint64{5, 6}, 0, y | 1<<51},
		{[]uint64{5}, []uint64{x}, y, x | 1<<51},
		{[]uint64{x}, []uint64{5}, y, y | 1<<51},
		{[]uint64{x}, []uint64{y}, 0, y | 1<<51},
		{[]uint64{5, 6}, []uint64{x, y}, 0, y | 1<<51},
		{[]uint64{x, 5}, []uint64{6, y}, 0, y | 1<<51},
		{[]uint64{5, x}, []uint64{y, 6}, 0, y | 1<<51},
		{[]uint64{0}, []uint64{inf}, y, y | 1<<51},
		{[]uint64{inf, inf}, []uint64{1 << 62, 1<<62 | 1<<63}, 0, 0xfff8000000000000},
		{[]uint64{0}, []uint64{inf}, 0, 0xfff8000000000000},
		{[]uint64{inf}, []uint64{1 << 62}, minusInf, 0xfff8000000000000},
	} {
		if got := f64.Dot(c.a, c.b, c.c); got != c.want {
			t.Errorf("f64 %#x by %#x onto %#x is %#x, want %#x", c.a, c.b, c.c, got, c.want)
		}
	}
	// The other way round, as where a row vector is multiplied: A's NaN before the accumulator's before B's.
	vector := f64
	vector.NaNFirst = OperandA
	for _, c := range [][4]uint64{{x, y, 0, x}, {x, 5, y, x}, {5, x, y, y}} {
		if got := vector.Dot(c[:1], c[1:2], c[2]); got != c[3]|1<<51 {
			t.Errorf("f64 %#x by %#x onto %#x is %#x", c[0], c[1], c[2], got)
		}
	}
	// In f32 every NaN is the canonical one.
	if got := f32.Dot([]uint64{0x7f812345}, []uint64{one}, 0xffc00001); got != 0x7fffffff {
		t.Errorf("f32 NaN is %#x", got)
	}
	// Half-precision operands on CUDA cores: products exact, beyond f32's own subnormals.
	bf := find(t, "cuda-core/bf16")
	a := []uint64{enc(format.BF16, pow2(-100)), enc(format.BF16, pow2(-100))}
	b := []uint64{enc(format.BF16, -pow2(-50)), enc(format.BF16, 1.5*pow2(-50))}
	if got := bf.Dot(a, b, 1); got != 1 { // 2^-149 - 2^-150 is a tie, to even: 0... and then 1.5 * 2^-150 more
		t.Errorf("bf16 chain is %#x, want 1", got)
	}
}

func TestInteger(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, name := range []string{"integer/s8", "integer/u8", "integer/s8-u8", "integer/u8-s8"} {
		p := find(t, name)
		value := func(f format.Format, x uint64) int64 {
			if f == format.S8 {
				return int64(int8(x))
			}
			return int64(x)
		}
		for range 2000 {
			n := r.IntN(100)
			a, b := make([]uint64, n), make([]uint64, n)
			c := r.Uint32()
			sum := int64(int32(c))
			for k := range n {
				a[k], b[k] = r.Uint64N(256), r.Uint64N(256)
				sum += value(p.A, a[k]) * value(p.B, b[k])
			}
			if got := p.Dot(a, b, uint64(c)); got != uint64(uint32(sum)) {
				t.Fatalf("%s: %#x, want %#x", name, got, uint32(sum))
			}
		}
		// Wrapping at both ends.
		if got := p.Dot([]uint64{1}, []uint64{1}, 0x7fffffff); got != 0x80000000 {
			t.Errorf("%s: 2^31 - 1 + 1 is %#x", name, got)
		}
	}
	s := find(t, "integer/s8")
	if got := s.Dot([]uint64{0x80}, []uint64{0x80}, 0); got != 16384 {
		t.Errorf("-128 * -128 is %d", got)
	}
	if got := s.Dot([]uint64{1}, []uint64{0xff}, 0x80000000); got != 0x7fffffff {
		t.Errorf("-2^31 - 1 is %#x", got)
	}
}

// dot is a chain over values.
func dot(p Params, a, b []float64, c float64) float64 {
	x, y := make([]uint64, len(a)), make([]uint64, len(a))
	for k := range a {
		x[k], y[k] = enc(p.A, a[k]), enc(p.B, b[k])
	}
	return float64(math.Float32frombits(uint32(p.Dot(x, y, enc(p.Result, c)))))
}

func ones(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

func TestCDNA1ReadingsDiffer(t *testing.T) {
	exact, pairs := find(t, "cdna1/f16-exact"), find(t, "cdna1/f16-pairwise")
	big := []float64{pow2(12), pow2(-12), -pow2(12), 0} // 2^24 + 2^-12 loses its last bit in f32
	by := []float64{pow2(12), 1, pow2(12), 0}
	if got := dot(exact, big, by, 0); got != pow2(-12) {
		t.Errorf("the exact sum is %v", got)
	}
	if got := dot(pairs, big, by, 0); got != 0 {
		t.Errorf("the pairwise sum is %v", got)
	}
	// p0 + p1 cancels before p2 joins, p1 + p2 does not.
	if got := dot(pairs, []float64{pow2(12), -pow2(12), pow2(-12), 0}, []float64{pow2(12), pow2(12), 1, 0}, 0); got != pow2(-12) {
		t.Errorf("the pairwise sum of a cancelling pair is %v", got)
	}
	// C is added last: 2^24 would swallow a product alone.
	if got := dot(pairs, ones(4), ones(4), pow2(26)); got != pow2(26)+0 {
		t.Errorf("2^26 + 4 is %v", got) // ulp of 2^26 is 8: a tie, to even
	}
	if got := dot(exact, []float64{3, 1, 1, 0}, ones(4), pow2(26)); got != pow2(26)+8 {
		t.Errorf("2^26 + 5 is %v", got)
	}
	// Neither truncates a term: 2^-48 counts beside 2^30 when the rest cancels.
	if got := dot(exact, []float64{pow2(15), -pow2(15), pow2(-24), 0}, []float64{pow2(15), pow2(15), pow2(-24), 0}, 0); got != pow2(-48) {
		t.Errorf("the exact sum is %v", got)
	}
	// A bf16 group of two: f32 rounds between it and the next.
	two, four := find(t, "cdna1/bf16-exact"), find(t, "cdna1/bf16-k4-exact")
	a, b := []float64{pow2(24), 1, -pow2(24), 0}, ones(4)
	if got2, got4 := dot(two, a, b, 0), dot(four, a, b, 0); got2 != 0 || got4 != 1 {
		t.Errorf("groups of two give %v, of four %v", got2, got4)
	}
}

func TestCDNA2Flushes(t *testing.T) {
	f16, bf16, k1 := find(t, "cdna2/f16"), find(t, "cdna2/bf16"), find(t, "cdna2/bf16-1k")
	if got := dot(f16, []float64{pow2(-20)}, []float64{1}, 0); got != 0 {
		t.Errorf("a subnormal f16 operand gives %v", got)
	}
	if got := dot(f16, []float64{pow2(-14)}, []float64{pow2(-14)}, 0); got != pow2(-28) {
		t.Errorf("the least normal f16 operands give %v", got)
	}
	if got := dot(bf16, []float64{pow2(-70)}, []float64{pow2(-60)}, 0); got != 0 {
		t.Errorf("a subnormal result is %v", got)
	}
	if got := dot(bf16, []float64{1}, []float64{1}, pow2(-130)); got != 1 {
		t.Errorf("a subnormal accumulator gives %v", got)
	}
	if got := dot(bf16, []float64{0}, []float64{1}, pow2(-130)); got != 0 {
		t.Errorf("a subnormal accumulator alone gives %v", got)
	}
	a, b := []float64{pow2(24), 1, -pow2(24), 0}, ones(4)
	if got := dot(bf16, a, b, 0); got != 0 { // 2^24 + 1, a tie, to even, then - 2^24
		t.Errorf("groups of two give %v", got)
	}
	// (2^24 + 1) + (-2^24 + 1): the second pair is exact.
	if got := dot(k1, []float64{pow2(24), 1, -pow2(24), 1}, b, 0); got != 1 {
		t.Errorf("a group of four gives %v", got)
	}
}

func TestCDNA3(t *testing.T) {
	f16, xf32, f8 := find(t, "cdna3/f16"), find(t, "cdna3/xf32"), find(t, "cdna3/e4m3fnuz")
	for _, c := range []struct {
		what    string
		p       Params
		a, b    []float64
		c, want float64
	}{
		{"products keep 24 bits below the largest", f16, []float64{1, -1, pow2(-12)}, []float64{1, 1, pow2(-12)}, 0, pow2(-24)},
		{"and no more", f16, []float64{1, -1, pow2(-12)}, []float64{1, 1, pow2(-13)}, 0, 0},
		{"negative products are cut toward zero", f16, []float64{1, -1, -pow2(-12)}, []float64{1, 1, pow2(-13)}, 0, 0},
		{"C is cut at 24 bits", f16, []float64{1}, []float64{1}, pow2(-25), 1},
		{"toward minus infinity", f16, []float64{1}, []float64{1}, -pow2(-40), 1 - pow2(-24)},
		{"the products' sum keeps 31 bits below C", f16, []float64{pow2(-15), pow2(-15)}, []float64{pow2(-15), pow2(-15)}, -1, -1 + 0},
		{"and is cut toward minus infinity there", f16, []float64{-pow2(-20)}, []float64{pow2(-20)}, 1, 1 - 0},
		{"rounded to nearest even", f16, []float64{1}, []float64{pow2(-1)}, pow2(23), pow2(23)},
		{"rounded to nearest", f16, []float64{1.5}, []float64{pow2(-1)}, pow2(23), pow2(23) + 1},
		{"a group of eight", f16, []float64{64, 0, 0, 0, 0, 0, 0, pow2(-12)}, []float64{64, 0, 0, 0, 0, 0, 0, 1}, -4096, pow2(-12)},
		{"xf32 takes four at once", xf32, []float64{pow2(30), 0, 0, -pow2(30), 1}, ones(5), 0, 1},
		{"a product below the other parity's last place is cut toward minus infinity", f8, []float64{16, -pow2(-7)}, []float64{16, pow2(-10)}, 0, 256 - pow2(-16)},
		{"while beside its own parity it is cut toward zero", f8, []float64{16, 0, -pow2(-7)}, []float64{16, 0, pow2(-10)}, 0, 256},
		{"C far below is dropped", f8, []float64{1}, []float64{1}, -pow2(-26), 1},
		{"C just below is not", f8, []float64{1}, []float64{1}, -pow2(-25), 1 - pow2(-24)},
		{"zeros", f8, []float64{0}, []float64{1}, 0, 0},
		{"C alone", f8, []float64{0}, []float64{1}, -pow2(-140), -pow2(-140)},
	} {
		if got := dot(c.p, c.a, c.b, c.c); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
	nan, inf := math.NaN(), math.Inf(1)
	if got := dot(f16, []float64{inf}, []float64{1}, -inf); !math.IsNaN(got) {
		t.Errorf("Inf - Inf is %v", got)
	}
	if got := dot(f8, []float64{nan}, []float64{1}, 0); !math.IsNaN(got) {
		t.Errorf("NaN is %v", got)
	}
}

func TestScaled(t *testing.T) {
	mx, k64, nv := find(t, "mx/e4m3"), find(t, "mx/e2m1-k64-e8m0"), find(t, "mx/e2m1-k64-ue4m3")
	run := func(p Params, a, b, sa, sb []float64, c float64) float64 {
		encode := func(f format.Format, v []float64) []uint64 {
			out := make([]uint64, len(v))
			for i := range v {
				out[i] = enc(f, v[i])
			}
			return out
		}
		return float64(math.Float32frombits(uint32(p.DotScaled(encode(p.A, a), encode(p.B, b), encode(p.Scale, sa), encode(p.Scale, sb), enc(p.Result, c)))))
	}
	at := func(n int, elements map[int]float64) []float64 {
		out := make([]float64, n)
		for k, v := range elements {
			out[k] = v
		}
		return out
	}
	for _, c := range []struct {
		what         string
		p            Params
		a, b, sa, sb []float64
		c, want      float64
	}{
		{"scales multiply", mx, ones(32), ones(32), []float64{pow2(10)}, []float64{pow2(-3)}, 1, 32*pow2(7) + 1},
		{"scale exponents are added to the products'", mx, []float64{1, -1, pow2(-6)}, []float64{1, 1, pow2(-9)}, []float64{pow2(100)}, []float64{1}, 0, pow2(85)},
		{"below C's last place", mx, []float64{1}, []float64{1}, []float64{pow2(-26)}, []float64{1}, 1, 1},
		{"a new block a new scale", mx, ones(64), ones(64), []float64{1, pow2(4)}, []float64{1, 1}, 0, 32 * 17},
		{"a short last block", mx, ones(33), ones(33), []float64{1, pow2(4)}, []float64{1, 2}, 0, 32 + 32},
		{"products far apart are summed exactly within sixteen", k64, []float64{6, -6, 0.5}, []float64{6, 6, 0.5}, []float64{pow2(-100)}, []float64{1}, 0, pow2(-102)},
		{"four terms, two scales", k64, ones(64), ones(64), []float64{1, pow2(10)}, []float64{1, 2}, -32, 32 * 2048},
		{"35 fraction bits below the largest scale exponent", k64, at(64, map[int]float64{0: 6, 16: -6, 32: 4}), at(64, map[int]float64{0: 6, 16: 6, 32: 2}),
			[]float64{1, pow2(-38)}, []float64{1, 1}, 0, pow2(-35)},
		{"and no more", k64, at(64, map[int]float64{0: 6, 16: -6, 32: 4}), at(64, map[int]float64{0: 6, 16: 6, 32: 1}),
			[]float64{1, pow2(-38)}, []float64{1, 1}, 0, 0},
		{"products that cancel keep their scale's exponent", k64, at(64, map[int]float64{0: 1, 1: -1, 32: 1}), ones(64), []float64{1, pow2(-36)}, []float64{1, 1}, 0, 0},
		{"a block of zeros does not", k64, at(64, map[int]float64{32: 1}), ones(64), []float64{1, pow2(-36)}, []float64{1, 1}, 0, pow2(-36)},
		{"ue4m3 scales have significands", nv, ones(16), ones(16), []float64{1.125}, []float64{1.25}, 0, 16 * 1.125 * 1.25},
		{"a block every sixteen", nv, ones(64), ones(64), []float64{1, 2, 4, 8}, ones(4), 0, 16 * 15},
		{"a zero scale", nv, ones(16), ones(16), []float64{0}, []float64{1}, 5, 5},
	} {
		if got := run(c.p, c.a, c.b, c.sa, c.sb, c.c); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
	for _, p := range []Params{mx, nv} {
		if got := p.DotScaled([]uint64{0}, []uint64{0}, []uint64{p.Scale.NaN()}, []uint64{0}, 0); got != 0x7fffffff {
			t.Errorf("a NaN scale gives %#x", got)
		}
	}
	if got := mx.DotScaled(nil, nil, nil, nil, 0x3f800000); got != 0x3f800000 {
		t.Errorf("no elements give %#x", got)
	}
	// With scales of 1 the k32 step is the unscaled one.
	r := rand.New(rand.NewPCG(2, 3))
	plain := find(t, "blackwell/e5m2")
	plain.Floor = nil
	e5 := find(t, "mx/e5m2")
	for range 3000 {
		a, b := make([]uint64, 64), make([]uint64, 64)
		for k := range a {
			a[k], b[k] = element(r, format.E5M2), element(r, format.E5M2)
		}
		c := element(r, format.F32)
		s := []uint64{127, 127}
		if got, want := e5.DotScaled(a, b, s, s, c), plain.Dot(a, b, c); got != want {
			t.Fatalf("%#x with scales of 1, %#x without", got, want)
		}
	}
}

func TestInput(t *testing.T) {
	p := find(t, "hopper/tf32")
	if !p.TakesF32() || p.Input(math.Float32bits(1024.5)) != uint64(math.Float32bits(1024)) || p.Input(math.Float32bits(1025.5)) != uint64(math.Float32bits(1026)) {
		t.Error("f32 operands are not rounded to nearest even")
	}
	if q := find(t, "hopper/bf16"); q.TakesF32() {
		t.Error("bf16 takes f32")
	}
	// The step itself ignores the bits below tf32.
	if got := p.Dot([]uint64{uint64(math.Float32bits(1025.75))}, []uint64{uint64(math.Float32bits(1))}, 0); got != uint64(math.Float32bits(1025)) {
		t.Errorf("an operand with lower bits gives %#x", got)
	}
}

func TestShortConvertedSpan(t *testing.T) {
	// 20 elements: the groups are those of 32, with the last twelve zeros, not halves of 20.
	p := find(t, "hopper/e4m3-mma")
	elements := repeat(pair{0, 0}, 20)
	elements[0], elements[1], elements[16] = power(1, 16), power(1, -9), power(-1, 16)
	v := p.vector("", "", "", elements, 0, pow2(-9))
	if got := p.Dot(v.a, v.b, 0); got != v.want {
		t.Errorf("%#x, want %#x", got, v.want)
	}
	for n := range 33 {
		total := 0
		for _, g := range p.Groups(n) {
			total += len(g)
			for _, k := range g {
				if k%4/2 != g[0]%4/2 || k >= n {
					t.Errorf("%d elements: groups %v", n, p.Groups(n))
				}
			}
		}
		if total != n {
			t.Errorf("%d elements: %d in groups", n, total)
		}
	}
}
