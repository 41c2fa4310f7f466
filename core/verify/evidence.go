package verify

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// wantedBits is the evidence under which a searched plan stays undecided: chance agreement below 2^-30.
const wantedBits = 30

// Two ways an agreeing plan may still be the wrong one are weighed, and the evidence is the weaker answer.
//
// Chance: none of the plans tried is right, and one agrees by accident. How likely a wrong plan's value of an element is the
// recorded one is read off the rejected plans: where their values lie thousands of units in the last place around the
// recorded one, hitting it is a matter of one in thousands; where most of them have it too, agreement says nothing. Elements
// count apart, elements that repeat one another once, and every plan tried is one more chance.
//
// Damage: another plan tried is right, and the output was changed. If a rejected plan's whole output differs in one element
// alone, one small change separates the two, and the output does not tell which plan computed it.

// ulpBits is what it takes to name a change of so many units in the last place, of either sign.
func ulpBits(ulps uint64) float64 { return math.Log2(1 + 2*float64(ulps)) }

// damage is what it takes to name the change from one element's bits to other ones. Differing bits at a distance of zero
// (zeros of both signs, two NaNs) are one step apart.
func (r *replay) damage(from, to uint64) float64 {
	if from == to {
		return 0
	}
	f := r.c.Out.Format
	return min(ulpBits(max(f.Ulps(from, to), 1)), float64(f.Info().Bits))
}

// fewUlps is how small a change of one element is taken to be possible: a flip of any of the low eight bits, for example.
const fewUlps = 256

// near tells whether a whole output differs from the one that agrees by one small change.
func (r *replay) near(g *gap) bool {
	return g.differing == 1 && g.bits <= ulpBits(fewUlps) && g.bits+math.Log2(float64(r.count)) < wantedBits
}

// spreadBits estimates the probability, as bits, that a wrong plan has the recorded value of an element from the distances of
// the rejected plans' values (as damage, ascending). The k nearest of c lie within d units: a density of k+1 of c+1 (one more
// plan as near as the k-th, since c plans are no proof that there is none) over 2d+1 values. The greatest of these estimates
// counts.
func spreadBits(distances []float64) float64 {
	least := math.Inf(1)
	for i, d := range distances {
		least = min(least, d-math.Log2(float64(i+2)/float64(len(distances)+1)))
	}
	return max(least, 0)
}

// prior is how many plans' worth of weight the share over all elements has beside the plans seen at one.
const prior = 4

// seen holds, for the evidence, elements with the values of rejected plans: values[i] of element i.
type seen struct {
	want   []uint64
	values [][]uint64
}

// chance sums over the elements what agreement there is worth: by the share of rejected plans that have the recorded value
// too (drawn toward that share over all elements, which few plans at one element say better than they themselves), or by
// the spread of their values where that says more, and never more than the element has bits. An element repeats another
// where the recorded value and all rejected plans' values are the same.
func (r *replay) chance(s seen) float64 {
	equal, all := 0, 0
	for i, want := range s.want {
		for _, v := range s.values[i] {
			if all++; v == want {
				equal++
			}
		}
	}
	if equal == all { // no element was seen to give a wrong plan away: agreement on any number of them is no evidence
		return 0
	}
	share := float64(equal+1) / float64(all+2) // one agreement more than was seen (Laplace)
	total, width := 0.0, float64(r.c.Out.Format.Info().Bits)
	done := map[string]bool{}
	var distances []float64
	for i, want := range s.want {
		if len(s.values[i]) == 0 {
			continue
		}
		distances, equal = distances[:0], 0
		for _, v := range s.values[i] {
			if v == want {
				equal++
			}
			distances = append(distances, r.damage(want, v))
		}
		if equal == len(distances) && equal > prior { // common, and dear to keep apart
			continue
		}
		key := keyOf(append([]uint64{want}, s.values[i]...))
		if done[key] {
			continue
		}
		done[key] = true
		slices.Sort(distances)
		byShare := -math.Log2((float64(equal) + prior*share) / float64(len(distances)+prior))
		total += min(max(byShare, spreadBits(distances)), width)
	}
	return total
}

// blockEvidence is the chance evidence from the elements of the blocks.
func (r *replay) blockEvidence(rejected []*trial) float64 {
	var s seen
	base := 0
	for b, block := range r.blocks {
		for i, want := range block.want {
			var values []uint64
			for _, t := range rejected {
				if t.done > b {
					values = append(values, t.values[base+i])
				}
			}
			s.want, s.values = append(s.want, want), append(s.values, values)
		}
		base += len(block.want)
	}
	return r.chance(s)
}

// outputs counts the different outputs among plans that were rejected, as far as they were looked at, and the one that agrees.
func outputs(rejected []*trial) int {
	kinds := map[string]bool{}
	for _, t := range rejected {
		kinds[keyOf(t.values)] = true
	}
	return len(kinds) + 1
}

// A gap is how two whole outputs differ.
type gap struct {
	differing, index int     // index: the one element, where there is one
	bits             float64 // as trial.bits
}

// gapOf compares whole outputs.
func (r *replay) gapOf(out, other []byte) *gap {
	f := r.c.Out.Format
	a, b := gemm.Dense(out, f, 1, 1, r.count), gemm.Dense(other, f, 1, 1, r.count)
	g := &gap{}
	for i := range r.count {
		if x, y := a.Bits(0, 0, i), b.Bits(0, 0, i); x != y {
			g.differing, g.index = g.differing+1, i
			g.bits += r.damage(x, y)
		}
	}
	return g
}

// How much more than the search itself the evidence may cost, in whole replays: of plans that one change may separate from
// the one that agrees, and of plans to see how far a wrong one lies.
const (
	maxRivals     = 4
	rivalsForBits = 3
	// outputsForBits is how many whole outputs of rejected plans, computed anyway, the evidence looks at.
	outputsForBits = 16
	// rivalWork bounds both for large multiplications, in multiply-adds.
	rivalWork = 16 << 30
)

// weighed is the evidence for a plan that agrees.
type weighed struct {
	rejected  int
	bits      float64 // against chance
	neighbour *trial  // a plan one small change away, nil for none
}

// weigh looks at how the rejected trials differ from the output that agrees with the record.
func (r *replay) weigh(ctx context.Context, found *trial, out []byte) (weighed, error) {
	var rejected []*trial
	for _, t := range r.trials {
		if t == found || t.refused != nil {
			continue
		}
		if t.out != nil && t.whole == nil {
			t.whole = r.gapOf(out, t.out)
		}
		if t.differing > 0 || t.whole != nil && t.whole.differing > 0 {
			rejected = append(rejected, t)
		}
	}
	w := weighed{rejected: len(rejected)}
	if len(rejected) == 0 {
		return w, nil
	}
	// How near a trial is: by all of its output where that is known.
	nearness := func(t *trial) float64 {
		if t.whole != nil {
			return t.whole.bits
		}
		return t.bits / float64(max(len(t.values), 1)) * float64(r.count)
	}
	slices.SortStableFunc(rejected, func(a, b *trial) int { return cmp.Compare(nearness(a), nearness(b)) })

	runs := uint64(0)
	affordable := func() bool { return runs == 0 || runs*r.cost() < rivalWork }
	unresolved := 0
	for _, t := range rejected {
		if t.differing > 1 || t.whole == nil && r.far(t) {
			continue
		}
		if t.whole == nil {
			// Blocks that it was not compared on are cheaper than all of its output.
			for !r.far(t) {
				more, err := r.look(ctx, t)
				if err != nil {
					return w, err
				}
				if !more {
					break
				}
			}
			if r.far(t) {
				continue
			}
			if unresolved++; unresolved > maxRivals || !affordable() {
				continue
			}
			runs++
			if err := r.run(ctx, t); err != nil || t.refused != nil {
				return w, err
			}
			t.whole = r.gapOf(out, t.out)
		}
		if r.near(t.whole) {
			w.neighbour = t
			return w, nil // there is no telling it from the plan that agrees, whatever else is seen
		}
	}

	tried := math.Log2(float64(outputs(rejected)))
	w.bits = r.blockEvidence(rejected) - tried
	// Too little so far: more elements of some plans, then all elements of fewer, near and far ones alike: a wrong plan is
	// any of them.
	some := quantiles(rejected, maxRivals)
	for range r.blocks {
		if w.bits >= wantedBits {
			return w, nil
		}
		grew := false
		for _, t := range some {
			more, err := r.look(ctx, t)
			if err != nil {
				return w, err
			}
			grew = grew || more
		}
		if !grew {
			break
		}
		w.bits = r.blockEvidence(rejected) - tried
	}
	if w.bits >= wantedBits || len(r.blockWants()) >= r.count {
		return w, nil
	}
	var s seen
	f := r.c.Out.Format
	var others []*gemm.Matrix
	for _, t := range quantiles(rejected, rivalsForBits) {
		if t.out == nil && affordable() {
			runs++
			if err := r.run(ctx, t); err != nil {
				return w, err
			}
		}
	}
	var whole []*trial
	for _, t := range rejected {
		if t.out != nil {
			whole = append(whole, t)
		}
	}
	for _, t := range quantiles(whole, outputsForBits) {
		others = append(others, gemm.Dense(t.out, f, 1, 1, r.count))
	}
	if len(others) == 0 {
		return w, nil
	}
	agreed := gemm.Dense(out, f, 1, 1, r.count)
	for i := range r.count {
		values := make([]uint64, len(others))
		for j, other := range others {
			values[j] = other.Bits(0, 0, i)
		}
		s.want, s.values = append(s.want, agreed.Bits(0, 0, i)), append(s.values, values)
	}
	w.bits = max(w.bits, r.chance(s)-tried)
	return w, nil
}

// quantiles takes up to n trials evenly from a list, first and last among them.
func quantiles(list []*trial, n int) []*trial {
	if len(list) <= n {
		return list
	}
	var some []*trial
	for i := range n {
		some = append(some, list[i*(len(list)-1)/(n-1)])
	}
	return some
}

// blockWants are the recorded bits of all blocks.
func (r *replay) blockWants() []uint64 {
	var all []uint64
	for _, b := range r.blocks {
		all = append(all, b.want...)
	}
	return all
}
