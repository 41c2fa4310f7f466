package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// agrees compares the whole output: by its hash where one is recorded, else element by element where they are stored.
func (r *replay) agrees(out []byte) (bool, *Comparison) {
	same := r.hashAgrees(out)
	if len(r.known.samples) == 0 {
		return same, nil
	}
	comparison := Comparison{First: -1, Worst: -1}
	actual := gemm.Dense(out, r.c.Out.Format, 1, 1, len(out)/r.c.Out.Format.Bytes())
	for i, index := range r.known.indices {
		if r.known.part != nil {
			index = i
		}
		comparison.add(actual, r.known.samples[i], actual.Bits(0, 0, index))
	}
	comparison.First, comparison.Worst = flat(r.known.indices, comparison.First), flat(r.known.indices, comparison.Worst)
	return same && comparison.Differing == 0, &comparison
}

// hashAgrees tells whether a whole output has the recorded hash; it does where none is recorded.
func (r *replay) hashAgrees(out []byte) bool {
	if r.known.hash == "" {
		return true
	}
	sum := sha256.Sum256(out)
	return hex.EncodeToString(sum[:]) == r.known.hash
}

func flat(indices []int, i int) int {
	if i < 0 {
		return i
	}
	return indices[i]
}

// judge turns agreement into a verdict with its evidence.
func (r *replay) judge(v Verdict, choice choice, w weighed) Verdict {
	v.Outcome, v.Elements, v.Compared = Exact, r.count, "sha256 of the whole output"
	if r.known.hash == "" {
		v.Elements, v.Compared = len(r.known.samples), "stored elements"
		if r.known.whole {
			v.Compared = "the whole output"
		}
		if r.known.part != nil {
			v.Compared = r.said()
		}
	}
	width := float64(r.c.Out.Format.Info().Bits)
	v.EvidenceBits = float64(v.Elements) * width
	switch {
	case !choice.searched:
		// Elements that repeat one another count once: zeros or NaNs alone are what any operands may give.
		v.EvidenceBits = min(v.EvidenceBits, float64(r.count-max(r.alike-1, 0))*width)
		if r.alike == r.count && r.count > 1 {
			v.Reason = fmt.Sprintf("all %d %s are the same, which other operands or another arithmetic may give too", r.count, r.elementsOfOutput())
		}
	case w.rejected > 0:
		v.EvidenceBits = max(min(v.EvidenceBits, w.bits), 0)
		switch {
		case w.neighbour != nil:
			p := r.position(w.neighbour.whole.index)
			v.Outcome = Undecided
			v.EvidenceBits = min(v.EvidenceBits, w.neighbour.whole.bits)
			v.Reason = fmt.Sprintf("two of %d plans tried differ in one element alone, %s, and there by little: one small change of the output would turn one into the other (the second: %s)",
				v.PlansTried, r.place(p), r.describe(w.neighbour.candidate))
		case v.EvidenceBits < wantedBits:
			v.Outcome, v.Reason = Undecided, tooLittle(v)
		}
	default:
		// Nothing was chosen: all plans tried give these bits. An output that is one value throughout is worth one element
		// and no more, however the plan came about: the same as where the names leave one plan.
		if r.alike == r.count && r.count > 1 {
			v.EvidenceBits = width
			v.Reason = fmt.Sprintf("all %d %s are the same, as all %d plans tried give it; other operands or another arithmetic may give it too", r.count, r.elementsOfOutput(), v.PlansTried)
			break
		}
		v.EvidenceBits = min(v.EvidenceBits, float64(r.count-r.alike)*width)
		if v.EvidenceBits < wantedBits {
			v.Outcome, v.Reason = Undecided, tooLittle(v)
			if r.alike > 1 {
				v.Reason = fmt.Sprintf("%d of %d %s are the same, which any plan may give; all %d plans tried agree on what was looked at",
					r.alike, r.count, r.elementsOfOutput(), v.PlansTried)
			}
		}
	}
	if r.known.part != nil && choice.uncertain && w.rejected == 0 {
		v.EvidenceBits = min(v.EvidenceBits, w.bits)
	}
	if v.Outcome == Exact {
		if doubt := r.doubt(v, choice); doubt != "" {
			v.Outcome, v.Reason = Undecided, after(choice.elsewhere, doubt)
		}
	}
	if v.Reason == "" && len(v.Others) > 0 {
		v.Reason = fmt.Sprintf("%d further plans agree on the stored elements looked at", len(v.Others))
	}
	// A verdict is to stay short (the C interface promises 64 KiB); the reason holds their number.
	v.Others = v.Others[:min(len(v.Others), maxOthers)]
	return v
}

// doubt is why bits that agree are not enough all the same: the plan is none that is known of the device that computed them, or
// only a part of the output was looked at. "" for no doubt.
func (r *replay) doubt(v Verdict, choice choice) string {
	little, part := v.EvidenceBits < wantedBits, r.known.part != nil
	switch {
	case choice.elsewhere != "" && r.known.hash == "" && !r.known.whole:
		// Most elements in 16 bits come out alike on any hardware.
		return fmt.Sprintf("the %d elements looked at are those of a plan that was measured elsewhere; only the whole output could tell whether it ran", v.Elements)
	case little && part:
		return tooLittle(v) + "; more rows hold more"
	case little && (choice.elsewhere != "" || choice.suspected):
		return tooLittle(v)
	case part && (choice.searched || choice.uncertain) && r.count < fewOfPart:
		return fmt.Sprintf("%d elements are too few to tell plans apart; more rows hold more", r.count)
	}
	return ""
}

// tooLittle is the reason for a plan that agrees on less than the evidence wanted.
func tooLittle(v Verdict) string {
	elements := fmt.Sprintf("%d elements", v.Elements)
	if v.Elements == 1 {
		elements = "1 element"
	}
	if v.PlansTried == 1 {
		return fmt.Sprintf("too little output: the one plan tried agrees on %s, worth %.1f bits, and %d are wanted", elements, max(v.EvidenceBits, 0), wantedBits)
	}
	return fmt.Sprintf("too little output to identify the plan: one of %d plans tried agrees on %s, worth %.1f bits, and %d are wanted",
		v.PlansTried, elements, max(v.EvidenceBits, 0), wantedBits)
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

// noAgreement is the verdict where no candidate gives the recorded output. Where the kernel's name determines the profile,
// or one is given, differing bits are wrong, unless the profile is of other devices than the record; where it was searched for, the right plan may simply not be among those tried,
// unless what differs is explained (difference.go).
func (r *replay) noAgreement(ctx context.Context, v Verdict, choice choice, survivors []*trial) (Verdict, error) {
	if len(r.options.Suspects) > 0 { // what the rules' own plans come to has been told without them
		v.Outcome = Undecided
		return v, nil
	}
	if choice.determined() {
		t := r.trials[0]
		v.Outcome, v.Plan = Wrong, r.describe(t.candidate)
		v.ProfileID, v.Profile = t.profile.ID(), t.profile.JSON()
		switch {
		case v.Comparison == nil:
			v.Reason = "the hash of the output differs from the recorded one"
		case v.Comparison.Differing == 0:
			v.Reason = fmt.Sprintf("the %d stored elements agree, but the hash of the whole output differs from the recorded one", v.Comparison.Count)
		default:
			v.Reason = v.Comparison.stored()
		}
		return r.explain(ctx, v, choice)
	}
	v.Outcome = Undecided
	switch {
	case !choice.searched && choice.elsewhere != "":
		v.Reason = "the one plan tried does not give the recorded output"
	case !choice.searched:
		v.Reason = "the one plan tried for " + choice.family + " kernels does not give the recorded output, and such a kernel may have others"
	case len(r.known.samples) == 0:
		v.Reason = fmt.Sprintf("none of %d plans for %s kernels gives the recorded output", v.PlansTried, choice.family)
	case len(survivors) == 0:
		v.Reason = fmt.Sprintf("none of %d plans for %s kernels agrees with the stored elements", v.PlansTried, choice.family)
	default:
		v.Reason = fmt.Sprintf("%d of %d plans tried agree on the stored elements looked at first, but none gives the whole recorded output", len(survivors), v.PlansTried)
	}
	if v.Reason = after(choice.elsewhere, v.Reason); choice.elsewhere != "" && r.c.Device["gpu"] == "" {
		return v, nil // beside the plans of a GPU, how a CPU's output differs means nothing
	}
	return r.explain(ctx, v, choice)
}

// after joins a reason to one that stands before it, where there is one.
func after(first, reason string) string {
	if first == "" {
		return reason
	}
	return first + "; " + reason
}

// position of a flat index.
func (r *replay) position(index int) gemm.Position {
	if r.known.part != nil {
		return r.known.at[index]
	}
	return gemm.Position{Batch: index / (r.m * r.n), Row: index / r.n % r.m, Column: index % r.n}
}

// place names an element.
func (r *replay) place(p gemm.Position) string {
	if r.batch > 1 {
		return fmt.Sprintf("(%d, %d, %d)", p.Batch, p.Row, p.Column)
	}
	return fmt.Sprintf("(%d, %d)", p.Row, p.Column)
}
