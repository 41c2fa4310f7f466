package simd

import (
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

func tileInt8(l Level, pairs int, a, b, c *int32, ldc, rows, vectors int) {
	if l == AVX512 {
		int8TileAVX512(pairs, a, b, c, ldc, rows, vectors)
	} else {
		int8TileAVX2(pairs, a, b, c, ldc, rows, vectors)
	}
}

// packVectorsInt8 packs one vector of lanes, from lane first on, for slots s0 <= s < s1 as far as the level's routines
// reach, and says up to where that is.
func packVectorsInt8(l Level, p *PanelInt8, src *Source, first, s0, s1 int) int {
	dst := (*byte)(unsafe.Pointer(&p.slots.data[s0*p.slots.stride+first]))
	stride := p.slots.stride * 4
	k0, k1 := 2*s0, min(2*s1, src.K)
	pairs := (k1 - k0) / 2 // a last odd k has no partner in memory
	signed := src.Format == format.S8
	var table [16]*byte
	switch {
	case l == AVX512 && src.LaneStride == 1:
		from, lanes := src.element(first, k0, 1), min(16, src.Lanes-first)
		if signed {
			packLanesS8AVX512(pairs, from, src.KStride, dst, stride, lanes)
		} else {
			packLanesU8AVX512(pairs, from, src.KStride, dst, stride, lanes)
		}
		return s0 + pairs
	case l == AVX512 && src.KStride == 1:
		src.lanePointers(&table, first, 16, k0, 1)
		if lanes := min(16, src.Lanes-first); signed {
			packKS8AVX512(k1-k0, &table, dst, stride, lanes)
		} else {
			packKU8AVX512(k1-k0, &table, dst, stride, lanes)
		}
		return s1
	case l == AVX2 && src.LaneStride == 1 && src.Lanes-first >= 8:
		from := src.element(first, k0, 1)
		if signed {
			packLanesS8AVX2(pairs, from, src.KStride, dst, stride)
		} else {
			packLanesU8AVX2(pairs, from, src.KStride, dst, stride)
		}
		return s0 + pairs
	case l == AVX2 && src.KStride == 1 && pairs >= 8:
		src.lanePointers(&table, first, 8, k0, 1)
		n, eight, lanes := pairs&^7*2, (*[8]*byte)(table[:]), min(8, src.Lanes-first)
		if signed {
			packKS8AVX2(n, eight, dst, stride, lanes)
		} else {
			packKU8AVX2(n, eight, dst, stride, lanes)
		}
		return s0 + n/2
	}
	return s0
}
