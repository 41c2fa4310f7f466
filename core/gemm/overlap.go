package gemm

import (
	"cmp"
	"math/big"
	"slices"
)

// The output may not share a byte with an operand (an element would be read after it was replaced) nor hold two of its
// own elements at one address (which of them stays would depend on threads). Both questions are about sums of
// multiples of strides:
//
// Within the output the answer is exact. With strides s and counts n there are two indices to one address when whole
// numbers d, not all zero and |d_i| < n_i, give Σ d_i·s_i = 0. For two axes the smallest such d is (s_2, -s_1)/gcd; for
// three, one d is tried after the other and the other two are a bounded Diophantine equation.
//
// Between output and operand three tests follow each other, of which the first that can tell answers:
//  1. The ranges of addresses are apart.
//  2. A modulus tells them apart: if g divides the larger strides of both, then modulo g either one lies inside a single
//     interval, made by its smaller strides. Intervals that are disjoint modulo g prove the two disjoint. This knows
//     every block of a larger row-major or column-major matrix or batch: columns side by side in one buffer, even and
//     odd elements, a head of each batch entry.
//  3. The addresses of one are sorted and those of the other looked up, for up to largestLookup elements each. Beyond,
//     the two are taken to overlap. That refuses nothing that blocks of matrices can form; it takes two layouts of
//     millions of elements, interleaved without a common period.

// largestLookup bounds the third test to 32 MiB of addresses.
const largestLookup = 1 << 22

// selfOverlaps reports whether two elements of l share a byte.
func (l layout) selfOverlaps() bool {
	if l.extent == 0 {
		return false
	}
	if l.repeats {
		return true
	}
	axes := slices.Clone(l.axes)
	slices.SortFunc(axes, func(a, b axis) int { return cmp.Compare(a.stride, b.stride) })
	nested, reach := true, l.width
	for _, a := range axes {
		nested = nested && a.stride >= reach
		reach += (a.count - 1) * a.stride
	}
	if nested {
		return false // each axis steps over everything that the smaller ones cover
	}
	// Strides are multiples of the width, so elements that share a byte share them all.
	slots, elements := l.extent/l.width, int64(1)
	for _, a := range axes {
		if elements > slots/a.count {
			return true // more elements than places
		}
		elements *= a.count
	}
	if len(axes) == 2 {
		return meets(axes[0], axes[1], 0)
	}
	slices.SortFunc(axes, func(a, b axis) int { return cmp.Compare(a.count, b.count) })
	for d := int64(0); d < axes[0].count; d++ { // -d gives the mirror image
		if meets(axes[1], axes[2], d*axes[0].stride) {
			return true
		}
	}
	return false
}

// meets reports whether x·a.stride + y·b.stride = -c has a solution in whole numbers |x| < a.count, |y| < b.count, other
// than x = y = 0.
func meets(a, b axis, c int64) bool {
	g := gcd(a.stride, b.stride)
	if c%g != 0 {
		return false
	}
	p, q := a.stride/g, b.stride/g // x·p + y·q = -c/g
	if c == 0 {
		return q < a.count && p < b.count
	}
	// All solutions have x = r modulo q. Products of two 61-bit numbers need more than 64 bits.
	x := new(big.Int)
	if q > 1 {
		x.ModInverse(big.NewInt(p), big.NewInt(q))
		x.Mul(x, big.NewInt(-c/g)).Mod(x, big.NewInt(q))
	}
	r := x.Int64()
	low := max(-(a.count - 1), ceilDivide(-c-(b.count-1)*b.stride, a.stride))
	high := min(a.count-1, floorDivide(-c+(b.count-1)*b.stride, a.stride))
	first := low + modulo(r-low, q) // the least x ≥ low that is r modulo q
	return low <= high && first <= high
}

// overlaps reports whether an element of x and one of y share a byte. It may say so of disjoint layouts only in the case
// described above.
func (x layout) overlaps(y layout) bool {
	if x.extent == 0 || y.extent == 0 {
		return false
	}
	if x.start+uint64(x.extent) <= y.start || y.start+uint64(y.extent) <= x.start {
		return false
	}
	return !apartByModulus(x, y) && !apartByLookup(x, y)
}

// apartByModulus is the second test; false means that it cannot tell.
func apartByModulus(x, y layout) bool {
	var strides []int64
	for _, a := range x.axes {
		strides = append(strides, a.stride)
	}
	for _, a := range y.axes {
		strides = append(strides, a.stride)
	}
	slices.Sort(strides)
	slices.Reverse(strides)
	g := int64(0)
	for _, s := range strides {
		g = gcd(g, s)
		ex, ey := innerExtent(x, s), innerExtent(y, s)
		if ex > g || ey > g {
			continue
		}
		gap := int64((y.start%uint64(g) + uint64(g) - x.start%uint64(g)) % uint64(g)) // from x up to y, modulo g
		if gap >= ex && g-gap >= ey {
			return true
		}
	}
	return false
}

// innerExtent is the extent in bytes of the part of l with strides below outer.
func innerExtent(l layout, outer int64) int64 {
	extent := l.width
	for _, a := range l.axes {
		if a.stride < outer {
			extent += (a.count - 1) * a.stride
		}
	}
	return extent
}

// apartByLookup is the third test; false means that they overlap or that there are too many elements to tell.
func apartByLookup(x, y layout) bool {
	starts, ok := x.runs()
	if !ok {
		return false
	}
	others, ok := y.runs()
	if !ok {
		return false
	}
	slices.Sort(starts.addresses)
	for _, s := range others.addresses {
		// The first run of x that ends after s: it overlaps unless it also begins past the end.
		i, _ := slices.BinarySearchFunc(starts.addresses, s, func(a, s uint64) int {
			if a+starts.length <= s {
				return -1
			}
			return 1
		})
		if i < len(starts.addresses) && starts.addresses[i] < s+others.length {
			return false
		}
	}
	return true
}

// runs are stretches of memory without gaps, all of one length in bytes.
type runs struct {
	addresses []uint64
	length    uint64
}

// runs lists the stretches of l, or reports false where there are more than largestLookup.
func (l layout) runs() (runs, bool) {
	r := runs{[]uint64{l.start}, uint64(l.width)}
	axes := slices.Clone(l.axes)
	slices.SortFunc(axes, func(a, b axis) int { return cmp.Compare(a.stride, b.stride) })
	for i, a := range axes {
		if i == 0 && a.stride == l.width {
			r.length *= uint64(a.count)
			continue
		}
		n := len(r.addresses)
		if a.count > int64(largestLookup/n) {
			return r, false
		}
		for j := int64(1); j < a.count; j++ {
			for _, s := range r.addresses[:n] {
				r.addresses = append(r.addresses, s+uint64(j*a.stride))
			}
		}
	}
	return r, true
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func modulo(a, m int64) int64 {
	if a %= m; a < 0 {
		a += m
	}
	return a
}

func floorDivide(a, b int64) int64 { return (a - modulo(a, b)) / b }

func ceilDivide(a, b int64) int64 { return -floorDivide(-a, b) }
