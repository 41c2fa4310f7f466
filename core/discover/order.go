package discover

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// The order of a sum is found by masks: +X at one summand, -X at another, a small unit at every other. A unit that meets X
// before X and -X have met is lost in it, so that the count of units left says how many summands join after those two. One
// pivot against every other summand gives the order in which all others reach it; the summands that reach it together are
// asked the same among themselves. (The idea of masks: Xie, Gao and Xue, "FPRev", USENIX ATC 2025; groups, exact sums, the
// place of the accumulator and narrow outputs are this package's.)

// masks is how the products of masks are made.
type masks struct {
	q         *asker
	sides     sides
	big, unit int // exponents of X and of the units
	most      int // units that one output element counts
	scale     float64
	// What losses must look like: units lost in X leave X as it is. Where they do not, other signs are tried.
	unitNegative bool
}

// calibrate chooses X and the units: the widest range in which single products come back as they are.
func calibrate(q *asker, at []int) (*masks, error) {
	one, two := q.s.oneSide(false), q.s.twoSides(false)
	m := &masks{q: q, scale: q.s.Alpha}
	if q.s.D == format.F32 || q.s.D == format.BF16 || q.s.D == format.F16 {
		m.scale = float64(float32(q.s.Alpha))
	}
	narrow := func(f format.Format) bool { return f.Info().ExponentBits < 8 }
	low, high := -60, 60
	if narrow(q.s.A) || narrow(q.s.B) || narrow(q.s.D) { // partial sums in f16 are possible
		low, high = -24, 15
	}
	const enough = 36 // fraction bits of the steps known, a rounding, and a thousand units
	for _, s := range []sides{one, two} {
		found, err := m.fit(s, at, low, high)
		if err != nil {
			return nil, err
		}
		if found && m.big-m.unit >= enough {
			break
		}
	}
	if m.big <= m.unit {
		return nil, inconsistent{"no single product comes back as it is"}
	}
	m.count()
	return m, nil
}

// wider is masks of the furthest reach there is; nil where that is no further.
func (m *masks) wider(at []int) (*masks, error) {
	w := &masks{q: m.q, scale: m.scale, unitNegative: m.unitNegative}
	low, high := -100, 100
	if m.q.s.D.Info().ExponentBits < 8 {
		low, high = -24, 30
	}
	s := m.q.s.twoSides(false)
	if s.a == format.F16 || s.b == format.F16 {
		high = 30
	}
	if found, err := w.fit(s, at, low, high); err != nil || !found || w.big-w.unit <= m.big-m.unit {
		return nil, err
	}
	w.count()
	return w, nil
}

// finer is masks that lose units even in steps that keep so many bits: fewer at once where X reaches no further.
func (m *masks) finer(at []int, bits int) (*masks, error) {
	w, err := m.wider(at)
	if err != nil {
		return nil, err
	}
	if w == nil {
		w = ptr(*m)
	}
	w.most = min(w.most, 1<<min(max(w.big-w.unit-bits, 0), 10))
	return w, nil
}

func (m *masks) count() {
	digits := m.q.s.D.Info().MantissaBits + 1
	if m.scale != 1 {
		digits -= 2
	}
	m.most = 1 << min(digits, 10)
}

// fit asks which single products come back as they are and takes the ends of the longest run of exponents, where it reaches
// further than what there is.
func (m *masks) fit(s sides, at []int, low, high int) (bool, error) {
	low, high = max(low, s.low), min(high, s.high)
	var list []question
	var exponents []int
	for e := low; e <= high; e++ {
		for _, k := range at {
			for _, negative := range []bool{false, true} {
				t := s.new()
				if !t.add(k, e, negative) {
					break
				}
				list, exponents = append(list, t.question()), append(exponents, e)
			}
		}
	}
	answers, err := m.q.ask(list)
	if err != nil {
		return false, err
	}
	good := map[int]bool{}
	for i, e := range exponents {
		negative := valueOf(s.b, signOf(list[i].b))*valueOf(s.a, signOf(list[i].a)) < 0
		want := m.scale * math.Ldexp(sign(negative), e)
		got := valueOf(m.q.s.D, answers[i])
		ok := near(got, want, m.scale)
		if was, seen := good[e]; seen {
			ok = ok && was
		}
		good[e] = ok
	}
	best, from := 0, 0
	for e := low; e <= high; {
		to := e
		for good[to] {
			to++
		}
		if to-e > best {
			best, from = to-e, e
		}
		e = max(to, e+1)
	}
	if best-1 <= m.big-m.unit {
		return false, nil
	}
	m.sides, m.unit, m.big = s, from, from+best-1
	return true, nil
}

// signOf is a vector's one special element, or what it is filled with.
func signOf(v vector) uint64 {
	if len(v.at) > 0 {
		return v.at[0].bits
	}
	return v.fill
}

// near tells whether an output is a value: exactly, unless alpha has been multiplied in, which may round.
func near(got, want, scale float64) bool {
	if scale == 1 {
		return got == want
	}
	return math.Abs(got-want) <= math.Abs(want)*0x1p-6
}

// mask is the question of i against j, with units at some other positions.
func (m *masks) mask(i, j int, units []int, negative bool) (question, bool) {
	t := m.sides.new()
	ok := true
	var first uint64
	put := func(position, e int, negative bool) {
		if position != start {
			ok = t.add(position, e, negative) && ok
			return
		}
		var fits bool
		first, fits = power(m.q.s.C, e, negative)
		ok = ok && fits
	}
	put(i, m.big, false)
	put(j, m.big, true)
	for _, l := range units {
		put(l, m.unit, negative)
	}
	question := t.question()
	question.start = first
	return question, ok
}

// left is how many of some units an answer counts; ok is false where it is no such count.
func (m *masks) left(answer uint64, of int, negative bool) (n int, ok bool) {
	v := valueOf(m.q.s.D, answer) / m.scale
	if negative {
		v = -v
	}
	v = math.Ldexp(v, -m.unit)
	if math.IsNaN(v) || v < -0.01 || v > float64(of)+0.5 {
		return 0, false
	}
	n = int(math.Round(v))
	return n, near(float64(n), v, m.scale)
}

// order finds the join of some positions.
type orderer struct {
	*masks
	r         *rounds
	positions []int
	odd       atomic.Int64
}

// findOrder asks for the join of positions, of which there are two or more.
func findOrder(m *masks, positions []int) (*join, error) {
	o := &orderer{masks: m, r: newRounds(), positions: positions}
	var result *join
	o.r.spawn(func() {
		whole := o.members(positions, len(positions)+1, false)
		if len(whole) != 1 {
			panic(inconsistent{fmt.Sprintf("the %d summands fall into %d sums that never meet", len(positions), len(whole))})
		}
		result = whole[0]
	})
	err := o.r.run(m.q.ask)
	if fault, ok := err.(faultError); ok {
		if why, ok := fault.value.(inconsistent); ok {
			return nil, why
		}
	}
	return result, err
}

// inquiry is one pair with some of the units. Units that are lost leave X as it is only where no rounding takes them off it: a
// sum of -X and +u, rounded toward zero, is none. So an answer that is no count is asked again with units of the other sign,
// then with the units in two halves, until each is alone.
type inquiry struct {
	pair     int
	units    []int
	negative bool
	again    bool
}

// lost asks how many of all summands are lost when is[x] and js[x] meet, themselves included, for each x.
func (o *orderer) lost(is, js []int) []int {
	result := make([]int, len(js))
	var work []inquiry
	for x := range js {
		result[x] = 2
		units := slices.DeleteFunc(slices.Clone(o.positions), func(l int) bool { return l == is[x] || l == js[x] })
		for part := range slices.Chunk(units, o.most) {
			work = append(work, inquiry{pair: x, units: part, negative: o.unitNegative})
		}
	}
	for len(work) > 0 {
		list := make([]question, len(work))
		for n, w := range work {
			var ok bool
			if list[n], ok = o.mask(is[w.pair], js[w.pair], w.units, w.negative); !ok {
				panic(inconsistent{"internal fault: a mask does not fit the format"})
			}
		}
		var next []inquiry
		for n, answer := range o.r.ask(list) {
			w := work[n]
			left, ok := o.left(answer, len(w.units), w.negative)
			switch {
			case ok:
				result[w.pair] += len(w.units) - left
			case !w.again:
				next = append(next, inquiry{w.pair, w.units, !w.negative, true})
			case len(w.units) == 1: // it has changed X, so they have met
				result[w.pair]++
			case o.odd.Add(1) > maxOdd:
				panic(inconsistent{fmt.Sprintf("with +2^%d at %s, the same negative at %s and units of 2^%d at others, sums are no counts of units", o.big, name(is[w.pair]), name(js[w.pair]), o.unit)})
			default:
				half := len(w.units) / 2
				next = append(next, inquiry{w.pair, w.units[:half], !w.negative, false}, inquiry{w.pair, w.units[half:], !w.negative, false})
			}
		}
		work = next
	}
	return result
}

// maxOdd bounds the answers that are no counts.
const maxOdd = 20000

func name(position int) string {
	if position == start {
		return "the start value"
	}
	return fmt.Sprintf("k = %d", position)
}

// members splits summands that meet at one event, at which so many are lost in all, into the sums that meet there. alike:
// another event of the same chain with as many members had nothing but single ones, so that a few questions suffice.
func (o *orderer) members(set []int, bound int, alike bool) []*join {
	if len(set) == 1 {
		return []*join{{position: set[0]}}
	}
	if alike && o.single(set, bound, 1) {
		return leaves(set)
	}
	pivot := set[0]
	times := o.lost(slices.Repeat(set[:1], len(set)-1), set[1:])
	inside := map[int][]int{}
	var apart, order []int
	for i, j := range set[1:] {
		switch t := times[i]; {
		case t > bound:
			panic(inconsistent{fmt.Sprintf("%s and %s meet where %d summands are lost, but %d had met before them", name(pivot), name(j), t, bound)})
		case t == bound:
			apart = append(apart, j)
		default:
			if inside[t] == nil {
				order = append(order, t)
			}
			inside[t] = append(inside[t], j)
		}
	}
	slices.Sort(order)
	sum := o.spine(&join{position: pivot}, order, inside)
	if len(apart) == 0 {
		return []*join{sum}
	}
	if sum.leaf() && len(apart) > 2 && o.single(apart, bound, 1, 2, len(apart)/2) {
		return append([]*join{sum}, leaves(apart)...)
	}
	return append([]*join{sum}, o.members(apart, bound, false)...)
}

// spine adds what joins a sum, event by event.
func (o *orderer) spine(sum *join, order []int, inside map[int][]int) *join {
	parts := make([][]*join, len(order))
	exact := make([]bool, len(order))
	first := map[int]int{} // the first event with so many members
	var early, late []func()
	size := 1
	for i, t := range order {
		set := inside[t]
		switch {
		case t == size+len(set):
			if at, again := first[len(set)]; again {
				late = append(late, func() { parts[i] = o.members(set, t, len(parts[at]) == len(set)) })
			} else {
				first[len(set)] = i
				early = append(early, func() { parts[i] = o.members(set, t, false) })
			}
		case t == size+1:
			parts[i], exact[i] = leaves(set), true
		default:
			panic(inconsistent{fmt.Sprintf("%d summands join %d others at once (%s among them), but %d are lost there", len(set), size, name(set[0]), t-size)})
		}
		size += len(set)
	}
	o.r.parallel(early...)
	o.r.parallel(late...)
	for i := range order {
		sum = event(exact[i], append([]*join{sum}, parts[i]...)...)
	}
	return sum
}

// single tells whether neighbours of a set, at some distances in the list, do not meet before the event.
func (o *orderer) single(set []int, bound int, distances ...int) bool {
	var is, js []int
	for _, d := range distances {
		for i := range set {
			if i+d < len(set) && d > 0 {
				is, js = append(is, set[i]), append(js, set[i+d])
			}
		}
	}
	for _, t := range o.lost(is, js) {
		if t != bound {
			return false
		}
	}
	return true
}

func leaves(set []int) []*join {
	list := make([]*join, len(set))
	for i, k := range set {
		list[i] = &join{position: k}
	}
	return list
}
