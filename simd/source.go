package simd

import (
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// Source is a strip of an operand in the caller's memory: Lanes rows of A (or columns of B) by K. Strides count
// elements and may be zero or negative.
type Source struct {
	Pointer    unsafe.Pointer // element (lane 0, k 0)
	Format     format.Format  // as stored
	LaneStride int
	KStride    int
	Lanes      int // at most the kernel's MR or NR; missing lanes are packed as zeros
	K          int
	// InputRounding, where Format is F32 and the step wants tf32.
	InputRounding format.Rounding
	// As is the format the step wants (TF32 for F32 sources rounded on the way in); otherwise equal to Format.
	As format.Format
}

// element is the address of element (lane, k) of a source.
func (src *Source) element(lane, k, size int) *byte {
	return (*byte)(unsafe.Add(src.Pointer, (lane*src.LaneStride+k*src.KStride)*size))
}

// lanePointers points at element k of every lane of a block of at most width lanes. Lanes the source lacks repeat its
// last one: packing reads them and then masks them out.
func (src *Source) lanePointers(table *[16]*byte, first, width, k, size int) {
	for i := range width {
		table[i] = src.element(min(first+i, src.Lanes-1), k, size)
	}
}
