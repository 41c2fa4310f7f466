package trace

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/cases"
)

// Line is one multiplication of an index.
type Line struct {
	Case    *cases.Case `json:"-"`
	Seq     int         `json:"seq"`  // 0, 1, 2, … in its index
	Prev    string      `json:"prev"` // hash of the line before, zeros for the first
	Step    int         `json:"step"`
	Call    int         `json:"call"` // number of the call in the step
	Module  string      `json:"module"`
	Pass    string      `json:"pass"` // forward or backward
	Sampled bool        `json:"sampled"`
}

// fieldName is how errors of package cases begin, where they name a field.
var fieldName = regexp.MustCompile(`^(?:case record: )?([a-z_]+(?:\.[a-z_0-9]+)*): `)

// fault is what is wrong with a line, by field.
type fault struct{ field, text string }

// parse reads a line and checks everything that can be checked without reading a tensor.
func parse(text []byte) (*Line, *fault) {
	if err := strictJSON(text); err != nil {
		return nil, &fault{"", err.Error()}
	}
	var c cases.Case
	if err := json.Unmarshal(text, &c); err != nil {
		if f := wrongType(err); f != nil {
			return nil, f
		}
		message := strings.TrimPrefix(err.Error(), "case record: ")
		if m := fieldName.FindStringSubmatch(message); m != nil {
			return nil, &fault{m[1], strings.TrimPrefix(message, m[0])}
		}
		return nil, &fault{"", message}
	}
	l := &Line{Seq: -1, Step: -1, Call: -1, Case: &c}
	if err := json.Unmarshal(text, l); err != nil {
		if f := wrongType(err); f != nil {
			return nil, f
		}
		return nil, &fault{"", err.Error()}
	}
	if _, ok := ParseHash(l.Prev); !ok {
		return nil, &fault{"prev", "is no hash of 64 lower-case hexadecimal digits"}
	}
	for _, x := range []struct {
		name  string
		value int
	}{{"seq", l.Seq}, {"step", l.Step}, {"call", l.Call}} {
		if x.value < 0 {
			return nil, &fault{x.name, "is missing or negative"}
		}
	}
	if l.Pass != "forward" && l.Pass != "backward" {
		return nil, &fault{"pass", fmt.Sprintf("is %.40q, want forward or backward", l.Pass)}
	}
	if !l.Sampled {
		return nil, &fault{"sampled", "is not true, but the line is there"}
	}
	for _, x := range tensorsOf(&c) {
		if f := checkTensor(x.name, x.tensor); f != nil {
			return nil, f
		}
	}
	return l, checkOutput(&c)
}

// wrongType is the fault of a field that holds something else than it must, nil for other errors.
func wrongType(err error) *fault {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return nil
	}
	return &fault{wrong.Field, fmt.Sprintf("is a %s, which does not go into %v", wrong.Value, wrong.Type)}
}

// named is a tensor of a case by its field.
type named struct {
	name   string
	tensor *cases.Tensor
}

// tensorsOf lists the operands of a case.
func tensorsOf(c *cases.Case) []named {
	list := []named{{"a", &c.A}, {"b", &c.B}}
	for _, x := range []named{{"c", c.C}, {"scale_a", c.ScaleA}, {"scale_b", c.ScaleB}} {
		if x.tensor != nil {
			list = append(list, x)
		}
	}
	return list
}

func checkTensor(name string, t *cases.Tensor) *fault {
	switch {
	case t.Generator != nil:
		return &fault{name + ".generator", "operands of a trace are kept, not rebuilt"}
	case dtypeOf(t.Format) == "":
		return &fault{name + ".format", fmt.Sprintf("no file holds %v", t.Format)}
	case t.Offset < 0:
		return &fault{name + ".offset", "is negative"}
	case t.Stored != cases.AsShaped && (!t.Stored.Transposed() && !t.Stored.Once() || len(t.Shape) != 3):
		return &fault{name + ".stored", fmt.Sprintf("is %.40q: it may be transposed, once or once-transposed, of an operand with rows and columns", t.Stored)}
	}
	for _, stride := range t.Strides {
		if stride < 0 {
			return &fault{name + ".strides", "one is negative"}
		}
	}
	for _, x := range []struct{ name, hash string }{{".file", t.File}, {".sha256", t.Hash}} {
		if _, ok := ParseHash(x.hash); !ok {
			return &fault{name + x.name, "is no hash of 64 lower-case hexadecimal digits"}
		}
	}
	return nil
}

func checkOutput(c *cases.Case) *fault {
	out := &c.Out
	if out.Hash == "" {
		return &fault{"out.sha256", "is missing"}
	}
	if out.File != "" {
		if _, ok := ParseHash(out.File); !ok {
			return &fault{"out.file", "is no hash of 64 lower-case hexadecimal digits"}
		}
	}
	if len(c.Launches) > 0 && len(c.Launches) != len(c.Kernels) {
		return &fault{"launches", fmt.Sprintf("%d are given for %d kernels", len(c.Launches), len(c.Kernels))}
	}
	s := out.Samples
	if s == nil {
		return nil
	}
	count, _ := countOf(out.Shape)
	switch {
	case s.File != "" || s.Offset != 0 || s.Bytes != 0 || s.Elements != 0:
		return &fault{"out.samples", "a trace holds indices and data, and nothing else"}
	case s.Indices != "default":
		return &fault{"out.samples.indices", fmt.Sprintf("is %.40q, want default", s.Indices)}
	case len(s.Data) != 2*out.Format.Bytes()*len(cases.SampleIndices(count)):
		return &fault{"out.samples.data", fmt.Sprintf("has %d digits, the samples of %v of %v are %d", len(s.Data), out.Shape, out.Format,
			2*out.Format.Bytes()*len(cases.SampleIndices(count)))}
	}
	if strings.Trim(s.Data, "0123456789abcdef") != "" {
		return &fault{"out.samples.data", "is not in lower-case hexadecimal digits"}
	}
	return nil
}

// samples are the recorded output elements that a line itself holds, nil where it holds none.
func (l *Line) samples() []byte {
	if l.Case.Out.Samples == nil {
		return nil
	}
	data, err := hex.DecodeString(l.Case.Out.Samples.Data)
	if err != nil { // parse has looked at every digit
		panic(err)
	}
	return data
}
