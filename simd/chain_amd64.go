package simd

import (
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// tile32 runs one tile of a level in assembly.
func tile32(l Level, k int, a, b, c *float32, ldc, rows, vectors int) {
	if l == AVX512 {
		chain32AVX512(k, a, b, c, ldc, rows, vectors)
	} else {
		chain32AVX2(k, a, b, c, ldc, rows, vectors)
	}
}

func tile64(l Level, k int, a, b, c *float64, ldc, rows, vectors int, live uint64) bool {
	if l == AVX512 {
		return chain64AVX512(k, a, b, c, ldc, rows, vectors, live)
	}
	return chain64AVX2(k, a, b, c, ldc, rows, vectors, live)
}

// packVectors32 packs one vector of lanes, from lane first on, for k0 <= k < k1 as far as the level's routines reach,
// and says up to where that is.
func packVectors32(l Level, p *Panel32, src *Source, first, k0, k1 int) int {
	dst := (*byte)(unsafe.Pointer(&p.slots.data[k0*p.slots.stride+first]))
	stride := p.slots.stride * 4
	size := 2
	if src.Format == format.F32 {
		size = 4
	}
	var table [16]*byte
	switch {
	case l == AVX512 && src.LaneStride == 1:
		lanes, from, step := min(16, src.Lanes-first), src.element(first, k0, size), src.KStride*size
		switch src.Format {
		case format.F32:
			packLanesF32AVX512(k1-k0, from, step, dst, stride, lanes)
		case format.F16:
			packLanesF16AVX512(k1-k0, from, step, dst, stride, lanes)
		case format.BF16:
			packLanesBF16AVX512(k1-k0, from, step, dst, stride, lanes)
		}
		return k1
	case l == AVX512 && src.KStride == 1:
		src.lanePointers(&table, first, 16, k0, size)
		lanes := min(16, src.Lanes-first)
		switch src.Format {
		case format.F32:
			packKF32AVX512(k1-k0, &table, dst, stride, lanes)
		case format.F16:
			packKF16AVX512(k1-k0, &table, dst, stride, lanes)
		case format.BF16:
			packKBF16AVX512(k1-k0, &table, dst, stride, lanes)
		}
		return k1
	case l == AVX2 && src.LaneStride == 1 && src.Lanes-first >= 8: // no masked loads of 16 bits: whole vectors only
		from, step := src.element(first, k0, size), src.KStride*size
		switch src.Format {
		case format.F32:
			packLanesF32AVX2(k1-k0, from, step, dst, stride)
		case format.F16:
			packLanesF16AVX2(k1-k0, from, step, dst, stride)
		case format.BF16:
			packLanesBF16AVX2(k1-k0, from, step, dst, stride)
		}
		return k1
	case l == AVX2 && src.KStride == 1 && k1-k0 >= 8:
		src.lanePointers(&table, first, 8, k0, size)
		n, eight, lanes := (k1-k0)&^7, (*[8]*byte)(table[:]), min(8, src.Lanes-first)
		switch src.Format {
		case format.F32:
			packKF32AVX2(n, eight, dst, stride, lanes)
		case format.F16:
			packKF16AVX2(n, eight, dst, stride, lanes)
		case format.BF16:
			packKBF16AVX2(n, eight, dst, stride, lanes)
		}
		return k0 + n
	}
	return k0
}

// packVectors64 does the same in f64.
func packVectors64(l Level, p *Panel64, src *Source, first, k0, k1 int) int {
	dst := (*byte)(unsafe.Pointer(&p.slots.data[k0*p.slots.stride+first]))
	stride := p.slots.stride * 8
	var table [16]*byte
	switch {
	case l == AVX512 && src.LaneStride == 1:
		packLanesF64AVX512(k1-k0, src.element(first, k0, 8), src.KStride*8, dst, stride, min(8, src.Lanes-first))
		return k1
	case l == AVX512 && src.KStride == 1:
		src.lanePointers(&table, first, 8, k0, 8)
		packKF64AVX512(k1-k0, (*[8]*byte)(table[:]), dst, stride, min(8, src.Lanes-first))
		return k1
	case l == AVX2 && src.LaneStride == 1 && src.Lanes-first >= 4:
		packLanesF64AVX2(k1-k0, src.element(first, k0, 8), src.KStride*8, dst, stride)
		return k1
	case l == AVX2 && src.KStride == 1 && k1-k0 >= 4:
		src.lanePointers(&table, first, 4, k0, 8)
		packKF64AVX2((k1-k0)&^3, (*[4]*byte)(table[:]), dst, stride, min(4, src.Lanes-first))
		return k0 + (k1-k0)&^3
	}
	return k0
}
