package cuda

import (
	"fmt"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// entry is the kernel's name in every text.
const entry = "probe"

// text is a kernel being written.
type text struct{ strings.Builder }

func (t *text) say(form string, arguments ...any) { fmt.Fprintf(t, "\t"+form+";\n", arguments...) }

// PTX is the kernel that runs the instruction: probe(a, b, c, d), with one block of Threads threads for each tile. The
// tiles' matrices are dense and row-major and follow one another: A is m × k, B k × n, C and D m × n.
func (i *Instruction) PTX() string {
	t := &text{}
	fmt.Fprintf(t, ".version %s\n.target %s\n.address_size 64\n\n", i.Version, i.Target())
	fmt.Fprintf(t, "// %s, one a block\n", i.Name)
	fmt.Fprintf(t, ".visible .entry %s(.param .u64 to_a, .param .u64 to_b, .param .u64 to_c, .param .u64 to_d)\n{\n", entry)
	t.say(".reg .pred %%yes")
	t.say(".reg .b32 %%thread, %%g, %%t, %%row, %%tile, %%x, %%y")
	t.say(".reg .b64 %%a, %%b, %%c, %%d, %%wide, %%tile_a, %%tile_b")
	t.say(".reg .%s %%acc<%d>", i.accumulatorType(), i.accumulatorRegisters())
	t.say("mov.u32 %%thread, %%tid.x")
	t.say("mov.u32 %%tile, %%ctaid.x")
	t.say("shr.u32 %%g, %%thread, 2")
	t.say("and.b32 %%g, %%g, 7")
	t.say("and.b32 %%t, %%thread, 3")
	t.say("shr.u32 %%row, %%thread, 5")
	t.say("shl.b32 %%row, %%row, 4")
	t.say("add.u32 %%row, %%row, %%g") // of A, C and D
	sizeA, sizeB, sizeC := i.Sizes()
	for _, operand := range []struct {
		name string
		size int
	}{{"a", sizeA}, {"b", sizeB}, {"c", sizeC}, {"d", sizeC}} {
		t.say("ld.param.u64 %%%s, [to_%s]", operand.name, operand.name)
		t.say("cvta.to.global.u64 %%%s, %%%s", operand.name, operand.name)
		t.say("mul.wide.u32 %%wide, %%tile, %d", operand.size)
		t.say("add.u64 %%%s, %%%s, %%wide", operand.name, operand.name)
	}
	width := i.Accumulator.Bytes()
	t.at("%c", "%row", i.N*width, "%t", 2*width)
	t.at("%d", "%row", i.N*width, "%t", 2*width)
	i.moveAccumulator(t, "ld", "%c")
	if i.Family == WGMMA {
		i.wgmma(t)
	} else {
		i.mma(t)
	}
	i.moveAccumulator(t, "st", "%d")
	t.say("ret")
	t.WriteString("}\n")
	return t.String()
}

// at adds row·rowBytes + column·columnBytes to an address.
func (t *text) at(address, row string, rowBytes int, column string, columnBytes int) {
	t.say("mul.lo.u32 %%x, %s, %d", row, rowBytes)
	t.say("mad.lo.u32 %%x, %s, %d, %%x", column, columnBytes)
	t.say("cvt.u64.u32 %%wide, %%x")
	t.say("add.u64 %s, %s, %%wide", address, address)
}

// accumulatorType is the type of the registers that C and D are held in; f16 is held in pairs.
func (i *Instruction) accumulatorType() string {
	switch i.Accumulator {
	case format.F32:
		return "f32"
	case format.F64:
		return "f64"
	}
	return "b32"
}

func (i *Instruction) accumulatorRegisters() int {
	return 2 * i.blocks() / packed(i.Accumulator.Bytes())
}

// moveAccumulator loads or stores the pairs of neighbours that a lane holds of C or D.
func (i *Instruction) moveAccumulator(t *text, how, address string) {
	for block := range i.blocks() {
		place := fmt.Sprintf("[%s+%d]", address, 8*block*i.N*i.Accumulator.Bytes())
		registers := fmt.Sprintf("{%%acc%d, %%acc%d}", 2*block, 2*block+1)
		kind := "v2." + i.accumulatorType()
		if packed(i.Accumulator.Bytes()) == 2 {
			registers, kind = fmt.Sprintf("%%acc%d", block), "b32"
		}
		if how == "ld" {
			t.say("ld.global.%s %s, %s", kind, registers, place)
		} else {
			t.say("st.global.%s %s, %s", kind, place, registers)
		}
	}
}

// operandType is the type of the registers that an operand is held in.
func operandType(f format.Format) string {
	if f == format.F64 {
		return "f64"
	}
	return "b32"
}

// loadA loads A's registers. The elements of one are neighbours in memory.
func (i *Instruction) loadA(t *text) {
	width := i.A.Bytes()
	t.say(".reg .%s %%fa<%d>", operandType(i.A), i.aRegisters())
	t.at("%a", "%row", i.K*width, "%t", packed(width)*width)
	for r := range i.aRegisters() {
		part := i.aPart(r)
		t.say("ld.global.%s %%fa%d, [%%a+%d]", operandType(i.A), r, (part.row*i.K+part.column)*width)
	}
}

// loadB loads B's registers. The elements of one lie a row apart in memory, and are put together.
func (i *Instruction) loadB(t *text) {
	width := i.B.Bytes()
	t.say(".reg .%s %%fb<%d>", operandType(i.B), i.bRegisters())
	t.at("%b", "%t", packed(width)*i.N*width, "%g", width)
	for r := range i.bRegisters() {
		for e := range packed(width) {
			place := (i.bPart(r).row + e) * i.N * width
			switch {
			case width >= 4:
				t.say("ld.global.%s %%fb%d, [%%b+%d]", operandType(i.B), r, place)
			case e == 0:
				t.say("ld.global.u%d %%fb%d, [%%b+%d]", 8*width, r, place)
			default:
				t.say("ld.global.u%d %%x, [%%b+%d]", 8*width, place)
				t.say("shl.b32 %%x, %%x, %d", 8*width*e)
				t.say("or.b32 %%fb%d, %%fb%d, %%x", r, r)
			}
		}
	}
}

// list writes {%name0, %name1, …}.
func list(name string, n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%%%s%d", name, i)
	}
	return "{" + strings.Join(names, ", ") + "}"
}

// mma writes operands and instruction of mma.sync; the accumulators are loaded.
func (i *Instruction) mma(t *text) {
	i.loadA(t)
	i.loadB(t)
	accumulators := list("acc", i.accumulatorRegisters())
	t.say("mma.sync.aligned.m%dn%dk%d.row.col.%v.%v.%v.%v %s, %s, %s, %s", i.M, i.N, i.K, i.Accumulator, i.A, i.B, i.Accumulator,
		accumulators, list("fa", i.aRegisters()), list("fb", i.bRegisters()), accumulators)
}

// wgmma writes operands and instruction of wgmma.mma_async; the accumulators are loaded.
func (i *Instruction) wgmma(t *text) {
	sizeA, sizeB, _ := i.Sizes()
	t.say(".shared .align 128 .b8 shared_b[%d]", sizeB)
	t.shareB(i)
	a := list("fa", i.aRegisters())
	if i.Registers {
		i.loadA(t)
	} else {
		t.say(".shared .align 128 .b8 shared_a[%d]", sizeA)
		t.shareA()
		t.describe("%tile_a", "shared_a")
		a = "%tile_a"
	}
	t.describe("%tile_b", "shared_b")
	// What the threads have stored must be seen by the unit that reads it, which goes its own way to shared memory.
	t.say("fence.proxy.async.shared::cta")
	t.say("bar.sync 0")
	t.say("setp.ge.u32 %%yes, %%thread, 0") // always true: C is added
	t.say("wgmma.fence.sync.aligned")
	arguments := []string{list("acc", i.accumulatorRegisters()), a, "%tile_b", "%yes"}
	if !i.A.Info().Integer {
		arguments = append(arguments, "1", "1") // neither operand is negated
	}
	if i.A.Bytes() == 2 {
		if !i.Registers {
			arguments = append(arguments, "0")
		}
		arguments = append(arguments, "0") // neither operand in shared memory is transposed
	}
	t.say("wgmma.mma_async.sync.aligned.m%dn%dk%d.%v.%v.%v %s", i.M, i.N, i.K, i.Accumulator, i.A, i.B, strings.Join(arguments, ", "))
	t.say("wgmma.commit_group.sync.aligned")
	t.say("wgmma.wait_group.sync.aligned 0")
}

// describe makes the descriptor of an operand in shared memory.
func (t *text) describe(to, what string) {
	t.say("mov.u32 %%x, %s", what)
	t.say("and.b32 %%x, %%x, 0x3ffff")
	t.say("shr.u32 %%x, %%x, 4")
	t.say("cvt.u64.u32 %s, %%x", to)
	t.say("or.b64 %s, %s, %#x", to, to, descriptor)
}

// shareA copies A to shared memory. Its 64 rows have 32 bytes each, two pieces of a core matrix's width: one a thread.
func (t *text) shareA() {
	t.say(".reg .b32 %%piece<4>")
	t.say("shl.b32 %%x, %%thread, 4")
	t.say("cvt.u64.u32 %%wide, %%x")
	t.say("add.u64 %%a, %%a, %%wide")
	t.say("ld.global.v4.b32 {%%piece0, %%piece1, %%piece2, %%piece3}, [%%a]")
	t.say("shr.u32 %%x, %%thread, 4") // row / coreRows
	t.say("mul.lo.u32 %%x, %%x, %d", 2*coreBytes)
	t.say("and.b32 %%y, %%thread, 1") // the left or the right core matrix
	t.say("mad.lo.u32 %%x, %%y, %d, %%x", coreBytes)
	t.say("shr.u32 %%y, %%thread, 1")
	t.say("and.b32 %%y, %%y, %d", coreRows-1)
	t.say("mad.lo.u32 %%x, %%y, %d, %%x", coreWidth)
	t.say("mov.u32 %%y, shared_a")
	t.say("add.u32 %%x, %%x, %%y")
	t.say("st.shared.v4.b32 [%%x], {%%piece0, %%piece1, %%piece2, %%piece3}")
}

// shareB copies B to shared memory, element by element, since its k lie apart.
func (t *text) shareB(i *Instruction) {
	width := i.B.Bytes()
	t.say(".reg .b32 %%element, %%byte")
	for first := 0; first < i.K*i.N; first += i.Threads() {
		t.say("add.u32 %%x, %%thread, %d", first)
		t.say("setp.lt.u32 %%yes, %%x, %d", i.K*i.N)
		t.say("mul.wide.u32 %%wide, %%x, %d", width)
		t.say("add.u64 %%wide, %%wide, %%b")
		t.say("@%%yes ld.global.u%d %%element, [%%wide]", 8*width)
		t.say("and.b32 %%y, %%x, %d", i.N-1) // the column
		t.say("shr.u32 %%byte, %%x, 3")      // k
		t.say("mul.lo.u32 %%byte, %%byte, %d", width)
		t.say("mul.lo.u32 %%y, %%y, %d", coreWidth)
		t.say("and.b32 %%x, %%byte, %d", coreWidth-1)
		t.say("add.u32 %%y, %%y, %%x")
		t.say("shr.u32 %%byte, %%byte, 4")
		t.say("mad.lo.u32 %%y, %%byte, %d, %%y", coreBytes)
		t.say("mov.u32 %%x, shared_b")
		t.say("add.u32 %%y, %%y, %%x")
		t.say("@%%yes st.shared.u%d [%%y], %%element", 8*width)
	}
}
