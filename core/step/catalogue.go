package step

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// Entry is one known step.
type Entry struct {
	// Name is architecture/operands, with -f16 for f16 accumulation and the instruction where several differ.
	Name string `json:"name"`
	// Architectures lists the GPUs' names by generation; Instruction says what issues the step.
	Architectures []string `json:"architectures"`
	Instruction   string   `json:"instruction"`
	// Source says how the constants are known: "H200" was measured there, "data X" agrees with results recorded on GPU X,
	// "pub" is published and not checked. See docs/arithmetic.md.
	Source string `json:"source"`
	// Doubt says what is uncertain; "": nothing known to be.
	Doubt string `json:"doubt,omitempty"`
	// Runnable is false for steps that are data and oracle only: a whole matrix multiplication with them is declined unless
	// it runs through the oracle.
	Runnable bool   `json:"runnable"`
	Params   Params `json:"step"`
}

//go:embed catalogue.json
var catalogueJSON []byte

var loadCatalogue = sync.OnceValue(func() []Entry {
	entries, err := parseCatalogue(catalogueJSON)
	if err != nil {
		panic(err) // it is part of the binary: a test parses it
	}
	return entries
})

func parseCatalogue(text []byte) ([]Entry, error) {
	var entries []Entry
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&entries); err != nil {
		return nil, fmt.Errorf("step catalogue: %w", err)
	}
	seen := map[string]bool{}
	for _, e := range entries {
		if seen[e.Name] {
			return nil, fmt.Errorf("step catalogue: %s stands twice", e.Name)
		}
		seen[e.Name] = true
		if err := e.Params.Validate(); err != nil {
			return nil, fmt.Errorf("step catalogue: %s: %w", e.Name, err)
		}
	}
	return entries, nil
}

// Catalogue lists the known steps; the slice is the caller's own.
func Catalogue() []Entry {
	entries := slices.Clone(loadCatalogue())
	for i := range entries { // nothing a caller changes may reach another
		entries[i].Architectures = slices.Clone(entries[i].Architectures)
		if floor := entries[i].Params.Floor; floor != nil {
			entries[i].Params.Floor = ptr(*floor)
		}
	}
	return entries
}

func ptr(n int) *int { return &n }

// Find is the entry of a name.
func Find(name string) (Entry, bool) {
	entries := Catalogue()
	if i := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == name }); i >= 0 {
		return entries[i], true
	}
	return Entry{}, false
}
