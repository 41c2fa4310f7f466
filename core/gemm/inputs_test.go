package gemm_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// Input kinds beside those of package cases, each made to reach something the ordinary ones do not.
var handMade = []string{
	"mixed",   // ordinary numbers with a NaN, an Inf, a subnormal, a zero or a huge number here and there
	"finite",  // as mixed, without NaN and Inf
	"window",  // exponents in one narrow window anywhere in the format's range: kernels must find the window's edges
	"extreme", // exponents at both ends of the range
	"ones",    // every significand the largest: sums past 31 bits
	"powers",  // powers of two, so that sums end in ties
	"zeros",   // zeros of both signs, and little else
	"small",   // small integers: exact cancellation, sums of zero
}

// recipeFormats are the formats package cases makes inputs in.
var recipeFormats = []format.Format{format.F16, format.BF16, format.F32, format.F64, format.E4M3, format.E5M2, format.S8}

// inputKinds are all kinds that can be made for a pair of formats.
func inputKinds(a, b format.Format) []string {
	if a.Info().Integer {
		return []string{"bits"}
	}
	if slices.Contains(recipeFormats, a) && slices.Contains(recipeFormats, b) {
		return slices.Concat(cases.Kinds, handMade)
	}
	return append([]string{"bits"}, handMade...)
}

// makeInputs gives bit patterns of A (batch × m × k) and B (batch × k × n), row-major.
func makeInputs(r *rand.Rand, a, b format.Format, kind string, batch, m, n, k int) (x, y []uint64) {
	if slices.Contains(cases.Kinds, kind) && slices.Contains(recipeFormats, a) && slices.Contains(recipeFormats, b) {
		dataA, dataB, err := cases.Operands(a, b, kind, r.Uint64N(1<<20), batch, m, n, k)
		if err != nil {
			panic(err)
		}
		return patterns(dataA, a), patterns(dataB, b)
	}
	return handMadeElements(r, a, kind, batch*m*k), handMadeElements(r, b, kind, batch*k*n)
}

// patterns splits little-endian memory into bit patterns.
func patterns(data []byte, f format.Format) []uint64 {
	size := f.Bytes()
	list := make([]uint64, len(data)/size)
	for i := range list {
		var word [8]byte
		copy(word[:], data[i*size:(i+1)*size])
		list[i] = binary.LittleEndian.Uint64(word[:])
	}
	return list
}

func handMadeElements(r *rand.Rand, f format.Format, kind string, count int) []uint64 {
	info := f.Info()
	list := make([]uint64, count)
	if info.Integer || kind == "bits" {
		for i := range list {
			list[i] = r.Uint64() & (1<<info.Bits - 1)
		}
		return list
	}
	lowest, highest := info.MinExponent-1, info.MaxExponent // lowest: subnormals
	width := 1 + r.IntN(10)
	base := lowest + r.IntN(highest-lowest+1)
	for i := range list {
		mantissa := r.Uint64() & (1<<info.MantissaBits - 1)
		negative := r.IntN(2) == 1
		ordinary := func() uint64 {
			return compose(f, negative, max(lowest, min(highest, 1-min(r.IntN(6), r.IntN(12)))), mantissa)
		}
		switch kind {
		case "mixed", "finite":
			choice := r.IntN(60)
			switch {
			case kind == "mixed" && choice == 0 && info.HasNaN:
				list[i] = info.NaN ^ uint64(r.IntN(2))<<info.Padding&lowMantissa(info)
			case kind == "mixed" && choice == 1 && info.HasInf:
				list[i] = f.Inf(negative)
			case choice == 2:
				list[i] = compose(f, negative, lowest, mantissa)
			case choice == 3:
				list[i] = f.Zero(negative)
			case choice == 4:
				list[i] = f.MaxFinite(negative)
			case choice == 5:
				list[i] = compose(f, negative, lowest+r.IntN(highest-lowest+1), mantissa)
			default:
				list[i] = ordinary()
			}
		case "window":
			if r.IntN(12) == 0 {
				list[i] = f.Zero(negative)
				break
			}
			list[i] = compose(f, negative, min(highest, base+r.IntN(width)), mantissa)
		case "extreme":
			e := lowest + r.IntN(3)
			if r.IntN(2) == 0 {
				e = highest - r.IntN(3)
			}
			list[i] = compose(f, negative, max(lowest, min(e, highest)), mantissa)
		case "ones":
			list[i] = compose(f, negative && width > 5, min(highest, max(lowest, 1-base%2)), 1<<info.MantissaBits-1)
		case "powers":
			list[i] = compose(f, negative, max(lowest+1, min(highest, base+r.IntN(width))), 0)
		case "zeros":
			list[i] = f.Zero(negative)
			if r.IntN(9) == 0 {
				list[i] = ordinary()
			}
		case "small":
			list[i] = f.Zero(negative)
			if e := r.IntN(3); r.IntN(4) > 0 {
				list[i] = compose(f, negative, min(highest, e), mantissa&(3<<max(0, info.MantissaBits-2)))
			}
		default:
			panic("no kind of input is called " + kind)
		}
		if info.Padding > 0 && r.IntN(2) == 0 { // bits that mean nothing must change nothing
			if n := f.Decode(list[i]); n.Class == format.Finite {
				list[i] |= r.Uint64() & (1<<info.Padding - 1)
			}
		}
	}
	return list
}

// lowMantissa is the lowest mantissa bit where changing it in a NaN leaves a NaN.
func lowMantissa(i format.Info) uint64 {
	if i.MantissaBits > 3 {
		return 1 << i.Padding
	}
	return 0
}

// compose is the number of an exponent (MinExponent - 1: a subnormal) and mantissa, or the largest finite one where that
// is a NaN or an Inf.
func compose(f format.Format, negative bool, exponent int, mantissa uint64) uint64 {
	i := f.Info()
	v := (uint64(exponent+i.Bias)<<i.MantissaBits | mantissa) << i.Padding
	if v > i.MaxFinite {
		v = i.MaxFinite
	}
	if negative && i.Signed {
		v |= 1 << (i.Bits - 1)
	}
	if f.Decode(v).Class >= format.Inf { // fnuz has its NaN where -0 would be
		v = i.MaxFinite
	}
	return v
}

// layout describes how a matrix lies in memory.
type layout struct {
	guard   int    // elements before the first and after the last
	strides [3]int // of batch, rows, columns
	offset  int    // of element (0, 0, 0) in the memory, which begins at its lowest address
	length  int    // elements of memory
	sizes   [3]int // batch, rows, columns
	memory  []byte // of the elements
}

// randomLayout places a matrix in memory: axes in any order, gaps between them, either direction. Where repeat is set an
// axis may have a stride of 0.
func randomLayout(r *rand.Rand, f format.Format, batch, rows, columns int, repeat bool) *layout {
	l := &layout{guard: r.IntN(5), sizes: [3]int{batch, rows, columns}}
	order := []int{2, 1, 0} // innermost first
	switch r.IntN(4) {
	case 0: // dense, row-major
	case 1:
		order = []int{1, 2, 0} // transposed
	default:
		r.Shuffle(3, func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	gaps := r.IntN(3) == 0
	reach := 0
	for _, axis := range order {
		stride := reach + 1
		if gaps && r.IntN(2) == 0 {
			stride += r.IntN(4)
		}
		l.strides[axis] = stride
		reach += max(l.sizes[axis]-1, 0) * stride
	}
	if repeat {
		for axis := range 3 {
			if odds := []int{4, 24, 24}[axis]; r.IntN(odds) == 0 {
				l.strides[axis] = 0
			}
		}
	}
	low := 0
	for axis := range 3 {
		if r.IntN(5) == 0 {
			l.strides[axis] = -l.strides[axis]
			low += max(l.sizes[axis]-1, 0) * l.strides[axis]
		}
	}
	l.offset = l.guard - low
	l.length = reach + 1 + 2*l.guard
	l.memory = alignedBytes(l.length * f.Bytes())
	return l
}

// alignedBytes is memory aligned to 8 bytes.
func alignedBytes(n int) []byte {
	words := make([]uint64, n/8+1)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

func (l *layout) matrix(f format.Format) *gemm.Matrix {
	return &gemm.Matrix{
		Data: unsafe.Pointer(unsafe.SliceData(l.memory)), Offset: l.offset, Format: f,
		Batch: l.sizes[0], Rows: l.sizes[1], Columns: l.sizes[2],
		BatchStride: l.strides[0], RowStride: l.strides[1], ColumnStride: l.strides[2],
	}
}

// index is where in memory an element lies, in elements.
func (l *layout) index(batch, row, column int) int {
	return l.offset + batch*l.strides[0] + row*l.strides[1] + column*l.strides[2]
}

// put writes row-major bit patterns.
func (l *layout) put(f format.Format, values []uint64) {
	i := 0
	for b := range l.sizes[0] {
		for r := range l.sizes[1] {
			for c := range l.sizes[2] {
				putBits(l.memory, f.Bytes(), l.index(b, r, c), values[i])
				i++
			}
		}
	}
}

func putBits(memory []byte, size, index int, v uint64) {
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], v)
	copy(memory[index*size:(index+1)*size], word[:size])
}

// placed lays out a matrix at random and fills it.
func placed(r *rand.Rand, f format.Format, batch, rows, columns int, repeat bool, values []uint64) *gemm.Matrix {
	l := randomLayout(r, f, batch, rows, columns, repeat)
	for i := range l.memory { // what lies between the elements must not matter
		l.memory[i] = byte(r.Uint32())
	}
	l.put(f, values)
	return l.matrix(f)
}
