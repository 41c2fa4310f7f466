package gemm

import (
	"errors"
	"math"
	"math/rand"
	"testing"
)

const base = 1 << 20

func testLayout(t testing.TB, width, offset int64, shape, strides [3]int64) layout {
	t.Helper()
	l, err := newLayout("x", base, width, offset, shape, strides)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// cover counts the elements at each address, from the definition alone.
func cover(width, offset int64, shape, strides [3]int64) map[int64]int {
	bytes := map[int64]int{}
	for x := int64(0); x < shape[0]; x++ {
		for y := int64(0); y < shape[1]; y++ {
			for z := int64(0); z < shape[2]; z++ {
				first := base + width*(offset+x*strides[0]+y*strides[1]+z*strides[2])
				for i := int64(0); i < width; i++ {
					bytes[first+i]++
				}
			}
		}
	}
	return bytes
}

func randomLayout(r *rand.Rand, reach int) (width, offset int64, shape, strides [3]int64) {
	for i := range shape {
		shape[i] = int64(r.Intn(6))
		if r.Intn(4) > 0 && shape[i] == 0 {
			shape[i] = 1
		}
		strides[i] = int64(r.Intn(2*reach+1) - reach)
	}
	return []int64{1, 2, 4, 8}[r.Intn(4)], int64(r.Intn(2*reach+1) - reach), shape, strides
}

func TestOverlapAgainstEnumeration(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	var counts [2][2]int
	for i := 0; i < 60000; i++ {
		reach := []int{3, 12, 40}[i%3]
		w1, o1, n1, s1 := randomLayout(r, reach)
		w2, o2, n2, s2 := randomLayout(r, reach)
		l1, l2 := testLayout(t, w1, o1, n1, s1), testLayout(t, w2, o2, n2, s2)
		c1, c2 := cover(w1, o1, n1, s1), cover(w2, o2, n2, s2)
		self, cross := false, false
		for a, n := range c1 {
			self = self || n > 1
			cross = cross || c2[a] > 0
		}
		if got := l1.selfOverlaps(); got != self {
			t.Fatalf("shape %v strides %v: overlaps itself %v, want %v", n1, s1, got, self)
		}
		if got := l1.overlaps(l2); got != cross {
			t.Fatalf("width %d offset %d shape %v strides %v and %d %d %v %v: overlap %v, want %v",
				w1, o1, n1, s1, w2, o2, n2, s2, got, cross)
		}
		if apartByModulus(l1, l2) && cross && l1.extent > 0 && l2.extent > 0 {
			t.Fatalf("a modulus told apart what overlaps: %v %v and %v %v", n1, s1, n2, s2)
		}
		counts[0][index(self)]++
		counts[1][index(cross)]++
	}
	for i, c := range counts {
		if c[0] < 5000 || c[1] < 5000 {
			t.Errorf("question %d was answered %v times: the cases are one-sided", i, c)
		}
	}
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Layouts far too large to enumerate, of the kinds that people use.
func TestOverlapLarge(t *testing.T) {
	const big = 1 << 17
	row := [3]int64{0, 3 * big, 1}
	for _, c := range []struct {
		name             string
		w1, o1           int64
		n1, s1           [3]int64
		w2, o2           int64
		n2, s2           [3]int64
		self, cross, mod bool
	}{
		{"columns side by side", 4, 0, [3]int64{1, big, big}, row, 4, big, [3]int64{1, big, big}, row, false, false, true},
		{"columns that touch", 4, 0, [3]int64{1, big, big + 1}, row, 4, big, [3]int64{1, big, big}, row, false, true, false},
		{"even and odd", 2, 0, [3]int64{1, big, big}, [3]int64{0, 2 * big, 2}, 2, 1, [3]int64{1, big, big}, [3]int64{0, 2 * big, 2}, false, false, true},
		{"one a transpose", 2, 0, [3]int64{1, big, big}, [3]int64{0, 3, 3 * big}, 2, 2, [3]int64{1, big, big}, [3]int64{0, 3 * big, 3}, false, false, true},
		{"heads of a batch", 2, 0, [3]int64{64, 1000, 1000}, [3]int64{3e6, 1000, 1}, 2, 1e6, [3]int64{64, 1000, 1000}, [3]int64{3e6, 1000, 1}, false, false, true},
		{"reversed rows", 4, 3 * big * (big - 1), [3]int64{1, big, big}, [3]int64{0, -3 * big, 1}, 4, 2 * big, [3]int64{1, big, big}, row, false, false, true},
		{"short row stride", 4, 0, [3]int64{1, big, big}, [3]int64{0, big - 1, 1}, 4, 2 * big * big, [3]int64{1, 1, 1}, row, true, false, false},
		{"batch through rows", 4, 0, [3]int64{big, 3, 7}, [3]int64{7, 7 * big, 1}, 4, 21 * big, [3]int64{1, 9, 9}, [3]int64{0, 9, 1}, false, false, false},
	} {
		l1, l2 := testLayout(t, c.w1, c.o1, c.n1, c.s1), testLayout(t, c.w2, c.o2, c.n2, c.s2)
		if got := l1.selfOverlaps(); got != c.self {
			t.Errorf("%s: overlaps itself %v", c.name, got)
		}
		if got := l1.overlaps(l2); got != c.cross {
			t.Errorf("%s: overlap %v", c.name, got)
		}
		if got := l2.overlaps(l1); got != c.cross {
			t.Errorf("%s, the other way: overlap %v", c.name, got)
		}
		if c.mod && !apartByModulus(l1, l2) {
			t.Errorf("%s: no modulus", c.name)
		}
	}
}

// Three axes with no nesting, where only the Diophantine equation tells.
func TestSelfOverlapThreeAxes(t *testing.T) {
	const p, q, s = 1000003, 1414213, 1732051 // p·x + q·y + s·z = 0 needs coefficients of about sqrt(p)
	if testLayout(t, 8, 0, [3]int64{50, 50, 50}, [3]int64{p, q, s}).selfOverlaps() {
		t.Error("small counts: no two elements meet")
	}
	if !testLayout(t, 1, 0, [3]int64{2000, 2000, 2000}, [3]int64{p, q, s}).selfOverlaps() {
		t.Error("8e9 elements in 6e9 places do not meet")
	}
	if !testLayout(t, 2, 0, [3]int64{3, 11, 8}, [3]int64{35, 14, 10}).selfOverlaps() { // 2·35 = 5·14 = 7·10
		t.Error("2·35 = 7·10 was not found")
	}
}

func TestLayoutExtent(t *testing.T) {
	const most = math.MaxInt64
	for _, c := range []struct {
		name           string
		data           uint64
		width, offset  int64
		shape, strides [3]int64
		want           Kind
	}{
		{"plain", base, 4, 0, [3]int64{1, 2, 3}, [3]int64{6, 3, 1}, 0},
		{"empty and absurd", 0, 4, most, [3]int64{most, 0, most}, [3]int64{most, most, -most - 1}, 0},
		{"NULL", 0, 4, 0, [3]int64{1, 1, 1}, [3]int64{}, KindArgument},
		{"negative rows", base, 4, 0, [3]int64{1, -1, 1}, [3]int64{}, KindShape},
		{"negative columns of nothing", base, 4, 0, [3]int64{0, 1, -1}, [3]int64{}, KindShape},
		{"stride past the end", base, 4, 0, [3]int64{1, 2, 1}, [3]int64{0, most, 0}, KindShape},
		{"least stride", base, 4, 0, [3]int64{1, 2, 1}, [3]int64{0, math.MinInt64, 0}, KindShape},
		{"least stride, one row", base, 4, 0, [3]int64{1, 1, 1}, [3]int64{0, math.MinInt64, 0}, 0},
		{"product past 64 bits", base, 8, 0, [3]int64{1 << 31, 1 << 31, 1 << 31}, [3]int64{1 << 31, 1 << 31, 1 << 31}, KindShape},
		{"sum past 64 bits", base, 8, most, [3]int64{2, 2, 2}, [3]int64{most / 2, most / 2, most / 2}, KindShape},
		{"least offset", base, 8, math.MinInt64, [3]int64{1, 1, 1}, [3]int64{}, KindShape},
		{"below address 0", base, 8, 0, [3]int64{1, base, 1}, [3]int64{0, -1, 0}, KindShape},
		{"just above address 0", base, 8, 0, [3]int64{1, base / 8, 1}, [3]int64{0, -1, 0}, 0},
		{"above the last address", math.MaxUint64 - 7, 4, 2, [3]int64{1, 1, 1}, [3]int64{}, KindShape},
		{"width overflows", base, 8, 0, [3]int64{1, 1 << 60, 1}, [3]int64{0, 1, 0}, KindShape},
	} {
		_, err := newLayout("x", c.data, c.width, c.offset, c.shape, c.strides)
		got := Kind(0)
		var refusal *Error
		if errors.As(err, &refusal) {
			got = refusal.Kind
		}
		if got != c.want {
			t.Errorf("%s: kind %d, want %d (%v)", c.name, got, c.want, err)
		}
	}
}
