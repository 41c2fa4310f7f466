package rules

import (
	"math"
	"strconv"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// recordedScalars is a line of tests/goldens/h200-scalars.jsonl: a product whose sums are single products, so that every
// plan gives them, and elements [a, b, c, d] of it.
type recordedScalars struct {
	Case        string
	Op          string
	Size        [4]int
	Layout      string
	A           string
	TF32        bool `json:"tf32"`
	F16Acc      bool `json:"f16acc"`
	Alpha, Beta float64
	Kernels     []int
	Launches    [][6]int
	Elements    [][4]string
}

// TestScalars: alpha and beta, 0 among them, as recorded on an H200 for every kind of kernel that torch was made to take: the
// first candidate gives every recorded element.
func TestScalars(t *testing.T) {
	var names []string
	count := map[string]int{}
	for number, r := range readLines[recordedScalars](t, "../../tests/goldens/h200-scalars.jsonl", &names) {
		count[r.Case]++
		c := r.record(t, names)
		choice := Choose(c, Options{})
		if len(choice.Candidates) == 0 {
			if choice.Unknown == "" {
				t.Errorf("line %d: no candidate and no reason", number)
			}
			count["declined"]++ // gemmSN and gemv2N of f64 with an alpha, which no profile says
			continue
		}
		prof := choice.Candidates[0].Profile
		for _, e := range r.Elements {
			one := func(text string) *gemm.Matrix {
				if r.Size[3] == 0 {
					return nil
				}
				return element(t, text, c.A.Format)
			}
			args := &gemm.Args{Profile: prof, A: one(e[0]), B: one(e[1]), C: element(t, e[2], c.A.Format), Alpha: r.Alpha, Beta: r.Beta, Threads: 1,
				D: &gemm.Matrix{Format: c.A.Format, Batch: 1, Rows: 1, Columns: 1}}
			if r.Size[3] == 0 {
				args.A, args.B = &gemm.Matrix{Format: c.A.Format, Batch: 1, Rows: 1}, &gemm.Matrix{Format: c.A.Format, Batch: 1, Columns: 1}
			}
			got, err := gemm.Elements(t.Context(), args, []gemm.Position{{}})
			if err != nil {
				t.Errorf("line %d, %s, %s by rule %s: %v", number, r.Case, choice.Family, choice.Candidates[0].Rule, err)
				break
			}
			if want := bitsOf(t, e[3]); got[0] != want {
				t.Errorf("line %d, %s, %s (%s), form %s, zero_alpha %q: %v gives %#x", number, r.Case, choice.Family, r.A, prof.Epilogue.Form, prof.Epilogue.ZeroAlpha, e, got[0])
				break
			}
		}
	}
	if t.Log(count); count["declined"] > 4 || count["forms"] < 100 || count["K 0"] < 80 {
		t.Error("too few lines are looked at")
	}
}

func (r *recordedScalars) record(t *testing.T, names []string) *cases.Case {
	f, err := format.Parse(r.A)
	if err != nil {
		t.Fatal(err)
	}
	batch, m, n, k := r.Size[0], r.Size[1], r.Size[2], r.Size[3]
	strides := func(letter byte, rows, columns int) []int {
		if letter == 'T' {
			return []int{rows * columns, 1, rows}
		}
		return []int{rows * columns, columns, 1}
	}
	scalar := func(v float64) cases.Scalar {
		return cases.Scalar{Format: format.F64, Bits: math.Float64bits(v)}
	}
	c := &cases.Case{
		RecordVersion: cases.RecordVersion, Op: r.Op,
		A:       cases.Tensor{Format: f, Shape: []int{batch, m, k}, Strides: strides(r.Layout[0], m, k)},
		B:       cases.Tensor{Format: f, Shape: []int{batch, k, n}, Strides: strides(r.Layout[1], k, n)},
		C:       &cases.Tensor{Format: f, Shape: []int{batch, m, n}, Strides: []int{m * n, n, 1}},
		Out:     cases.Output{Format: f, Shape: []int{batch, m, n}},
		Flags:   cases.Flags{AllowTF32: r.TF32, F16Accumulation: r.F16Acc},
		Scalars: map[string]cases.Scalar{"alpha": scalar(r.Alpha), "beta": scalar(r.Beta)},
	}
	for i, kernel := range r.Kernels {
		c.Kernels = append(c.Kernels, names[kernel])
		l := r.Launches[i]
		c.Launches = append(c.Launches, cases.Launch{Grid: [3]int(l[:3]), Block: [3]int(l[3:])})
	}
	return c
}

func bitsOf(t *testing.T, text string) uint64 {
	v, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// element is a matrix of one.
func element(t *testing.T, text string, f format.Format) *gemm.Matrix {
	memory := make([]byte, f.Bytes())
	for i, v := 0, bitsOf(t, text); i < len(memory); i++ {
		memory[i] = byte(v >> (8 * i))
	}
	return gemm.Dense(memory, f, 1, 1, 1)
}
