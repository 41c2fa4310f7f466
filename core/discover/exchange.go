package discover

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// exchange is questions with their answers, which a profile must give too.
type exchange struct {
	about string
	d     format.Format
	args  *gemm.Args
	at    []gemm.Position
	want  []uint64
	// anyNaN: NaNs are equal whatever their bits.
	anyNaN bool
	// anyZero: zeros are equal whatever their signs, which are looked at last.
	anyZero bool
	// apart: the last k is another accumulator's, which is added at the end.
	apart bool
}

// stages are how many questions profiles are held against at once: most fail the first few.
var stages = []int{6, 24, 70, 200, 600, 1 << 30}

// best gives those of many profiles that give most answers, and how many these give. It is done in stages: what gives fewer
// of the first answers than another is not asked the rest. profile gives candidate i in its several forms.
func (x *exchange) best(f *finder, n int, profiles func(i int) []*profile.Profile) (best []int, answers int, err error) {
	return x.search(f, n, profiles, false)
}

// search is best; strict: what misses one answer is asked no more.
func (x *exchange) search(f *finder, n int, profiles func(i int) []*profile.Profile, strict bool) (best []int, answers int, err error) {
	for i := range n {
		best = append(best, i)
	}
	order := spread(len(x.at))
	score := make([]int, n)
	from := 0
	for _, size := range stages {
		to := min(from+size, len(order))
		if from == to {
			break
		}
		var at []gemm.Position
		for _, i := range order[from:to] {
			at = append(at, x.at[i])
		}
		probe, err := gemm.NewProbe(x.args, at)
		if err != nil {
			return nil, 0, err
		}
		most := -1
		for _, i := range best {
			got := 0
			for _, p := range profiles(i) {
				if err := f.tick(); err != nil {
					return nil, 0, err
				}
				values, err := probe.Elements(f.ctx, p)
				if refusal(err) {
					continue
				}
				if err != nil {
					return nil, 0, err
				}
				same := 0
				for j, v := range values {
					if x.same(v, x.want[order[from+j]]) {
						same++
					}
				}
				got = max(got, same)
			}
			score[i] += got
			most = max(most, score[i])
		}
		kept := best[:0]
		for _, i := range best {
			if score[i] == most && (most == to || !strict) {
				kept = append(kept, i)
			}
		}
		best, answers, from = kept, most, to
		if len(best) == 0 {
			break
		}
	}
	return best, answers, nil
}

// spread orders n indices so that any beginning of the list covers the whole.
func spread(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

func (x *exchange) same(a, b uint64) bool {
	return a == b || x.anyNaN && isNaN(x.d, a) && isNaN(x.d, b) || x.anyZero && isZero(x.d, a) && isZero(x.d, b)
}

func isZero(f format.Format, bits uint64) bool { return f.Decode(bits).Class == format.Zero }

func isNaN(f format.Format, bits uint64) bool { return f.Decode(bits).Class == format.NaN }

// number is m·2^e.
type number struct {
	m int64
	e int
}

func (n number) exact() format.Exact {
	return format.Exact{Neg: n.m < 0, Mag: new(big.Int).Abs(big.NewInt(n.m)), Exp: n.e}
}

// bits is a number in a format, if that holds it.
func (n number) bits(f format.Format) (uint64, bool) {
	b := f.Encode(n.exact(), format.Encoding{})
	if n.m == 0 {
		return b, true
	}
	return b, f.Decode(b).Class == format.Finite && valueOf(f, b) == math.Ldexp(float64(n.m), n.e)
}

// factor is a product at one member of one span of a chain: exactly a·b where those are given, else the number.
type factor struct {
	span, slot int
	number
	given bool
	a, b  uint64
}

// sum is a question to one accumulator: products in some of its spans, all others zero. start is what it starts from, where
// the signature has that.
type sum struct {
	factors []factor
	start   uint64
	// fillA and fillB are what the operands hold everywhere else.
	fillA, fillB uint64
}

// lane is where the positions of a chain are: of each span that has all its members, in order; of a chain that is shorter than
// a span, of those spans that have the most. steps counts the others too; merged: it is added to other accumulators, of which
// one has the k outside.
type lane struct {
	spans   [][]int
	steps   int
	merged  bool
	outside int
}

// elsewhere is the span of a product in another accumulator.
const elsewhere = 1 << 20

// longest gives the accumulator of a tree with the most whole spans, or, where none has any, with the fullest.
func longest(t *plan.Tree, s *step.Params) lane {
	var best, short lane
	var walk func(t *plan.Tree)
	walk = func(t *plan.Tree) {
		if !t.Leaf() {
			for _, child := range t.Sum {
				walk(child)
			}
			return
		}
		var l, partial lane
		for _, r := range t.Chain {
			l.steps += ceilDiv(r.Len()+r.Pad, s.Span())
			var span []int
			for k := r.Start; k < r.Stop && len(l.spans) < 64; k += r.Stride() {
				if span = append(span, k); len(span) == s.Span() {
					l.spans = append(l.spans, span)
					span = nil
				}
			}
			switch {
			case len(span) == 0:
			case len(partial.spans) > 0 && len(span) < len(partial.spans[0]):
			case len(partial.spans) > 0 && len(span) == len(partial.spans[0]):
				partial.spans = append(partial.spans, span)
			default:
				partial.spans = [][]int{span}
			}
		}
		partial.steps = l.steps
		if len(l.spans) > len(best.spans) {
			best = l
		}
		if partial.fuller(&short) {
			short = partial
		}
	}
	walk(t)
	if len(best.spans) == 0 {
		best = short
	}
	best.merged = !t.Leaf()
	best.outside = -1
	walkLeaves(t, func(chain []plan.Range) {
		if best.outside < 0 && len(chain) > 0 && len(best.spans) > 0 && !slices.ContainsFunc(chain, func(r plan.Range) bool { return has(r, best.spans[0][0]) }) {
			best.outside = chain[0].Start
		}
	})
	return best
}

func has(r plan.Range, k int) bool {
	return k >= r.Start && k < r.Stop && (k-r.Start)%r.Stride() == 0
}

func walkLeaves(t *plan.Tree, f func([]plan.Range)) {
	if t.Leaf() {
		f(t.Chain)
	}
	for _, child := range t.Sum {
		walkLeaves(child, f)
	}
}

// at is the k of a product, -1 for none.
func (l *lane) at(p *factor) int {
	switch {
	case p.span == elsewhere:
		return l.outside
	case p.span >= len(l.spans) || p.slot >= len(l.spans[p.span]):
		return -1
	}
	return l.spans[p.span][p.slot]
}

// fuller tells which of two lanes of short spans says more.
func (l *lane) fuller(than *lane) bool {
	if len(l.spans) == 0 || len(than.spans) == 0 {
		return len(l.spans) > 0
	}
	if a, b := len(l.spans[0]), len(than.spans[0]); a != b {
		return a > b
	}
	return len(l.spans) > len(than.spans)
}

// slots are members of the first group of every span.
func (l *lane) slots(s *step.Params) []int {
	if s.Span() == 1 || len(l.spans) == 0 {
		return []int{0}
	}
	return s.Groups(len(l.spans[0]))[0]
}

// askSums asks sums in the real box and keeps them as an exchange with one accumulator alone.
func (f *finder) askSums(about string, s *step.Params, list []sum) (*exchange, error) {
	span := s.Span()
	used, apart := 0, f.scaled() && f.lane.merged && f.q.s.D.Info().MantissaBits < format.F32.Info().MantissaBits
	questions, kept := f.encodeAll(list)
	for _, x := range kept {
		for _, p := range x.factors {
			if p.span == elsewhere {
				apart = true
			} else {
				used = max(used, p.span+1)
			}
		}
	}
	if len(kept) == 0 {
		return nil, nil
	}
	answers, err := f.q.ask(questions)
	if err != nil {
		return nil, err
	}
	// The same sums as rows of a small multiplication whose K is the spans used, and some more: a step with nothing to add may
	// still cut its accumulator.
	used = min(used+3, max(f.lane.steps, used))
	k := max(used, 1) * span
	place := func(p *factor) int { return p.span*span + p.slot }
	if !apart {
		return f.exchangeOf(about, kept, answers, k, place), nil
	}
	x := f.exchangeOf(about, kept, answers, k+1, func(p *factor) int {
		if p.span == elsewhere {
			return k
		}
		return place(p)
	})
	x.apart = true
	return x, nil
}

// exchangeOf keeps sums and their answers as a multiplication of so many k, with each product at one of them.
func (f *finder) exchangeOf(about string, kept []sum, answers []uint64, k int, place func(*factor) int) *exchange {
	sig := f.q.s
	n := len(kept)
	sizeA, sizeB := sig.A.Info().Bytes, sig.B.Info().Bytes
	a, b := make([]byte, n*k*sizeA), make([]byte, n*k*sizeB) // B by columns
	x := &exchange{about: about, d: sig.D, want: answers, anyNaN: f.anyNaN, anyZero: true}
	var at []gemm.Position
	args := &gemm.Args{
		A: gemm.Dense(a, sig.A, 1, n, k), B: &gemm.Matrix{Data: gemm.Dense(b, sig.B, 1, n, k).Data, Format: sig.B, Batch: 1, Rows: k, Columns: n, RowStride: 1, ColumnStride: k},
		D: gemm.Dense(nil, sig.D, 1, n, n), Alpha: sig.Alpha, Beta: 1,
	}
	switch sig.Scaling {
	case profile.ScalingTensor:
		args.ScaleA, args.ScaleB = ones(1), ones(1)
	case profile.ScalingRow:
		args.ScaleA, args.ScaleB = ones(n), ones(n)
	}
	var first []byte
	if sig.Addend == AddendStart {
		first = make([]byte, n*n*sig.C.Info().Bytes)
		args.Start = gemm.Dense(first, sig.C, 1, n, n)
	}
	for i, s := range kept {
		for j := i * k; j < (i+1)*k; j++ {
			cases.Put(a[j*sizeA:], sizeA, s.fillA)
			cases.Put(b[j*sizeB:], sizeB, s.fillB)
		}
		for _, p := range s.factors {
			at := i*k + place(&p)
			cases.Put(a[at*sizeA:], sizeA, p.a)
			cases.Put(b[at*sizeB:], sizeB, p.b)
		}
		if first != nil {
			cases.Put(first[(i*n+i)*sig.C.Info().Bytes:], sig.C.Info().Bytes, s.start)
		}
		at = append(at, gemm.Position{Row: i, Column: i})
	}
	x.args, x.at = args, at
	return x
}

// encodeAll makes questions of those sums that the formats hold.
func (f *finder) encodeAll(list []sum) (questions []question, kept []sum) {
	for _, x := range list {
		if q, ok := f.encode(&x); ok {
			questions, kept = append(questions, q), append(kept, x)
		}
	}
	return questions, kept
}

// encode makes a question of a sum, of one side where that holds all its numbers, none of them subnormal, and notes the operands
// in it.
func (f *finder) encode(x *sum) (question, bool) {
	sig := f.q.s
	one := sig.oneSide(false)
	oneSided := true
	for i := range x.factors {
		p := &x.factors[i]
		if f.lane.at(p) < 0 {
			return question{}, false
		}
		if p.given {
			oneSided = false
		}
	}
	flat, _ := power(sig.A, 0, false)
	if one.inA {
		flat, _ = power(sig.B, 0, false)
	}
	if oneSided {
		for i := range x.factors {
			p := &x.factors[i]
			ok := false
			if !one.inA {
				p.a = flat
				p.b, ok = p.bits(sig.B)
				ok = ok && !subnormal(sig.B, p.b)
			} else {
				p.b = flat
				p.a, ok = p.bits(sig.A)
				ok = ok && !subnormal(sig.A, p.a)
			}
			oneSided = oneSided && ok
		}
	}
	if !oneSided {
		for i := range x.factors {
			p := &x.factors[i]
			if p.given {
				continue
			}
			if !p.split(sig.A, sig.B) || f.normalOnly && (subnormal(sig.A, p.a) || subnormal(sig.B, p.b)) {
				return question{}, false
			}
		}
	}
	t := terms{}
	for _, p := range x.factors {
		k := f.lane.at(&p)
		if !oneSided || one.inA {
			t.a.at = append(t.a.at, entry{k, p.a})
		}
		if !oneSided || !one.inA {
			t.b.at = append(t.b.at, entry{k, p.b})
		}
	}
	if oneSided {
		if one.inA {
			t.b.fill = flat
		} else {
			t.a.fill = flat
		}
	}
	x.fillA, x.fillB = t.a.fill, t.b.fill
	q := t.question()
	q.start = x.start
	return q, true
}

// split makes two factors of a number, the digits in one of them.
func (p *factor) split(fa, fb format.Format) bool {
	// Normal numbers where that is possible: subnormal ones may be flushed.
	return p.splitWithin(fa, fb, true) || p.splitWithin(fa, fb, false)
}

// subnormal tells whether a pattern is a number below the normal ones, and no zero.
func subnormal(f format.Format, bits uint64) bool {
	n := f.Decode(bits)
	return n.Class == format.Finite && n.Sig < 1<<f.Info().MantissaBits
}

func (p *factor) splitWithin(fa, fb format.Format, normal bool) bool {
	lowA, highA := reach(fa, normal)
	lowB, highB := reach(fb, normal)
	for _, digitsInA := range []bool{true, false} {
		for _, ea := range []int{p.e / 2, p.e - lowB, p.e - highB, lowA, highA, p.e - (lowB+highB)/2, 0, p.e} {
			ea = min(max(ea, p.e-highB, lowA), p.e-lowB, highA)
			m, one := number{p.m, ea}, number{1, p.e - ea}
			if !digitsInA {
				m, one = number{1, ea}, number{p.m, p.e - ea}
			}
			a, okA := m.bits(fa)
			b, okB := one.bits(fb)
			if okA && okB && !(normal && (subnormal(fa, a) || subnormal(fb, b))) {
				p.a, p.b = a, b
				return true
			}
		}
	}
	return false
}
