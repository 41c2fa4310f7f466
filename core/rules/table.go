package rules

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

//go:embed table.json
var tableText []byte

var loaded = sync.OnceValue(func() *table {
	t, err := readTable(tableText)
	if err != nil {
		panic("rules: table.json: " + err.Error()) // a test reads it
	}
	return t
})

// table is table.json; docs/rules.md explains its fields.
type table struct {
	About     string                       `json:"about"`
	GPUs      []string                     `json:"gpus"`   // that the rows were measured on, as torch names them
	CuBLAS    string                       `json:"cublas"` // the version they were measured with, of the package nvidia-cublas
	Steps     map[string]map[string]string `json:"steps"`
	Rules     []*row                       `json:"rules"`
	Epilogues []*epilogueRow               `json:"epilogues"`
	Blind     []*blindRow                  `json:"blind"`
	ZeroAlpha []*wordRow                   `json:"zero_alpha"` // asked where alpha is 0 and an addend is read
	PlusZero  []*wordRow                   `json:"plus_zero"`  // asked where alpha is not 1 and no addend is read
	NaNFirst  []*wordRow                   `json:"nan_first"`  // asked of steps that keep NaNs
	byID      map[string]*row
	params    map[string]step.Params // of every name in Steps
}

// row says how one kind of kernel computes.
type row struct {
	ID        string            `json:"id"`
	Family    string            `json:"family"`
	Kernel    string            `json:"kernel"`
	Also      []string          `json:"also"` // what runs beside it, besides splitKreduce, globalKernel and copies
	When      []string          `json:"when"`
	Let       map[string]string `json:"let"`
	Step      string            `json:"step"`
	Plans     []*planRow        `json:"plans"`
	Epilogues []*epilogueRow    `json:"epilogues"` // asked before the table's
	Uncertain bool              `json:"uncertain"`
	Measured  string            `json:"measured"`
	Doubts    string            `json:"doubts"`

	kernel *regexp.Regexp
	also   []*regexp.Regexp
	when   []*expression
	let    []definition
	step   *expression
}

type definition struct {
	name string
	of   *expression
}

// planRow is one template with the domains of the variables that the names leave open.
type planRow struct {
	When   []string        `json:"when"`
	Search []*domain       `json:"search"`
	Plan   json.RawMessage `json:"plan"`

	when []*expression
	plan filler
}

// domain lists the values of a variable that are tried, in order: First, then Values, or From to To, and of First what lies in
// that range. Distinct skips a value for which the expression was that of an earlier one; Prefer puts the values for which it
// holds before the others. Only, where it is not 0, is the one value.
type domain struct {
	Name     string   `json:"name"`
	Only     string   `json:"only"`
	First    []string `json:"first"`
	Values   []any    `json:"values"`
	From     string   `json:"from"`
	To       string   `json:"to"`
	Distinct string   `json:"distinct"`
	Prefer   string   `json:"prefer"`

	only, from, to, distinct, prefer *expression
	first, values                    []*expression
}

type epilogueRow struct {
	When  []string       `json:"when"`
	Forms []profile.Form `json:"forms"`
	Note  string         `json:"note"`

	when []*expression
}

// wordRow gives a word where its conditions hold; the first fitting row of a list counts.
type wordRow struct {
	When []string `json:"when"`
	Is   string   `json:"is"`
	Note string   `json:"note"`

	when []*expression
}

// wordOf is the first fitting row's word, "" where none fits.
func wordOf(rows []*wordRow, s scope) (string, error) {
	for _, r := range rows {
		if ok, err := holds(r.when, s); err != nil || ok {
			return r.Is, err
		}
	}
	return "", nil
}

// blindRow tries a rule without its kernel's name: Assume stands for what the name would say.
type blindRow struct {
	Rule   string    `json:"rule"`
	When   []string  `json:"when"`
	Assume []*domain `json:"assume"`

	when []*expression
	rule *row
}

// base are the variables every row may use (docs/rules.md): numbers, then words.
var (
	baseNumbers = []string{"batch", "m", "n", "k", "bytes", "a_along_k", "b_along_k", "dot_along_k", "vector", "across", "aligned", "reduce", "global", "launches",
		"splitk", "promoted", "badd", "bx", "alpha_is_1", "beta_is_1", "alpha_is_0", "beta_is_0", "half", "blind", "tf32", "f16acc", "fast",
		"grid_x", "grid_y", "grid_z", "block_x", "block_y", "threads"}
	baseWords = []string{"a", "b", "out", "pair", "call", "addend", "workspace", "ninth", "sum", "family"}
)

// largestArgument is the highest template argument that a row may ask for: arg1, arg2, ….
const largestArgument = 16

// readTable reads and checks a table; every error names the row and the field.
func readTable(text []byte) (*table, error) {
	t := &table{byID: map[string]*row{}, params: map[string]step.Params{}}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(t); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more text after the table")
	}
	if len(t.GPUs) == 0 || slices.Contains(t.GPUs, "") {
		return nil, errors.New("gpus: must name the GPUs that the rows were measured on")
	}
	for set, names := range t.Steps {
		for f, name := range names {
			p, err := profile.Load(name)
			if err != nil {
				return nil, fmt.Errorf("steps.%s.%s: %w", set, f, err)
			}
			t.params[name] = p.Step
		}
	}
	for i, r := range t.Rules {
		at := fmt.Sprintf("rules[%d]", i)
		if r.ID == "" {
			return nil, fmt.Errorf("%s.id: missing", at)
		}
		at = fmt.Sprintf("%s (%s)", at, r.ID)
		if t.byID[r.ID] != nil {
			return nil, fmt.Errorf("%s.id: is there twice", at)
		}
		t.byID[r.ID] = r
		if err := r.compile(at, t); err != nil {
			return nil, err
		}
	}
	for i, e := range t.Epilogues {
		if err := e.compile(fmt.Sprintf("epilogues[%d]", i), names(nil)); err != nil {
			return nil, err
		}
	}
	for name, list := range map[string]struct {
		rows  []*wordRow
		words []string
	}{
		"zero_alpha": {t.ZeroAlpha, []string{string(profile.ZeroAlphaRead), string(profile.ZeroAlphaSkip), string(profile.ZeroAlphaCopy)}},
		"plus_zero":  {t.PlusZero, []string{"yes", "no"}},
		"nan_first":  {t.NaNFirst, []string{string(step.OperandA), string(step.OperandB)}},
	} {
		for i, r := range list.rows {
			at := fmt.Sprintf("%s[%d]", name, i)
			if !slices.Contains(list.words, r.Is) {
				return nil, fmt.Errorf("%s.is: must be one of %v, is %q", at, list.words, r.Is)
			}
			var err error
			if r.when, err = compileAll(at+".when", r.When, names(nil)); err != nil {
				return nil, err
			}
		}
	}
	for i, b := range t.Blind {
		at := fmt.Sprintf("blind[%d]", i)
		if b.rule = t.byID[b.Rule]; b.rule == nil {
			return nil, fmt.Errorf("%s.rule: no rule is called %q", at, b.Rule)
		}
		known := names(nil)
		for _, d := range b.Assume {
			if err := d.compile(at+".assume", known); err != nil {
				return nil, err
			}
			known[d.Name] = number(2)
		}
		// Conditions stand outside the assumptions: they are asked once.
		var err error
		if b.when, err = compileAll(at+".when", b.When, names(nil)); err != nil {
			return nil, err
		}
		for _, group := range b.rule.kernel.SubexpNames() {
			if _, ok := known[group]; group != "" && !ok {
				return nil, fmt.Errorf("%s.assume: rule %s reads %q in the kernel's name; say what to assume for it", at, b.Rule, group)
			}
		}
	}
	return t, nil
}

// names is a scope in which every base variable has a value, to see whether expressions use known ones; 2 is a value
// that every size and count may have.
func names(r *row) scope {
	s := scope{}
	for _, n := range baseNumbers {
		s[n] = number(2)
	}
	for _, n := range baseWords {
		s[n] = word("f32")
	}
	for i := 1; i <= largestArgument; i++ {
		s[fmt.Sprintf("arg%d", i)] = number(2)
	}
	if r != nil && r.kernel != nil {
		for _, group := range r.kernel.SubexpNames() {
			if group != "" {
				s[group] = number(2)
			}
		}
	}
	return s
}

func (r *row) compile(at string, t *table) (err error) {
	switch {
	case r.Family == "":
		return fmt.Errorf("%s.family: missing", at)
	case r.Kernel == "":
		return fmt.Errorf("%s.kernel: missing", at)
	case r.Measured == "":
		return fmt.Errorf("%s.measured: missing; say how the row is known", at)
	case len(r.Plans) == 0:
		return fmt.Errorf("%s.plans: missing", at)
	}
	if r.kernel, err = regexp.Compile(r.Kernel); err != nil {
		return fmt.Errorf("%s.kernel: %w", at, err)
	}
	for i, text := range r.Also {
		pattern, err := regexp.Compile(text)
		if err != nil {
			return fmt.Errorf("%s.also[%d]: %w", at, i, err)
		}
		r.also = append(r.also, pattern)
	}
	known := names(r)
	if r.when, err = compileAll(at+".when", r.When, known); err != nil {
		return err
	}
	if r.let, err = ordered(at+".let", r.Let, known); err != nil {
		return err
	}
	text := r.Step
	if !strings.ContainsAny(text, "'?") { // the name of a set, not an expression that chooses one
		if t.Steps[text] == nil {
			return fmt.Errorf("%s.step: no set of steps is called %q", at, text)
		}
		text = "'" + text + "'"
	}
	if r.step, err = compileOne(at+".step", text, known); err != nil {
		return err
	}
	for i, p := range r.Plans {
		if err := p.compile(fmt.Sprintf("%s.plans[%d]", at, i), known); err != nil {
			return err
		}
	}
	for i, e := range r.Epilogues {
		if err := e.compile(fmt.Sprintf("%s.epilogues[%d]", at, i), known); err != nil {
			return err
		}
	}
	return nil
}

// ordered sorts definitions so that each uses only what stands before it.
func ordered(at string, let map[string]string, known scope) ([]definition, error) {
	var list []definition
	left := map[string]*expression{}
	for name, text := range let {
		if _, taken := known[name]; taken {
			return nil, fmt.Errorf("%s.%s: that name is taken", at, name)
		}
		e, err := compile(text)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", at, name, err)
		}
		left[name] = e
	}
	for len(left) > 0 {
		before := len(left)
		for _, name := range sortedKeys(left) {
			ready := !slices.ContainsFunc(left[name].reads, func(v string) bool { return left[v] != nil })
			if !ready {
				continue
			}
			if err := knows(at+"."+name, left[name], known); err != nil {
				return nil, err
			}
			list = append(list, definition{name, left[name]})
			delete(left, name)
			known[name] = number(2)
		}
		if len(left) == before {
			return nil, fmt.Errorf("%s: %v are defined by one another", at, sortedKeys(left))
		}
	}
	return list, nil
}

func sortedKeys[T any](m map[string]T) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

func (p *planRow) compile(at string, outer scope) (err error) {
	known := scope{}
	for name, v := range outer {
		known[name] = v
	}
	if p.when, err = compileAll(at+".when", p.When, known); err != nil {
		return err
	}
	for _, d := range p.Search {
		if err := d.compile(at+".search", known); err != nil {
			return err
		}
		known[d.Name] = number(2)
	}
	if p.plan, err = compileTemplate(at+".plan", p.Plan, known); err != nil {
		return err
	}
	return nil
}

func (d *domain) compile(at string, known scope) (err error) {
	if d.Name == "" {
		return fmt.Errorf("%s: a variable has no name", at)
	}
	at += "." + d.Name
	if (d.From == "") != (d.To == "") {
		return fmt.Errorf("%s: from and to go together", at)
	}
	if (d.From == "") == (len(d.Values) == 0) {
		return fmt.Errorf("%s: has either values or from and to", at)
	}
	itself := scope{}
	for name, v := range known {
		itself[name] = v
	}
	itself[d.Name] = number(2)
	for _, f := range []struct {
		name string
		text string
		into **expression
		in   scope
	}{{"only", d.Only, &d.only, known}, {"from", d.From, &d.from, known}, {"to", d.To, &d.to, known}, {"distinct", d.Distinct, &d.distinct, itself}, {"prefer", d.Prefer, &d.prefer, itself}} {
		if f.text == "" {
			continue
		}
		if *f.into, err = compileOne(at+"."+f.name, f.text, f.in); err != nil {
			return err
		}
	}
	if d.first, err = compileAll(at+".first", d.First, known); err != nil {
		return err
	}
	for i, v := range d.Values {
		var text string
		switch v := v.(type) {
		case float64:
			text = fmt.Sprint(int(v))
		case string:
			text = v
		default:
			return fmt.Errorf("%s.values[%d]: must be a number or an expression", at, i)
		}
		e, err := compileOne(fmt.Sprintf("%s.values[%d]", at, i), text, known)
		if err != nil {
			return err
		}
		d.values = append(d.values, e)
	}
	return nil
}

func (e *epilogueRow) compile(at string, known scope) (err error) {
	if len(e.Forms) == 0 {
		return fmt.Errorf("%s.forms: missing", at)
	}
	for i, f := range e.Forms {
		if !slices.Contains(forms, f) {
			return fmt.Errorf("%s.forms[%d]: no form is called %q; there are %v", at, i, f, forms)
		}
	}
	e.when, err = compileAll(at+".when", e.When, known)
	return err
}

var forms = []profile.Form{profile.FormAdd, profile.FormRoundThenAdd, profile.FormFMAAlpha, profile.FormFMABeta, profile.FormHalf, profile.FormHalfAlpha, profile.FormAlphaInA, profile.FormAlphaInB, profile.FormProductA, profile.FormProductB}

func compileOne(at, text string, known scope) (*expression, error) {
	e, err := compile(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return e, knows(at, e, known)
}

func knows(at string, e *expression, known scope) error {
	for _, name := range e.reads {
		if _, ok := known[name]; !ok {
			return fmt.Errorf("%s: expression %q: no variable is called %q", at, e.text, name)
		}
	}
	return nil
}

func compileAll(at string, texts []string, known scope) ([]*expression, error) {
	var list []*expression
	for i, text := range texts {
		e, err := compileOne(fmt.Sprintf("%s[%d]", at, i), text, known)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// holds tells whether all conditions do.
func holds(conditions []*expression, s scope) (bool, error) {
	for _, c := range conditions {
		n, err := c.value(s)
		if err != nil || !n.isWord && n.number == 0 {
			return false, err
		}
	}
	return true, nil
}

// maxTried bounds the values of one variable.
const maxTried = 1 << 16

// list gives the values to try, in order, without repeating one.
func (d *domain) list(s scope) ([]value, error) {
	if d.only != nil {
		if v, err := d.only.value(s); err != nil || v.isWord || v.number != 0 {
			return []value{v}, err
		}
	}
	var candidates, kept []value
	for _, e := range slices.Concat(d.first, d.values) {
		v, err := e.value(s)
		if err != nil {
			return nil, err
		}
		candidates = append(candidates, v)
	}
	if d.from != nil {
		from, err := d.from.number(s)
		if err != nil {
			return nil, err
		}
		to, err := d.to.number(s)
		if err != nil {
			return nil, err
		}
		candidates = slices.DeleteFunc(candidates, func(v value) bool { return v.isWord || v.number < from || v.number > to })
		for v := from; v <= min(to, from+maxTried); v++ {
			candidates = append(candidates, number(v))
		}
	}
	seen := map[value]bool{}
	own, had := s[d.Name]
	defer func() {
		if delete(s, d.Name); had {
			s[d.Name] = own
		}
	}()
	if d.prefer != nil {
		var preferred, others []value
		for _, v := range candidates {
			s[d.Name] = v
			if p, err := d.prefer.value(s); err != nil {
				return nil, err
			} else if p.isWord || p.number != 0 {
				preferred = append(preferred, v)
			} else {
				others = append(others, v)
			}
		}
		candidates = append(preferred, others...)
	}
	for _, v := range candidates {
		key := v
		if d.distinct != nil {
			s[d.Name] = v
			var err error
			if key, err = d.distinct.value(s); err != nil {
				return nil, err
			}
		}
		if !seen[key] {
			seen[key] = true
			kept = append(kept, v)
		}
	}
	return kept, nil
}
