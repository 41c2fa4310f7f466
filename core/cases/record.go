package cases

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// RecordVersion is the case record this package writes: readers refuse another major number and keep fields they do
// not know.
const RecordVersion = "1.0"

// Case is one recorded multiplication: out = epilogue(a·b, c).
type Case struct {
	RecordVersion string            `json:"record_version"`
	ID            string            `json:"id"`
	Op            string            `json:"op"` // mm, addmm, bmm, baddbmm, mv, linear, scaled_mm, int_mm, …
	A             Tensor            `json:"a"`  // batch × m × k
	B             Tensor            `json:"b"`  // batch × k × n
	C             *Tensor           `json:"c,omitempty"`
	Out           Output            `json:"out"`
	Scalars       map[string]Scalar `json:"scalars,omitempty"` // alpha, beta, scale_a, scale_b
	ScaleA        *Tensor           `json:"scale_a,omitempty"` // a scale a row of a
	ScaleB        *Tensor           `json:"scale_b,omitempty"` // a scale a column of b
	Flags         Flags             `json:"flags"`
	Device        map[string]string `json:"device,omitempty"` // gpu, torch, cuda, library versions
	Kernels       []string          `json:"kernels,omitempty"`
	Launches      []Launch          `json:"launches,omitempty"` // how each of Kernels was launched; empty where not recorded
	// Extra holds fields this version does not know; they are written back.
	Extra map[string]json.RawMessage `json:"-"`
	// Source gives the operands that are kept in files; nil where there is nothing to read them from.
	Source Source `json:"-"`
}

// Launch is the size of one kernel launch as a profiler reports it: blocks of the grid, threads of a block.
type Launch struct {
	Grid  [3]int `json:"grid"`
	Block [3]int `json:"block"`
}

// Flags are the settings that change a multiplication's arithmetic.
type Flags struct {
	AllowTF32         bool `json:"allow_tf32,omitempty"`
	F16Accumulation   bool `json:"allow_fp16_accumulation,omitempty"`
	FastAccumulation  bool `json:"use_fast_accum,omitempty"`
	ReducedReductions bool `json:"allow_reduced_precision_reduction,omitempty"`
}

// Tensor says what an operand is and where its bits come from: Generator, or File, of a Source.
type Tensor struct {
	Format    format.Format `json:"format"`
	Shape     []int         `json:"shape"`
	Strides   []int         `json:"strides"` // in elements
	Offset    int           `json:"offset,omitempty"`
	Generator *Generator    `json:"generator,omitempty"`
	File      string        `json:"file,omitempty"`
	Hash      string        `json:"sha256,omitempty"` // of the elements, dense and row-major in Shape, little endian
	// Stored says how the file's tensor differs from Shape (docs/trace.md).
	Stored Stored `json:"stored,omitempty"`
}

// Stored is how the tensor of a file lies beside the operand that it is.
type Stored string

// The ways to store an operand: with rows and columns exchanged; with the elements along strides of 0 there once; both.
const (
	AsShaped       Stored = ""
	Transposed     Stored = "transposed"
	Once           Stored = "once"
	OnceTransposed Stored = "once-transposed"
)

// Transposed tells whether rows and columns are exchanged.
func (s Stored) Transposed() bool { return s == Transposed || s == OnceTransposed }

// Once tells whether elements along strides of 0 are there once.
func (s Stored) Once() bool { return s == Once || s == OnceTransposed }

// Kept is the shape of the elements that are kept: Shape, and 1 along strides of 0 where they are stored once.
func (t *Tensor) Kept() []int {
	kept := slices.Clone(t.Shape)
	for axis, stride := range t.Strides {
		if t.Stored.Once() && stride == 0 && kept[axis] > 1 {
			kept[axis] = 1
		}
	}
	return kept
}

// Generator rebuilds a tensor with the recipe of inputs.go.
type Generator struct {
	Recipe string `json:"recipe"` // operands-a, operands-b, elements or scales
	Kind   string `json:"kind"`
	Seed   uint64 `json:"seed"`
	Lower  int    `json:"lower,omitempty"`
}

// Output holds what is known of the result.
type Output struct {
	Format  format.Format `json:"format"`
	Shape   []int         `json:"shape"`
	Hash    string        `json:"sha256,omitempty"` // of the whole output, dense and row-major, little endian
	Samples *Samples      `json:"samples,omitempty"`
	File    string        `json:"file,omitempty"`
}

// Samples are output elements stored at the indices SampleIndices gives: in a golden set's file, or in the record itself
// (Indices and Data).
type Samples struct {
	File     string `json:"file,omitempty"`
	Offset   int64  `json:"offset,omitempty"`
	Bytes    int    `json:"bytes,omitempty"`
	Elements int    `json:"elements,omitempty"`
	Indices  string `json:"indices,omitempty"` // "default": those of SampleIndices
	Data     string `json:"data,omitempty"`    // hexadecimal, elements little endian
}

// Scalar is a number by its bits: "f32:0x3f800000".
type Scalar struct {
	Format format.Format
	Bits   uint64
}

// MarshalText writes format and hexadecimal bits.
func (s Scalar) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%v:0x%0*x", s.Format, 2*s.Format.Bytes(), s.Bits), nil
}

// UnmarshalText reads what MarshalText writes.
func (s *Scalar) UnmarshalText(text []byte) error {
	name, digits, found := strings.Cut(string(text), ":0x")
	if !found {
		return fmt.Errorf("scalar %q: want a format and hexadecimal bits, such as f32:0x3f800000", text)
	}
	f, err := format.Parse(name)
	if err != nil {
		return fmt.Errorf("scalar %q: %w", text, err)
	}
	bits, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return fmt.Errorf("scalar %q: %w", text, err)
	}
	if width := f.Info().Bits; width < 64 && bits>>width != 0 {
		return fmt.Errorf("scalar %q: %v has %d bits", text, f, width)
	}
	*s = Scalar{f, bits}
	return nil
}

// plainCase is Case without its methods, so that the JSON methods below do not call themselves.
type plainCase Case

// MarshalJSON writes the record with the unknown fields it was read with.
func (c Case) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(plainCase(c))
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	for name, value := range c.Extra {
		if _, known := fields[name]; !known {
			fields[name] = value
		}
	}
	return json.Marshal(fields)
}

var knownFields = []string{"record_version", "id", "op", "a", "b", "c", "out", "scalars", "scale_a", "scale_b", "flags", "device", "kernels", "launches"}

// UnmarshalJSON reads a record of this major version and keeps unknown fields in Extra.
func (c *Case) UnmarshalJSON(text []byte) error {
	var p plainCase
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("case record: %w", err)
	}
	major, _, _ := strings.Cut(p.RecordVersion, ".")
	if want, _, _ := strings.Cut(RecordVersion, "."); major != want {
		return fmt.Errorf("case record: record_version: is %q, this version of Hawkeye reads %s.x", p.RecordVersion, want)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return fmt.Errorf("case record: %w", err)
	}
	for _, name := range knownFields {
		delete(fields, name)
	}
	if err := (*Case)(&p).check(); err != nil {
		return fmt.Errorf("case record: %w", err)
	}
	if len(fields) > 0 {
		p.Extra = fields
	}
	*c = Case(p)
	return nil
}

// check refuses shapes that do not fit together or are too large to rebuild; the rest of the package relies on it.
func (c *Case) check() error {
	if err := dimensions("a.shape", c.A.Shape, 3); err != nil {
		return err
	}
	if err := dimensions("b.shape", c.B.Shape, 3); err != nil {
		return err
	}
	batch, m, n, k := c.Sizes()
	for _, want := range []struct {
		name  string
		shape []int
		as    []int
	}{{"b.shape", c.B.Shape, []int{batch, k, n}}, {"out.shape", c.Out.Shape, []int{batch, m, n}}} {
		if !slices.Equal(want.shape, want.as) {
			return fmt.Errorf("%s: is %v, beside a of %v it must be %v", want.name, want.shape, c.A.Shape, want.as)
		}
	}
	for _, t := range []struct {
		name   string
		tensor *Tensor
		shape  []int
	}{{"a", &c.A, c.A.Shape}, {"b", &c.B, c.B.Shape}, {"c", c.C, c.Out.Shape}, {"scale_a", c.ScaleA, []int{m}}, {"scale_b", c.ScaleB, []int{n}}} {
		switch {
		case t.tensor == nil:
		case !slices.Equal(t.tensor.Shape, t.shape):
			return fmt.Errorf("%s.shape: is %v, must be %v", t.name, t.tensor.Shape, t.shape)
		case len(t.tensor.Strides) != len(t.shape):
			return fmt.Errorf("%s.strides: there are %d, the shape has %d sizes", t.name, len(t.tensor.Strides), len(t.shape))
		}
	}
	if c.Out.Hash != "" && !isSHA256(c.Out.Hash) {
		return fmt.Errorf("out.sha256: is %q, want 64 lower-case hexadecimal digits", c.Out.Hash)
	}
	return dimensions("out.shape", c.Out.Shape, 3)
}

// dimensions checks the sizes of a tensor and how many elements they make.
func dimensions(name string, shape []int, rank int) error {
	if len(shape) != rank {
		return fmt.Errorf("%s: has %d sizes, want %d", name, len(shape), rank)
	}
	count := 1.0
	for _, size := range shape {
		if size < 0 || size > maxElements {
			return fmt.Errorf("%s: a size of %d is out of range", name, size)
		}
		count *= float64(size)
	}
	if count > maxElements {
		return fmt.Errorf("%s: %v are more elements than a case may have", name, shape)
	}
	return nil
}

// Sizes gives batch, m, n, k.
func (c *Case) Sizes() (batch, m, n, k int) {
	return c.A.Shape[0], c.A.Shape[1], c.B.Shape[2], c.A.Shape[2]
}

// MultiplyAdds counts the products of the multiplication.
func (c *Case) MultiplyAdds() uint64 {
	batch, m, n, k := c.Sizes()
	return uint64(batch) * uint64(m) * uint64(n) * uint64(k)
}

// Value is the scalar as a float64.
func (s Scalar) Value() float64 {
	n := s.Format.Decode(s.Bits)
	v := math.Ldexp(float64(n.Sig), n.Exp)
	switch n.Class {
	case format.NaN:
		return math.NaN()
	case format.Inf:
		v = math.Inf(1)
	}
	if n.Neg {
		return -v
	}
	return v
}

// Number gives a scalar of the case as the library is given it, or its default where the record has none.
func (c *Case) Number(name string, otherwise float64) float64 {
	s, ok := c.Scalars[name]
	if !ok {
		return otherwise
	}
	if c.RoundsScalars(name) {
		s = Scalar{c.A.Format, c.A.Format.EncodeNumber(s.Format.Decode(s.Bits), format.Encoding{})}
	}
	return s.Value()
}

// RoundsScalars tells whether torch rounds a scalar to the operands' format before it calls the library: α and β of addmv do
// not stay f32 with f16 and bf16 operands, as those of addmm and baddbmm do [H200, torch 2.11: 84 products].
func (c *Case) RoundsScalars(name string) bool {
	return c.Op == "addmv" && (name == "alpha" || name == "beta") && (c.A.Format == format.F16 || c.A.Format == format.BF16)
}
