package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// About is the multiplication that a profile is explained for; what is zero is not known, and not spoken of.
type About struct {
	Family  string // of the kernel, such as "nvjet" or "cutlass"
	M, N, K int
}

// Profile says in one paragraph, for a person, how the profile makes an output element: the kernel family, how K is cut,
// the order, and every rounding on the way.
func Profile(p *profile.Profile, a About) (string, error) {
	var said []string
	say := func(text string, args ...any) { said = append(said, fmt.Sprintf(text, args...)) }
	say("%s.", opening(p, a))
	say("The order: %s.", strings.TrimSuffix(p.Plan.Describe(), "."))
	if a.K > 0 {
		tree, err := p.Plan.Expand(a.K)
		if err != nil {
			return "", err
		}
		if text := partsWords(p, tree, a.K); text != "" {
			say("%s.", text)
		}
		say("%s.", stepSentence(&p.Step))
		said = append(said, mergeSentences(p, tree)...)
		say("%s.", upper(endWords(p, tree)))
		if text := roundingsWords(p, tree); text != "" {
			say("%s.", text)
		}
	} else {
		say("%s.", stepSentence(&p.Step))
		say("%s.", upper(endWords(p, nil)))
	}
	if source := strings.TrimSuffix(p.Provenance.Source, "."); source != "" {
		say("Known from: %s.", source)
	}
	if doubts := strings.TrimSuffix(p.Provenance.Doubts, "."); doubts != "" {
		say("Doubtful: %s.", doubts)
	}
	return strings.Join(said, " "), nil
}

// opening says what is multiplied, and by what.
func opening(p *profile.Profile, a About) string {
	name := "This arithmetic"
	if p.Name != "" {
		name = p.Name
	}
	if a.Family != "" {
		name += fmt.Sprintf(" (%s kernel)", a.Family)
	}
	of := p.Step.A.String()
	if p.Step.A != p.Step.B {
		of += " by " + p.Step.B.String()
	}
	output := "the output"
	if a.M > 0 && a.N > 0 {
		output = fmt.Sprintf("the %d×%d output", a.M, a.N)
	}
	sum := "K products"
	if a.K > 0 {
		sum = count(a.K, "product")
	}
	return fmt.Sprintf("%s: an element of %s is a sum of %s of %s, accumulated in %v", name, output, sum, of, p.Step.Result)
}

// partsWords says into how many accumulators the plan cuts this K.
func partsWords(p *profile.Profile, tree *plan.Tree, k int) string {
	var lengths []int
	var walk func(t *plan.Tree)
	walk = func(t *plan.Tree) {
		if t.Leaf() {
			lengths = append(lengths, products(t))
		}
		for _, child := range t.Sum {
			walk(child)
		}
	}
	walk(tree)
	asked, cut := 0, p.Plan.Promote != nil
	if s := p.Plan.Split; s != nil {
		asked, cut = s.Slices, true
	}
	slices := len(tree.Sum)
	if s := p.Plan.Serial; s != nil {
		asked, cut = s.Slices, true
		if !tree.Serial { // one slice, which is the tree
			slices = 1
		}
	}
	switch {
	case tree.Leaf():
		return ""
	case len(tree.Sum) == 1 && tree.Sum[0].Leaf():
		return fmt.Sprintf("For K = %d one part holds all of it, and still passes through the merge", k)
	}
	text := fmt.Sprintf("For K = %d that makes %s of %s", k, count(len(lengths), "accumulator"), lengthsWords(lengths))
	if cut && slices != len(lengths) {
		text += fmt.Sprintf(", in %s", count(slices, "slice"))
	}
	if empty := asked - slices; asked > 0 && empty > 0 {
		text += fmt.Sprintf(" (%d of the %d slices have nothing to do)", empty, asked)
	}
	return text
}

// lengthsWords says how long accumulators run: "1408, 1408 and 1280 products", "128 products each", "23 to 24 products".
func lengthsWords(lengths []int) string {
	least, most := slices.Min(lengths), slices.Max(lengths)
	const few = 5
	switch {
	case least == most && len(lengths) > 1:
		return count(least, "product") + " each"
	case least == most:
		return count(least, "product")
	case len(lengths) <= few:
		words := make([]string, len(lengths))
		for i, n := range lengths {
			words[i] = fmt.Sprint(n)
		}
		return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1] + " products"
	}
	usual := 0
	for _, n := range lengths {
		if n == lengths[0] {
			usual++
		}
	}
	if usual == len(lengths)-1 && lengths[len(lengths)-1] != lengths[0] {
		return fmt.Sprintf("%d products each, the last of %d", lengths[0], lengths[len(lengths)-1])
	}
	return fmt.Sprintf("%d to %d products", least, most)
}

// stepSentence says what a step rounds, without the corners that step.Params.Describe has.
func stepSentence(p *step.Params) string {
	text := ""
	if p.InputRounding != "" {
		text = fmt.Sprintf("f32 operands are first rounded %s to %v. ", roundingWords(p.InputRounding), p.A)
	}
	result := p.Result.String()
	if p.ResultFraction != 0 {
		result += fmt.Sprintf(" with %d fraction bits", p.ResultFraction)
	}
	switch p.Kind {
	case step.Fused:
		return text + fmt.Sprintf("A step takes %s at once: exact products and accumulator are cut %s at %d bits below the largest exponent among them, summed exactly, and the sum is rounded %s to %s",
			count(p.Group, "product"), roundingWords(p.Align), p.Fraction, roundingWords(p.ResultRounding), result)
	case step.FMA:
		return text + fmt.Sprintf("Each product is added by a fused multiply-add, rounded once, %s, to %s", roundingWords(p.ResultRounding), result)
	case step.Integer:
		return text + fmt.Sprintf("Products and sums are exact in %s, which wraps", result)
	}
	return text + strings.TrimSuffix(p.Describe(), ".")
}

// mergeSentences says how partial sums are rounded and joined, a sentence a kind of merge.
func mergeSentences(p *profile.Profile, tree *plan.Tree) []string {
	additions, narrowed := map[plan.Merge]int{}, map[plan.Merge]int{}
	var order []plan.Merge
	var walk func(t *plan.Tree)
	walk = func(t *plan.Tree) {
		for _, child := range t.Sum { // inner merges come first
			walk(child)
		}
		if t.Merge == nil {
			return
		}
		m := *t.Merge
		if !slices.Contains(order, m) {
			order = append(order, m)
		}
		additions[m] += len(t.Sum) - 1
		for _, child := range t.Sum {
			if narrows(formatOf(child, p), m.Partial) {
				narrowed[m]++
			}
		}
	}
	walk(tree)
	var said []string
	joined := false
	for _, k := range order {
		text := ""
		if narrowed[k] > 0 {
			text = fmt.Sprintf("Each of %s is first rounded to %v, to nearest even. ", count(narrowed[k], "partial sum"), k.Partial)
		}
		nearest := ", rounded to nearest even"
		if k.Sum == format.S32 {
			nearest = ""
		}
		switch additions[k] {
		case 0:
			text = strings.TrimSuffix(text, " ")
		case 1:
			text += fmt.Sprintf("1%s in %v%s.", joining(" addition joins", joined), k.Sum, nearest)
			joined = true
		default:
			if nearest != "" {
				nearest = ", each" + nearest[1:]
			}
			text += fmt.Sprintf("%d%s in %v%s.", additions[k], joining(" additions join", joined), k.Sum, nearest)
			joined = true
		}
		if text == "" {
			continue
		}
		if k.FromZero {
			text += " A lone -0 becomes +0."
		}
		said = append(said, text)
	}
	return said
}

// joining says what additions join: partial sums, or what additions spoken of before made of those.
func joining(verb string, again bool) string {
	if again {
		return " further" + verb + " their sums"
	}
	return verb + " the partial sums"
}

// endWords says what becomes of the merged sum.
func endWords(p *profile.Profile, tree *plan.Tree) string {
	text := ""
	e := &p.Epilogue
	switch {
	case e.Form != profile.FormAdd || e.Scaling != profile.ScalingNone:
		text = e.Describe()
	case e.Out == format.S32:
		text = "the sum is the output element"
	case e.Out == p.Step.Result:
		text = fmt.Sprintf("the sum is the output element, in %v; an addend, if any, is added before", e.Out)
	default:
		text = fmt.Sprintf("the sum, with an addend if there is one, is rounded once to %v, to nearest even", e.Out)
	}
	if tree != nil && tree.Serial {
		text = fmt.Sprintf("for the first slice %s; each further slice's sum is added to the stored element and rounded to %v again", text, e.Out)
	}
	return text
}

// roundingsWords counts how often an element is rounded.
func roundingsWords(p *profile.Profile, tree *plan.Tree) string {
	if p.Step.Kind == step.Integer {
		return "Nothing is rounded"
	}
	if p.Step.Kind == step.Converted || p.Step.Kind == step.CDNA2 { // several a step, which its description names
		return ""
	}
	r := roundings(p, tree)
	parts := []string{fmt.Sprintf("%s in steps", count(r.steps, "time"))}
	if r.merges > 0 {
		parts = append(parts, fmt.Sprintf("%d in merges", r.merges))
	}
	if r.output > 0 {
		parts = append(parts, fmt.Sprintf("%d on the way out", r.output))
	}
	total := r.steps + r.merges + r.output
	if total == r.steps {
		return fmt.Sprintf("In all an element is rounded %s (without addend and factors)", count(total, "time"))
	}
	return fmt.Sprintf("In all an element is rounded %s (without addend and factors): %s", count(total, "time"), strings.Join(parts, ", "))
}

// rounded counts roundings of one element without an addend, alpha or scales.
type rounded struct{ steps, merges, output int }

func roundings(p *profile.Profile, tree *plan.Tree) rounded {
	var r rounded
	words := wordsOf(p)
	var walk func(t *plan.Tree)
	walk = func(t *plan.Tree) {
		if t.Leaf() {
			r.steps += words.steps(t.Chain)
			return
		}
		for _, child := range t.Sum {
			walk(child)
		}
		switch m := t.Merge; {
		case t.Serial:
			r.output += len(t.Sum) - 1 // each further slice; the first is counted below
			if p.Epilogue.Out != p.Step.Result {
				r.merges += len(t.Sum) - 1 // added in the accumulator's format, then rounded
			}
		default:
			r.merges += len(t.Sum) - 1
			for _, child := range t.Sum {
				if narrows(formatOf(child, p), m.Partial) {
					r.merges++
				}
			}
			if narrows(m.Partial, m.Sum) { // the first, which nothing is added to
				r.merges++
			}
		}
	}
	walk(tree)
	if p.Epilogue.Out != p.Step.Result {
		r.output++
	}
	return r
}

// formatOf is the format a tree's value is held in.
func formatOf(t *plan.Tree, p *profile.Profile) format.Format {
	switch {
	case t.Serial:
		return p.Epilogue.Out
	case t.Leaf():
		return p.Step.Result
	}
	return t.Merge.Sum
}

// narrows tells whether a number may change on its way from one format of partial sums to another.
func narrows(from, to format.Format) bool {
	return from != to && from.Info().Bits >= to.Info().Bits
}

func upper(text string) string {
	if text == "" {
		return text
	}
	runes := []rune(text)
	return strings.ToUpper(string(runes[:1])) + string(runes[1:])
}

// roundingWords names a rounding.
func roundingWords(r format.Rounding) string {
	switch r {
	case format.NearestEven:
		return "to nearest even"
	case format.NearestAway:
		return "to nearest, ties away from zero,"
	}
	return strings.ReplaceAll(string(r), "-", " ")
}
