package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/rules"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// An output that no candidate gives is explained in two ways: by a fault (faults.go) that, on top of a candidate, gives every
// recorded bit, or by where the elements lie that differ from the nearest candidate (difference.go).

const (
	// nearestPlans is how many candidates, those that differ least, are looked at closely.
	nearestPlans = 3
	// faultElements is how many elements a fault is tried on before all of them.
	faultElements = 8
	// faultWork bounds what trying faults may cost, in multiply-adds; where whole outputs are needed, it bounds those.
	faultWork = 24 << 30
	// knownFaultBits is the evidence wanted for a fault that such kernels are known to have.
	knownFaultBits = 10
)

// explain completes the verdict on an output that no candidate gives.
func (r *replay) explain(ctx context.Context, v Verdict, choice choice) (Verdict, error) {
	if r.options.unexplained || r.options.trying {
		return v, nil
	}
	determined := choice.determined()
	near, err := r.nearest(ctx)
	if err != nil || len(near) == 0 {
		return v, err
	}
	found, err := r.fault(ctx, near)
	if err != nil {
		return v, err
	}
	if found != nil {
		d := found.difference
		wanted := float64(wantedBits)
		if d.MissingProducts > 0 && d.MissingProducts == r.dropped(found.beside.trial.profile) {
			wanted = knownFaultBits
		}
		if found.own || choice.elsewhere != "" {
			wanted = math.Inf(1)
		}
		enough := determined || found.beside.evident-math.Log2(float64(max(found.tried, 1))) >= wanted
		v.Difference = d
		if enough {
			t := found.beside.trial
			v.Outcome, v.Plan, v.ProfileID, v.Profile = Wrong, r.describe(t.candidate), t.profile.ID(), t.profile.JSON()
			v.Reason = d.Text
			if v.Comparison = comparisonOf(r, found.beside); v.Comparison != nil {
				v.Reason += "; without that, " + v.Comparison.stored()
			}
		} else {
			v.Reason += "; it would be explained so: " + d.Text
		}
		return v, nil
	}
	if len(r.known.samples) == 0 {
		v.Difference = &Difference{Kind: NotLocated, Text: "only the hash of the output is recorded, and none of the known faults gives it", Plan: r.describe(near[0].trial.candidate)}
		return v, nil
	}
	best := near[0]
	d := r.locate(best)
	v.Difference = d
	if determined {
		if d.Kind != NotLocated {
			v.Reason += "; " + d.Text
		}
		return v, nil
	}
	if len(best.differing) == 0 {
		return v, nil
	}
	// Where a part was looked at, how its rows were drawn is in the pattern too: it identifies nothing.
	if choice.elsewhere == "" && r.known.part == nil && r.identified(best, d) {
		t := best.trial
		v.Outcome, v.Plan, v.ProfileID, v.Profile = Wrong, r.describe(t.candidate), t.profile.ID(), t.profile.JSON()
		v.Comparison = comparisonOf(r, best)
		v.Reason = v.Comparison.stored() + "; " + d.Text
		return v, nil
	}
	if d.Kind != Scattered {
		v.Reason += "; beside the nearest plan, " + d.Text
	}
	return v, nil
}

// comparisonOf is a comparison by stored elements, nil where none are.
func comparisonOf(r *replay, c *compared) *Comparison {
	if len(c.want) == 0 {
		return nil
	}
	type element struct {
		index     int
		want, got uint64
	}
	list := make([]element, len(c.want))
	for i, p := range c.at {
		list[i] = element{(p.Batch*r.m+p.Row)*r.n + p.Column, c.want[i], c.got[i]}
	}
	slices.SortFunc(list, func(a, b element) int { return cmp.Compare(a.index, b.index) })
	comparison := Comparison{First: -1, Worst: -1}
	shape := r.shape(r.c.Out.Format)
	indices := make([]int, len(list))
	for i, e := range list {
		indices[i] = e.index
		comparison.add(shape, e.want, e.got)
	}
	comparison.First, comparison.Worst = flat(indices, comparison.First), flat(indices, comparison.Worst)
	return &comparison
}

// nearest compares the candidates that differ least with all stored elements. Where none are stored, the first candidates
// stand for all.
func (r *replay) nearest(ctx context.Context) ([]*compared, error) {
	var list []*trial
	for _, t := range r.trials {
		if t.refused == nil {
			list = append(list, t)
		}
	}
	if len(r.known.samples) == 0 {
		var near []*compared
		for _, t := range list[:min(len(list), nearestPlans)] {
			near = append(near, &compared{trial: t})
		}
		return near, nil
	}
	share := func(t *trial) float64 {
		if t.stored != nil {
			return float64(t.stored.Differing) / float64(t.stored.Count)
		}
		return float64(t.differing) / float64(max(len(t.values), 1))
	}
	sort := func() {
		slices.SortStableFunc(list, func(a, b *trial) int { return cmp.Or(cmp.Compare(share(a), share(b)), cmp.Compare(a.bits, b.bits)) })
	}
	if len(list) > 1 {
		for _, keep := range []int{4 * nearestPlans, nearestPlans} { // few elements say little: look at more before choosing
			sort()
			for _, t := range list[:min(len(list), keep)] {
				if _, err := r.look(ctx, t); err != nil {
					return nil, err
				}
			}
		}
		sort()
	}
	var near []*compared
	stored := &places{at: r.known.at}
	for _, t := range list {
		if len(near) == nearestPlans {
			break
		}
		if t.out == nil && r.known.whole {
			if err := r.run(ctx, t); err != nil {
				return nil, err
			}
		}
		values, err := r.elements(ctx, t, stored)
		if err != nil {
			return nil, err
		}
		if values != nil {
			near = append(near, r.compare(t, r.known.at, r.known.samples, values))
		}
	}
	slices.SortStableFunc(near, func(a, b *compared) int { return cmp.Compare(a.distance, b.distance) })
	return near, nil
}

// explained is a fault that gives the recorded output.
type explained struct {
	difference *Difference
	beside     *compared // the candidate without the fault
	tried      int       // faults on top of candidates, this one included
	own        bool      // see fault
}

// fault tries the faults: on top of the nearest candidates, then of all.
func (r *replay) fault(ctx context.Context, near []*compared) (*explained, error) {
	tried, work := 0, uint64(0)
	if len(r.known.samples) == 0 {
		return r.faultByHash(ctx, near)
	}
	at, want := r.telling(near[0])
	var hit *explained
	attempt := func(t *trial, beside *compared) error {
		for _, f := range r.faults(t.candidate) {
			if err := r.poll(); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			tried++
			work += uint64(len(at)) * uint64(r.k) * 8 // kernels compute tiles of more elements
			values, err := r.faulty(ctx, &f, at)
			if err != nil {
				return err
			}
			if values == nil || !slices.Equal(values, want) {
				continue
			}
			reproduced, err := r.reproduces(ctx, &f)
			if err != nil {
				return err
			}
			if reproduced == "" {
				continue
			}
			if hit != nil {
				if f.text != hit.difference.Text && !slices.Contains(hit.difference.Also, f.text) {
					hit.difference.Also = append(hit.difference.Also, f.text)
				}
				continue
			}
			if beside == nil {
				got, err := r.elements(ctx, t, &places{at: r.known.at})
				if err != nil {
					return err
				}
				beside = r.compare(t, r.known.at, r.known.samples, got)
			}
			d := r.locate(beside)
			d.Kind, d.Text, d.MissingProducts, d.Reproduced, d.Plan = f.kind, f.text, f.missing, reproduced, r.describe(t.candidate)
			hit = &explained{d, beside, tried, f.own}
		}
		return nil
	}
	done := map[*trial]bool{}
	for _, c := range near {
		done[c.trial] = true
		if err := attempt(c.trial, c); err != nil {
			return nil, err
		}
		if hit != nil {
			return hit, nil
		}
	}
	// A pattern of few elements is no fault of all of the arithmetic.
	if len(near[0].differing)*4 < len(near[0].want) && len(near[0].want) > 64 {
		return nil, nil
	}
	for _, t := range r.trials {
		if done[t] || t.refused != nil {
			continue
		}
		if work > faultWork {
			break
		}
		if err := attempt(t, nil); err != nil || hit != nil {
			return hit, err
		}
	}
	return nil, nil
}

// faultByHash computes whole outputs, as long as the work allows.
func (r *replay) faultByHash(ctx context.Context, near []*compared) (*explained, error) {
	tried, work := 0, uint64(0)
	for _, c := range near {
		for _, f := range r.faults(c.trial.candidate) {
			if work += r.c.MultiplyAdds(); work > faultWork {
				return nil, nil
			}
			tried++
			reproduced, err := r.reproduces(ctx, &f)
			if err != nil {
				return nil, err
			}
			if reproduced != "" {
				d := &Difference{Kind: f.kind, Text: f.text, MissingProducts: f.missing, Reproduced: reproduced, Plan: r.describe(c.trial.candidate)}
				if err := r.compareWhole(ctx, c, &f); err != nil {
					return nil, err
				}
				return &explained{d, c, tried, f.own}, nil
			}
		}
	}
	return nil, nil
}

// compareWhole measures how far the whole output of a trial is from what a fault on top of it gives.
func (r *replay) compareWhole(ctx context.Context, c *compared, f *fault) error {
	faulty, err := r.faultyWhole(ctx, f)
	if err != nil || faulty == nil {
		return err
	}
	if c.trial.out == nil {
		if err := r.run(ctx, c.trial); err != nil || c.trial.out == nil {
			return err
		}
	}
	want, got := gemm.Dense(faulty, r.c.Out.Format, 1, 1, r.count), gemm.Dense(c.trial.out, r.c.Out.Format, 1, 1, r.count)
	differing := 0
	c.evident = 0
	for i := range r.count {
		if x, y := want.Bits(0, 0, i), got.Bits(0, 0, i); x != y && !r.zeros(x, y) {
			differing++
			c.evident += r.damage(x, y)
		}
	}
	c.evident += choose2(r.count, differing)
	return nil
}

// telling picks stored elements to try faults on: some that differ from the nearest candidate, and some that do not.
func (r *replay) telling(c *compared) ([]gemm.Position, []uint64) {
	var at []gemm.Position
	var want []uint64
	differs := map[int]bool{}
	pick := func(i int) { at, want = append(at, c.at[i]), append(want, c.want[i]) }
	for _, i := range c.differing {
		differs[i] = true
	}
	for _, o := range spread(len(c.differing))[:min(faultElements/2, len(c.differing))] {
		pick(c.differing[o])
	}
	for _, i := range spread(len(c.want)) {
		if len(at) >= faultElements {
			break
		}
		if !differs[i] {
			pick(i)
		}
	}
	return at, want
}

// skip is the errors of a fault that cannot be run: it explains nothing.
func skip(err error) bool {
	var refusal *gemm.Error
	return errors.As(err, &refusal)
}

// faulty computes elements under a fault; nil where it cannot be run.
func (r *replay) faulty(ctx context.Context, f *fault, at []gemm.Position) ([]uint64, error) {
	values, err := gemm.Elements(ctx, f.args, at)
	if skip(err) {
		return nil, nil
	}
	if err == nil && f.finish != nil {
		simd.WithDefaultFloats(func() {
			for i, p := range at {
				values[i] = f.finish(p, values[i])
			}
		})
	}
	return values, err
}

// faultyWhole computes the whole output under a fault.
func (r *replay) faultyWhole(ctx context.Context, f *fault) ([]byte, error) {
	a, width := *f.args, f.args.D.Format.Bytes()
	raw := make([]byte, r.count*width)
	a.D = gemm.Dense(raw, f.args.D.Format, r.batch, r.m, r.n)
	if r.options.Progress != nil {
		a.Progress = func(_, total uint64) error { return r.options.Progress(r.done, total) }
	}
	err := gemm.Run(ctx, &a)
	if skip(err) {
		return nil, nil
	}
	if err != nil || f.finish == nil {
		return raw, err
	}
	size := r.c.Out.Format.Bytes()
	out := make([]byte, r.count*size)
	simd.WithDefaultFloats(func() {
		for i := range r.count {
			p := r.position(i)
			putBits(out[i*size:], size, f.finish(p, a.D.Bits(p.Batch, p.Row, p.Column)))
		}
	})
	return out, nil
}

// reproduces tells what of the record a fault gives: all stored elements, or the hash; "" where it does not, or where what it
// brings with it gives the same without the fault.
func (r *replay) reproduces(ctx context.Context, f *fault) (string, error) {
	what, err := r.gives(ctx, f)
	if err != nil || what == "" {
		return "", err
	}
	for _, twin := range f.twins {
		without, err := r.gives(ctx, &fault{args: twin})
		if err != nil || without != "" {
			return "", err
		}
	}
	return what, nil
}

// gives tells what of the record comes of a multiplication: all stored elements, or the hash; "" where not.
func (r *replay) gives(ctx context.Context, f *fault) (string, error) {
	if len(r.known.samples) > 0 && !r.known.whole {
		values, err := r.faulty(ctx, f, r.known.at)
		if err != nil || !slices.Equal(values, r.known.samples) {
			return "", err
		}
		if r.known.hash == "" {
			return "stored elements", nil
		}
	}
	out, err := r.faultyWhole(ctx, f)
	if err != nil || out == nil {
		return "", err
	}
	if agrees, _ := r.agrees(out); !agrees {
		return "", nil
	}
	if r.known.hash == "" {
		return "the whole output", nil
	}
	return "sha256 of the whole output", nil
}

// identified tells whether a searched plan, which differs from the record in some elements, is still known to be the one: the
// elements that agree give enough evidence, and the pattern of the others is none that an unknown plan would leave.
func (r *replay) identified(c *compared, d *Difference) bool {
	if len(r.trials) < 2 {
		return false // nothing tells how far other plans lie
	}
	if 2*len(c.differing) > len(c.want) {
		return false // an unknown plan agrees with a wrong one on some elements too
	}
	if d.Kind == DifferentTile && 2*d.Pattern.StoredInBox > len(c.want) {
		return false // a rectangle of nearly everything is no pattern
	}
	differs := map[gemm.Position]bool{}
	for _, i := range c.differing {
		differs[c.at[i]] = true
	}
	// Evidence from the elements of the blocks that agree, and how often other plans differ there.
	var s seen
	least := math.Inf(1)
	base := 0
	others := map[*trial][2]int{}
	for b, block := range r.blocks {
		for i, want := range block.want {
			if differs[block.at[i]] {
				continue
			}
			var values []uint64
			for _, t := range r.trials {
				if t == c.trial || t.refused != nil || t.done <= b {
					continue
				}
				values = append(values, t.values[base+i])
				n := others[t]
				n[1]++
				if t.values[base+i] != want {
					n[0]++
				}
				others[t] = n
			}
			s.want, s.values = append(s.want, want), append(s.values, values)
		}
		base += len(block.want)
	}
	for _, n := range others {
		if n[0] > 0 || len(s.want) > 0 && n[1] == len(s.want) {
			least = min(least, float64(n[0])/float64(n[1]+prior)) // few elements seen are no proof of a large share
		}
	}
	if math.IsInf(least, 1) || r.chance(s)-math.Log2(float64(len(r.trials))) < wantedBits {
		return false
	}
	// Another plan differs in so many elements at the least; how likely it is to differ in as few as these (Chernoff's bound
	// for independent elements). Elements that are not stored were not seen to agree.
	seenOf := float64(len(c.want))
	share, expected := float64(len(c.differing))/seenOf, max(least, 1/float64(r.count))
	few := 0.0
	if share < expected {
		few = seenOf * divergence(share, min(expected, 1-1e-9))
	}
	return d.Kind != Scattered && max(few, r.patternBits(d)) >= wantedBits
}

// divergence is the Kullback-Leibler divergence of two coins, in bits.
func divergence(p, q float64) float64 {
	term := func(p, q float64) float64 {
		if p == 0 {
			return 0
		}
		return p * math.Log2(p/q)
	}
	return term(p, q) + term(1-p, 1-q)
}

// remark adds to a verdict of exact what the output could not have shown: where nvjet's split-K would leave out the last
// products, cut as the plan says, whether the output would have had the same bits without them.
func (r *replay) remark(ctx context.Context, v Verdict, t *trial, out []byte) (Verdict, error) {
	lost := r.dropped(t.profile)
	if lost == 0 || r.options.unexplained {
		return v, nil
	}
	var at []gemm.Position
	for _, i := range spread(min(r.count, 1<<20))[:min(r.count, faultElements/2)] {
		at = append(at, r.position(i))
	}
	want, what := r.bits(out, at), "the output has"
	if r.known.part != nil {
		what = "the elements looked at have"
	}
	for _, f := range r.tail(t.candidate, lost) {
		values, err := r.faulty(ctx, &f, at)
		if err != nil {
			return v, err
		}
		if values == nil || !slices.Equal(values, want) {
			continue
		}
		same, err := r.leaves(ctx, &f, out)
		if err != nil {
			return v, err
		}
		if same {
			v.Notes = append(v.Notes, fmt.Sprintf("a dropped tail could not be seen here: %s the same bits without the last %d of K = %d products, which nvjet's split-K kernels leave out of %d slices", what, lost, r.k, t.profile.Plan.Split.Slices))
			return v, nil
		}
	}
	return v, nil
}

// leaves tells whether a fault leaves all bits that were compared as they are.
func (r *replay) leaves(ctx context.Context, f *fault, out []byte) (bool, error) {
	if r.known.part != nil {
		values, err := r.faulty(ctx, f, r.known.at)
		return values != nil && slices.Equal(values, r.known.samples), err
	}
	whole, err := r.faultyWhole(ctx, f)
	return string(whole) == string(out), err
}

// dropped is how many of the last products a kernel with such a profile leaves out.
func (r *replay) dropped(p *profile.Profile) int { return rules.Dropped(p, r.c.A.Format, r.k) }
