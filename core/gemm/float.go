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
