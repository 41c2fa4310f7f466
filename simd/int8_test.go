package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

func TestInt8(t *testing.T) {
	g := newGuardedMemory(t, 1<<20)
	for _, level := range chainLevels() {
		c := Int8Kernel(level)
		var pa, pb PanelInt8
		t.Run(level.String(), func(t *testing.T) {
			chainShapes(t, c.MR, c.NR, func(r *rand.Rand, m, n, k, round int) {
				fa, fb := []format.Format{format.S8, format.U8}[round%2], []format.Format{format.S8, format.U8}[round/2%2]
				a, _ := chainOperands(r, fa, "bits", m, 0, k)
				_, b := chainOperands(r, fb, "bits", 0, n, k)
				if round%5 == 0 { // every operand extreme
					for _, x := range append(append([][]uint64{}, a...), b...) {
						for i := range x {
							x[i] = []uint64{0x80, 0xFF, 0x7F}[round/5%3]
						}
					}
				}
				la, lb := r.IntN(len(chainStrides)), r.IntN(len(chainStrides))
				c.PackA(&pa, chainSource(r, g, fa, la, a, k))
				c.PackB(&pb, chainSource(r, g, fb, lb, b, k))
				chainPadding(t, &pa.slots, m, c.width, (k+1)/2)
				chainPadding(t, &pb.slots, n, c.width, (k+1)/2)
				ldc := c.NR + r.IntN(3)*5
				acc := make([]int32, c.MR*ldc)
				for i := range acc {
					acc[i] = int32(r.Uint32())
					if i%3 == 0 { // at the edge of wrapping
						acc[i] = math.MaxInt32 - int32(i%2)*-1
					}
				}
				before := append([]int32{}, acc...)
				if !c.Run(acc, ldc, &pa, &pb) {
					t.Fatal("an integer tile declined")
				}
				where := fmt.Sprintf("%d×%s (%s), %d×%s (%s), K %d", m, chainName(fa), chainStrides[la].name, n, chainName(fb), chainStrides[lb].name, k)
				for i := range acc {
					if i%ldc >= c.NR && acc[i] != before[i] {
						t.Fatalf("%s: wrote between the tile's rows", where)
					}
					if i/ldc >= m || i%ldc >= n {
						continue
					}
					sum := int64(before[i])
					for x := range k {
						sum += int8Value(fa, a[i/ldc][x]) * int8Value(fb, b[i%ldc][x])
					}
					if want := int32(uint32(uint64(sum))); acc[i] != want {
						t.Fatalf("%s: row %d column %d: %d, want %d", where, i/ldc, i%ldc, acc[i], want)
					}
				}
			})
		})
	}
}

func int8Value(f format.Format, x uint64) int64 {
	if f == format.S8 && x >= 128 {
		return int64(x) - 256
	}
	return int64(x)
}

// A strip of more than one call into assembly, with sums that wrap around s32 several times.
func TestInt8WrapsAround(t *testing.T) {
	const k = 2*chainPiece*10 + 3
	x := make([]uint8, k)
	for i := range x {
		x[i] = 255 - uint8(i%3)
	}
	sum := int64(-7)
	for _, v := range x {
		sum += int64(v) * int64(v)
	}
	if sum < 1<<33 {
		t.Fatalf("the sum %d does not wrap", sum)
	}
	for _, level := range chainLevels() {
		c := Int8Kernel(level)
		src := &Source{Pointer: pointerOf(&x[0]), Format: format.U8, LaneStride: k, KStride: 1, Lanes: 1, K: k}
		var pa, pb PanelInt8
		c.PackA(&pa, src)
		c.PackB(&pb, src)
		acc := make([]int32, c.MR*c.NR)
		acc[0] = -7
		if c.Run(acc, c.NR, &pa, &pb); acc[0] != int32(uint32(uint64(sum))) {
			t.Errorf("%v: %d, want %d", level, acc[0], int32(uint32(uint64(sum))))
		}
	}
}
