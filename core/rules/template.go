package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
)

// filler adds the JSON of a template's part to a text, its expressions evaluated in a scope.
type filler func([]byte, scope) ([]byte, error)

// compileTemplate reads a plan in which a text stands for a number: an expression. Where a plan has a text itself (residue,
// partial, sum) a format or a place stands for itself. Folds may be written as "forward", "countdown(n)" or "through(n, 128,
// 64, …)", the folds of n values to those of the numbers that are below n, and to 1.
func compileTemplate(at string, text json.RawMessage, known scope) (filler, error) {
	if len(text) == 0 {
		return nil, fmt.Errorf("%s: missing", at)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	f, err := compileNode(at, "", tree, known)
	if err != nil {
		return nil, err
	}
	p, err := fill(f, known)
	if err == nil {
		err = p.Validate("plan")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: with 2 for every number that is not known: %w", at, err)
	}
	return f, nil
}

func compileNode(at, key string, tree any, known scope) (filler, error) {
	switch v := tree.(type) {
	case map[string]any:
		return compileObject(at, v, known)
	case []any:
		return compileList(at, key, v, known)
	case string:
		if key == "folds" {
			return compileFolds(at, v, known)
		}
		if !own(key, v) {
			return compileValue(at, v, known)
		}
	}
	text, err := json.Marshal(tree)
	return func(to []byte, _ scope) ([]byte, error) { return append(to, text...), nil }, err
}

func compileObject(at string, object map[string]any, known scope) (filler, error) {
	var fields []filler
	names := sortedKeys(object)
	for i, name := range names {
		f, err := compileNode(at+"."+name, name, object[name], known)
		if err != nil {
			return nil, err
		}
		fields = append(fields, f)
		quoted, _ := json.Marshal(name)
		names[i] = string(quoted) + ":"
	}
	return func(to []byte, s scope) ([]byte, error) {
		to = append(to, '{')
		for i, f := range fields {
			if i > 0 {
				to = append(to, ',')
			}
			var err error
			if to, err = f(append(to, names[i]...), s); err != nil {
				return to, err
			}
		}
		return append(to, '}'), nil
	}, nil
}

func compileList(at, key string, list []any, known scope) (filler, error) {
	var items []filler
	for i, of := range list {
		f, err := compileNode(fmt.Sprintf("%s[%d]", at, i), key, of, known)
		if err != nil {
			return nil, err
		}
		items = append(items, f)
	}
	return func(to []byte, s scope) ([]byte, error) {
		to = append(to, '[')
		for i, f := range items {
			if i > 0 {
				to = append(to, ',')
			}
			var err error
			if to, err = f(to, s); err != nil {
				return to, err
			}
		}
		return append(to, ']'), nil
	}, nil
}

func compileValue(at, text string, known scope) (filler, error) {
	e, err := compileOne(at, text, known)
	if err != nil {
		return nil, err
	}
	return func(to []byte, s scope) ([]byte, error) {
		v, err := e.value(s)
		if v.isWord {
			return strconv.AppendQuote(to, v.word), err
		}
		return strconv.AppendInt(to, int64(v.number), 10), err
	}, nil
}

// own tells a text that a plan has from an expression.
func own(key, text string) bool {
	switch key {
	case "residue":
		return text == string(plan.ResidueFirst) || text == string(plan.ResidueLast)
	case "partial", "sum":
		_, err := format.Parse(text)
		return err == nil
	}
	return false
}

func compileFolds(at, text string, known scope) (filler, error) {
	if text == "forward" {
		return func(to []byte, _ scope) ([]byte, error) { return appendFolds(to, plan.Forward()), nil }, nil
	}
	name, rest, found := strings.Cut(text, "(")
	inner, closed := strings.CutSuffix(rest, ")")
	if !found || !closed || name != "countdown" && name != "through" {
		return nil, fmt.Errorf("%s: is %q; write a list, \"forward\", \"countdown(n)\" or \"through(n, 128, …)\"", at, text)
	}
	if name == "countdown" {
		e, err := compileOne(at, inner, known)
		if err != nil {
			return nil, err
		}
		return func(to []byte, s scope) ([]byte, error) {
			n, err := e.number(s)
			return appendFolds(to, plan.CountDown(n)), err
		}, nil
	}
	list, err := compileAll(at, strings.Split(inner, ","), known)
	if err != nil {
		return nil, err
	}
	return func(to []byte, s scope) ([]byte, error) {
		var folds []plan.Fold
		n, err := list[0].number(s)
		for _, e := range list[1:] {
			below, wrong := e.number(s)
			if wrong != nil {
				err = wrong
			}
			if below > 1 && below < n {
				folds, n = append(folds, plan.Fold{To: below}), below
			}
		}
		return appendFolds(to, append(folds, plan.Forward()...)), err
	}, nil
}

func appendFolds(to []byte, folds []plan.Fold) []byte {
	to = append(to, '[')
	for i, f := range folds {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(strconv.AppendInt(append(to, `{"to":`...), int64(f.To), 10), '}')
	}
	return append(to, ']')
}

// fill makes the plan.
func fill(f filler, s scope) (plan.Plan, error) {
	var p plan.Plan
	text, err := f(nil, s)
	if err != nil {
		return p, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return p, fmt.Errorf("it makes no plan: %w", err)
	}
	return p, nil
}
