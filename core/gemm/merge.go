package gemm

import (
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// float32Merge rounds and adds f32 partial sums; every NaN is the canonical one (docs/arithmetic.md).
type float32Merge struct{ level simd.Level }

func (float32Merge) first(sum []float32, m *plan.Merge) {
	if m.Partial != format.F32 {
		for i, v := range sum {
			sum[i] = roundFloat32(v, m.Partial)
		}
	}
	if m.FromZero {
		for i, v := range sum {
			if v == 0 {
				sum[i] = 0 // -0 becomes +0
			}
		}
	}
	if m.Sum != format.F32 {
		for i, v := range sum {
			sum[i] = roundFloat32(v, m.Sum)
		}
	}
}

func (m32 float32Merge) merge(sum, partial []float32, m *plan.Merge) {
	partial = partial[:len(sum)]
	if m.Partial == format.F32 && m.Sum == format.F32 {
		simd.AddFloat32(m32.level, sum, partial)
		return
	}
	if m.Partial == format.F32 && m.Sum == format.F16 {
		for i, v := range partial {
			sum[i] = roundToHalf(float64(sum[i]), float64(v))
		}
		return
	}
	for i, v := range partial {
		// Two f16 or bf16 (11 and 8 bits) added in f32 (24 bits) and rounded again are rounded once.
		sum[i] = roundFloat32(canonical32(sum[i]+roundFloat32(v, m.Partial)), m.Sum)
	}
}

// float64Merge: "in a lane merge the second operand's NaN wins" (measured on an H200, one case).
type float64Merge struct{}

func (float64Merge) first(sum []float64, m *plan.Merge) {
	if m.FromZero {
		for i, v := range sum {
			if v == 0 {
				sum[i] = 0
			}
		}
	}
}

func (float64Merge) merge(sum, partial []float64, _ *plan.Merge) {
	for i, v := range partial[:len(sum)] {
		switch before := sum[i]; {
		case v != v:
			sum[i] = v
		case before == before:
			if sum[i] += v; sum[i] != sum[i] { // Inf - Inf; processors have other NaNs for it
				sum[i] = nan64
			}
		}
	}
}

// int32Merge wraps as the hardware does.
type int32Merge struct{}

func (int32Merge) first([]int32, *plan.Merge) {}

func (int32Merge) merge(sum, partial []int32, _ *plan.Merge) {
	for i, v := range partial[:len(sum)] {
		sum[i] += v
	}
}
