package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Registers of a tile routine.
var (
	left   = reg.RCX // k still to do
	a      = reg.RSI
	b      = reg.RDX
	c      = reg.RDI
	stride = reg.R8 // of c, in bytes
	row    = reg.R9
	shape  = reg.RAX
	found  = reg.R10
	part   = reg.R11
)

// tile is a register tile: rows × vectors accumulators from register 0 on, then the vectors of B, then what is left.
type tile struct {
	isa
	rows, vectors int
	aBytes        int // of one lane's element in the panel of A
	aStride       int // bytes from one k of the panel of A to the next
}

func (t tile) acc(i, v int) reg.VecPhysical { return t.vector(i*t.vectors + v) }
func (t tile) free(i int) reg.VecPhysical   { return t.vector(t.rows*t.vectors + i) }
func (t tile) operand(v int) reg.VecPhysical {
	return t.free(v)
}

// dispatch emits a section for every number of live rows and vectors, the full tile first.
func dispatch(s isa, aBytes int, section func(t tile)) {
	// Panels of A have as many lanes as whole vectors of B's element hold at least mr rows.
	lanes := (s.mr*aBytes + s.bytes - 1) / s.bytes * s.bytes
	type variant struct {
		tile
		label string
	}
	var all []variant
	for v := 2; v >= 1; v-- {
		for r := s.mr; r >= 1; r-- {
			all = append(all, variant{tile{s, r, v, aBytes, lanes}, fmt.Sprintf("tile_%dx%d", r, v)})
		}
	}
	for _, x := range all {
		CMPQ(shape, U32(x.vectors<<8|x.rows))
		JEQ(LabelRef(x.label))
	}
	JMP(LabelRef("done"))
	for _, x := range all {
		Label(x.label)
		section(x.tile)
		JMP(LabelRef("done"))
	}
	Label("done")
}

// loadShape packs the two counts into one number to compare with.
func loadShape() {
	Load(Param("vectors"), shape)
	SHLQ(U8(8), shape)
	Load(Param("rows"), part)
	ORQ(part, shape)
}

// eachC visits the tile's rows of c.
func (t tile) eachC(visit func(m Mem, i, v int)) {
	MOVQ(c, row)
	for i := 0; i < t.rows; i++ {
		for v := 0; v < t.vectors; v++ {
			visit(Mem{Base: row, Disp: v * t.bytes}, i, v)
		}
		if i+1 < t.rows {
			ADDQ(stride, row)
		}
	}
}

// loop emits the loop over k. It is not unrolled: its own four instructions hide behind the arithmetic even of a
// single row, which waits for the sums of the step before.
func (t tile) loop(step func()) {
	name := func(s string) string { return fmt.Sprintf("%s_%dx%d", s, t.rows, t.vectors) }
	TESTQ(left, left)
	JEQ(LabelRef(name("end")))
	Label(name("loop"))
	step()
	ADDQ(I32(t.aStride), a)
	ADDQ(I32(2*t.bytes), b)
	DECQ(left)
	JNE(LabelRef(name("loop")))
	Label(name("end"))
}

// floatTile emits c = fma(a_k, b_k, c), k ascending.
func floatTile(s isa, size int) {
	float, load, store, broadcast, fma := "float32", VMOVUPS, VMOVUPS, VBROADCASTSS, VFMADD231PS
	if size == 8 {
		float, load, store, broadcast, fma = "float64", VMOVUPD, VMOVUPD, VBROADCASTSD, VFMADD231PD
	}
	name := fmt.Sprintf("chain%d%s", size*8, s.name)
	if size == 4 {
		TEXT(name, NOSPLIT, fmt.Sprintf("func(k int, a, b, c *%s, ldc, rows, vectors int)", float))
		Doc(name + " continues the f32 chains of a tile's live rows and vectors; ldc counts bytes.")
	} else {
		TEXT(name, NOSPLIT, fmt.Sprintf("func(k int, a, b, c *%s, ldc, rows, vectors int, live uint64) bool", float))
		Doc(name + " continues the f64 chains of a tile's live rows and vectors; ldc counts bytes. Where a live column " +
			"(a bit of live) ends in a NaN it leaves c alone and returns false.")
	}
	Pragma("noescape")
	leave := enterFloat()
	Load(Param("k"), left)
	Load(Param("a"), a)
	Load(Param("b"), b)
	Load(Param("c"), c)
	Load(Param("ldc"), stride)
	loadShape()
	if size == 8 {
		XORL(found.As32(), found.As32())
	}
	var nan Mem
	if size == 4 {
		nan = GLOBL(name+"NaN", RODATA|NOPTR)
		DATA(0, U32(0x7FFFFFFF))
	}
	dispatch(s, size, func(t tile) {
		t.eachC(func(m Mem, i, v int) { load(m, t.acc(i, v)) })
		t.loop(func() {
			for v := 0; v < t.vectors; v++ {
				load(Mem{Base: b, Disp: v * t.bytes}, t.operand(v))
			}
			for i := 0; i < t.rows; i++ {
				x := t.free(t.vectors + i%2)
				broadcast(Mem{Base: a, Disp: i * size}, x)
				for v := 0; v < t.vectors; v++ {
					fma(x, t.operand(v), t.acc(i, v))
				}
			}
		})
		if size == 4 {
			t.canonical(nan)
		} else {
			t.unordered()
		}
		t.eachC(func(m Mem, i, v int) { store(t.acc(i, v), m) })
	})
	leave()
	VZEROUPPER()
	if size == 8 {
		TESTQ(found, found)
		SETEQ(shape.As8L())
		Store(shape.As8L(), ReturnIndex(0))
	}
	RET()
}

// canonical replaces every NaN among the accumulators.
func (t tile) canonical(nan Mem) {
	x, mask := t.free(0), t.free(1)
	VBROADCASTSS(nan, x)
	for i := 0; i < t.rows; i++ {
		for v := 0; v < t.vectors; v++ {
			acc := t.acc(i, v)
			if t.wide() {
				VCMPPS(U8(3), acc, acc, reg.K1)
				VMOVAPS(x, reg.K1, acc)
			} else {
				VCMPPS(U8(3), acc, acc, mask)
				VBLENDVPS(mask, x, acc, acc)
			}
		}
	}
}

// unordered leaves for the exit, with a bit in found, where a live accumulator is a NaN.
func (t tile) unordered() {
	lanes := t.bytes / 8
	for v := 0; v < t.vectors; v++ {
		// Two rows a comparison: it is unordered where either is a NaN.
		for i := 0; i < t.rows; i += 2 {
			x, y := t.acc(i, v), t.acc(min(i+1, t.rows-1), v)
			if t.wide() {
				k := reg.K1
				if i > 0 {
					k = reg.K2
				}
				VCMPPD(U8(3), x, y, k)
				if i > 0 {
					KORW(reg.K2, reg.K1, reg.K1)
				}
			} else {
				m := t.free(min(i, 1))
				VCMPPD(U8(3), x, y, m)
				if i > 0 {
					VORPD(m, t.free(0), t.free(0))
				}
			}
		}
		if t.wide() {
			KMOVW(reg.K1, part.As32())
		} else {
			VMOVMSKPD(t.free(0), part.As32())
		}
		if v > 0 {
			SHLQ(U8(v*lanes), part)
		}
		ORQ(part, found)
	}
	Load(Param("live"), part)
	ANDQ(part, found)
	JNE(LabelRef("done"))
}

// integerTile emits c += a_k·b_k over pairs of k: 16-bit operands side by side in 32 bits.
func integerTile(s isa) {
	name := "int8Tile" + s.name
	TEXT(name, NOSPLIT, "func(pairs int, a, b, c *int32, ldc, rows, vectors int)")
	Doc(name + " adds the products of the pairs of k to a tile's live rows and vectors; ldc counts bytes.")
	Pragma("noescape")
	Load(Param("pairs"), left)
	Load(Param("a"), a)
	Load(Param("b"), b)
	Load(Param("c"), c)
	Load(Param("ldc"), stride)
	loadShape()
	move, add := VMOVDQU, func(x, y reg.VecPhysical) { VPADDD(x, y, y) }
	if s.wide() {
		move = func(x, y Op) { VMOVDQU32(x, y) }
	}
	dispatch(s, 4, func(t tile) {
		t.eachC(func(m Mem, i, v int) { move(m, t.acc(i, v)) })
		t.loop(func() {
			for v := 0; v < t.vectors; v++ {
				move(Mem{Base: b, Disp: v * t.bytes}, t.operand(v))
			}
			for i := 0; i < t.rows; i++ {
				x := t.free(t.vectors)
				VPBROADCASTD(Mem{Base: a, Disp: i * 4}, x)
				for v := 0; v < t.vectors; v++ {
					p := t.free(t.vectors + 1)
					VPMADDWD(t.operand(v), x, p)
					add(p, t.acc(i, v))
				}
			}
		})
		t.eachC(func(m Mem, i, v int) { move(t.acc(i, v), m) })
	})
	VZEROUPPER()
	RET()
}
