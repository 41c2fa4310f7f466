package discover

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// The constants of a step are found on one accumulator, with products in a few of its spans and zeros everywhere else.

// unbounded is a number of bits that cuts nothing off.
const unbounded = 512

// settle asks sums and keeps the steps that give all the answers. Where none does, the test is noted as broken, and those
// that give most of them are kept.
func (f *finder) settle(about string, list []sum, variants []step.Params) ([]step.Params, error) {
	f.q.phase = about
	if len(variants) == 0 || len(list) == 0 {
		return variants, nil
	}
	// A call of an output of few rows or columns answers few questions, and many steps take long to be held against many: then
	// some of them must do, and inputs of all kinds later tell what they leave open.
	some := len(list)
	if f.q.fewAnswers() {
		some = 400
	} else if len(variants) > 4000 {
		some = 600
	}
	if some < len(list) {
		var kept []sum
		for _, i := range cut(spread(len(list)), some) {
			kept = append(kept, list[i])
		}
		list = kept
	}
	x, err := f.askSums(about, &variants[0], list)
	if err != nil || x == nil {
		return variants, err
	}
	var valid []step.Params
	for _, v := range variants {
		if v.Validate() == nil && profile.CheckOut("", v.Result, f.q.s.D) == nil {
			valid = append(valid, v)
		}
	}
	f.sums = append(f.sums, x)
	f.tried += len(valid)
	best, most, err := x.best(f, len(valid), func(i int) []*profile.Profile { return f.alone(valid[i], x) })
	if err != nil {
		return nil, err
	}
	if most < len(x.want) && f.broken == "" {
		f.broken = fmt.Sprintf("%s: %d of %d answers at most are explained", about, most, len(x.want))
	}
	found := make([]step.Params, len(best))
	for i, at := range best {
		found[i] = valid[at]
	}
	return found, nil
}

// catalogued puts the steps of the catalogue first that differ from what was found only in what nothing has told: the floor of
// an alignment that no operand reaches, for example.
func (f *finder) catalogued(found []step.Params) ([]step.Params, error) {
	if len(found) == 0 || f.broken != "" {
		return found, nil
	}
	var rows []step.Params
	for _, entry := range step.Catalogue() {
		p, q := entry.Params, found[0]
		if p.Kind == q.Kind && p.A == q.A && p.B == q.B && p.InputRounding == q.InputRounding && p.Group == q.Group && p.Fraction == q.Fraction && p.Result == q.Result {
			rows = append(rows, p)
		}
	}
	for _, x := range f.sums {
		var kept []step.Params
		for _, p := range rows {
			_, n, err := x.best(f, 1, func(int) []*profile.Profile { return f.alone(p, x) })
			if err != nil {
				return nil, err
			}
			if n == len(x.want) {
				kept = append(kept, p)
			}
		}
		rows = kept
	}
	if len(rows) > 0 && rows[0].Floor != nil && found[0].Floor == nil {
		f.note("least exponent of alignment", fmt.Sprintf("none that operands and output of these formats show; %d, as the catalogue has it", *rows[0].Floor))
	}
	return append(rows, found...), nil
}

// alone is a step in one accumulator, with every epilogue that differs there.
func (f *finder) alone(v step.Params, x *exchange) []*profile.Profile {
	plans := []plan.Plan{plan.Plain()}
	if x.apart { // what is left of it passes to the other accumulator in some format
		k := x.args.A.Columns
		plans = nil
		merges := f.mergesOf(v.Result)
		if v.Result != format.F32 { // which passes as it is, whatever the merge's format
			merges = merges[1:2]
		}
		for _, merge := range merges {
			if merge.FromZero {
				root := &plan.Tree{Sum: []*plan.Tree{{Chain: []plan.Range{{Stop: k - 1}}}, {Chain: []plan.Range{{Start: k - 1, Stop: k}}}}, Merge: &merge}
				plans = append(plans, plan.Plan{Tree: &plan.Fixed{K: k, Root: root}})
			}
		}
	}
	return f.withForms(v, plans...)
}

// withForms are a step's profiles with some plans, and every epilogue that differs where no addend shows.
func (f *finder) withForms(v step.Params, plans ...plan.Plan) []*profile.Profile {
	var list []*profile.Profile
	for _, form := range f.forms(&v) {
		for _, p := range plans {
			list = append(list, f.profileOf(v, p, form))
		}
	}
	return list
}

// scaled tells whether sums are multiplied by something before they become the output.
func (f *finder) scaled() bool {
	return f.q.s.Alpha != 1 || f.q.s.Scaling != profile.ScalingNone
}

// forms are the epilogues that differ where no addend shows: alpha, if it is not 1, may be multiplied in where sums are f16,
// or before the products.
func (f *finder) forms(s *step.Params) []profile.Form {
	list := []profile.Form{profile.FormFMAAlpha}
	if f.q.s.Alpha == 1 && (f.q.s.Addend != AddendBias && f.q.s.Addend != AddendFull || f.q.s.Beta == 1) {
		list[0] = profile.FormAdd
		return list
	}
	if s.Result == format.F16 {
		list = append(list, profile.FormHalf)
	}
	if s.Kind == step.FMA && s.Result == format.F32 {
		list = append(list, profile.FormAlphaInA, profile.FormAlphaInB)
	}
	if s.Kind == step.FMA && f.q.s.K == 1 {
		list = append(list, profile.FormProductA, profile.FormProductB)
	}
	return list
}

// vary makes one step of each variant and change, without those that are the same.
func vary[T any](variants []step.Params, values []T, set func(*step.Params, T)) []step.Params {
	var list []step.Params
	seen := map[step.Params]bool{}
	for _, v := range variants {
		for _, value := range values {
			changed := v
			set(&changed, value)
			if !seen[changed] {
				seen[changed] = true
				list = append(list, changed)
			}
		}
	}
	return list
}

// maybeFlushed are variants with their results' subnormal numbers kept and flushed, where sums of ordinary numbers may be such.
func maybeFlushed(variants []step.Params) []step.Params {
	if len(variants) == 0 || variants[0].Result != format.F16 {
		return variants
	}
	return vary(variants, bothWays, func(p *step.Params, is bool) { p.FlushOutputs = is })
}

var bothWays = []bool{false, true}

// The roundings to try, the likely ones first: of what tensor cores do, and of what multiply-adds and conversions do.
var (
	roundings    = []format.Rounding{format.TowardZero, format.NearestEven, format.NearestAway, format.Down, format.Up}
	nearestFirst = []format.Rounding{format.NearestEven, format.TowardZero, format.NearestAway, format.Down, format.Up}
)

// results are the accumulators' formats that may come to the output, the likely ones first.
func (f *finder) results() []format.Format {
	s := f.q.s
	var list []format.Format
	switch {
	case s.Addend == AddendStart:
		return []format.Format{s.C}
	case s.D == format.F64:
		return []format.Format{format.F64}
	}
	list = append(list, format.F32)
	if (s.D == format.F16 || s.D == format.F32) && s.A.Info().ExponentBits <= 5 {
		list = append(list, format.F16)
	}
	return list
}

// constants finds the steps of a kind and group, as given by base, that explain one accumulator.
func (f *finder) constants(base step.Params) ([]step.Params, error) {
	base.A, base.B = f.q.s.A, f.q.s.B
	base.Result, base.ResultRounding = f.results()[0], format.NearestEven
	if base.Kind == step.FMA {
		base.ZeroSign = step.IEEEZero
	}
	aligned := base.Kind == step.Fused || base.Kind == step.Converted || base.Kind == step.CDNA3
	if aligned {
		base.Fraction, base.Align = 25, format.TowardZero
		if base.Kind == step.Fused {
			base.ResultRounding = format.TowardZero
		}
	}
	if base.Kind == step.CDNA3 {
		base.SumFraction, base.AccumulatorFraction, base.JoinAlign = unbounded, unbounded, format.TowardZero
	}
	if base.Kind == step.Converted {
		base.Via, base.Partial, base.PartialRounding = via(base.A, base.B), base.Result, format.TowardZero
		if base.Partial != format.F16 {
			base.Partial = format.F32
		}
	}
	var err error
	if base.FlushInputs, err = f.flushed(); err != nil {
		return nil, err
	}
	f.normalOnly = true
	variants := []step.Params{base}
	if variants, err = f.inputs(variants); err != nil {
		return nil, err
	}
	if aligned && base.Group > 1 && len(f.lane.slots(&base)) > 1 {
		if variants, err = f.alignment(variants); err != nil {
			return nil, err
		}
	}
	if len(variants) == 0 || f.broken != "" {
		return variants, nil
	}
	if variants, err = f.rounding(variants); err != nil {
		return nil, err
	}
	f.normalOnly = base.FlushInputs
	for _, find := range []func([]step.Params) ([]step.Params, error){f.terms, f.subnormals, f.floor, f.extremes, f.random} {
		if len(variants) == 0 || f.broken != "" { // these readings are none; others may be
			return variants, nil
		}
		if variants, err = find(variants); err != nil {
			return nil, err
		}
	}
	return variants, nil
}

// via is a format that holds the operands, to convert them to.
func via(a, b format.Format) format.Format {
	if a == b {
		return a
	}
	return format.F16
}

// flushed tells whether subnormal operands count as zero: all that follows may use them, or know that it must not.
func (f *finder) flushed() (bool, error) {
	s := f.q.s
	var list []sum
	for _, x := range []struct {
		of, other format.Format
		inA       bool
	}{{s.A, s.B, true}, {s.B, s.A, false}} {
		low, _ := reach(x.of, false)
		normal, _ := reach(x.of, true)
		_, high := reach(x.other, true)
		if low == normal {
			continue
		}
		small, _ := power(x.of, normal-1, false)
		big, _ := power(x.other, min(high, max(0, -normal)), false)
		list = append(list, sum{factors: []factor{oneOf(x.inA, small, big)}})
	}
	var questions []question
	for i := range list {
		if q, ok := f.encode(&list[i]); ok {
			questions = append(questions, q)
		}
	}
	answers, err := f.q.ask(questions)
	for _, bits := range answers {
		if !isZero(s.D, bits) {
			return false, err
		}
	}
	return len(answers) > 0, err
}

// oneOf is a product of an operand that is looked at, in A or in B, and one that is not.
func oneOf(inA bool, x, other uint64) factor {
	if inA {
		return factor{given: true, a: x, b: other}
	}
	return factor{given: true, a: other, b: x}
}

// holdsIn says whether every number of narrow is one of wide.
func holdsIn(wide, narrow format.Format) bool {
	w, n := wide.Info(), narrow.Info()
	return w.MantissaBits >= n.MantissaBits && w.MaxExponent >= n.MaxExponent && w.MinExponent <= n.MinExponent
}

// inputs finds whether f32 operands become tf32, and how.
func (f *finder) inputs(variants []step.Params) ([]step.Params, error) {
	if f.q.s.A != format.F32 || f.q.s.B != format.F32 {
		return variants, nil
	}
	var list []sum
	one := uint64(math.Float32bits(1))
	for _, low := range []uint64{0x1000, 0x3000, 0x0800, 0x1001, 0x2fff, 0x3001, 0x1fff, 0x0001} {
		for _, sign := range []uint64{0, 1 << 31} {
			for _, inA := range bothWays {
				x := one | low | sign
				p := oneOf(inA, x, one)
				list = append(list, sum{factors: []factor{p}})
				if len(f.lane.spans) > 1 {
					list = append(list, sum{factors: []factor{p, {span: 1, number: number{-1, 0}}}})
				}
			}
		}
	}
	if variants[0].Kind == step.Fused && f.q.s.D == format.F32 { // cut nothing off that tells
		variants = vary(variants, []int{25}, func(p *step.Params, n int) { p.Fraction = n })
	}
	tf32 := vary(vary(variants, []format.Format{format.TF32}, func(p *step.Params, to format.Format) { p.A, p.B = to, to }),
		nearestFirst,
		func(p *step.Params, r format.Rounding) { p.InputRounding = r })
	both := append(slices.Clone(variants), tf32...)
	if variants[0].Kind == step.Fused {
		both = append(slices.Clone(tf32), variants...)
	}
	broken := f.broken
	found, err := f.settle("how operands are rounded", list, both)
	if err != nil {
		return nil, err
	}
	f.broken = broken // roundings that are not known yet may stand in the way; what follows decides
	if r := found[0].InputRounding; r != "" {
		f.note("operands", fmt.Sprintf("f32, rounded to tf32 %s", words(r)))
	} else {
		f.note("operands", "f32, all of their bits")
	}
	return found[:1], nil
}

func words(r format.Rounding) string {
	switch r {
	case format.NearestEven:
		return "to nearest, ties to even"
	case format.NearestAway:
		return "to nearest, ties away from zero"
	case format.TowardZero:
		return "toward zero"
	case format.Down:
		return "downward"
	}
	return "upward"
}

// alignment finds F and how terms are cut.
func (f *finder) alignment(variants []step.Params) ([]step.Params, error) {
	base := variants[0]
	in := f.lane.slots(&base)
	big := f.masks.big
	// X and -X, which cancel, and a power of two beside them.
	cancelling := func(v number) sum {
		if len(in) >= 3 {
			return sum{factors: []factor{{slot: in[0], number: number{1, big}}, {slot: in[1], number: number{-1, big}}, {slot: in[2], number: v}}}
		}
		if f.q.s.Addend == AddendStart {
			c, _ := power(f.q.s.C, big, false)
			return sum{start: c, factors: []factor{{slot: in[0], number: number{-1, big}}, {slot: in[1], number: v}}}
		}
		return sum{factors: []factor{{slot: in[0], number: number{1, big}}, {span: 1, slot: in[0], number: number{-1, big}}, {span: 1, slot: in[1], number: v}}}
	}
	f.q.phase = "how far terms are aligned"
	var questions []question
	var depth []int
	for d := 0; big-d >= f.masks.unit; d++ {
		x := cancelling(number{1, big - d})
		if q, ok := f.encode(&x); ok {
			questions, depth = append(questions, q), append(depth, d)
		}
	}
	if len(questions) == 0 {
		return variants, nil
	}
	answers, err := f.q.ask(questions)
	if err != nil {
		return nil, err
	}
	kept := -1
	for i, d := range depth {
		if !near(valueOf(f.q.s.D, answers[i])/f.masks.scale, math.Ldexp(1, big-d), f.masks.scale) {
			break
		}
		kept = d
	}
	switch {
	case kept == depth[len(depth)-1]:
		f.note("alignment", fmt.Sprintf("nothing is cut off down to 2^-%d of the largest term", kept))
		for i := range variants {
			variants[i].Fraction = unbounded
			if variants[i].Kind == step.Fused {
				variants[i].Kind, variants[i].Fraction, variants[i].Align = step.Exact, 0, ""
			}
		}
		return variants, nil
	case kept < 1:
		f.broken = "how far terms are aligned: a term as large as the largest is cut off"
		return variants, nil
	}
	for i := range variants {
		variants[i].Fraction = kept
	}
	var list []sum
	for _, m := range []int64{1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 13, 14} {
		for _, s := range []int64{1, -1} {
			list = append(list, cancelling(number{s * m, big - kept - 2}))
		}
	}
	// What is left may be too small for the results, whose format and rounding are not known yet.
	all := vary(variants, roundings, func(p *step.Params, r format.Rounding) { p.Align = r })
	all = vary(all, f.results(), func(p *step.Params, to format.Format) { p.Result = to })
	all = vary(all, roundings, func(p *step.Params, r format.Rounding) { p.ResultRounding = r })
	all = vary(all, bothWays, func(p *step.Params, is bool) { p.FlushOutputs = is })
	if base.Kind == step.Converted {
		all = vary(all, []format.Format{format.F32, format.F16}, func(p *step.Params, to format.Format) { p.Partial = to })
		all = vary(all, roundings, func(p *step.Params, r format.Rounding) { p.PartialRounding = r })
	}
	if base.Kind == step.CDNA3 && !base.Interleaved && base.Result != format.F64 { // or the products' sum is rounded before it is added
		rounded := slices.Clone(all)
		for i := range rounded {
			rounded[i] = roundedFirst(rounded[i])
		}
		rounded = vary(rounded, roundings, func(p *step.Params, r format.Rounding) { p.PartialRounding = r })
		all = append(all, rounded...)
	}
	broken := f.broken
	found, err := f.settle("how terms are cut", list, all)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if f.hidesAlignment(&base) { // a rounding may have cut them instead: the two together, next
		f.broken = broken
	}
	for i := range variants {
		variants[i].Align = found[0].Align
	}
	f.note("alignment", fmt.Sprintf("%d fraction bits, terms cut %s", kept, words(variants[0].Align)))
	return variants, nil
}

// hidesAlignment: the accumulator is none of two products' terms, or there is but one step, so that nothing cancels before their
// sum is rounded, if it is.
func (f *finder) hidesAlignment(s *step.Params) bool {
	if len(f.lane.slots(s)) != 2 || f.q.s.Addend == AddendStart {
		return false
	}
	switch s.Kind {
	case step.CDNA3:
		return !s.Interleaved
	case step.Fused:
		return len(f.lane.spans) == 1
	}
	return s.Kind == step.Converted
}

// hidden are sums of two products that tell where terms are cut by what that does to the rounding after it: numbers about
// halfway between two sums, a little beside it, and far below.
func (f *finder) hidden(in []int) []sum {
	var list []sum
	add := func(large, m int64, e int) {
		x := []factor{{slot: in[0], number: number{large, 0}}, {slot: in[1], number: number{m, e}}}
		list = append(list, sum{factors: x}, sum{factors: append(slices.Clone(x), factor{span: 1, slot: in[0], number: number{-large, 0}})})
	}
	for _, signs := range [][2]int64{{1, 1}, {1, -1}, {-1, 1}, {-1, -1}} {
		for d := 8; d <= 48; d++ {
			add(signs[0], signs[1], -d)
		}
		for _, top := range []int{9, 10, 11, 12, 22, 23, 24, 25} {
			for j := 1; j <= 10; j++ {
				add(signs[0], signs[1]*(1<<j+1), -top-j)
			}
		}
	}
	return list
}

// shown are sums in a short accumulator whose digits the output would hide, with the first product taken off again in another
// accumulator.
func (f *finder) shown(list []sum) []sum {
	if len(f.lane.spans) > 2 || f.lane.outside < 0 || f.q.s.D.Info().MantissaBits >= f.results()[0].Info().MantissaBits {
		return nil
	}
	var more []sum
	for _, x := range list {
		first := x.factors[0]
		if first.given || first.e != 0 {
			continue
		}
		n := int64(0)
		for _, p := range x.factors {
			if p.e == 0 && !p.given {
				n += p.m
			}
		}
		if n != 0 && len(x.factors) > 1 {
			more = append(more, sum{start: x.start, factors: append(slices.Clone(x.factors), factor{span: elsewhere, number: number{-n, 0}})})
		}
	}
	return more
}

// cutBefore are steps that round the sum of their products, with terms cut anywhere before or after the digits that that keeps.
func (f *finder) cutBefore(v step.Params) []step.Params {
	var list []step.Params
	for fraction := max(min(v.Fraction-3, 8), 1); fraction <= max(v.Fraction+3, 44); fraction++ {
		list = append(list, v)
		list[len(list)-1].Fraction = fraction
	}
	list = vary(list, roundings, func(p *step.Params, r format.Rounding) { p.Align = r })
	list = vary(list, nearestFirst, func(p *step.Params, r format.Rounding) { p.ResultRounding = r })
	if v.Kind == step.Fused {
		return list
	}
	return vary(list, nearestFirst, func(p *step.Params, r format.Rounding) { p.PartialRounding = r })
}

// rounding finds the accumulator's format and how sums are rounded to it.
func (f *finder) rounding(variants []step.Params) ([]step.Params, error) {
	base := variants[0]
	in := f.lane.slots(&base)
	var list []sum
	add := func(x sum) {
		list = append(list, x)
		negated := sum{factors: slices.Clone(x.factors), start: x.start}
		for i := range negated.factors {
			negated.factors[i].m = -negated.factors[i].m
		}
		list = append(list, negated)
	}
	many := min(len(in)-1, 8)
	for _, d := range []int{6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 52, 53, 54} {
		for _, m := range []int64{1, 3, 5, 7} {
			low := number{m, -d - 2}
			// A sum of one span, and what the next leaves of it.
			for i, n := range []int{1, 2, many} {
				if n >= len(in) && len(in) > 1 || i == 2 && many <= 2 || i == 1 && len(in) == 1 {
					continue
				}
				var x sum
				if len(in) > 1 {
					for i := range n {
						x.factors = append(x.factors, factor{slot: in[i], number: number{1, 0}})
					}
					x.factors = append(x.factors, factor{slot: in[n], number: low})
					add(x)
				} else {
					x.factors = append(x.factors, factor{number: number{1, 0}}, factor{span: 1, number: low})
					add(x)
				}
				if i == 0 && len(in) > 1 { // one after the other
					z := sum{factors: []factor{{slot: in[0], number: number{1, 0}}, {span: 1, slot: in[0], number: low}}}
					add(z)
					add(sum{factors: append(slices.Clone(z.factors), factor{span: 2, slot: in[0], number: number{-1, 0}})})
					mixed := slices.Clone(z.factors)
					mixed[1].m = -mixed[1].m
					add(sum{factors: mixed})
				}
				last := x.factors[len(x.factors)-1].span + 1
				if last < len(f.lane.spans) {
					y := sum{factors: append(slices.Clone(x.factors), factor{span: last, slot: in[0], number: number{-int64(n), 0}})}
					add(y)
				}
			}
		}
	}
	apart := []int{2, 5, 9, 12, 16, 20, 23, 24, 25, 27, 29, 31, 33, 35, 37, 39, 41, 44, 48, 52, 53, 54, 60, 70}
	if f.q.s.Addend == AddendStart { // the accumulator's first value, and products
		for d := range 60 {
			for _, m := range []int64{1, 3, 5, 7, -1, -3, -5} {
				for _, negative := range bothWays {
					c, _ := power(f.q.s.C, 0, negative)
					x := []factor{{slot: in[0], number: number{m, -d - 2}}}
					list = append(list, sum{start: c, factors: x})
					if len(in) > 1 {
						y := append(slices.Clone(x), factor{slot: in[1], number: number{1, -d - 6}})
						list = append(list, sum{start: c, factors: y})
					}
				}
			}
		}
	}
	// Numbers of all signs and far apart, one after the other, and what is left of them.
	for _, d := range apart {
		for _, m := range []int64{1, 3, -1, -3} {
			for _, large := range []int64{1, -1} {
				x := []factor{{slot: in[0], number: number{large, 0}}, {span: 1, slot: in[0], number: number{m, -d - 1}}}
				y := []factor{{slot: in[0], number: number{m, -d - 1}}, {span: 1, slot: in[0], number: number{large, 0}}}
				for _, z := range [][]factor{x, y} {
					list = append(list, sum{factors: slices.Clone(z)}, sum{factors: append(slices.Clone(z), factor{span: 2, slot: in[0], number: number{-large, 0}})})
				}
			}
		}
	}
	// Numbers about halfway between two of the output, even and odd ones, and a little beside it, that a shorter sum rounds
	// away.
	if digits := f.q.s.D.Info().MantissaBits; digits < 23 && len(in) > 2 {
		for d := digits + 2; d <= digits+24; d++ {
			for _, odd := range []int64{1, 3} {
				for _, m := range []int64{1, -1, 3, -3} {
					add(sum{factors: []factor{{slot: in[0], number: number{1, 0}}, {slot: in[1], number: number{odd, -digits - 1}}, {slot: in[2], number: number{m, -d}}}})
				}
			}
		}
	}
	if f.hidesAlignment(&base) {
		list = append(list, f.hidden(in)...)
	}
	list = append(list, f.shown(list)...)
	var all, rare []step.Params
	for _, result := range f.results() {
		fractions := []int{0}
		if result == format.F32 {
			for n := 22; n >= 6; n-- {
				fractions = append(fractions, n)
			}
		}
		some := vary(variants, fractions, func(p *step.Params, n int) { p.Result, p.ResultFraction = result, n })
		some = vary(some, roundings, func(p *step.Params, r format.Rounding) { p.ResultRounding = r })
		switch base.Kind {
		case step.Fused:
			if f.hidesAlignment(&base) {
				c := variants[0]
				c.Result = result
				some = append(some, f.cutBefore(c)...)
			}
		case step.Converted:
			some = slices.DeleteFunc(some, func(p step.Params) bool { return p.ResultFraction != 0 })
			partials := []format.Format{format.F32}
			if result == format.F16 {
				partials = []format.Format{format.F16, format.F32}
			}
			some = vary(some, partials, func(p *step.Params, to format.Format) { p.Partial = to })
			some = vary(some, roundings, func(p *step.Params, r format.Rounding) { p.PartialRounding = r })
			if base.A != format.F16 && holdsIn(format.F16, base.A) && holdsIn(format.F16, base.B) {
				some = vary(some, []format.Format{format.F16, base.Via}, func(p *step.Params, to format.Format) { p.Via = to })
			}
		case step.CDNA3:
			some = slices.DeleteFunc(some, func(p step.Params) bool { return p.ResultFraction != 0 })
			some = append(some, f.apart(some)...)
			if f.hidesAlignment(&base) && result != format.F64 {
				c := roundedFirst(variants[0])
				c.Result = result
				some = append(some, f.cutBefore(c)...)
				if result == format.F16 {
					c.Partial = format.F16
					some = append(some, f.cutBefore(c)...)
				}
			}
		case step.FMA:
			short := slices.Clone(some)
			some = slices.DeleteFunc(some, func(p step.Params) bool { return p.ResultFraction != 0 })
			some = append(some, f.single(some)...)
			rare = append(rare, alignedAlone(slices.DeleteFunc(short, func(p step.Params) bool { return p.ResultFraction == 0 }))...)
		}
		all = append(all, maybeFlushed(some)...)
	}
	if base.Kind == step.FMA || base.Kind == step.CDNA3 || f.q.s.Addend == AddendStart {
		// Random ones show what else there is to a step, and which terms set its alignment.
		list = append(list, f.randomSums(&base, 40)...)
		for _, v := range all {
			if v.Fraction != 0 && v.Fraction != unbounded {
				v.NormalisedTerms = true
				all = append(all, v)
			}
		}
	}
	broken := f.broken
	found, err := f.settle("how sums are rounded", list, all)
	if err == nil && f.broken != broken && len(rare) > 0 {
		f.broken = broken
		found, err = f.settle("how sums are rounded", list, rare)
	}
	if err != nil {
		return nil, err
	}
	// f16 sums before f32 ones with as many digits: these differ only where f16 ends, which is what is asked next.
	short := func(p step.Params) int {
		if p.Result == format.F32 && p.ResultFraction == format.F16.Info().MantissaBits {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(found, func(p, q step.Params) int { return short(p) - short(q) })
	if len(found) > 0 {
		p := found[0]
		text := fmt.Sprintf("%v %s", p.Result, words(p.ResultRounding))
		if p.ResultFraction > 0 {
			text += fmt.Sprintf(", cut to %d fraction bits", p.ResultFraction)
		}
		f.note("sums", text)
		f.note("accumulator", accumulatorWords(&p))
	}
	most := 48
	if f.hidesAlignment(&base) {
		most = 400
	}
	return cut(mainFirst(found), most), nil
}

func accumulatorWords(p *step.Params) string {
	switch p.Kind {
	case step.Fused, step.Exact:
		return "one of the terms of its step"
	case step.CDNA3:
		return "added to the sum of the products, which are aligned without it"
	case step.Converted:
		return "added to the sum of the products after that has been rounded"
	case step.CDNA2:
		return "added to the products' sum, which is a tree of pairs"
	}
	return "added to each product, one rounding"
}

// roundedFirst is a step that joins its accumulator with the products' sum as one that rounds that sum to f32 first.
func roundedFirst(c step.Params) step.Params {
	c.Kind, c.SumFraction, c.AccumulatorFraction, c.JoinAlign = step.Converted, 0, 0, ""
	c.Via, c.Partial = via(c.A, c.B), format.F32
	return c
}

// apart are steps that join the accumulator with the sum of the products in other ways: cut once more, or after a rounding
// of that sum.
func (f *finder) apart(variants []step.Params) []step.Params {
	var list []step.Params
	roundings := nearestFirst
	for _, v := range variants {
		if v.Interleaved {
			continue
		}
		c := roundedFirst(v)
		if c.Result == format.F16 {
			list = append(list, vary([]step.Params{c}, roundings, func(p *step.Params, r format.Rounding) { p.Partial, p.PartialRounding = format.F16, r })...)
		}
		if c.Result != format.F64 {
			list = append(list, vary([]step.Params{c}, roundings, func(p *step.Params, r format.Rounding) { p.PartialRounding = r })...)
		}
	}
	for _, v := range variants {
		if v.ResultRounding != format.NearestEven && v.ResultRounding != format.TowardZero {
			continue
		}
		for _, sum := range []int{31, 24, 25, 26, 27, 28, 29, 30, 32} {
			for _, accumulator := range []int{24, 23, 25, 26, 31} {
				for _, join := range []format.Rounding{format.Down, format.TowardZero} {
					c := v
					c.SumFraction, c.AccumulatorFraction, c.JoinAlign = sum, accumulator, join
					list = append(list, c)
				}
			}
		}
	}
	return list
}

// single are steps of one product that are no fused multiply-add: a product rounded before it is added, or terms that are
// aligned.
func (f *finder) single(variants []step.Params) []step.Params {
	var list []step.Params
	roundings := nearestFirst
	for _, v := range variants {
		if v.Result == format.F64 {
			continue
		}
		c := v
		c.ZeroSign = ""
		c.Kind, c.Fraction, c.Align, c.Via, c.Partial = step.Converted, unbounded, format.TowardZero, via(c.A, c.B), format.F32
		list = append(list, vary([]step.Params{c}, roundings, func(p *step.Params, r format.Rounding) { p.PartialRounding = r })...)
		if c.Result == format.F16 {
			list = append(list, vary([]step.Params{c}, roundings, func(p *step.Params, r format.Rounding) { p.Partial, p.PartialRounding = format.F16, r })...)
		}
	}
	return append(list, alignedAlone(variants)...)
}

// alignedAlone are steps that align one product and the accumulator.
func alignedAlone(variants []step.Params) []step.Params {
	var list []step.Params
	for _, v := range variants {
		c := v
		c.ZeroSign = ""
		c.Kind = step.Fused
		for fraction := 8; fraction <= 48; fraction++ {
			for _, align := range roundings {
				c.Fraction, c.Align = fraction, align
				list = append(list, c)
			}
		}
	}
	return list
}

// terms finds what takes part in E: leading bits or exponent fields, zeros or not.
func (f *finder) terms(variants []step.Params) ([]step.Params, error) {
	base := variants[0]
	if base.Fraction == 0 || base.Fraction == unbounded {
		return variants, nil
	}
	in := f.lane.slots(&base)
	var list []sum
	// 1.5·1.5 is more than 2: its leading bit is one above the exponent of its factors. Large ones too, so that what they leave
	// is no subnormal number.
	for _, scale := range []int{0, 5} {
		a, okA := number{3, scale - 1}.bits(f.q.s.A)
		minus, _ := number{-3, scale - 1}.bits(f.q.s.A)
		b, okB := number{3, scale - 1}.bits(f.q.s.B)
		if !okA || !okB {
			continue
		}
		for d := -2; d <= 2 && len(in) > 1; d++ {
			for _, m := range []int64{1, 3, -1, -3} {
				p := factor{slot: in[len(in)-1], number: number{m, 2*scale + d - base.Fraction}}
				if !p.split(f.q.s.A, f.q.s.B) {
					continue
				}
				p.given = true
				x, opposite := factor{slot: in[0], given: true, a: a, b: b}, factor{slot: in[1], given: true, a: minus, b: b}
				if len(in) > 2 {
					list = append(list, sum{factors: []factor{x, opposite, p}})
				}
				later := p
				later.span = 1
				x2 := x
				x2.span = 1
				opposite.slot = in[0]
				list = append(list, sum{factors: []factor{x, p}}, sum{factors: []factor{opposite, x2, later}})
			}
		}
	}
	_, highA := reach(f.q.s.A, true)
	lowB, _ := reach(f.q.s.B, true)
	huge, _ := power(f.q.s.A, highA, false)
	for d := -4; d <= 2 && len(in) > 1; d++ {
		p := factor{slot: in[1], number: number{1, highA + lowB - base.Fraction + d}}
		if p.split(f.q.s.A, f.q.s.B) {
			p.given = true
			list = append(list, sum{factors: []factor{{slot: in[0], given: true, a: huge, b: 0}, p}})
		}
	}
	return f.settle("which terms set the alignment", list, vary(vary(maybeFlushed(variants), bothWays, func(p *step.Params, is bool) { p.NormalisedTerms = is }),
		bothWays, func(p *step.Params, is bool) { p.ZerosAlign = is }))
}

// subnormals finds what is flushed to zero.
func (f *finder) subnormals(variants []step.Params) ([]step.Params, error) {
	s := f.q.s
	var list []sum
	for _, x := range []struct {
		of, other format.Format
		inA       bool
	}{{s.A, s.B, true}, {s.B, s.A, false}} {
		low, _ := reach(x.of, false)
		_, high := reach(x.other, true)
		for _, e := range []int{low, low + 1, low + x.of.Info().MantissaBits/2} {
			small, ok := power(x.of, e, false)
			for _, by := range []int{high, min(high, max(0, -e)), high / 2} {
				big, okBig := power(x.other, by, false)
				if ok && okBig {
					list = append(list, sum{factors: []factor{oneOf(x.inA, small, big)}})
				}
			}
		}
	}
	result := variants[0].Result
	low, _ := reach(result, false)
	normal, _ := reach(result, true)
	for e := low; e <= normal+1; e++ {
		for _, m := range []int64{1, 3} {
			list = append(list, sum{factors: []factor{{number: number{m, e}}}}, sum{factors: []factor{{number: number{-m, e}}}})
		}
	}
	broken := f.broken
	found, err := f.settle("subnormal numbers", list, vary(variants, bothWays, func(p *step.Params, is bool) { p.FlushOutputs = is }))
	if base := variants[0]; base.Fraction != 0 && base.Fraction != unbounded { // a least exponent of alignment hides the same: the two together, next
		f.broken, found = broken, variants
	}
	if err == nil && len(found) > 0 {
		text := "kept"
		switch p := found[0]; {
		case p.FlushInputs && p.FlushOutputs:
			text = "flushed, operands' and results'"
		case p.FlushInputs:
			text = "operands' flushed, results' kept"
		case p.FlushOutputs:
			text = "operands' kept, results' flushed"
		}
		f.note("subnormal numbers", text)
	}
	return found, err
}

// floors are the least exponents that an alignment may have, with none first.
func (f *finder) floors(s *step.Params) []*int {
	least, _ := reach(s.Result, false)
	lowA, _ := reach(f.q.s.A, false)
	lowB, _ := reach(f.q.s.B, false)
	list := []*int{nil}
	for e := least + s.Fraction - 70; e <= max(least, lowA+lowB)+s.Fraction+60; e++ {
		list = append(list, ptr(e))
	}
	return list
}

// floor finds the least E.
func (f *finder) floor(variants []step.Params) ([]step.Params, error) {
	base := variants[0]
	if base.Fraction == 0 || base.Fraction == unbounded {
		return variants, nil
	}
	in := f.lane.slots(&base)
	s := f.q.s
	least, _ := reach(base.Result, false) // of the results' numbers
	lowA, _ := reach(s.A, false)
	lowB, _ := reach(s.B, false)
	var list []sum
	digits := min(s.A.Info().MantissaBits, s.B.Info().MantissaBits, 7) + 1
	for t := 1; t <= 64; t++ {
		// 2^least as a sum: all ones below it down to 2^(least-t), and that twice.
		var x sum
		for done := 0; done < t; {
			n := min(digits, t-done)
			x.factors = append(x.factors, factor{number: number{1<<n - 1, least - done - n}})
			done += n
		}
		x.factors = append(x.factors, factor{number: number{1, least - t}})
		// Half of it and a little, where results are rounded to nearest.
		y := sum{factors: []factor{{number: number{1, least - 1}}, {number: number{1, least - 1 - t}}}}
		short := sum{factors: x.factors[:len(x.factors)-1]}
		// Three times it less a little, where they are cut.
		more := sum{factors: []factor{{number: number{3, least}}, {number: number{1, least - t}}}}
		for _, z := range []sum{x, y, short, more} {
			if len(z.factors) > len(in) {
				continue
			}
			z.factors = slices.Clone(z.factors)
			for i := range z.factors {
				z.factors[i].slot = in[i]
			}
			// With every sign of the first and of the others.
			for _, signs := range [][2]int64{{1, 1}, {1, -1}, {-1, 1}, {-1, -1}} {
				v := sum{factors: slices.Clone(z.factors)}
				for i := range v.factors {
					v.factors[i].m *= signs[min(i, 1)]
				}
				list = append(list, v)
			}
		}
	}
	// The same in one product of all ones, (2^n-1)·(2^n+1), and a power of two.
	for n := 2; n <= min(base.A.Info().MantissaBits, base.B.Info().MantissaBits); n++ {
		x := factor{number: number{1, least - 2*n}}
		one, other := number{1<<n - 1, 0}, number{1<<n + 1, 0}
		for e := least - 2*n - 30; e <= least-2*n+30; e++ {
			one.e, other.e = e, least-2*n-e
			a, okA := one.bits(s.A)
			b, okB := other.bits(s.B)
			_, keptA := one.bits(base.A) // by a step that rounds f32 operands to tf32
			_, keptB := other.bits(base.B)
			if !okA || !okB || !keptA || !keptB || len(in) < 2 || !x.split(s.A, s.B) {
				continue
			}
			x.given, x.slot = true, in[1]
			list = append(list, sum{factors: []factor{{slot: in[0], given: true, a: a, b: b}, x}})
			break
		}
	}
	for e := max(least, lowA+lowB); e <= min(max(least, lowA+lowB)+100, base.Result.Info().MaxExponent-2); e++ {
		list = append(list, sum{factors: []factor{{slot: in[0], number: number{1, e}}}})
		if len(in) > 1 {
			list = append(list, sum{factors: []factor{{slot: in[0], number: number{3, e}}, {slot: in[1], number: number{-1, e}}}})
		}
	}
	floors := f.floors(&base)
	lowest := func(some []step.Params) ([]step.Params, error) {
		return f.settle("the least exponent of alignment", list, vary(vary(some, floors, func(p *step.Params, e *int) { p.Floor = e }),
			bothWays, func(p *step.Params, is bool) { p.FlushOutputs = is }))
	}
	// One step first. Where none at all explains its answers, operands of these formats reach none, whatever else is still open;
	// else what is open (a rounding that only the smallest numbers show) is asked together with the floor.
	broken := f.broken
	found, err := lowest(variants[:1])
	if err != nil {
		return nil, err
	}
	reached := f.broken == broken && len(found) > 0 && !slices.ContainsFunc(found, func(p step.Params) bool { return p.Floor == nil })
	switch {
	case f.broken != broken: // another of the steps, with any
		f.broken = broken
		const most = 64
		variants = cut(mainFirst(variants), most)
	case reached: // with the floors of the first, and those beside them, that another rounding may have instead
		near := map[int]bool{}
		for _, p := range found {
			for d := -3; d <= 3; d++ {
				near[*p.Floor+d] = true
			}
		}
		floors = slices.DeleteFunc(floors, func(e *int) bool { return e != nil && !near[*e] })
	default:
		floors = []*int{nil}
	}
	found, err = lowest(variants)
	if err != nil || len(found) == 0 {
		return found, err
	}
	if found[0].FlushOutputs {
		f.note("subnormal numbers", "results' flushed")
	}
	if e := found[0].Floor; e != nil {
		f.note("least exponent of alignment", fmt.Sprint(*e))
		return found, nil
	}
	f.note("least exponent of alignment", "none that operands of these formats reach")
	return slices.DeleteFunc(slices.Clone(found), func(p step.Params) bool { return p.Floor != nil }), nil
}

// extremes finds what happens beyond the largest number, and to NaN and Inf.
func (f *finder) extremes(variants []step.Params) ([]step.Params, error) {
	base := variants[0]
	in := f.lane.slots(&base)
	s := f.q.s
	high := base.Result.Info().MaxExponent
	var list []sum
	next := func(i int) factor {
		if i < len(in) {
			return factor{slot: in[i]}
		}
		return factor{span: i - len(in) + 1, slot: in[0]}
	}
	for _, s := range []int64{1, -1} {
		for _, second := range []number{{1, high}, {1, high - 1}, {1, high - 10}} {
			a, b := next(0), next(1)
			a.number, b.number = number{3 * s, high - 1}, number{second.m * s, second.e}
			list = append(list, sum{factors: []factor{a, b}})
			c := factor{span: max(b.span, 0) + 1, slot: in[0], number: number{-s, high}}
			list = append(list, sum{factors: []factor{a, b, c}})
		}
		a := next(0)
		a.number = number{s, high + 1}
		list = append(list, sum{factors: []factor{a}})
	}
	variants, err := f.settle("overflow", list, vary(variants, []format.Overflow{"", format.Saturate, format.IEEE}, func(p *step.Params, o format.Overflow) { p.Overflow = o }))
	if err != nil {
		return nil, err
	}
	list = nil
	one, _ := power(s.B, 0, false)
	infoA := s.A.Info()
	special := func(bits uint64, b uint64) sum {
		p := next(0)
		p.given, p.a, p.b = true, bits, b
		return sum{factors: []factor{p}}
	}
	if infoA.HasNaN {
		list = append(list, special(s.A.NaN(), one), special(s.A.NaN(), 0))
		if s.A == format.F32 || s.A == format.F64 || s.A == format.F16 || s.A == format.BF16 {
			list = append(list, special(s.A.Inf(false)|5, one), special(s.A.Inf(true)|5, one), special(s.A.Inf(false)|1<<(infoA.MantissaBits-1), one))
		}
	}
	if infoA.HasInf {
		list = append(list, special(s.A.Inf(false), one), special(s.A.Inf(true), one), special(s.A.Inf(false), 0))
		x, y := next(0), next(1)
		x.given, x.a, x.b = true, s.A.Inf(false), one
		y.given, y.a, y.b = true, s.A.Inf(true), one
		list = append(list, sum{factors: []factor{x, y}})
	}
	if len(list) == 0 {
		return variants, nil
	}
	f.q.phase = "NaN and Inf"
	// NaNs of other bits than a profile says are seen first: whether they are any.
	x, err := f.askSums("NaN and Inf", &base, list)
	if err != nil || x == nil {
		return variants, err
	}
	pattern := uint64(0)
	for _, bits := range x.want {
		if isNaN(s.D, bits) && bits != s.D.NaN() {
			f.anyNaN, pattern = true, bits
		}
	}
	nans := vary(variants, bothWays, func(p *step.Params, is bool) { p.KeepNaN = is })
	if s.A == format.F64 && s.B == format.F64 {
		nans = append(nans, vary(nans, []step.Operand{step.OperandA, step.OperandB}, func(p *step.Params, first step.Operand) { p.NaNFirst = first })...)
		nan := func(n uint64) uint64 { return s.A.Inf(n%2 == 1) | n }
		for i := range uint64(4) {
			x, y, z := factor{given: true, a: nan(3 + i), b: nan(10 + 3*i)}, factor{span: 1, slot: in[0], given: true, a: nan(20 + i), b: one}, factor{span: 1, slot: in[0], given: true, a: one, b: nan(31 + i)}
			w := factor{span: 1, slot: in[0], given: true, a: nan(41 + i), b: nan(52 + 3*i)}
			list = append(list, sum{factors: []factor{x}}, sum{factors: []factor{x, y}}, sum{factors: []factor{x, z}}, sum{factors: []factor{x, w}})
			if s.Addend == AddendStart {
				list = append(list, sum{start: nan(61 + i), factors: []factor{x}}, sum{start: nan(71 + i), factors: []factor{{given: true, a: nan(81), b: one}}}, sum{start: nan(71 + i), factors: []factor{{given: true, a: one, b: nan(91)}}})
			}
		}
	}
	if f.anyNaN && s.D == format.F64 {
		// f64 NaNs are told apart.
		f.anyNaN = false
		if found, err := f.settle("NaN and Inf", list, nans); err != nil || f.broken == "" && len(found) > 0 {
			return found, err
		}
		f.broken, f.anyNaN = "", true
	}
	found, err := f.settle("NaN and Inf", list, nans)
	if f.anyNaN {
		f.note("NaN", fmt.Sprintf("such as %#x, where a profile says %#x: compared as NaN, whatever the bits", pattern, s.D.NaN()))
	}
	return found, err
}

// random is sums of random products that nearly cancel: what all constants together must explain.
func (f *finder) random(variants []step.Params) ([]step.Params, error) {
	return f.settle("sums of random products", f.randomSums(&variants[0], 60), variants)
}

func (f *finder) randomSums(s *step.Params, n int) []sum {
	r := rand.New(rand.NewPCG(f.o.Seed, 77))
	if len(f.lane.spans) == 0 {
		return nil
	}
	span := len(f.lane.spans[0])
	spans := min(len(f.lane.spans), max(2, ceilDiv(6, span)), 8)
	fa, fb := f.q.s.A, f.q.s.B
	draw := func(to format.Format, negative bool) uint64 {
		digits := r.Uint64()
		return normal(to, digits, -r.IntN(min(4, to.Info().Bias)), negative)
	}
	var list []sum
	for range n {
		var x sum
		var places [][2]int
		for i := range spans {
			for j := range span {
				places = append(places, [2]int{i, j})
			}
		}
		r.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
		used := places[:max(min(len(places), 1+r.IntN(len(places))), 1)]
		for i := 0; i < len(used); i++ {
			negative := r.IntN(2) == 1
			a, b := draw(fa, negative), draw(fb, false)
			x.factors = append(x.factors, factor{span: used[i][0], slot: used[i][1], given: true, a: a, b: b})
			if f.q.s.Addend == AddendStart && i == 0 && r.IntN(3) > 0 {
				x.start = draw(f.q.s.C, r.IntN(2) == 1)
			}
			if i+1 < len(used) && r.IntN(8) > 0 { // and its opposite elsewhere
				i++
				x.factors = append(x.factors, factor{span: used[i][0], slot: used[i][1], given: true, a: a ^ 1<<(fa.Info().Bits-1), b: b})
			}
		}
		list = append(list, x)
	}
	return list
}
