package step

import (
	"fmt"
	"math"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// vector is one dot product that tells readings of the rules apart. Its name begins with the catalogue entry it is of.
type vector struct {
	name    string
	entry   string
	a, b    []uint64
	c, want uint64
	source  string // "H200": its answer was measured there (docs/arithmetic.md); "rule": it follows from a rule that was
}

// enc is the pattern of a value, which must be one of the format; NaN is the canonical one.
func enc(f format.Format, v float64) uint64 {
	x := format.F64.Decode(math.Float64bits(v))
	pattern := f.EncodeNumber(x, format.Encoding{})
	if n := f.Decode(pattern); x.Class != format.NaN && (n.Class != x.Class || n.Neg != x.Neg || n.Class == format.Finite &&
		math.Ldexp(float64(n.Sig), n.Exp) != math.Abs(v)) {
		panic(fmt.Sprintf("%v is no %s", v, f))
	}
	return pattern
}

func pow2(e int) float64 { return math.Ldexp(1, e) }

var minusZero = math.Copysign(0, -1)

// pair is one element of A and one of B.
type pair [2]float64

// power is a pair whose product is v * 2^e, split so that both stay in range.
func power(v float64, e int) pair { return pair{math.Ldexp(v, e/2), pow2(e - e/2)} }

func (p Params) vector(name, entry, source string, elements []pair, c, want float64) vector {
	v := vector{name: entry + ": " + name, entry: entry, source: source, c: enc(p.Result, c), want: enc(p.Result, want)}
	for _, e := range elements {
		v.a, v.b = append(v.a, enc(p.A, e[0])), append(v.b, enc(p.B, e[1]))
	}
	return v
}

func repeat(p pair, n int) []pair {
	out := make([]pair, n)
	for i := range out {
		out[i] = p
	}
	return out
}

// measuredVectors are those whose answers an H200 gave.
func measuredVectors() []vector {
	var out []vector
	add := func(entry, name string, elements []pair, want float64) {
		e, found := Find(entry)
		if !found {
			panic(entry)
		}
		out = append(out, e.Params.vector(name, entry, "H200", elements, 0, want))
	}
	add("hopper/bf16", "a zero operand takes no part in E", []pair{{0, pow2(127)}, {pow2(-15), pow2(-15)}}, pow2(-30))
	add("hopper/bf16", "eight tiny products add before rounding", repeat(pair{pow2(-76), pow2(-76)}, 8), pow2(-149))
	add("hopper/bf16", "sixteen tinier products", repeat(pair{pow2(-76), pow2(-77)}, 16), pow2(-149))
	add("hopper/tf32", "a zero operand takes no part in E", []pair{{0, pow2(127)}, {1, pow2(-26)}}, pow2(-26))
	big := pair{255 * pow2(-80), pow2(-77)}
	add("hopper/bf16", "the floor is at most -133", []pair{big, power(1, -158), power(1, -158)}, pow2(-149))
	add("hopper/bf16", "the floor is at least -133", []pair{big, power(1, -158), power(1, -159), power(1, -159)}, 0)
	add("hopper/f16-f16", "the floor is at most -21", []pair{power(1, -25), power(1, -46)}, pow2(-24))
	add("hopper/f16-f16", "the floor is at least -21", []pair{power(1, -25), power(1, -47)}, 0)
	for e := -162; e <= -145; e++ {
		for n := 1; n <= 16; n *= 2 {
			want := math.Trunc(math.Ldexp(float64(n), e+149))
			add("hopper/bf16", fmt.Sprintf("%d products of 2^%d", n, e), repeat(power(1, e), n), math.Ldexp(want, -149))
		}
	}
	for e := -170; e <= -150; e++ {
		add("hopper/bf16", fmt.Sprintf("a product of -2^%d gives +0", e), []pair{power(-1, e)}, 0)
	}
	return out
}

// places lists the k of an entry in the order its groups take them.
func places(p Params) []int {
	var order []int
	if p.Order == Pairs {
		for _, first := range []int{0, 2} {
			for block := range p.InstructionK / 4 {
				order = append(order, 4*block+first, 4*block+first+1)
			}
		}
		return order
	}
	for k := range 2 * p.Group {
		order = append(order, k)
	}
	return order
}

// ruleVectors derives vectors from an entry's constants by the rules of docs/arithmetic.md, with the answers in closed
// form: nothing here runs the model.
func ruleVectors(name string) []vector {
	e, found := Find(name)
	if !found {
		panic(name)
	}
	p := e.Params
	info, f := p.A.Info(), p.Fraction
	var out []vector
	order := places(p)
	// at puts elements at slots of the group order; the rest are zeros.
	at := func(slots map[int]pair) []pair {
		last := 0
		for slot := range slots {
			last = max(last, order[slot])
		}
		elements := repeat(pair{0, 0}, last+1)
		for slot, element := range slots {
			elements[order[slot]] = element
		}
		return elements
	}
	add := func(what string, elements []pair, c, want float64) {
		out = append(out, p.vector(what, name, "rule", elements, c, want))
	}
	f16, converted := p.Result == format.F16, p.Kind == Converted
	wide := info.MinExponent < -100 // products reach below f32's range and above it
	x := 4                          // X = 2^x is the large product
	if converted {
		x = 8
	}
	plus, minus := power(1, x), power(-1, x)

	// 3: alignment.
	add("the last place kept", at(map[int]pair{0: plus, 1: minus, 2: power(1, x-f)}), 0, pow2(x-f))
	add("below the last place", at(map[int]pair{0: plus, 1: minus, 2: power(1, x-f-1)}), 0, 0)
	if !converted { // its smallest products are too large
		add("a negative term is cut toward zero", at(map[int]pair{0: plus, 1: minus, 2: power(-1.5, x-f-1)}), 0, 0)
		add("a positive term is cut toward zero", at(map[int]pair{0: plus, 1: minus, 2: power(1.5, x-f-1)}), 0, 0)
	} else {
		add("a negative term is cut toward zero", at(map[int]pair{0: plus, 1: minus, 2: power(-1, x-f-1)}), 0, 0)
		add("a positive term is cut toward zero", at(map[int]pair{0: power(1, x+1), 1: power(-1, x+1), 2: power(1.5, x-f)}), 0, 0)
	}
	// Membership.
	add("the group is not halved", at(map[int]pair{0: plus, 1: minus, p.Group - 1: power(1, x-f-1)}), 0, 0)
	add("the next group stands apart", at(map[int]pair{0: plus, 1: minus, p.Group: power(1, x-f-1)}), 0, pow2(x-f-1))
	// 1: significands are not normalised.
	half := x / 2
	add("products in [2, 4) keep their exponent", at(map[int]pair{0: {math.Ldexp(1.5, half), math.Ldexp(1.5, half)},
		1: {math.Ldexp(-1.5, half), math.Ldexp(1.5, half)}, 2: power(1, x-f)}), 0, pow2(x-f))
	least := info.MinExponent - info.MantissaBits
	if !converted {
		t := min(info.MaxExponent, 120)
		own := info.MinExponent + t // the exponent of the subnormal product
		lost := power(1, own-f-1)
		add("a subnormal keeps its format's exponent", []pair{{pow2(least), pow2(t)}, power(-1, least+t), lost, lost}, 0, 0)
	}
	add("a subnormal operand counts", []pair{{pow2(least), 1}}, 0, pow2(least))
	// 2: zeros take no part in E.
	switch {
	case converted:
	case f16:
		if 2*least > -28 {
			break // products are too large to lie below the last place of a zero accumulator's exponent
		}
		low := max(2*least, -40)
		if p.Floor != nil {
			low = max(low, *p.Floor-f)
			add("the floor from above", []pair{power(1, -25), power(1, *p.Floor-f)}, 0, pow2(-24))
			add("the floor from below", []pair{power(1, -25), power(1, *p.Floor-f-1)}, 0, 0)
		}
		add("zeros take no part in E", []pair{{0, 1}, power(1, -25), power(1, low)}, 0, pow2(-24))
	default:
		unit := info.MinExponent + info.MaxExponent - f - 1
		add("zeros take no part in E", []pair{{0, pow2(info.MaxExponent)}, power(1, unit)}, 0, pow2(unit))
	}
	if wide && p.Floor != nil {
		q := *p.Floor - f
		many := power(pow2(-149-q-1)-1, q+1)
		add("the floor from above", []pair{many, power(1, q), power(1, q)}, 0, pow2(-149))
		add("the floor from below", []pair{many, power(1, q), power(1, q-1), power(1, q-1)}, 0, 0)
	}
	// 4: one rounding to the result. One unit in the last place of a number in [1, 2):
	kept := p.Result.Info().MantissaBits
	if p.ResultFraction != 0 {
		kept = p.ResultFraction
	}
	ulp := pow2(-kept)
	up := p.ResultRounding == format.NearestEven
	rounded := func(units float64) float64 { // to whole double units of [2, 4)
		if up {
			return math.RoundToEven(units/2) * 2 * ulp
		}
		return math.Trunc(units/2) * 2 * ulp
	}
	for _, units := range []float64{1, 2, 3, 5, 7} {
		add(fmt.Sprintf("2 + %v units are rounded", units), []pair{{1, 1}}, 1+units*ulp, 2+rounded(units))
		add(fmt.Sprintf("-2 - %v units are rounded", units), []pair{{-1, 1}}, -1-units*ulp, -2-rounded(units))
	}
	add("every fraction bit is kept", []pair{{1, 1}}, ulp, 1+ulp)
	subnormal := pow2(p.Result.Info().MinExponent - 4)
	add("a subnormal result is kept", []pair{{0, 0}}, subnormal, subnormal)
	if f16 {
		add("overflow to Inf", []pair{power(1, 14), power(1, 14)}, pow2(15), math.Inf(1))
		add("overflow to -Inf", []pair{power(-1, 14), power(-1, 14)}, -pow2(15), math.Inf(-1))
		add("the largest result", []pair{{24, 1}}, 65472, 65504)
		add("half way to overflow", []pair{{16, 1}}, 65504, math.Inf(1))
		if 2*least <= -26 {
			add("a sum that rounds to zero is +0", []pair{power(-1, -26)}, 0, 0)
		}
	}
	if wide && !f16 {
		add("overflow to Inf", []pair{{pow2(127), 1}, {pow2(127), 1}}, 0, math.Inf(1))
		add("overflow to -Inf", []pair{{-pow2(127), 1}, {-pow2(127), 1}}, 0, math.Inf(-1))
		add("the range inside is wider", []pair{{pow2(127), pow2(3)}, {-pow2(127), pow2(3)}, {1, 1}}, pow2(127), pow2(127))
		add("a large product cancels", []pair{{pow2(127), 2}, {-pow2(127), 1}}, 0, pow2(127))
		top := math.MaxFloat32
		add("truncation does not reach 2^128", []pair{{pow2(103), 1}}, top, top)
		add("2^128 is Inf", []pair{{pow2(104), 1}}, top, math.Inf(1))
		add("a sum that rounds to zero is +0", []pair{power(-1, -151)}, 0, 0)
	}
	// 5: special values and zeros.
	nan, inf := math.NaN(), math.Inf(1)
	if info.HasInf {
		add("Inf", []pair{{inf, 1}, {1, 1}}, 0, inf)
		add("-Inf", []pair{{inf, -1}, {1, 1}}, 0, -inf)
		add("Inf and -Inf", []pair{{inf, 1}, {1, -inf}}, 0, nan)
		add("0 * Inf", []pair{{0, inf}, {1, 1}}, 0, nan)
		add("Inf and the other Inf as accumulator", []pair{{inf, 1}}, -inf, nan)
		add("Inf twice", []pair{{inf, 1}, {1, inf}}, inf, inf)
	}
	add("NaN", []pair{{nan, 1}, {1, 1}}, 0, nan)
	add("NaN by zero", []pair{{0, nan}}, 1, nan)
	add("NaN as accumulator", []pair{{1, 1}}, nan, nan)
	add("Inf as accumulator", []pair{{1, -1}}, inf, inf)
	add("-Inf as accumulator", []pair{{1, 1}}, -inf, -inf)
	if !converted {
		add("negative zeros sum to +0", repeat(pair{minusZero, 1}, p.Group), minusZero, 0)
	}
	add("1 - 1 is +0", []pair{{-1, 1}}, 1, 0)
	add("the accumulator alone", []pair{{0, 0}}, -1.5, -1.5)
	if converted {
		// k = 0 and 28 stand in one group, 0 and 2 do not; C comes last; partial sums and the last one round apart.
		tall := 8
		add("k mod 4 < 2 first", sparse(map[int]pair{0: power(1, 2*tall), 1: power(1, -9), 28: power(-1, 2*tall)}), 0, pow2(-9))
		if f16 {
			out = out[:len(out)-1] // 2^16 is beyond its partial sums
			add("k mod 4 < 2 first", sparse(map[int]pair{0: power(1, 8), 1: power(1, -9), 28: power(-1, 8)}), 0, pow2(-9))
			add("partial sums are rounded", sparse(map[int]pair{0: power(1, 10), 1: {0.75, 1}, 2: power(-1, 10)}), 0, 1)
			add("C is added last", sparse(map[int]pair{0: power(-1, 11), 1: {0.25, 1}}), 2048, 0)
			add("the last sum is rounded to nearest", []pair{{0.75, 1}}, 1024, 1025)
		} else {
			add("partial sums are cut", sparse(map[int]pair{0: power(1, 2*tall), 1: power(1.5, -8), 2: power(-1, 2*tall)}), 0, 0)
			add("C is added last", sparse(map[int]pair{0: power(-1, 2*tall), 1: power(1, -9)}), pow2(16), pow2(-8))
			add("the last sum is rounded to nearest", []pair{power(1.5, -14)}, 1024, 1024+pow2(-13))
		}
	}
	return out
}

// sparse puts elements at k; the rest are zeros.
func sparse(elements map[int]pair) []pair {
	out := repeat(pair{0, 0}, 32)
	for k, e := range elements {
		out[k] = e
	}
	return out
}

// vectorEntries are the entries whose constants vectors pin down. Those of the 4- and 6-bit formats are not: no product
// of theirs reaches the places in question.
var vectorEntries = []string{
	"volta/f16", "volta/f16-f16", "turing/f16", "turing/f16-f16",
	"ampere/f16", "ampere/f16-f16", "ampere/bf16", "ampere/tf32", "ada/f16", "ada/f16-f16", "ada/bf16", "ada/tf32",
	"ada/e4m3", "ada/e5m2", "ada/e4m3-f16", "ada/e5m2-f16",
	"hopper/f16", "hopper/f16-f16", "hopper/bf16", "hopper/tf32", "hopper/f16-k8", "hopper/bf16-k8", "hopper/f16-f16-k8", "hopper/tf32-k4",
	"hopper/e4m3", "hopper/e5m2", "hopper/e4m3-mma", "hopper/e5m2-mma", "hopper/e4m3-mma-f16", "hopper/e5m2-mma-f16",
	"blackwell/f16", "blackwell/f16-f16", "blackwell/bf16", "blackwell/tf32", "blackwell/tf32-k4", "blackwell/e4m3-mma", "blackwell/e4m3-mma-f16",
}

func allVectors() map[string][]vector {
	out := map[string][]vector{}
	for _, v := range measuredVectors() {
		out[v.entry] = append(out[v.entry], v)
	}
	for _, entry := range vectorEntries {
		out[entry] = append(out[entry], ruleVectors(entry)...)
	}
	return out
}

func TestVectors(t *testing.T) {
	names, measured := map[string]bool{}, 0
	for entry, vectors := range allVectors() {
		e, _ := Find(entry)
		for _, v := range vectors {
			key := v.name + ", " + v.source
			if names[key] {
				t.Errorf("two vectors are named %s", key)
			}
			names[key] = true
			if v.source == "H200" {
				measured++
			}
			if got := e.Params.Dot(v.a, v.b, v.c); got != v.want {
				t.Errorf("%s (%s): a %#x, b %#x, c %#x: %#x, want %#x", v.name, v.source, v.a, v.b, v.c, got, v.want)
			}
		}
	}
	t.Logf("%d vectors, %d of them measured on an H200, %d entries", len(names), measured, len(vectorEntries))
}
