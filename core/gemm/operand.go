package gemm

import (
	"math"
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
	// scaled: every element is multiplied by scale, rounded to f32, before anything else; it is an f32 then (as).
	scaled bool
	scale  float32
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

// multiplied is the operand with every element multiplied by scale.
func (o operand) multiplied(scale float32) operand {
	o.scaled, o.scale, o.as = true, scale, format.F32
	return o
}

func (o *operand) at(batch, lane, k int) unsafe.Pointer {
	if o.index != nil {
		lane = o.index[lane]
	}
	return unsafe.Add(o.data, (batch*o.batchStride+lane*o.laneStride+k*o.kStride)*o.size)
}

// strip describes lanes × the span's k for the packers. Chosen lanes, listed k and scaled elements are first copied into
// scratch; and so are lanes of which neither neighbours nor successive k lie side by side, where the packers (compact)
// would read them one by one.
func (o *operand) strip(batch, lane, lanes int, p *span, compact bool, scratch *[]byte) simd.Source {
	s := simd.Source{
		Format: o.format, As: o.as, InputRounding: o.rounding,
		LaneStride: o.laneStride, KStride: o.kStride * p.stride, Lanes: lanes, K: p.n,
	}
	if o.scaled {
		s.Format = format.F32
	}
	if lanes == 0 || p.n == 0 {
		return s
	}
	scattered := compact && s.KStride != 1 && o.laneStride != 1 && p.n >= 8
	if o.index == nil && p.list == nil && !o.scaled && !scattered {
		s.Pointer = o.at(batch, lane, p.start)
		return s
	}
	need := lanes * p.n * o.size
	if o.scaled {
		need = lanes * p.n * 4
	}
	if cap(*scratch) < need+8 {
		*scratch = make([]byte, need+need/2+64)
	}
	s.Pointer = unsafe.Pointer(unsafe.SliceData((*scratch)[:need+8]))
	if o.index == nil && o.laneStride == 1 && p.list != nil && !o.scaled && lanes > 1 {
		// Neighbours stay neighbours.
		s.LaneStride, s.KStride = 1, lanes
		n := lanes * o.size
		to := unsafe.Slice((*byte)(s.Pointer), need)
		for i, k := range p.list {
			copy(to[i*n:(i+1)*n], unsafe.Slice((*byte)(o.at(batch, lane, k)), n))
		}
		return s
	}
	s.LaneStride, s.KStride = p.n, 1
	for l := range lanes {
		o.line(unsafe.Add(s.Pointer, l*need/lanes), batch, lane+l, p)
	}
	return s
}

// line copies the span's k of one lane side by side.
func (o *operand) line(to unsafe.Pointer, batch, lane int, p *span) {
	from := o.at(batch, lane, 0)
	if o.scaled {
		line := unsafe.Slice((*float32)(to), p.n)
		for i := range line {
			line[i] = o.product(load(unsafe.Add(from, p.at(i)*o.kStride*o.size), o.size))
		}
		return
	}
	switch o.size {
	case 1:
		lineOf(unsafe.Slice((*uint8)(to), p.n), from, o.kStride, p)
	case 2:
		lineOf(unsafe.Slice((*uint16)(to), p.n), from, o.kStride, p)
	case 4:
		lineOf(unsafe.Slice((*uint32)(to), p.n), from, o.kStride, p)
	default:
		lineOf(unsafe.Slice((*uint64)(to), p.n), from, o.kStride, p)
	}
}

func lineOf[T uint8 | uint16 | uint32 | uint64](to []T, from unsafe.Pointer, kStride int, p *span) {
	size := int(unsafe.Sizeof(T(0)))
	if p.list != nil {
		for i, k := range p.list[:len(to)] {
			to[i] = *(*T)(unsafe.Add(from, k*kStride*size))
		}
		return
	}
	at, step := p.start*kStride*size, p.stride*kStride*size
	if step == size {
		copy(to, unsafe.Slice((*T)(unsafe.Add(from, at)), len(to)))
		return
	}
	for i := range to {
		to[i] = *(*T)(unsafe.Add(from, at))
		at += step
	}
}

// product is an element multiplied by the scale, rounded to nearest even.
func (o *operand) product(v uint64) float32 { return float32(o.scale * widen(v, o.format)) }

// bits reads one element as a bit pattern of the step's format.
func (o *operand) bits(batch, lane, k int) uint64 {
	v := load(o.at(batch, lane, k), o.size)
	switch {
	case o.scaled:
		return uint64(math.Float32bits(o.product(v)))
	case o.format == format.F32 && o.as == format.TF32:
		return uint64(format.F32ToTF32(uint32(v), o.rounding))
	}
	return v
}
