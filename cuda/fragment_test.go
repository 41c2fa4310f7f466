package cuda

import (
	"fmt"
	"math/bits"
	"testing"
)

// Every element of every matrix is held once.
func TestFragmentsHoldEveryElementOnce(t *testing.T) {
	for _, i := range Everything() {
		t.Run(i.Name, func(t *testing.T) {
			once := func(name string, rows, columns int, fragment func(int) []position) {
				held := map[position]int{}
				for thread := range i.Threads() {
					for _, at := range fragment(thread) {
						if at.row < 0 || at.row >= rows || at.column < 0 || at.column >= columns {
							t.Fatalf("%s: thread %d holds %v of a matrix of %d × %d", name, thread, at, rows, columns)
						}
						held[at]++
					}
				}
				if len(held) != rows*columns {
					t.Errorf("%s: %d of %d elements are held", name, len(held), rows*columns)
				}
				for at, times := range held {
					if times != 1 {
						t.Errorf("%s: %v is held %d times", name, at, times)
					}
				}
			}
			if i.Family == MMA || i.Registers {
				once("a", i.M, i.K, i.aFragment)
			}
			if i.Family == MMA {
				once("b", i.K, i.N, i.bFragment)
			}
			once("c", i.M, i.N, i.cFragment)
		})
	}
}

// The layouts as the PTX ISA prints them, shape by shape: row and column of element e of a lane's A and B.
func TestFragmentsAreThoseOfThePTXISA(t *testing.T) {
	type formula func(g, t, e int) position
	alternate := func(e, low, high int) int { // low where the element belongs to the upper 8 rows
		if e == 0 {
			return low
		}
		return high
	}
	for name, want := range map[string]struct{ a, b formula }{
		"m8n8k4 f64": {
			func(g, t, _ int) position { return position{g, t} },
			func(g, t, _ int) position { return position{t, g} },
		},
		"m16n8k4 f64": {
			func(g, t, e int) position { return position{alternate(e%2, g, g+8), t} },
			func(g, t, _ int) position { return position{t, g} },
		},
		"m16n8k8 f64": {
			func(g, t, e int) position { return position{alternate(e%2, g, g+8), alternate(e/2, t, t+4)} },
			func(g, t, e int) position { return position{t + 4*e, g} },
		},
		"m16n8k16 f64": {
			func(g, t, e int) position {
				if e%2 == 0 {
					return position{g, e*2 + t}
				}
				return position{g + 8, e*2 - 2 + t}
			},
			func(g, t, e int) position { return position{t + e*4, g} },
		},
		"m16n8k8 f16": {
			func(g, t, e int) position { return position{alternate(e/2, g, g+8), t*2 + e&1} },
			func(g, t, e int) position { return position{t*2 + e, g} },
		},
		"m16n8k16 f16": {
			func(g, t, e int) position {
				return position{alternate(e/2%2, g, g+8), alternate(e/4, t*2+e&1, t*2+e&1+8)}
			},
			func(g, t, e int) position { return position{alternate(e/2, t*2+e&1, t*2+e&1+8), g} },
		},
		"m16n8k4 tf32": {
			func(g, t, e int) position { return position{alternate(e, g, g+8), t} },
			func(g, t, _ int) position { return position{t, g} },
		},
		"m16n8k8 tf32": {
			func(g, t, e int) position { return position{alternate(e%2, g, g+8), alternate(e/2, t, t+4)} },
			func(g, t, e int) position { return position{t + 4*e, g} },
		},
		"m8n8k16 s8": {
			func(g, t, e int) position { return position{g, t*4 + e} },
			func(g, t, e int) position { return position{t*4 + e, g} },
		},
		"m16n8k16 s8": {
			func(g, t, e int) position { return position{alternate(e/4, g, g+8), t*4 + e&3} },
			func(g, t, e int) position { return position{t*4 + e, g} },
		},
		"m16n8k32 s8": {
			func(g, t, e int) position {
				return position{alternate(e/4%2, g, g+8), alternate(e/8, t*4+e&3, t*4+e&3+16)}
			},
			func(g, t, e int) position { return position{alternate(e/4, t*4+e&3, t*4+e&3+16), g} },
		},
	} {
		tried := false
		for _, i := range Everything() {
			if i.Family != MMA || fmt.Sprintf("m%dn%dk%d %v", i.M, i.N, i.K, i.A) != name {
				continue
			}
			tried = true
			for thread := range 32 {
				for e, at := range i.aFragment(thread) {
					if w := want.a(thread/4, thread%4, e); at != w {
						t.Errorf("%s: a%d of lane %d is %v, the PTX ISA says %v", i.Name, e, thread, at, w)
					}
				}
				for e, at := range i.bFragment(thread) {
					if w := want.b(thread/4, thread%4, e); at != w {
						t.Errorf("%s: b%d of lane %d is %v, the PTX ISA says %v", i.Name, e, thread, at, w)
					}
				}
			}
		}
		if !tried {
			t.Errorf("there is no instruction %s", name)
		}
	}
	for _, i := range Everything() {
		for thread := range i.Threads() {
			for e, at := range i.cFragment(thread) {
				want := position{16*(thread/32) + thread%32/4 + 8*(e/2), thread%4*2 + e&1}
				if at != want {
					t.Errorf("%s: c%d of thread %d is %v, the PTX ISA says %v", i.Name, e, thread, at, want)
				}
			}
		}
	}
}

// Shared memory holds every byte of A's 64 rows once, in whole core matrices, and the descriptor says how far they lie apart.
func TestSharedMemoryHoldsEveryByteOnce(t *testing.T) {
	const rows, width = 64, 32
	held := map[int]bool{}
	for row := range rows {
		for k := range width {
			at := sharedOffset(row, k)
			if at < 0 || at >= rows*width || held[at] {
				t.Fatalf("row %d, byte %d lies at %d, outside or where another does", row, k, at)
			}
			held[at] = true
			leading, stride := int(descriptor>>16&0x3fff)<<4, int(descriptor>>32&0x3fff)<<4
			if want := row/8*stride + k/16*leading + row%8*16 + k%16; at != want {
				t.Fatalf("row %d, byte %d lies at %d, by the descriptor at %d", row, k, at, want)
			}
		}
	}
	if descriptor>>62 != 0 || descriptor&0xffff != 0 || bits.OnesCount64(descriptor) != 2 {
		t.Errorf("the descriptor is %#x", descriptor)
	}
}
