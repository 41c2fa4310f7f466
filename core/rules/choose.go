package rules

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// Options are what of a record is used.
type Options struct {
	// Blind leaves the kernels' names and launches aside: every family that the shape and the formats allow is tried.
	Blind bool
}

// Candidate is a profile that may explain a case.
type Candidate struct {
	Profile *profile.Profile
	Family  string // of the kernel that would compute so
	Rule    string // the id of the row of table.json
	Slices  int    // of a split that was searched for, else 0
}

// Choice is what is known before any bit is compared.
type Choice struct {
	Family     string
	Candidates []Candidate // the likely ones first; no two make the same sum in the same way
	Determined bool        // the names leave one profile only
	Uncertain  bool        // such kernels are known to compute in further ways, or their kind is not known at all
	Unknown    string      // why there is no candidate
}

// Families whose names tell nothing.
const (
	familyUnnamed = "unnamed"
	familySeveral = "several launches"
	familyUnknown = "unknown"
)

// Choose reads a case. It never fails: what it cannot place has the reason in Choice.Unknown. A case without kernel names,
// or with a kernel of no known family, is looked at as if blind.
func Choose(c *cases.Case, o Options) Choice { return loaded().choose(c, o) }

func (t *table) choose(c *cases.Case, o Options) Choice {
	if o.Blind || len(c.Kernels) == 0 {
		return t.blind(c, familyUnnamed)
	}
	var main *Kernel
	var reduce, global *Kernel
	var others []*Kernel // neither the multiplication nor what may stand beside any
	s := caseScope(c)
	for i, name := range c.Kernels {
		k := Parse(name)
		switch {
		case k.Family == "splitKreduce":
			reduce = &k
		case k.Role == RoleEpilogue:
			global = &k
		case k.Role == RoleCopy:
		case main == nil && k.Role == RoleMultiply:
			main = &k
			if len(c.Launches) == len(c.Kernels) && possible(c.Launches[i]) {
				l := c.Launches[i]
				for j, axis := range []string{"x", "y", "z"} {
					s["grid_"+axis], s["block_"+axis] = number(l.Grid[j]), number(l.Block[j])
				}
			}
		default:
			others = append(others, &k)
		}
	}
	switch {
	case main == nil && len(others) == 0:
		return Choice{Family: familyUnnamed, Unknown: "none of the recorded kernels multiplies"}
	case main == nil && len(others) == 1:
		return t.blind(c, familyUnknown)
	case main == nil:
		return Choice{Family: familySeveral, Unknown: "several kernels of no known family share the multiplication (" + others[0].short() + ", " + others[1].short() + ")"}
	}
	s["reduce"], s["global"] = truth(reduce != nil), truth(global != nil)
	if reduce != nil {
		s["workspace"], s["ninth"] = formatWord(reduce.WorkFormat), formatWord(reduce.Ninth)
	}
	s["launches"] = number(1 + len(others))
	main.into(s)
	var declined *row
	for _, r := range t.Rules {
		m := r.kernel.FindStringSubmatch(main.Text)
		if m == nil {
			continue
		}
		if !r.stands(beside(others)) {
			if declined == nil && len(others) == 0 { // the record lacks a kernel that runs beside it
				declined = r
			}
			continue
		}
		inner := scope{}
		for name, v := range s {
			inner[name] = v
		}
		for i, group := range r.kernel.SubexpNames() {
			if group == "" {
				continue
			}
			v, ok := groupValue(m[i])
			if !ok || group == "tile" && v.number > largestSize {
				return Choice{Family: r.Family, Unknown: "the kernel " + main.short() + " names a " + group + " of " + m[i] + ", which no kernel has"}
			}
			inner[group] = v
		}
		if fits, err := holds(r.when, inner); err != nil {
			return Choice{Family: r.Family, Unknown: err.Error()}
		} else if !fits {
			if declined == nil {
				declined = r
			}
			continue
		}
		b := builder{table: t, c: c}
		if err := b.add(r, inner); err != nil {
			return Choice{Family: r.Family, Unknown: fmt.Sprintf("the names of a %s kernel and what runs beside it do not go together: %v", r.Family, err)}
		}
		result := Choice{Family: r.Family, Candidates: b.candidates, Uncertain: r.Uncertain, Determined: len(b.candidates) == 1 && !r.Uncertain}
		if len(b.candidates) == 0 {
			result.Unknown = "no plan of this version fits " + main.short()
		}
		return result
	}
	switch {
	case len(others) > 0:
		return Choice{Family: familySeveral, Unknown: "several kernels share the multiplication (" + main.short() + ", " + others[0].short() + "), in a way that no rule describes"}
	case declined != nil:
		return Choice{Family: declined.Family, Unknown: "no plan of this version fits " + main.short()}
	}
	return t.blind(c, familyUnknown)
}

// The limits of CUDA on a launch: blocks of a grid along an axis, threads of a block.
const (
	mostBlocks  = 1<<31 - 1
	mostThreads = 1024
)

// possible tells whether a launch can have been one. What cannot is left out of account, as if it were not recorded.
func possible(l cases.Launch) bool {
	threads := 1
	for j := range l.Grid {
		if l.Grid[j] < 1 || l.Grid[j] > mostBlocks || l.Block[j] < 1 || l.Block[j] > mostThreads {
			return false
		}
		threads *= l.Block[j]
	}
	return threads <= mostThreads
}

func beside(others []*Kernel) []string {
	var list []string
	for _, k := range others {
		list = append(list, k.Text)
	}
	return list
}

// stands tells whether what ran beside the main kernel is what the row wants: each pattern once.
func (r *row) stands(others []string) bool {
	if len(others) != len(r.also) {
		return false
	}
	used := make([]bool, len(others))
	return match(r.also, others, used)
}

func match(patterns []*regexp.Regexp, others []string, used []bool) bool {
	if len(patterns) == 0 {
		return true
	}
	for i, text := range others {
		if !used[i] && patterns[0].MatchString(text) {
			used[i] = true
			if match(patterns[1:], others, used) {
				return true
			}
			used[i] = false
		}
	}
	return false
}

// groupValue reads a group of a kernel's name: a number where it is one, 0 where the name has none.
func groupValue(text string) (value, bool) {
	switch {
	case text == "":
		return number(0), true
	case strings.Trim(text, "0123456789") != "":
		return word(text), true
	}
	n, err := strconv.Atoi(text)
	return number(n), err == nil && n >= 1 && n <= 1<<30
}

// into adds what a name tells to a scope.
func (k *Kernel) into(s scope) {
	s["splitk"], s["promoted"] = truth(k.SplitK), truth(k.Promoted)
	s["badd"], s["bx"] = truth(k.RoundedAddend), truth(k.ScaledAddend)
	s["threads"] = number(k.Threads)
	for i, a := range k.Args {
		name := fmt.Sprintf("arg%d", i+1)
		switch n, err := strconv.Atoi(a); {
		case err == nil && n >= 0 && n <= largestSize:
			s[name] = number(n)
		case a == "true" || a == "false":
			s[name] = truth(a == "true")
		default:
			s[name] = word(a)
		}
	}
}

func formatWord(f format.Format) value {
	if f == format.Invalid {
		return word("")
	}
	return word(f.String())
}

// aligned tells whether all lines in memory are multiples of 16 bytes: those of A, B and the output, or, where one of them is
// a vector, K and the output.
func aligned(c *cases.Case) bool {
	_, m, n, k := c.Sizes()
	lines := []int{m, k, n} // A and B transposed in memory
	if c.A.Strides[2] == 1 {
		lines[0] = k
	}
	if c.B.Strides[1] != 1 {
		lines[1] = n
	}
	if m == 1 || n == 1 {
		lines = []int{k, m * n}
	}
	for _, line := range lines {
		if line*c.A.Format.Bytes()%16 != 0 {
			return false
		}
	}
	return true
}

// caseScope holds what shape, formats and flags say.
func caseScope(c *cases.Case) scope {
	batch, m, n, k := c.Sizes()
	alongA, alongB := c.A.Strides[2] == 1, c.B.Strides[1] == 1
	vector := m == 1 || n == 1
	across := m == 1 && !alongB || m != 1 && n == 1 && !alongA
	s := scope{
		"batch": number(batch), "m": number(m), "n": number(n), "k": number(k), "bytes": number(c.A.Format.Bytes()),
		"a": word(c.A.Format.String()), "b": word(c.B.Format.String()), "out": word(c.Out.Format.String()), "call": word(c.Op),
		"a_along_k": truth(alongA), "b_along_k": truth(alongB), "vector": truth(vector), "across": truth(across), "aligned": truth(aligned(c)),
		"dot_along_k": truth(alongA && alongB),
		"alpha_is_1":  truth(c.Number("alpha", 1) == 1), "beta_is_1": truth(c.Number("beta", 1) == 1),
		"alpha_is_0": truth(c.Number("alpha", 1) == 0), "beta_is_0": truth(c.Number("beta", 1) == 0),
		// A process has its settings whatever it multiplies.
		"tf32":   truth(c.Flags.AllowTF32 && c.A.Format == format.F32),
		"f16acc": truth(c.Flags.F16Accumulation && c.A.Format == format.F16),
		"fast":   truth(c.Flags.FastAccumulation && c.A.Format.Bytes() == 1),
		"addend": word("none"), "pair": word(c.A.Format.String()), "workspace": word(""), "ninth": word(""),
	}
	if c.A.Format != c.B.Format {
		s["pair"] = word(c.A.Format.String() + "-" + c.B.Format.String())
	}
	switch {
	case c.C == nil:
	case c.C.Strides[1] == 0 && (c.Op == "scaled_mm" || vectorAddend(c, n, k)):
		s["addend"] = word("bias")
	default:
		s["addend"] = word("full")
	}
	for _, name := range []string{"reduce", "global", "launches", "splitk", "promoted", "badd", "bx", "half", "blind",
		"grid_x", "grid_y", "grid_z", "block_x", "block_y", "threads"} {
		s[name] = number(0)
	}
	return s
}

// builder collects candidates of one case, each sum once.
type builder struct {
	table      *table
	c          *cases.Case
	candidates []Candidate
	seen       map[string]bool
	compared   int // accumulators of the trees made to tell plans apart
	text       []byte
}

// maxCandidates bounds what one case may ask for.
const maxCandidates = 20000

// add builds the candidates of a row, the row's variables set in s.
func (b *builder) add(r *row, s scope) error {
	s["family"] = word(r.Family)
	set, err := r.step.value(s)
	if err != nil {
		return err
	}
	if b.table.Steps[set.word] == nil {
		return fmt.Errorf("rule %s: no set of steps is called %q", r.ID, set.word)
	}
	name := b.table.Steps[set.word][s["pair"].word]
	if name == "" {
		return nil // a kernel of other operands than the record's
	}
	params := b.table.params[name]
	result := params.Result
	s["half"], s["sum"] = truth(result == format.F16), word(result.String())
	if s["workspace"].word == "" {
		s["workspace"] = s["sum"]
	}
	if err := profile.CheckOut("out", result, b.c.Out.Format); err != nil {
		if s["blind"].number != 0 {
			return nil
		}
		return err
	}
	for _, d := range r.let {
		v, err := d.of.value(s)
		if err != nil {
			return err
		}
		s[d.name] = v
	}
	forms, err := b.forms(r, s)
	if err != nil {
		return err
	}
	zeroAlpha, plusZero, err := b.scalars(s)
	if err != nil {
		return err
	}
	if params.KeepNaN {
		first, err := wordOf(b.table.NaNFirst, s)
		if err != nil {
			return err
		}
		if first != "" {
			params.NaNFirst = step.Operand(first)
		}
	}
	scaling := profile.ScalingNone
	switch {
	case b.c.ScaleA != nil:
		scaling = profile.ScalingRow
	case b.c.Scalars["scale_a"].Format != format.Invalid:
		scaling = profile.ScalingTensor
	}
	for _, p := range r.Plans {
		if ok, err := holds(p.when, s); err != nil {
			return err
		} else if !ok {
			continue
		}
		err := each(p.Search, s, func() error {
			filled, err := fill(p.plan, s)
			if err != nil {
				return err
			}
			key, fits := b.key(&filled)
			if !fits {
				return nil
			}
			for _, form := range forms {
				full := fmt.Sprintf("%s %s %s", name, form, key)
				if b.seen == nil {
					b.seen = map[string]bool{}
				}
				if b.seen[full] {
					continue
				}
				b.seen[full] = true
				candidate := Candidate{Family: r.Family, Rule: r.ID, Slices: s["slices"].number, Profile: &profile.Profile{
					SchemaVersion: profile.SchemaVersion, Step: params, Plan: filled,
					Epilogue:   profile.Epilogue{Out: b.c.Out.Format, Form: form, Scaling: scaling, ZeroAlpha: zeroAlpha, PlusZero: plusZero},
					Provenance: profile.Provenance{Source: "rule " + r.ID + ": " + r.Measured, Doubts: r.Doubts},
				}}
				if err := candidate.Profile.Validate(); err != nil { // such as a workspace in a format that the sum never has
					if form.InOperand() {
						continue // an epilogue that this step or this version does not have
					}
					return err
				}
				if len(b.candidates) >= maxCandidates {
					return fmt.Errorf("there are more than %d candidates", maxCandidates)
				}
				b.candidates = append(b.candidates, candidate)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// vectorAddend tells whether torch (2.11) gives the library a vector addend as a bias. Elsewhere it copies it into the output
// first.
func vectorAddend(c *cases.Case, n, k int) bool {
	return c.Op != "baddbmm" && c.Op != "addmv" && c.Number("beta", 1) == 1 && n > 1 && k > 1
}

// scalars is what is known of this call's alpha and beta, where they are 0 or scale without an addend.
func (b *builder) scalars(s scope) (zero profile.ZeroAlpha, plusZero bool, err error) {
	reads := s["addend"].word != "none" && s["beta_is_0"].number == 0
	switch {
	case reads && s["alpha_is_0"].number != 0:
		word, err := wordOf(b.table.ZeroAlpha, s)
		return profile.ZeroAlpha(word), false, err
	case !reads && s["alpha_is_1"].number == 0:
		word, err := wordOf(b.table.PlusZero, s)
		return "", word == "yes", err
	}
	return "", false, nil
}

// forms are those of the first fitting epilogue row, the rule's own before the table's.
func (b *builder) forms(r *row, s scope) ([]profile.Form, error) {
	for _, list := range [][]*epilogueRow{r.Epilogues, b.table.Epilogues} {
		for _, e := range list {
			if ok, err := holds(e.when, s); err != nil {
				return nil, err
			} else if ok {
				return e.Forms, nil
			}
		}
	}
	return nil, fmt.Errorf("no row of the epilogues fits")
}

// each sets the variables of domains to every combination, the first domain outermost.
func each(domains []*domain, s scope, f func() error) error {
	if len(domains) == 0 {
		return f()
	}
	d := domains[0]
	values, err := d.list(s)
	if err != nil {
		return err
	}
	own, had := s[d.Name]
	for _, v := range values {
		s[d.Name] = v
		if err := each(domains[1:], s, f); err != nil {
			return err
		}
	}
	if delete(s, d.Name); had {
		s[d.Name] = own
	}
	return nil
}

// Plans are told apart by the trees they make as long as that is cheap: so many accumulators a plan, and so many in all.
// Others are told apart by how they are written.
const (
	maxCompared    = 512
	maxAllCompared = 1 << 14
)

// key is the same for plans that make the same tree for this K. fits: such a tree can be made at all.
func (b *builder) key(p *plan.Plan) (key string, fits bool) {
	_, _, _, k := b.c.Sizes()
	if p.Validate("plan") != nil { // such as lanes of a number that no kernel has
		return "", false
	}
	if n := accumulators(p, k); n <= maxCompared && b.compared+n <= maxAllCompared {
		b.compared += n
		tree, err := p.Expand(k)
		if err != nil {
			return "", false
		}
		b.text = appendTree(b.text[:0], tree)
		sum := sha256.Sum256(b.text)
		return string(sum[:]), true
	}
	text, err := json.Marshal(p)
	return string(text), err == nil
}

// accumulators estimates how many a plan has, from above.
func accumulators(p *plan.Plan, k int) int {
	const many = 1 << 30
	times := func(count int, of *plan.Plan, length int) int {
		inside := accumulators(of, length)
		if count > many/max(inside, 1) {
			return many
		}
		return count * inside
	}
	switch {
	case p.Split != nil:
		return times(min(p.Split.Slices, k), p.Split.Of, k/p.Split.Slices+p.Split.Grain)
	case p.Serial != nil:
		return times(min(p.Serial.Slices, k), p.Serial.Of, k/p.Serial.Slices+p.Serial.Grain)
	case p.Promote != nil:
		return times(k/p.Promote.Interval+1, p.Promote.Of, p.Promote.Interval)
	case p.Lanes != nil:
		return times(p.Lanes.Count, p.Lanes.Of, k/p.Lanes.Count+p.Lanes.Run)
	}
	return 1
}

// appendTree adds a short text of a tree: equal for equal trees, however their ranges are written.
func appendTree(to []byte, t *plan.Tree) []byte {
	if t.Leaf() {
		for _, r := range t.Chain {
			if r.Len() == 0 {
				continue
			}
			stride := r.Stride()
			if r.Len() == 1 {
				stride = 1 // one k has none
			}
			for _, n := range [...]int{r.Start, r.Len(), stride, r.Pad} {
				to = append(strconv.AppendInt(to, int64(n), 36), ',')
			}
		}
		return to
	}
	if t.Serial {
		to = append(to, 's')
	} else {
		to = append(to, byte('A'+t.Merge.Partial), byte('A'+t.Merge.Sum))
		if t.Merge.FromZero {
			to = append(to, '0')
		}
	}
	to = append(to, '(')
	for _, child := range t.Sum {
		to = append(appendTree(to, child), ';')
	}
	return append(to, ')')
}

// blind tries what the shape and the formats allow.
func (t *table) blind(c *cases.Case, family string) Choice {
	result := Choice{Family: family, Uncertain: true}
	b := builder{table: t, c: c}
	for _, row := range t.Blind {
		s := caseScope(c)
		s["blind"] = number(1)
		for i := 1; i <= largestArgument; i++ {
			s[fmt.Sprintf("arg%d", i)] = number(0)
		}
		ok, err := holds(row.when, s)
		if err == nil && ok {
			err = each(row.Assume, s, func() error {
				inner := scope{}
				for name, v := range s {
					inner[name] = v
				}
				return b.add(row.rule, inner)
			})
		}
		if err != nil {
			return Choice{Family: family, Uncertain: true, Unknown: fmt.Sprintf("rule %s: %v", row.Rule, err)}
		}
	}
	if result.Candidates = b.candidates; len(b.candidates) == 0 {
		result.Unknown = "no kernel of any family is known for " + strings.Join([]string{c.A.Format.String(), c.B.Format.String(), c.Out.Format.String()}, ", ")
	}
	return result
}
