package trace

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Version is the version of traces that this package reads; a reader refuses another major number.
const Version = "1.0"

// Manifest says what a trace is. It is written when recording begins, unsealed, and again at its end.
type Manifest struct {
	Version  string          `json:"trace_version"`
	Created  string          `json:"created"` // UTC
	Torch    string          `json:"torch"`
	Device   map[string]any  `json:"device"`
	Settings json.RawMessage `json:"settings"`
	Ranks    []Rank          `json:"ranks"`
	Facts    string          `json:"facts"` // hash of everything but facts, ranks, root and sealed
	Root     string          `json:"root"`  // over the facts and the roots of the ranks
	Sealed   bool            `json:"sealed"`
	Coverage json.RawMessage `json:"coverage"`

	facts Hash // as computed
}

// Rank is the index of one process as the manifest has it.
type Rank struct {
	Rank  int    `json:"rank"`
	File  string `json:"file"`
	Lines int    `json:"lines"`
	Last  string `json:"last"` // hash of the last line
	Root  string `json:"root"` // over the hashes of the lines
}

// UnmarshalJSON takes fields by their exact names alone: no hash is over them, so that a name in capitals, which encoding/json
// would take too, or one that is missing, would not be seen.
func (r *Rank) UnmarshalJSON(text []byte) error {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	*r = Rank{Rank: -1, Lines: -1}
	for _, x := range []struct {
		name string
		into any
	}{{"rank", &r.Rank}, {"file", &r.File}, {"lines", &r.Lines}, {"last", &r.Last}, {"root", &r.Root}} {
		if value, ok := fields[x.name]; ok {
			if err := json.Unmarshal(value, x.into); err != nil {
				return fmt.Errorf("ranks: %s: %w", x.name, err)
			}
		}
	}
	return nil
}

const (
	manifestFile = "manifest.json"
	maxManifest  = 16 << 20
	maxRanks     = 1 << 16
)

// indexFile is the name of a rank's index.
func indexFile(rank int) string { return fmt.Sprintf("rank-%04d.jsonl", rank) }

func readManifest(f folder) (*Manifest, error) {
	text, err := f.read(manifestFile, maxManifest)
	if err != nil {
		return nil, err
	}
	if err := strictJSON(text); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestFile, err)
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestFile, err)
	}
	if m.facts, err = factsHash(text); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestFile, err)
	}
	major, _, _ := strings.Cut(m.Version, ".")
	if want, _, _ := strings.Cut(Version, "."); major != want {
		return nil, fmt.Errorf("%s: trace_version: is %.20q, this version of Hawkeye reads %s.x", manifestFile, m.Version, want)
	}
	if len(m.Ranks) > maxRanks {
		return nil, fmt.Errorf("%s: ranks: there are %d, and at most %d are read", manifestFile, len(m.Ranks), maxRanks)
	}
	for i, r := range m.Ranks {
		if r.Rank < 0 || r.Rank >= maxRanks || r.File != indexFile(r.Rank) {
			return nil, fmt.Errorf("%s: ranks[%d]: rank %d has the file %.40q, it must be %s", manifestFile, i, r.Rank, r.File, indexFile(max(r.Rank, 0)))
		}
		if i > 0 && r.Rank <= m.Ranks[i-1].Rank {
			return nil, fmt.Errorf("%s: ranks[%d]: rank %d is not above the one before", manifestFile, i, r.Rank)
		}
	}
	return &m, nil
}
