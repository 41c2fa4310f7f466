package gemm

import (
	"math"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// nan32 is the NaN every f32 result of a GPU is, nan64 that of an invalid f64 operation.
var (
	nan32 = math.Float32frombits(uint32(format.F32.NaN()))
	nan64 = math.Float64frombits(format.F64.NaN())
)

func canonical32(v float32) float32 {
	if v != v {
		return nan32
	}
	return v
}

// roundFloat32 rounds v to nearest even to a narrower format and returns it as the float32 of the same value.
func roundFloat32(v float32, to format.Format) float32 {
	switch to {
	case format.F16:
		return canonical32(math.Float32frombits(format.F16ToF32(format.F32ToF16(math.Float32bits(v)))))
	case format.BF16:
		return canonical32(math.Float32frombits(format.BF16ToF32(format.F32ToBF16(math.Float32bits(v)))))
	}
	return v
}

// roundToHalf rounds x + y to f16, once. The f64 sum is first made odd where it is not exact, so that it cannot become a
// midpoint between two f16 that the exact sum is not.
func roundToHalf(x, y float64) float32 {
	s := x + y
	if sum := math.Float64bits(s); sum<<1 < 0xFFE<<52 && sum&1 == 0 { // finite
		back := s - x
		switch lost := (x - (s - back)) + (y - back); {
		case lost == 0:
		case (lost > 0) == (s > 0):
			s = math.Float64frombits(sum + 1)
		default:
			s = math.Float64frombits(sum - 1)
		}
	}
	bits := format.F16.EncodeNumber(format.F64.Decode(math.Float64bits(s)), format.Encoding{})
	return math.Float32frombits(format.F16ToF32(uint16(bits)))
}

// widen is a bit pattern of f, one of f16, bf16 and f32, as the float32 of the same value.
func widen(v uint64, f format.Format) float32 {
	switch f {
	case format.F16:
		v = uint64(format.F16ToF32(uint16(v)))
	case format.BF16:
		v = uint64(format.BF16ToF32(uint16(v)))
	}
	return math.Float32frombits(uint32(v))
}
