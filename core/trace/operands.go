package trace

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
)

// tensorFile is where a tensor of that hash lies.
func tensorFile(name string) string { return "tensors/" + name[:2] + "/" + name + ".safetensors" }

// tensor reads the elements of a file, whose name is its hash.
func (t *Trace) tensor(name string, f format.Format, shape []int) ([]byte, error) {
	want, ok := ParseHash(name)
	if !ok {
		return nil, fmt.Errorf("%.64q is no hash of 64 lower-case hexadecimal digits", name)
	}
	file, size, err := t.folder.open(tensorFile(name))
	if err != nil {
		if isMissing(err) {
			return nil, errors.New("the file is not there")
		}
		var path *os.PathError
		if errors.As(err, &path) {
			return nil, fmt.Errorf("the file cannot be read: %w", path.Err)
		}
		return nil, err
	}
	defer file.Close()
	data, hash, err := readTensor(file, size, f, shape)
	if err != nil {
		return nil, err
	}
	if hash != want {
		return nil, fmt.Errorf("the file was changed: its hash is %v", hash)
	}
	return data, nil
}

// operands reads the operands of one line.
type operands struct {
	trace *Trace
	line  *Line
	entry *entry
}

// problem is one with a tensor file of the line.
func (o *operands) problem(field, text string) *Problem {
	return &Problem{File: o.trace.ranks[o.entry.rank].File, Line: o.entry.number + 1, ID: o.line.Case.ID, Field: field, Text: text}
}

// Operand reads a tensor and checks its file's hash and its own.
func (o *operands) Operand(name string, t *cases.Tensor) ([]byte, error) {
	shape := t.Kept()
	if t.Stored.Transposed() {
		shape[1], shape[2] = shape[2], shape[1]
	}
	data, err := o.trace.tensor(t.File, t.Format, shape)
	if err != nil {
		return nil, o.problem(name+".file", fmt.Sprintf("%v (%.64s)", err, t.File))
	}
	if t.Stored.Transposed() {
		data = transposed(data, t.Format.Bytes(), shape[0], shape[1], shape[2])
	}
	if sum := Hash(sha256.Sum256(data)); sum.String() != t.Hash {
		return nil, o.problem(name+".sha256", fmt.Sprintf("is not the hash of the elements in the file, which is %v", sum))
	}
	return data, nil
}

// transposed exchanges rows and columns.
func transposed(data []byte, size, batch, rows, columns int) []byte {
	moved := make([]byte, len(data))
	for b := range batch {
		from, to := data[b*rows*columns*size:], moved[b*rows*columns*size:]
		for i := range rows {
			for j := range columns {
				copy(to[(j*rows+i)*size:(j*rows+i+1)*size], from[(i*columns+j)*size:])
			}
		}
	}
	return moved
}

// Stored gives the recorded output elements of a line at cases.SampleIndices, little endian: from the line itself or from the
// file of the whole output, whose hash is compared with the recorded one. nil: only the hash is recorded.
func (t *Trace) Stored(i int, l *Line) ([]byte, error) {
	out := &l.Case.Out
	data := l.samples()
	if out.File == "" {
		return data, nil
	}
	o := &operands{t, l, &t.entries[i]}
	whole, err := o.Operand("out", &cases.Tensor{Format: out.Format, Shape: out.Shape, File: out.File, Hash: out.Hash})
	if err != nil {
		return nil, err
	}
	size := out.Format.Bytes()
	var picked []byte
	for _, at := range cases.SampleIndices(len(whole) / size) {
		picked = append(picked, whole[at*size:(at+1)*size]...)
	}
	if data != nil && string(picked) != string(data) {
		return nil, o.problem("out.samples.data", "are not the elements of the output's file")
	}
	return picked, nil
}

// CheckFiles reads every tensor file that lines refer to and gives what is wrong with them, a problem for each field of a
// line. each is called after every line; its error ends the work.
func (t *Trace) CheckFiles(each func(done, total int) error) ([]*Problem, error) {
	var list []*Problem
	for i := range t.entries {
		l, err := t.Line(i)
		var p *Problem
		switch {
		case errors.As(err, &p):
			list = append(list, p)
		case err != nil:
			return list, err
		default:
			list = append(list, t.checkLine(i, l)...)
		}
		if each != nil {
			if err := each(i+1, len(t.entries)); err != nil {
				return list, err
			}
		}
	}
	return list, nil
}

func (t *Trace) checkLine(i int, l *Line) (list []*Problem) {
	note := func(err error) {
		var p *Problem
		if errors.As(err, &p) {
			list = append(list, p)
		}
	}
	for _, x := range tensorsOf(l.Case) {
		_, err := l.Case.Source.Operand(x.name, x.tensor)
		note(err)
	}
	_, err := t.Stored(i, l)
	note(err)
	return list
}
