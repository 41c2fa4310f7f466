package format

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/x448/float16"
)

// narrow is the exact way from f32 or f64, NaN included.
func narrow(from, to Format, x uint64, r Rounding) uint64 {
	return to.EncodeNumber(from.Decode(x), Encoding{Rounding: r})
}

// boundaries yields the patterns of a wide format around every number of a narrow one and around every half way point,
// two steps to each side.
func boundaries(wide, narrow Format, yield func(uint64)) {
	ni := narrow.Info()
	step := uint64(1) << ni.Padding
	for p := uint64(0); p < 1<<ni.Bits && p <= ni.MaxFinite; p += step {
		this := narrow.Decode(p)
		x := wide.Encode(this.Exact(), Encoding{})
		half := this.Exact()
		half.Mag.Lsh(half.Mag, 1).Add(half.Mag, one)
		half.Exp--
		h := wide.Encode(half, Encoding{})
		for _, at := range []uint64{x, h} {
			for d := -2; d <= 2; d++ {
				y := (at + uint64(d)) & wide.info().mask()
				yield(y)
				yield(y ^ wide.info().sign())
			}
		}
	}
}

func TestF32ToF16(t *testing.T) {
	check := func(x uint32) {
		got := F32ToF16(x)
		if want := uint16(narrow(F32, F16, uint64(x), NearestEven)); got != want {
			t.Fatalf("F32ToF16(%#08x) = %#04x, want %#04x", x, got, want)
		}
		if x&0x7fffffff <= 0x7f800000 {
			if other := float16.Fromfloat32(math.Float32frombits(x)).Bits(); got != other {
				t.Fatalf("F32ToF16(%#08x) = %#04x, x448/float16 says %#04x", x, got, other)
			}
		}
	}
	boundaries(F32, F16, func(x uint64) { check(uint32(x)) })
	r := rand.New(rand.NewPCG(1, 2))
	for range 200000 {
		check(r.Uint32())
		check(r.Uint32()&0x807fffff | (96+r.Uint32N(50))<<23) // where f16 lies
	}
	for _, x := range []uint32{0, 1 << 31, 1, 0x7f800000, 0xff800000, 0x7f800001, 0x7fffffff, 0xffc00000, 0x7f7fffff} {
		check(x)
	}
}

func TestF32ToBF16(t *testing.T) {
	check := func(x uint32) {
		if got, want := F32ToBF16(x), uint16(narrow(F32, BF16, uint64(x), NearestEven)); got != want {
			t.Fatalf("F32ToBF16(%#08x) = %#04x, want %#04x", x, got, want)
		}
	}
	for high := range uint32(1 << 16) {
		for _, low := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
			check(high<<16 | low)
		}
	}
	r := rand.New(rand.NewPCG(1, 3))
	for range 200000 {
		check(r.Uint32())
	}
}

func TestF32ToTF32(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	for _, rounding := range Roundings() {
		check := func(x uint32) {
			want := uint32(narrow(F32, TF32, uint64(x), rounding)) &^ 0x1fff
			if rounding == TowardZero && x&0x7fffffff > 0x7f800000 {
				want = x &^ 0x1fff // a NaN, or Inf
			}
			if got := F32ToTF32(x, rounding); got != want {
				// Encode overflows to Inf whatever the rounding; on bits a finite number stays finite toward zero.
				t.Fatalf("F32ToTF32(%#08x, %s) = %#08x, want %#08x", x, rounding, got, want)
			}
		}
		for range 50000 {
			check(r.Uint32())
			check(r.Uint32()&^0x1fff | 0x1000)
			check(r.Uint32() & 0x80ffffff)
		}
		for _, x := range []uint32{0, 1, 0x1000, 0x1001, 0x2000, 0x3000, 0x7f7fefff, 0x7f7ff000, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fffffff} {
			check(x)
			check(x | 1<<31)
		}
	}
	// What cuBLAS does on an H200 (docs/arithmetic.md): to nearest even.
	for _, c := range []struct{ x, even, zero, away float32 }{
		{1024.5, 1024, 1024, 1025}, {1025.5, 1026, 1025, 1026}, {1024.75, 1025, 1024, 1025}, {-1024.5, -1024, -1024, -1025},
	} {
		for r, want := range map[Rounding]float32{NearestEven: c.even, TowardZero: c.zero, NearestAway: c.away} {
			if got := math.Float32frombits(F32ToTF32(math.Float32bits(c.x), r)); got != want {
				t.Errorf("F32ToTF32(%v, %s) = %v, want %v", c.x, r, got, want)
			}
		}
	}
}

func TestF64ToF32(t *testing.T) {
	check := func(x uint64) {
		got := F64ToF32(x)
		if want := uint32(narrow(F64, F32, x, NearestEven)); got != want {
			t.Fatalf("F64ToF32(%#016x) = %#08x, want %#08x", x, got, want)
		}
		if f := math.Float64frombits(x); f == f && got != math.Float32bits(float32(f)) {
			t.Fatalf("F64ToF32(%#016x) = %#08x, the processor says %#08x", x, got, math.Float32bits(float32(f)))
		}
	}
	boundaries(F64, BF16, check) // a coarse walk over f32's whole range, subnormals aside
	r := rand.New(rand.NewPCG(1, 5))
	for range 200000 {
		check(r.Uint64())
		check(r.Uint64()&(1<<63|1<<52-1) | (870+r.Uint64N(290))<<52)
		check(r.Uint64()&(1<<63|1<<52-1)&^(1<<28-1) | (870+r.Uint64N(290))<<52) // ties
		check(r.Uint64()<<63 | math.Float64bits(float64(r.Uint32()>>(8+r.Uint32N(23)))+0.5) - 149<<52)
	}
	for e := uint64(865); e < 900; e++ { // every place of the leading one among f32's subnormals
		for _, m := range []uint64{0, 1, 1<<52 - 1, 1 << 51, 1<<51 - 1, 1<<51 + 1, 3 << 50} {
			check(e<<52 | m)
			check(1<<63 | e<<52 | m)
		}
	}
	for _, x := range []uint64{0, 1, 1 << 63, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff0000000000001, 0x7fffffffffffffff,
		0x47efffffefffffff, 0x47effffff0000000, 0x47efffffe0000000} {
		check(x)
	}
}

func TestWidening(t *testing.T) {
	for x := range uint32(1 << 16) {
		if got, want := F16ToF32(uint16(x)), uint32(narrow(F16, F32, uint64(x), TowardZero)); got != want {
			t.Fatalf("F16ToF32(%#04x) = %#08x, want %#08x", x, got, want)
		}
		if f := float16.Frombits(uint16(x)); !f.IsNaN() && math.Float32bits(f.Float32()) != F16ToF32(uint16(x)) {
			t.Fatalf("F16ToF32(%#04x) = %#08x, x448/float16 says %v", x, F16ToF32(uint16(x)), f)
		}
		if got, want := BF16ToF32(uint16(x)), uint32(narrow(BF16, F32, uint64(x), TowardZero)); got != want {
			t.Fatalf("BF16ToF32(%#04x) = %#08x, want %#08x", x, got, want)
		}
		if back := F32ToF16(F16ToF32(uint16(x))); x&0x7fff <= 0x7c00 && back != uint16(x) {
			t.Fatalf("f16 %#04x came back as %#04x", x, back)
		}
	}
	r := rand.New(rand.NewPCG(1, 6))
	check := func(x uint32) {
		got := F32ToF64(x)
		if want := narrow(F32, F64, uint64(x), TowardZero); got != want {
			t.Fatalf("F32ToF64(%#08x) = %#016x, want %#016x", x, got, want)
		}
		if f := math.Float32frombits(x); f == f && got != math.Float64bits(float64(f)) {
			t.Fatalf("F32ToF64(%#08x) = %#016x, the processor says %#016x", x, got, math.Float64bits(float64(f)))
		}
	}
	for range 200000 {
		check(r.Uint32())
		check(r.Uint32() >> r.UintN(32) & 0x807fffff)
	}
	for x := range 256 {
		for f, fast := range map[Format]func(uint8) uint32{E4M3: E4M3ToF32, E5M2: E5M2ToF32} {
			n := f.Decode(uint64(x))
			got := float64(math.Float32frombits(fast(uint8(x))))
			if want := value(n); got != want && n.Class != NaN || math.Signbit(got) != n.Neg && n.Class != NaN {
				t.Errorf("%s %#02x widens to %v, want %v", f, x, got, want)
			}
			if n.Class == NaN && fast(uint8(x)) != 0x7fffffff {
				t.Errorf("%s %#02x widens to %#08x, want the canonical NaN", f, x, fast(uint8(x)))
			}
		}
	}
}

func BenchmarkF32ToF16(b *testing.B) {
	var sink uint16
	for i := range b.N {
		sink += F32ToF16(uint32(i) * 2654435761)
	}
	_ = sink
}
