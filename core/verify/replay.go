package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// Options are how a replay runs.
type Options struct {
	Threads int
	// Progress is called from the calling goroutine with multiply-adds done and in all of the current whole replay; its
	// error stops the replay and is returned.
	Progress func(done, total uint64) error
}

// recorded is what a case keeps of its output.
type recorded struct {
	hash    string
	samples []uint64 // bit patterns at positions
	at      []gemm.Position
	indices []int
	whole   bool // the samples are the whole output
}

// ReplayCase replays one recorded case with the profiles its kernel names allow and gives the verdict. stored holds the
// recorded output elements, little endian, at cases.SampleIndices; it may be empty where the case has a hash.
func ReplayCase(ctx context.Context, c *cases.Case, stored []byte, o Options) (Verdict, error) {
	batch, m, n, k := c.Sizes()
	v := Verdict{ID: c.ID, Op: c.Op, Out: c.Out.Format.String(), DType: formatName(c.A.Format, c.B.Format), MultiplyAdds: c.MultiplyAdds()}
	undecided := func(text string, args ...any) (Verdict, error) {
		v.Outcome, v.Reason = Undecided, fmt.Sprintf(text, args...)
		return v, nil
	}
	choice := choose(c)
	v.Family = choice.family
	if choice.unknown != "" {
		return undecided("%s", choice.unknown)
	}
	if batch*m*n == 0 || k == 0 {
		return undecided("the output is empty or K is 0: nothing was multiplied, and what a GPU does then is not known")
	}
	known, err := readOutput(c, stored)
	if err != nil {
		return v, err
	}
	if known.hash == "" && len(known.samples) == 0 {
		return undecided("the record holds neither the output's hash nor any of its elements")
	}
	operands, err := c.Materialize()
	if err != nil {
		return undecided("%v", err)
	}
	run := replay{c: c, operands: operands, options: o, known: known, polled: time.Now()}
	survivors, err := run.eliminate(ctx, choice.candidates)
	if err != nil {
		return run.declined(v, err)
	}
	v.PlansTried = len(choice.candidates)
	if len(survivors) == 0 {
		return run.noPlan(v, choice), nil
	}
	return run.confirm(ctx, v, choice, survivors)
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
	matrix := gemm.Dense(out, c.Out.Format, 1, 1, len(out)/c.Out.Format.Bytes())
	for _, index := range k.indices {
		k.samples = append(k.samples, matrix.Bits(0, 0, index))
	}
}

// replay is one case being replayed.
type replay struct {
	c        *cases.Case
	operands *cases.InMemory
	options  Options
	known    recorded
	// What the search saw, for the evidence: plans rejected, and of the elements in which they were compared with the
	// recorded output (or with the output that agrees) how many differed.
	rejected, tested, disagreed int
	alike                       int // elements of the output that are one and the same, where they are more than half
	polled                      time.Time
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
	return r.options.Progress(0, r.c.MultiplyAdds())
}

func (r *replay) args(candidate candidate, d *gemm.Matrix) *gemm.Args {
	batch, m, n, _ := r.c.Sizes()
	if d == nil {
		d = &gemm.Matrix{Format: r.c.Out.Format, Batch: batch, Rows: m, Columns: n, BatchStride: m * n, RowStride: n, ColumnStride: 1}
	}
	return &gemm.Args{
		Profile: candidate.profile, A: r.operands.A, B: r.operands.B, C: r.operands.C, D: d,
		Alpha: r.c.Number("alpha", 1), Beta: r.c.Number("beta", 1), ScaleA: r.operands.ScaleA, ScaleB: r.operands.ScaleB,
		Threads: r.options.Threads, Progress: r.options.Progress,
	}
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

// confirm runs the survivors whole until one has the recorded output.
func (r *replay) confirm(ctx context.Context, v Verdict, choice choice, survivors []candidate) (Verdict, error) {
	batch, m, n, _ := r.c.Sizes()
	size := batch * m * n * r.c.Out.Format.Bytes()
	var rejected [][]byte
	for i, candidate := range survivors {
		if i >= maxWhole && uint64(i)*v.MultiplyAdds > maxWholeWork {
			v.Outcome, v.Reason = Undecided, fmt.Sprintf("%d plans are left after the stored elements looked at; %d of them were run whole and none gives the recorded output", len(survivors), i)
			return v, nil
		}
		out := make([]byte, size)
		start := time.Now()
		if err := gemm.Run(ctx, r.args(candidate, gemm.Dense(out, r.c.Out.Format, batch, m, n))); err != nil {
			return r.declined(v, err)
		}
		v.Seconds = time.Since(start).Seconds()
		agrees, comparison := r.agrees(out)
		if !agrees {
			if v.Comparison = comparison; (len(rejected)+1)*size <= keptOutputs {
				rejected = append(rejected, out)
			} else if comparison != nil {
				r.tested, r.disagreed = r.tested+comparison.Count, r.disagreed+comparison.Differing
			}
			r.rejected++
			continue
		}
		v.Comparison = nil
		v.Plan, v.ProfileID, v.Profile = r.describe(candidate), candidate.profile.ID(), candidate.profile.JSON()
		r.weigh(out, rejected)
		others, err := r.others(ctx, out, survivors[i+1:])
		if err != nil {
			return r.declined(v, err)
		}
		for _, other := range others {
			v.Others = append(v.Others, r.describe(other))
		}
		r.alike = majority(out, r.c.Out.Format.Bytes())
		return r.judge(v, choice, batch*m*n), nil
	}
	return r.noAgreement(v, choice, survivors), nil
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

// declined turns a refusal of package gemm into an undecided verdict; anything else stays an error.
func (r *replay) declined(v Verdict, err error) (Verdict, error) {
	var refusal *gemm.Error
	if errors.As(err, &refusal) && (refusal.Kind == gemm.KindUnsupported || refusal.Kind == gemm.KindFormat) {
		v.Outcome, v.Reason = Undecided, refusal.Message
		return v, nil
	}
	return v, err
}

// formatName writes a format, or a pair of different ones.
func formatName(a, b format.Format) string {
	if a == b {
		return a.String()
	}
	return a.String() + "×" + b.String()
}
