package discover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// Defaults of Options.
const (
	DefaultElements = 1 << 16
	DefaultMaxCalls = 20000
)

// finder is one discovery.
type finder struct {
	ctx     context.Context
	q       *asker
	o       *Options
	r       *Result
	masks   *masks
	reading *reader
	grouped map[string]bool // what groups, by kind of step and tree, the order has been read as
	asked   masks           // those that the order was asked by before
	used    int             // the k that take part: 0 to used-1
	lane    lane
	// anyNaN: the box's NaNs have bits that a profile cannot say, so that NaNs are compared as such.
	anyNaN bool
	steps  []step.Params // that explain the sums of one accumulator
	// constantsOf keeps steps by what was asked; orders are those that were read, by which masks.
	constantsOf map[string]stepsFound
	orders      map[string]bool
	sums        []*exchange // what the constants were found by
	// normalOnly: sums are asked of normal operands alone, since subnormal ones are flushed, or since it is not known yet how
	// they are aligned.
	normalOnly bool
	hard       []*exchange // that readings failed which had explained all before
	broken     string      // the first test that nothing explains
	failed     bool        // a profile failed its certificate
	tried      int
	ticked     time.Time
}

// Run finds the profile of a black box. An error is the box's own, the progress callback's or the context's, or says that the
// signature makes no sense; that no profile fits is no error but stands in the result.
func Run(ctx context.Context, s Signature, box Box, o Options) (*Result, error) {
	began := time.Now()
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if o.MaxCalls <= 0 {
		o.MaxCalls = DefaultMaxCalls
	}
	if o.Elements <= 0 {
		o.Elements = DefaultElements
	}
	if o.Now.IsZero() {
		o.Now = began
	}
	if s.Addend == AddendNone {
		s.Beta = 1
	}
	q, err := newAsker(ctx, &s, box, &o)
	if err != nil {
		return nil, err
	}
	f := &finder{ctx: ctx, q: q, o: &o, r: &Result{Findings: []Finding{}}}
	err = f.find()
	var odd inconsistent
	switch {
	case errors.Is(err, errTooManyCalls):
		f.r.Reason = fmt.Sprintf("%d calls of the multiplication were allowed and are used up (while asking: %s)", o.MaxCalls, q.phase)
	case errors.As(err, &odd):
		f.r.Reason = odd.what
	case err != nil:
		return nil, err
	}
	f.r.Calls, f.r.Questions, f.r.Tried, f.r.Seconds = q.calls, q.questions, f.tried, time.Since(began).Seconds()
	if f.r.Profile != nil {
		f.r.Best = nil
	} else if f.r.Broken == "" {
		f.r.Broken = f.broken
	}
	return f.r, nil
}

// note writes a finding down; a later answer to the same question replaces an earlier one.
func (f *finder) note(about, answer string) {
	for i := range f.r.Findings {
		if f.r.Findings[i].About == about {
			f.r.Findings[i].Answer = answer
			return
		}
	}
	f.r.Findings = append(f.r.Findings, Finding{about, answer})
}

// reachOfSteps are the fraction bits of the steps whose order masks must show: any that the first masks do, then more. Units
// that are lost one by one are not when they come together, so that each further bit halves how many a question counts.
var reachOfSteps = []int{0, 31, 39}

func (f *finder) find() error {
	if err := f.repeats(); err != nil {
		return err
	}
	var suspects []*profile.Profile
	for _, p := range f.o.Suspects {
		c := *p
		c.Epilogue.Out = f.q.s.D
		suspects = append(suspects, &c)
	}
	if f.q.s.D == format.S32 {
		return f.settleAll(append(f.integers(), suspects...))
	}
	// Where nothing explains the answers, the order is asked again with masks that lose units even in steps of many bits.
	accept := func(candidates []*profile.Profile) (bool, error) {
		f.broken = ""
		if err := f.settleAll(candidates); err != nil {
			return false, err
		}
		return f.r.Profile != nil || f.failed, nil // a certificate that failed is not tried for again
	}
	var first *Result
	for _, bits := range reachOfSteps {
		f.r.Best, f.r.Broken, f.r.Reason = nil, "", ""
		done, err := f.measured(bits, accept)
		var odd inconsistent
		switch {
		case errors.As(err, &odd):
			f.r.Reason = odd.what
		case err != nil:
			return err
		case done:
			return nil
		case f.r.Reason == "":
			f.r.Reason = "no profile explains all answers"
			if f.broken != "" {
				f.r.Broken = f.broken
				f.r.Reason += "; the first test that none explains is: " + f.broken
			}
		}
		if first == nil {
			first = &Result{Best: f.r.Best, Broken: f.r.Broken, Reason: f.r.Reason}
		}
	}
	f.r.Best, f.r.Broken, f.r.Reason = first.Best, first.Broken, first.Reason
	if len(suspects) > 0 {
		if done, err := accept(suspects); done || err != nil {
			return err
		}
		f.r.Best, f.r.Broken, f.r.Reason = first.Best, first.Broken, first.Reason
	}
	return nil
}

// repeats asks the same again: an answer that changes has no profile.
func (f *finder) repeats() error {
	f.q.phase = "whether answers repeat"
	for i, kind := range []string{"cancel", "normal"} {
		x, call, err := f.wholeCall(kind, f.o.Seed+uint64(i)+900, 16, 16, addendRandom)
		if err != nil {
			return err
		}
		for range 3 {
			if err := f.q.callWith(call); err != nil {
				return err
			}
			if !slices.Equal(f.q.read(call.Wanted), x.want) {
				return inconsistent{"the same operands gave other bits when asked again: the order of its sums changes from call to call, or its rounding is random"}
			}
		}
	}
	return nil
}

// integers are the profiles of integer products.
func (f *finder) integers() []*profile.Profile {
	f.note("operands", fmt.Sprintf("%v and %v, exact", f.q.s.A, f.q.s.B))
	s := step.Params{Kind: step.Integer, A: f.q.s.A, B: f.q.s.B, Group: 32, Result: format.S32}
	return []*profile.Profile{f.profileOf(s, plan.Plain(), profile.FormAdd)}
}

// measured asks for order and constants, and hands accept the profiles that they suggest, until it takes some.
func (f *finder) measured(bits int, accept func([]*profile.Profile) (bool, error)) (bool, error) {
	f.q.phase = "which products come back as they are"
	var err error
	if f.masks, err = calibrate(f.q, []int{0}); err != nil {
		return false, err
	}
	if bits > 0 {
		f.q.phase = "which products come back as they are, further apart"
		finer, err := f.masks.finer([]int{0}, bits)
		if err != nil {
			return false, err
		}
		if before := f.asked; finer.most == before.most && finer.big == before.big && finer.unit == before.unit {
			return false, nil
		}
		f.masks = finer
	}
	f.asked = *f.masks
	if err := f.whichUsed(); err != nil {
		return false, err
	}
	positions := f.positions()
	f.q.phase = "the order of the sum"
	result := f.results()[0]
	read, err := f.order(positions, result)
	if err != nil {
		return false, err
	}
	f.reading, f.grouped = read, nil
	order := fmt.Sprint(read.want, f.masks.big, f.masks.unit)
	if f.orders[order] { // the same again
		return false, nil
	}
	if f.orders == nil {
		f.orders = map[string]bool{}
	}
	f.orders[order] = true
	// The simple readings first; where no constants make one of them explain the answers, those that are left.
	any := false
	family := func(nested bool) func() ([]structure, error) {
		return func() ([]structure, error) { return read.family(nested) }
	}
	broken := ""
	for _, find := range []func() ([]structure, error){family(false), family(true), read.written} {
		f.q.phase = "which plan has this order"
		structures, err := find()
		if err != nil {
			return false, err
		}
		any = any || len(structures) > 0
		if done, err := f.explain(structures, accept); done || err != nil {
			return done, err
		}
		if broken == "" {
			broken = f.broken
		}
	}
	f.broken = broken
	if !any {
		text := read.join.String()
		const most = 400
		if len(text) > most {
			text = text[:most] + " …"
		}
		f.r.Broken = "the order of the sum: " + text
		return false, inconsistent{"no order that a profile can say has the summands meet as they do: " + text}
	}
	return false, nil
}

// explain finds the constants of structures, kind of step by kind, until what they make is accepted.
func (f *finder) explain(found []structure, accept func([]*profile.Profile) (bool, error)) (bool, error) {
	first := ""
	for len(found) > 0 {
		var alike, others []structure
		for _, x := range found {
			if sameShape(&x.step, &found[0].step) {
				alike = append(alike, x)
			} else {
				others = append(others, x)
			}
		}
		found = others
		same := groupsOf(&alike[0].step, alike[0].tree)
		if f.grouped[same] { // another step that has the same groups here
			continue
		}
		if f.grouped == nil {
			f.grouped = map[string]bool{}
		}
		f.grouped[same] = true
		l := longest(alike[0].tree, &alike[0].step)
		if len(l.spans) == 0 { // K is less than a group
			continue
		}
		done, err := f.explainIn(l, alike, accept)
		if done || err != nil {
			return done, err
		}
		if first == "" {
			first = f.broken
		}
		// The same with the zeros of a padded tile after it, which cut an accumulator where steps keep fewer bits than it has.
		padded := slices.IndexFunc(alike, func(x structure) bool { return longest(x.tree, &x.step).steps > l.steps })
		if padded < 0 || !slices.ContainsFunc(f.steps, func(p step.Params) bool {
			return p.ResultFraction > 0 || p.Fraction > 0 && p.Fraction < p.Result.Info().MantissaBits
		}) {
			continue
		}
		l = longest(alike[padded].tree, &alike[padded].step)
		if done, err := f.explainIn(l, append(slices.Clone(alike[padded:]), alike[:padded]...), accept); done || err != nil {
			return done, err
		}
	}
	f.broken = first
	return false, nil
}

// explainIn finds the constants of structures of one kind of step by the sums of one accumulator.
func (f *finder) explainIn(l lane, alike []structure, accept func([]*profile.Profile) (bool, error)) (bool, error) {
	f.lane = l
	steps, err := f.stepsOf(alike[0].step)
	if err != nil {
		return false, err
	}
	if len(steps) == 0 || f.broken != "" {
		if f.r.Best == nil && len(steps) > 0 {
			f.r.Best = f.profileOf(steps[0], alike[0].plan, f.forms(&steps[0])[0])
		}
		return false, nil
	}
	for i := range alike {
		if alike[i].written != nil {
			if alike[i], err = f.resolve(f.reading, alike[i], steps[0]); err != nil {
				return false, err
			}
		}
	}
	// The first step that explains the sums, then, if that explains not all, the others.
	var candidates []*profile.Profile
	readings := distinct(f.used, alike)
	before := 0
	for _, n := range []int{1, 6, 100} {
		some := cut(steps, n)
		if len(some) == before {
			break
		}
		before = len(some)
		if n == 100 {
			readings = cut(readings, 2)
		}
		f.broken = ""
		if candidates, err = f.combine(readings, some); err != nil {
			return false, err
		}
		if f.broken != "" || len(candidates) == 0 {
			continue
		}
		f.note("order", alike[0].plan.Describe())
		f.note("group", groupWords(&alike[0].step))
		if done, err := accept(candidates); done || err != nil {
			return done, err
		}
	}
	if f.r.Best == nil && len(candidates) > 0 {
		f.r.Best = candidates[0]
	}
	return false, nil
}

// stepsFound is what the constants of one kind of step, asked in one accumulator, are.
type stepsFound struct {
	steps  []step.Params
	sums   []*exchange
	broken string
}

// stepsOf finds the steps of a kind that explain the sums of one accumulator, in the order in which to try them, unless the same
// has been asked in that accumulator before.
func (f *finder) stepsOf(base step.Params) ([]step.Params, error) {
	key := fmt.Sprint(base, f.lane, f.masks.big, f.masks.unit)
	had, seen := f.constantsOf[key]
	if !seen {
		f.broken, f.sums = "", nil
		steps, err := f.constants(base)
		if err != nil {
			return nil, err
		}
		if steps, err = f.catalogued(mainFirst(steps)); err != nil {
			return nil, err
		}
		had = stepsFound{steps, f.sums, f.broken}
		if f.constantsOf == nil {
			f.constantsOf = map[string]stepsFound{}
		}
		f.constantsOf[key] = had
	}
	f.steps, f.sums, f.broken = had.steps, had.sums, had.broken
	return had.steps, nil
}

func sameShape(a, b *step.Params) bool {
	return a.Kind == b.Kind && a.Group == b.Group && a.Order == b.Order && a.InstructionK == b.InstructionK && a.Interleaved == b.Interleaved
}

// whichUsed finds k whose products the sum leaves out.
func (f *finder) whichUsed() error {
	f.q.phase = "which k take part"
	s := f.q.s
	m := f.masks
	unused := []int{}
	count := func(sets [][]int) ([]bool, error) {
		var list []question
		for _, set := range sets {
			t := m.sides.new()
			for _, k := range set {
				if !t.add(k, m.unit, false) {
					return nil, inconsistent{"internal fault: a unit does not fit the format"}
				}
			}
			list = append(list, t.question())
		}
		answers, err := f.q.ask(list)
		if err != nil {
			return nil, err
		}
		whole := make([]bool, len(sets))
		for i, a := range answers {
			n, ok := m.left(a, len(sets[i]), false)
			whole[i] = ok && n == len(sets[i])
		}
		return whole, nil
	}
	var sets [][]int
	size := min(m.most, 64)
	for from := 0; from < s.K; from += size {
		var set []int
		for k := from; k < min(from+size, s.K); k++ {
			set = append(set, k)
		}
		sets = append(sets, set)
	}
	for len(sets) > 0 {
		whole, err := count(sets)
		if err != nil {
			return err
		}
		var next [][]int
		for i, set := range sets {
			switch {
			case whole[i]:
			case len(set) == 1:
				unused = append(unused, set[0])
			default:
				next = append(next, set[:len(set)/2], set[len(set)/2:])
			}
		}
		sets = next
	}
	slices.Sort(unused)
	f.used = s.K - len(unused)
	if len(unused) == 0 {
		return nil
	}
	if unused[0] != f.used {
		return inconsistent{fmt.Sprintf("%d of the %d products do not come back as they are, k = %d among them", len(unused), s.K, unused[0])}
	}
	f.note("dropped", fmt.Sprintf("the last %d of %d products are missing from the sum", len(unused), s.K))
	return nil
}

// positions are the k whose order is asked: all of few, else those where structure is likely to show.
func (f *finder) positions() []int {
	var list []int
	k := f.used
	if f.q.s.Addend == AddendStart {
		list = append(list, start)
	}
	most := 256
	if f.masks.most >= 1024 || f.q.s.M*f.q.s.Batch >= 256 || f.q.s.N*f.q.s.Batch >= 256 {
		most = 640
	}
	if k <= most {
		for i := range k {
			list = append(list, i)
		}
		return list
	}
	in := map[int]bool{}
	add := func(at int) {
		if at >= 0 && at < k && !in[at] && len(in) < 250 {
			in[at] = true
		}
	}
	for i := range 72 {
		add(i)
	}
	for i := range 20 {
		add(k - 1 - i)
	}
	for d := 128; d < k; d *= 2 {
		for _, at := range []int{-1, 0, 1} {
			add(d + at)
		}
		add(d + d/2)
		add(d + 16)
	}
	for parts := 2; parts <= 16; parts++ {
		w := ceilDiv(ceilDiv(k, 64), parts) * 64
		for i := 1; i < parts && i < 4; i++ {
			add(i*w - 1)
			add(i * w)
		}
	}
	for i := uint64(0); len(in) < min(250, k); i++ {
		add(int(hashOf(i) % uint64(k)))
	}
	for at := range in {
		list = append(list, at)
	}
	slices.Sort(list)
	return list
}

// order asks for the join and reads it.
func (f *finder) order(positions []int, result format.Format) (*reader, error) {
	if len(positions) < 2 { // K = 1: any step of one product
		return f.reader(&join{position: 0}, positions, result), nil
	}
	j, err := findOrder(f.masks, positions)
	var odd inconsistent
	if err != nil && !errors.As(err, &odd) {
		return nil, err
	}
	if err != nil || shapeOf(j).exact { // units not lost in X: with more room between them they may be
		wider, wideErr := f.masks.wider([]int{0})
		if wideErr != nil {
			return nil, wideErr
		}
		if wider != nil {
			again, againErr := findOrder(wider, positions)
			if againErr == nil {
				f.masks, j, err = wider, again, nil
			} else if !errors.As(againErr, &odd) {
				return nil, againErr
			}
		}
	}
	if err != nil {
		other := *f.masks
		other.unitNegative = true
		again, againErr := findOrder(&other, positions)
		if againErr != nil {
			return nil, err
		}
		f.masks, j = &other, again
	}
	return f.reader(j, positions, result), nil
}

func (f *finder) reader(j *join, positions []int, result format.Format) *reader {
	r := newReader(j, positions, f.used, result)
	r.tick, r.a, r.b = f.tick, f.q.s.A, f.q.s.B
	return r
}

func groupWords(s *step.Params) string {
	text := fmt.Sprintf("%d products at once", s.Group)
	if s.Group == 1 {
		text = "one product after another"
	}
	if s.Order == step.Pairs {
		text += fmt.Sprintf(", of %d consecutive k first those with k mod 4 < 2", s.InstructionK)
	}
	if s.Kind == step.Exact {
		text += ", summed without error"
	}
	return text
}

// combine makes candidates of structures and steps, and sifts them by inputs without an addend, then by zeros.
func (f *finder) combine(found []structure, steps []step.Params) ([]*profile.Profile, error) {
	if len(steps) == 0 {
		return nil, nil
	}
	var list []*profile.Profile
	for _, x := range found {
		plans := f.merges(x.plan, steps[0].Result)
		if f.q.s.Scaling == profile.ScalingNone && f.q.s.Alpha == 1 {
			plans = append(plans, serials(x.plan)...)
		}
		for _, p := range plans {
			for _, st := range steps {
				for _, form := range f.forms(&st) {
					list = append(list, f.profileOf(st, p, form))
				}
			}
		}
	}
	list = unique(list)
	if f.used < f.q.s.K {
		for i, p := range list {
			list[i] = f.dropping(p)
		}
		list = slices.DeleteFunc(list, func(p *profile.Profile) bool { return p == nil })
	}
	var history []*exchange
	for i, kind := range []string{"cancel", "masks", "cancel", "masks", "normal", "wide", "masks", "edges", "tiny", "faint"} {
		rows, columns := 8, 8
		if i == 0 {
			rows, columns = 2, 3
		}
		x, err := f.whole(kind, f.o.Seed+uint64(i)*17+1, rows, columns, addendZero)
		if err != nil {
			return nil, err
		}
		x.anyZero = true
		history = append(history, x)
		tried := list
		if list, err = f.sift(x, list); err != nil {
			return nil, err
		}
		if f.broken != "" && i > 4 { // what sums of ordinary numbers have not shown
			repaired, err := f.repair(tried, history)
			if err != nil {
				return nil, err
			}
			if len(repaired) > 0 {
				f.broken, list = "", repaired
			}
		}
		if f.broken != "" {
			break
		}
	}
	return cut(list, 64), nil
}

// dropping is a profile for fewer k as one that leaves the last ones out; nil where that cannot be said.
func (f *finder) dropping(p *profile.Profile) *profile.Profile {
	if p.Plan.Tree != nil && p.Plan.Tree.K == f.q.s.K {
		return p
	}
	root, err := p.Plan.Expand(f.used)
	if err != nil {
		return nil
	}
	c := *p
	c.Plan = plan.Plan{Tree: &plan.Fixed{K: f.q.s.K, Partial: true, Root: root}}
	if c.Validate() != nil {
		return nil
	}
	return &c
}

// repair looks among all the steps that explain the sums of one accumulator, and among all least exponents of alignment, for
// those that explain some exchanges as well.
func (f *finder) repair(list []*profile.Profile, history []*exchange) ([]*profile.Profile, error) {
	var all []*profile.Profile
	for _, p := range cut(list, 2) {
		for _, v := range cut(f.steps, 400) {
			c := *p
			c.Step = v
			c.Step.ZeroSign = p.Step.ZeroSign
			all = append(all, &c)
		}
	}
	for _, p := range cut(list, 1) {
		if p.Step.Fraction != 0 && p.Step.Fraction != unbounded {
			for _, e := range f.floors(&p.Step) {
				for _, r := range roundings { // that may show only together
					c := *p
					c.Step.Floor, c.Step.ResultRounding = e, r
					all = append(all, &c)
				}
			}
		}
	}
	for _, p := range cut(list, 8) {
		all = append(all, cutFarther(p)...)
	}
	all = unique(signed(all)) // the signs that were found may be another step's
	return f.explaining(all, history)
}

// explaining gives those profiles that explain some exchanges, the last first.
func (f *finder) explaining(all []*profile.Profile, history []*exchange) ([]*profile.Profile, error) {
	f.tried += len(all)
	for i := len(history) - 1; i >= 0 && len(all) > 0; i-- {
		kept, _, err := history[i].search(f, len(all), func(i int) []*profile.Profile { return all[i : i+1] }, true)
		if err != nil {
			return nil, err
		}
		left := make([]*profile.Profile, len(kept))
		for to, at := range kept {
			left[to] = all[at]
		}
		all = left
		// Those that explain what the others did not are few, or much the same.
		if asked := len(history) - i; asked <= 3 {
			all = cut(all, []int{200, 64, 24}[asked-1])
		}
	}
	return all, nil
}

// signed are profiles with each sign of zero, their own first.
func signed(list []*profile.Profile) []*profile.Profile {
	all := slices.Clone(list)
	for _, sign := range []step.ZeroSign{step.PositiveZero, step.SumZero, step.IEEEZero} {
		for _, p := range list {
			if p.Step.Kind != step.Integer {
				c := *p
				c.Step.ZeroSign = sign
				all = append(all, &c)
			}
		}
	}
	return all
}

// cutFarther are profiles whose groups are summed without error but for terms farther apart than those that masks have: of
// operands whose range ends about there.
func cutFarther(p *profile.Profile) []*profile.Profile {
	if p.Step.Kind != step.Exact || p.Step.Group < 2 {
		return nil
	}
	var list []*profile.Profile
	for fraction := 18; fraction <= 44; fraction++ {
		for _, align := range roundings {
			c := *p
			c.Step.Kind, c.Step.Fraction, c.Step.Align = step.Fused, fraction, align
			after := c
			after.Step.Kind, after.Step.SumFraction, after.Step.AccumulatorFraction, after.Step.JoinAlign = step.CDNA3, unbounded, unbounded, format.TowardZero
			list = append(list, &c, &after)
		}
	}
	return list
}

// settleAll sifts candidates by addends, zeros and inputs of every kind, and certifies the first that is left.
func (f *finder) settleAll(list []*profile.Profile) error {
	f.q.phase = "the epilogue"
	s := f.q.s
	if s.Addend == AddendBias || s.Addend == AddendFull {
		var all []*profile.Profile
		for _, form := range []profile.Form{profile.FormAdd, profile.FormRoundThenAdd, profile.FormFMAAlpha, profile.FormFMABeta, profile.FormHalf, profile.FormHalfAlpha, profile.FormAlphaInA, profile.FormAlphaInB, profile.FormProductA, profile.FormProductB} {
			for _, p := range cut(list, 32) {
				c := *p
				c.Epilogue.Form = form
				if c.Validate() == nil {
					all = append(all, &c)
				}
			}
		}
		list = unique(all)
		for i, kind := range []string{"cancel", "normal", "normal", "edges", "edges", "wide", "masks", "normal", "wide", "cancel"} {
			c := addendRandom
			if i%2 == 1 {
				c = addendOpposite
			}
			x, err := f.whole(kind, f.o.Seed+uint64(i)*19+301, 12, 12, c)
			if err != nil {
				return err
			}
			x.about += " with an addend"
			x.anyZero = true
			if list, err = f.sift(x, list); err != nil {
				return err
			}
			if f.broken != "" {
				f.unsettled(list)
				return nil
			}
		}
		if len(list) > 0 {
			f.note("epilogue", list[0].Epilogue.Describe())
		}
	}
	// Zeros: what signs they have.
	all := signed(list)
	if s.Addend == AddendNone && s.Alpha != 1 {
		for _, p := range list {
			plus := *p
			plus.Epilogue.PlusZero = true
			all = append(all, &plus)
		}
	}
	list = unique(all)
	var history []*exchange
	if s.D != format.S32 {
		for i, kind := range []string{"negative zeros", "underflows", "underflows", "underflow", "underflow", "tiny", "sparse"} {
			for _, c := range []addendKind{addendZero, addendZeros} {
				if c == addendZeros && s.Addend == AddendNone {
					continue
				}
				x, err := f.whole(kind, f.o.Seed+uint64(i)*23+501, 2, 3, c)
				if err != nil {
					return err
				}
				x.about = "the sign of zero: " + x.about
				history = append(history, x)
				tried := list
				if list, err = f.sift(x, list); err != nil {
					return err
				}
				if f.broken != "" {
					repaired, err := f.repair(tried, history)
					if err != nil {
						return err
					}
					if len(repaired) > 0 {
						f.broken, list = "", repaired
					}
				}
				if f.broken != "" {
					f.unsettled(list)
					return nil
				}
			}
		}
	}
	// What has shown other readings wrong.
	list = cut(list, 8)
	for _, x := range f.hard {
		var err error
		if list, err = f.sift(x, list); err != nil {
			return err
		}
		if f.broken != "" {
			f.unsettled(list)
			return nil
		}
	}
	// Inputs of every kind, some of each: what they show wrong may be put right by a step that the sums did not tell from the
	// first.
	rounds := min(max(8, 600/(min(s.M, 16)*min(s.N, 16))), 40) // more of small outputs
	for round := range rounds {
		for i, kind := range kinds {
			c := addendRandom
			if round%3 == 1 && (s.Addend == AddendBias || s.Addend == AddendFull) {
				c = addendOpposite
			}
			x, err := f.whole(kind, f.o.Seed+uint64(round)*1009+uint64(i)*29+701, 16, 16, c)
			if err != nil {
				return err
			}
			history = append(history, x)
			tried := list
			if round >= 3 { // the first one alone from now on
				list = list[:1]
			}
			if list, err = f.sift(x, list); err != nil {
				return err
			}
			switch {
			case f.broken == "" && round >= 3:
				list = tried
			case f.broken != "":
				repaired, err := f.explaining(tried, history)
				if err == nil && len(repaired) == 0 {
					repaired, err = f.repair(tried, history)
				}
				if err != nil {
					return err
				}
				if len(repaired) > 0 {
					f.broken, list = "", repaired
				}
			}
			if f.broken != "" {
				const most = 20
				if len(f.hard) < most {
					f.hard = append(f.hard, x)
				}
				f.unsettled(list)
				return nil
			}
		}
	}
	if len(list) == 0 {
		f.unsettled(nil)
		return nil
	}
	return f.certify(list[0])
}

// unsettled notes that nothing explains all answers, and what explains most.
func (f *finder) unsettled(list []*profile.Profile) {
	if f.r.Reason != "" { // of a reading that was likelier
		return
	}
	f.r.Reason = "no profile explains the answers"
	if f.broken != "" {
		f.r.Reason = "no profile explains all answers; the first test that none explains is: " + f.broken
	}
	f.r.Broken = f.broken
	if len(list) > 0 {
		f.r.Best = list[0]
	}
}
