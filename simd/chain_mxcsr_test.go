//go:build amd64

package simd

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// A caller may have flush-to-zero, denormals-are-zero or any rounding set: the bits stay the same at every level, and
// the caller's MXCSR is as it was.
func TestChainMXCSR(t *testing.T) {
	const flushToZero, denormalsAreZero, masked, flags = 0x8000, 0x0040, 0x1F80, 0x3F
	var modes []uint32
	for rounding := uint32(0); rounding < 4; rounding++ {
		for _, m := range []uint32{0, flushToZero, denormalsAreZero, flushToZero | denormalsAreZero} {
			modes = append(modes, masked|rounding<<13|m)
		}
	}
	g, r := newGuardedMemory(t, 1<<20), rand.New(rand.NewPCG(4, 4))
	for _, level := range chainLevels() {
		for _, f := range []format.Format{format.F32, format.F16, format.BF16, format.F64} {
			for _, kind := range []string{"tiny", "wide", "normal"} {
				const k = 33
				m, n := Chain32Kernel(level).MR, Chain32Kernel(level).NR
				if f == format.F64 {
					m, n = Chain64Kernel(level).MR, Chain64Kernel(level).NR
				}
				a, b := chainOperands(r, f, kind, m, n, k)
				if kind == "tiny" { // subnormal results too: operands near one against subnormal ones
					a, _ = chainOperands(r, f, "normal", m, n, k)
				}
				memory := newGuardedMemory(t, 1<<16)
				sa, sb := chainSource(r, g, f, 2, a, k), chainSource(r, memory, f, r.IntN(5), b, k)
				var want []uint64
				for _, mode := range modes {
					got := make([]uint64, m*n)
					run := func() {
						if f == format.F64 {
							var pa, pb Panel64
							kernel := Chain64Kernel(level)
							acc := unsafe.Slice((*float64)(unsafe.Pointer(&got[0])), m*n)
							kernel.PackA(&pa, sa)
							kernel.PackB(&pb, sb)
							kernel.Run(acc, n, &pa, &pb)
							return
						}
						var pa, pb Panel32
						kernel := Chain32Kernel(level)
						acc := make([]float32, m*n)
						kernel.PackA(&pa, sa)
						kernel.PackB(&pb, sb)
						kernel.Run(acc, n, &pa, &pb)
						for i, x := range acc {
							got[i] = uint64(math.Float32bits(x))
						}
					}
					runtime.LockOSThread()
					before := readMXCSR()
					writeMXCSR(mode)
					plain := defaultEnvironment()
					writeMXCSR(mode)
					run()
					after := readMXCSR()
					writeMXCSR(before)
					runtime.UnlockOSThread()
					if after&^flags != mode {
						t.Fatalf("%v %s: MXCSR %04x became %04x", level, chainName(f), mode, after)
					}
					if plain != (mode == masked) {
						t.Fatalf("defaultEnvironment says %v under MXCSR %04x", plain, mode)
					}
					if want == nil {
						want = got
					}
					for i := range got {
						if got[i] != want[i] {
							t.Fatalf("%v %s %s: under MXCSR %04x element %d is %x, else %x", level, chainName(f), kind, mode, i, got[i], want[i])
						}
					}
				}
			}
		}
	}
}

// The assembly leaves the exception flags alone too. (Around whole calls they cannot be watched: the Go runtime's own
// arithmetic sets them.)
func TestChainMXCSRFlags(t *testing.T) {
	x, y := make([]float32, 64), make([]float64, 64)
	for i := range x {
		x[i], y[i] = 1+0x1p-20, 1+0x1p-50
	}
	acc32, acc64 := make([]float32, 32), make([]float64, 16)
	for _, level := range chainLevels() {
		if level == Portable {
			continue
		}
		for _, mode := range []uint32{0x1F80, 0x9FC0, 0x7F84} {
			runtime.LockOSThread()
			before := readMXCSR()
			writeMXCSR(mode)
			tile32(level, 1, &x[0], &x[0], &acc32[0], 0, 1, 1)
			tile32(level, 1, &x[0], &x[0], &acc32[0], 0, 1, 1) // inexact now
			after32 := readMXCSR()
			writeMXCSR(mode)
			tile64(level, 1, &y[0], &y[0], &acc64[0], 0, 1, 1, 1)
			tile64(level, 1, &y[0], &y[0], &acc64[0], 0, 1, 1, 1)
			after64 := readMXCSR()
			writeMXCSR(before)
			runtime.UnlockOSThread()
			if after32 != mode || after64 != mode {
				t.Errorf("%v: MXCSR %04x became %04x (f32), %04x (f64)", level, mode, after32, after64)
			}
		}
	}
}
