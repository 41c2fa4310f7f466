package gemm

import (
	"math"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// epilogue turns a tile of merged sums into output elements. Rows and columns below are those of the caller's matrices:
// a swapped job and chosen rows and columns are undone here.
type epilogue struct {
	args    *Args
	form    profile.Form
	scale   profile.Scaling
	plain   bool // nothing but the rounding to the output format
	alpha   float32
	beta    float32
	alpha64 float64
	beta64  float64
	out     format.Format
	size    int
}

func newEpilogue(a *Args) epilogue {
	e := epilogue{
		args: a, form: a.Profile.Epilogue.Form, scale: a.Profile.Epilogue.Scaling, out: a.D.Format, size: a.D.elementSize(),
		alpha: float32(a.Alpha), beta: float32(a.Beta), alpha64: a.Alpha, beta64: a.Beta,
	}
	if e.form.InOperand() { // alpha has been multiplied into it
		e.alpha, e.alpha64 = 1, 1
	}
	e.plain = a.C == nil && e.alpha64 == 1 && e.scale == profile.ScalingNone
	return e
}

// each calls f with the index of every element of the tile and its place in the output.
func (j *job) each(t tile, ld int, f func(index, row, column int)) {
	for r := range t.rows {
		for c := range t.columns {
			row, column := t.row+r, t.column+c
			if j.swapped {
				row, column = column, row
			}
			f(r*ld+c, row, column)
		}
	}
}

func (e *epilogue) chosen(row, column int) (int, int) {
	if e.args.Rows != nil {
		row = e.args.Rows[row]
	}
	if e.args.Columns != nil {
		column = e.args.Columns[column]
	}
	return row, column
}

func (e *epilogue) store32(j *job, t tile, acc []float32, ld int) {
	if e.plain {
		e.storePlain32(j, t, acc, ld)
		return
	}
	d := e.args.D
	j.each(t, ld, func(i, row, column int) {
		store(d.at(t.batch, row, column), e.size, e.element32(t.batch, row, column, acc[i]))
	})
}

// lines calls f for every line of the tile with its sums, where its first element is stored and how many bytes further each
// next one is.
func lines[T accumulator](j *job, d *Matrix, t tile, acc []T, ld int, f func(line []T, to unsafe.Pointer, step int)) {
	step := d.ColumnStride
	if j.swapped {
		step = d.RowStride
	}
	step *= d.elementSize()
	for r := range t.rows {
		row, column := t.row+r, t.column
		if j.swapped {
			row, column = column, row
		}
		f(acc[r*ld:r*ld+t.columns], d.at(t.batch, row, column), step)
	}
}

// storePlain32 is the common case, with the rounding chosen outside the loop.
func (e *epilogue) storePlain32(j *job, t tile, acc []float32, ld int) {
	lines(j, e.args.D, t, acc, ld, func(line []float32, to unsafe.Pointer, step int) {
		switch e.out {
		case format.F16:
			for i, v := range line {
				*(*uint16)(unsafe.Add(to, i*step)) = format.F32ToF16(math.Float32bits(v))
			}
		case format.BF16:
			for i, v := range line {
				*(*uint16)(unsafe.Add(to, i*step)) = format.F32ToBF16(math.Float32bits(v))
			}
		default:
			for i, v := range line {
				*(*float32)(unsafe.Add(to, i*step)) = canonical32(v)
			}
		}
	})
}

// storeSame stores sums that need no rounding.
func storeSame[T accumulator](j *job, d *Matrix, t tile, acc []T, ld int) {
	lines(j, d, t, acc, ld, func(line []T, to unsafe.Pointer, step int) {
		if step == int(unsafe.Sizeof(line[0])) {
			copy(unsafe.Slice((*T)(to), len(line)), line)
			return
		}
		for i, v := range line {
			*(*T)(unsafe.Add(to, i*step)) = v
		}
	})
}

// element32 computes one output element's bits from its merged sum. Every product is written float32(x*y): without the
// conversion the compiler may fuse it into a multiply-add, which rounds once less.
func (e *epilogue) element32(batch, row, column int, acc float32) uint64 {
	row, column = e.chosen(row, column)
	switch e.scale {
	case profile.ScalingTensor:
		acc = float32(acc * float32(e.args.ScaleA[0]*e.args.ScaleB[0]))
	case profile.ScalingRow:
		acc = float32(float32(acc*e.args.ScaleB[column]) * e.args.ScaleA[row])
	}
	c := e.args.C
	if e.form == profile.FormHalf || e.form == profile.FormHalfAlpha {
		return e.half(batch, row, column, acc)
	}
	if c == nil {
		if e.alpha != 1 {
			acc = float32(e.alpha * acc)
		}
		return e.narrow(acc)
	}
	addend := widen(c.Bits(batch, row, column), c.Format)
	switch e.form {
	case profile.FormRoundThenAdd:
		if e.alpha != 1 {
			acc = float32(e.alpha * acc)
		}
		return e.narrow(roundFloat32(acc, e.out) + addend)
	case profile.FormFMAAlpha:
		return e.narrow(simd.FMA32(e.alpha, acc, float32(e.beta*addend)))
	case profile.FormFMABeta:
		return e.narrow(simd.FMA32(e.beta, addend, float32(e.alpha*acc)))
	case profile.FormAlphaInA, profile.FormAlphaInB:
		return e.narrow(simd.FMA32(e.beta, addend, acc))
	}
	return e.narrow(acc + addend)
}

// half is the f16 accumulator's epilogue: h(beta·c + h(alpha·acc)), or h(alpha·acc + h(beta·c)); alpha and beta are rounded
// to f16 first.
func (e *epilogue) half(batch, row, column int, acc float32) uint64 {
	alpha, beta := roundFloat32(e.alpha, format.F16), roundFloat32(e.beta, format.F16)
	// Products in f64 are exact: 11 bits by at most 24.
	times := func(scale, v float32) float64 { return float64(float64(scale) * float64(v)) }
	none := math.Copysign(0, -1) // changes nothing it is added to
	c := e.args.C
	if c != nil && e.form == profile.FormHalfAlpha {
		addend := roundToHalf(times(beta, widen(c.Bits(batch, row, column), c.Format)), none)
		return e.narrow(roundToHalf(times(alpha, acc), float64(addend)))
	}
	if e.alpha != 1 {
		acc = roundToHalf(times(alpha, acc), none)
	}
	if c != nil {
		acc = roundToHalf(times(beta, widen(c.Bits(batch, row, column), c.Format)), float64(acc))
	}
	return e.narrow(acc)
}

func (e *epilogue) narrow(v float32) uint64 {
	b := math.Float32bits(v)
	switch e.out {
	case format.F16:
		return uint64(format.F32ToF16(b))
	case format.BF16:
		return uint64(format.F32ToBF16(b))
	}
	return uint64(math.Float32bits(canonical32(v)))
}

func (e *epilogue) store64(j *job, t tile, acc []float64, ld int) {
	d := e.args.D
	if e.plain {
		storeSame(j, d, t, acc, ld)
		return
	}
	j.each(t, ld, func(i, row, column int) {
		*(*float64)(d.at(t.batch, row, column)) = e.element64(t.batch, row, column, acc[i])
	})
}

func (e *epilogue) element64(batch, row, column int, acc float64) float64 {
	row, column = e.chosen(row, column)
	c := e.args.C
	if c == nil {
		if e.alpha64 != 1 {
			acc = float64(e.alpha64 * acc)
		}
		return acc
	}
	addend := math.Float64frombits(c.Bits(batch, row, column))
	switch e.form {
	case profile.FormRoundThenAdd:
		if e.alpha64 != 1 {
			acc = float64(e.alpha64 * acc)
		}
		return acc + addend
	case profile.FormFMAAlpha:
		return math.FMA(e.alpha64, acc, float64(e.beta64*addend))
	case profile.FormFMABeta:
		return math.FMA(e.beta64, addend, float64(e.alpha64*acc))
	}
	return acc + addend
}

func (e *epilogue) storeInt(j *job, t tile, acc []int32, ld int) { storeSame(j, e.args.D, t, acc, ld) }
