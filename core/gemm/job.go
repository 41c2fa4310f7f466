package gemm

import (
	"context"
	"math"
	"slices"
	"sync/atomic"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// job is one multiplication made ready: operands seen as lanes × k, the expanded plan, the tiles.
type job struct {
	args          *Args
	step          step.Params
	level         simd.Level
	tree          *plan.Tree
	rows, columns operand
	// swapped: the job computes the transpose, B's columns as rows, because that fills kernel tiles better. Products
	// commute, and the order of sums is along k.
	swapped  bool
	batch    int
	epilogue epilogue
	cancel   atomic.Bool
	done     atomic.Uint64
	total    uint64
	ctx      context.Context
}

func (j *job) stopped() bool {
	return j.cancel.Load()
}

func (j *job) progress(multiplyAdds int) { j.done.Add(uint64(multiplyAdds)) }

func newJob(ctx context.Context, a *Args) (*job, error) {
	j := &job{args: a, step: a.Profile.Step, level: simd.Active(), batch: a.D.Batch, ctx: ctx}
	if a.Level != nil {
		if j.level = *a.Level; !slices.Contains(simd.Levels(), j.level) {
			return nil, fail(KindUnsupported, "this processor does not run the instruction set %d %s", j.level, j.level)
		}
	}
	if err := a.Profile.Validate(); err != nil { // one that was parsed is valid; one made by hand may not be
		return nil, fail(KindArgument, "profile %s: %v", profileName(a.Profile), err)
	}
	if !a.Profile.Runnable() && j.level != simd.Oracle {
		return nil, fail(KindUnsupported, "profile %s is data and scalar model only; the instruction set \"oracle\" runs it, slowly", profileName(a.Profile))
	}
	if j.step.Kind == step.Scaled {
		return nil, fail(KindUnsupported, "profile %s takes block scales, which a matrix multiplication cannot pass yet; step.DotScaled runs it", profileName(a.Profile))
	}
	if (j.step.NaN != 0 || j.step.KeepNaN) && j.step.Result != format.F64 {
		return nil, fail(KindUnsupported, "profile %s: NaNs other than the canonical one (step.nan, step.keep_nan) are carried through f64 sums alone", profileName(a.Profile))
	}
	tree, err := a.Profile.Plan.Expand(a.A.Columns)
	if err != nil {
		return nil, fail(KindUnsupported, "profile %s: %v", profileName(a.Profile), err)
	}
	j.tree = tree
	if a.Start != nil && !tree.Leaf() {
		return nil, fail(KindUnsupported, "start goes with a plan of one accumulator; %s has %d", profileName(a.Profile), tree.Leaves())
	}
	j.rows = operandOf(a.A, j.step.A, j.step.InputRounding, true, a.Rows)
	j.columns = operandOf(a.B, j.step.B, j.step.InputRounding, false, a.Columns)
	j.epilogue = newEpilogue(a)
	j.total = uint64(j.batch) * uint64(j.rows.lanes) * uint64(j.columns.lanes) * uint64(a.A.Columns)
	j.foldBatch()
	return j, nil
}

// foldBatch makes one tall matrix of a batch that shares B, where the rows of A and D go on from one matrix to the next:
// tiles fill better and B is packed less often.
func (j *job) foldBatch() {
	a := j.args
	if j.batch < 2 || a.B.BatchStride != 0 || a.C != nil || a.Start != nil || a.Rows != nil || j.epilogue.scale != profile.ScalingNone {
		return
	}
	if a.A.BatchStride != a.A.Rows*a.A.RowStride || a.D.BatchStride != a.D.Rows*a.D.RowStride {
		return
	}
	// The output is addressed through the folded matrix too.
	folded, d := *a, *a.D
	d.Rows, d.Batch = d.Rows*j.batch, 1
	folded.D = &d
	j.args, j.epilogue.args = &folded, &folded
	j.rows.lanes *= j.batch
	j.batch = 1
}

// startOf gives what fills a tile with the values of Start, nil where there is none.
func startOf[T accumulator](j *job) func(acc []T, ld int, t tile) {
	s := j.args.Start
	if s == nil {
		return nil
	}
	return func(acc []T, ld int, t tile) {
		j.each(t, ld, func(i, row, column int) { acc[i] = startValue[T](s.Bits(t.batch, row, column), s.Format) })
	}
}

// startValue is a bit pattern of an accumulator's format as the type that holds accumulators.
func startValue[T accumulator](bits uint64, f format.Format) T {
	switch f {
	case format.F64:
		return T(math.Float64frombits(bits))
	case format.S32:
		return T(int32(uint32(bits)))
	}
	return T(widen(bits, f))
}
