// Command merge writes the routine of package simd that adds partial sums to running sums.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// canonicalNaN is the NaN of every f32 result of a GPU.
const canonicalNaN = 0x7FFFFFFF

// unroll is how many vectors a turn of the loop adds.
const unroll = 4

func main() {
	ConstraintExpr("amd64")
	TEXT("addFloat32AVX2", NOSPLIT, "func(sum *float32, partial *float32, n int)")
	Doc("addFloat32AVX2 adds n elements, a multiple of 32, under the thread's own rounding.")
	Pragma("noescape")
	sum, partial, n := Load(Param("sum"), GP64()), Load(Param("partial"), GP64()), Load(Param("n"), GP64())
	bits := GP32()
	MOVL(U32(canonicalNaN), bits)
	seed, nan := XMM(), YMM()
	MOVD(bits, seed)
	VBROADCASTSS(seed, nan)
	Label("loop")
	CMPQ(n, Imm(0))
	JE(LabelRef("done"))
	for i := range unroll {
		v, unordered := YMM(), YMM()
		VMOVUPS(Mem{Base: sum, Disp: 32 * i}, v)
		VADDPS(Mem{Base: partial, Disp: 32 * i}, v, v)
		VCMPPS(Imm(3), v, v, unordered)
		VBLENDVPS(unordered, nan, v, v)
		VMOVUPS(v, Mem{Base: sum, Disp: 32 * i})
	}
	ADDQ(Imm(32*unroll), sum)
	ADDQ(Imm(32*unroll), partial)
	SUBQ(Imm(8*unroll), n)
	JMP(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
	Generate()
}
