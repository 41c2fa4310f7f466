package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds nesting; a trace needs five levels.
const maxDepth = 32

// strictJSON refuses what two readers of JSON could read in two ways: text that is not UTF-8, something after the value, and
// an object with a key twice, also where the two differ in upper and lower case only, which encoding/json takes for one.
func strictJSON(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	type object struct {
		keys map[string]bool // nil for a list
		next bool            // the next token is a key
	}
	var open []*object
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("is no JSON: %w", err)
		}
		var inside *object
		if len(open) > 0 {
			inside = open[len(open)-1]
		}
		if inside != nil && inside.next {
			if key, isKey := token.(string); isKey {
				folded := strings.ToLower(strings.ToUpper(key)) // the long s and the Kelvin sign too
				if inside.keys[folded] {
					return fmt.Errorf("the field %.40q is there twice", key)
				}
				inside.keys[folded], inside.next = true, false
				continue
			}
		}
		switch token {
		case json.Delim('{'):
			open = append(open, &object{map[string]bool{}, true})
		case json.Delim('['):
			open = append(open, &object{})
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
		if len(open) > maxDepth {
			return fmt.Errorf("is nested deeper than %d levels", maxDepth)
		}
		if token != json.Delim('{') && token != json.Delim('[') && len(open) > 0 && open[len(open)-1].keys != nil {
			open[len(open)-1].next = true // a value has ended
		}
	}
}
