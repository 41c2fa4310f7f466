package cuda

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/discover"
	"github.com/hawkeye-audit/hawkeye/core/format"
)

// Capability is a GPU's compute capability.
type Capability struct{ Major, Minor int }

// String is as in "9.0".
func (c Capability) String() string { return fmt.Sprintf("%d.%d", c.Major, c.Minor) }

// AtLeast says whether c has what came with other.
func (c Capability) AtLeast(other Capability) bool {
	return c.Major > other.Major || c.Major == other.Major && c.Minor >= other.Minor
}

// Family is the kind of instruction.
type Family string

// The families. tcgen05, the third one, is not here: it multiplies in a memory of its own (docs/instructions.md).
const (
	MMA   Family = "mma"   // mma.sync: one warp, all operands in registers
	WGMMA Family = "wgmma" // wgmma.mma_async: four warps, B in shared memory, A there or in registers
)

// Instruction is one matrix instruction, d = a·b + c, in one shape and of one set of formats.
type Instruction struct {
	// Name is PTX's spelling without what never changes: mma.m16n8k16.f32.bf16.bf16.f32 (d, a, b, c) and
	// wgmma.m64n8k16.f32.bf16.bf16 (d, a, b). It ends in -rs where A comes from registers in a family that also takes it
	// from shared memory.
	Name        string
	Family      Family
	A, B        format.Format // of the operands
	Accumulator format.Format // of c and d
	M, N, K     int
	Registers   bool // A comes from registers, where wgmma can choose
	// Least is the lowest compute capability that has it, and Only says that no higher one does.
	Least Capability
	Only  bool
	// Version is that of the PTX language that has it.
	Version string
	// Catalogue is the row of the step catalogue that describes it on the GPU it was listed for; "": none does.
	Catalogue string
}

// Threads is how many threads run one.
func (i *Instruction) Threads() int {
	if i.Family == WGMMA {
		return 128
	}
	return 32
}

// Target is the architecture that the kernel's text is written for. The driver translates it for any later GPU too, except
// a text for sm_90a, which is for that GPU alone.
func (i *Instruction) Target() string {
	target := fmt.Sprintf("sm_%d%d", i.Least.Major, i.Least.Minor)
	if i.Only {
		target += "a"
	}
	return target
}

// On says whether a GPU has the instruction.
func (i *Instruction) On(c Capability) bool { return c == i.Least || !i.Only && c.AtLeast(i.Least) }

// Sizes are the bytes of one tile's A, B and C; D has as many as C.
func (i *Instruction) Sizes() (a, b, c int) {
	return i.M * i.K * i.A.Bytes(), i.K * i.N * i.B.Bytes(), i.M * i.N * i.Accumulator.Bytes()
}

// Signature describes the instruction as a black box of so many independent tiles a call. Operands of a tf32 instruction
// are called f32, since they are handed over in whole 32-bit words: what becomes of the low 13 bits is for the box to show.
// Calling them tf32 instead is as right, and asks nothing about those bits.
func (i *Instruction) Signature(tiles int) discover.Signature {
	whole := func(f format.Format) format.Format {
		if f == format.TF32 {
			return format.F32
		}
		return f
	}
	return discover.Signature{A: whole(i.A), B: whole(i.B), C: i.Accumulator, D: i.Accumulator, Batch: tiles, M: i.M, N: i.N, K: i.K,
		Addend: discover.AddendStart, Alpha: 1, Beta: 1}
}

// Everything lists the instructions that there are kernels for, whatever GPU has them; none names a row of the catalogue.
func Everything() []Instruction {
	var all []Instruction
	mma := func(least Capability, version string, accumulator, a, b format.Format, m, n, k int) {
		all = append(all, Instruction{
			Name:   fmt.Sprintf("mma.m%dn%dk%d.%v.%v.%v.%v", m, n, k, accumulator, a, b, accumulator),
			Family: MMA, A: a, B: b, Accumulator: accumulator, M: m, N: n, K: k, Least: least, Version: version,
		})
	}
	turing, ampere, ada, hopper := Capability{7, 5}, Capability{8, 0}, Capability{8, 9}, Capability{9, 0}
	for _, accumulator := range []format.Format{format.F32, format.F16} {
		mma(turing, "6.5", accumulator, format.F16, format.F16, 16, 8, 8)
		mma(ampere, "7.0", accumulator, format.F16, format.F16, 16, 8, 16)
	}
	mma(ampere, "7.0", format.F32, format.BF16, format.BF16, 16, 8, 8)
	mma(ampere, "7.0", format.F32, format.BF16, format.BF16, 16, 8, 16)
	mma(ampere, "7.0", format.F32, format.TF32, format.TF32, 16, 8, 4)
	mma(ampere, "7.0", format.F32, format.TF32, format.TF32, 16, 8, 8)
	f8 := []format.Format{format.E4M3, format.E5M2}
	for _, a := range f8 {
		for _, b := range f8 {
			mma(ada, "8.4", format.F32, a, b, 16, 8, 32)
			mma(ada, "8.7", format.F32, a, b, 16, 8, 16)
			mma(ada, "8.7", format.F16, a, b, 16, 8, 32)
			mma(ada, "8.7", format.F16, a, b, 16, 8, 16)
		}
	}
	mma(ampere, "7.0", format.F64, format.F64, format.F64, 8, 8, 4)
	for _, k := range []int{4, 8, 16} {
		mma(hopper, "7.8", format.F64, format.F64, format.F64, 16, 8, k)
	}
	bytes := []format.Format{format.S8, format.U8}
	for _, a := range bytes {
		for _, b := range bytes {
			mma(turing, "6.5", format.S32, a, b, 8, 8, 16)
			mma(ampere, "7.0", format.S32, a, b, 16, 8, 16)
			mma(ampere, "7.0", format.S32, a, b, 16, 8, 32)
		}
	}

	wgmma := func(accumulator, a, b format.Format, k int) {
		version := "8.0"
		if a.Info().Integer && a != b {
			version = "8.4"
		}
		for _, registers := range []bool{false, true} {
			name := fmt.Sprintf("wgmma.m64n8k%d.%v.%v.%v", k, accumulator, a, b)
			if registers {
				name += "-rs"
			}
			all = append(all, Instruction{
				Name: name, Family: WGMMA, A: a, B: b, Accumulator: accumulator, M: 64, N: 8, K: k, Registers: registers,
				Least: hopper, Only: true, Version: version,
			})
		}
	}
	for _, accumulator := range []format.Format{format.F32, format.F16} {
		wgmma(accumulator, format.F16, format.F16, 16)
	}
	wgmma(format.F32, format.BF16, format.BF16, 16)
	wgmma(format.F32, format.TF32, format.TF32, 8)
	for _, accumulator := range []format.Format{format.F32, format.F16} {
		for _, a := range f8 {
			for _, b := range f8 {
				wgmma(accumulator, a, b, 32)
			}
		}
	}
	for _, a := range bytes {
		for _, b := range bytes {
			wgmma(format.S32, a, b, 32)
		}
	}
	return all
}

// Instructions lists what a GPU of a compute capability has, with the rows of the catalogue that describe it there.
func Instructions(c Capability) []Instruction {
	var list []Instruction
	for _, i := range Everything() {
		if i.On(c) {
			i.Catalogue = row(&i, c)
			list = append(list, i)
		}
	}
	return list
}

// Find is the instruction of a name on a GPU of a compute capability.
func Find(c Capability, name string) (Instruction, error) {
	all := Everything()
	at := slices.IndexFunc(all, func(i Instruction) bool { return i.Name == name })
	switch {
	case at < 0:
		return Instruction{}, fail(KindInstruction, "no instruction is called %q%s", name, suggest(name, all))
	case !all[at].On(c):
		which := "compute capability " + all[at].Least.String()
		if !all[at].Only {
			which += " or later"
		}
		return Instruction{}, fail(KindCapability, "a GPU of compute capability %v does not have %s: it needs %s", c, name, which)
	}
	i := all[at]
	i.Catalogue = row(&i, c)
	return i, nil
}

// suggest ends an error about an unknown name with the known ones that share most of its parts.
func suggest(name string, known []Instruction) string {
	parts := strings.Split(strings.ToLower(name), ".")
	shared := func(i Instruction) (n int) {
		for _, part := range strings.Split(i.Name, ".") {
			if slices.Contains(parts, part) {
				n++
			}
		}
		return n
	}
	near := slices.Clone(known)
	slices.SortStableFunc(near, func(x, y Instruction) int { return shared(y) - shared(x) })
	const most = 4
	text := "; there are"
	for i := range most {
		text += " " + near[i].Name + ","
	}
	return text + fmt.Sprintf(" and %d more", len(near)-most)
}
