package simd

import (
	"bytes"
	"math"
	"math/bits"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// FusedPanel is a packed strip of an operand: every element as a scaled f32 with its unnormalised exponent in a byte, and
// what the kernels must know of the whole strip. The zero value is empty; packing again reuses the memory.
//
// A panel of A has a row for each lane: for each k the value and four times the exponent byte. A panel of B has a record
// for each k: a vector of exponent bytes, then four vectors of values; byte 4·l+v is that of lane l of vector v.
type FusedPanel struct {
	memory, scratch []byte
	data            []byte // memory from a cache line's start on

	level   Level
	shape   FusedShape
	columns bool // a panel of B
	lanes   int
	k       int
	padded  int // k in whole groups
	stride  int // bytes from row to row of A

	refused bool // a NaN, an infinity, or a format that is not supported
	// The power of two that scales the panel, and the scaled exponents of its nonzero elements: the least and greatest
	// unnormalised, and the least of a normalised one. A panel of zeros says those of one harmless element.
	shift, least, greatest, leastNormal int
	// At most how much the fractions of a group's elements in a lane of B sum to, over 2^23.
	crowd uint32
}

// fusedFormat is what packing must know of a format.
type fusedFormat struct {
	size     int    // bytes in memory
	width    int    // bits
	mantissa int    // stored bits
	bias     int    // of the exponent
	special  uint32 // magnitudes from here on are no numbers
	fnuz     bool   // the bits of -0 are a NaN
	scan     bool   // the exponents are too many for one scale: it depends on the data
}

// noSpecials is the special of a format that has none by magnitude.
const noSpecials = math.MaxUint32

var fusedFormats = map[format.Format]fusedFormat{
	format.F16:      {size: 2, width: 16, mantissa: 10, bias: 15, special: 0x7C00},
	format.BF16:     {size: 2, width: 16, mantissa: 7, bias: 127, special: 0x7F80, scan: true},
	format.TF32:     {size: 4, width: 32, mantissa: 10, bias: 127, special: 0x7F800000, scan: true},
	format.F32:      {size: 4, width: 32, mantissa: 10, bias: 127, special: 0x7F800000, scan: true}, // rounded to tf32
	format.E4M3:     {size: 1, width: 8, mantissa: 3, bias: 7, special: 0x7F},
	format.E5M2:     {size: 1, width: 8, mantissa: 2, bias: 15, special: 0x7C},
	format.E4M3FNUZ: {size: 1, width: 8, mantissa: 3, bias: 8, special: noSpecials, fnuz: true},
	format.E5M2FNUZ: {size: 1, width: 8, mantissa: 2, bias: 16, special: noSpecials, fnuz: true},
	format.E2M1:     {size: 1, width: 4, mantissa: 1, bias: 1, special: noSpecials},
	format.E3M2:     {size: 1, width: 6, mantissa: 2, bias: 3, special: noSpecials},
	format.E2M3:     {size: 1, width: 6, mantissa: 3, bias: 1, special: noSpecials},
}

// fusedConversion is how a conversion reads an element; the generator knows the layout.
type fusedConversion struct {
	sign   uint32 // left shift that brings the sign to bit 31
	mask   uint32 // the magnitude's bits
	shift  uint32 // left shift that brings the magnitude's exponent to bit 23
	factor uint32 // the power of two that makes it the scaled value, bits of an f32
	least  uint32 // the scaled exponent field of a subnormal, or 0 where that is below f32's
	add    uint32 // for elements of 4 bytes: what rounding to tf32 adds,
	tie    uint32 // 1 where it also adds the last kept bit,
	keep   uint32 // and the bits it keeps
}

// fusedFound is what a conversion finds; the generator knows the layout.
type fusedFound struct {
	largest uint32 // magnitude, rounded but not shifted
	least   uint32 // scaled exponent field, unnormalised, of a nonzero element; all ones where there is none
	crowd   uint32 // see FusedPanel
}

// conversion is how elements of src are read, but for the scale. Their magnitudes are those of an f32 once shifted and
// multiplied by 2^(127-bias), subnormals too.
func (f fusedFormat) conversion(src *Source) (c fusedConversion, ok bool) {
	c.sign = uint32(32 - f.width)
	c.mask = 1<<(f.width-1) - 1
	c.shift = uint32(23 - f.mantissa)
	if f.size != 4 {
		return c, src.As == src.Format
	}
	c.shift = 0
	c.keep = ^uint32(0x1FFF)
	if src.As != format.TF32 {
		return c, false
	}
	if src.Format == format.F32 {
		switch src.InputRounding {
		case format.NearestEven:
			c.add, c.tie = 0xFFF, 1
		case format.NearestAway:
			c.add = 0x1000
		case format.TowardZero:
		default:
			return c, false
		}
	}
	return c, true
}

// rounded is a magnitude after the rounding to tf32.
func (c *fusedConversion) rounded(magnitude uint32) uint32 {
	if c.keep == 0 {
		return magnitude
	}
	return (magnitude + c.add + magnitude>>13&c.tie) & c.keep
}

// exponent is the unnormalised exponent of a nonzero magnitude.
func (f fusedFormat) exponent(magnitude uint32) int {
	stored := f.mantissa
	if f.size == 4 {
		stored = 23
	}
	return max(int(magnitude>>stored), 1) - f.bias
}

// PackA packs at most MR rows of A, of at most FusedMaxK elements. What it cannot pack (an unsupported format, a NaN, an
// infinity) makes a panel that Run declines.
func (f *Fused) PackA(p *FusedPanel, src *Source, s FusedShape) {
	if src.Lanes > f.MR {
		panic("simd: more rows than a tile has")
	}
	f.pack(p, src, s, false)
}

// PackB packs at most NR columns of B, likewise.
func (f *Fused) PackB(p *FusedPanel, src *Source, s FusedShape) {
	if src.Lanes > f.NR {
		panic("simd: more columns than a tile has")
	}
	f.pack(p, src, s, true)
}

func (f *Fused) pack(p *FusedPanel, src *Source, s FusedShape, columns bool) {
	if src.K > FusedMaxK {
		panic("simd: a strip longer than FusedMaxK")
	}
	p.level, p.shape, p.columns, p.lanes, p.k = f.Level, s, columns, src.Lanes, src.K
	p.shift, p.crowd, p.refused = 0, 0, false
	p.least, p.leastNormal, p.greatest = s.top(), s.top(), s.top()
	layout, known := fusedFormats[src.Format]
	conversion, ok := layout.conversion(src)
	if !known || !ok || !s.valid() {
		p.refused = true
		return
	}
	p.padded = (src.K + s.Group - 1) / s.Group * s.Group
	if src.Lanes == 0 || src.K == 0 {
		return
	}
	// The source as rows of what the conversion takes: a row of A a lane, a row of B a k.
	rows, live, n := src.Lanes, src.K, (src.K+31)/32*32
	step, stride := src.KStride, src.LaneStride
	if columns {
		rows, live, n = src.K, src.Lanes, f.NR
		step, stride = src.LaneStride, src.KStride
	}
	from, fromStride := src.Pointer, stride*layout.size
	if step != 1 || live != n {
		from, fromStride = p.stage(src.Pointer, layout.size, rows, live, n, stride, step)
	}
	if layout.fnuz {
		for r := range rows {
			if bytes.IndexByte(unsafe.Slice((*byte)(unsafe.Add(from, r*fromStride)), live), 0x80) >= 0 {
				p.refused = true
				return
			}
		}
	}
	p.shift = s.top() - fusedTop(layout)
	if layout.scan {
		largest := conversion.rounded(fusedLargest(f.Level, layout.size, from, fromStride, rows, n*layout.size, conversion.mask))
		if largest >= layout.special {
			p.refused = true
			return
		}
		if largest == 0 {
			largest = 1
		}
		p.shift = s.top() - layout.exponent(largest)
	}
	factor := 127 - layout.bias + p.shift + 127
	if factor < 1 || factor > 254 {
		p.refused = true
		return
	}
	conversion.factor = uint32(factor) << 23
	subnormal := 1 - layout.bias + p.shift // their exponent
	conversion.least = uint32(max(subnormal+127, 0))

	var found fusedFound
	if columns {
		record := 5 * f.NR
		p.reserve(p.padded * record)
		found = fusedConvertB(f.Level, layout.size, p.start(), from, fromStride, rows, s.Group, &conversion)
		for k := src.K; k < p.padded; k++ {
			r := p.data[k*record : (k+1)*record]
			for i := range f.NR {
				r[i] = fusedZeroByte
			}
			clear(r[f.NR:])
		}
	} else {
		p.stride = 8*n + 64 // the rows' lines must not all fall into one set of the cache
		p.reserve(rows * p.stride)
		found = fusedConvertA(f.Level, layout.size, p.start(), p.stride, from, fromStride, rows, n, &conversion)
	}
	if found.largest >= layout.special {
		p.refused = true
		return
	}
	if found.largest == 0 {
		p.shift = 0
		return
	}
	p.crowd = found.crowd
	p.greatest = layout.exponent(found.largest) + p.shift
	p.least = int(found.least) - 127
	p.leastNormal = p.least
	if found.least == 0 { // below f32's normal numbers: its value may have been rounded
		p.refused = true
	}
	if p.least == subnormal {
		p.leastNormal -= layout.mantissa
	}
}

// fusedZeroByte is a zero's exponent byte, -64.
const fusedZeroByte = 0xC0

// fusedTop is a format's greatest exponent.
func fusedTop(f fusedFormat) int {
	largest := uint32(1)<<(f.width-1) - 1
	if f.special != noSpecials {
		largest = f.special - 1
	}
	return f.exponent(largest)
}

// reserve makes data n bytes long, from a cache line's start on.
func (p *FusedPanel) reserve(n int) {
	if len(p.memory) < n+64 {
		p.memory = make([]byte, n+64)
	}
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(p.memory))) % 64
	p.data = p.memory[skip : int(skip)+n]
}

// stage copies rows of live elements to rows of n, padded with zeros. Strides count elements: step along a row, stride
// from row to row.
func (p *FusedPanel) stage(src unsafe.Pointer, size, rows, live, n, stride, step int) (unsafe.Pointer, int) {
	length := n * size
	if len(p.scratch) < rows*length {
		p.scratch = make([]byte, rows*length)
	}
	to := unsafe.Pointer(unsafe.SliceData(p.scratch))
	if live < n {
		clear(p.scratch[:rows*length])
	}
	switch {
	case step == 1:
		for r := range rows {
			copy(unsafe.Slice((*byte)(unsafe.Add(to, r*length)), live*size), unsafe.Slice((*byte)(unsafe.Add(src, r*stride*size)), live*size))
		}
	case stride == 1 && rows >= 8 && live >= 8:
		// Whole blocks by the level's transpose, the rest one by one.
		r8, l8 := rows&^7, live&^7
		if !fusedTranspose(p.level, size, (*byte)(to), length, src, step*size, l8, r8) {
			r8, l8 = 0, 0
		}
		gather(to, length, src, size, 0, r8, l8, live, stride, step)
		gather(to, length, src, size, r8, rows, 0, live, stride, step)
	default:
		gather(to, length, src, size, 0, rows, 0, live, stride, step)
	}
	return to, length
}

// gather copies rows [r, rEnd) × elements [i, iEnd) one by one.
func gather(to unsafe.Pointer, length int, src unsafe.Pointer, size, r, rEnd, i, iEnd, stride, step int) {
	switch size {
	case 1:
		gatherOf[uint8](to, length, src, r, rEnd, i, iEnd, stride, step)
	case 2:
		gatherOf[uint16](to, length, src, r, rEnd, i, iEnd, stride, step)
	case 4:
		gatherOf[uint32](to, length, src, r, rEnd, i, iEnd, stride, step)
	}
}

func gatherOf[T uint8 | uint16 | uint32](to unsafe.Pointer, length int, src unsafe.Pointer, r, rEnd, i, iEnd, stride, step int) {
	size := int(unsafe.Sizeof(T(0)))
	for ; r < rEnd; r++ {
		row := unsafe.Slice((*T)(unsafe.Add(to, r*length)), iEnd)
		at := r*stride + i*step
		for j := i; j < iEnd; j++ {
			row[j] = *(*T)(unsafe.Add(src, at*size))
			at += step
		}
	}
}

// element reads element i of size bytes.
func element(p unsafe.Pointer, size, i int) uint32 {
	switch size {
	case 1:
		return uint32(*(*uint8)(unsafe.Add(p, i)))
	case 2:
		return uint32(*(*uint16)(unsafe.Add(p, 2*i)))
	}
	return *(*uint32)(unsafe.Add(p, 4*i))
}

// scaled is what the assembly makes of one element, in integers: the bits of its scaled value and its exponent field, 0
// for a zero.
func (c *fusedConversion) scaled(raw uint32, found *fusedFound) (value, field uint32) {
	magnitude := c.rounded(raw & c.mask)
	found.largest = max(found.largest, magnitude)
	sign := raw << c.sign & (1 << 31)
	if magnitude == 0 {
		return sign, 0
	}
	value = magnitude << c.shift
	exponent := int(value >> 23)
	if exponent == 0 { // normalise
		up := bits.LeadingZeros32(value) - 8
		value <<= up
		exponent = 1 - up
	}
	exponent = max(exponent+int(c.factor>>23)-127, 0)
	value = value&0x007FFFFF | uint32(exponent)<<23
	field = max(uint32(exponent), c.least)
	found.least = min(found.least, field)
	return sign | value, field
}

func fusedConvertAPortable(size int, dst *byte, dstStride int, src unsafe.Pointer, srcStride, rows, n int, k *fusedConversion, found *fusedFound) {
	*found = fusedFound{least: math.MaxUint32}
	for r := range rows {
		to := unsafe.Slice((*uint32)(unsafe.Add(unsafe.Pointer(dst), r*dstStride)), 2*n)
		from := unsafe.Add(src, r*srcStride)
		for i := range n {
			value, field := k.scaled(element(from, size, i), found)
			to[2*i], to[2*i+1] = value, uint32(byte(field-64))*0x01010101
		}
	}
}

func fusedConvertBPortable(size int, dst *byte, src unsafe.Pointer, srcStride, rows, group int, k *fusedConversion, found *fusedFound) {
	const lanes, record = 8, 5 * 32
	*found = fusedFound{least: math.MaxUint32}
	var sums [32]uint32
	for r := range rows {
		if r%group == 0 {
			clear(sums[:])
		}
		to := unsafe.Add(unsafe.Pointer(dst), r*record)
		fields, values := (*[32]byte)(to), (*[32]uint32)(unsafe.Add(to, 32))
		from := unsafe.Add(src, r*srcStride)
		for i := range values {
			value, field := k.scaled(element(from, size, i), found)
			values[i] = value
			fields[i%lanes*4+i/lanes] = fusedZeroByte
			if field != 0 {
				fields[i%lanes*4+i/lanes] = byte(field - 63)
			}
			sums[i] += value & 0x007FFFFF
			found.crowd = max(found.crowd, sums[i])
		}
	}
}

func fusedLargestPortable(size int, src unsafe.Pointer, stride, rows, n int, mask uint32) (largest uint32) {
	for r := range rows {
		from := unsafe.Add(src, r*stride)
		for i := range n / size {
			largest = max(largest, element(from, size, i)&mask)
		}
	}
	return largest
}
