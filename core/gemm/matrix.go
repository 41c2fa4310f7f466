package gemm

import (
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// Matrix is a batch of matrices in the caller's memory. Strides count elements and may be zero or negative; element
// (b, i, j) lies Offset + b·BatchStride + i·RowStride + j·ColumnStride elements from Data.
type Matrix struct {
	Data                                 unsafe.Pointer
	Offset                               int
	Format                               format.Format
	Batch, Rows, Columns                 int
	BatchStride, RowStride, ColumnStride int
}

// Dense wraps row-major memory: batch × rows × columns elements of f.
func Dense(data []byte, f format.Format, batch, rows, columns int) *Matrix {
	return &Matrix{Data: unsafe.Pointer(unsafe.SliceData(data)), Format: f, Batch: batch, Rows: rows, Columns: columns,
		BatchStride: rows * columns, RowStride: columns, ColumnStride: 1}
}

// Empty tells whether the matrix has no elements.
func (m *Matrix) Empty() bool { return m.Batch == 0 || m.Rows == 0 || m.Columns == 0 }

func (m *Matrix) elementSize() int { return m.Format.Info().Bytes }

func (m *Matrix) at(batch, row, column int) unsafe.Pointer {
	return unsafe.Add(m.Data, (m.Offset+batch*m.BatchStride+row*m.RowStride+column*m.ColumnStride)*m.elementSize())
}

// Bits reads one element's bit pattern.
func (m *Matrix) Bits(batch, row, column int) uint64 {
	return load(m.at(batch, row, column), m.elementSize())
}

// holdsTF32 tells whether every element of an f32 matrix is a tf32 already: the low 13 bits are zero.
func (m *Matrix) holdsTF32() bool {
	if m.Data == nil {
		return m.Empty()
	}
	for b := range m.Batch {
		for i := range m.Rows {
			for j := range m.Columns {
				if m.Bits(b, i, j)&(1<<13-1) != 0 {
					return false
				}
			}
		}
	}
	return true
}

func load(p unsafe.Pointer, size int) uint64 {
	switch size {
	case 1:
		return uint64(*(*uint8)(p))
	case 2:
		return uint64(*(*uint16)(p))
	case 4:
		return uint64(*(*uint32)(p))
	}
	return *(*uint64)(p)
}

func store(p unsafe.Pointer, size int, v uint64) {
	switch size {
	case 1:
		*(*uint8)(p) = uint8(v)
	case 2:
		*(*uint16)(p) = uint16(v)
	case 4:
		*(*uint32)(p) = uint32(v)
	default:
		*(*uint64)(p) = v
	}
}

// Check tells what is wrong with the description of a matrix called name.
func (m *Matrix) Check(name string) error {
	if m == nil {
		return fail(KindArgument, "%s is missing", name)
	}
	if m.Format.Info().Bytes == 0 {
		return fail(KindFormat, "%s: %d is no number format", name, m.Format)
	}
	if _, err := m.layout(name); err != nil || m.Empty() {
		return err
	}
	if uintptr(m.Data)%uintptr(m.elementSize()) != 0 {
		return fail(KindArgument, "%s: data is not aligned to its %d-byte elements", name, m.elementSize())
	}
	return nil
}

// layout is where the elements lie, or what is wrong with that.
func (m *Matrix) layout(name string) (layout, error) {
	return newLayout(name, uint64(uintptr(m.Data)), int64(m.elementSize()), int64(m.Offset),
		[3]int64{int64(m.Batch), int64(m.Rows), int64(m.Columns)},
		[3]int64{int64(m.BatchStride), int64(m.RowStride), int64(m.ColumnStride)})
}
