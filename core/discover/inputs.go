package discover

import (
	"math/rand/v2"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
)

// kinds are the adversarial inputs a profile is held against: those of package cases, and two of this package: special, in
// which now and then an element is NaN, Inf, zero or subnormal, and edges, powers of two with a few digits, which meet
// halfway cases often; faint, whose products are about as small as the least numbers of an accumulator, where alignment ends;
// and masks, in which large products cancel around small ones, as in the questions about order.
var kinds = []string{"cancel", "masks", "wide", "edges", "faint", "tiny", "normal", "special", "bits", "sparse"}

// operands makes rows of A (m × k) and columns of B (k × n), dense and row-major.
func operands(fa, fb format.Format, kind string, seed uint64, m, n, k int) (a, b []byte) {
	if kind == "masks" {
		return maskInputs(fa, fb, seed, m, n, k)
	}
	if kind != "special" && kind != "edges" && kind != "faint" {
		ca, cb := counterpart(fa), counterpart(fb)
		if ca.Valid() && cb.Valid() && ca.Info().Bytes == fa.Info().Bytes && cb.Info().Bytes == fb.Info().Bytes {
			a, b, err := cases.Operands(ca, cb, kind, seed, 1, m, n, k)
			if err == nil {
				return tidy(fa, a), tidy(fb, b)
			}
		}
	}
	r := rand.New(rand.NewPCG(seed, uint64(len(kind))))
	return elements(fa, kind, r, m*k), elements(fb, kind, r, k*n)
}

// counterpart is the format of package cases whose inputs suit a format.
func counterpart(f format.Format) format.Format {
	switch f {
	case format.TF32:
		return format.F32
	case format.U8:
		return format.S8
	case format.E4M3FNUZ, format.E5M2FNUZ, format.E2M1, format.E3M2, format.E2M3:
		return format.Invalid
	}
	return f
}

// tidy clears bits that a format has no use for.
func tidy(f format.Format, x []byte) []byte {
	i := f.Info()
	if i.Padding == 0 && i.Bits == 8*i.Bytes {
		return x
	}
	keep := (uint64(1)<<i.Bits - 1) &^ (1<<i.Padding - 1)
	for at := 0; at < len(x); at += i.Bytes {
		cases.Put(x[at:], i.Bytes, load(x[at:], i.Bytes)&keep)
	}
	return x
}

// maskInputs has, in each row of A or in each column of B, a few pairs of opposite large numbers and numbers of any size and
// few digits between them; the other operand is ones and halves.
func maskInputs(fa, fb format.Format, seed uint64, m, n, k int) (a, b []byte) {
	r := rand.New(rand.NewPCG(seed, 41))
	line := func(f format.Format) []uint64 {
		x := make([]uint64, k)
		if f.Info().Integer {
			for i := range x {
				x[i] = r.Uint64()
			}
			return x
		}
		low, high := reach(f, false)
		low, high = max(low, -60), min(high, 40)
		if f.Info().ExponentBits <= 5 { // sums in f16 are possible
			high = min(high, 10)
		}
		density := 1 + r.IntN(8)
		top := high - r.IntN((high-low)/2+1)
		for i := range x {
			if r.IntN(density) > 0 {
				continue
			}
			digits := int64(1 + 2*r.IntN(4))
			if digits > 1<<f.Info().MantissaBits {
				digits = 1
			}
			x[i], _ = number{digits * int64(1-2*r.IntN(2)), low + r.IntN(top-low+1)}.bits(f)
		}
		for range 1 + r.IntN(3) {
			i, j := r.IntN(k), r.IntN(k)
			if i != j {
				e := top - r.IntN(4)
				x[i], _ = power(f, e, r.IntN(2) == 0)
				x[j] = x[i] ^ 1<<(f.Info().Bits-1)
			}
		}
		return x
	}
	other := func(f format.Format) uint64 {
		if f.Info().Integer {
			return r.Uint64()
		}
		bits, _ := power(f, -r.IntN(2), false)
		return bits
	}
	sizeA, sizeB := fa.Info().Bytes, fb.Info().Bytes
	a, b = make([]byte, m*k*sizeA), make([]byte, k*n*sizeB)
	inA := r.IntN(2) == 0
	if m == 1 && n > 1 {
		inA = false
	} else if n == 1 && m > 1 {
		inA = true
	}
	for i := range m {
		var x []uint64
		if inA {
			x = line(fa)
		}
		for j := range k {
			v := uint64(0)
			if inA {
				v = x[j]
			} else {
				v = other(fa)
			}
			cases.Put(a[(i*k+j)*sizeA:], sizeA, v)
		}
	}
	for i := range n {
		var x []uint64
		if !inA {
			x = line(fb)
		}
		for j := range k {
			v := uint64(0)
			if !inA {
				v = x[j]
			} else {
				v = other(fb)
			}
			cases.Put(b[(j*n+i)*sizeB:], sizeB, v)
		}
	}
	return tidy(fa, a), tidy(fb, b)
}

func elements(f format.Format, kind string, r *rand.Rand, n int) []byte {
	i := f.Info()
	x := make([]byte, n*i.Bytes)
	mantissa := i.MantissaBits
	for at := range n {
		bits := r.Uint64()
		if !i.Integer && kind != "bits" {
			e := i.Bias - r.IntN(min(4, i.Bias)+1)
			m := r.Uint64() & (1<<mantissa - 1)
			switch kind {
			case "edges":
				e = i.Bias + r.IntN(min(12, i.Bias)+1) - min(6, i.Bias)
				m = 0
				for range r.IntN(3) {
					m |= 1 << r.IntN(mantissa)
				}
			case "wide":
				e = r.IntN(1 << i.ExponentBits)
			case "tiny":
				e = r.IntN(2)
			case "faint":
				least := -149 // of f32 accumulators
				switch {
				case i.ExponentBits <= 5:
					least = -24 // of f16
				case i.ExponentBits > 8:
					least = -1074
				}
				e = max(i.Bias+least/2-7+r.IntN(18), 0)
				if digits := r.IntN(mantissa + 1); digits < mantissa { // few or many
					m = m >> digits << digits
				}
			}
			bits = r.Uint64N(2)<<(i.Bits-i.Padding-1) | uint64(e)<<mantissa | m
			bits <<= i.Padding
			if kind == "faint" && r.IntN(3) == 0 {
				bits = 0
			}
			if kind == "special" && r.IntN(128) == 0 {
				bits = r.Uint64()
				if r.IntN(2) == 0 {
					bits = []uint64{0, 1 << (i.Bits - 1), i.MaxFinite, 1 << i.Padding, i.Inf}[r.IntN(5)]
				}
			}
		}
		cases.Put(x[at*i.Bytes:], i.Bytes, bits)
	}
	return tidy(f, x)
}
