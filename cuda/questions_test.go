package cuda

import (
	"math/big"
	"math/rand/v2"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// questions are the operands of some tiles of one instruction. They are made from a seed, so that answers alone need to be
// kept.
type questions struct {
	instruction Instruction
	tiles       int
	a, b, c     []byte
}

// kinds of the tiles' inputs, in turn.
var kinds = []string{"bits", "close", "cancel", "wide", "tiny", "alone", "special"}

// ask makes the operands of tiles.
func ask(i Instruction, tiles int, seed uint64) *questions {
	sizeA, sizeB, sizeC := i.Sizes()
	q := &questions{i, tiles, make([]byte, tiles*sizeA), make([]byte, tiles*sizeB), make([]byte, tiles*sizeC)}
	r := rand.New(rand.NewPCG(seed, 1))
	for tile := range tiles {
		kind := kinds[tile%len(kinds)]
		for e := range i.M * i.K {
			x := number(r, i.A, kind, 0)
			if kind == "alone" && r.IntN(2*i.K) != 0 { // hardly any product stands beside C
				x &= 1 << (i.A.Info().Bits - 1)
			}
			store(q.a, i.A, tile*i.M*i.K+e, x)
		}
		for e := range i.K * i.N {
			store(q.b, i.B, tile*i.K*i.N+e, number(r, i.B, kind, 0))
		}
		for e := range i.M * i.N {
			spread := 0
			if kind == "close" {
				spread = r.IntN(28) - 14
			}
			store(q.c, i.Accumulator, tile*i.M*i.N+e, number(r, i.Accumulator, kind, spread))
		}
		if kind == "cancel" { // all but the last place of every second product cancels the one before
			for k := 1; k < i.K; k += 2 {
				for m := range i.M {
					x := load(q.a, i.A, (tile*i.M+m)*i.K+k-1)
					if r.IntN(2) == 0 {
						x ^= 1 << i.A.Info().Padding
					}
					store(q.a, i.A, (tile*i.M+m)*i.K+k, x)
				}
				for n := range i.N {
					x := load(q.b, i.B, (tile*i.K+k-1)*i.N+n)
					store(q.b, i.B, (tile*i.K+k)*i.N+n, x^1<<(i.B.Info().Bits-1))
				}
			}
		}
	}
	return q
}

// number makes a bit pattern. spread moves the exponent of those that are close.
func number(r *rand.Rand, f format.Format, kind string, spread int) uint64 {
	i := f.Info()
	all := r.Uint64() >> (64 - i.Bits)
	if kind == "bits" || i.Integer {
		return all
	}
	largest := 1<<i.ExponentBits - 1
	if i.HasInf {
		largest--
	}
	var exponent int
	switch kind {
	case "special":
		if r.IntN(24) == 0 { // NaN, of any pattern that the format has for it, or Inf
			switch special := i.MaxFinite + 1<<i.Padding + r.Uint64N(1<<(i.MantissaBits+i.Padding)); {
			case r.IntN(2) == 0 && i.HasInf:
				return i.Inf | all&(1<<(i.Bits-1))
			case i.HasInf:
				return special | all&(1<<(i.Bits-1))
			default:
				return i.NaN | all&(1<<(i.Bits-1))
			}
		}
		exponent = i.Bias + r.IntN(6) - 3
	case "close", "cancel":
		exponent = i.Bias + r.IntN(6) - 3 + spread
	case "wide":
		exponent = r.IntN(largest + 1)
	case "tiny", "alone":
		exponent = r.IntN(3)
		if i.ExponentBits >= 8 && r.IntN(2) == 0 { // so that products, too, come near the least result
			exponent = i.Bias + i.MinExponent/2 + r.IntN(24) - 16
		}
	}
	exponent = min(max(exponent, 0), largest)
	low := i.Padding + i.MantissaBits
	pattern := all&^((1<<i.ExponentBits-1)<<low) | uint64(exponent)<<low
	if kind == "wide" && r.IntN(8) == 0 {
		pattern &= 1 << (i.Bits - 1) // a zero
	}
	return pattern
}

func store(to []byte, f format.Format, at int, pattern uint64) {
	for b := range f.Bytes() {
		to[at*f.Bytes()+b] = byte(pattern >> (8 * b))
	}
}

func load(from []byte, f format.Format, at int) (pattern uint64) {
	for b := range f.Bytes() {
		pattern |= uint64(from[at*f.Bytes()+b]) << (8 * b)
	}
	return pattern
}

// element gathers what makes one element of D.
func (q *questions) element(tile, m, n int) (a, b []uint64, c uint64) {
	i := &q.instruction
	for k := range i.K {
		a = append(a, load(q.a, i.A, (tile*i.M+m)*i.K+k))
		b = append(b, load(q.b, i.B, (tile*i.K+k)*i.N+n))
	}
	return a, b, load(q.c, i.Accumulator, (tile*i.M+m)*i.N+n)
}

// differing counts the elements of d that a step gives other bits for, by kind of input, and describes the first.
func (q *questions) differing(p step.Params, d []byte) (count map[string]int, first string) {
	count = map[string]int{}
	i := &q.instruction
	for tile := range q.tiles {
		for m := range i.M {
			for n := range i.N {
				a, b, c := q.element(tile, m, n)
				got, want := load(d, i.Accumulator, (tile*i.M+m)*i.N+n), p.Dot(a, b, c)
				if several, nan := severalNaNs(p, a, b, c); several {
					want = nan
				}
				if got == want {
					continue
				}
				kind := kinds[tile%len(kinds)]
				if first == "" {
					first = spell(kind, tile, m, n, a, b, c, got, want)
				}
				count[kind]++
			}
		}
	}
	return count, first
}

// severalNaNs says whether a chain that keeps NaN meets more than one, and then which stays: B's, then the accumulator's, then
// A's, in 14,849 of 14,849 elements of the f64 instruction on an H200, where every other order fails some hundreds.
func severalNaNs(p step.Params, a, b []uint64, c uint64) (several bool, nan uint64) {
	if !p.KeepNaN {
		return false, 0
	}
	is := func(x uint64) bool { return p.Result.Decode(x).Class == format.NaN }
	quiet := func(x uint64) uint64 { return x | 1<<(p.Result.Info().MantissaBits-1) }
	met := 0
	note := func(x uint64) {
		if is(x) {
			met++
		}
	}
	note(c)
	for k := range a {
		note(a[k])
		note(b[k])
		switch {
		case is(b[k]):
			c = quiet(b[k])
		case is(c):
			c = quiet(c)
		case is(a[k]):
			c = quiet(a[k])
		default:
			c = p.Step(a[k:k+1], b[k:k+1], c)
		}
	}
	return met > 1, c
}

// integers asks for products of small whole numbers, whose exact sum is known.
func integers(i Instruction, tiles int, seed uint64) (q *questions, want []byte) {
	sizeA, sizeB, sizeC := i.Sizes()
	q = &questions{i, tiles, make([]byte, tiles*sizeA), make([]byte, tiles*sizeB), make([]byte, tiles*sizeC)}
	want = make([]byte, tiles*sizeC)
	r := rand.New(rand.NewPCG(seed, 2))
	draw := func(f format.Format) int {
		switch {
		case f == format.U8:
			return r.IntN(256)
		case f == format.S8:
			return r.IntN(256) - 128
		}
		return r.IntN(7) - 3
	}
	whole := func(f format.Format, n int) uint64 {
		return f.Encode(format.Exact{Neg: n < 0, Mag: big.NewInt(int64(max(n, -n)))}, format.Encoding{})
	}
	for tile := range tiles {
		a, b := make([]int, i.M*i.K), make([]int, i.K*i.N)
		for e := range a {
			a[e] = draw(i.A)
			store(q.a, i.A, tile*len(a)+e, whole(i.A, a[e]))
		}
		for e := range b {
			b[e] = draw(i.B)
			store(q.b, i.B, tile*len(b)+e, whole(i.B, b[e]))
		}
		for m := range i.M {
			for n := range i.N {
				sum := r.IntN(101) - 50
				at := (tile*i.M+m)*i.N + n
				store(q.c, i.Accumulator, at, whole(i.Accumulator, sum))
				for k := range i.K {
					sum += a[m*i.K+k] * b[k*i.N+n]
				}
				store(want, i.Accumulator, at, whole(i.Accumulator, sum))
			}
		}
	}
	return q, want
}
