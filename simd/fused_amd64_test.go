package simd

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// TestFusedMXCSR: a caller's rounding mode, flush to zero and denormals are zero change no bit, and stay as they were.
func TestFusedMXCSR(t *testing.T) {
	s := FusedShape{16, 25, 23}
	for _, f := range fusedLevels() {
		r := rand.New(rand.NewPCG(23, 24))
		a, b := randomOperands(r, format.F16, format.F16, "bits", 5, f.NR, 37)
		for _, o := range []*operand{a, b} { // subnormals stay, NaN and infinities go
			for i := 1; i < len(o.memory); i += 2 {
				o.memory[i] &^= 0x40
			}
		}
		start := make([]float32, f.MR*f.NR)
		for i := range start {
			start[i] = float32(i%7-3) / 3
		}
		run := func(p, q *FusedPanel) ([]float32, bool) {
			c := append([]float32(nil), start...)
			f.PackA(p, &a.source, s)
			f.PackB(q, &b.source, s)
			return c, f.Run(c, f.NR, p, q, s)
		}
		var p, q FusedPanel
		want, ok := run(&p, &q)
		if !ok {
			t.Fatalf("%v: declined", f.Level)
		}
		var wait sync.WaitGroup
		for _, mode := range []uint32{0x1F80, 0x3F80, 0x5F80, 0x7F80, 0x9F80, 0x1FC0, 0x9FC0, 0xFFC0} {
			wait.Add(1)
			go func() {
				defer wait.Done()
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				var p, q FusedPanel
				run(&p, &q) // grow first: the runtime is not made for other modes
				before := readMXCSR()
				writeMXCSR(mode)
				got, ok := run(&p, &q)
				after := readMXCSR()
				writeMXCSR(before)
				if after&^0x3F != mode&^0x3F {
					t.Errorf("%v: MXCSR was %x, became %x", f.Level, mode, after)
				}
				for i := range want {
					if !ok || math.Float32bits(got[i]) != math.Float32bits(want[i]) {
						t.Errorf("%v MXCSR %x: element %d is %x, want %x (%v)", f.Level, mode, i, math.Float32bits(got[i]), math.Float32bits(want[i]), ok)
						return
					}
				}
			}()
		}
		wait.Wait()
	}
}
