// Command floats writes the two routines of package simd that read and set MXCSR, the register of the floating-point
// environment: rounding, flush to zero, denormals are zero.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	TEXT("readMXCSR", NOSPLIT, "func() uint32")
	Doc("readMXCSR reads the floating-point environment of the thread.")
	slot := AllocLocal(8)
	STMXCSR(slot)
	value := GP32()
	MOVL(slot, value)
	Store(value, ReturnIndex(0))
	RET()

	TEXT("writeMXCSR", NOSPLIT, "func(value uint32)")
	Doc("writeMXCSR sets it.")
	slot = AllocLocal(8)
	Load(Param("value"), reg.EAX)
	MOVL(reg.EAX, slot)
	LDMXCSR(slot)
	RET()

	Generate()
}
