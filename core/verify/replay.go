package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// How many stored elements each round of the elimination looks at: most wrong plans fall in the first. What is left after
// the last round is run whole, which costs less than more single elements would.
var rounds = []int{4, 28}

// eliminate keeps the candidates that agree on the stored elements. One candidate alone is not put to this test: its whole
// output is compared anyway.
func (r *replay) eliminate(ctx context.Context, candidates []candidate) ([]candidate, error) {
	if len(candidates) == 1 || len(r.known.samples) == 0 {
		return candidates, nil
	}
	return r.sift(ctx, candidates)
}

// sift looks at more and more stored elements, until one candidate is left or enough were looked at.
func (r *replay) sift(ctx context.Context, candidates []candidate) ([]candidate, error) {
	order := spread(len(r.known.samples))
	for _, count := range rounds {
		count = min(count, len(order))
		at, want := make([]gemm.Position, count), make([]uint64, count)
		for i, o := range order[:count] {
			at[i], want[i] = r.known.at[o], r.known.samples[o]
		}
		order = order[count:]
		var kept []candidate
		for _, candidate := range candidates {
			if err := r.poll(); err != nil {
				return nil, err
			}
			got, err := gemm.Elements(ctx, r.args(candidate, nil), at)
			if err != nil {
				return nil, err
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			differing := 0
			for i := range got {
				if got[i] != want[i] {
					differing++
				}
			}
			if differing == 0 {
				kept = append(kept, candidate)
			} else {
				r.rejected, r.tested, r.disagreed = r.rejected+1, r.tested+count, r.disagreed+differing
			}
		}
		candidates = kept
		if len(candidates) <= 1 || len(order) == 0 {
			break
		}
	}
	return candidates, nil
}

// spread orders n indices so that any beginning of the list covers the whole: by a stride that shares no factor with n.
func spread(n int) []int {
	order := make([]int, 0, n)
	stride := max(n*5/8, 1)
	for gcd(stride, n) != 1 {
		stride++
	}
	for i := range n {
		order = append(order, i*stride%n)
	}
	return order
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
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

// weigh counts in how many elements the outputs of rejected plans differ from the one that agrees.
func (r *replay) weigh(out []byte, rejected [][]byte) {
	width := r.c.Out.Format.Bytes()
	for _, other := range rejected {
		for i := 0; i < len(out); i += width {
			r.tested++
			if !bytes.Equal(out[i:i+width], other[i:i+width]) {
				r.disagreed++
			}
		}
	}
}

// others are the plans, not run whole, that may give the output that agrees with the record too. Where no elements are
// stored they are sifted now, on elements of that output.
func (r *replay) others(ctx context.Context, out []byte, plans []candidate) ([]candidate, error) {
	if len(r.known.samples) > 0 || len(plans) == 0 {
		return plans, nil
	}
	r.known.sample(out, r.c)
	return r.sift(ctx, plans)
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

// agrees compares the whole output: by its hash where one is recorded, else element by element where they are stored.
func (r *replay) agrees(out []byte) (bool, *Comparison) {
	same := true
	if r.known.hash != "" {
		sum := sha256.Sum256(out)
		same = hex.EncodeToString(sum[:]) == r.known.hash
	}
	if len(r.known.samples) == 0 {
		return same, nil
	}
	comparison := Comparison{First: -1, Worst: -1}
	actual := gemm.Dense(out, r.c.Out.Format, 1, 1, len(out)/r.c.Out.Format.Bytes())
	for i, index := range r.known.indices {
		comparison.add(actual, r.known.samples[i], actual.Bits(0, 0, index))
	}
	comparison.First, comparison.Worst = flat(r.known.indices, comparison.First), flat(r.known.indices, comparison.Worst)
	return same && comparison.Differing == 0, &comparison
}

func flat(indices []int, i int) int {
	if i < 0 {
		return i
	}
	return indices[i]
}

// judge turns agreement into a verdict with its evidence.
func (r *replay) judge(v Verdict, choice choice, count int) Verdict {
	v.Outcome, v.Elements, v.Compared = Exact, count, "sha256 of the whole output"
	if r.known.hash == "" {
		v.Elements, v.Compared = len(r.known.samples), "stored elements"
		if r.known.whole {
			v.Compared = "the whole output"
		}
	}
	width := float64(r.c.Out.Format.Info().Bits)
	v.EvidenceBits = float64(v.Elements) * width
	switch {
	case !choice.searched:
		// Elements that repeat one another count once: zeros or NaNs alone are what any operands may give.
		v.EvidenceBits = min(v.EvidenceBits, float64(count-max(r.alike-1, 0))*width)
		if r.alike == count && count > 1 {
			v.Reason = fmt.Sprintf("all %d elements of the output are the same, which other operands or another arithmetic may give too", count)
		}
	case r.rejected > 0:
		v.EvidenceBits = min(v.EvidenceBits, evidence(r.disagreed, r.tested, v.PlansTried, v.Elements))
		if v.EvidenceBits < wantedBits {
			v.Outcome = Undecided
			v.Reason = fmt.Sprintf("too little output to identify the plan: one of %d plans tried agrees on %d elements, worth %.1f bits, and %d are wanted",
				v.PlansTried, v.Elements, max(v.EvidenceBits, 0), wantedBits)
		}
	default:
		// Nothing was chosen: all plans tried so far give these bits. They count as far as they say something: an output
		// of zeros or of NaNs alone is what any arithmetic gives.
		v.EvidenceBits = min(v.EvidenceBits, float64(count-r.alike)*width)
		if v.EvidenceBits < wantedBits {
			v.Outcome = Undecided
			v.Reason = fmt.Sprintf("too little output to identify the plan: one of %d plans tried agrees on %d elements, worth %.1f bits, and %d are wanted",
				v.PlansTried, v.Elements, v.EvidenceBits, wantedBits)
			if r.alike > 1 {
				v.Reason = fmt.Sprintf("%d of %d elements of the output are the same, which any plan may give; all %d plans tried agree on what was looked at",
					r.alike, count, v.PlansTried)
			}
		}
	}
	if v.Reason == "" && len(v.Others) > 0 {
		v.Reason = fmt.Sprintf("%d further plans agree on the stored elements looked at", len(v.Others))
	}
	// A verdict is to stay short (the C interface promises 64 KiB); the reason holds their number.
	v.Others = v.Others[:min(len(v.Others), maxOthers)]
	return v
}

// majority counts the elements of an output that equal the one which makes up more than half of them; 0 where none does.
func majority(out []byte, width int) int {
	// The vote of Boyer and Moore: such an element is the one left over when unlike ones cancel pairwise.
	at, votes := 0, 0
	for i := 0; i < len(out); i += width {
		switch {
		case votes == 0:
			at, votes = i, 1
		case bytes.Equal(out[i:i+width], out[at:at+width]):
			votes++
		default:
			votes--
		}
	}
	alike := 0
	for i := 0; i < len(out); i += width {
		if bytes.Equal(out[i:i+width], out[at:at+width]) {
			alike++
		}
	}
	if 2*alike*width <= len(out) {
		return 0
	}
	return alike
}

// noPlan is the verdict where no candidate agrees on the stored elements.
func (r *replay) noPlan(v Verdict, choice choice) Verdict {
	v.Outcome = Undecided
	v.Reason = fmt.Sprintf("none of %d plans for %s kernels agrees with the stored elements", v.PlansTried, choice.family)
	return v
}

// noAgreement is the verdict where whole outputs differ. Where the kernel's name determines the profile, differing bits
// are wrong; where it was searched for, the right plan may simply not be among those tried.
func (r *replay) noAgreement(v Verdict, choice choice, survivors []candidate) Verdict {
	if choice.searched || choice.uncertain {
		v.Outcome = Undecided
		v.Reason = fmt.Sprintf("%d of %d plans tried agree on the stored elements looked at first, but none gives the whole recorded output", len(survivors), v.PlansTried)
		switch {
		case !choice.searched:
			v.Reason = "the one plan tried for " + choice.family + " kernels does not give the recorded output, and such a kernel may have others"
		case len(r.known.samples) == 0:
			v.Reason = fmt.Sprintf("none of %d plans for %s kernels gives the recorded output", v.PlansTried, choice.family)
		}
		return v
	}
	v.Outcome, v.Plan = Wrong, r.describe(survivors[0])
	v.ProfileID, v.Profile = survivors[0].profile.ID(), survivors[0].profile.JSON()
	switch {
	case v.Comparison == nil:
		v.Reason = "the hash of the output differs from the recorded one"
	case v.Comparison.Differing == 0:
		v.Reason = fmt.Sprintf("the %d stored elements agree, but the hash of the whole output differs from the recorded one", v.Comparison.Count)
	default:
		v.Reason = "of the stored elements " + v.Comparison.String()
	}
	return v
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
