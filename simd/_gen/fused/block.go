package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// unroll is how many k the inner loops do at a time: the least group.
const unroll = 4

// A block is the rows that one pass through a group of B takes together. walk is where the routine is, in memory: what
// changes once a block.
type walk struct {
	c, a   Mem // of the first block
	blocks Mem
	left   Mem // blocks of all groups still to do
	// Of the next block's group: blocks, that block included, groups likewise, and where the group of A begins.
	blocksLeft, groupsLeft, group Mem
}

func newWalk() walk {
	word := func(argument string) Mem {
		m := AllocLocal(8)
		if argument != "" {
			t := Load(Param(argument), GP64())
			MOVQ(t, m)
		}
		return m
	}
	return walk{c: word("c"), a: word("a"), blocks: word("rows"), left: word(""), blocksLeft: word(""), groupsLeft: word(""), group: word("")}
}

// together is how many rows a block has: two share what is loaded of B, where the registers hold them.
func (s isa) together(m mode) int {
	if s.bytes == 64 && !m.wide {
		return 2
	}
	return 1
}

// tile runs all rows, n vectors wide, and goes to done.
func (s isa) tile(m mode, n int, w walk, done string) {
	if s.together(m) == 1 {
		s.walk(m, n, 1, w)
		JMP(LabelRef(done))
		return
	}
	last := fmt.Sprint(m.name, n, "Last")
	SHRQ(Imm(1), w.blocks)
	JZ(LabelRef(last))
	s.walk(m, n, 2, w)
	Label(last)
	rows := Load(Param("rows"), GP64())
	TESTQ(U32(1), rows)
	JZ(LabelRef(done))
	DECQ(rows)
	at := GP64()
	MOVQ(rows, at)
	IMULQ(param("ldc"), at)
	ADDQ(at, w.c)
	IMULQ(param("lda"), rows)
	ADDQ(rows, w.a)
	MOVQ(U32(1), w.blocks)
	s.walk(m, n, 1, w)
	JMP(LabelRef(done))
}

// walk runs every group over every block. Blocks are the inner loop, with c in memory between them: a block's chain from
// group to group is a long latency that the other blocks hide, and a group of B stays in the first cache. While a block's
// products are summed the largest exponents of the next block's are found.
func (s isa) walk(m mode, n, rows int, w walk) {
	label := func(l string) string { return fmt.Sprint(m.name, n, "By", rows, l) }
	k := &block{isa: s, mode: m, rows: rows, label: label}
	k.loadConstants()
	k.a, k.nextA, k.b, k.nextB, k.c, k.nextC = GP64(), GP64(), GP64(), GP64(), GP64(), GP64()
	k.group, k.left = GP64(), GP64()
	Load(Param("group"), k.group)
	SHRQ(Imm(2), k.group)
	if rows == 2 {
		k.lda, k.ldc = Load(Param("lda"), GP64()), Load(Param("ldc"), GP64())
	}
	t := GP64()
	MOVQ(w.a, k.a)
	MOVQ(k.a, w.group)
	MOVQ(w.c, k.c)
	Load(Param("b"), k.b)
	MOVQ(w.blocks, t)
	MOVQ(t, w.blocksLeft)
	IMULQ(param("groups"), t)
	MOVQ(t, w.left)
	Load(Param("groups"), t)
	MOVQ(t, w.groupsLeft)

	k.largest, k.nextLargest = s.vectors(rows), s.vectors(rows)
	k.clampNext()
	MOVQ(k.a, k.nextA)
	MOVQ(k.b, k.nextB)
	MOVQ(k.group, k.left)
	Label(label("First"))
	for j := range unroll {
		k.exponent(j)
	}
	k.forward(k.nextA, k.nextB, unroll)
	DECQ(k.left)
	JNZ(LabelRef(label("First")))

	Label(label("Block"))
	for i := range rows {
		s.copy(k.nextLargest[i], k.largest[i])
	}
	// The next block: further down the rows, or the first of the next group. After the last it is the last again.
	MOVQ(k.a, k.nextA)
	MOVQ(k.b, k.nextB)
	MOVQ(k.c, k.nextC)
	DECQ(w.blocksLeft)
	JZ(LabelRef(label("NextGroup")))
	for range rows {
		ADDQ(param("lda"), k.nextA)
		ADDQ(param("ldc"), k.nextC)
	}
	JMP(LabelRef(label("Next")))
	Label(label("NextGroup"))
	DECQ(w.groupsLeft)
	JZ(LabelRef(label("Next")))
	MOVQ(w.blocks, t)
	MOVQ(t, w.blocksLeft)
	MOVQ(w.group, k.nextA)
	k.passGroup(k.nextA, k.nextB, true)
	MOVQ(k.nextA, w.group)
	MOVQ(w.c, k.nextC)
	Label(label("Next"))

	k.clampNext()
	held := n
	if s.bytes == 32 && m.wide {
		held = min(n, 2)
	}
	for first := 0; first < n; first += held {
		if first > 0 {
			k.passGroup(k.a, k.b, false)
		}
		k.sum(first, held)
	}
	MOVQ(k.nextA, k.a)
	MOVQ(k.nextB, k.b)
	MOVQ(k.nextC, k.c)
	k.passGroup(k.a, k.b, false)
	DECQ(w.left)
	JNZ(LabelRef(label("Block")))
}

// block is one group over a block of rows.
type block struct {
	isa
	mode
	rows                                      int
	label                                     func(string) string
	a, b, c, nextA, nextB, nextC, group, left reg.GPVirtual
	lda, ldc                                  reg.Register
	largest, nextLargest                      []reg.VecVirtual
	held                                      map[int]reg.VecVirtual // constants in registers
}

func (k *block) loadConstants() {
	k.held = map[int]reg.VecVirtual{}
	if k.bytes == 32 {
		return // there is no register to spare
	}
	offsets := []int{constAlign, constExponent, constClamp}
	if k.cut {
		offsets = append(offsets, constCut)
	}
	if k.wide {
		offsets = append(offsets, constLow, constSplit)
	}
	for _, offset := range offsets {
		k.held[offset] = k.constant(offset)
	}
}

// constant is a register that holds a constant and must not be changed.
func (k *block) constant(offset int) reg.VecVirtual {
	if v, ok := k.held[offset]; ok {
		return v
	}
	v := k.vector()
	VPBROADCASTD(Mem{Base: Load(Param("k"), GP64()), Disp: offset}, v)
	return v
}

// inRow is the memory at base in row i of the block, a stride further where i is 1.
func inRow(base, stride reg.Register, i, disp int) Mem {
	if i == 0 {
		return Mem{Base: base, Disp: disp}
	}
	return Mem{Base: base, Index: stride, Scale: 1, Disp: disp}
}

// forward moves past elements of k: 8 bytes each of A, a record each of B.
func (k *block) forward(a, b reg.Register, elements int) {
	ADDQ(Imm(uint64(8*elements)), a)
	ADDQ(U32(uint32(elements*k.record())), b)
}

// passGroup moves past a group, or back.
func (k *block) passGroup(a, b reg.Register, ahead bool) {
	move := SUBQ
	if ahead {
		move = ADDQ
	}
	t := GP64()
	MOVQ(k.group, t)
	SHLQ(Imm(5), t)
	move(t, a)
	IMUL3Q(U32(uint32(unroll*k.record())), k.group, t)
	move(t, b)
}

func (k *block) clampNext() {
	clamp := k.constant(constClamp)
	for _, v := range k.nextLargest {
		k.copy(clamp, v)
	}
}

// exponent takes element j from the next block's place on into its largest exponents. The element itself is broadcast as
// an integer everywhere: on Zen 4 the float's broadcast takes an arithmetic unit.
func (k *block) exponent(j int) {
	var b Op = Mem{Base: k.nextB, Disp: j * k.record()}
	if k.rows > 1 {
		v := k.vector()
		k.load(b, v)
		b = v
	}
	for i := range k.rows {
		e := k.vector()
		VPBROADCASTD(inRow(k.nextA, k.lda, i, 8*j+4), e)
		VPADDB(b, e, e)
		VPMAXSB(e, k.nextLargest[i], k.nextLargest[i])
	}
}

// lane is one vector of one row of c.
type lane struct {
	row, vector           int
	at                    Mem
	scale, sum, low, high reg.VecVirtual
}

// sum sums the group for count vectors from the first on, and rounds.
func (k *block) sum(first, count int) {
	label := k.label(fmt.Sprint("At", first))
	var lanes []*lane // those of a vector side by side, since they share what is loaded of B
	for v := first; v < first+count; v++ {
		for i := range k.rows {
			l := &lane{row: i, vector: v, at: inRow(k.c, k.ldc, i, v*k.bytes)}
			k.begin(l)
			lanes = append(lanes, l)
		}
	}
	span := unroll
	MOVQ(k.group, k.left)
	if k.wide {
		span = 2 * unroll
		SHRQ(Imm(1), k.left)
	}
	Label(label)
	for j := range span {
		if first == 0 {
			k.exponent(j)
		}
		a := k.vectors(k.rows)
		for i := range k.rows {
			VPBROADCASTD(inRow(k.a, k.lda, i, 8*j), a[i])
		}
		var b Op
		for _, l := range lanes {
			if l.row == 0 {
				b = Mem{Base: k.b, Disp: j*k.record() + (1+l.vector)*k.bytes}
				if k.rows > 1 {
					v := k.vector()
					VMOVUPS(b, v)
					b = v
				}
			}
			p := k.vector()
			VMULPS(b, a[l.row], p)
			VPADDD(l.scale, p, p)
			if k.wide && j == 0 {
				VCVTTPS2DQ(p, l.sum)
				continue
			}
			VCVTTPS2DQ(p, p)
			VPADDD(p, l.sum, l.sum)
		}
	}
	if k.wide {
		for _, l := range lanes {
			k.split(l, false)
		}
	}
	k.forward(k.a, k.b, span)
	if first == 0 {
		k.forward(k.nextA, k.nextB, span)
	}
	DECQ(k.left)
	JNZ(LabelRef(label))
	for _, l := range lanes {
		k.finish(l)
	}
}

// begin finds the lane's exponent and aligns c.
func (k *block) begin(l *lane) {
	l.scale, l.sum, l.low, l.high = k.vector(), k.vector(), k.vector(), k.vector()
	// The byte of this vector in the exponent's place, and the larger of it and c's exponent. What lies below and above
	// the byte does no harm: the range instruction takes magnitudes, and the mask comes after.
	e := k.vector()
	if l.vector == 3 {
		VPSRLD(Imm(1), k.largest[l.row], e)
	} else {
		VPSLLD(Imm(uint64(23-8*l.vector)), k.largest[l.row], e)
	}
	mask := k.constant(constExponent)
	if k.bytes == 64 {
		VRANGEPS(Imm(0b1011), l.at, e, e)
		VPANDD(mask, e, e)
	} else {
		VPAND(mask, e, e)
		VPAND(l.at, mask, l.sum)
		VPMAXSD(l.sum, e, e)
	}
	VPSUBD(e, k.constant(constAlign), l.scale)
	VPADDD(l.at, l.scale, l.sum)
	VCVTTPS2DQ(l.sum, l.sum)
	if k.wide {
		k.split(l, true)
	}
}

// finish rounds the lane's sum and stores it.
func (k *block) finish(l *lane) {
	if k.wide {
		// high·2^16 + low: both convert exactly, and the multiply-add rounds once.
		VCVTDQ2PS(l.low, l.low)
		VCVTDQ2PS(l.high, l.sum)
		VFMADD213PS(l.low, k.constant(constSplit), l.sum)
	} else {
		VCVTDQ2PS(l.sum, l.sum)
	}
	if k.cut {
		k.and(k.constant(constCut), l.sum, l.sum)
	}
	// Divide by 2^(F-E). Only the upper halves of the words differ from zero in scale, so that words of 16 bits do; a zero
	// stays one by saturation.
	VPSUBUSW(l.scale, l.sum, l.sum)
	k.store(l.sum, l.at)
}

// split adds the lane's sum to its two halves, or begins them.
func (k *block) split(l *lane, begin bool) {
	mask := k.constant(constLow)
	if begin {
		k.and(mask, l.sum, l.low)
		VPSRAD(Imm(16), l.sum, l.high)
		return
	}
	low := k.vector()
	k.and(mask, l.sum, low)
	VPADDD(low, l.low, l.low)
	VPSRAD(Imm(16), l.sum, l.sum)
	VPADDD(l.sum, l.high, l.high)
}
