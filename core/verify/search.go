package verify

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// A trial is one candidate with what was seen of it so far.
type trial struct {
	candidate
	// values are its bits at the elements of the first len(blocks done) blocks, in order.
	values    []uint64
	done      int     // blocks
	differing int     // of values, from the recorded bits
	bits      float64 // Σ log2(1 + 2·ulps) over the differing ones: see distance
	refused   *gemm.Error
	stored    *Comparison // of all stored elements, where the whole output was computed
	out       []byte      // the whole output, where it was computed and kept
	whole     *gap        // how out, or an output computed and not kept, differs from the whole output that agrees
}

// places are elements that several candidates are run on; what their operands need is made ready once.
type places struct {
	at    []gemm.Position
	probe *gemm.Probe
}

// block is a set of elements that candidates are compared on, with the bits they are to have there.
type block struct {
	places
	want []uint64
}

// The elimination looks at more and more elements: 4 of those that tell candidates apart best reject nearly all wrong ones,
// 28 more nearly all of the rest, and what still agrees, or differs in one element alone, is looked at in more: in 96 where
// the elements that tell could be found (sharpen), else in up to 480.
var blockSizes = []int{4, 28, 480}

const sharpened = 96

const (
	// pilots are run first, on a pool of elements, to see where candidates differ.
	pilotCount = 3
	poolSize   = 48
	// wholeInstead: where the output has at most so many times a block's elements, all of it costs no more than they do.
	wholeInstead = 8
	// manyNear candidates after two blocks are worth finding better elements for.
	manyNear = 6
	// fewCandidates are sooner tried at any elements than at chosen ones.
	fewCandidates = 6
)

// begin makes the trials.
func (r *replay) begin(candidates []candidate) {
	r.trials = make([]*trial, len(candidates))
	for i, c := range candidates {
		r.trials[i] = &trial{candidate: c}
	}
}

// order ranks the stored elements, those first that tell candidates apart best: a few candidates, far from one another in the
// list, are run on a pool of elements spread over the output, and the elements where they differ most lead.
func (r *replay) order(ctx context.Context) ([]int, error) {
	order := spread(len(r.known.samples))
	drawn := order[:min(poolSize, len(order))]
	if len(r.trials) < fewCandidates || len(drawn) <= blockSizes[0] {
		return order, nil
	}
	pool := &places{}
	for _, o := range drawn {
		pool.at = append(pool.at, r.known.at[o])
	}
	var pilots [][]uint64
	for i := range pilotCount {
		t := r.trials[i*(len(r.trials)-1)/(pilotCount-1)]
		values, err := r.elements(ctx, t, pool)
		if err != nil {
			return nil, err
		}
		if values != nil {
			pilots = append(pilots, values)
		}
	}
	f := r.c.Out.Format
	score := make(map[int]float64, len(drawn))
	for i, o := range drawn {
		for a := range pilots {
			for _, other := range pilots[:a] {
				score[o] += ulpBits(f.Ulps(pilots[a][i], other[i]))
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
	return order, nil
}

// elements computes a candidate's elements; nil where package gemm does not take the candidate, which is noted.
func (r *replay) elements(ctx context.Context, t *trial, where *places) ([]uint64, error) {
	if t.refused != nil {
		return nil, nil
	}
	if err := r.poll(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if t.out != nil {
		return r.bits(t.out, where.at), nil
	}
	if where.probe == nil {
		var err error
		if where.probe, err = gemm.NewProbe(r.args(t.candidate, nil), where.at); err != nil {
			t.refused = refused(err)
			if t.refused != nil {
				return nil, nil
			}
			return nil, err
		}
	}
	values, err := where.probe.Elements(ctx, t.profile)
	if refusal := refused(err); refusal != nil {
		t.refused = refusal
		return nil, nil
	}
	return values, err
}

// refused is the refusal of package gemm to run a profile on these operands, nil for any other error.
func refused(err error) *gemm.Error {
	var refusal *gemm.Error
	if errors.As(err, &refusal) && (refusal.Kind == gemm.KindUnsupported || refusal.Kind == gemm.KindFormat) {
		return refusal
	}
	return nil
}

// cut makes the blocks of an order of the stored elements.
func (r *replay) cut(order []int) {
	r.blocks = nil
	for _, size := range blockSizes {
		size = min(size, len(order))
		if size == 0 {
			return
		}
		r.blocks, order = append(r.blocks, r.blockOf(order[:size])), order[size:]
	}
}

// blockOf makes a block of stored elements.
func (r *replay) blockOf(stored []int) *block {
	b := &block{}
	for _, o := range stored {
		b.at = append(b.at, r.known.at[o])
		b.want = append(b.want, r.known.samples[o])
	}
	return b
}

// look compares a trial on its next block. It tells whether there was one.
func (r *replay) look(ctx context.Context, t *trial) (bool, error) {
	if t.done == len(r.blocks) || t.refused != nil {
		return false, nil
	}
	b := r.blocks[t.done]
	if t.out == nil && r.count <= wholeInstead*len(b.at) {
		if err := r.run(ctx, t); err != nil || t.refused != nil {
			return false, err
		}
	}
	values, err := r.elements(ctx, t, &b.places)
	if err != nil || values == nil {
		return false, err
	}
	t.done++
	t.values = append(t.values, values...)
	for i, v := range values {
		if v != b.want[i] {
			t.differing++
			t.bits += r.damage(b.want[i], v)
		}
	}
	return true, nil
}

// far tells whether a trial is out: it differs from the recorded output by more than a change of one element could explain.
// A plan at the distance of one small change is no explanation of the output either, but it counts against one that is
// (evidence.go).
func (r *replay) far(t *trial) bool {
	return t.refused != nil || t.differing > 1 || t.differing == 1 && !r.near(&gap{differing: 1, bits: t.bits})
}

// eliminate compares all trials with the recorded elements, block by block, until one is left or there are no more blocks.
func (r *replay) eliminate(ctx context.Context) error {
	order, err := r.order(ctx)
	if err != nil {
		return err
	}
	r.cut(order)
	for looked := range blockSizes {
		if looked >= len(r.blocks) {
			return nil
		}
		near := 0
		for _, t := range r.trials {
			if r.far(t) {
				continue
			}
			if _, err := r.look(ctx, t); err != nil {
				return err
			}
			if !r.far(t) {
				near++
			}
		}
		if near <= 1 {
			return nil
		}
		if looked == 1 && near >= manyNear && len(r.blocks) > 2 {
			if err := r.sharpen(ctx, order[blockSizes[0]+blockSizes[1]:]); err != nil {
				return err
			}
		}
	}
	return nil
}

// sharpen chooses the third block anew where candidates hardly differ, as they do once sums are rounded to 16 bits: two of
// them are run without that rounding, and the elements lead whose sums lie nearest to where it turns, measured by how far
// apart the two sums are.
func (r *replay) sharpen(ctx context.Context, rest []int) error {
	if f := r.c.Out.Format; f != format.F16 && f != format.BF16 {
		return nil
	}
	var near []*trial
	for _, t := range r.trials {
		if !r.far(t) {
			near = append(near, t)
		}
	}
	at := make([]gemm.Position, len(rest))
	for i, o := range rest {
		at[i] = r.known.at[o]
	}
	first, err := r.unrounded(ctx, near[0], at)
	if err != nil || first == nil {
		return err
	}
	second, err := r.unrounded(ctx, near[len(near)/2], at)
	if err != nil || second == nil {
		return err
	}
	score := make(map[int]float64, len(rest))
	for i, o := range rest {
		x, y := float64(first[i]), float64(second[i])
		score[o] = toTurn(first[i], r.c.Out.Format) / (math.Abs(x-y) + math.Abs(x)*0x1p-25 + math.SmallestNonzeroFloat32)
	}
	rest = slices.Clone(rest)
	slices.SortStableFunc(rest, func(a, b int) int { return cmp.Compare(score[a], score[b]) })
	r.blocks[2] = r.blockOf(rest[:min(sharpened, len(rest))])
	return nil
}

// unrounded is the f32 values that a candidate rounds to its output; nil where there are none.
func (r *replay) unrounded(ctx context.Context, t *trial, at []gemm.Position) ([]float32, error) {
	p := *t.profile
	if p.Step.Result != format.F32 || p.Plan.Serial != nil {
		return nil, nil
	}
	p.Epilogue.Out = format.F32
	a := r.args(candidate{profile: &p}, r.shape(format.F32))
	a.Progress = nil
	if a.C != nil {
		a.C = r.converted("c", a.C, format.F32, format.F32)
	}
	if err := r.poll(); err != nil {
		return nil, err
	}
	var values []uint64
	var err error
	if r.known.part == nil && r.count <= wholeInstead*len(at) {
		out := make([]byte, 4*r.count)
		a.D = gemm.Dense(out, format.F32, r.batch, r.m, r.n)
		if err = gemm.Run(ctx, a); err == nil {
			for _, p := range at {
				values = append(values, a.D.Bits(p.Batch, p.Row, p.Column))
			}
		}
	} else {
		values, err = gemm.Elements(ctx, a, at)
	}
	if refused(err) != nil {
		return nil, nil
	}
	list := make([]float32, len(values))
	for i, v := range values {
		list[i] = math.Float32frombits(uint32(v))
	}
	return list, err
}

// toTurn is how far an f32 value is from the nearest one where its rounding to a 16-bit format turns to another number.
func toTurn(v float32, to format.Format) float64 {
	bits := narrow(v, to, format.NearestEven)
	value := func(bits uint64) float64 { return float64(math.Float32frombits(widened(bits, to))) }
	x := value(bits)
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return math.Inf(1)
	}
	least := math.Inf(1)
	if up := value(bits + 1); !math.IsNaN(up) && !math.IsInf(up, 0) {
		least = math.Abs(float64(v) - (x+up)/2)
	}
	if x != 0 {
		least = min(least, math.Abs(float64(v)-(x+value(bits-1))/2))
	}
	return least
}

// agreeing lists the trials that agree on all they were compared on, in order.
func (r *replay) agreeing() []*trial {
	var list []*trial
	for _, t := range r.trials {
		if t.refused == nil && t.differing == 0 {
			list = append(list, t)
		}
	}
	return list
}

// byOutput puts the trials that are alike on a few elements behind the first of their kind: where only a hash is known, every
// trial is a whole replay, and one of each kind finds the output sooner.
func (r *replay) byOutput(ctx context.Context, list []*trial) ([]*trial, error) {
	if len(list) < fewCandidates {
		return list, nil
	}
	var probe recorded
	probe.locate(r.c)
	few := &places{}
	for _, o := range spread(len(probe.at))[:min(poolSize/3, len(probe.at))] {
		few.at = append(few.at, probe.at[o])
	}
	seen := map[string]bool{}
	var first, rest []*trial
	for _, t := range list {
		values, err := r.elements(ctx, t, few)
		if err != nil {
			return nil, err
		}
		if values == nil {
			continue
		}
		if key := keyOf(values); seen[key] {
			rest = append(rest, t)
		} else {
			seen[key] = true
			first = append(first, t)
		}
	}
	return append(first, rest...), nil
}

// keyOf is bit patterns as a map's key.
func keyOf(values []uint64) string {
	key := make([]byte, 0, 8*len(values))
	for _, v := range values {
		for shift := 0; shift < 64; shift += 8 {
			key = append(key, byte(v>>shift))
		}
	}
	return string(key)
}

// spread orders n indices so that any beginning of the list covers the whole: by a stride that shares no factor with n.
func spread(n int) []int {
	order := make([]int, 0, n)
	stride := max(n*5/8, 1)
	for gcd(stride, n) != 1 {
		stride++
	}
	for i := range n {
		order = append(order, i*stride%n)
	}
	return order
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
