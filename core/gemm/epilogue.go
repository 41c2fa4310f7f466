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
	// The sum does not enter: K is 0 with an addend, or the addend is copied.
	addendAlone bool
	copied      bool
}

func newEpilogue(a *Args) epilogue {
	e := epilogue{
		args: a, form: a.Profile.Epilogue.Form, scale: a.Profile.Epilogue.Scaling, out: a.D.Format, size: a.D.elementSize(),
		alpha: float32(a.Alpha), beta: float32(a.Beta), alpha64: a.Alpha, beta64: a.Beta,
	}
	if e.form.InOperand() { // alpha has been multiplied into it
		e.alpha, e.alpha64 = 1, 1
	}
	switch {
	case a.C == nil && (a.empty() || a.skipsSum()): // +0, whatever alpha and the scales are
		e.alpha, e.alpha64, e.scale = 1, 1, profile.ScalingNone
	case e.form.Product() && a.skipsSum():
		e.form = profile.FormFMAAlpha // of a sum of +0
	}
	if a.C != nil {
		e.addendAlone = a.empty() // first: with K = 0 torch does not come as far as a copy
		e.copied = !e.addendAlone && a.skipsSum() && a.Profile.Epilogue.ZeroAlpha == profile.ZeroAlphaCopy
	}
	e.plain = a.C == nil && e.alpha64 == 1 && e.scale == profile.ScalingNone && !e.form.Product()
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
		v := acc[i]
		if e.form.Product() {
			v = e.product32(j, t, row, column)
		}
		store(d.at(t.batch, row, column), e.size, e.element32(t.batch, row, column, v))
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
	if e.form.Product() {
		return e.narrow(acc) // all of it, see product32
	}
	if e.copied {
		return e.args.C.Bits(batch, row, column)
	}
	if e.addendAlone { // torch multiplies by beta itself
		return e.narrow(float32(e.beta * widen(e.args.C.Bits(batch, row, column), e.args.C.Format)))
	}
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
		switch {
		case e.plusZero():
			acc = simd.FMA32(e.alpha, acc, 0)
		case e.alpha != 1:
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

func (e *epilogue) plusZero() bool { return e.args.Profile.Epilogue.PlusZero && e.alpha64 != 1 }

// factors are a and b of an output element of a product with K = 1, alpha multiplied into one of them by times.
func factors[T accumulator](e *epilogue, j *job, t tile, row, column int, times func(T) T) (x, y T) {
	lane, other := row, column
	if j.swapped {
		lane, other = other, lane
	}
	x = startValue[T](j.rows.bits(t.batch, lane, 0), j.rows.as)
	y = startValue[T](j.columns.bits(t.batch, other, 0), j.columns.as)
	if j.swapped {
		x, y = y, x
	}
	if e.form == profile.FormProductA {
		return times(x), y
	}
	return times(y), x
}

// product32 is fma(rne(alpha·b), a, rne(beta·c)), or the product alone; with product-a a and b are exchanged.
func (e *epilogue) product32(j *job, t tile, row, column int) float32 {
	x, y := factors(e, j, t, row, column, func(v float32) float32 { return float32(e.alpha * v) })
	c := e.args.C
	if c == nil {
		return float32(x * y)
	}
	row, column = e.chosen(row, column)
	return simd.FMA32(x, y, float32(e.beta*widen(c.Bits(t.batch, row, column), c.Format)))
}

// product64 is product32 for f64. Of two NaN factors the one that alpha is not in wins; an addend's NaN comes last.
func (e *epilogue) product64(j *job, t tile, row, column int) float64 {
	x, y := factors(e, j, t, row, column, func(v float64) float64 { return times64(e.alpha64, v) })
	c := e.args.C
	if c == nil {
		return times64(x, y)
	}
	row, column = e.chosen(row, column)
	addend := times64(e.beta64, math.Float64frombits(c.Bits(t.batch, row, column)))
	return keptFloat64(math.FMA(x, y, addend), y, x, addend)
}

// keptFloat64 is v, or, where v is a NaN, the first NaN of the operands it was made of, made quiet; the canonical one where
// none of them is.
func keptFloat64(v float64, operands ...float64) float64 {
	if v == v {
		return v
	}
	for _, x := range operands {
		if x != x {
			return math.Float64frombits(math.Float64bits(x) | 1<<51)
		}
	}
	return nan64
}

// times64 is scale·v, or v's NaN before the scale's.
func times64(scale, v float64) float64 { return keptFloat64(float64(scale*v), v, scale) }

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
		begin := none
		if c == nil && e.plusZero() {
			begin = 0
		}
		acc = roundToHalf(times(alpha, acc), begin)
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
		v := acc[i]
		if e.form.Product() {
			v = e.product64(j, t, row, column)
		}
		*(*float64)(d.at(t.batch, row, column)) = e.element64(t.batch, row, column, v)
	})
}

// element64 is element32 for f64. NaN payloads are the GPU's: of the operands of a fused multiply-add the NaN of the one that
// is added wins (measured for fma-alpha with xmma, gemvNSP and dot kernels, for fma-beta with CUTLASS; gemvx keeps the
// sum's).
func (e *epilogue) element64(batch, row, column int, acc float64) float64 {
	row, column = e.chosen(row, column)
	if e.form.Product() {
		return acc
	}
	c := e.args.C
	if c == nil {
		switch {
		case e.plusZero():
			acc = keptFloat64(math.FMA(e.alpha64, acc, 0), acc, e.alpha64)
		case e.alpha64 != 1:
			acc = times64(e.alpha64, acc)
		}
		return acc
	}
	addend := math.Float64frombits(c.Bits(batch, row, column))
	switch {
	case e.copied:
		return addend
	case e.addendAlone:
		return times64(e.beta64, addend)
	}
	switch e.form {
	case profile.FormRoundThenAdd:
		if e.alpha64 != 1 {
			acc = times64(e.alpha64, acc)
		}
		return keptFloat64(acc+addend, acc, addend)
	case profile.FormFMAAlpha:
		scaled := times64(e.beta64, addend)
		return keptFloat64(math.FMA(e.alpha64, acc, scaled), scaled, acc, e.alpha64)
	case profile.FormFMABeta:
		scaled := times64(e.alpha64, acc)
		return keptFloat64(math.FMA(e.beta64, addend, scaled), scaled, addend, e.beta64)
	}
	return keptFloat64(acc+addend, acc, addend)
}

func (e *epilogue) storeInt(j *job, t tile, acc []int32, ld int) { storeSame(j, e.args.D, t, acc, ld) }
