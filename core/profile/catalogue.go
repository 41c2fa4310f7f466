package profile

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

//go:embed catalogue/*.json
var files embed.FS

// catalogue reads the embedded files once. A row of the step catalogue that no file mentions under its own name becomes
// a profile with one accumulator and k ascending, so that every known instruction can be named.
var catalogue = sync.OnceValue(func() map[string]*Profile {
	found := map[string]*Profile{}
	entries, err := files.ReadDir("catalogue")
	if err != nil {
		panic(err)
	}
	for _, entry := range entries {
		text, err := files.ReadFile("catalogue/" + entry.Name())
		if err != nil {
			panic(err)
		}
		var documents []json.RawMessage
		if err := json.Unmarshal(text, &documents); err != nil {
			panic(fmt.Sprintf("profile: catalogue/%s: %v", entry.Name(), err))
		}
		for i, d := range documents {
			p, err := Parse(d)
			if err != nil {
				panic(fmt.Sprintf("profile: catalogue/%s[%d]: %v", entry.Name(), i, err))
			}
			if found[p.Name] != nil {
				panic(fmt.Sprintf("profile: catalogue/%s[%d]: name: %q is taken", entry.Name(), i, p.Name))
			}
			found[p.Name] = p
		}
	}
	for _, entry := range step.Catalogue() {
		if found[entry.Name] == nil {
			found[entry.Name] = plain(entry)
		}
	}
	return found
})

func plain(entry step.Entry) *Profile {
	return &Profile{
		SchemaVersion: SchemaVersion, Name: entry.Name, Step: entry.Params, Plan: plan.Plain(),
		Epilogue: Epilogue{Out: DefaultOut(entry.Params), Form: FormAdd},
		Provenance: Provenance{
			Source: entry.Source, Hardware: strings.Join(entry.Architectures, ", "), Doubts: entry.Doubt, DataOnly: !entry.Runnable,
		},
	}
}

// DefaultOut is the output format of a multiplication unless the call names another: the operands' own, f32 for tf32,
// bf16 for f8 and narrower, s32 for integers, the accumulator's where that is f16.
func DefaultOut(p step.Params) format.Format {
	switch {
	case p.Result != format.F32:
		return p.Result
	case p.A == format.F16 || p.A == format.BF16:
		return p.A
	case p.A == format.TF32 || p.A == format.F32:
		return format.F32
	}
	return format.BF16
}

// Load finds a profile of the catalogue by its name.
func Load(name string) (*Profile, error) {
	if p := catalogue()[name]; p != nil {
		return p.clone(), nil
	}
	return nil, fmt.Errorf("profile: no profile is called %q%s", name, suggest(name, names()))
}

// clone copies a valid profile with everything it points at, so that nothing a caller changes reaches another.
func (p *Profile) clone() *Profile {
	copied, err := Parse(p.JSON())
	if err != nil {
		panic(fmt.Sprintf("profile: a profile of the catalogue parses: %v", err))
	}
	return copied
}

// List gives the catalogue, sorted by name.
func List() []*Profile {
	var list []*Profile
	for _, name := range names() {
		list = append(list, catalogue()[name].clone())
	}
	return list
}

func names() []string {
	var list []string
	for name := range catalogue() {
		list = append(list, name)
	}
	sort.Strings(list)
	return list
}

func stepNames() []string {
	var list []string
	for _, entry := range step.Catalogue() {
		list = append(list, entry.Name)
	}
	return list
}

// suggest ends an error about an unknown name with the known ones that are spelled most like it.
func suggest(name string, known []string) string {
	near := slices.Clone(known)
	const longest = 64 // a name from a file may be of any length, and comparing takes its length times another's
	wanted := strings.ToLower(name[:min(len(name), longest)])
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(distance(wanted, a), distance(wanted, b)) })
	const most = 6
	if len(near) > most {
		return fmt.Sprintf("; known are %s and %d more", strings.Join(near[:most], ", "), len(near)-most)
	}
	return "; known are " + strings.Join(near, ", ")
}

// distance is Levenshtein's: how many letters must be put in, left out or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
