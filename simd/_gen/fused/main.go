// Command fused writes the kernels of the fused step and the packing of its operands, for AVX2 and AVX-512.
package main

import (
	"flag"
	"log"

	. "github.com/mmcloughlin/avo/build"
)

func main() {
	level := flag.String("level", "", "avx2 or avx512")
	kernel := flag.String("kernel", "", "step or pack")
	flag.Parse()
	s, ok := isas[*level]
	if !ok {
		log.Fatalf("unknown level %q", *level)
	}
	ConstraintExpr("amd64")
	switch *kernel {
	case "step":
		s.step()
	case "pack":
		s.pack()
	default:
		log.Fatalf("unknown kernel %q", *kernel)
	}
	Generate()
}
