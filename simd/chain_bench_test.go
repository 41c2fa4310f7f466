package simd

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// chainRate reports multiply-adds per second in the unit the table of `make bench` uses.
func chainRate(b *testing.B, each int) {
	b.ReportMetric(float64(each)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
}

// chainKernel is one of the kernels of a level behind closures: packing strips of dense matrices and running a tile.
type chainKernel struct {
	mr, nr, kc   int
	packA, packB func(panel int, src *Source)
	run          func(offset, ldc, a, b int) bool
}

func chainKernels(kind string, l Level, panels, size int) chainKernel {
	switch kind {
	case "f64":
		k, c, p := Chain64Kernel(l), make([]float64, size), make([]Panel64, panels)
		return chainKernel{k.MR, k.NR, k.KC, func(i int, s *Source) { k.PackA(&p[i], s) }, func(i int, s *Source) { k.PackB(&p[i], s) },
			func(o, ldc, a, b int) bool { return k.Run(c[o:], ldc, &p[a], &p[b]) }}
	case "s8":
		k, c, p := Int8Kernel(l), make([]int32, size), make([]PanelInt8, panels)
		return chainKernel{k.MR, k.NR, k.KC, func(i int, s *Source) { k.PackA(&p[i], s) }, func(i int, s *Source) { k.PackB(&p[i], s) },
			func(o, ldc, a, b int) bool { return k.Run(c[o:], ldc, &p[a], &p[b]) }}
	}
	k, c, p := Chain32Kernel(l), make([]float32, size), make([]Panel32, panels)
	return chainKernel{k.MR, k.NR, k.KC, func(i int, s *Source) { k.PackA(&p[i], s) }, func(i int, s *Source) { k.PackB(&p[i], s) },
		func(o, ldc, a, b int) bool { return k.Run(c[o:], ldc, &p[a], &p[b]) }}
}

var chainBenchFormats = map[string]format.Format{"f32": format.F32, "f64": format.F64, "s8": format.S8, "f16": format.F16, "bf16": format.BF16}

// chainMatrix is memory full of a format's ordinary numbers.
func chainMatrix(f format.Format, n int) *byte {
	r, size := rand.New(rand.NewPCG(5, 5)), chainLayouts[f].width/8
	x := make([]byte, n*size)
	for i := range n {
		for j, v := 0, chainElement(r, f, "normal"); j < size; j++ {
			x[i*size+j] = byte(v >> (8 * j))
		}
	}
	return &x[0]
}

// The tile alone, panels packed.
func BenchmarkChainTile(b *testing.B) {
	for _, kind := range []string{"f32", "f64", "s8"} {
		for _, l := range chainLevels() {
			k := chainKernels(kind, l, 2, 64*64)
			f := chainBenchFormats[kind]
			p := chainMatrix(f, 64*k.kc)
			k.packA(0, &Source{Pointer: pointerOf(p), Format: f, LaneStride: 1, KStride: 64, Lanes: k.mr, K: k.kc})
			k.packB(1, &Source{Pointer: pointerOf(p), Format: f, LaneStride: 1, KStride: 64, Lanes: k.nr, K: k.kc})
			b.Run(fmt.Sprintf("%s/%v", kind, l), func(b *testing.B) {
				for b.Loop() {
					k.run(0, k.nr, 0, 1)
				}
				chainRate(b, k.mr*k.nr*k.kc)
			})
		}
	}
}

// Packing a strip of B, lanes or k contiguous, of a matrix too large for the second-level cache.
func BenchmarkChainPack(b *testing.B) {
	const wide = 1024
	for _, kind := range []string{"f32", "f16", "bf16", "f64", "s8"} {
		for _, l := range chainLevels() {
			f := chainBenchFormats[kind]
			k := chainKernels(kind, l, 1, 1)
			p := chainMatrix(f, wide*wide)
			for _, along := range []string{"lanes", "k"} {
				b.Run(fmt.Sprintf("%s/%v/%s", kind, l, along), func(b *testing.B) {
					src := Source{Format: f, Lanes: k.nr, K: k.kc}
					at := 0
					for b.Loop() {
						src.Pointer, src.LaneStride, src.KStride = pointerOf((&Source{Pointer: pointerOf(p), LaneStride: 1}).element(at, 0, chainLayouts[f].width/8)), 1, wide
						if along == "k" {
							src.Pointer, src.LaneStride, src.KStride = pointerOf((&Source{Pointer: pointerOf(p), LaneStride: wide}).element(at, 0, chainLayouts[f].width/8)), wide, 1
						}
						k.packB(0, &src)
						if at += k.nr; at+k.nr > wide {
							at = 0
						}
					}
					b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/float64(k.nr*k.kc), "ns/element")
				})
			}
		}
	}
}

// A whole multiplication, row-major, packing included, in the simplest blocking.
func BenchmarkChainMatrix(b *testing.B) {
	const m, n, depth, block = 1024, 1024, 4096, 256
	for _, kind := range []string{"f32", "f64", "s8"} {
		for _, l := range chainLevels() {
			if l == Portable {
				continue
			}
			f := chainBenchFormats[kind]
			size := chainLayouts[f].width / 8
			const ldc = n + 64
			k := chainKernels(kind, l, block+1, (m+64)*ldc)
			pa, pb := chainMatrix(f, m*depth), chainMatrix(f, depth*n)
			b.Run(fmt.Sprintf("%s/%v", kind, l), func(b *testing.B) {
				for b.Loop() {
					for j0 := 0; j0 < n; j0 += block {
						for k0 := 0; k0 < depth; k0 += k.kc {
							kc := min(k.kc, depth-k0)
							for j := j0; j < j0+block; j += k.nr {
								k.packB(1+(j-j0)/k.nr, &Source{Pointer: pointerOf((&Source{Pointer: pointerOf(pb), LaneStride: 1}).element(k0*n+j, 0, size)),
									Format: f, LaneStride: 1, KStride: n, Lanes: min(k.nr, n-j), K: kc})
							}
							for i := 0; i < m; i += k.mr {
								k.packA(0, &Source{Pointer: pointerOf((&Source{Pointer: pointerOf(pa), LaneStride: 1}).element(i*depth+k0, 0, size)),
									Format: f, LaneStride: depth, KStride: 1, Lanes: min(k.mr, m-i), K: kc})
								for j := j0; j < j0+block; j += k.nr {
									k.run(i*ldc+j, ldc, 0, 1+(j-j0)/k.nr)
								}
							}
						}
					}
				}
				chainRate(b, m*n*depth)
			})
		}
	}
}
