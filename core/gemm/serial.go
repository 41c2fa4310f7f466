package gemm

import (
	"math"
	"slices"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// output is what happens to a tile's sums: the whole epilogue, or, for the further slices of a serial sum, an addition to
// what the slices before have stored.
type output[T accumulator] struct {
	store func(j *job, t tile, acc []T, ld int)
	add   func(j *job, t tile, acc []T, ld int)
}

// outputTile evaluates the job's tree for a tile and puts the sums out. A serial root is evaluated slice by slice, as its
// thread blocks follow each other.
func outputTile[T accumulator](j *job, t tile, evaluate func(*plan.Tree, tile) ([]T, int), o output[T]) {
	if !j.tree.Serial {
		if acc, ld := evaluate(j.tree, t); !j.stopped() {
			o.store(j, t, acc, ld)
		}
		return
	}
	put := o.store
	for _, slice := range j.tree.Sum {
		acc, ld := evaluate(slice, t)
		if j.stopped() {
			return
		}
		put(j, t, acc, ld)
		put = o.add
	}
}

// checkSerial refuses what is not known to go with a serial sum.
func (j *job) checkSerial() error {
	if !j.tree.Serial || j.args.scalar(j.args.Alpha) == 1 {
		return nil
	}
	known := []profile.Form{profile.FormFMAAlpha, profile.FormFMABeta}
	if j.step.Result == format.F16 {
		known = []profile.Form{profile.FormHalf, profile.FormHalfAlpha}
	}
	if f := j.args.Profile.Epilogue.Form; !f.InOperand() && !slices.Contains(known, f) {
		return fail(KindUnsupported, "profile %s: how alpha enters the further slices of a serial sum is not known for the form %s and sums in %v",
			profileName(j.args.Profile), f, j.step.Result)
	}
	return nil
}

// add32 is what a further slice does to D: the epilogue once more, with D as the addend and a beta of 1. Where alpha is 1
// that is D = rne(D + acc), the addition in the accumulator's type.
func (e *epilogue) add32(j *job, t tile, acc []float32, ld int) {
	half := j.step.Result == format.F16
	lines(j, e.args.D, t, acc, ld, func(line []float32, to unsafe.Pointer, step int) {
		for i, v := range line {
			at := unsafe.Add(to, i*step)
			d := widen(load(at, e.size), e.out)
			switch {
			case e.alpha != 1 && half:
				v = e.halfScaled(v, d)
			case e.alpha != 1 && e.form == profile.FormFMAAlpha:
				v = simd.FMA32(e.alpha, v, d)
			case e.alpha != 1:
				v = d + float32(e.alpha*v)
			case half:
				// The f32 sum of two f16 is exact or has 24 bits, so that rounding it again is rounding once.
				v = roundFloat32(v+d, format.F16)
			default:
				v += d
			}
			store(at, e.size, e.narrow(v))
		}
	})
}

// halfScaled is h(d + h(alpha·v)), or h(alpha·v + d).
func (e *epilogue) halfScaled(v, d float32) float32 {
	product := float64(roundFloat32(e.alpha, format.F16)) * float64(v) // exact: 11 bits by 11
	if e.form == profile.FormHalfAlpha {
		return roundToHalf(product, float64(d))
	}
	return roundToHalf(float64(roundToHalf(product, math.Copysign(0, -1))), float64(d))
}

// add64 is add32 for f64. Where alpha is 1 it adds as a merge does: of two NaNs the further slice's wins.
func (e *epilogue) add64(j *job, t tile, acc []float64, ld int) {
	lines(j, e.args.D, t, acc, ld, func(line []float64, to unsafe.Pointer, step int) {
		for i, v := range line {
			at := (*float64)(unsafe.Add(to, i*step))
			switch {
			case e.alpha64 != 1 && e.form == profile.FormFMAAlpha:
				*at = math.FMA(e.alpha64, v, *at)
			case e.alpha64 != 1:
				*at = addFloat64(*at, float64(e.alpha64*v))
			default:
				*at = addFloat64(*at, v)
			}
		}
	})
}

func (e *epilogue) addInt(j *job, t tile, acc []int32, ld int) {
	lines(j, e.args.D, t, acc, ld, func(line []int32, to unsafe.Pointer, step int) {
		for i, v := range line {
			*(*int32)(unsafe.Add(to, i*step)) += v
		}
	})
}

// outputs of the three types of accumulator.
func (e *epilogue) out32() output[float32] { return output[float32]{e.store32, e.add32} }
func (e *epilogue) out64() output[float64] { return output[float64]{e.store64, e.add64} }
func (e *epilogue) outInt() output[int32]  { return output[int32]{e.storeInt, e.addInt} }
