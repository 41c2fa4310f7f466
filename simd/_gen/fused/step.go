package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// The constants of a call, 32-bit words in this order; fusedConstants in package simd is the same struct.
const (
	constScale    = 4 * iota // multiplies c on the way in
	constUnscale             // and on the way out
	constLeast               // the least magnitude, as bits, that a nonzero c may have
	constRange               // and how many magnitudes from there on it may have
	constAlign               // (F + 127) << 23: minus the bits of 2^E it is F - E in an exponent's place
	constClamp               // the least exponent byte, four times
	constCut                 // the bits of a result that are kept
	constExponent            // the bits of an f32's exponent
	constLow                 // 2^16 - 1
	constSplit               // 2^16, bits of an f32
)

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
	w := newWalk()
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
			JE(LabelRef(fmt.Sprint(m.name, n)))
		}
		for _, n := range []int{1, 2, 4} {
			Label(fmt.Sprint(m.name, n))
			s.tile(m, n, w, "done")
		}
	}
	Label("done")
	s.scale("out", constUnscale)
	finish := func(answer uint64) {
		leave()
		VZEROUPPER()
		ok := GP8()
		MOVB(Imm(answer), ok)
		Store(ok, ReturnIndex(0))
		RET()
	}
	finish(1)
	Label("refuse")
	finish(0)
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
	VPBROADCASTD(Mem{Base: k, Disp: constLeast}, low)
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
