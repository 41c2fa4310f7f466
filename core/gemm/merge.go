package gemm

import (
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// float32Merge rounds and adds f32 partial sums; every NaN is the canonical one (docs/arithmetic.md).
type float32Merge struct{ level simd.Level }

func (float32Merge) first(sum []float32, m *plan.Merge) {
	if m.Partial == format.F32 && m.Sum == format.F32 && !m.FromZero {
		return
	}
	for i, v := range sum {
		sum[i] = firstFloat32(v, m)
	}
}

// firstFloat32 makes the first partial sum of a merge the running sum.
func firstFloat32(v float32, m *plan.Merge) float32 {
	v = roundFloat32(v, m.Partial)
	if m.FromZero && v == 0 {
		v = 0 // -0 becomes +0
	}
	return roundFloat32(v, m.Sum)
}

// mergeFloat32 adds a further partial sum to a running sum.
func mergeFloat32(sum, v float32, m *plan.Merge) float32 {
	if m.Partial == format.F32 && m.Sum == format.F32 {
		return canonical32(sum + v)
	}
	if m.Partial == format.F32 && m.Sum == format.F16 {
		return roundToHalf(float64(sum), float64(v))
	}
	// Two f16 or bf16 (11 and 8 bits) added in f32 (24 bits) and rounded again are rounded once.
	return roundFloat32(canonical32(sum+roundFloat32(v, m.Partial)), m.Sum)
}

func (m32 float32Merge) merge(sum, partial []float32, m *plan.Merge) {
	partial = partial[:len(sum)]
	if m.Partial == format.F32 && m.Sum == format.F32 {
		simd.AddFloat32(m32.level, sum, partial)
		return
	}
	for i, v := range partial {
		sum[i] = mergeFloat32(sum[i], v, m)
	}
}

// float64Merge adds f64 partial sums (addFloat64).
type float64Merge struct{}

func (float64Merge) first(sum []float64, m *plan.Merge) {
	if m.FromZero {
		for i, v := range sum {
			sum[i] = firstFloat64(v, m)
		}
	}
}

func (float64Merge) merge(sum, partial []float64, _ *plan.Merge) {
	for i, v := range partial[:len(sum)] {
		sum[i] = addFloat64(sum[i], v)
	}
}

// firstFloat64 makes the first partial sum of a merge the running sum.
func firstFloat64(v float64, m *plan.Merge) float64 {
	if m.FromZero && v == 0 {
		return 0 // -0 becomes +0
	}
	return v
}

func mergeFloat64(sum, v float64, _ *plan.Merge) float64 { return addFloat64(sum, v) }

// int32Merge wraps as the hardware does.
type int32Merge struct{}

func (int32Merge) first([]int32, *plan.Merge) {}

func (int32Merge) merge(sum, partial []int32, _ *plan.Merge) {
	for i, v := range partial[:len(sum)] {
		sum[i] += v
	}
}

// addFloat64 is sum + v with the GPU's choice of NaN: "in a lane merge the second operand's NaN wins" (measured on an H200,
// one case).
func addFloat64(sum, v float64) float64 {
	switch {
	case v != v:
		return v
	case sum != sum:
		return sum
	}
	if sum += v; sum != sum { // Inf - Inf; processors have other NaNs for it
		return nan64
	}
	return sum
}
