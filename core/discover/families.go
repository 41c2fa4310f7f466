package discover

import (
	"math"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
)

// usualTiles are block sizes along K that libraries have, the likely ones first.
var usualTiles = []int{32, 64, 16, 128, 8, 256, 4, 512, 2}

// whole is a run of any length.
const whole = 1 << 30

// chains are the plans of one accumulator for k products; some: for k or fewer, as the last of several slices has.
func chains(k int, some bool) []plan.Plan {
	list := []plan.Plan{plan.Plain()}
	for _, where := range []plan.Residue{plan.ResidueFirst, plan.ResidueLast} {
		for _, tile := range usualTiles {
			if k%tile != 0 || some && tile > 1 {
				list = append(list, plan.Tiled(where, tile))
			}
		}
	}
	return list
}

// oddChains are those with tiles of other sizes.
func oddChains(k int) []plan.Plan {
	var list []plan.Plan
	for _, where := range []plan.Residue{plan.ResidueFirst, plan.ResidueLast} {
		for tile := 3; tile <= min(k, 512); tile++ {
			if k%tile != 0 && !slices.Contains(usualTiles, tile) {
				list = append(list, plan.Tiled(where, tile))
			}
		}
	}
	return list
}

// earlier says that i and j meet before they meet l.
type earlier struct{ i, j, l int }

// allows tells whether a partition of k that is summed part by part goes with what was seen: two of one part meet before
// either meets one of another.
func allows(seen []earlier, part func(k int) int) bool {
	for _, e := range seen {
		i, j, l := part(e.i), part(e.j), part(e.l)
		if i != j && (l == i || l == j) {
			return false
		}
	}
	return true
}

// earliers draws triples from a join: pairs of summands and one that joins them later.
func earliers(j *join) []earlier {
	var list []earlier
	const most = 4000
	var walk func(j *join) []int
	walk = func(j *join) []int {
		if j.leaf() {
			if j.position == start {
				return nil
			}
			return []int{j.position}
		}
		var parts [][]int
		all := []int{}
		for _, p := range j.parts {
			parts = append(parts, walk(p))
			all = append(all, parts[len(parts)-1]...)
		}
		if j.exact {
			return all
		}
		// In each part some pairs, and something of each other part.
		for a, part := range parts {
			if len(part) < 2 {
				continue
			}
			for b, other := range parts {
				if a == b || len(other) == 0 || b > a+3 && b < len(parts)-1 {
					continue
				}
				for _, pair := range [][2]int{{0, len(part) - 1}, {0, len(part) / 2}, {len(part) / 2, len(part) - 1}, {len(part) - 2, len(part) - 1}, {0, 1}} {
					if pair[0] != pair[1] && len(list) < most {
						list = append(list, earlier{part[pair[0]], part[pair[1]], other[0]}, earlier{part[pair[0]], part[pair[1]], other[len(other)-1]})
					}
				}
			}
		}
		return all
	}
	walk(j)
	return list
}

// sliced is contiguous slices of width k, in the words a library would use: a number of slices in units of a tile.
func sliced(k, width int, of plan.Plan, merge plan.Merge) plan.Plan {
	for _, grain := range []int{64, 128, 32, 16, 8} {
		if width%grain == 0 {
			units := ceilDiv(k, grain)
			slices := ceilDiv(units, width/grain)
			if ceilDiv(units, slices)*grain == width {
				return plan.Plan{Split: &plan.Split{Slices: slices, Grain: grain, Of: &of, Merge: merge}}
			}
		}
	}
	n := ceilDiv(k, width)
	if ceilDiv(k, n) == width {
		return plan.Plan{Split: &plan.Split{Slices: n, Grain: 1, Of: &of, Merge: merge}}
	}
	return plan.Plan{Promote: &plan.Promote{Interval: width, Of: &of, Merge: merge}}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// folds are the ways in which n lanes are added, the usual ones alone where few is true.
func folds(n int, few bool) [][]plan.Fold {
	list := [][]plan.Fold{plan.Forward()}
	if n > 2 {
		list = append(list, plan.CountDown(n))
		if n&(n-1) == 0 {
			list = append(list, plan.Neighbours(n))
		}
	}
	most := 64
	if few {
		most = 4
	}
	for to := 2; to*2 <= n && to <= most; to++ {
		list = append(list, []plan.Fold{{To: to}, {To: 1}})
		if n%to == 0 {
			list = append(list, []plan.Fold{{To: to, Adjacent: true}, {To: 1}})
		}
		if to > 2 && n > 2*to {
			list = append(list, append([]plan.Fold{{To: to}}, plan.CountDown(to)...))
		}
	}
	return list
}

// laneSizes are numbers of lanes to try for k products.
func laneSizes(k int) []int {
	var list []int
	for w := 2; w <= min(k, 1024); w++ {
		if w <= 64 || w%8 == 0 && w <= 512 || w&(w-1) == 0 {
			list = append(list, w)
		}
	}
	return list
}

var laneRuns = []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}

// lanesOf gives the ways to deal k to lanes that a partition test allows: with run and whole.
func lanesOf(k int, fits func(part func(k int) int) bool, try func(count, run int, isWhole bool) bool) bool {
	// More lanes than there are runs are like fewer, but for the way they are folded.
	spare := func(count, run int) bool {
		runs := ceilDiv(k, run)
		return count > runs && (count&(count-1) != 0 || count >= 4*runs)
	}
	for _, count := range laneSizes(k) {
		for _, run := range laneRuns {
			if run*2 > k || spare(count, run) {
				continue
			}
			if fits(func(k int) int { return k / run % count }) && !try(count, run, false) {
				return false
			}
		}
		for _, most := range []int{whole, 64, 32, 128, 16, 256} {
			run := min(most, ceilDiv(k, count))
			if slices.Contains(laneRuns, run) && most != whole {
				continue
			}
			if fits(func(k int) int { return k / run % count }) && !try(count, most, true) {
				return false
			}
		}
	}
	return true
}

// plans calls try with the plans for k products that seen allows, the simple ones first, until it returns false; nested ones
// only where that is asked. The merges are in format f; which formats partial sums really pass is found out later.
func plans(k int, f format.Format, seen []earlier, nested bool, try func(plan.Plan) bool) {
	merge := plan.In(f)
	fits := func(part func(k int) int) bool { return allows(seen, part) }
	offer := func(list []plan.Plan, around func(plan.Plan) plan.Plan) bool {
		for _, p := range list {
			if !try(around(p)) {
				return false
			}
		}
		return true
	}
	if !nested && !offer(chains(k, false), func(p plan.Plan) plan.Plan { return p }) {
		return
	}
	var widths []int
	for width := 1; width < k; width++ {
		if fits(func(k int) int { return k / width }) {
			widths = append(widths, width)
		}
	}
	// Slices of many sizes pass where little was seen to forbid them: the usual ones first, and not all.
	slices.SortStableFunc(widths, func(a, b int) int { return usual(b) - usual(a) })
	const mostWidths = 600
	widths = widths[:min(len(widths), mostWidths)]
	for _, width := range widths {
		if !nested && !offer(chains(width, true), func(p plan.Plan) plan.Plan { return sliced(k, width, p, merge) }) {
			return
		}
	}
	if nested && !slicesOf(k, widths, merge, fits, try) {
		return
	}
	// k in lanes, and inside each lane a chain or one that restarts.
	ok := lanesOf(k, fits, func(count, run int, isWhole bool) bool {
		deal := func(of plan.Plan, f []plan.Fold) plan.Plan {
			if isWhole {
				return plan.Contiguous(count, run, of, f, merge)
			}
			return plan.Dealt(count, run, of, f, merge)
		}
		var inner []plan.Plan
		if !nested {
			inner = chains(ceilDiv(k, count), true)
		} else {
			for _, interval := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512} {
				if interval < ceilDiv(k, count) {
					inner = append(inner, plan.Plan{Promote: &plan.Promote{Interval: interval, Of: ptr(plan.Plain()), Merge: merge}})
				}
			}
			for _, vector := range []int{2, 4, 8} {
				inner = append(inner, plan.Dealt(vector, 1, plan.Plain(), plan.Forward(), merge))
			}
		}
		for _, f := range folds(count, nested) {
			if !offer(inner, func(p plan.Plan) plan.Plan { return deal(p, f) }) {
				return false
			}
		}
		for _, buffers := range []int{1, ceilDiv(count, 2), 2, 3, 4, 8} {
			if buffers > count {
				continue
			}
			if !offer(inner, func(p plan.Plan) plan.Plan {
				d := deal(p, plan.Forward())
				d.Lanes.Buffers = buffers
				return d
			}) {
				return false
			}
		}
		return true
	})
	if !ok {
		return
	}
	if !nested {
		for _, p := range oddChains(k) {
			if !try(p) {
				return
			}
		}
		return
	}
	for _, vector := range []int{1, 2, 4} {
		for blocks := 2; blocks <= 1024; blocks++ {
			tile := 128 * vector
			if tile < k && fits(func(k int) int { return k / tile % blocks }) && !try(plan.Dot(blocks, vector, merge)) {
				return
			}
			if blocks*tile >= k {
				break
			}
		}
	}
}

// slicesOf are slices, and in each lanes or an accumulator that restarts.
func slicesOf(k int, widths []int, merge plan.Merge, fits func(part func(k int) int) bool, try func(plan.Plan) bool) bool {
	for _, width := range widths {
		for _, interval := range []int{4, 8, 16, 32, 64, 128, 256, 512} {
			if interval < width && fits(func(k int) int { return k/width<<20 + k%width/interval }) {
				of := plan.Plan{Promote: &plan.Promote{Interval: interval, Of: ptr(plan.Plain()), Merge: merge}}
				if !try(sliced(k, width, of, merge)) {
					return false
				}
			}
		}
		inSlice := func(part func(k int) int) bool {
			return fits(func(k int) int { return k/width<<20 + part(k%width) })
		}
		if !lanesOf(min(width, 4096), inSlice, func(count, run int, isWhole bool) bool {
			for _, f := range folds(count, true) {
				inner := plan.Dealt(count, run, plan.Plain(), f, merge)
				inner.Lanes.Whole = isWhole
				if !try(sliced(k, width, inner, merge)) {
					return false
				}
			}
			return true
		}) {
			return false
		}
	}
	return true
}

// usual says how usual a number is as a size: by the power of two in it.
func usual(n int) int {
	return int(math.Log2(float64(n & -n)))
}

func ptr[T any](v T) *T { return &v }
