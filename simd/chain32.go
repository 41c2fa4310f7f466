package simd

import (
	"math"
	"runtime"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// Chain32 is one level's kernel of f32 FMA chains.
type Chain32 struct {
	Level  Level
	MR, NR int // rows and columns of a tile
	KC     int // recommended k of a strip: both panels stay in the second-level cache, c is rarely reloaded
	width  int // lanes of a vector
	strip  int // lanes a slot of an A panel takes
}

var chain32Kernels = map[Level]*Chain32{
	Portable: {Level: Portable, MR: 4, NR: 8, KC: 256, width: 8, strip: 4},
	AVX2:     {Level: AVX2, MR: 6, NR: 16, KC: 256, width: 8, strip: 8},
	AVX512:   {Level: AVX512, MR: 14, NR: 32, KC: 256, width: 16, strip: 16},
}

// Chain32Kernel is the f32 kernel of a level, nil where the level has none (Oracle).
func Chain32Kernel(l Level) *Chain32 { return chain32Kernels[l] }

// Panel32 is a strip of A or B packed as f32. The zero value is ready; packing again reuses its memory.
type Panel32 struct {
	Lanes, K int
	slots    chainSlots[float32]
}

// PackA packs up to MR rows of A, stored as f32, f16 or bf16 (converted exactly).
func (c *Chain32) PackA(p *Panel32, src *Source) { c.pack(p, src, c.MR, c.strip) }

// PackB packs up to NR columns of B likewise.
func (c *Chain32) PackB(p *Panel32, src *Source) { c.pack(p, src, c.NR, c.NR) }

func (c *Chain32) pack(p *Panel32, src *Source, lanes, stride int) {
	checkSource("f32 chain", src, lanes, format.F32, format.F16, format.BF16)
	p.Lanes, p.K = src.Lanes, src.K
	p.slots.reserve(src.K, stride)
	for lane := 0; lane < src.Lanes; lane += c.width {
		k := chainPack(src.K, func(k0, k1 int) int { return packVectors32(c.Level, p, src, lane, k0, k1) })
		if k < src.K {
			end := min(lane+c.width, src.Lanes)
			p.slots.clear(end, k, src.K)
			p.packScalar(src, lane, end, k)
		}
	}
}

// packScalar packs lanes first..end-1 from slot k0 on, for every stride.
func (p *Panel32) packScalar(src *Source, first, end, k0 int) {
	for lane := first; lane < end; lane++ {
		out := p.slots.data[lane:]
		switch src.Format {
		case format.F32:
			for k := k0; k < src.K; k++ {
				out[k*p.slots.stride] = *(*float32)(unsafe.Pointer(src.element(lane, k, 4)))
			}
		case format.F16:
			for k := k0; k < src.K; k++ {
				out[k*p.slots.stride] = math.Float32frombits(widenF16(*(*uint16)(unsafe.Pointer(src.element(lane, k, 2)))))
			}
		case format.BF16:
			for k := k0; k < src.K; k++ {
				out[k*p.slots.stride] = math.Float32frombits(uint32(*(*uint16)(unsafe.Pointer(src.element(lane, k, 2)))) << 16)
			}
		}
	}
}

// widenF16 gives the f32 bits of an f16, a NaN staying some NaN.
func widenF16(h uint16) uint32 {
	sign, mag := uint32(h>>15)<<31, uint32(h&0x7FFF)
	switch {
	case mag >= 0x7C00:
		return sign | 0x7F800000 | mag<<13
	case mag >= 0x0400:
		return sign | (mag<<13 + (127-15)<<23)
	case mag == 0:
		return sign
	}
	sig, exp := significand32(mag) // mag·2^-24, where significand32 reads mag·2^-149
	return sign | (uint32(exp+125+127)<<23 + uint32(sig)&(1<<23-1))
}

// Run continues the chains of a tile in place: acc holds MR rows of NR columns, ldc elements from row to row, of which
// only the panels' lanes count. NaN results are 0x7FFFFFFF. It always returns true.
func (c *Chain32) Run(acc []float32, ldc int, a, b *Panel32) bool {
	checkTile("f32 chain", len(acc), ldc, a.slots.stride, b.slots.stride, a.Lanes, b.Lanes, a.K, b.K, c.strip, c.NR)
	if a.Lanes == 0 || b.Lanes == 0 {
		return true
	}
	if c.Level == Portable {
		runtime.LockOSThread() // what defaultEnvironment says holds for this thread alone
		if defaultEnvironment() {
			run32(acc, ldc, a, b)
		} else {
			run32Bits(acc, ldc, a, b)
		}
		runtime.UnlockOSThread()
		return true
	}
	for k := 0; ; k += chainPiece {
		n := min(a.K-k, chainPiece)
		tile32(c.Level, n, a.slots.at(k), b.slots.at(k), unsafe.SliceData(acc), ldc*4, a.Lanes, (b.Lanes+c.width-1)/c.width)
		if k+n == a.K {
			return true
		}
	}
}

// run32 uses the double-precision unit. With c an f32, the product of two f32 is exact in f64 (48 bits of significand,
// exponents -298 to 255) and s = rne53(a·b + c) cannot overflow nor fall under f64's range. Rounding s again to f32
// gives rne24(a·b + c), unless s is a tie of f32 neighbours, where the exact sum may be off the tie: a nearest-rounded s
// lies on the same side of every tie, which is an f64 number, as the exact sum, or on it. In f32's normal range a tie
// shows as a one followed by 28 zeros at the end; below it the position varies. Both go to FMA32.
func run32(acc []float32, ldc int, a, b *Panel32) {
	for i := range a.Lanes {
		row := acc[i*ldc:][:b.Lanes]
		for k := range a.K {
			x, ys := float64(a.slots.data[k*a.slots.stride+i]), b.slots.data[k*b.slots.stride:][:len(row)]
			for j, z := range row {
				s := x*float64(ys[j]) + float64(z) // may be fused: the product is exact, so that nothing changes
				u := math.Float64bits(s)
				// A zero is exact, and the subtraction takes it out of the comparison.
				if u<<35 == 1<<63 || u<<1>>1-1 < (1023-126)<<52-1 {
					row[j] = FMA32(float32(x), ys[j], z)
				} else {
					row[j] = float32(s)
				}
			}
		}
		for j, z := range row {
			if z != z {
				row[j] = math.Float32frombits(chainNaN32)
			}
		}
	}
}

// run32Bits uses integers only.
func run32Bits(acc []float32, ldc int, a, b *Panel32) {
	for i := range a.Lanes {
		row := acc[i*ldc:][:b.Lanes]
		for k := range a.K {
			x, ys := math.Float32bits(a.slots.data[k*a.slots.stride+i]), b.slots.data[k*b.slots.stride:][:len(row)]
			for j, z := range row {
				row[j] = math.Float32frombits(fma32(x, math.Float32bits(ys[j]), math.Float32bits(z)))
			}
		}
		for j, z := range row {
			if math.Float32bits(z)&^(1<<31) > 0x7F800000 {
				row[j] = math.Float32frombits(chainNaN32)
			}
		}
	}
}
