// Package cases holds recorded matrix multiplications: the versioned case record, the importer of golden sets, and the
// generator that rebuilds their inputs from seeds.
package cases

import (
	"encoding/json"
	"fmt"
	"math"
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
	// Extra holds fields this version does not know; they are written back.
	Extra map[string]json.RawMessage `json:"-"`
}

// Flags are the settings that change a multiplication's arithmetic.
type Flags struct {
	AllowTF32         bool `json:"allow_tf32,omitempty"`
	F16Accumulation   bool `json:"allow_fp16_accumulation,omitempty"`
	FastAccumulation  bool `json:"use_fast_accum,omitempty"`
	ReducedReductions bool `json:"allow_reduced_precision_reduction,omitempty"`
}

// Tensor says what an operand is and where its bits come from: Generator, or File with its Hash.
type Tensor struct {
	Format    format.Format `json:"format"`
	Shape     []int         `json:"shape"`
	Strides   []int         `json:"strides"` // in elements
	Offset    int           `json:"offset,omitempty"`
	Generator *Generator    `json:"generator,omitempty"`
	File      string        `json:"file,omitempty"`
	Hash      string        `json:"sha256,omitempty"`
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

// Samples are output elements stored at the indices SampleIndices gives.
type Samples struct {
	File     string `json:"file"`
	Offset   int64  `json:"offset"`
	Bytes    int    `json:"bytes"`
	Elements int    `json:"elements"`
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

var knownFields = []string{"record_version", "id", "op", "a", "b", "c", "out", "scalars", "scale_a", "scale_b", "flags", "device", "kernels"}

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
	if len(fields) > 0 {
		p.Extra = fields
	}
	*c = Case(p)
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
	if s.Format == format.F64 {
		return math.Float64frombits(s.Bits)
	}
	return float64(math.Float32frombits(uint32(s.Bits)))
}

// Number gives a scalar of the case, or its default where the record has none.
func (c *Case) Number(name string, otherwise float64) float64 {
	if s, ok := c.Scalars[name]; ok {
		return s.Value()
	}
	return otherwise
}
