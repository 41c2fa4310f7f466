package simd

import "math"

//go:generate go run -C _gen ./merge -out ../merge_amd64.s -stubs ../merge_amd64.go -pkg simd

// mergeBlock bounds one call into assembly, which cannot be preempted.
const mergeBlock = 1 << 15

// AddFloat32 adds partial to sum element by element, rounded to nearest even; every NaN becomes the canonical one,
// 0x7FFFFFFF. It works under the thread's floating-point environment: call it inside WithDefaultFloats.
func AddFloat32(l Level, sum, partial []float32) {
	partial = partial[:len(sum)]
	if l == AVX2 || l == AVX512 {
		for len(sum) >= 32 {
			n := min(len(sum)&^31, mergeBlock)
			addFloat32AVX2(&sum[0], &partial[0], n)
			sum, partial = sum[n:], partial[n:]
		}
	}
	nan := math.Float32frombits(chainNaN32)
	for i, v := range partial {
		if v += sum[i]; v != v {
			v = nan
		}
		sum[i] = v
	}
}
