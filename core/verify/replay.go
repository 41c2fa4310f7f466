package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/rules"
)

// Options are how a replay runs.
type Options struct {
	Threads int
	// Progress is called from the calling goroutine with multiply-adds done and in all of the current whole replay; while
	// plans are searched for, with none done. Its error stops the work.
	Progress func(done, total uint64) error
	// Estimate is called once, before the work begins.
	Estimate func(Estimate)
	// Profile is the one profile to replay; nil: the kernels' names and launches choose.
	Profile *profile.Profile
	// Suspects are profiles that were found by probing such a device, with such a library, for such a multiplication. They are
	// tried where the rules' own profiles leave a case wrong or undecided, and may make it exact; that they do not give the
	// recorded output says nothing. Not looked at where Profile is given.
	Suspects []*profile.Profile
	// Blind leaves the kernels' names and launches out of account.
	Blind bool
	// Rows is how many rows of a larger output are looked at, and computed; 0: all. Only stored elements in them are compared,
	// and never the hash.
	Rows int
	// output is the whole recorded output, where a trace keeps it and Rows is less than all of it.
	output []byte
	// unexplained leaves out what only explains a verdict: tests of verdicts alone need it fast.
	unexplained bool
	// trying leaves a difference unexplained: the profile given is only the one to try first.
	trying bool
	// suspect: the profile to try first was a suspect.
	suspect bool
	// siblings gives operands of other products, to tell exchanged ones; it is asked where an output has to be explained.
	siblings func() []sibling
}

// recorded is what a case keeps of its output.
type recorded struct {
	hash    string
	samples []uint64 // bit patterns at positions
	at      []gemm.Position
	indices []int
	whole   bool  // the samples are the whole output
	made    bool  // the samples were taken from an output that has the recorded hash
	part    *part // what is kept is a part of the output; else nil
}

// ReplayCase replays one recorded case with the profiles that its kernels' names and launches allow and gives the verdict.
// stored holds the recorded output elements, little endian, at cases.SampleIndices; it may be empty where the case has a
// hash.
//
// Where Progress or the context stops the work, the error is theirs and the verdict beside it is what was known by then:
// undecided, with Stopped set.
func ReplayCase(ctx context.Context, c *cases.Case, stored []byte, o Options) (Verdict, error) {
	suspects := o.Suspects
	o.Suspects = nil
	v, err := replayCase(ctx, c, stored, o)
	if err != nil || v.Outcome == Exact || v.Broken != nil || o.Profile != nil || len(suspects) == 0 {
		return v, err
	}
	// The suspects come second, so that they never take from what the rules alone show.
	o.Suspects, o.Estimate = suspects, nil
	w, err := replayCase(ctx, c, stored, o)
	switch {
	case err != nil || w.Discovered != "":
		return w, err
	case w.PlansTried == 0: // nothing was multiplied, or nothing is there to compare with
		return v, nil
	}
	v.PlansTried = max(v.PlansTried, w.PlansTried)
	v.Reason = after(v.Reason, notDiscovered(suspects))
	return v, nil
}

// notDiscovered is what a verdict says where suspects were tried in vain.
func notDiscovered(suspects []*profile.Profile) string {
	if len(suspects) == 1 {
		return "the discovered profile for it, " + discovered(suspects[0]) + ", does not give it either"
	}
	return fmt.Sprintf("none of %d discovered profiles for it gives it either", len(suspects))
}

// discovered is what a profile that was found by probing is called: of its identity so much as tells it from others.
func discovered(p *profile.Profile) string { return "discovered/" + p.ID()[:12] }

func replayCase(ctx context.Context, c *cases.Case, stored []byte, o Options) (Verdict, error) {
	begin := time.Now()
	batch, m, n, k := c.Sizes()
	v := Verdict{ID: c.ID, Op: c.Op, Out: c.Out.Format.String(), DType: formatName(c.A.Format, c.B.Format), MultiplyAdds: c.MultiplyAdds()}
	undecided := func(text string, args ...any) (Verdict, error) {
		v.Outcome, v.Reason = Undecided, fmt.Sprintf(text, args...)
		return v, nil
	}
	choice := choose(c, o)
	v.Family, v.Elsewhere = choice.family, choice.elsewhere
	if choice.unknown != "" {
		return undecided("%s", after(choice.elsewhere, choice.unknown))
	}
	if batch*m*n == 0 || k == 0 {
		return undecided("the output is empty or K is 0: nothing was multiplied, and there is no arithmetic to verify")
	}
	known, err := readOutput(c, stored)
	if err != nil {
		return v, err
	}
	if o.Rows > 0 && batch*m > o.Rows {
		if len(known.samples) == 0 && known.hash != "" {
			return undecided("only the hash of the output is recorded: a part of it cannot be compared; leave out --rows")
		}
		known.keep(c, o.Rows, o.output)
	}
	if known.hash == "" && len(known.samples) == 0 {
		return undecided("the record holds neither the output's hash nor any of its elements")
	}
	operands, err := c.Materialize()
	if err != nil {
		errors.As(err, &v.Broken)
		return undecided("%v", err)
	}
	r := &replay{c: c, operands: operands, options: o, known: known, polled: time.Now(), batch: batch, m: m, n: n, k: k, count: batch * m * n}
	if known.part != nil {
		r.count = len(known.samples)
	}
	if progress := o.Progress; progress != nil {
		r.options.Progress = func(done, total uint64) error {
			err := progress(done, total)
			if err != nil {
				r.stop = err
			}
			return err
		}
	}
	if o.Estimate != nil {
		o.Estimate(r.estimate(choice.candidates))
	}
	r.plain = time.Since(begin)
	v, err = r.verdict(ctx, v, choice)
	if other := rules.OtherLibrary(c.Device); other != "" && (o.Profile == nil || o.trying) && v.Outcome != Undecided && v.Discovered == "" && err == nil {
		v.Notes = append(v.Notes, other)
	}
	if err != nil && (r.stop != nil || ctx.Err() != nil) {
		return r.stopped(v, len(choice.candidates)), err
	}
	if v.ReplaySeconds > 0 {
		v.SearchSeconds = max(time.Since(begin).Seconds()-v.ReplaySeconds, 0)
	}
	return v, err
}

func readOutput(c *cases.Case, stored []byte) (recorded, error) {
	batch, m, n, _ := c.Sizes()
	known := recorded{hash: c.Out.Hash}
	size := c.Out.Format.Bytes()
	if len(stored) == 0 {
		return known, nil
	}
	known.locate(c)
	if len(stored) != len(known.indices)*size {
		return known, fmt.Errorf("case %s: %d bytes of output elements are stored, %d were expected", c.ID, len(stored), len(known.indices)*size)
	}
	known.whole = len(known.indices) == batch*m*n
	matrix := gemm.Dense(stored, c.Out.Format, 1, 1, len(known.indices))
	for i := range known.indices {
		known.samples = append(known.samples, matrix.Bits(0, 0, i))
	}
	return known, nil
}

// locate says where the stored elements of an output are.
func (k *recorded) locate(c *cases.Case) {
	batch, m, n, _ := c.Sizes()
	k.indices = cases.SampleIndices(batch * m * n)
	k.at = nil
	for _, index := range k.indices {
		k.at = append(k.at, gemm.Position{Batch: index / (m * n), Row: index / n % m, Column: index % n})
	}
}

// sample takes from a whole output the elements that a record would store.
func (k *recorded) sample(out []byte, c *cases.Case) {
	k.locate(c)
	k.made = true
	matrix := gemm.Dense(out, c.Out.Format, 1, 1, len(out)/c.Out.Format.Bytes())
	for _, index := range k.indices {
		k.samples = append(k.samples, matrix.Bits(0, 0, index))
	}
}

// replay is one case being replayed.
type replay struct {
	c                     *cases.Case
	operands              *cases.InMemory
	options               Options
	known                 recorded
	batch, m, n, k, count int
	trials                []*trial
	blocks                []*block
	kept                  int           // bytes of whole outputs in trials
	alike                 int           // elements of the output that are one and the same, where they are more than half
	plain                 time.Duration // spent on what a replay with a given profile needs too
	polled                time.Time
	done                  uint64 // what polls report
	stop                  error  // the progress callback's refusal
	mixed                 map[string]*gemm.Matrix
}

// pollInterval is how often a search asks the progress callback whether to go on.
const pollInterval = 100 * time.Millisecond

// poll gives the progress callback its chance to stop a search, which may take many seconds and does no part of a whole
// replay.
func (r *replay) poll() error {
	if r.options.Progress == nil || time.Since(r.polled) < pollInterval {
		return nil
	}
	r.polled = time.Now()
	return r.options.Progress(r.done, r.c.MultiplyAdds())
}

func (r *replay) args(candidate candidate, d *gemm.Matrix) *gemm.Args {
	if d == nil {
		d = r.shape(r.c.Out.Format)
	}
	return &gemm.Args{
		Profile: candidate.profile, A: r.operands.A, B: r.operands.B, C: r.operands.C, D: d,
		Alpha: r.c.Number("alpha", 1), Beta: r.c.Number("beta", 1), ScaleA: r.operands.ScaleA, ScaleB: r.operands.ScaleB,
		Threads: r.options.Threads, Progress: r.options.Progress,
	}
}

// shape is an output without memory.
func (r *replay) shape(f format.Format) *gemm.Matrix {
	return &gemm.Matrix{Format: f, Batch: r.batch, Rows: r.m, Columns: r.n, BatchStride: r.m * r.n, RowStride: r.n, ColumnStride: 1}
}

// What running survivors whole may cost: so many of them, or so many multiply-adds, whichever is more.
const (
	maxWhole     = 12
	maxWholeWork = 32 << 30
	// keptOutputs bounds the memory for the outputs of plans that did not agree; they tell how much one element decides.
	keptOutputs = 64 << 20
	// maxOthers is how many further plans a verdict describes.
	maxOthers = 64
)

// run computes a trial's whole output, for comparison alone.
func (r *replay) run(ctx context.Context, t *trial) error {
	progress := r.options.Progress
	if progress != nil { // its own work is not the case's: the callback is only to be able to stop it
		progress = func(_, total uint64) error { return r.options.Progress(r.done, total) }
	}
	out, err := r.compute(ctx, t.candidate, progress)
	if t.refused = refused(err); t.refused != nil {
		return nil
	}
	if err == nil {
		t.out = out
	}
	return err
}

// verdict searches, confirms and judges.
func (r *replay) verdict(ctx context.Context, v Verdict, choice choice) (Verdict, error) {
	r.begin(choice.candidates)
	v.PlansTried = len(r.trials)
	if len(r.trials) > 1 && len(r.known.samples) > 0 {
		if err := r.eliminate(ctx); err != nil {
			return v, err
		}
	}
	survivors := r.agreeing()
	if len(r.known.samples) == 0 {
		var err error
		if survivors, err = r.byOutput(ctx, survivors); err != nil {
			return v, err
		}
	}
	for i, t := range survivors {
		if i >= maxWhole && uint64(i)*r.cost() > maxWholeWork {
			v.Outcome = Undecided
			v.Reason = after(choice.elsewhere, fmt.Sprintf("%d plans are left after the stored elements looked at; %d of them were run whole and none gives the recorded output", len(survivors), i))
			return v, nil
		}
		start := time.Now()
		out, err := r.compute(ctx, t.candidate, r.options.Progress)
		if t.refused = refused(err); t.refused != nil {
			continue
		}
		if err != nil {
			return v, err
		}
		if took := time.Since(start); r.known.part == nil {
			v.Seconds = took.Seconds()
			learn(t.profile, v.MultiplyAdds, took, r.options.threads())
		}
		agrees, comparison := r.agrees(out)
		if agrees {
			v.ReplaySeconds = (r.plain + time.Since(start)).Seconds()
			r.done = v.MultiplyAdds
			v.Comparison = nil
			return r.found(ctx, v, choice, t, out)
		}
		if v.Comparison == nil || comparison != nil && comparison.Differing < v.Comparison.Differing {
			v.Comparison = comparison
		}
		if comparison != nil {
			t.stored, t.differing = comparison, max(t.differing, comparison.Differing)
		}
		if r.kept += len(out); r.kept <= keptOutputs {
			t.out = out
		} else {
			t.whole = &gap{differing: r.count, bits: math.Inf(1)} // not kept: how far it lies is not known
		}
	}
	if refusal := r.allRefused(); refusal != nil {
		v.Outcome, v.Reason, v.PlansTried = Undecided, refusal.Message, 0
		return v, nil
	}
	return r.noAgreement(ctx, v, choice, survivors)
}

// found is the verdict where a plan gives the recorded output.
func (r *replay) found(ctx context.Context, v Verdict, choice choice, t *trial, out []byte) (Verdict, error) {
	v.Plan, v.ProfileID, v.Profile = r.describe(t.candidate), t.profile.ID(), t.profile.JSON()
	if t.suspect { // it was found on such a device: what the rules were measured on does not matter
		v.Discovered, choice.suspected, choice.elsewhere = discovered(t.profile), true, ""
	}
	r.alike = majority(out, r.c.Out.Format.Bytes())
	w := weighed{}
	if len(r.trials) > 1 {
		if len(r.known.samples) == 0 { // the output has the hash: its elements are the recorded ones
			r.known.sample(out, r.c)
			t.out = out
			if err := r.eliminate(ctx); err != nil {
				return v, err
			}
		}
		var err error
		if w, err = r.weigh(ctx, t, out); err != nil {
			return v, err
		}
		for _, other := range r.agreeing() {
			if other != t && (other.whole == nil || other.whole.differing == 0) {
				v.Others = append(v.Others, r.describe(other.candidate))
			}
		}
	}
	if w.rejected == 0 && choice.uncertain && r.known.part != nil {
		var err error
		if w.bits, err = r.against(ctx, t); err != nil {
			return v, err
		}
	}
	v = r.judge(v, choice, w)
	if v.Outcome == Exact {
		if choice.suspected {
			v.Notes = append(v.Notes, foundBy(t.profile))
		}
		if choice.elsewhere != "" {
			v.Notes = append(v.Notes, choice.elsewhere+"; the plan that gives these bits was measured on "+rules.MeasuredOn())
		}
		if r.known.part != nil && r.known.part.hashed {
			v.Notes = append(v.Notes, noHash)
		}
		return r.remark(ctx, v, t, out)
	}
	return v, nil
}

// foundBy says how a profile that was discovered is known.
func foundBy(p *profile.Profile) string {
	text := "by the profile " + discovered(p) + ", found by probing"
	if p.Provenance.Hardware != "" {
		text += " " + p.Provenance.Hardware
	}
	if p.Provenance.Library != "" {
		text += " with " + p.Provenance.Library
	}
	if p.Provenance.Certified != "" {
		text += ", certified: " + p.Provenance.Certified
	}
	return shortened(text)
}

// allRefused is the first refusal where package gemm took no candidate at all.
func (r *replay) allRefused() *gemm.Error {
	for _, t := range r.trials {
		if t.refused == nil {
			return nil
		}
	}
	if len(r.trials) == 0 {
		return nil
	}
	return r.trials[0].refused
}

// stopped is the verdict where the work was ended before its time.
func (r *replay) stopped(v Verdict, candidates int) Verdict {
	out, tried := 0, 0
	for _, t := range r.trials {
		if t.done > 0 || t.out != nil || t.whole != nil || t.refused != nil {
			tried++
			if r.far(t) || t.whole != nil && t.whole.differing > 0 {
				out++
			}
		}
	}
	left := candidates - out
	v.Outcome, v.Stopped, v.PlansTried, v.EvidenceBits, v.Compared, v.Elements, v.Others = Undecided, true, tried, 0, "", 0, nil
	switch {
	case v.Plan != "":
		v.Reason = "stopped after a plan was found that gives the recorded output, before it was told how much that says: " + v.Plan
	case candidates == 1:
		v.Reason = "stopped before the replay was complete"
	default:
		v.Reason = fmt.Sprintf("stopped: %d of %d candidates were tried, %d remain", tried, candidates, left)
	}
	return v
}

// describe says a candidate's order and, where the case has an addend or scales, its epilogue.
func (r *replay) describe(c candidate) string {
	text := c.profile.Plan.Describe()
	if r.c.C == nil && c.profile.Epilogue.Scaling == profile.ScalingNone {
		if out := c.profile.Epilogue.Out; out != c.profile.Step.Result {
			text += fmt.Sprintf("; the sum is rounded once to %v", out)
		}
		return text
	}
	return text + "; " + c.profile.Epilogue.Describe()
}

// formatName writes a format, or a pair of different ones.
func formatName(a, b format.Format) string {
	if a == b {
		return a.String()
	}
	return a.String() + "×" + b.String()
}
