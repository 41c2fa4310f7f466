package simd

import (
	"maps"
	"math"
	"math/big"
	"math/rand"
	"slices"
	"testing"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// farReference is the step of docs/arithmetic.md with exact fractions, for one element.
func farReference(f format.Format, a, b []uint16, c float32, s FarShape) float32 {
	for start := 0; start < len(a); start += s.Group {
		type term struct {
			value    *big.Rat
			exponent int
		}
		var terms []term
		for k := start; k < min(start+s.Group, len(a)); k++ {
			x, y := f.Decode(uint64(a[k])), f.Decode(uint64(b[k]))
			if x.Class == format.Zero || y.Class == format.Zero {
				continue
			}
			v := new(big.Rat).SetFloat64(math.Ldexp(float64(x.Sig), x.Exp))
			v.Mul(v, new(big.Rat).SetFloat64(math.Ldexp(float64(y.Sig), y.Exp)))
			if x.Neg != y.Neg {
				v.Neg(v)
			}
			terms = append(terms, term{v, x.Exponent + y.Exponent})
		}
		if c != 0 {
			least := -126
			if s.Half {
				least = -14
			}
			terms = append(terms, term{new(big.Rat).SetFloat64(float64(c)), max(math.Ilogb(float64(c)), least)})
		}
		largest := math.MinInt32
		for _, t := range terms {
			largest = max(largest, t.exponent)
		}
		if len(terms) == 0 {
			c = 0
			continue
		}
		if s.Half {
			largest = max(largest, s.Floor)
		}
		unit := largest - s.Fraction
		sum := new(big.Int)
		for _, t := range terms {
			scaled := new(big.Rat).Mul(t.value, power(-unit))
			sum.Add(sum, new(big.Int).Quo(scaled.Num(), scaled.Denom())) // Quo truncates toward zero
		}
		if s.Half {
			exact := format.Exact{Neg: sum.Sign() < 0, Mag: new(big.Int).Abs(sum), Exp: unit}
			rounded := format.F16.Encode(exact, format.Encoding{PositiveZero: true})
			c = math.Float32frombits(format.F16ToF32(uint16(rounded)))
			continue
		}
		if drop := sum.BitLen() - 1 - s.ResultFraction; drop > 0 {
			magnitude := new(big.Int).Abs(sum)
			magnitude.Lsh(magnitude.Rsh(magnitude, uint(drop)), uint(drop))
			if sum.Sign() < 0 {
				magnitude.Neg(magnitude)
			}
			sum = magnitude
		}
		value, _ := new(big.Rat).Mul(new(big.Rat).SetInt(sum), power(unit)).Float64()
		c = float32(value)
		if c == 0 {
			c = 0
		}
	}
	return c
}

func power(e int) *big.Rat {
	if e >= 0 {
		return new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(e)))
	}
	return new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Lsh(big.NewInt(1), uint(-e)))
}

func TestFar(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	shapes := []FarShape{{FusedShape: FusedShape{16, 25, 23}}, {FusedShape: FusedShape{8, 25, 23}}, {FusedShape: FusedShape{8, 24, 23}},
		{FusedShape: FusedShape{4, 23, 23}}, {FusedShape: FusedShape{32, 13, 13}}, {FusedShape: FusedShape{16, 13, 13}},
		{FusedShape{16, 25, 10}, true, -21}, {FusedShape{8, 24, 10}, true, -20}}
	halves := map[string]func() uint16{
		"tiny f16": func() uint16 { return uint16(random.Intn(2)<<15 | random.Intn(4)<<10 | random.Intn(1024)) },
		"near f16": func() uint16 { return uint16(random.Intn(2)<<15 | (5+random.Intn(11))<<10 | random.Intn(1024)) },
		"sparse f16": func() uint16 {
			return uint16(random.Intn(2)<<15|random.Intn(14)<<10|random.Intn(1024)) * uint16(random.Intn(2))
		},
		"bits f16": func() uint16 { return uint16(random.Intn(1 << 16)) },
	}
	inputs := map[string]func() uint16{
		"wide bf16": func() uint16 { return uint16(random.Intn(2)<<15 | (87+random.Intn(81))<<7 | random.Intn(128)) },
		"sparse bf16": func() uint16 {
			return uint16(random.Intn(2)<<15|(87+random.Intn(81))<<7|random.Intn(128)) * uint16(random.Intn(2))
		},
		"edge bf16": func() uint16 {
			return uint16(random.Intn(2)<<15 | (127-50+100*random.Intn(2)+random.Intn(3))<<7 | 127*random.Intn(2))
		},
		"equal bf16": func() uint16 { return 0x3FFF },
		"bits bf16":  func() uint16 { return uint16(random.Intn(1 << 16)) },
	}
	for _, level := range Levels() {
		f := FarKernel(level)
		if f == nil {
			continue
		}
		for _, name := range append(slices.Sorted(maps.Keys(inputs)), slices.Sorted(maps.Keys(halves))...) {
			in, draw := format.BF16, inputs[name]
			if draw == nil {
				in, draw = format.F16, halves[name]
			}
			ran, tiles := 0, 0
			for _, s := range shapes {
				if s.Half != (in == format.F16) {
					continue
				}
				for trial := range 5 {
					k, rows, columns := 1+random.Intn(70), 1+random.Intn(f.MR), 1+random.Intn(f.NR)
					if trial == 0 {
						rows, columns = f.MR, f.NR
					}
					a, b := make([]uint16, rows*k), make([]uint16, columns*k)
					for i := range a {
						a[i] = draw()
					}
					for i := range b {
						b[i] = draw()
						if name[:4] != "bits" && i >= k/2*1 && random.Intn(3) == 0 { // cancel against an earlier element
							b[i] = b[random.Intn(i+1)] ^ 0x8000
						}
					}
					c := make([]float32, f.MR*f.NR)
					for i := range c {
						switch random.Intn(3) {
						case 0:
							c[i] = float32(math.Ldexp(random.NormFloat64(), random.Intn(100)-50))
							if s.Half {
								c[i] = float32(math.Ldexp(random.NormFloat64(), random.Intn(34)-24))
								c[i] = math.Float32frombits(format.F16ToF32(format.F32ToF16(math.Float32bits(c[i]))))
							}
						case 1:
							c[i] = float32(math.Copysign(0, -1))
						}
					}
					before := append([]float32(nil), c...)
					var pa, pb FarPanel
					f.PackA(&pa, &Source{Pointer: unsafe.Pointer(&a[0]), Format: in, As: in, LaneStride: k, KStride: 1, Lanes: rows, K: k}, s)
					f.PackB(&pb, &Source{Pointer: unsafe.Pointer(&b[0]), Format: in, As: in, LaneStride: k, KStride: 1, Lanes: columns, K: k}, s)
					tiles++
					ok := f.Run(c, f.NR, &pa, &pb, s)
					if ok {
						ran++
					}
					for r := range rows {
						for l := range columns {
							at := r*f.NR + l
							want := before[at]
							if ok {
								want = farReference(in, a[r*k:(r+1)*k], b[l*k:(l+1)*k], before[at], s)
							}
							if math.Float32bits(c[at]) != math.Float32bits(want) {
								t.Fatalf("%v, %s, %+v, K = %d, ran %v, element %d,%d: %#x, want %#x", level, name, s, k, ok, r, l, math.Float32bits(c[at]), math.Float32bits(want))
							}
						}
					}
				}
			}
			switch {
			case name[:4] != "bits" && name != "equal bf16":
				if ran*2 < tiles {
					t.Errorf("%v, %s: only %d of %d tiles were run", level, name, ran, tiles)
				}
			case name[:4] == "bits" && ran == tiles:
				t.Errorf("%v: NaN were run", level)
			}
		}
	}
}
