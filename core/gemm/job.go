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
	// Of a probe: packed strips kept from one candidate to the next, and which elements are asked for (nil: all), so that
	// paths without vectors may leave out the others.
	caches *panelCaches
	wanted []bool
	cancel *atomic.Bool // shared by the tiles of a probe
	size   treeSize
	done   atomic.Uint64
	total  uint64
	ctx    context.Context
}

func (j *job) stopped() bool {
	return j.cancel.Load()
}

func (j *job) progress(multiplyAdds int) { j.done.Add(uint64(multiplyAdds)) }

// wants tells whether an element is asked for.
func (j *job) wants(row, column int) bool {
	return j.wanted == nil || j.wanted[row*j.columns.lanes+column]
}

func newJob(ctx context.Context, a *Args) (*job, error) {
	j, err := newCall(ctx, a)
	if err != nil {
		return nil, err
	}
	a = j.args
	j.operands(a, a.Rows, a.Columns)
	j.total = uint64(j.batch) * uint64(j.rows.lanes) * uint64(j.columns.lanes) * uint64(a.A.Columns)
	j.foldBatch()
	return j, nil
}

// newCall makes of a job what does not depend on where the operands lie: profile, level, tree.
func newCall(ctx context.Context, a *Args) (*job, error) {
	if a.C != nil && !a.readsAddend() {
		without := *a
		without.C = nil
		a = &without
	}
	j := &job{args: a, step: a.Profile.Step, level: simd.Active(), batch: a.D.Batch, ctx: ctx, cancel: new(atomic.Bool)}
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
	if a.skipsSum() {
		tree = &plan.Tree{}
	}
	j.tree, j.size = tree, sizeOf(tree)
	if a.Start != nil && !tree.Leaf() {
		return nil, fail(KindUnsupported, "start goes with a plan of one accumulator; %s has %d", profileName(a.Profile), tree.Leaves())
	}
	if err := j.checkSerial(); err != nil {
		return nil, err
	}
	return j, j.checkAlphaInOperand()
}

// operands points the job at its operands, of which it takes the rows and columns listed (nil: all), and at its output.
func (j *job) operands(a *Args, rows, columns []int) {
	j.rows = operandOf(a.A, j.step.A, j.step.InputRounding, true, rows)
	j.columns = operandOf(a.B, j.step.B, j.step.InputRounding, false, columns)
	j.epilogue = newEpilogue(a)
	switch alpha := float32(a.Alpha); {
	case alpha == 1:
	case a.Profile.Epilogue.Form == profile.FormAlphaInA:
		j.rows, j.step.A = j.rows.multiplied(alpha), format.F32
	case a.Profile.Epilogue.Form == profile.FormAlphaInB:
		j.columns, j.step.B = j.columns.multiplied(alpha), format.F32
	}
}

// checkAlphaInOperand refuses operands of which the product with alpha is not known: only f32, f16 and bf16 were measured to be
// widened to f32 before they are multiplied.
func (j *job) checkAlphaInOperand() error {
	into := j.step.A
	if j.args.Profile.Epilogue.Form == profile.FormAlphaInB {
		into = j.step.B
	}
	if j.args.Profile.Epilogue.Form.InOperand() && !chainFormat32(into) {
		return fail(KindUnsupported, "profile %s: how alpha is multiplied into elements of %v is not known", profileName(j.args.Profile), into)
	}
	return nil
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
