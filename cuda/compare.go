package cuda

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// Comparison holds what was found of an instruction against the row of the catalogue.
type Comparison struct {
	// Found is the profile in a line, for a table.
	Found string `json:"found"`
	// Catalogue names the row; "": there is none.
	Catalogue string `json:"catalogue"`
	// Equal says that both give the same bits for all operands of this instruction. Differences is what a profile found has
	// otherwise than the row: "fraction_bits: 25, in the row 24".
	Equal       bool     `json:"equal"`
	Differences []string `json:"differences"`
}

// Compare holds a profile against the instruction's row of the catalogue. How f32 operands are rounded to tf32 is not
// compared: a row says it of the kernels that use the instruction.
func (i *Instruction) Compare(found *profile.Profile) Comparison {
	c := Comparison{Found: line(found), Catalogue: i.Catalogue, Differences: []string{}}
	entry, known := step.Find(i.Catalogue)
	if !known {
		return c
	}
	row := &profile.Profile{
		SchemaVersion: profile.SchemaVersion, Step: entry.Params, Plan: plan.Plain(),
		Epilogue: profile.Epilogue{Out: i.Accumulator, Form: profile.FormAdd},
	}
	x, y := fields(i, found), fields(i, row)
	names := []string{}
	for name := range x {
		names = append(names, name)
	}
	for name := range y {
		if _, both := x[name]; !both {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		if name == "nan_first" && x[name] == "" {
			continue // a discovery does not ask which of several NaNs wins; the questions do
		}
		if a, b := say(x, name), say(y, name); a != b {
			c.Differences = append(c.Differences, fmt.Sprintf("%s: %s, in the row %s", name, a, b))
		}
	}
	c.Equal = len(c.Differences) == 0
	return c
}

func say(of map[string]string, name string) string {
	if text := of[name]; text != "" {
		return text
	}
	return "none"
}

// fields are a profile's parts, each as its JSON, without those that cannot show in an instruction of so few k.
func fields(i *Instruction, p *profile.Profile) map[string]string {
	s := p.Step
	s.InputRounding = ""
	if s.Floor != nil && !s.NormalisedTerms && *s.Floor <= lowest(&s) {
		s.Floor = nil
	}
	groups := memberships(s, i.K)
	s.Group, s.Order, s.InstructionK = 0, "", 0
	all := map[string]string{"plan": written(p.Plan), "out": p.Epilogue.Out.String(), "form": string(p.Epilogue.Form)}
	if s.Kind != step.Integer && s.Kind != step.FMA { // an exact sum has no groups, and a chain none but single products
		all["groups"] = groups
	}
	var parts map[string]json.RawMessage
	if json.Unmarshal([]byte(written(s)), &parts) == nil {
		for name, part := range parts {
			if name != "group" {
				all[name] = strings.Trim(string(part), `"`)
			}
		}
	}
	return all
}

func written(of any) string {
	text, err := json.Marshal(of)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// lowest is the least exponent that a term other than zero can have: no alignment asks for a floor below it.
func lowest(s *step.Params) int {
	a, b, accumulator := s.A, s.B, s.Result
	if s.Kind == step.Converted {
		a, b, accumulator = s.Via, s.Via, s.Partial
	}
	return min(a.Info().MinExponent+b.Info().MinExponent, accumulator.Info().MinExponent)
}

// memberships says which of n products are summed together, in order.
func memberships(s step.Params, n int) string {
	var groups []string
	for begin := 0; begin < n; begin += s.Span() {
		for _, members := range s.Groups(min(s.Span(), n-begin)) {
			slices.Sort(members) // inside a group the order makes no difference
			for k := range members {
				members[k] += begin
			}
			groups = append(groups, ranges(members))
		}
	}
	return strings.Join(groups, " then ")
}

// ranges writes ascending numbers as "0-7" or "0-1,4-5".
func ranges(numbers []int) string {
	var parts []string
	for at := 0; at < len(numbers); {
		end := at
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		if end == at {
			parts = append(parts, fmt.Sprint(numbers[at]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", numbers[at], numbers[end]))
		}
		at = end + 1
	}
	return strings.Join(parts, ",")
}

// line says a profile's step in a few words.
func line(p *profile.Profile) string {
	s := p.Step
	words := []string{string(s.Kind)}
	switch s.Kind {
	case step.Integer:
		return "exact in s32"
	case step.FMA:
		words = []string{"multiply-adds, k ascending"}
	default:
		words = append(words, fmt.Sprintf("groups of %d", s.Group))
		if s.Order == step.Pairs {
			words = append(words, "k mod 4 < 2 first")
		}
	}
	if s.Fraction != 0 {
		words = append(words, fmt.Sprintf("%d fraction bits", s.Fraction))
	}
	if s.Floor != nil {
		words = append(words, fmt.Sprintf("floor %d", *s.Floor))
	}
	if s.Via != format.Invalid {
		words = append(words, "through "+s.Via.String())
	}
	result := s.Result.String()
	if s.ResultFraction != 0 {
		result += fmt.Sprintf(" of %d bits", s.ResultFraction)
	}
	words = append(words, fmt.Sprintf("to %s %s", result, strings.ReplaceAll(string(s.ResultRounding), "-", " ")))
	if s.InputRounding != "" {
		words = append(words, "operands "+strings.ReplaceAll(string(s.InputRounding), "-", " "))
	}
	return strings.Join(words, ", ")
}
