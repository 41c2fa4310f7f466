package format

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// value is a number as float64, which holds every element of every format exactly.
func value(n Number) float64 {
	switch n.Class {
	case NaN:
		return math.NaN()
	case Inf:
		if n.Neg {
			return math.Inf(-1)
		}
		return math.Inf(1)
	}
	v := math.Ldexp(float64(n.Sig), n.Exp)
	if n.Neg {
		return math.Copysign(v, -1)
	}
	return v
}

func TestInfo(t *testing.T) {
	if len(All()) != 17 || All()[0] != F16 || All()[16] != S32 {
		t.Fatalf("All() = %v", All())
	}
	for _, f := range All() {
		i := f.Info()
		if got, err := Parse(i.Name); err != nil || got != f || f.String() != i.Name {
			t.Errorf("Parse(%q) = %v, %v", i.Name, got, err)
		}
		if i.Bytes != (i.Bits+7)/8 || f.Bytes() != i.Bytes {
			t.Errorf("%s: %d bits in %d bytes", f, i.Bits, i.Bytes)
		}
		if n := f.Decode(i.MaxFinite); n.Class != Finite || !i.Integer && n.Exponent != i.MaxExponent {
			t.Errorf("%s: largest finite decodes to %+v", f, n)
		}
		if i.HasInf && f.Decode(i.Inf).Class != Inf || !i.HasInf && f.Inf(true) != 0 {
			t.Errorf("%s: Inf %#x", f, i.Inf)
		}
		if i.HasNaN && f.Decode(i.NaN).Class != NaN {
			t.Errorf("%s: NaN %#x", f, i.NaN)
		}
		if i.HasInf && f.Ulps(i.MaxFinite, i.Inf) != 1 {
			t.Errorf("%s: Inf does not follow the largest finite number", f)
		}
	}
	for f, want := range map[Format]uint64{F16: 0x7fff, BF16: 0x7fff, F32: 0x7fffffff, F64: 0xfff8000000000000,
		E4M3: 0x7f, E4M3FNUZ: 0x80, E5M2FNUZ: 0x80, E8M0: 0xff, UE4M3: 0x7f, TF32: 0x7fffe000} {
		if f.NaN() != want {
			t.Errorf("%s: canonical NaN %#x, want %#x", f, f.NaN(), want)
		}
	}
	for f, want := range map[Format]int{F16: 2, BF16: 2, TF32: 4, F32: 4, F64: 8, E4M3: 1, E2M1: 1, E3M2: 1, UE4M3: 1, S32: 4} {
		if f.Bytes() != want {
			t.Errorf("%s: %d bytes, want %d", f, f.Bytes(), want)
		}
	}
	if Format(99).Valid() || Invalid.Valid() || Format(99).String() != "format(99)" || Format(99).Info().Name != "" {
		t.Error("format 99 is taken for one")
	}
}

func TestJSON(t *testing.T) {
	type holder struct {
		F Format `json:"f"`
		G Format `json:"g,omitempty"`
	}
	text, err := json.Marshal(holder{F: E4M3FNUZ})
	if err != nil || string(text) != `{"f":"e4m3fnuz"}` {
		t.Fatalf("%s, %v", text, err)
	}
	var h holder
	if err := json.Unmarshal([]byte(`{"f":"ue4m3","g":"s32"}`), &h); err != nil || h.F != UE4M3 || h.G != S32 {
		t.Fatalf("%+v, %v", h, err)
	}
	err = json.Unmarshal([]byte(`{"f":"fp16"}`), &h)
	if err == nil || !strings.Contains(err.Error(), `"fp16"`) || !strings.Contains(err.Error(), "e4m3fnuz") {
		t.Fatalf("unknown name: %v", err)
	}
	if _, err := json.Marshal(holder{}); err == nil {
		t.Error("an invalid format became JSON")
	}
}

// every walks all patterns of formats of at most 16 bits, and a sample with all boundaries of the wider ones.
func every(f Format, yield func(pattern uint64)) {
	i := f.Info()
	if i.Bits <= 16 {
		for p := range uint64(1) << i.Bits {
			yield(p)
		}
		return
	}
	r := rand.New(rand.NewPCG(uint64(f), 7))
	for range 100000 {
		yield(r.Uint64() & i.mask())
	}
	for e := range uint64(1) << i.ExponentBits {
		for _, m := range []uint64{0, 1, 1<<i.MantissaBits - 1} {
			p := (e<<i.MantissaBits | m) << i.Padding
			yield(p)
			yield(p | i.sign())
		}
	}
}

func TestRoundTrip(t *testing.T) {
	for _, f := range All() {
		i := f.Info()
		count := 0
		every(f, func(p uint64) {
			count++
			n := f.Decode(p)
			got := f.EncodeNumber(n, Encoding{Rounding: TowardZero})
			want := p >> i.Padding << i.Padding
			if n.Class == NaN {
				want = i.NaN
			}
			if got != want {
				t.Fatalf("%s: %#x decodes to %+v and encodes to %#x", f, p, n, got)
			}
			if n.Class == Finite && !i.Integer && f != E8M0 {
				if n.Exp != n.Exponent-i.MantissaBits || n.Exponent < i.MinExponent || n.Sig >= 2<<i.MantissaBits ||
					n.Sig < 1<<i.MantissaBits && n.Exponent != i.MinExponent {
					t.Fatalf("%s: %#x decodes to %+v", f, p, n)
				}
			}
			if f.Ulps(p, p) != 0 {
				t.Fatalf("%s: %#x is %d ulps from itself", f, p, f.Ulps(p, p))
			}
		})
		if i.Bits <= 16 && count != 1<<i.Bits {
			t.Errorf("%s: %d patterns", f, count)
		}
	}
	// Bits beyond the format mean nothing.
	if E2M1.Decode(0xf7) != E2M1.Decode(7) || TF32.Decode(0x3f801fff) != TF32.Decode(0x3f800000) || UE4M3.Decode(0xb8) != UE4M3.Decode(0x38) {
		t.Error("padding changes the value")
	}
}

func TestDecodeAgainstTheProcessor(t *testing.T) {
	every(F32, func(p uint64) {
		want := float64(math.Float32frombits(uint32(p)))
		if got := value(F32.Decode(p)); math.Float64bits(got) != math.Float64bits(want) && want == want {
			t.Fatalf("f32 %#x is %v, want %v", p, got, want)
		}
	})
	every(F64, func(p uint64) {
		want := math.Float64frombits(p)
		n := F64.Decode(p)
		if n.Class == NaN != (want != want) || want == want && math.Float64bits(value(n)) != p {
			t.Fatalf("f64 %#x decodes to %+v", p, n)
		}
	})
	for x := range 256 {
		if n := S8.Decode(uint64(x)); value(n) != float64(int8(x)) {
			t.Errorf("s8 %#x is %v", x, value(n))
		}
		if n := U8.Decode(uint64(x)); value(n) != float64(x) {
			t.Errorf("u8 %#x is %v", x, value(n))
		}
	}
	if n := S32.Decode(0x80000000); value(n) != -1<<31 || n.Exponent != 31 {
		t.Errorf("s32 minimum is %+v", n)
	}
}

// rat is x as a fraction.
func rat(x Exact) *big.Rat {
	r := new(big.Rat).SetInt(x.Mag)
	power := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(max(x.Exp, -x.Exp))))
	if x.Exp < 0 {
		power.Inv(power)
	}
	r.Mul(r, power)
	if x.Neg {
		r.Neg(r)
	}
	return r
}

// grid is the other formulation of rounding: all numbers of a format in order, the neighbours of x among them, and which
// of the two the rounding takes. One number past the largest finite one stands for overflow.
type grid struct {
	f      Format
	values []*big.Rat // ascending, of magnitude; values[i] has pattern i
}

func newGrid(f Format) *grid {
	g := &grid{f: f}
	i := f.Info()
	for p := uint64(0); p <= i.MaxFinite; p += 1 << i.Padding {
		g.values = append(g.values, rat(f.Decode(p).Exact()))
	}
	last := len(g.values) - 1 // and the number that would follow, were there room
	over := new(big.Rat).Sub(g.values[last], g.values[last-1])
	g.values = append(g.values, over.Add(over, g.values[last]))
	return g
}

func (g *grid) round(x Exact, how Rounding) (index int) {
	m := rat(Exact{Mag: x.Mag, Exp: x.Exp})
	above, same := slices.BinarySearchFunc(g.values, m, (*big.Rat).Cmp)
	if same {
		return above
	}
	if above == len(g.values) {
		return above
	}
	below := above - 1
	twice := new(big.Rat).Add(g.values[below], g.values[above])
	side := new(big.Rat).Add(m, m).Cmp(twice) // against the middle
	up := false
	switch how {
	case NearestEven:
		up = side > 0 || side == 0 && above%2 == 0
	case NearestAway:
		up = side >= 0
	case Down:
		up = x.Neg
	case Up:
		up = !x.Neg
	}
	if up {
		return above
	}
	return below
}

func TestEncodeAgainstNeighbours(t *testing.T) {
	for _, f := range []Format{F16, BF16, TF32, E4M3, E5M2, E4M3FNUZ, E5M2FNUZ, E2M1, E3M2, E2M3, UE4M3} {
		g := newGrid(f)
		i := f.Info()
		check := func(x Exact) {
			for _, how := range Roundings() {
				index := g.round(x, how)
				want := uint64(index) << i.Padding
				if want > i.MaxFinite {
					want = f.overflow(x.Neg, Encoding{})
					if index == len(g.values)-2 || !i.HasInf && want != i.NaN && want&^i.sign() != i.MaxFinite || i.HasInf && want&^i.sign() != i.Inf {
						t.Fatalf("%s: overflow gives %#x", f, want)
					}
				} else if x.Neg && (want != 0 || i.HasNegativeZero) {
					want |= i.sign()
				}
				if x.Neg && !i.Signed {
					want = 0
				}
				if got := f.Encode(x, Encoding{Rounding: how}); got != want {
					t.Fatalf("%s: %v rounded %s is %#x, want %#x", f, x, how, got, want)
				}
			}
		}
		r := rand.New(rand.NewPCG(uint64(f), 8))
		number := func() Exact { // a random number of the format, or its neighbourhood
			p := r.Uint64N(i.MaxFinite>>i.Padding+1) << i.Padding
			x := f.Decode(p).Exact()
			x.Neg = r.Uint32()&1 == 1
			return x
		}
		for n := range 3000 {
			x := number()
			switch n % 4 {
			case 1: // the middle
				x.Mag.Lsh(x.Mag, 1).Add(x.Mag, one)
				x.Exp--
			case 2: // a hair beside it, far below any word
				x.Mag.Lsh(x.Mag, 101).Add(x.Mag, new(big.Int).Lsh(one, 100))
				x.Mag.Add(x.Mag, big.NewInt(int64(r.IntN(3)-1)))
				x.Exp -= 101
			case 3: // anything
				x = Exact{Neg: x.Neg, Mag: new(big.Int).SetUint64(r.Uint64() >> r.UintN(64)), Exp: i.MinExponent - 80 + r.IntN(i.MaxExponent-i.MinExponent+100)}
				if x.Mag.Sign() == 0 {
					continue
				}
			}
			check(x)
		}
		top := f.Decode(i.MaxFinite).Exact()
		for d := int64(0); d <= 16; d++ { // across the largest number in sixteenths of a unit
			x := Exact{Mag: new(big.Int).Lsh(top.Mag, 3), Exp: top.Exp - 3}
			x.Mag.Add(x.Mag, big.NewInt(d))
			check(x)
			check(Exact{Neg: true, Mag: x.Mag, Exp: x.Exp})
		}
		for _, e := range []int{-100000, 100000, -1 << 40, 1 << 40} { // no size may hang or allocate
			want := uint64(0)
			if e > 0 {
				want = f.overflow(false, Encoding{})
			}
			if got := f.Encode(Exact{Mag: big.NewInt(3), Exp: e}, Encoding{}); got != want {
				t.Errorf("%s: 3 * 2^%d is %#x, want %#x", f, e, got, want)
			}
		}
	}
}

func TestEncodeAgainstRat(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	checked := 0
	for range 60000 {
		x := Exact{Neg: r.Uint32()&1 == 1, Mag: new(big.Int).SetUint64(r.Uint64()>>r.UintN(63) | 1)}
		x.Mag.Lsh(x.Mag, r.UintN(40))
		x.Exp = -1170 + r.IntN(2300)
		if r.Uint32()&1 == 1 {
			x.Exp = -200 + r.IntN(320)
		}
		q := rat(x)
		near64, _ := q.Float64()
		near32, _ := q.Float32()
		for _, how := range []Rounding{NearestEven, TowardZero, Down, Up} {
			// Rat rounds to nearest only; next to overflow that does not say what the others do.
			if how == NearestEven || !math.IsInf(near64, 0) {
				want := directed(near64, q, how, x.Neg, math.Nextafter)
				if got := F64.Encode(x, Encoding{Rounding: how}); got != math.Float64bits(want) {
					t.Fatalf("f64: %v rounded %s is %#x, want %v %#x", x, how, got, want, math.Float64bits(want))
				}
			}
			if how == NearestEven || !math.IsInf(float64(near32), 0) {
				checked++
				want := float32(directed(float64(near32), q, how, x.Neg, func(v, to float64) float64 {
					return float64(math.Nextafter32(float32(v), float32(to)))
				}))
				if got := uint32(F32.Encode(x, Encoding{Rounding: how})); got != math.Float32bits(want) {
					t.Fatalf("f32: %v rounded %s is %#x, want %v %#x", x, how, got, want, math.Float32bits(want))
				}
			}
		}
	}
	if checked < 100000 {
		t.Errorf("only %d f32 roundings were compared", checked)
	}
}

// directed moves the nearest number to q by a step where the rounding asks for the other neighbour.
func directed(near float64, q *big.Rat, how Rounding, negative bool, next func(v, to float64) float64) float64 {
	down := how == Down || how == TowardZero && !negative
	if how != NearestEven {
		switch c := new(big.Rat).SetFloat64(near).Cmp(q); {
		case down && c > 0:
			near = next(near, math.Inf(-1))
		case !down && c < 0:
			near = next(near, math.Inf(1))
		}
	}
	if negative && near == 0 {
		return math.Copysign(0, -1)
	}
	return near
}

func TestEncodeFewerFractionBits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 10))
	for range 50000 {
		p := r.Uint32() &^ (1 << 31)
		if r.Uint32()&3 == 0 {
			p &= 0x00ffffff // subnormals and the first binade
		}
		n := F32.Decode(uint64(p))
		if n.Class != Finite {
			continue
		}
		if got, want := uint32(F32.Encode(n.Exact(), Encoding{Rounding: TowardZero, FractionBits: 13})), p&^0x3ff; got != want {
			t.Fatalf("%#08x cut to 13 fraction bits is %#08x, want %#08x", p, got, want)
		}
		if got, want := uint32(F32.Encode(n.Exact(), Encoding{FractionBits: 13})), (p+0x1ff+p>>10&1)&^0x3ff; got != want {
			t.Fatalf("%#08x rounded to 13 fraction bits is %#08x, want %#08x", p, got, want)
		}
	}
}

func TestEncodeOptions(t *testing.T) {
	big128 := Exact{Mag: big.NewInt(1), Exp: 128}
	minus := Exact{Neg: true, Mag: big.NewInt(1), Exp: 128}
	tiny := Exact{Neg: true, Mag: big.NewInt(1), Exp: -160}
	below := Exact{Mag: big.NewInt(1<<25 - 1), Exp: -151} // just under 2^-126: rounds up to it
	for name, c := range map[string]struct {
		f    Format
		x    Exact
		how  Encoding
		want uint64
	}{
		"toward zero, beyond the range":     {F32, big128, Encoding{Rounding: TowardZero}, 0x7f800000},
		"toward zero, inside":               {F32, Exact{Mag: big.NewInt(1<<40 - 1), Exp: 88}, Encoding{Rounding: TowardZero}, 0x7f7fffff},
		"toward zero, IEEE":                 {F32, big128, Encoding{Rounding: TowardZero, Overflow: IEEE}, 0x7f7fffff},
		"down, IEEE, positive":              {F32, big128, Encoding{Rounding: Down, Overflow: IEEE}, 0x7f7fffff},
		"down, IEEE, negative":              {F32, minus, Encoding{Rounding: Down, Overflow: IEEE}, 0xff800000},
		"up, IEEE, negative":                {F32, minus, Encoding{Rounding: Up, Overflow: IEEE}, 0xff7fffff},
		"nearest, IEEE":                     {F32, minus, Encoding{Overflow: IEEE}, 0xff800000},
		"saturate":                          {F32, minus, Encoding{Overflow: Saturate}, 0xff7fffff},
		"saturate e4m3":                     {E4M3, minus, Encoding{Overflow: Saturate}, 0xfe},
		"e2m1 has neither Inf nor NaN":      {E2M1, minus, Encoding{}, 0xf},
		"tiny negative":                     {F32, tiny, Encoding{}, 0x80000000},
		"tiny negative, no sign":            {F32, tiny, Encoding{PositiveZero: true}, 0},
		"tiny negative, down":               {F32, tiny, Encoding{Rounding: Down}, 0x80000001},
		"tiny negative, down, flushed":      {F32, tiny, Encoding{Rounding: Down, Flush: true}, 0x80000000},
		"negative zero":                     {F32, Exact{Neg: true}, Encoding{}, 0x80000000},
		"negative zero, no sign":            {F32, Exact{Neg: true}, Encoding{PositiveZero: true}, 0},
		"negative zero, fnuz":               {E4M3FNUZ, Exact{Neg: true}, Encoding{}, 0},
		"flush looks after rounding":        {F32, below, Encoding{Flush: true}, 0x00800000},
		"flush looks after truncation":      {F32, below, Encoding{Flush: true, Rounding: TowardZero}, 0},
		"least normal stays":                {F16, Exact{Mag: big.NewInt(1), Exp: -14}, Encoding{Flush: true}, 0x0400},
		"largest subnormal goes":            {F16, Exact{Mag: big.NewInt(1023), Exp: -24}, Encoding{Flush: true}, 0},
		"integer saturates":                 {S8, big128, Encoding{}, 0x7f},
		"integer saturates below":           {S8, minus, Encoding{}, 0x80},
		"integer wraps":                     {S32, Exact{Mag: big.NewInt(1<<33 + 5)}, Encoding{Overflow: Wrap}, 5},
		"integer wraps below":               {S32, Exact{Neg: true, Mag: big.NewInt(1<<33 + 5)}, Encoding{Overflow: Wrap}, 0xfffffffb},
		"integer rounds":                    {S8, Exact{Neg: true, Mag: big.NewInt(5), Exp: -1}, Encoding{}, 0xfe},
		"integer rounds down":               {S8, Exact{Neg: true, Mag: big.NewInt(5), Exp: -1}, Encoding{Rounding: Down}, 0xfd},
		"unsigned has no negatives":         {U8, minus, Encoding{}, 0},
		"f16 half way to overflow":          {F16, Exact{Mag: big.NewInt(65520)}, Encoding{}, 0x7c00},
		"f16 under half way":                {F16, Exact{Mag: big.NewInt(65519)}, Encoding{}, 0x7bff},
		"f16 toward zero under 2^16":        {F16, Exact{Mag: big.NewInt(65535)}, Encoding{Rounding: TowardZero}, 0x7bff},
		"tf32 is padded":                    {TF32, Exact{Mag: big.NewInt(3), Exp: -1}, Encoding{}, 0x3fc00000},
		"e4m3 ends inside a binade, at 448": {E4M3, Exact{Mag: big.NewInt(479)}, Encoding{Rounding: TowardZero}, 0x7e},
	} {
		if got := c.f.Encode(c.x, c.how); got != c.want {
			t.Errorf("%s: %#x, want %#x", name, got, c.want)
		}
	}
	if got := S8.EncodeNumber(Number{Class: Inf, Neg: true}, Encoding{}); got != 0x80 {
		t.Errorf("-Inf as s8 is %#x", got)
	}
	if got := E4M3.EncodeNumber(Number{Class: Inf}, Encoding{Overflow: Saturate}); got != 0x7e {
		t.Errorf("Inf as e4m3, saturated, is %#x", got)
	}
}

func TestMultiple(t *testing.T) {
	for _, c := range []struct {
		x    int64
		exp  int
		how  Rounding
		want int64
	}{
		{7, -2, TowardZero, 1}, {-7, -2, TowardZero, -1}, {-7, -2, Down, -2}, {7, -2, Down, 1}, {7, -2, Up, 2}, {-7, -2, Up, -1},
		{6, -2, NearestEven, 2}, {2, -2, NearestEven, 0}, {2, -2, NearestAway, 1}, {-2, -2, NearestAway, -1}, {10, -2, NearestEven, 2},
		{3, 4, TowardZero, 48}, {1, -400, Up, 1}, {-1, -400, Down, -1}, {1, -400, NearestAway, 0}, {0, 5, Up, 0},
	} {
		x := Exact{Neg: c.x < 0, Mag: new(big.Int).Abs(big.NewInt(c.x)), Exp: c.exp}
		for _, move := range []int{0, -1000, 77} {
			x.Exp = c.exp + move
			if got := x.Multiple(move, c.how); got.Cmp(big.NewInt(c.want)) != 0 {
				t.Errorf("%d * 2^%d %s is %v, want %d", c.x, c.exp, c.how, got, c.want)
			}
		}
	}
}

func TestUlps(t *testing.T) {
	for _, c := range []struct {
		f    Format
		x, y uint64
		want uint64
	}{
		{F16, 0, 0x8000, 0}, {F16, 1, 0x8001, 2}, {F16, 0x7bff, 0x7c00, 1}, {F16, 0x7c00, 0xfc00, 0xf800},
		{F16, 0x7fff, 0x7e00, 0}, {F16, 0x7fff, 0x3c00, math.MaxUint64}, {F32, 0x3f800000, 0x3f7fffff, 1},
		{TF32, 0x3f800000, 0x3f802000, 1}, {TF32, 0x3f800000, 0x3f801fff, 0}, {F64, 0x7ff0000000000000, 0xfff0000000000000, 0xffe0000000000000},
		{S8, 0x80, 0x7f, 255}, {S32, 0xffffffff, 1, 2}, {U8, 3, 200, 197}, {E4M3FNUZ, 0x80, 0, math.MaxUint64},
		{E4M3FNUZ, 0x81, 1, 2}, {E8M0, 0x10, 0x20, 16}, {E2M1, 0xf, 7, 14}, {UE4M3, 0x7f, 0x7e, math.MaxUint64},
	} {
		if got := c.f.Ulps(c.x, c.y); got != c.want || c.f.Ulps(c.y, c.x) != c.want {
			t.Errorf("%s: %#x to %#x is %d ulps, want %d", c.f, c.x, c.y, got, c.want)
		}
	}
}
