package profile

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// checkKeys refuses what encoding/json lets pass: a key given twice, of which it would take the last, and a key in other
// letters than the schema's ("Plan"), which it would take for the field. Text that is no JSON is left to the decoder.
func checkKeys(text []byte) error {
	type object struct {
		keys map[string]bool
		next bool // the next token is a key
	}
	var open []*object // nil for a list
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err != nil {
			return nil
		}
		var inside *object
		if len(open) > 0 {
			inside = open[len(open)-1]
		}
		if inside != nil && inside.next {
			if key, isKey := token.(string); isKey {
				switch {
				case inside.keys[key]:
					return fmt.Errorf("%s: is there twice", key)
				case hasUpper(key):
					return fmt.Errorf("%s: unknown field", key)
				}
				inside.keys[key], inside.next = true, false
				continue
			}
		}
		switch token {
		case json.Delim('{'):
			open = append(open, &object{keys: map[string]bool{}, next: true})
			continue
		case json.Delim('['):
			open = append(open, nil)
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
		if len(open) > 0 && open[len(open)-1] != nil { // a value has ended
			open[len(open)-1].next = true
		}
	}
}

// hasUpper tells whether folding letters' case could turn a key into one of the schema's, which are a-z, 0-9 and _.
func hasUpper(key string) bool {
	for _, r := range key {
		if r >= 'A' && r <= 'Z' || r > 127 { // encoding/json also folds the Kelvin sign and the long s
			return true
		}
	}
	return false
}
