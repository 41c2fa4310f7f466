package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is one instruction set's vectors. The methods name what the kernels do and pick the instruction for it.
type isa struct {
	name  string
	bytes int // of a vector
}

var isas = map[string]isa{
	"avx2":   {name: "AVX2", bytes: 32},
	"avx512": {name: "AVX512", bytes: 64},
}

// lanes is how many f32 a vector holds; nr how many columns a tile has: a vector of exponent bytes covers them.
func (s isa) lanes() int { return s.bytes / 4 }
func (s isa) nr() int    { return s.bytes }

// record is the bytes of one k of a B panel: a vector of exponent bytes, then four of f32.
func (s isa) record() int { return 5 * s.bytes }

func (s isa) vector() reg.VecVirtual {
	if s.bytes == 64 {
		return ZMM()
	}
	return YMM()
}

func (s isa) vectors(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = s.vector()
	}
	return v
}

func (s isa) load(m, v Op) {
	if s.bytes == 64 {
		VMOVDQU32(m, v)
	} else {
		VMOVDQU(m, v)
	}
}

func (s isa) store(v, m Op) { s.load(v, m) }

// copy is for either a register or memory as the destination.
func (s isa) copy(v, to Op) { s.load(v, to) }

func (s isa) and(x, y, z Op) {
	if s.bytes == 64 {
		VPANDD(x, y, z)
	} else {
		VPAND(x, y, z)
	}
}

func (s isa) or(x, y, z Op) {
	if s.bytes == 64 {
		VPORD(x, y, z)
	} else {
		VPOR(x, y, z)
	}
}

func (s isa) zero(v Op) {
	if s.bytes == 64 {
		VPXORD(v, v, v)
	} else {
		VPXOR(v, v, v)
	}
}

// enterFloat saves the caller's MXCSR and sets the kernels' own: round toward zero, subnormals kept, every exception
// masked. leaveFloat puts the caller's back.
func enterFloat() (leaveFloat func()) {
	saved := AllocLocal(8)
	STMXCSR(saved)
	MOVL(U32(0x7F80), saved.Offset(4))
	LDMXCSR(saved.Offset(4))
	return func() { LDMXCSR(saved) }
}

// param is an argument where it lies on the stack.
func param(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
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
