package gemm

import (
	"math"
	"math/bits"
)

// layout is where the elements of a batch of matrices lie: element (x, y, z) begins `strides·(x, y, z)` elements of
// `width` bytes after address start. Dimensions of one element and, in operands, those with stride 0 say nothing about
// addresses and are left out, and negative strides are turned round, so all strides are positive and start is the
// lowest address.
type layout struct {
	start   uint64 // address
	width   int64  // bytes
	axes    []axis // at most 3
	extent  int64  // bytes from start past the last element, 0 for no element
	repeats bool   // an axis of more than one element has stride 0
}

type axis struct {
	count  int64 // elements, at least 2
	stride int64 // bytes, at least 1
}

// largestExtent bounds an operand in bytes. No machine addresses as much, and below it the sums of two extents that
// overlap tests form stay inside 64 bits.
const largestExtent = 1 << 61

// newLayout checks that all of a batch lies inside the address space; every product and sum is checked, since sizes
// and strides come from outside. shape and strides are (batch, rows, columns), strides and offset in elements, width in
// bytes; data is the address of element 0 of the offset.
func newLayout(name string, data uint64, width, offset int64, shape, strides [3]int64) (layout, error) {
	l := layout{width: width}
	outside := func() error { // a function, since writing the sentence takes longer than the rest
		return fail(KindShape, "%s: its sizes, strides and offset reach outside of the address space", name)
	}
	empty := false
	for i, n := range shape {
		if n < 0 {
			return l, fail(KindShape, "%s: it has %d %s", name, n, [3]string{"matrices", "rows", "columns"}[i])
		}
		empty = empty || n == 0
	}
	if empty {
		return l, nil // nothing is read or written: data, offset and strides do not matter
	}
	if data == 0 {
		return l, fail(KindArgument, "%s: data is null but the matrix has elements", name)
	}
	if offset > largestExtent || offset < -largestExtent {
		return l, outside()
	}
	low, high := offset, offset // in elements, of the first byte's and the last byte's element
	for i, n := range shape {
		stride := strides[i]
		if n == 1 {
			continue
		}
		if stride == math.MinInt64 {
			return l, outside()
		}
		magnitude := max(stride, -stride)
		over, reach := bits.Mul64(uint64(n-1), uint64(magnitude))
		if over != 0 || reach > largestExtent {
			return l, outside()
		}
		bound, sum := &high, high+int64(reach)
		if stride < 0 {
			bound, sum = &low, low-int64(reach)
		}
		if sum > largestExtent || sum < -largestExtent {
			return l, outside()
		}
		*bound = sum
		if stride == 0 {
			l.repeats = true
		} else {
			if l.axes == nil {
				l.axes = make([]axis, 0, len(shape))
			}
			l.axes = append(l.axes, axis{n, magnitude})
		}
	}
	if max(high, -low) > largestExtent/width {
		return l, outside()
	}
	for i := range l.axes {
		l.axes[i].stride *= width
	}
	l.extent = (high - low + 1) * width
	l.start = data + uint64(low*width) // modulo 2^64; wrapping is found next
	if low < 0 && l.start > data || low > 0 && l.start < data || l.start+uint64(l.extent) < l.start {
		return l, outside()
	}
	return l, nil
}
