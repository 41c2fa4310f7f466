package gemm

import (
	"context"
	"math"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// Position is one output element.
type Position struct{ Batch, Row, Column int }

// Elements computes single output elements anywhere in the output, as bit patterns of the format of a.D, whose memory is
// not touched. It serves to test a profile on recorded samples before the whole output is computed.
func Elements(ctx context.Context, a *Args, at []Position) ([]uint64, error) {
	values := make([]uint64, len(at))
	var err error
	fault := guard(func() {
		// From the start: the host's rounding mode must not reach alpha and beta on their way to f32.
		simd.WithDefaultFloats(func() {
			var j *job
			if j, err = elementsJob(ctx, a, at); err != nil {
				return
			}
			run := j.elementRunner()
			for i, p := range at {
				if ctx.Err() != nil {
					return
				}
				values[i] = run(tile{batch: p.Batch, row: p.Row, rows: 1, column: p.Column, columns: 1})
			}
		})
	})
	switch {
	case fault != nil:
		return nil, fault
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return values, nil
}

func elementsJob(ctx context.Context, a *Args, at []Position) (*job, error) {
	if err := a.checkOperands(); err != nil {
		return nil, err
	}
	if a.D == nil {
		return nil, fail(KindArgument, "d is missing: its sizes and format are needed, its memory is not")
	}
	if err := a.checkCall(); err != nil {
		return nil, err
	}
	for i, p := range at {
		if p.Batch < 0 || p.Batch >= a.D.Batch || p.Row < 0 || p.Row >= a.D.Rows || p.Column < 0 || p.Column >= a.D.Columns {
			return nil, fail(KindShape, "at[%d] is (%d, %d, %d), but d is %d×%d×%d", i, p.Batch, p.Row, p.Column, a.D.Batch, a.D.Rows, a.D.Columns)
		}
	}
	return newJob(ctx, a)
}

// elementRunner chooses the scalar path for the step: the same arithmetic as newRunner's paths, one element at a time.
func (j *job) elementRunner() func(tile) uint64 {
	p, e, memory := &j.step, &j.epilogue, new(workspace)
	oracle := scalarModel{job: j}
	of32 := func(c chainer[float32]) func(tile) uint64 {
		eval := &evaluator[float32]{chainer: c, levels: &memory.float32s, stopped: j.stopped, start: startOf[float32](j)}
		return func(t tile) uint64 {
			acc, _ := eval.evaluate(j.tree, t)
			return e.element32(t.batch, t.row, t.column, acc[0])
		}
	}
	switch {
	case p.Result == format.F64:
		eval := &evaluator[float64]{chainer: &oracle64{scalarModel: oracle}, levels: &memory.float64s, stopped: j.stopped, start: startOf[float64](j)}
		if j.fastFMA() {
			eval.chainer = &element64{scalarModel: oracle}
		}
		return func(t tile) uint64 {
			acc, _ := eval.evaluate(j.tree, t)
			return math.Float64bits(e.element64(t.batch, t.row, t.column, acc[0]))
		}
	case p.Result == format.S32:
		eval := &evaluator[int32]{chainer: &oracleInt{scalarModel: oracle}, levels: &memory.int32s, stopped: j.stopped, start: startOf[int32](j)}
		return func(t tile) uint64 {
			acc, _ := eval.evaluate(j.tree, t)
			return uint64(uint32(acc[0]))
		}
	case j.level != simd.Oracle && wideFits(p):
		f := newFusedChainer(j, memory)
		f.kernel, f.far, f.rowPad, f.columnPad = nil, nil, 1, 1
		return of32(f)
	case j.fastFMA():
		return of32(&element32{scalarModel: oracle})
	}
	return of32(&oracle32{scalarModel: oracle, half: p.Result == format.F16})
}

// element32 is a chain of f32 fused multiply-adds for one element.
type element32 struct {
	float32Merge
	scalarModel
}

func (s *element32) chain(acc []float32, _ int, t tile, ranges []plan.Range) {
	j, v := s.job, acc[0]
	for _, r := range ranges {
		for k := r.Start; k < r.Stop; k += r.Stride() {
			a := widen(j.rows.bits(t.batch, t.row, k), j.rows.as)
			b := widen(j.columns.bits(t.batch, t.column, k), j.columns.as)
			v = simd.FMA32(a, b, v)
		}
		if r.Pad > 0 && v == 0 {
			v = 0
		}
	}
	acc[0] = v
}

// element64 is a chain of f64 fused multiply-adds for one element; where a NaN arises the scalar model decides which.
type element64 struct {
	float64Merge
	scalarModel
}

func (s *element64) chain(acc []float64, _ int, t tile, ranges []plan.Range) {
	j, v := s.job, acc[0]
	for _, r := range ranges {
		for k := r.Start; k < r.Stop; k += r.Stride() {
			v = math.FMA(math.Float64frombits(j.rows.bits(t.batch, t.row, k)), math.Float64frombits(j.columns.bits(t.batch, t.column, k)), v)
		}
		if r.Pad > 0 && v == 0 {
			v = 0
		}
	}
	if v != v {
		c := math.Float64bits(acc[0])
		for _, r := range ranges {
			c = s.element(t, 0, 0, r, c)
		}
		v = math.Float64frombits(c)
	}
	acc[0] = v
}
