package trace

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
)

// Trace is an opened trace.
type Trace struct {
	Manifest *Manifest

	folder       folder
	ranks        []index
	roots        []Hash
	entries      []entry
	problems     []*Problem
	problemCount int
	torn         []*Problem
	root         Hash
	sampling     *sampling
}

var indexName = regexp.MustCompile(`^rank-([0-9]{4,5})\.jsonl$`)

// Open opens a trace's folder and reads its indices once, line by line. What is not as it was written does not make it fail:
// Problems lists it, and the lines concerned are not to be believed (Broken). It fails where the folder is no trace.
func Open(path string) (*Trace, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	t := &Trace{folder: folder{root}}
	if err := t.open(); err != nil {
		_ = root.Close()
		return nil, err
	}
	return t, nil
}

func (t *Trace) open() error {
	var err error
	if t.Manifest, err = readManifest(t.folder); err != nil {
		return err
	}
	t.sampling = readSampling(t.Manifest.Settings)
	ranks, err := t.listed()
	if err != nil {
		return err
	}
	for _, rank := range ranks {
		first := len(t.entries)
		switch err := t.scan(rank); {
		case isMissing(err):
			if t.Manifest.Sealed { // before, a process may not have come to it
				t.problem(&Problem{File: indexFile(rank), Text: "the manifest names it, and it is not there"})
			}
			continue
		case err != nil:
			return err
		}
		x := &t.ranks[len(t.ranks)-1]
		said := t.said(rank)
		expected := ""
		if said != nil {
			expected = said.Last
		}
		t.chain(x, first, expected)
		if said != nil {
			t.compare(x, said)
		}
	}
	t.root = Root(append([]Hash{t.Manifest.facts}, t.roots...))
	if !t.Manifest.Sealed {
		return nil
	}
	if t.Manifest.Facts != t.Manifest.facts.String() {
		t.problem(&Problem{File: manifestFile, Field: "facts",
			Text: fmt.Sprintf("is %.64q, and what the manifest says gives %v: settings, coverage, device or another fact were changed", t.Manifest.Facts, t.Manifest.facts)})
	}
	if t.Manifest.Root != t.root.String() {
		t.problem(&Problem{File: manifestFile, Field: "root",
			Text: fmt.Sprintf("is %.64q, and the facts and the roots of the ranks give %v", t.Manifest.Root, t.root)})
	}
	return nil
}

// listed is the ranks that the manifest names, and, until it is sealed, those of further indices in the folder.
func (t *Trace) listed() ([]int, error) {
	var ranks []int
	for _, r := range t.Manifest.Ranks {
		ranks = append(ranks, r.Rank)
	}
	dir, err := t.folder.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			m := indexName.FindStringSubmatch(name)
			if m == nil {
				continue
			}
			rank, _ := strconv.Atoi(m[1])
			if name != indexFile(rank) || rank >= maxRanks || slices.Contains(ranks, rank) {
				continue
			}
			if t.Manifest.Sealed {
				t.problem(&Problem{File: name, Text: "the manifest does not name it"})
				continue
			}
			ranks = append(ranks, rank)
		}
		if err != nil { // io.EOF at the end
			break
		}
	}
	slices.Sort(ranks)
	return ranks, nil
}

// said is what a sealed manifest says of a rank, nil where it says nothing.
func (t *Trace) said(rank int) *Rank {
	if !t.Manifest.Sealed {
		return nil
	}
	for i := range t.Manifest.Ranks {
		if t.Manifest.Ranks[i].Rank == rank {
			return &t.Manifest.Ranks[i]
		}
	}
	return nil
}

// compare compares a rank's index with the manifest.
func (t *Trace) compare(x *index, said *Rank) {
	for _, c := range []struct{ field, said, found string }{
		{"lines", strconv.Itoa(said.Lines), strconv.Itoa(x.Lines)},
		{"last", said.Last, x.Last},
		{"root", said.Root, x.Root},
	} {
		if c.said != c.found {
			t.problem(&Problem{File: manifestFile, Field: fmt.Sprintf("ranks[%d].%s", x.Rank, c.field),
				Text: fmt.Sprintf("is %.64s, and %s gives %s", c.said, x.File, c.found)})
		}
	}
}

func (t *Trace) problem(p *Problem) {
	t.problemCount++
	if len(t.problems) < maxProblems {
		t.problems = append(t.problems, p)
	}
}

// Close ends the use of the folder.
func (t *Trace) Close() error { return t.folder.root.Close() }

// Len counts the complete lines of all ranks, in order; also those that are no record.
func (t *Trace) Len() int { return len(t.entries) }

// Problems lists what is not as it was written, up to a thousand, and counts all of it. Tensor files are looked at when they
// are used: CheckFiles reads all.
func (t *Trace) Problems() (list []*Problem, count int) { return t.problems, t.problemCount }

// Torn lists last lines that were not written to their end, as where recording was killed: they are left out, and nothing
// else is wrong with the trace.
func (t *Trace) Torn() []*Problem { return t.torn }

// Root is the Merkle root over the manifest's facts and the roots of the ranks, as computed from them and from the lines.
func (t *Trace) Root() Hash { return t.root }

// CheckRoot compares the root with one that was kept elsewhere. nil: every line of every rank, and every fact of the
// manifest, is what it was then.
func (t *Trace) CheckRoot(kept Hash) *Problem {
	if kept == t.root {
		return nil
	}
	return &Problem{File: manifestFile, Field: "root",
		Text: fmt.Sprintf("the trace gives %v, and %v was kept: lines or facts of the manifest were changed, removed or added", t.root, kept)}
}

// Broken says why a line is not to be believed; nil where nothing speaks against it.
func (t *Trace) Broken(i int) *Problem { return t.entries[i].broken }

// ID is the id of a line by its place.
func (t *Trace) ID(i int) string {
	e := &t.entries[i]
	return lineID(t.ranks[e.rank].Rank, e.number)
}

// MultiplyAdds counts the products of a line; 0 where it is no record.
func (t *Trace) MultiplyAdds(i int) uint64 { return t.entries[i].products }

// Line reads a line again. Its case reads its operands from the trace. The error is a *Problem where the line is no record.
func (t *Trace) Line(i int) (*Line, error) {
	e := &t.entries[i]
	text, err := t.text(e)
	if err != nil {
		return nil, err
	}
	l, f := parse(text)
	if f != nil {
		return nil, &Problem{File: t.ranks[e.rank].File, Line: e.number + 1, ID: t.ID(i), Field: clipped(f.field), Text: clipped(f.text)}
	}
	l.Case.Source = &operands{t, l, e}
	return l, nil
}

// About describes the trace: what Set.About gives.
func (t *Trace) About() map[string]any {
	about := map[string]any{
		"sealed": t.Manifest.Sealed, "root": t.root.String(), "ranks": t.ranks, "torn": t.torn,
		"problems": t.problems[:min(len(t.problems), 64)], "problem_count": t.problemCount,
		"created": t.Manifest.Created, "torch": t.Manifest.Torch, "device": t.Manifest.Device,
	}
	if len(t.Manifest.Settings) > 0 {
		about["settings"] = t.Manifest.Settings
	}
	if len(t.Manifest.Coverage) > 0 {
		about["coverage"] = t.Manifest.Coverage
	}
	return about
}
