package simd

import (
	"math/bits"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// chainKinds are the kinds of inputs the recorded results were made with, built as there from integers alone.
var chainKinds = []string{"normal", "wide", "tiny", "sparse", "cancel", "bits"}

type chainLayout struct{ width, mantissa, bias, low, high int }

var chainLayouts = map[format.Format]chainLayout{
	format.F16:  {16, 10, 15, -12, 12},
	format.BF16: {16, 7, 127, -40, 40},
	format.F32:  {32, 23, 127, -40, 40},
	format.F64:  {64, 52, 1023, -200, 200},
	format.S8:   {8, 0, 0, 0, 0},
	format.U8:   {8, 0, 0, 0, 0},
}

// chainElement is one element of a kind.
func chainElement(r *rand.Rand, f format.Format, kind string) uint64 {
	l, w := chainLayouts[f], r.Uint64()
	if kind == "bits" || l.width == 8 {
		return w & (1<<l.width - 1)
	}
	if kind == "sparse" && r.IntN(2) == 0 {
		return 0
	}
	e := 1 - bits.TrailingZeros64(w|1<<15)
	switch kind {
	case "wide":
		e = l.low + r.IntN(l.high-l.low+1)
	case "tiny":
		e = -l.bias + r.IntN(4)
	}
	mantissa := r.Uint64() & (1<<l.mantissa - 1)
	return w>>63<<(l.width-1) | uint64(max(e+l.bias, 0))<<l.mantissa | mantissa
}

// chainOperands gives A (lanes × k) and B (lanes × k); for cancel, products come in pairs of opposite sign.
func chainOperands(r *rand.Rand, f format.Format, kind string, m, n, k int) (a, b [][]uint64) {
	make2 := func(lanes int) [][]uint64 {
		x := make([][]uint64, lanes)
		for i := range x {
			x[i] = make([]uint64, k)
			for j := range x[i] {
				x[i][j] = chainElement(r, f, kind)
			}
		}
		return x
	}
	a, b = make2(m), make2(n)
	if kind == "cancel" {
		p := r.Perm(k)
		for j := 0; j+1 < k-2; j += 2 {
			for _, x := range a {
				x[p[j+1]] = x[p[j]]
			}
			for _, x := range b {
				x[p[j+1]] = x[p[j]] ^ 1<<(chainLayouts[f].width-1)
			}
		}
	}
	return a, b
}

// chainStrides are the layouts a strip is laid out in: lane and k strides for a strip of some size.
var chainStrides = []struct {
	name    string
	strides func(lanes, k int) (int, int)
}{
	{"along lanes", func(lanes, k int) (int, int) { return 1, lanes + 3 }},
	{"along lanes, tight", func(lanes, k int) (int, int) { return 1, lanes }},
	{"along k", func(lanes, k int) (int, int) { return k + 5, 1 }},
	{"along k, tight", func(lanes, k int) (int, int) { return k, 1 }},
	{"apart", func(lanes, k int) (int, int) { return 3, 3*lanes + 2 }},
	{"k backwards", func(lanes, k int) (int, int) { return 1, -lanes }},
	{"lanes backwards", func(lanes, k int) (int, int) { return -k, 1 }},
	{"both backwards", func(lanes, k int) (int, int) { return -1, -lanes }},
	{"one lane for all", func(lanes, k int) (int, int) { return 0, 1 }},
	{"one k for all", func(lanes, k int) (int, int) { return 1, 0 }},
	{"one element", func(lanes, k int) (int, int) { return 0, 0 }},
}

// chainSource lays x out in guarded memory. Where strides make elements share a place, x is changed to what is there.
func chainSource(r *rand.Rand, g *guardedMemory, f format.Format, layout int, x [][]uint64, k int) *Source {
	size := chainLayouts[f].width / 8
	ls, ks := chainStrides[layout].strides(len(x), k)
	low := min(0, (len(x)-1)*ls) + min(0, (k-1)*ks)
	high := max(0, (len(x)-1)*ls) + max(0, (k-1)*ks)
	if k == 0 {
		return &Source{Pointer: nil, Format: f, As: f, LaneStride: ls, KStride: ks, Lanes: len(x), K: 0}
	}
	p := unsafe.Add(g.take((high-low+1)*size, r.IntN(2) == 0), -low*size)
	at := func(i, j int) unsafe.Pointer { return unsafe.Add(p, (i*ls+j*ks)*size) }
	for i := range x {
		for j := range x[i] {
			switch size {
			case 1:
				*(*uint8)(at(i, j)) = uint8(x[i][j])
			case 2:
				*(*uint16)(at(i, j)) = uint16(x[i][j])
			case 4:
				*(*uint32)(at(i, j)) = uint32(x[i][j])
			case 8:
				*(*uint64)(at(i, j)) = x[i][j]
			}
		}
	}
	for i := range x {
		for j := range x[i] {
			switch size {
			case 1:
				x[i][j] = uint64(*(*uint8)(at(i, j)))
			case 2:
				x[i][j] = uint64(*(*uint16)(at(i, j)))
			case 4:
				x[i][j] = uint64(*(*uint32)(at(i, j)))
			case 8:
				x[i][j] = *(*uint64)(at(i, j))
			}
		}
	}
	return &Source{Pointer: p, Format: f, As: f, LaneStride: ls, KStride: ks, Lanes: len(x), K: k}
}

func pointerOf[T any](p *T) unsafe.Pointer { return unsafe.Pointer(p) }

// chainPadding checks that the lanes a strip lacks are zeros up to the next whole vector.
func chainPadding[T float32 | float64 | int32](t *testing.T, s *chainSlots[T], lanes, width, slots int) {
	t.Helper()
	for k := range slots {
		for lane := lanes; lane%width != 0 && lane < s.stride; lane++ {
			if x := s.data[k*s.stride+lane]; x != 0 {
				t.Fatalf("lane %d of %d holds %v in slot %d", lane, lanes, x, k)
			}
		}
	}
}

// chainShapes calls visit with the tiles every kernel is tried on: every K up to 70 and every number of lanes, and
// some long strips.
func chainShapes(t *testing.T, mr, nr int, visit func(r *rand.Rand, m, n, k, round int)) {
	r := rand.New(rand.NewPCG(2, uint64(mr*100+nr)))
	round := 0
	do := func(m, n, k int) {
		visit(r, m, n, k, round)
		round++
	}
	for k := range 71 {
		for range 3 {
			do(1+r.IntN(mr), 1+r.IntN(nr), k)
		}
	}
	for m := range mr + 1 {
		for n := range nr + 1 {
			do(m, n, 1+r.IntN(9))
		}
	}
	for m := range mr {
		do(m+1, 1+r.IntN(nr), 30+r.IntN(10))
	}
	for n := range nr {
		do(1+r.IntN(mr), n+1, 30+r.IntN(10))
	}
	do(mr, nr, 513)
	do(1, nr, 1025)
	if t.Failed() {
		t.FailNow()
	}
}
