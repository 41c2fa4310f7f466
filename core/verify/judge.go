package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

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
			v.Outcome, v.Reason = Undecided, tooLittle(v)
		}
	default:
		// Nothing was chosen: all plans tried so far give these bits. They count as far as they say something: an output
		// of zeros or of NaNs alone is what any arithmetic gives.
		v.EvidenceBits = min(v.EvidenceBits, float64(count-r.alike)*width)
		if v.EvidenceBits < wantedBits {
			v.Outcome, v.Reason = Undecided, tooLittle(v)
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

// tooLittle is the reason for a plan that agrees on less than the evidence wanted.
func tooLittle(v Verdict) string {
	return fmt.Sprintf("too little output to identify the plan: one of %d plans tried agrees on %d elements, worth %.1f bits, and %d are wanted",
		v.PlansTried, v.Elements, max(v.EvidenceBits, 0), wantedBits)
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
