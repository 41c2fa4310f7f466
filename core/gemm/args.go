package gemm

import (
	"math/bits"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// Args is one multiplication: D = epilogue(A·B, C), batch by batch.
type Args struct {
	Profile *profile.Profile
	A       *Matrix // batch × m × k
	B       *Matrix // batch × k × n
	C       *Matrix // the addend, nil for none; RowStride 0 makes a bias of n elements
	D       *Matrix // batch × m × n, or batch × len(Rows) × len(Columns); its format overrides the profile's
	// Start holds the values accumulators start from, in the step's result format, for plans of one accumulator: batch × m
	// × n, as D. nil: +0.
	Start *Matrix
	// Alpha and Beta scale the sum and the addend. They have no default: a call that scales nothing says 1 and 1.
	Alpha, Beta float64
	// ScaleA and ScaleB are f8 scales where the profile's epilogue takes them: one element, or m and n.
	ScaleA, ScaleB []float32
	// Rows and Columns choose which rows and columns are computed; nil means all.
	Rows, Columns []int
	Threads       int         // 0 means DefaultThreads
	Level         *simd.Level // nil means simd.Active
	// Progress is called from the calling goroutine, about ten times a second, with multiply-adds done and in all; its
	// error stops the run and is returned.
	Progress func(done, total uint64) error
}

// check refuses what does not fit together and what is not known, before anything is computed.
func (a *Args) check() error {
	if err := a.checkOperands(); err != nil {
		return err
	}
	if err := a.D.Check("d"); err != nil {
		return err
	}
	if err := a.checkCall(); err != nil {
		return err
	}
	return a.checkOverlap()
}

// checkOperands looks at every matrix that is read by itself.
func (a *Args) checkOperands() error {
	if err := a.checkProfile(); err != nil {
		return err
	}
	return a.checkMatrices()
}

func (a *Args) checkProfile() error {
	if a.Profile == nil {
		return fail(KindArgument, "the profile is missing")
	}
	return nil
}

func (a *Args) checkMatrices() error {
	for _, m := range []struct {
		name     string
		matrix   *Matrix
		optional bool
	}{{"a", a.A, false}, {"b", a.B, false}, {"c", a.C, true}, {"start", a.Start, true}} {
		if m.matrix == nil && m.optional {
			continue
		}
		if err := m.matrix.Check(m.name); err != nil {
			return err
		}
	}
	return nil
}

// checkCall looks at whether the parts of the call go together.
func (a *Args) checkCall() error {
	for _, check := range []func() error{a.checkShapes, a.checkFormats, a.checkEpilogue} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkOverlap refuses outputs that share memory with themselves or with what is read. Layouts are valid by now.
func (a *Args) checkOverlap() error {
	d, err := a.D.layout("d")
	if err != nil {
		return err
	}
	if d.selfOverlaps() {
		return fail(KindOverlap, "d: two of its elements share one address; give it strides that keep them apart")
	}
	for _, m := range []struct {
		name   string
		matrix *Matrix
	}{{"a", a.A}, {"b", a.B}, {"c", a.C}, {"start", a.Start}} {
		if m.matrix == nil {
			continue
		}
		read, err := m.matrix.layout(m.name)
		if err != nil {
			return err
		}
		if d.overlaps(read) {
			return fail(KindOverlap, "d overlaps %s in memory; write to memory of its own", m.name)
		}
	}
	return nil
}

func (a *Args) checkShapes() error {
	if a.A.Columns != a.B.Rows {
		return fail(KindShape, "a is %d×%d and b is %d×%d: the inner sizes %d and %d differ",
			a.A.Rows, a.A.Columns, a.B.Rows, a.B.Columns, a.A.Columns, a.B.Rows)
	}
	rows, columns := a.A.Rows, a.B.Columns
	for _, s := range []struct {
		name   string
		index  []int
		size   int
		result *int
	}{{"rows", a.Rows, a.A.Rows, &rows}, {"columns", a.Columns, a.B.Columns, &columns}} {
		if s.index == nil {
			continue
		}
		for i, v := range s.index {
			if v < 0 || v >= s.size {
				return fail(KindShape, "%s[%d] is %d, but there are %d", s.name, i, v, s.size)
			}
		}
		*s.result = len(s.index)
	}
	if a.A.Batch != a.D.Batch || a.B.Batch != a.D.Batch || (a.C != nil && a.C.Batch != a.D.Batch) {
		return fail(KindShape, "the batch sizes differ; share one matrix across a batch with a batch stride of 0")
	}
	if a.D.Rows != rows || a.D.Columns != columns {
		return fail(KindShape, "d is %d×%d, the product is %d×%d", a.D.Rows, a.D.Columns, rows, columns)
	}
	if over, n := bits.Mul64(uint64(rows), uint64(columns)); over != 0 || tooMany(n, uint64(a.D.Batch), uint64(a.A.Columns)) {
		return fail(KindShape, "2^64 multiply-adds or more")
	}
	if a.C != nil && (a.C.Rows != a.A.Rows || a.C.Columns != a.B.Columns) {
		return fail(KindShape, "c is %d×%d, the whole product is %d×%d (a bias has a row stride of 0)",
			a.C.Rows, a.C.Columns, a.A.Rows, a.B.Columns)
	}
	if s := a.Start; s != nil && (s.Batch != a.D.Batch || s.Rows != rows || s.Columns != columns) {
		return fail(KindShape, "start is %d×%d×%d, d is %d×%d×%d", s.Batch, s.Rows, s.Columns, a.D.Batch, rows, columns)
	}
	for _, s := range []struct {
		name  string
		scale []float32
		size  int
	}{{"scale_a", a.ScaleA, a.A.Rows}, {"scale_b", a.ScaleB, a.B.Columns}} {
		if len(s.scale) > 1 && len(s.scale) != s.size {
			return fail(KindShape, "%s has %d elements; it takes 1 or %d", s.name, len(s.scale), s.size)
		}
	}
	return nil
}

// tooMany tells whether n·x·y multiply-adds cannot be counted in 64 bits.
func tooMany(n, x, y uint64) bool {
	over, n := bits.Mul64(n, x)
	more, _ := bits.Mul64(n, y)
	return (over != 0 || more != 0) && x != 0 && y != 0
}

func (a *Args) checkFormats() error { return a.checkFormatsWith((*Matrix).holdsTF32) }

// checkFormatsWith asks holdsTF32, which reads a whole operand, only where the answer matters.
func (a *Args) checkFormatsWith(holdsTF32 func(*Matrix) bool) error {
	p := a.Profile
	for _, o := range []struct {
		name   string
		matrix *Matrix
		want   format.Format
	}{{"a", a.A, p.Step.A}, {"b", a.B, p.Step.B}} {
		if o.matrix.Format == o.want || o.matrix.Format == format.F32 && p.TakesF32() {
			continue
		}
		if o.matrix.Format == format.F32 && o.want == format.TF32 {
			if holdsTF32(o.matrix) {
				continue
			}
			return fail(KindFormat, "%s is f32, and how the kernels of profile %s round f32 to tf32 is not known: round it yourself, clearing the low 13 bits of every element",
				o.name, profileName(p))
		}
		also := ""
		if p.TakesF32() {
			also = " or f32"
		}
		return fail(KindFormat, "%s is %v, but profile %s takes %v%s there", o.name, o.matrix.Format, profileName(p), o.want, also)
	}
	if a.Start != nil && a.Start.Format != p.Step.Result {
		return fail(KindFormat, "start is %v, but the accumulators of profile %s are %v", a.Start.Format, profileName(p), p.Step.Result)
	}
	if err := profile.CheckOut("d", p.Step.Result, a.D.Format); err != nil {
		return fail(KindFormat, "%v", err)
	}
	return nil
}

func (a *Args) checkEpilogue() error {
	e := a.Profile.Epilogue
	scaled := len(a.ScaleA) > 0 || len(a.ScaleB) > 0
	switch {
	case scaled && e.Scaling == profile.ScalingNone && a.Profile.Step.Kind != step.Scaled:
		return fail(KindUnsupported, "scales were given, but profile %s says nothing of scales (epilogue.scaling)", profileName(a.Profile))
	case scaled && a.Profile.Step.Result != format.F32:
		return fail(KindUnsupported, "scales are known only for f32 accumulators")
	case e.Scaling == profile.ScalingTensor && (len(a.ScaleA) != 1 || len(a.ScaleB) != 1):
		return fail(KindArgument, "profile %s takes one scale_a and one scale_b", profileName(a.Profile))
	case e.Scaling == profile.ScalingRow && (len(a.ScaleA) != a.A.Rows || len(a.ScaleB) != a.B.Columns):
		return fail(KindShape, "profile %s takes a scale_a for each of %d rows and a scale_b for each of %d columns",
			profileName(a.Profile), a.A.Rows, a.B.Columns)
	case scaled && a.C != nil && e.Form != profile.FormAdd:
		return fail(KindUnsupported, "how a scaled product and an addend meet is known for the form add alone")
	}
	if a.C != nil {
		if a.C.Format != a.D.Format && a.C.Format != a.Profile.Step.Result {
			return fail(KindFormat, "c is %v; an addend has the output's format %v or the accumulator's", a.C.Format, a.D.Format)
		}
	}
	if e.Form.Product() && a.A.Columns != 1 {
		return fail(KindUnsupported, "the form %s is of products with K = 1, K is %d", e.Form, a.A.Columns)
	}
	if err := a.checkScaled(); err != nil {
		return err
	}
	if a.Profile.Step.Result == format.S32 && (a.C != nil || a.Alpha != 1) {
		return fail(KindUnsupported, "addends and alpha are not known for integer products")
	}
	return nil
}

// checkScaled refuses what is not known of alpha and beta with an addend that is read.
func (a *Args) checkScaled() error {
	e := a.Profile.Epilogue
	zero := a.scalar(a.Alpha) == 0
	switch {
	case zero && a.Start != nil:
		return fail(KindUnsupported, "alpha is 0: what becomes of start is not known")
	case !a.readsAddend() || a.empty():
	case zero && e.ZeroAlpha == profile.ZeroAlphaUnknown:
		return fail(KindUnsupported, "alpha is 0, and profile %s does not say whether a and b are then read (epilogue.zero_alpha)", profileName(a.Profile))
	case zero && e.ZeroAlpha == profile.ZeroAlphaCopy && (a.Beta != 1 || a.C.Format != a.D.Format):
		return fail(KindUnsupported, "profile %s copies c where alpha is 0, which goes with beta 1 and with c in the output's format", profileName(a.Profile))
	case zero && e.ZeroAlpha == profile.ZeroAlphaCopy:
	case e.Form == profile.FormAdd && (a.Alpha != 1 || a.Beta != 1):
		return fail(KindUnsupported, "profile %s adds c unscaled; for alpha %g and beta %g it must say whether the form is fma-alpha, fma-beta or round-then-add",
			profileName(a.Profile), a.Alpha, a.Beta)
	case e.Form == profile.FormRoundThenAdd && a.Beta != 1:
		return fail(KindUnsupported, "the form round-then-add is known for beta 1 alone, beta is %g", a.Beta)
	}
	return nil
}

// empty: there is nothing to multiply. Then no library is asked: torch writes beta·c itself, or zeros.
func (a *Args) empty() bool { return a.A.Columns == 0 && a.Start == nil }

// readsAddend tells whether there is an addend and beta is not 0: with 0 no kernel reads it, whatever it holds
// (docs/arithmetic.md).
func (a *Args) readsAddend() bool { return a.C != nil && a.scalar(a.Beta) != 0 }

// skipsSum tells whether A and B are not read and the sum counts as +0.
func (a *Args) skipsSum() bool {
	return a.scalar(a.Alpha) == 0 && a.Start == nil && a.Profile.Step.Result != format.S32 &&
		(!a.readsAddend() || a.Profile.Epilogue.ZeroAlpha == profile.ZeroAlphaSkip || a.Profile.Epilogue.ZeroAlpha == profile.ZeroAlphaCopy)
}

// scalar is alpha or beta as a kernel is given it, in f32 or f64.
func (a *Args) scalar(v float64) float64 {
	if a.Profile.Step.Result == format.F64 {
		return v
	}
	return float64(float32(v))
}

func profileName(p *profile.Profile) string {
	if p.Name != "" {
		return p.Name
	}
	return "(sha256 " + p.ID()[:12] + ")"
}
