package trace

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

const (
	// maxLine bounds one line of an index, samples included.
	maxLine = 1 << 20
	// maxLines bounds the lines of a trace; of each about a hundred bytes are kept.
	maxLines = 1 << 24
	// maxProblems bounds how many problems are listed; all are counted.
	maxProblems = 1000
)

// entry is what is kept of a line.
type entry struct {
	rank     int // position in Trace.ranks
	number   int // of the line in its index, from 0
	offset   int64
	length   int
	hash     Hash
	products uint64
	read     bool     // it could be parsed
	garbled  bool     // it is no JSON at all
	linked   bool     // prev is the hash of the line before, or is known not to be for another reason
	broken   *Problem // why the line is not to be believed
}

// index is one rank's file while it is read, and what came of it.
type index struct {
	Rank  int    `json:"rank"`
	File  string `json:"file"`
	Lines int    `json:"lines"` // complete ones
	Last  string `json:"last"`
	Root  string `json:"root"`
	Torn  int    `json:"torn_bytes"` // after the last complete line
}

// scan reads a rank's index and appends its lines to the trace.
func (t *Trace) scan(rank int) error {
	x := index{Rank: rank, File: indexFile(rank)}
	file, _, err := t.folder.open(x.File)
	if err != nil {
		return err
	}
	defer file.Close()
	first := len(t.entries)
	var previous Hash // zeros before the first line
	order := &sequence{}
	reader := bufio.NewReaderSize(file, maxLine+1)
	for offset := int64(0); ; {
		text, length, hash, err := nextLine(reader)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil { // no line ends here
			x.Torn = length
			break
		}
		if len(t.entries) >= maxLines {
			return fmt.Errorf("%s: the trace has more than %d lines", x.File, maxLines)
		}
		e := entry{rank: len(t.ranks), number: len(t.entries) - first, offset: offset, length: length - 1, hash: hash}
		t.look(&e, x.File, rank, text, previous, order)
		t.entries = append(t.entries, e)
		offset, previous = offset+int64(length), hash
	}
	t.dropTorn(&x, first)
	x.Lines = len(t.entries) - first
	hashes := make([]Hash, x.Lines)
	for i, e := range t.entries[first:] {
		hashes[i] = e.hash
	}
	x.Last = Hash{}.String()
	if x.Lines > 0 {
		x.Last = hashes[x.Lines-1].String()
	}
	root := Root(hashes)
	x.Root = root.String()
	t.roots = append(t.roots, root)
	t.ranks = append(t.ranks, x)
	return nil
}

// nextLine gives a line without its end, its length with it, and its hash; no text where it is too long. At the end of the
// file the error is io.EOF and the length that of what is left without an end.
func nextLine(r *bufio.Reader) (text []byte, length int, hash Hash, err error) {
	text, err = r.ReadSlice('\n')
	length = len(text)
	if err == nil {
		text = text[:length-1]
		return text, length, sha256.Sum256(text), nil
	}
	if !errors.Is(err, bufio.ErrBufferFull) {
		return nil, length, hash, err
	}
	sum := sha256.New()
	for errors.Is(err, bufio.ErrBufferFull) {
		sum.Write(text)
		text, err = r.ReadSlice('\n')
		length += len(text)
	}
	if err == nil {
		sum.Write(text[:len(text)-1])
	}
	return nil, length, Hash(sum.Sum(nil)), err
}

// look parses a line and checks its place.
func (t *Trace) look(e *entry, file string, rank int, text []byte, previous Hash, order *sequence) {
	note := func(id string, f *fault) {
		p := &Problem{File: file, Line: e.number + 1, ID: id, Field: clipped(f.field), Text: clipped(f.text)}
		if e.broken == nil {
			e.broken = p
		}
		t.problem(p)
	}
	if text == nil && e.length > 0 {
		e.garbled = true
		note(lineID(rank, e.number), &fault{"", fmt.Sprintf("the line is longer than %d bytes", maxLine)})
		order.skip()
		return
	}
	l, f := parse(text)
	if l == nil {
		e.garbled = !json.Valid(text)
		note(lineID(rank, e.number), f)
		order.skip()
		return
	}
	e.read = true
	e.linked = l.Prev == previous.String()
	e.products = l.Case.MultiplyAdds()
	if f != nil {
		note(clipped(l.Case.ID), f)
	}
	if field, why := t.sampling.refuses(rank, l.Step, l.Call); why != "" {
		note(clipped(l.Case.ID), &fault{field, why})
	}
	if want := lineID(rank, l.Seq); l.Case.ID != want {
		note(clipped(l.Case.ID), &fault{"id", fmt.Sprintf("with seq %d of rank %d it must be %s", l.Seq, rank, want)})
	}
	if text := order.next(l.Seq); text != "" {
		note(clipped(l.Case.ID), &fault{"seq", text})
		e.linked = true // that it is not linked follows, and is no further problem
	}
}

// lineID is the id of a line.
func lineID(rank, seq int) string { return fmt.Sprintf("r%d-%06d", rank, seq) }

// longest bounds what a line's own text adds to a problem.
const longest = 256

func clipped(text string) string {
	if len(text) > longest {
		return strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// sequence follows the numbers of an index: after one that does not fit, more than one number is right, so that one wrong
// number is one problem.
type sequence struct {
	want int
	also []int
}

func (s *sequence) skip() { s.want++ }

func (s *sequence) next(seq int) string {
	want := s.want
	fits := seq == want || slices.Contains(s.also, seq)
	s.want, s.also = seq+1, nil
	if fits {
		return ""
	}
	s.also = []int{want + 1} // the number was changed
	switch {
	case seq > want:
		return fmt.Sprintf("is %d where %d is due: lines before it were removed or moved, or the number was changed", seq, want)
	case seq == want-1:
		s.also = append(s.also, want)
		return fmt.Sprintf("is %d like that of the line before: a line is there twice", seq)
	}
	s.also = append(s.also, want)
	return fmt.Sprintf("is %d where %d is due: the line was moved or repeated, or its number changed", seq, want)
}

// dropTorn leaves out a last line that was not written to its end, also where a line end follows it: where the machine itself
// stopped, a file may hold other bytes than were written. In a sealed trace there is no such line, and it is a problem.
func (t *Trace) dropTorn(x *index, first int) {
	last := len(t.entries) - 1
	if x.Torn == 0 && !t.Manifest.Sealed && last >= first && t.entries[last].garbled && t.problemCount == len(t.problems) {
		x.Torn = t.entries[last].length + 1
		t.entries = t.entries[:last]
		t.problems = t.problems[:len(t.problems)-1]
		t.problemCount--
	}
	if x.Torn == 0 {
		return
	}
	p := &Problem{File: x.File, Line: len(t.entries) - first + 1,
		Text: fmt.Sprintf("the last line was not written to its end (%d bytes), and is left out", x.Torn)}
	if t.Manifest.Sealed {
		p.Text = fmt.Sprintf("%d bytes without a line end follow the last line, and the trace is sealed", x.Torn)
		t.problem(p)
		return
	}
	t.torn = append(t.torn, p)
}

// chain says which lines are not what the lines behind them were chained to. expected is the hash of the last line as the
// manifest has it, "" where it has none.
func (t *Trace) chain(x *index, first int, expected string) {
	lines := t.entries[first:]
	note := func(i int, text string) {
		e := &lines[i]
		if e.broken != nil && e.broken.Field == "seq" { // a line in the wrong place is not linked
			return
		}
		p := &Problem{File: x.File, Line: i + 1, ID: lineID(x.Rank, i), Text: text}
		if e.broken == nil {
			e.broken = p
		}
		t.problem(p)
	}
	// kept tells whether the link behind line i holds; -1 stands for the zeros before the first.
	kept := func(i int) bool {
		if i+1 < len(lines) {
			next := &lines[i+1]
			return next.linked || !next.read // no link can be read there
		}
		return expected == "" || i < 0 || lines[i].hash.String() == expected
	}
	for i := range lines {
		switch {
		case i == 0 && !kept(-1) && kept(0):
			note(0, "prev is not 64 zeros: lines before the first were removed")
		case kept(i):
		case i+1 < len(lines) && !kept(i+1):
			// The line behind is the one that was changed, in its link at least; this one cannot be told from that.
			note(i, "the link to it was changed in the next line, or the line itself was")
		case i+1 == len(lines):
			note(i, "is not the last line that the manifest names: it was changed, lines behind it were removed, or lines were added")
		case i+2 == len(lines) && expected == "":
			note(i, "was changed after it was written, or the link to it in the last line was")
		default:
			note(i, "was changed after it was written: the next line is chained to another")
		}
	}
}

// text reads a line again, which must still be what it was.
func (t *Trace) text(e *entry) ([]byte, error) {
	name := t.ranks[e.rank].File
	file, _, err := t.folder.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data := make([]byte, e.length)
	if _, err := file.ReadAt(data, e.offset); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if sha256.Sum256(data) != e.hash {
		return nil, &Problem{File: name, Line: e.number + 1, Text: "the line was changed since the trace was opened"}
	}
	return data, nil
}

// isMissing tells whether a file is not there.
func isMissing(err error) bool { return errors.Is(err, os.ErrNotExist) }
