package simd

import (
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

//go:generate go run -C _gen ./chain -level avx2 -kernel int8 -out ../int8_avx2_amd64.s -stubs ../int8_avx2_amd64.go -pkg simd
//go:generate go run -C _gen ./chain -level avx512 -kernel int8 -out ../int8_avx512_amd64.s -stubs ../int8_avx512_amd64.go -pkg simd

// Int8 is one level's kernel of integer products: c += a·b over s8 and u8 operands in any combination, exact and
// wrapping in s32 (docs/arithmetic.md, measured on an H200). Operands are widened to 16 bits and two consecutive k
// share 32 bits; a pair's sum, at most 2·255·255 in magnitude, fits 32 bits, and wrapping sums may take any order.
type Int8 struct {
	Level  Level
	MR, NR int // rows and columns of a tile
	KC     int // recommended k of a strip
	width  int // lanes of a vector
	strip  int // lanes a slot of an A panel takes
}

var int8Kernels = map[Level]*Int8{
	Portable: {Level: Portable, MR: 4, NR: 8, KC: 512, width: 8, strip: 4},
	AVX2:     {Level: AVX2, MR: 6, NR: 16, KC: 512, width: 8, strip: 8},
	AVX512:   {Level: AVX512, MR: 14, NR: 32, KC: 512, width: 16, strip: 16},
}

// Int8Kernel is the integer kernel of a level, nil where the level has none (Oracle).
func Int8Kernel(l Level) *Int8 { return int8Kernels[l] }

// PanelInt8 is a strip of A or B packed as pairs of k; a last odd k is paired with zero. The zero value is ready;
// packing again reuses its memory.
type PanelInt8 struct {
	Lanes, K int
	slots    chainSlots[int32]
}

// PackA packs up to MR rows of A, stored as s8 or u8.
func (c *Int8) PackA(p *PanelInt8, src *Source) { c.pack(p, src, c.MR, c.strip) }

// PackB packs up to NR columns of B likewise.
func (c *Int8) PackB(p *PanelInt8, src *Source) { c.pack(p, src, c.NR, c.NR) }

func (c *Int8) pack(p *PanelInt8, src *Source, lanes, stride int) {
	checkSource("s8", src, lanes, format.S8, format.U8)
	p.Lanes, p.K = src.Lanes, src.K
	pairs := (src.K + 1) / 2
	p.slots.reserve(pairs, stride)
	for lane := 0; lane < src.Lanes; lane += c.width {
		if s := chainPack(pairs, func(s0, s1 int) int { return packVectorsInt8(c.Level, p, src, lane, s0, s1) }); s < pairs {
			end := min(lane+c.width, src.Lanes)
			p.slots.clear(end, s, pairs)
			p.packScalar(src, lane, end, s)
		}
	}
}

// packScalar packs lanes first..end-1 from slot s on, for every stride.
func (p *PanelInt8) packScalar(src *Source, first, end, s int) {
	element := func(lane, k int) int32 {
		if k >= src.K {
			return 0
		}
		x := *src.element(lane, k, 1)
		if src.Format == format.U8 {
			return int32(x)
		}
		return int32(int8(x))
	}
	for lane := first; lane < end; lane++ {
		for i := s; 2*i < src.K; i++ {
			p.slots.data[i*p.slots.stride+lane] = element(lane, 2*i)&0xFFFF | element(lane, 2*i+1)<<16
		}
	}
}

// Run adds a strip's products to a tile in place: acc holds MR rows of NR columns, ldc elements from row to row, of which
// only the panels' lanes count. It always returns true.
func (c *Int8) Run(acc []int32, ldc int, a, b *PanelInt8) bool {
	checkTile("s8", len(acc), ldc, a.slots.stride, b.slots.stride, a.Lanes, b.Lanes, a.K, b.K, c.strip, c.NR)
	if a.Lanes == 0 || b.Lanes == 0 {
		return true
	}
	pairs := (a.K + 1) / 2
	if c.Level == Portable {
		for i := range a.Lanes {
			row := acc[i*ldc:][:b.Lanes]
			for s := range pairs {
				x, ys := a.slots.data[s*a.slots.stride+i], b.slots.data[s*b.slots.stride:][:len(row)]
				lo, hi := int32(int16(x)), x>>16
				for j, y := range ys {
					row[j] += lo*int32(int16(y)) + hi*(y>>16)
				}
			}
		}
		return true
	}
	vectors := (b.Lanes + c.width - 1) / c.width
	for s := 0; s < pairs; s += chainPiece {
		tileInt8(c.Level, min(pairs-s, chainPiece), a.slots.at(s), b.slots.at(s), unsafe.SliceData(acc), ldc*4, a.Lanes, vectors)
	}
	return true
}
