package simd

import (
	"fmt"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

//go:generate go run -C _gen ./chain -level avx2 -kernel chain -out ../chain_avx2_amd64.s -stubs ../chain_avx2_amd64.go -pkg simd
//go:generate go run -C _gen ./chain -level avx512 -kernel chain -out ../chain_avx512_amd64.s -stubs ../chain_avx512_amd64.go -pkg simd

// An FMA chain is c = fma(a_k, b_k, c) for k ascending, each step exact and then rounded once to nearest even,
// subnormals kept: what CUDA cores do in f32 and tensor cores in f64 (docs/arithmetic.md, measured on an H200). A tile
// runs MR×NR such chains side by side, so that vectors change nothing in any one of them. Nothing needs proving before
// a tile may run: IEEE 754 defines every result but the payload of a NaN, which f32 replaces by the canonical one and
// f64 declines.

// chainPiece bounds the k of one call into assembly, which cannot be preempted: below a millisecond.
const chainPiece = 1 << 13

// chainSlots is a panel's memory: for every slot of k, stride lanes side by side.
type chainSlots[T float32 | float64 | int32] struct {
	data   []T
	stride int
}

// at is the first lane of slot k.
func (s *chainSlots[T]) at(k int) *T { return unsafe.SliceData(s.data[k*s.stride:]) }

// reserve makes room for k slots of stride lanes, rounded up to whole blocks of a transpose, from a cache line's start.
func (s *chainSlots[T]) reserve(k, stride int) {
	const block, line = 16, 64
	var t T
	n := (k + block) / block * block * stride
	if s.stride = stride; cap(s.data) < n {
		size := int(unsafe.Sizeof(t))
		raw := make([]T, n+line/size)
		skip := (line - int(uintptr(unsafe.Pointer(unsafe.SliceData(raw)))%line)) % line / size
		s.data = raw[skip : skip+n : skip+n]
	}
	s.data = s.data[:n]
}

// clear zeroes lanes from..stride-1 of slots k0..k1-1.
func (s *chainSlots[T]) clear(from, k0, k1 int) {
	if from >= s.stride {
		return
	}
	for k := k0; k < k1; k++ {
		clear(s.data[k*s.stride+from : (k+1)*s.stride])
	}
}

// chainPack packs k along in pieces, as far as vectors reach: each call says up to where it came.
func chainPack(k int, vectors func(k0, k1 int) int) int {
	for at := 0; at < k; {
		next := vectors(at, min(at+chainPiece, k))
		if next == at {
			return at
		}
		at = next
	}
	return k
}

func checkSource(what string, src *Source, lanes int, formats ...format.Format) {
	if src.Lanes < 0 || src.Lanes > lanes || src.K < 0 {
		panic(fmt.Sprintf("simd: %s: a strip of %d lanes by %d, the kernel takes up to %d lanes", what, src.Lanes, src.K, lanes))
	}
	for _, f := range formats {
		if src.Format == f {
			return
		}
	}
	panic(fmt.Sprintf("simd: %s: no such source format %d", what, src.Format))
}

// checkTile panics where panels and tile do not belong together; a kernel in assembly would read past them.
func checkTile(what string, lenC, ldc, strideA, strideB, lanesA, lanesB, ka, kb, wantA, wantB int) {
	if strideA != wantA || strideB != wantB {
		panic(fmt.Sprintf("simd: %s: a panel packed by another kernel", what))
	}
	if ka != kb {
		panic(fmt.Sprintf("simd: %s: panels of %d and %d k", what, ka, kb))
	}
	if ldc < 0 || lanesA > 0 && lanesB > 0 && (lanesA-1)*ldc+wantB > lenC {
		panic(fmt.Sprintf("simd: %s: %d rows of stride %d do not fit %d elements", what, lanesA, ldc, lenC))
	}
}
