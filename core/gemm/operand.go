package gemm

import (
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// operand is A or B seen as lanes × k: A's lanes are its rows, B's its columns.
type operand struct {
	data        unsafe.Pointer // element (batch 0, lane 0, k 0)
	format      format.Format
	as          format.Format
	rounding    format.Rounding
	size        int
	batchStride int
	laneStride  int
	kStride     int
	lanes       int   // how many are computed
	index       []int // which ones, nil for all
}

func operandOf(m *Matrix, as format.Format, rounding format.Rounding, lanesAreRows bool, index []int) operand {
	o := operand{
		format: m.Format, as: as, rounding: rounding, size: m.elementSize(),
		batchStride: m.BatchStride, laneStride: m.RowStride, kStride: m.ColumnStride, lanes: m.Rows, index: index,
	}
	if o.format == format.F32 && as == format.TF32 && rounding == "" {
		o.format = format.TF32 // checked to be: see holdsTF32
	}
	if !m.Empty() {
		o.data = m.at(0, 0, 0)
	}
	if !lanesAreRows {
		o.laneStride, o.kStride, o.lanes = m.ColumnStride, m.RowStride, m.Columns
	}
	if index != nil {
		o.lanes = len(index)
	}
	return o
}

func (o *operand) at(batch, lane, k int) unsafe.Pointer {
	if o.index != nil {
		lane = o.index[lane]
	}
	return unsafe.Add(o.data, (batch*o.batchStride+lane*o.laneStride+k*o.kStride)*o.size)
}

// strip describes lanes × n elements k, k+step, … for the packers. Chosen lanes lie anywhere, so they are first copied
// into scratch, k-contiguous.
func (o *operand) strip(batch, lane, lanes, k, step, n int, scratch *[]byte) simd.Source {
	s := simd.Source{
		Format: o.format, As: o.as, InputRounding: o.rounding,
		LaneStride: o.laneStride, KStride: o.kStride * step, Lanes: lanes, K: n,
	}
	if lanes == 0 || n == 0 {
		return s
	}
	if o.index == nil {
		s.Pointer = o.at(batch, lane, k)
		return s
	}
	need := lanes * n * o.size
	if cap(*scratch) < need+8 {
		*scratch = make([]byte, need+8)
	}
	buffer := (*scratch)[:need+8]
	s.Pointer = unsafe.Pointer(unsafe.SliceData(buffer))
	s.LaneStride, s.KStride = n, 1
	for l := range lanes {
		to := unsafe.Add(s.Pointer, l*n*o.size)
		for i := range n {
			store(unsafe.Add(to, i*o.size), o.size, load(o.at(batch, lane+l, k+i*step), o.size))
		}
	}
	return s
}

// bits reads one element as a bit pattern of the step's format.
func (o *operand) bits(batch, lane, k int) uint64 {
	v := load(o.at(batch, lane, k), o.size)
	if o.format == format.F32 && o.as == format.TF32 {
		return uint64(format.F32ToTF32(uint32(v), o.rounding))
	}
	return v
}
