package trace

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"
)

// sealing are the manifest's members that say how the trace is sealed; every other one is a fact that the root stands for.
var sealing = []string{"facts", "ranks", "root", "sealed"}

// factsHash is the hash of the manifest's facts: its text without white space and without the members of sealing. The bytes
// as they were written are taken, because numbers and text can be written in more than one way. text must be valid JSON.
func factsHash(text []byte) (Hash, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return Hash{}, err
	}
	data := compact.Bytes()
	decoder := json.NewDecoder(bytes.NewReader(data))
	if _, err := decoder.Token(); err != nil { // the opening brace
		return Hash{}, err
	}
	facts := []byte{'{'}
	for decoder.More() {
		begin := decoder.InputOffset()
		name, err := decoder.Token()
		if err != nil {
			return Hash{}, err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return Hash{}, err
		}
		if slices.Contains(sealing, name.(string)) {
			continue
		}
		if len(facts) > 1 {
			facts = append(facts, ',')
		}
		facts = append(facts, bytes.TrimPrefix(data[begin:decoder.InputOffset()], []byte{','})...)
	}
	return sha256.Sum256(append(facts, '}')), nil
}
