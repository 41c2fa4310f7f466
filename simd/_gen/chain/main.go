// Command chain writes the FMA chain and s8 kernels of package simd: register tiles and packing by in-register
// transposes, for AVX2 and AVX-512.
package main

import (
	"flag"
	"log"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is one instruction set's vector registers.
type isa struct {
	name  string // as it ends the routines' names
	bytes int    // of a vector
	count int    // of vector registers
	mr    int    // rows of a register tile, two vectors wide: what the registers hold
}

var isas = map[string]isa{
	"avx2":   {name: "AVX2", bytes: 32, count: 16, mr: 6},
	"avx512": {name: "AVX512", bytes: 64, count: 32, mr: 14},
}

func (s isa) wide() bool { return s.bytes == 64 }

// vector is register i at the instruction set's full width.
func (s isa) vector(i int) reg.VecPhysical {
	if s.wide() {
		return zmm[i]
	}
	return ymm[i]
}

var (
	zmm = []reg.VecPhysical{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10,
		reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15, reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22,
		reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31}
	ymm = []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10,
		reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15, reg.Y16, reg.Y17, reg.Y18, reg.Y19, reg.Y20, reg.Y21, reg.Y22,
		reg.Y23, reg.Y24, reg.Y25, reg.Y26, reg.Y27, reg.Y28, reg.Y29, reg.Y30, reg.Y31}
	xmm = []reg.VecPhysical{reg.X0, reg.X1, reg.X2, reg.X3, reg.X4, reg.X5, reg.X6, reg.X7, reg.X8, reg.X9, reg.X10,
		reg.X11, reg.X12, reg.X13, reg.X14, reg.X15, reg.X16, reg.X17, reg.X18, reg.X19, reg.X20, reg.X21, reg.X22,
		reg.X23, reg.X24, reg.X25, reg.X26, reg.X27, reg.X28, reg.X29, reg.X30, reg.X31}
)

// enterFloat saves the caller's MXCSR and sets the default one: round to nearest even, no flush to zero, no denormals
// are zero, every exception masked. leaveFloat puts the caller's back.
func enterFloat() (leave func()) {
	saved := AllocLocal(8)
	STMXCSR(saved)
	MOVL(U32(0x1F80), saved.Offset(4))
	LDMXCSR(saved.Offset(4))
	return func() { LDMXCSR(saved) }
}

func main() {
	level := flag.String("level", "avx512", "avx2 or avx512")
	kernel := flag.String("kernel", "chain", "chain or int8")
	flag.Parse()
	s, ok := isas[*level]
	if !ok {
		log.Fatalf("no level %q", *level)
	}
	ConstraintExpr("amd64")
	switch *kernel {
	case "chain":
		floatTile(s, 4)
		floatTile(s, 8)
		for _, f := range []source{sourceF32, sourceF16, sourceBF16, sourceF64} {
			packAlongLanes(s, f)
			packAlongK(s, f)
		}
	case "int8":
		integerTile(s)
		for _, f := range []source{sourceS8, sourceU8} {
			packAlongLanes(s, f)
			packAlongK(s, f)
		}
	default:
		log.Fatalf("no kernel %q", *kernel)
	}
	Generate()
}
