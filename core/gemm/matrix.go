// Package gemm runs a profile over whole matrices, or over chosen rows and columns: it cuts the output into tiles,
// expands the plan for K, packs strips of the operands, calls the kernels of package simd and, wherever a kernel cannot
// prove its answer exact, a slower exact path.
package gemm

import (
	"fmt"
	"math"
	"math/bits"
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

// span gives the lowest and highest element offsets the matrix touches, or an error where they leave 63 bits of bytes.
func (m *Matrix) span() (low, high int64, err error) {
	low, high = int64(m.Offset), int64(m.Offset)
	for _, axis := range [][2]int{{m.Batch, m.BatchStride}, {m.Rows, m.RowStride}, {m.Columns, m.ColumnStride}} {
		reach, ok := mul(int64(axis[0]-1), int64(axis[1]))
		if !ok {
			return 0, 0, fmt.Errorf("%d elements with a stride of %d reach past the address space", axis[0], axis[1])
		}
		if reach < 0 {
			low, ok = add(low, reach)
		} else {
			high, ok = add(high, reach)
		}
		if !ok {
			return 0, 0, fmt.Errorf("the strides reach past the address space")
		}
	}
	limit := int64(math.MaxInt64) / 16
	if low < -limit || high > limit {
		return 0, 0, fmt.Errorf("the strides reach past the address space")
	}
	return low, high, nil
}

func mul(a, b int64) (int64, bool) {
	high, low := bits.Mul64(uint64(abs(a)), uint64(abs(b)))
	if high != 0 || low > math.MaxInt64 {
		return 0, false
	}
	if (a < 0) != (b < 0) {
		return -int64(low), true
	}
	return int64(low), true
}

func add(a, b int64) (int64, bool) {
	s := a + b
	return s, (s > a) == (b > 0)
}

func abs(a int64) int64 {
	if a < 0 {
		return -a
	}
	return a
}

// Check tells what is wrong with the description of a matrix called name.
func (m *Matrix) Check(name string) error {
	if m == nil {
		return fail(KindArgument, "%s is missing", name)
	}
	if m.Format.Info().Bytes == 0 {
		return fail(KindFormat, "%s: %d is no number format", name, m.Format)
	}
	if m.Batch < 0 || m.Rows < 0 || m.Columns < 0 {
		return fail(KindShape, "%s: a size is negative: batch %d, rows %d, columns %d", name, m.Batch, m.Rows, m.Columns)
	}
	if m.Empty() {
		return nil
	}
	if m.Data == nil {
		return fail(KindArgument, "%s: data is null but the matrix has elements", name)
	}
	if _, _, err := m.span(); err != nil {
		return fail(KindShape, "%s: %v", name, err)
	}
	if uintptr(m.Data)%uintptr(m.elementSize()) != 0 {
		return fail(KindArgument, "%s: data is not aligned to its %d-byte elements", name, m.elementSize())
	}
	return nil
}

// ownOverlap tells whether two indices of the matrix share an address. It sorts the axes by stride and asks that each
// stride pass over everything the smaller ones reach; that is exact for every layout made of slices, transposes and
// nested blocks, and refuses only layouts whose axes interleave, which no output needs.
func (m *Matrix) ownOverlap() bool {
	if m.Empty() {
		return false
	}
	type axis struct{ size, stride int64 }
	var axes []axis
	for _, a := range []axis{{int64(m.Batch), int64(m.BatchStride)}, {int64(m.Rows), int64(m.RowStride)}, {int64(m.Columns), int64(m.ColumnStride)}} {
		if a.size > 1 {
			axes = append(axes, axis{a.size, abs(a.stride)})
		}
	}
	for i := range axes {
		for j := i + 1; j < len(axes); j++ {
			if axes[j].stride < axes[i].stride {
				axes[i], axes[j] = axes[j], axes[i]
			}
		}
	}
	reach := int64(0)
	for _, a := range axes {
		if a.stride <= reach {
			return true
		}
		reach += (a.size - 1) * a.stride
	}
	return false
}

// overlaps tells whether m may share memory with other. Disjoint extents are disjoint. Where extents cross, the two are
// still known to be apart when both walk one common row pitch and keep to different columns of it (two column blocks of one buffer),
// or step by a common stride from offsets that differ modulo that stride (interleaved elements).
func (m *Matrix) overlaps(other *Matrix) bool {
	if m.Empty() || other.Empty() {
		return false
	}
	start, end := m.bytes()
	otherStart, otherEnd := other.bytes()
	if end <= otherStart || otherEnd <= start {
		return false
	}
	pitch := m.commonPitch()
	pitch = gcd(pitch, other.commonPitch())
	if pitch <= 0 {
		return true
	}
	// Within one pitch every matrix occupies the bytes its non-multiple axes reach from its start.
	a, aLen := m.withinPitch(pitch)
	b, bLen := other.withinPitch(pitch)
	if aLen > pitch || bLen > pitch {
		return true
	}
	d := ((b-a)%pitch + pitch) % pitch // from a's first byte forward to b's
	return d < aLen || pitch-d < bLen
}

func (m *Matrix) bytes() (start, end int64) {
	low, high, err := m.span()
	if err != nil {
		return 0, math.MaxInt64
	}
	base, size := int64(uintptr(m.Data)), int64(m.elementSize())
	return base + low*size, base + (high+1)*size
}

// commonPitch is the largest stride in bytes among the axes longer than one, the natural period of a column block.
func (m *Matrix) commonPitch() int64 {
	var pitch int64
	for _, a := range [][2]int{{m.Batch, m.BatchStride}, {m.Rows, m.RowStride}, {m.Columns, m.ColumnStride}} {
		if a[0] > 1 && a[1] != 0 {
			s := abs(int64(a[1])) * int64(m.elementSize())
			if a[0] > 1 && (pitch == 0 || s > pitch) {
				pitch = s
			}
		}
	}
	// The row pitch is the second largest where the largest is a batch made of whole rows.
	rows := abs(int64(m.RowStride)) * int64(m.elementSize())
	columns := abs(int64(m.ColumnStride)) * int64(m.elementSize())
	inner := max(rows, columns)
	if m.Batch > 1 && inner > 0 && m.Rows > 1 && m.Columns > 1 && pitch%inner == 0 {
		return inner
	}
	return pitch
}

// withinPitch gives the matrix's first byte and how many bytes the axes that are no multiple of pitch reach from it.
func (m *Matrix) withinPitch(pitch int64) (first, length int64) {
	size := int64(m.elementSize())
	first = int64(uintptr(m.Data)) + int64(m.Offset)*size
	length = size
	for _, a := range [][2]int{{m.Batch, m.BatchStride}, {m.Rows, m.RowStride}, {m.Columns, m.ColumnStride}} {
		s := int64(a[1]) * size
		if a[0] <= 1 || s%pitch == 0 {
			continue
		}
		reach := int64(a[0]-1) * s
		if reach < 0 {
			first += reach
			reach = -reach
		}
		length += reach
	}
	return first, length
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
