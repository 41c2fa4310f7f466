package simd

import (
	"math"
	"runtime"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// Chain64 is one level's kernel of f64 FMA chains.
type Chain64 struct {
	Level  Level
	MR, NR int // rows and columns of a tile
	KC     int // recommended k of a strip
	width  int // lanes of a vector
	strip  int // lanes a slot of an A panel takes
}

var chain64Kernels = map[Level]*Chain64{
	Portable: {Level: Portable, MR: 4, NR: 8, KC: 256, width: 8, strip: 4},
	AVX2:     {Level: AVX2, MR: 6, NR: 8, KC: 256, width: 4, strip: 8},
	AVX512:   {Level: AVX512, MR: 14, NR: 16, KC: 256, width: 8, strip: 16},
}

// Chain64Kernel is the f64 kernel of a level, nil where the level has none (Oracle).
func Chain64Kernel(l Level) *Chain64 { return chain64Kernels[l] }

// Panel64 is a strip of A or B packed as f64. The zero value is ready; packing again reuses its memory.
type Panel64 struct {
	Lanes, K int
	slots    chainSlots[float64]
}

// PackA packs up to MR rows of A.
func (c *Chain64) PackA(p *Panel64, src *Source) { c.pack(p, src, c.MR, c.strip) }

// PackB packs up to NR columns of B.
func (c *Chain64) PackB(p *Panel64, src *Source) { c.pack(p, src, c.NR, c.NR) }

func (c *Chain64) pack(p *Panel64, src *Source, lanes, stride int) {
	checkSource("f64 chain", src, lanes, format.F64)
	p.Lanes, p.K = src.Lanes, src.K
	p.slots.reserve(src.K, stride)
	for lane := 0; lane < src.Lanes; lane += c.width {
		k := chainPack(src.K, func(k0, k1 int) int { return packVectors64(c.Level, p, src, lane, k0, k1) })
		if k < src.K {
			end := min(lane+c.width, src.Lanes)
			p.slots.clear(end, k, src.K)
			p.packScalar(src, lane, end, k)
		}
	}
}

// packScalar packs lanes first..end-1 from slot k0 on, for every stride.
func (p *Panel64) packScalar(src *Source, first, end, k0 int) {
	for lane := first; lane < end; lane++ {
		out := p.slots.data[lane:]
		for k := k0; k < src.K; k++ {
			out[k*p.slots.stride] = *(*float64)(unsafe.Pointer(src.element(lane, k, 8)))
		}
	}
}

// Run continues the chains of a tile in place: acc holds MR rows of NR columns, ldc elements from row to row, of which
// only the panels' lanes count. Where one of them ends in a NaN it returns false with acc unchanged, since the hardware's
// choice of payload is not known here: a NaN stays in its chain to the end, so that nothing else needs looking at, and
// infinities are as exact as any number.
func (c *Chain64) Run(acc []float64, ldc int, a, b *Panel64) bool {
	checkTile("f64 chain", len(acc), ldc, a.slots.stride, b.slots.stride, a.Lanes, b.Lanes, a.K, b.K, c.strip, c.NR)
	if a.Lanes == 0 || b.Lanes == 0 {
		return true
	}
	if c.Level == Portable {
		return c.portable(acc, ldc, a, b)
	}
	var before [14 * 16]float64
	if a.K > chainPiece { // only then can a NaN turn up after c was stored
		c.copyTile(before[:], c.NR, acc, ldc, a.Lanes, b.Lanes)
	}
	vectors, live := (b.Lanes+c.width-1)/c.width, uint64(1)<<b.Lanes-1
	for k := 0; ; k += chainPiece {
		n := min(a.K-k, chainPiece)
		if !tile64(c.Level, n, a.slots.at(k), b.slots.at(k), unsafe.SliceData(acc), ldc*8, a.Lanes, vectors, live) {
			if k > 0 {
				c.copyTile(acc, ldc, before[:], c.NR, a.Lanes, b.Lanes)
			}
			return false
		}
		if k+n == a.K {
			return true
		}
	}
}

func (c *Chain64) copyTile(to []float64, toStride int, from []float64, fromStride, rows, columns int) {
	for i := range rows {
		copy(to[i*toStride:][:columns], from[i*fromStride:][:columns])
	}
}

func (c *Chain64) portable(acc []float64, ldc int, a, b *Panel64) bool {
	runtime.LockOSThread() // what defaultEnvironment says holds for this thread alone
	defer runtime.UnlockOSThread()
	plain := defaultEnvironment()
	var out [4 * 8]float64
	c.copyTile(out[:], c.NR, acc, ldc, a.Lanes, b.Lanes)
	for i := range a.Lanes {
		row := out[i*c.NR:][:b.Lanes]
		for k := range a.K {
			x, ys := a.slots.data[k*a.slots.stride+i], b.slots.data[k*b.slots.stride:][:len(row)]
			if plain {
				for j, y := range ys {
					row[j] = math.FMA(x, y, row[j])
				}
			} else {
				for j, y := range ys {
					row[j] = fma64(x, y, row[j])
				}
			}
		}
		for _, z := range row {
			if math.Float64bits(z)&^(1<<63) > 0x7FF<<52 {
				return false
			}
		}
	}
	c.copyTile(acc, ldc, out[:], c.NR, a.Lanes, b.Lanes)
	return true
}
