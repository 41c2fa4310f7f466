package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// source is how elements lie in memory. A slot is what one lane holds at one step of k in a panel: an f32, an f64, or
// two consecutive k of an s8 or u8 operand, widened to 16 bits.
type source struct {
	name  string
	bytes int // of an element in memory
	slot  int // bytes of a slot
	pair  bool
}

var (
	sourceF32  = source{"F32", 4, 4, false}
	sourceF16  = source{"F16", 2, 4, false}
	sourceBF16 = source{"BF16", 2, 4, false}
	sourceF64  = source{"F64", 8, 8, false}
	sourceS8   = source{"S8", 1, 4, true}
	sourceU8   = source{"U8", 1, 4, true}
)

// perSlot is how many elements make a slot.
func (f source) perSlot() int {
	if f.pair {
		return 2
	}
	return 1
}

// loadAlongK loads one vector of slots of one lane. With AVX-512 only the elements that mask K2 holds are touched, the
// rest are zero.
func (f source) loadAlongK(s isa, m Mem, i int) {
	v, half := s.vector(i), ymm[i]
	if !s.wide() {
		half = xmm[i]
	}
	if s.wide() {
		switch f.name {
		case "F32":
			VMOVUPS_Z(m, reg.K2, v)
		case "F64":
			VMOVUPD_Z(m, reg.K2, v)
		case "F16", "BF16":
			VMOVDQU16_Z(m, reg.K2, half)
		case "S8", "U8":
			VMOVDQU8_Z(m, reg.K2, half)
		}
		f.widen(half, v)
		return
	}
	switch f.name {
	case "F32":
		VMOVUPS(m, v)
	case "F64":
		VMOVUPD(m, v)
	default:
		f.widen(m, v)
	}
}

// widen turns half a vector of stored elements into slots, exactly.
func (f source) widen(from Op, to reg.VecPhysical) {
	switch f.name {
	case "F16":
		VCVTPH2PS(from, to)
	case "BF16":
		VPMOVZXWD(from, to)
		VPSLLD(U8(16), to, to)
	case "S8":
		VPMOVSXBW(from, to)
	case "U8":
		VPMOVZXBW(from, to)
	}
}

var (
	steps      = reg.RCX // slots of k still to do
	src        = reg.RSI
	dst        = reg.RDI
	srcStride  = reg.R8
	dstStride  = reg.R9
	lanes      = reg.RAX
	ones       = reg.RBX
	offset     = reg.RDX
	laneSource = reg.R10
	second     = reg.R11
)

// setMask sets k to the lowest n bits.
func setMask(n reg.GPPhysical, k reg.OpmaskPhysical) {
	MOVQ(I32(-1), ones)
	BZHIQ(n, ones, ones)
	KMOVQ(ones, k)
}

// packAlongLanes emits the packing of a vector of lanes that are contiguous in memory.
func packAlongLanes(s isa, f source) {
	name := fmt.Sprintf("packLanes%s%s", f.name, s.name)
	signature := "func(k int, src *byte, srcStride int, dst *byte, dstStride int"
	doc := fmt.Sprintf("%s packs k slots of %d contiguous lanes; strides count bytes, srcStride from one element of k to the next.",
		name, s.bytes/f.slot)
	if s.wide() {
		signature += ", lanes int"
		doc += " Lanes from lanes on become zeros and are not read."
	}
	TEXT(name, NOSPLIT, signature+")")
	Doc(doc)
	Pragma("noescape")
	leave := func() {}
	if f.name == "F16" { // the one conversion that can raise an exception, on a signalling NaN
		leave = enterFloat()
	}
	Load(Param("k"), steps)
	Load(Param("src"), src)
	Load(Param("srcStride"), srcStride)
	Load(Param("dst"), dst)
	Load(Param("dstStride"), dstStride)
	if s.wide() {
		Load(Param("lanes"), lanes)
		setMask(lanes, reg.K2)
	}
	TESTQ(steps, steps)
	JEQ(LabelRef("done"))
	Label("loop")
	v := s.vector(0)
	if f.pair {
		if s.wide() {
			VMOVDQU8_Z(Mem{Base: src}, reg.K2, xmm[1])
			VMOVDQU8_Z(Mem{Base: src, Index: srcStride, Scale: 1}, reg.K2, xmm[2])
			VPUNPCKLBW(xmm[2], xmm[1], xmm[0])
			VPUNPCKHBW(xmm[2], xmm[1], xmm[1])
			VINSERTI128(U8(1), xmm[1], ymm[0], ymm[0])
			f.widen(ymm[0], v)
		} else {
			VMOVQ(Mem{Base: src}, xmm[1])
			VMOVQ(Mem{Base: src, Index: srcStride, Scale: 1}, xmm[2])
			VPUNPCKLBW(xmm[2], xmm[1], xmm[0])
			f.widen(xmm[0], v)
		}
		LEAQ(Mem{Base: src, Index: srcStride, Scale: 2}, src)
	} else {
		f.loadAlongK(s, Mem{Base: src}, 0)
		ADDQ(srcStride, src)
	}
	if f.slot == 8 {
		VMOVUPD(v, Mem{Base: dst})
	} else {
		VMOVUPS(v, Mem{Base: dst})
	}
	ADDQ(dstStride, dst)
	DECQ(steps)
	JNE(LabelRef("loop"))
	Label("done")
	leave()
	VZEROUPPER()
	RET()
}

// packAlongK emits the packing of a vector of lanes whose elements are contiguous along k, by transposing square blocks.
func packAlongK(s isa, f source) {
	n := s.bytes / f.slot
	name := fmt.Sprintf("packK%s%s", f.name, s.name)
	signature := fmt.Sprintf("func(k int, lane *[%d]*byte, dst *byte, dstStride, lanes int)", n)
	doc := fmt.Sprintf("%s packs k contiguous elements of each of %d lanes; dstStride counts bytes. ", name, n)
	if s.wide() {
		doc += "Lanes from lanes on become zeros; k is rounded up to a multiple of the block with zeros."
	} else {
		doc += "Lanes from lanes on become zeros; k is a multiple of the block."
	}
	block := n * f.perSlot() // elements of k a turn
	TEXT(name, NOSPLIT, signature)
	Doc(doc + fmt.Sprintf(" A block is %d elements; every lane pointer must be readable.", block))
	Pragma("noescape")
	leave := func() {}
	if f.name == "F16" { // the one conversion that can raise an exception, on a signalling NaN
		leave = enterFloat()
	}
	Load(Param("k"), steps)
	Load(Param("lane"), src)
	Load(Param("dst"), dst)
	Load(Param("dstStride"), dstStride)
	Load(Param("lanes"), lanes)
	zero := reg.K1
	var table Mem
	if s.wide() {
		setMask(lanes, zero)
	} else {
		// The mask of a partial vector: ones where the table, read lanes before its middle, says so.
		table = GLOBL(name+"Mask", RODATA|NOPTR)
		for i := 0; i < 2*n; i++ {
			switch {
			case f.slot == 8 && i < n:
				DATA(i*8, U64(1<<64-1))
			case f.slot == 8:
				DATA(i*8, U64(0))
			case i < n:
				DATA(i*4, U32(1<<32-1))
			default:
				DATA(i*4, U32(0))
			}
		}
		LEAQ(table.Offset(n*f.slot), second)
		SHLQ(U8(map[int]int{4: 2, 8: 3}[f.slot]), lanes)
		SUBQ(lanes, second)
	}
	XORL(offset.As32(), offset.As32())
	TESTQ(steps, steps)
	JLE(LabelRef("done"))
	Label("loop")
	if s.wide() {
		MOVQ(U32(block), laneSource)
		CMPQ(steps, laneSource)
		CMOVQLT(steps, laneSource)
		setMask(laneSource, reg.K2)
	}
	for i := 0; i < n; i++ {
		MOVQ(Mem{Base: src, Disp: 8 * i}, laneSource)
		f.loadAlongK(s, Mem{Base: laneSource, Index: offset, Scale: 1}, i)
	}
	out := transpose(s, f.slot, n)
	for i := 0; i < n; i++ {
		if !s.wide() {
			VANDPS(Mem{Base: second}, s.vector(out[i]), s.vector(out[i]))
		}
		VMOVUPS(s.vector(out[i]), Mem{Base: dst})
		ADDQ(dstStride, dst)
	}
	ADDQ(I32(block*f.bytes), offset)
	SUBQ(I32(block), steps)
	JGT(LabelRef("loop"))
	Label("done")
	leave()
	VZEROUPPER()
	RET()
}

// transpose turns registers 0..n-1, one lane each, into n registers of one slot of k each, whose numbers it returns.
// With AVX-512 the last shuffle zeroes what mask K1 leaves out.
func transpose(s isa, slot, n int) []int {
	now, then := 0, n // the register banks that hold the data and receive the next stage
	pairs := func(lo, hi func(x, y, z reg.VecPhysical), first, second func(i int) int) {
		for i := 0; i < n/2; i++ {
			x, y := s.vector(now+first(i)), s.vector(now+second(i))
			lo(y, x, s.vector(then+first(i)))
			hi(y, x, s.vector(then+second(i)))
		}
		now, then = then, now
	}
	ps := func(ins func(...Op)) func(x, y, z reg.VecPhysical) {
		return func(x, y, z reg.VecPhysical) { ins(x, y, z) }
	}
	inLane := 16 / slot // slots of a 128-bit lane
	// Within 128-bit lanes: afterwards register inLane·q+j holds slot inLane·L+j of rows inLane·q… in its lane L.
	if slot == 4 {
		pairs(ps(VUNPCKLPS), ps(VUNPCKHPS), func(i int) int { return 2 * i }, func(i int) int { return 2*i + 1 })
		// Rows 4q and 4q+2 of the result of the first stage hold slots 0 and 1 of each lane, 4q+1 and 4q+3 slots 2 and 3.
		for q := 0; q < n; q += 4 {
			for h := 0; h < 2; h++ {
				x, y := s.vector(now+q+h), s.vector(now+q+h+2)
				VUNPCKLPD(y, x, s.vector(then+q+2*h))
				VUNPCKHPD(y, x, s.vector(then+q+2*h+1))
			}
		}
		now, then = then, now
	} else {
		pairs(ps(VUNPCKLPD), ps(VUNPCKHPD), func(i int) int { return 2 * i }, func(i int) int { return 2*i + 1 })
	}
	// Across lanes: a transpose of whole 128-bit lanes for every j.
	out := make([]int, n)
	if !s.wide() {
		for j := 0; j < inLane; j++ {
			x, y := s.vector(now+j), s.vector(now+inLane+j)
			VPERM2F128(U8(0x20), y, x, s.vector(then+j))
			VPERM2F128(U8(0x31), y, x, s.vector(then+inLane+j))
			out[j], out[inLane+j] = then+j, then+inLane+j
		}
		return out
	}
	const even, odd = 0x88, 0xDD
	for j := 0; j < inLane; j++ {
		for h := 0; h < 2; h++ {
			x, y := s.vector(now+2*h*inLane+j), s.vector(now+(2*h+1)*inLane+j)
			VSHUFF32X4(U8(even), y, x, s.vector(then+2*h*inLane+j))
			VSHUFF32X4(U8(odd), y, x, s.vector(then+(2*h+1)*inLane+j))
		}
	}
	now, then = then, now
	shuffle := VSHUFF32X4_Z
	if slot == 8 {
		shuffle = VSHUFF64X2_Z
	}
	for j := 0; j < inLane; j++ {
		for h := 0; h < 2; h++ { // even lanes, then odd ones
			x, y := s.vector(now+h*inLane+j), s.vector(now+(2+h)*inLane+j)
			for lane, imm := range []U8{even, odd} {
				i := (h+2*lane)*inLane + j
				shuffle(imm, y, x, reg.K1, s.vector(then+i))
				out[i] = then + i
			}
		}
	}
	return out
}
