package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The constants of a conversion, 32-bit words in this order; fusedConversion in package simd is the same struct.
const (
	convSign   = 4 * iota // left shift that brings the sign to bit 31
	convMask              // the magnitude's bits
	convShift             // left shift that brings the magnitude's exponent to bit 23
	convFactor            // the power of two that makes it the scaled value
	convLeast             // the scaled exponent field of a subnormal, or 0
	convAdd               // 32-bit words: what rounding to tf32 adds,
	convTie               // 1 where it also adds the last kept bit,
	convKeep              // and the bits it keeps
)

// What a conversion finds, 32-bit words in this order.
const (
	foundLargest = 4 * iota // magnitude, rounded but not shifted
	foundLeast              // exponent field of a nonzero element, all ones where there is none
	foundCrowd              // sum of a group's fractions
)

// pack writes the conversions into panels, and for AVX2 the transposes, which serve both levels.
func (s isa) pack() {
	s.declareTables()
	for _, size := range []int{1, 2, 4} {
		s.convertA(size)
		s.convertB(size)
	}
	s.largest(2)
	s.largest(4)
	if s.bytes == 32 {
		transpose(1)
		transpose(2)
		transpose(4)
	}
}

// conversion is what the conversion of a vector keeps in registers.
type conversion struct {
	s                                         isa
	size                                      int
	mask, factor, least, add, tie, keep, sign reg.VecVirtual
	signShift, shift                          reg.VecVirtual
	foundLargest, foundLeast                  reg.VecVirtual
}

func (s isa) conversion(size int, k reg.Register) *conversion {
	c := &conversion{s: s, size: size}
	word := func(offset int) reg.VecVirtual {
		v := s.vector()
		VPBROADCASTD(Mem{Base: k, Disp: offset}, v)
		return v
	}
	c.mask, c.factor, c.least = word(convMask), word(convFactor), word(convLeast)
	c.sign = s.vector()
	s.broadcast(0x80000000, c.sign)
	if size == 4 {
		c.add, c.tie, c.keep = word(convAdd), word(convTie), word(convKeep)
	} else {
		c.signShift, c.shift = XMM(), XMM()
		VMOVD(Mem{Base: k, Disp: convSign}, c.signShift)
		VMOVD(Mem{Base: k, Disp: convShift}, c.shift)
	}
	c.foundLargest, c.foundLeast = s.vector(), s.vector()
	s.zero(c.foundLargest)
	s.broadcast(0xFFFFFFFF, c.foundLeast)
	return c
}

// load makes a vector of elements the scaled f32 values and their exponent fields, unnormalised, plus bias; the field of a
// zero is 0. magnitude is the value without its sign.
func (c *conversion) load(m Mem, bias, fraction, crowd Op) (value, field reg.VecVirtual) {
	s := c.s
	raw, magnitude := s.vector(), s.vector()
	value, field = s.vector(), s.vector()
	switch c.size {
	case 1:
		VPMOVZXBD(m, raw)
	case 2:
		VPMOVZXWD(m, raw)
	case 4:
		s.load(m, raw)
	}
	s.and(c.mask, raw, magnitude)
	if c.size == 4 {
		tie := s.vector()
		VPSRLD(Imm(13), magnitude, tie)
		s.and(c.tie, tie, tie)
		VPADDD(c.add, magnitude, magnitude)
		VPADDD(tie, magnitude, magnitude)
		s.and(c.keep, magnitude, magnitude)
	}
	VPMAXUD(magnitude, c.foundLargest, c.foundLargest)
	nonzero, isZero := reg.Register(nil), reg.VecVirtual(nil)
	if s.bytes == 64 {
		nonzero = K()
		VPTESTMD(magnitude, magnitude, nonzero)
	} else {
		isZero = s.vector()
		VPXOR(isZero, isZero, isZero)
		VPCMPEQD(magnitude, isZero, isZero)
	}
	if c.size != 4 {
		VPSLLD(c.shift, magnitude, magnitude)
	}
	VMULPS(c.factor, magnitude, value)
	VPSRLD(Imm(23), value, field)
	VPMAXUD(c.least, field, field)
	if crowd != nil {
		f := s.vector()
		s.and(fraction, value, f)
		if _, memory := crowd.(Mem); memory {
			VPADDD(crowd, f, f)
			s.store(f, crowd)
		} else {
			VPADDD(f, crowd, crowd)
		}
	}
	if c.size != 4 {
		VPSLLD(c.signShift, raw, raw)
	}
	if s.bytes == 64 {
		VPTERNLOGD(Imm(0xF8), c.sign, raw, value) // value | raw & sign
		VPMINUD(field, c.foundLeast, nonzero, c.foundLeast)
		if bias != nil {
			VPADDD_Z(bias, field, nonzero, field)
		} else {
			VMOVDQA32_Z(field, nonzero, field)
		}
		return value, field
	}
	VPAND(c.sign, raw, raw)
	VPOR(raw, value, value)
	t := s.vector()
	VPOR(isZero, field, t)
	VPMINUD(t, c.foundLeast, c.foundLeast)
	if bias != nil {
		VPADDD(bias, field, field)
	}
	VPANDN(field, isZero, field)
	return value, field
}

// reduce leaves in lane 0 of an XMM the largest or least word of v.
func (s isa) reduce(v reg.VecVirtual, op func(...Op)) reg.Register {
	t := s.vector()
	if s.bytes == 64 {
		VEXTRACTI64X4(Imm(1), v, t.AsY())
		op(t.AsY(), v.AsY(), v.AsY())
	}
	VEXTRACTI128(Imm(1), v.AsY(), t.AsX())
	op(t.AsX(), v.AsX(), v.AsX())
	VPSHUFD(Imm(0x4E), v.AsX(), t.AsX())
	op(t.AsX(), v.AsX(), v.AsX())
	VPSHUFD(Imm(0xB1), v.AsX(), t.AsX())
	op(t.AsX(), v.AsX(), v.AsX())
	return v.AsX()
}

func (c *conversion) report(crowd reg.VecVirtual) {
	found := Load(Param("found"), GP64())
	VMOVD(c.s.reduce(c.foundLargest, VPMAXUD), Mem{Base: found, Disp: foundLargest})
	VMOVD(c.s.reduce(c.foundLeast, VPMINUD), Mem{Base: found, Disp: foundLeast})
	if crowd != nil {
		VMOVD(c.s.reduce(crowd, VPMAXUD), Mem{Base: found, Disp: foundCrowd})
	}
}

// convertA writes rows of a panel of A: for each k the value and its exponent byte four times.
func (s isa) convertA(size int) {
	TEXT(fmt.Sprintf("fusedConvertA%d%s", size, s.name), NOSPLIT,
		"func(dst *byte, dstStride int, src *byte, srcStride int, rows int, n int, k *uint32, found *uint32)")
	Doc(fmt.Sprintf("fusedConvertA%d%s converts rows of n elements of %d bytes, n a multiple of 16, into a panel of A.", size, s.name, size),
		"Strides count bytes.")
	Pragma("noescape")
	leave := enterFloat()
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	rows := Load(Param("rows"), GP64())
	c := s.conversion(size, Load(Param("k"), GP64()))
	replicate, zeroByte := s.vector(), s.vector()
	loadTable(s, replicateTable, replicate)
	s.broadcast(0x40404040, zeroByte)
	var low, high reg.VecVirtual
	if s.bytes == 64 {
		low, high = s.vector(), s.vector()
		loadTable(s, interleaveLowTable, low)
		loadTable(s, interleaveHighTable, high)
	}
	to, from, left := GP64(), GP64(), GP64()
	Label("row")
	MOVQ(dst, to)
	MOVQ(src, from)
	Load(Param("n"), left)
	Label("vector")
	value, field := c.load(Mem{Base: from}, nil, nil, nil)
	VPSHUFB(replicate, field, field)
	VPSUBB(zeroByte, field, field)
	if s.bytes == 64 {
		VPERMI2D(field, value, low)
		s.store(low, Mem{Base: to})
		VPERMI2D(field, value, high)
		s.store(high, Mem{Base: to, Disp: 64})
		loadTable(s, interleaveLowTable, low) // the permutation overwrote its indices
		loadTable(s, interleaveHighTable, high)
	} else {
		l, h, t := s.vector(), s.vector(), s.vector()
		VPUNPCKLDQ(field, value, l)
		VPUNPCKHDQ(field, value, h)
		VPERM2I128(Imm(0x20), h, l, t)
		s.store(t, Mem{Base: to})
		VPERM2I128(Imm(0x31), h, l, t)
		s.store(t, Mem{Base: to, Disp: 32})
	}
	ADDQ(U32(uint32(8*s.lanes())), to)
	ADDQ(Imm(uint64(size*s.lanes())), from)
	SUBQ(Imm(uint64(s.lanes())), left)
	JNZ(LabelRef("vector"))
	ADDQ(param("dstStride"), dst)
	ADDQ(param("srcStride"), src)
	DECQ(rows)
	JNZ(LabelRef("row"))
	c.report(nil)
	leave()
	VZEROUPPER()
	RET()
}

// convertB writes records of a panel of B.
func (s isa) convertB(size int) {
	TEXT(fmt.Sprintf("fusedConvertB%d%s", size, s.name), NOSPLIT,
		"func(dst *byte, src *byte, srcStride int, rows int, group int, k *uint32, found *uint32)")
	Doc(fmt.Sprintf("fusedConvertB%d%s converts rows of %d elements of %d bytes, a row a k, into a panel of B.", size, s.name, s.nr(), size),
		"srcStride counts bytes.")
	Pragma("noescape")
	leave := enterFloat()
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	rows := Load(Param("rows"), GP64())
	c := s.conversion(size, Load(Param("k"), GP64()))
	// Constants, and the sums of each vector's fractions in the present group. Where there are only sixteen registers these
	// lie in memory.
	var one, zeroByte, fraction Op
	var sums [4]Op
	crowd := s.vector()
	s.zero(crowd)
	if s.bytes == 64 {
		vector := func(word uint32) reg.VecVirtual {
			v := s.vector()
			s.broadcast(word, v)
			return v
		}
		one, zeroByte, fraction = vector(1), vector(0x40404040), vector(0x007FFFFF)
		for i := range sums {
			v := s.vector()
			s.zero(v)
			sums[i] = v
		}
	} else {
		locals := AllocLocal(7 * s.bytes)
		slot := func(i int, word uint32) Op {
			v := s.vector()
			s.broadcast(word, v)
			s.store(v, locals.Offset(i*s.bytes))
			return locals.Offset(i * s.bytes)
		}
		one, zeroByte, fraction = slot(0, 1), slot(1, 0x40404040), slot(2, 0x007FFFFF)
		for i := range sums {
			sums[i] = slot(3+i, 0)
		}
	}
	left := GP64()
	Load(Param("group"), left)
	Label("row")
	bytes := s.vector()
	for v := range 4 {
		value, field := c.load(Mem{Base: src, Disp: v * size * s.lanes()}, one, fraction, sums[v])
		s.store(value, Mem{Base: dst, Disp: (1 + v) * s.bytes})
		if v == 0 {
			s.copy(field, bytes)
			continue
		}
		VPSLLD(Imm(uint64(8*v)), field, field)
		s.or(field, bytes, bytes)
	}
	VPSUBB(zeroByte, bytes, bytes)
	s.store(bytes, Mem{Base: dst})
	ADDQ(U32(uint32(s.record())), dst)
	ADDQ(param("srcStride"), src)
	DECQ(left)
	JNZ(LabelRef("same"))
	Load(Param("group"), left)
	zero := s.vector()
	s.zero(zero)
	for _, v := range sums {
		VPMAXUD(v, crowd, crowd)
		s.copy(zero, v)
	}
	Label("same")
	DECQ(rows)
	JNZ(LabelRef("row"))
	for _, v := range sums {
		VPMAXUD(v, crowd, crowd)
	}
	c.report(crowd)
	leave()
	VZEROUPPER()
	RET()
}

// largest finds the largest masked word.
func (s isa) largest(size int) {
	TEXT(fmt.Sprintf("fusedLargest%d%s", size, s.name), NOSPLIT, "func(src *byte, stride int, rows int, n int, mask uint32) uint32")
	Doc(fmt.Sprintf("fusedLargest%d%s is the largest magnitude in rows of n bytes, a multiple of 64, of elements of %d bytes.", size, s.name, size),
		"mask is the magnitude's, as often as a word holds it.")
	Pragma("noescape")
	src, rows := Load(Param("src"), GP64()), Load(Param("rows"), GP64())
	mask, found := s.vector(), s.vectors(2)
	VMOVD(Load(Param("mask"), GP32()), mask.AsX())
	VPBROADCASTD(mask.AsX(), mask)
	s.zero(found[0])
	s.zero(found[1])
	from, left := GP64(), GP64()
	maximum := VPMAXUD
	if size == 2 {
		maximum = VPMAXUW
	}
	Label("row")
	MOVQ(src, from)
	Load(Param("n"), left)
	Label("vector")
	for i := range 64 / s.bytes {
		x := s.vector()
		s.and(Mem{Base: from, Disp: i * s.bytes}, mask, x)
		maximum(x, found[i], found[i])
	}
	ADDQ(Imm(64), from)
	SUBQ(Imm(64), left)
	JNZ(LabelRef("vector"))
	ADDQ(param("stride"), src)
	DECQ(rows)
	JNZ(LabelRef("row"))
	maximum(found[1], found[0], found[0])
	x := s.reduce(found[0], maximum)
	r := GP32()
	VMOVD(x, r)
	if size == 2 { // two words are left
		t := GP32()
		MOVL(r, t)
		SHRL(Imm(16), t)
		ANDL(U32(0xFFFF), r)
		CMPL(t, r)
		CMOVLHI(t, r)
	}
	Store(r, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// transpose writes the transpose of blocks of 8×8 elements.
func transpose(size int) {
	TEXT(fmt.Sprintf("fusedTranspose%d", size), NOSPLIT, "func(dst *byte, dstStride int, src *byte, srcStride int, rows int, columns int)")
	Doc(fmt.Sprintf("fusedTranspose%d transposes rows × columns elements of %d bytes, both multiples of 8. Strides count bytes.", size, size))
	Pragma("noescape")
	dstStride, srcStride := Load(Param("dstStride"), GP64()), Load(Param("srcStride"), GP64())
	src, dst := Load(Param("src"), GP64()), Load(Param("dst"), GP64())
	src3, dst3 := GP64(), GP64() // three strides
	LEAQ(Mem{Base: srcStride, Index: srcStride, Scale: 2}, src3)
	LEAQ(Mem{Base: dstStride, Index: dstStride, Scale: 2}, dst3)
	Label("rows")
	from, to, left := GP64(), GP64(), GP64()
	MOVQ(src, from)
	MOVQ(dst, to)
	Load(Param("columns"), left)
	Label("columns")
	fourth := GP64()
	at := func(base, stride, three reg.Register, i int) Mem {
		switch i % 4 {
		case 1:
			return Mem{Base: base, Index: stride, Scale: 1}
		case 2:
			return Mem{Base: base, Index: stride, Scale: 2}
		case 3:
			return Mem{Base: base, Index: three, Scale: 1}
		}
		return Mem{Base: base}
	}
	in := func(i int) Mem {
		if i == 4 {
			LEAQ(Mem{Base: from, Index: srcStride, Scale: 4}, fourth)
		}
		if i >= 4 {
			return at(fourth, srcStride, src3, i)
		}
		return at(from, srcStride, src3, i)
	}
	out := func(i int) Mem {
		if i == 4 {
			LEAQ(Mem{Base: to, Index: dstStride, Scale: 4}, fourth)
		}
		if i >= 4 {
			return at(fourth, dstStride, dst3, i)
		}
		return at(to, dstStride, dst3, i)
	}
	switch size {
	case 1:
		transpose1(in, out)
	case 2:
		transpose2(in, out)
	case 4:
		transpose4(in, out)
	}
	ADDQ(Imm(uint64(8*size)), from)
	LEAQ(Mem{Base: to, Index: dstStride, Scale: 8}, to)
	SUBQ(Imm(8), left)
	JNZ(LabelRef("columns"))
	LEAQ(Mem{Base: src, Index: srcStride, Scale: 8}, src)
	ADDQ(Imm(uint64(8*size)), dst)
	SUBQ(Imm(8), param("rows"))
	JNZ(LabelRef("rows"))
	VZEROUPPER()
	RET()
}

func xmms(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = XMM()
	}
	return v
}

func transpose1(in, out func(int) Mem) {
	r := xmms(8)
	for i := range 8 {
		VMOVQ(in(i), r[i])
	}
	p := xmms(4) // pairs of rows, bytes interleaved
	for i := range 4 {
		VPUNPCKLBW(r[2*i+1], r[2*i], p[i])
	}
	q := xmms(4) // columns 0-3 and 4-7 of rows 0-3, then of rows 4-7
	VPUNPCKLWD(p[1], p[0], q[0])
	VPUNPCKHWD(p[1], p[0], q[1])
	VPUNPCKLWD(p[3], p[2], q[2])
	VPUNPCKHWD(p[3], p[2], q[3])
	o := xmms(4) // two columns each
	VPUNPCKLDQ(q[2], q[0], o[0])
	VPUNPCKHDQ(q[2], q[0], o[1])
	VPUNPCKLDQ(q[3], q[1], o[2])
	VPUNPCKHDQ(q[3], q[1], o[3])
	for i := range 8 {
		if i%2 == 0 {
			VMOVQ(o[i/2], out(i))
		} else {
			VMOVHPS(o[i/2], out(i))
		}
	}
}

func transpose2(in, out func(int) Mem) {
	r := xmms(8)
	for i := range 8 {
		VMOVDQU(in(i), r[i])
	}
	p := xmms(8)
	for i := range 4 {
		VPUNPCKLWD(r[2*i+1], r[2*i], p[2*i])   // columns 0-3 of two rows
		VPUNPCKHWD(r[2*i+1], r[2*i], p[2*i+1]) // columns 4-7
	}
	q := xmms(8)
	for h := range 2 { // rows 0-3, 4-7
		for c := range 2 { // columns 0-3, 4-7
			VPUNPCKLDQ(p[4*h+2+c], p[4*h+c], q[4*h+2*c])
			VPUNPCKHDQ(p[4*h+2+c], p[4*h+c], q[4*h+2*c+1])
		}
	}
	for i := range 8 {
		t := XMM()
		if i%2 == 0 {
			VPUNPCKLQDQ(q[4+i/2], q[i/2], t)
		} else {
			VPUNPCKHQDQ(q[4+i/2], q[i/2], t)
		}
		VMOVDQU(t, out(i))
	}
}

func transpose4(in, out func(int) Mem) {
	ys := func(n int) []reg.VecVirtual {
		v := make([]reg.VecVirtual, n)
		for i := range v {
			v[i] = YMM()
		}
		return v
	}
	r := ys(8)
	for i := range 8 {
		VMOVDQU(in(i), r[i])
	}
	p := ys(8)
	for i := range 4 {
		VPUNPCKLDQ(r[2*i+1], r[2*i], p[2*i])
		VPUNPCKHDQ(r[2*i+1], r[2*i], p[2*i+1])
	}
	q := ys(8) // q[4h+c]: column c, and in the upper lane 4+c, of rows 4h to 4h+3
	for h := range 2 {
		for c := range 2 {
			VPUNPCKLQDQ(p[4*h+2+c], p[4*h+c], q[4*h+2*c])
			VPUNPCKHQDQ(p[4*h+2+c], p[4*h+c], q[4*h+2*c+1])
		}
	}
	for i := range 8 {
		t := YMM()
		if i < 4 {
			VPERM2I128(Imm(0x20), q[4+i], q[i], t)
		} else {
			VPERM2I128(Imm(0x31), q[i], q[i-4], t)
		}
		VMOVDQU(t, out(i))
	}
}
