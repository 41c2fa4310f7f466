// Command far writes the kernels of package simd that run fused steps on operands whose exponents lie too far apart for
// the fused kernels. Their proof is in far.go.
package main

import (
	"flag"
	"log"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The constants of a call, 32-bit words in this order; farConstants in package simd is the same struct.
const (
	constLowest  = 4 * iota // below every exponent
	constBias               // 127
	constClamp              // F - 126
	constAlign              // F + 127
	constBack               // 127 - F
	constCut                // the bits of a result that are kept
	constMinimum            // half: the least exponent of a nonzero c,
	constOne                // and 1
)

type isa struct {
	name   string
	bytes  int // of a vector
	passes int // over a row: the vectors of a tile, as many at once as the registers hold
	at     int // vectors a pass
}

var isas = map[string]isa{
	"avx2":   {name: "AVX2", bytes: 32, passes: 2, at: 2},
	"avx512": {name: "AVX512", bytes: 64, passes: 1, at: 4},
}

func (s isa) nr() int { return s.bytes / 4 * s.passes * s.at }

func (s isa) vector() reg.VecVirtual {
	if s.bytes == 64 {
		return ZMM()
	}
	return YMM()
}

func (s isa) vectors() []reg.VecVirtual {
	v := make([]reg.VecVirtual, s.at)
	for i := range v {
		v[i] = s.vector()
	}
	return v
}

func main() {
	level := flag.String("level", "avx512", "avx2 or avx512")
	flag.Parse()
	s, known := isas[*level]
	if !known {
		log.Fatalf("no level is called %q", *level)
	}
	ConstraintExpr("amd64")
	s.kernel(false)
	s.kernel(true)
	Generate()
}

// elementBytes is what an element takes in a panel: an f32 and its exponent, an int32.
const elementBytes = 8

func (s isa) kernel(half bool) {
	name := "far" + s.name
	if half {
		name = "farHalf" + s.name
	}
	TEXT(name, NOSPLIT, "func(c *float32, ldc int, rows int, a *byte, lda int, b *byte, groups int, group int, k *uint32)")
	Doc(name+" continues the chains of a tile through groups of group k; ldc and lda count bytes.",
		"A row of a holds an f32 and an exponent a k; b holds for every k a row of f32 and a row of exponents.",
		"The half kernels round every group's result to nearest even in f16.")
	Pragma("noescape")
	saved := AllocLocal(8)
	STMXCSR(saved)
	MOVL(U32(0x7F80), saved.Offset(4)) // round toward zero, subnormals kept, exceptions masked
	LDMXCSR(saved.Offset(4))

	aColumn, b, groups := GP64(), GP64(), GP64()
	Load(Param("a"), aColumn)
	Load(Param("b"), b)
	Load(Param("groups"), groups)
	aGroup, bGroup := GP64(), GP64() // bytes of a group
	Load(Param("group"), aGroup)
	MOVQ(aGroup, bGroup)
	SHLQ(Imm(3), aGroup)
	IMUL3Q(U32(uint32(s.nr()*elementBytes)), bGroup, bGroup)

	Label("group")
	row, a, rows := GP64(), GP64(), GP64()
	Load(Param("c"), row)
	MOVQ(aColumn, a)
	Load(Param("rows"), rows)
	Label("row")
	for pass := range s.passes {
		s.step(half, pass, row, a, b)
	}
	ADDQ(memory("ldc"), row)
	ADDQ(memory("lda"), a)
	DECQ(rows)
	JNZ(LabelRef("row"))
	ADDQ(aGroup, aColumn)
	ADDQ(bGroup, b)
	DECQ(groups)
	JNZ(LabelRef("group"))

	LDMXCSR(saved)
	VZEROUPPER()
	RET()
}

func memory(name string) Mem {
	component, err := Param(name).Resolve()
	if err != nil {
		log.Fatal(err)
	}
	return component.Addr
}

// constant is a constant of the call in every lane.
func (s isa) constant(offset int) reg.VecVirtual {
	k, v := Load(Param("k"), GP64()), s.vector()
	VPBROADCASTD(Mem{Base: k, Disp: offset}, v)
	return v
}

// each runs body for every k of a group, with pointers to its elements in a and in b.
func (s isa) each(label string, a, b reg.GPVirtual, body func(a, b Mem)) {
	x, y, left := GP64(), GP64(), GP64()
	MOVQ(a, x)
	MOVQ(b, y)
	Load(Param("group"), left)
	Label(label)
	body(Mem{Base: x}, Mem{Base: y})
	ADDQ(Imm(elementBytes), x)
	ADDQ(U32(uint32(s.nr()*elementBytes)), y)
	DECQ(left)
	JNZ(LabelRef(label))
}

// step is one group of one row, for the columns of one pass.
func (s isa) step(half bool, pass int, c, a, b reg.GPVirtual) {
	name := string(rune('0' + pass))
	first := pass * s.at * s.bytes
	element := func(base Mem, v int) Mem { return base.Offset(first + v*s.bytes) }
	exponent := func(base Mem, v int) Mem { return base.Offset(s.nr()*4 + first + v*s.bytes) }

	// E: the largest exponent of a product, of c and of the clamp.
	e := s.vectors()
	lowest := s.constant(constLowest)
	for _, v := range e {
		s.move(lowest, v)
	}
	s.each("exponents"+name, a, b, func(a, b Mem) {
		x := s.vector()
		VPBROADCASTD(a.Offset(4), x)
		for v := range e {
			sum := s.vector()
			VPADDD(exponent(b, v), x, sum)
			VPMAXSD(sum, e[v], e[v])
		}
	})
	sums, scale := s.vectors(), s.vectors()
	bias, clamp, align := s.constant(constBias), s.constant(constClamp), s.constant(constAlign)
	for v := range e {
		x, field := s.vector(), s.vector()
		s.load(element(Mem{Base: c}, v), x)
		VPSLLD(Imm(1), x, field)
		VPSRLD(Imm(24), field, field)
		VPSUBD(bias, field, field) // of a zero: below the clamp
		if half {
			s.raise(x, s.constant(constMinimum), field)
		}
		VPMAXSD(field, e[v], e[v])
		VPMAXSD(clamp, e[v], e[v])
		VPSUBD(e[v], align, scale[v])
		VPSLLD(Imm(23), scale[v], scale[v]) // 2^(F-E)
		VMULPS(scale[v], x, x)
		VCVTTPS2DQ(x, sums[v])
	}
	s.each("products"+name, a, b, func(a, b Mem) {
		x := s.vector()
		VBROADCASTSS(a, x)
		for v := range e {
			p := s.vector()
			VMULPS(element(b, v), x, p)
			VMULPS(scale[v], p, p)
			VCVTTPS2DQ(p, p)
			VPADDD(p, sums[v], sums[v])
		}
	})
	back, cut := s.constant(constBack), s.constant(constCut)
	for v := range e {
		x := s.vector()
		VCVTDQ2PS(sums[v], x)
		if half {
			s.odd(sums[v], x)
		} else {
			s.and(cut, x, x)
		}
		VPADDD(back, e[v], e[v])
		VPSLLD(Imm(23), e[v], e[v]) // 2^(E-F)
		VMULPS(e[v], x, x)
		if half {
			s.roundHalf(x)
		}
		s.load(x, element(Mem{Base: c}, v))
	}
}

// raise gives field at least the minimum where x is not zero.
func (s isa) raise(x, minimum, field reg.VecVirtual) {
	at, zero := s.vector(), s.vector()
	VPMAXSD(minimum, field, at)
	if s.bytes == 64 {
		nonzero := K()
		VPXORD(zero, zero, zero)
		VCMPPS(Imm(4), zero, x, nonzero)
		VMOVDQA32(at, nonzero, field)
		return
	}
	VPXOR(zero, zero, zero)
	VCMPPS(Imm(4), zero, x, zero) // not equal
	VPBLENDVB(zero, at, field, field)
}

// odd makes x, an integer converted toward zero, odd where it lost bits: what is rounded from it later is rounded right.
func (s isa) odd(integer, x reg.VecVirtual) {
	back := s.vector()
	VCVTTPS2DQ(x, back)
	one := s.constant(constOne)
	if s.bytes == 64 {
		lost, odd := K(), s.vector()
		VPCMPD(Imm(4), integer, back, lost) // not equal
		VPORD(one, x, odd)
		VMOVDQA32(odd, lost, x)
		return
	}
	VPCMPEQD(integer, back, back)
	VPANDN(one, back, back)
	VPOR(back, x, x)
}

// roundHalf rounds x to nearest even in f16 and makes a zero positive.
func (s isa) roundHalf(x reg.VecVirtual) {
	zero := s.vector()
	if s.bytes == 64 {
		narrow := YMM()
		VCVTPS2PH(Imm(0), x, narrow)
		VCVTPH2PS(narrow, x)
		VPXORD(zero, zero, zero)
	} else {
		narrow := XMM()
		VCVTPS2PH(Imm(0), x, narrow)
		VCVTPH2PS(narrow, x)
		VPXOR(zero, zero, zero)
	}
	VADDPS(zero, x, x) // -0 + 0 is +0, toward zero too
}

func (s isa) load(from, to Op) {
	if s.bytes == 64 {
		VMOVDQU32(from, to)
	} else {
		VMOVDQU(from, to)
	}
}

func (s isa) move(from, to Op) { s.load(from, to) }

func (s isa) and(x, y, z Op) {
	if s.bytes == 64 {
		VPANDD(x, y, z)
	} else {
		VPAND(x, y, z)
	}
}
