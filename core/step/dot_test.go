package step

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"pgregory.net/rapid"
)

// rational is the fused step written a second time, on fractions: values instead of significands, exponents by
// comparison, rounding by division.
func rational(p Params, a, b []uint64, c uint64) uint64 {
	type summand struct {
		v        *big.Rat
		exponent int
	}
	var terms []summand
	var nan, plus, minus bool
	take := func(factors ...format.Number) {
		s := summand{v: big.NewRat(1, 1)}
		neg, inf, zero := false, false, false
		for _, n := range factors {
			nan = nan || n.Class == format.NaN
			inf = inf || n.Class == format.Inf
			zero = zero || n.Class == format.Zero
			neg = neg != n.Neg
			s.v.Mul(s.v, new(big.Rat).SetInt64(int64(n.Sig)))
			s.v.Mul(s.v, ratPow2(n.Exp))
			s.exponent += n.Exponent
		}
		switch {
		case inf && zero:
			nan = true
		case inf:
			plus, minus = plus || !neg, minus || neg
		case !zero:
			if neg {
				s.v.Neg(s.v)
			}
			terms = append(terms, s)
		}
	}
	for k := range a {
		take(p.A.Decode(a[k]), p.B.Decode(b[k]))
	}
	take(p.Result.Decode(c))
	switch {
	case nan || plus && minus:
		return p.Result.NaN()
	case plus || minus:
		return p.Result.Inf(minus)
	case len(terms) == 0:
		return 0
	}
	e := math.MinInt
	if p.Floor != nil {
		e = *p.Floor
	}
	for _, s := range terms {
		e = max(e, s.exponent)
	}
	quantum := ratPow2(e - p.Fraction)
	sum := new(big.Rat)
	for _, s := range terms {
		sum.Add(sum, new(big.Rat).Mul(ratTrunc(new(big.Rat).Quo(s.v, quantum), p.Align), quantum))
	}
	// The result: to a multiple of the last place of sum's binade.
	if sum.Sign() == 0 {
		return 0
	}
	i := p.Result.Info()
	kept := i.MantissaBits
	if p.ResultFraction != 0 {
		kept = p.ResultFraction
	}
	magnitude := new(big.Rat).Abs(sum)
	binade := i.MinExponent
	for magnitude.Cmp(ratPow2(binade+1)) >= 0 {
		binade++
	}
	last := ratPow2(binade - kept)
	sum.Mul(ratTrunc(sum.Quo(sum, last), p.ResultRounding), last)
	if magnitude.Abs(sum).Cmp(ratPow2(i.MaxExponent+1)) >= 0 {
		return p.Result.Inf(sum.Sign() < 0)
	}
	v, exact := sum.Float64() // f32 and f16 fit
	if !exact {
		panic("more bits than f64")
	}
	if p.Result == format.F32 {
		return uint64(math.Float32bits(float32(v)))
	}
	return uint64(format.F32ToF16(math.Float32bits(float32(v))))
}

func ratPow2(e int) *big.Rat {
	r := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(max(e, -e))))
	if e < 0 {
		r.Inv(r)
	}
	return r
}

// ratTrunc rounds a fraction to an integer.
func ratTrunc(x *big.Rat, how format.Rounding) *big.Rat {
	floor := new(big.Int).Div(x.Num(), x.Denom()) // Euclidean: toward minus infinity, the denominator being positive
	rest := new(big.Rat).Sub(x, new(big.Rat).SetInt(floor))
	half := rest.Cmp(big.NewRat(1, 2))
	up := false
	switch how {
	case format.TowardZero:
		up = x.Sign() < 0 && rest.Sign() != 0
	case format.Up:
		up = rest.Sign() != 0
	case format.NearestEven:
		up = half > 0 || half == 0 && floor.Bit(0) == 1
	case format.NearestAway:
		up = half > 0 || half == 0 && x.Sign() > 0
	}
	if up {
		floor.Add(floor, big.NewInt(1))
	}
	return new(big.Rat).SetInt(floor)
}

// element draws a pattern: anything, or something of ordinary size, or a special value.
func element(r *rand.Rand, f format.Format) uint64 {
	i := f.Info()
	x := r.Uint64() >> (64 - i.Bits)
	switch r.IntN(8) {
	case 0, 1, 2: // around 1
		x = x&^((1<<i.ExponentBits-1)<<(i.MantissaBits+i.Padding)) | uint64(i.Bias-3+r.IntN(6))<<(i.MantissaBits+i.Padding)
	case 3: // subnormal, zero
		x &^= (1<<i.ExponentBits - 1) << (i.MantissaBits + i.Padding)
		x >>= i.Padding
		x <<= i.Padding
		if r.IntN(2) == 0 {
			x = f.Zero(r.IntN(2) == 0)
		}
	case 4, 5, 6:
		if n := f.Decode(x); n.Class == format.NaN || n.Class == format.Inf {
			x = f.MaxFinite(r.IntN(2) == 0)
		}
	}
	return x
}

// TestFusedAgainstFractions: any parameters, wider than any hardware's, any operands.
func TestFusedAgainstFractions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	operands := []format.Format{format.F16, format.BF16, format.TF32, format.E4M3, format.E5M2, format.E4M3FNUZ, format.E5M2FNUZ, format.E2M1, format.E3M2, format.E2M3}
	results := map[format.Class]int{}
	for n := range 12000 {
		p := Params{Kind: Fused, A: operands[r.IntN(len(operands))], B: operands[r.IntN(len(operands))], Group: 1 + r.IntN(70),
			Fraction: 1 + r.IntN(66), Align: format.Roundings()[r.IntN(5)], Result: format.F32, ResultRounding: format.Roundings()[r.IntN(5)]}
		if r.IntN(2) == 0 {
			p.Result = format.F16
		}
		if r.IntN(2) == 0 {
			p.Floor = ptr(r.IntN(200) - 190)
		}
		if r.IntN(3) == 0 {
			p.ResultFraction = 1 + r.IntN(p.Result.Info().MantissaBits-1)
		}
		if r.IntN(2) == 0 {
			p.Group = 1 + r.IntN(5)
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		a, b := make([]uint64, r.IntN(p.Group)+1), make([]uint64, p.Group)
		b = b[:len(a)]
		for k := range a {
			a[k], b[k] = element(r, p.A), element(r, p.B)
		}
		c := element(r, p.Result)
		got, want := p.Dot(a, b, c), rational(p, a, b, c)
		if got != want {
			t.Fatalf("case %d, %s: a %#x, b %#x, c %#x: %#x, want %#x", n, p.Describe(), a, b, c, got, want)
		}
		results[p.Result.Decode(got).Class]++
	}
	if results[format.Finite] < 3000 || results[format.NaN] < 500 || results[format.Inf] < 100 || results[format.Zero] < 40 {
		t.Errorf("results were of too few kinds: %v", results)
	}
}

// draw makes operands of a step for a property.
func draw(t *rapid.T, p Params, n int) (a, b []uint64, c uint64) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5))
	for range n {
		a, b = append(a, element(r, p.A)), append(b, element(r, p.B))
	}
	return a, b, element(r, p.Result)
}

func drawFused(t *rapid.T) Params {
	for {
		e := rapid.SampledFrom(Catalogue()).Draw(t, "entry")
		if e.Params.Kind == Fused {
			return e.Params
		}
	}
}

func TestOrderInAGroupDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawFused(t)
		a, b, c := draw(t, p, p.Group)
		want := p.Dot(a, b, c)
		places := rapid.Permutation(seq(p.Group)).Draw(t, "places")
		x, y := make([]uint64, p.Group), make([]uint64, p.Group)
		for i, k := range places {
			x[i], y[i] = a[k], b[k]
		}
		if got := p.Dot(x, y, c); got != want {
			t.Fatalf("%#x in another order, %#x in this", got, want)
		}
		if p.A == p.B { // nor do A and B
			if got := p.Dot(b, a, c); got != want {
				t.Fatalf("%#x with A and B exchanged, %#x before", got, want)
			}
		}
	})
}

func seq(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func TestZeroProductsAddNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawFused(t)
		n := rapid.IntRange(1, p.Group).Draw(t, "n")
		a, b, c := draw(t, p, n)
		want := p.Dot(a, b, c)
		for len(a) < p.Group { // zeros beside any finite number
			other := p.B.MaxFinite(rapid.Bool().Draw(t, "sign"))
			a, b = append(a, p.A.Zero(rapid.Bool().Draw(t, "zero"))), append(b, other)
		}
		if got := p.Dot(a, b, c); got != want {
			t.Fatalf("%#x with zeros, %#x without", got, want)
		}
	})
}

func TestScalingByPowersOfTwo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawFused(t)
		if p.Result != format.F32 {
			t.Skip("f16 results are too narrow to stay away from the limits")
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 6))
		i := p.A.Info()
		shift := rapid.IntRange(-2, 2).Draw(t, "shift")
		// Exponents of A keep two places free on each side and mantissas are normal, so that scaling is exact.
		low, high := i.MinExponent+2, i.MaxExponent-3
		if low > high {
			t.Skip("the format is too narrow")
		}
		low, high = max(low, -30), min(high, 30)
		var a, scaled, b []uint64
		for range p.Group {
			m := r.Uint64N(1<<i.MantissaBits) << i.Padding
			e := low + r.IntN(high-low+1)
			sign := r.Uint64N(2) << (i.Bits - 1)
			a = append(a, sign|m|uint64(e+i.Bias)<<(i.MantissaBits+i.Padding))
			scaled = append(scaled, sign|m|uint64(e+shift+i.Bias)<<(i.MantissaBits+i.Padding))
			x := element(r, p.B)
			if n := p.B.Decode(x); n.Class != format.Finite || n.Exponent < -30 || n.Exponent > 30 {
				x = enc(p.B, -1)
			}
			b = append(b, x)
		}
		c := r.Uint32()&0x807fffff | (97+r.Uint32N(60))<<23
		got := p.Dot(scaled, b, uint64(c+uint32(shift)<<23))
		want := p.Dot(a, b, uint64(c))
		if want&0x7fffffff != 0 {
			want = uint64(uint32(want) + uint32(shift)<<23)
		}
		if got != want {
			t.Fatalf("scaled by 2^%d: %#x, want %#x", shift, got, want)
		}
	})
}

func TestChaining(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.SampledFrom(Catalogue()).Draw(t, "entry")
		p := e.Params
		if p.Kind == Scaled {
			t.Skip("has its own test")
		}
		n := rapid.IntRange(0, 3*p.Span()+1).Draw(t, "n")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 7))
		a, b := make([]uint64, n), make([]uint64, n)
		for k := range n {
			if p.Kind == Integer {
				a[k], b[k] = r.Uint64N(256), r.Uint64N(256)
			} else {
				a[k], b[k] = element(r, p.A), element(r, p.B)
			}
		}
		c := r.Uint64() & (1<<p.Result.Info().Bits - 1)
		cut := 0
		if n > 0 {
			cut = rapid.IntRange(0, n/p.Span()).Draw(t, "steps") * p.Span()
		}
		want := p.Dot(a, b, c)
		if got := p.Dot(a[cut:], b[cut:], p.Dot(a[:cut], b[:cut], c)); got != want {
			t.Fatalf("%s: %#x in two pieces, %#x in one", e.Name, got, want)
		}
		if n == 0 && want != c {
			t.Fatalf("%s: no elements gave %#x of %#x", e.Name, want, c)
		}
		// A short last step is a full one padded with zeros, except for the sign of a zero.
		if last := n % p.Span(); last != 0 && p.ZeroSign == PositiveZero {
			pad := make([]uint64, p.Span()-last)
			if got := p.Dot(append(a, pad...), append(b, pad...), c); got != want {
				t.Fatalf("%s: %#x padded, %#x not", e.Name, got, want)
			}
		}
	})
}

func TestWrongLengthsPanic(t *testing.T) {
	p, _ := Find("hopper/f16")
	mx, _ := Find("mx/e4m3")
	for name, f := range map[string]func(){
		"Dot":       func() { p.Params.Dot(make([]uint64, 3), make([]uint64, 4), 0) },
		"Step":      func() { p.Params.Step(make([]uint64, 17), make([]uint64, 17), 0) },
		"no scales": func() { mx.Params.Dot(make([]uint64, 3), make([]uint64, 3), 0) },
		"few scales": func() {
			mx.Params.DotScaled(make([]uint64, 33), make([]uint64, 33), make([]uint64, 1), make([]uint64, 2), 0)
		},
		"other scales": func() {
			p.Params.DotScaled(make([]uint64, 3), make([]uint64, 3), make([]uint64, 1), make([]uint64, 1), 0)
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func BenchmarkDot(b *testing.B) {
	for _, name := range []string{"hopper/bf16", "hopper/e4m3", "cuda-core/f32"} {
		e, _ := Find(name)
		r := rand.New(rand.NewPCG(1, 1))
		x, y := make([]uint64, 256), make([]uint64, 256)
		for k := range x {
			x[k], y[k] = enc(e.Params.A, float64(r.IntN(16))), enc(e.Params.B, float64(r.IntN(16)))
		}
		b.Run(name, func(b *testing.B) {
			for range b.N {
				e.Params.Dot(x, y, 0)
			}
			b.ReportMetric(float64(b.N)*256/b.Elapsed().Seconds()/1e6, "MMAC/s")
		})
	}
}
