package gemm

import (
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/step"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// Which path runs a step is decided here alone, from its parameters and the level: newRunner for tiles, elementRunner
// (elements.go) in the same order for single elements.

// standard tells whether p is a fused step in its common form: terms aligned toward zero with the accumulator among
// them, zero sums positive, overflow to Inf, the canonical NaN. Every field that the wide path and the kernels do not
// read must have its default; other steps are the oracle's.
func standard(p *step.Params) bool {
	rest := *p
	rest.A, rest.B, rest.InputRounding, rest.Group, rest.Fraction, rest.Floor = 0, 0, "", 0, 0, nil
	rest.Result, rest.ResultRounding, rest.ResultFraction = 0, "", 0
	rounding := p.ResultRounding == format.TowardZero || p.ResultRounding == format.NearestEven
	return rounding && rest == step.Params{Kind: step.Fused, Align: format.TowardZero}
}

// keptFraction is how many fraction bits a result keeps.
func keptFraction(p *step.Params) int {
	if p.ResultFraction > 0 {
		return p.ResultFraction
	}
	return p.Result.Info().MantissaBits
}

// fusedShape gives the step's constants as the kernels take them, if they do.
func fusedShape(p *step.Params) (simd.FusedShape, bool) {
	shape := simd.FusedShape{Group: p.Group, Fraction: p.Fraction, ResultFraction: keptFraction(p)}
	if !standard(p) || p.Result != format.F32 || p.ResultRounding != format.TowardZero {
		return shape, false
	}
	if p.Floor != nil && *p.Floor > -126 { // the kernels know no floor: they prove that E is above one this low
		return shape, false
	}
	return shape, simd.FusedSupports(p.A, p.B, shape)
}

// farShape is fusedShape for the far kernels, which also know f16 accumulators.
func farShape(p *step.Params) (simd.FarShape, bool) {
	if shape, ok := fusedShape(p); ok {
		return simd.FarShape{FusedShape: shape}, true
	}
	if !standard(p) || p.Result != format.F16 || p.ResultRounding != format.NearestEven || p.Floor == nil || keptFraction(p) != 10 {
		return simd.FarShape{}, false
	}
	shape := simd.FarShape{FusedShape: simd.FusedShape{Group: p.Group, Fraction: p.Fraction, ResultFraction: 10}, Half: true, Floor: *p.Floor}
	return shape, simd.FarSupports(p.A, p.B, shape)
}

// fastFMA tells whether the chain kernels compute the step: a fused multiply-add as IEEE 754 has it. NaNs of f64 are the
// scalar model's everywhere, so that their rules may be any.
func (j *job) fastFMA() bool {
	p := &j.step
	rest := *p
	rest.A, rest.B, rest.Result, rest.InputRounding = 0, 0, 0, ""
	if p.Result == format.F64 {
		rest.NaN, rest.KeepNaN, rest.NaNFirst = 0, false, ""
	}
	ieee := step.Params{Kind: step.FMA, Group: 1, ResultRounding: format.NearestEven, ZeroSign: step.IEEEZero}
	if j.level == simd.Oracle || rest != ieee {
		return false
	}
	switch p.Result {
	case format.F32:
		return chainFormat32(p.A) && chainFormat32(p.B)
	case format.F64:
		return p.A == format.F64 && p.B == format.F64
	}
	return false
}

// The formats each chain kernel takes.
func chainFormat32(f format.Format) bool {
	return f == format.F32 || f == format.F16 || f == format.BF16
}
func int8Format(f format.Format) bool { return f == format.S8 || f == format.U8 }

// runner evaluates and stores tiles; each worker has its own.
type runner func(t tile)

// newRunner chooses the path for the step; the runner works in memory.
func (j *job) newRunner(memory *workspace) (r runner, rowPad, columnPad int) {
	p := &j.step
	switch {
	case p.Result == format.F64:
		if j.fastFMA() {
			return runnerOf(j, newChain64(j, memory), &memory.float64s, j.epilogue.out64())
		}
		return runnerOf(j, &oracle64{scalarModel: scalarModel{job: j}}, &memory.float64s, j.epilogue.out64())
	case p.Result == format.S32:
		if j.level != simd.Oracle && p.Kind == step.Integer && int8Format(p.A) && int8Format(p.B) {
			return runnerOf(j, newIntegers(j, memory), &memory.int32s, j.epilogue.outInt())
		}
		return runnerOf(j, &oracleInt{scalarModel: scalarModel{job: j}}, &memory.int32s, j.epilogue.outInt())
	case j.level != simd.Oracle && wideFits(p):
		return runnerOf(j, newFusedChainer(j, memory), &memory.float32s, j.epilogue.out32())
	case j.fastFMA():
		return runnerOf(j, newChain32(j, memory), &memory.float32s, j.epilogue.out32())
	}
	return runnerOf(j, &oracle32{scalarModel: scalarModel{job: j}, half: p.Result == format.F16}, &memory.float32s, j.epilogue.out32())
}

func runnerOf[T accumulator](j *job, c chainer[T], memory *levels[T], o output[T]) (runner, int, int) {
	e := &evaluator[T]{chainer: c, levels: memory, stopped: j.stopped, start: startOf[T](j)}
	rowPad, columnPad := c.padding()
	return func(t tile) { outputTile(j, t, e.evaluate, o) }, rowPad, columnPad
}
