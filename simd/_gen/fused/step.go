package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The constants of a call, 32-bit words in this order; fusedConstants in package simd is the same struct.
const (
	constScale   = 4 * iota // multiplies c on the way in
	constUnscale            // and on the way out
	constLow                // the least magnitude, as bits, that a nonzero c may have
	constRange              // and how many magnitudes from there on it may have
	constAlign              // (F + 127) << 23: minus the bits of 2^E it is F - E in an exponent's place
	constClamp              // the least exponent byte, four times
	constCut                // the bits of a result that are kept
)

// unroll is how many k the inner loops do at a time: the least group.
const unroll = 4

// mode is a variant of the step.
type mode struct {
	name string
	cut  bool // results keep fewer bits than f32
	wide bool // sums may pass 31 bits
}

var modes = []mode{{name: "plain"}, {name: "cut", cut: true}, {name: "wide", wide: true, cut: true}}

// step writes the kernel. Its proof is in fused.go.
func (s isa) step() {
	TEXT("fused"+s.name, NOSPLIT, "func(mode int, vectors int, c *float32, ldc int, rows int, a *byte, lda int, b *byte, groups int, group int, k *uint32) bool")
	Doc(fmt.Sprintf("fused%s continues the chains of a tile through groups of group k: rows rows of vectors (1, 2 or 4) vectors.", s.name),
		"ldc and lda count bytes. It returns false, and leaves c alone, where an element of c is outside the range that k tells.",
		"mode: 0 plain, 1 results cut to fewer bits, 2 sums of more than 31 bits (and cut).")
	Pragma("noescape")
	leave := enterFloat()
	s.check("refuse")
	s.scale("in", constScale)
	group := Load(Param("group"), GP64())
	SHRQ(Imm(2), group)
	for _, m := range modes[1:] {
		CMPQ(param("mode"), Imm(uint64(index(m))))
		JE(LabelRef(m.name))
	}
	for i, m := range modes {
		if i > 0 {
			Label(m.name)
		}
		for _, n := range []int{2, 4} {
			CMPQ(param("vectors"), Imm(uint64(n)))
			JE(LabelRef(fmt.Sprintf("%s%d", m.name, n)))
		}
		for _, n := range []int{1, 2, 4} {
			Label(fmt.Sprintf("%s%d", m.name, n))
			s.body(m, n, group.(reg.GPVirtual))
			JMP(LabelRef("done"))
		}
	}
	Label("done")
	s.scale("out", constUnscale)
	leave()
	VZEROUPPER()
	ok := GP8()
	MOVB(Imm(1), ok)
	Store(ok, ReturnIndex(0))
	RET()
	Label("refuse")
	leave()
	VZEROUPPER()
	no := GP8()
	MOVB(Imm(0), no)
	Store(no, ReturnIndex(0))
	RET()
}

func index(m mode) int {
	for i := range modes {
		if modes[i].name == m.name {
			return i
		}
	}
	panic(m.name)
}

// eachVector loops over the live vectors of c.
func (s isa) eachVector(name string, f func(c Mem)) {
	row := Load(Param("c"), GP64())
	rows := Load(Param("rows"), GP64())
	Label(name + "Row")
	at, left := GP64(), GP64()
	MOVQ(row, at)
	Load(Param("vectors"), left)
	Label(name + "Vector")
	f(Mem{Base: at})
	ADDQ(Imm(uint64(s.bytes)), at)
	DECQ(left)
	JNZ(LabelRef(name + "Vector"))
	ADDQ(param("ldc"), row)
	DECQ(rows)
	JNZ(LabelRef(name + "Row"))
}

// check refuses c where an element is neither zero nor of a magnitude in the range.
func (s isa) check(refuse string) {
	k := Load(Param("k"), GP64())
	low, span, magnitude := s.vector(), s.vector(), s.vector()
	VPBROADCASTD(Mem{Base: k, Disp: constLow}, low)
	VPBROADCASTD(Mem{Base: k, Disp: constRange}, span)
	t := GP32()
	MOVL(U32(0x7FFFFFFF), t)
	if s.bytes == 64 {
		VPBROADCASTD(t, magnitude)
		s.eachVector("check", func(c Mem) {
			x, nonzero, bad := s.vector(), K(), K()
			VPANDD(c, magnitude, x)
			VPTESTMD(x, x, nonzero)
			VPSUBD(low, x, x)
			VPCMPUD(Imm(5), span, x, nonzero, bad) // not below
			KORTESTW(bad, bad)
			JNZ(LabelRef(refuse))
		})
		return
	}
	x, zero := s.vector(), s.vector()
	VMOVD(t, magnitude.AsX())
	VPBROADCASTD(magnitude.AsX(), magnitude)
	VPXOR(zero, zero, zero)
	s.eachVector("check", func(c Mem) {
		isZero, least := s.vector(), s.vector()
		VPAND(c, magnitude, x)
		VPCMPEQD(zero, x, isZero)
		VPSUBD(low, x, x)
		VPMAXUD(span, x, least) // equal to x where x is not below span
		VPCMPEQD(least, x, x)
		VPANDN(x, isZero, x)
		VPTEST(x, x)
		JNZ(LabelRef(refuse))
	})
}

// scale multiplies c by a power of two.
func (s isa) scale(name string, factor int) {
	k := Load(Param("k"), GP64())
	f := s.vector()
	VBROADCASTSS(Mem{Base: k, Disp: factor}, f)
	s.eachVector(name, func(c Mem) {
		x := s.vector()
		VMULPS(c, f, x)
		VMOVUPS(x, c)
	})
}

// body runs every group over every row, n vectors wide. Rows are the inner loop, with c in memory between them: one row's
// chain from group to group is a long latency that the other rows hide, and a group of B stays in the first cache.
func (s isa) body(m mode, n int, group reg.GPVirtual) {
	label := func(l string) string { return fmt.Sprintf("%s%d%s", m.name, n, l) }
	step := s.constants(m)
	a, b := Load(Param("a"), GP64()), Load(Param("b"), GP64())
	groups := Load(Param("groups"), GP64())
	Label(label("Group"))
	c, row := Load(Param("c"), GP64()), GP64()
	rows := Load(Param("rows"), GP64())
	at, from, left := GP64(), GP64(), GP64()
	MOVQ(a, row)
	Label(label("Row"))

	// The largest exponent of each lane's products, never below the clamp.
	largest := s.vector()
	s.loadConstant(largest, constClamp, step.clamp)
	MOVQ(row, from)
	MOVQ(b, at)
	MOVQ(group, left)
	Label(label("Exponents"))
	for k := range unroll {
		e := s.vector()
		VPBROADCASTD(Mem{Base: from, Disp: 8*k + 4}, e)
		VPADDB(Mem{Base: at, Disp: k * s.record()}, e, e)
		VPMAXSB(e, largest, largest)
	}
	ADDQ(Imm(8*unroll), from)
	ADDQ(U32(uint32(unroll*s.record())), at)
	DECQ(left)
	JNZ(LabelRef(label("Exponents")))

	half := n
	if s.bytes == 32 && m.wide && n == 4 {
		half = 2 // what the registers hold
	}
	for first := 0; first < n; first += half {
		s.half(m, first, half, step, largest, row, b, c, group, label(fmt.Sprint("At", first)))
	}
	ADDQ(param("ldc"), c)
	ADDQ(param("lda"), row)
	DECQ(rows)
	JNZ(LabelRef(label("Row")))
	// Past the group: 8 bytes a k of A, a record a k of B.
	MOVQ(group, left)
	SHLQ(Imm(5), left)
	ADDQ(left, a)
	IMUL3Q(U32(uint32(unroll*s.record())), group, left)
	ADDQ(left, b)
	DECQ(groups)
	JNZ(LabelRef(label("Group")))
}

// constants are those that stay in registers where there are enough.
type constants struct {
	align, exponent, cut, clamp, low, split reg.VecVirtual
}

func (s isa) constants(m mode) (c constants) {
	k := Load(Param("k"), GP64())
	c.align, c.exponent = s.vector(), s.vector()
	VPBROADCASTD(Mem{Base: k, Disp: constAlign}, c.align)
	s.broadcast(0x7F800000, c.exponent)
	if s.bytes == 64 {
		c.clamp = s.vector()
		VPBROADCASTD(Mem{Base: k, Disp: constClamp}, c.clamp)
		c.cut = s.vector()
		VPBROADCASTD(Mem{Base: k, Disp: constCut}, c.cut)
		if m.wide {
			c.low, c.split = s.vector(), s.vector()
			s.broadcast(0xFFFF, c.low)
			s.broadcast(0x47800000, c.split) // 2^16
		}
	}
	return c
}

// broadcast fills a vector with a word.
func (s isa) broadcast(word uint32, v reg.VecVirtual) {
	t := GP32()
	MOVL(U32(word), t)
	if s.bytes == 64 {
		VPBROADCASTD(t, v)
		return
	}
	VMOVD(t, v.AsX())
	VPBROADCASTD(v.AsX(), v)
}

// loadConstant makes v a copy of a constant: of the register, or of memory where there was none for it.
func (s isa) loadConstant(v reg.VecVirtual, offset int, held reg.VecVirtual) {
	if s.bytes == 64 {
		VMOVDQA32(held, v)
		return
	}
	k := Load(Param("k"), GP64())
	VPBROADCASTD(Mem{Base: k, Disp: offset}, v)
}

// half sums one group for count vectors from the first on, and rounds.
func (s isa) half(m mode, first, count int, step constants, largest reg.VecVirtual, row, b, c reg.Register, group reg.GPVirtual, label string) {
	scale, sum := s.vectors(count), s.vectors(count)
	low, high := s.vectors(count), s.vectors(count)
	at := func(i int) Mem { return Mem{Base: c, Disp: (first + i) * s.bytes} }
	for i := range count {
		// The byte of this vector in the exponent's place, and the larger of it and c's exponent. What lies below and
		// above the byte does no harm: the range instruction takes magnitudes, and the mask comes after.
		e := s.vector()
		if v := first + i; v == 3 {
			VPSRLD(Imm(1), largest, e)
		} else {
			VPSLLD(Imm(uint64(23-8*v)), largest, e)
		}
		if s.bytes == 64 {
			VRANGEPS(Imm(0b1011), at(i), e, e)
			VPANDD(step.exponent, e, e)
		} else {
			VPAND(step.exponent, e, e)
			VPAND(at(i), step.exponent, scale[i])
			VPMAXSD(scale[i], e, e)
		}
		VPSUBD(e, step.align, scale[i])
		VPADDD(at(i), scale[i], sum[i])
		VCVTTPS2DQ(sum[i], sum[i])
		if m.wide {
			s.split(step, sum[i], low[i], high[i], true)
		}
	}
	from, bAt, left := GP64(), GP64(), GP64()
	MOVQ(row, from)
	MOVQ(b, bAt)
	MOVQ(group, left)
	span := unroll
	if m.wide {
		span = 2 * unroll
		SHRQ(Imm(1), left)
	}
	Label(label + "Products")
	for k := range span {
		a := s.vector()
		VBROADCASTSS(Mem{Base: from, Disp: 8 * k}, a)
		for i := range count {
			p := s.vector()
			VMULPS(Mem{Base: bAt, Disp: k*s.record() + (1+first+i)*s.bytes}, a, p)
			VPADDD(scale[i], p, p)
			if m.wide && k == 0 {
				VCVTTPS2DQ(p, sum[i])
				continue
			}
			VCVTTPS2DQ(p, p)
			VPADDD(p, sum[i], sum[i])
		}
	}
	if m.wide {
		for i := range count {
			s.split(step, sum[i], low[i], high[i], false)
		}
	}
	ADDQ(Imm(uint64(8*span)), from)
	ADDQ(U32(uint32(span*s.record())), bAt)
	DECQ(left)
	JNZ(LabelRef(label + "Products"))
	for i := range count {
		if m.wide {
			s.join(step, sum[i], low[i], high[i])
		} else {
			VCVTDQ2PS(sum[i], sum[i])
		}
		if m.cut {
			if s.bytes == 64 {
				VPANDD(step.cut, sum[i], sum[i])
			} else {
				cut := s.vector()
				s.loadConstant(cut, constCut, nil)
				VPAND(cut, sum[i], sum[i])
			}
		}
		// Divide by 2^(F-E). Only the upper halves of the words differ from zero in scale, so that words of 16 bits do; a
		// zero stays one by saturation.
		VPSUBUSW(scale[i], sum[i], sum[i])
		s.store(sum[i], at(i))
	}
}

// split adds a sum to its two halves, or begins them.
func (s isa) split(step constants, sum, low, high reg.VecVirtual, begin bool) {
	mask := step.low
	if s.bytes == 32 {
		mask = s.vector()
		s.broadcast(0xFFFF, mask)
	}
	if begin {
		s.and(mask, sum, low)
		VPSRAD(Imm(16), sum, high)
		return
	}
	l := s.vector()
	s.and(mask, sum, l)
	VPADDD(l, low, low)
	VPSRAD(Imm(16), sum, sum)
	VPADDD(sum, high, high)
}

// join rounds high*2^16 + low to f32, toward zero: both convert exactly, and the multiply-add rounds once.
func (s isa) join(step constants, sum, low, high reg.VecVirtual) {
	factor := step.split
	if s.bytes == 32 {
		factor = s.vector()
		s.broadcast(0x47800000, factor)
	}
	VCVTDQ2PS(low, low)
	VCVTDQ2PS(high, sum)
	VFMADD213PS(low, factor, sum)
}
