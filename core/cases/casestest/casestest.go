// Package casestest builds records of made-up multiplications, and names of kernels, for the tests of other packages.
package casestest

import (
	"math"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
)

// Call describes a multiplication to build a case from.
type Call struct {
	Op        string
	A, B, Out format.Format // B and Out: A's where they are Invalid
	Size      [4]int        // batch, m, n, k
	Layout    string        // NN where empty
	Kind      string        // normal where empty
	Seed      uint64
	C         string // bias, full or nothing
	Alpha     float32
	Beta      float32 // Alpha and Beta of 0 are left out
	Scaling   string  // tensor or row
	Flags     cases.Flags
	Kernels   []string
	Launches  []cases.Launch
	Hash      string // of the output, where it is known
}

// Record gives the record: operands by recipe, of the output at most the hash.
func (x Call) Record() *cases.Case {
	if x.B == format.Invalid {
		x.B = x.A
	}
	if x.Out == format.Invalid {
		x.Out = x.A
	}
	if x.Layout == "" {
		x.Layout = "NN"
	}
	if x.Kind == "" {
		x.Kind = "normal"
	}
	batch, m, n, k := x.Size[0], x.Size[1], x.Size[2], x.Size[3]
	operand := func(f format.Format, rows, columns int, layout byte, recipe string) cases.Tensor {
		t := cases.Tensor{Format: f, Shape: []int{batch, rows, columns}, Strides: []int{rows * columns, columns, 1},
			Generator: &cases.Generator{Recipe: recipe, Kind: x.Kind, Seed: x.Seed}}
		if layout == 'T' {
			t.Strides = []int{rows * columns, 1, rows}
		}
		return t
	}
	c := &cases.Case{
		RecordVersion: cases.RecordVersion, ID: "made", Op: x.Op, Kernels: x.Kernels, Launches: x.Launches, Flags: x.Flags,
		A: operand(x.A, m, k, x.Layout[0], "operands-a"), B: operand(x.B, k, n, x.Layout[1], "operands-b"),
		Out: cases.Output{Format: x.Out, Shape: []int{batch, m, n}, Hash: x.Hash}, Scalars: map[string]cases.Scalar{},
	}
	if c.Op == "" {
		c.Op = "mm"
	}
	scalar := func(name string, v float32) {
		if v != 0 {
			c.Scalars[name] = Scalar(v)
		}
	}
	scalar("alpha", x.Alpha)
	scalar("beta", x.Beta)
	addend := &cases.Generator{Recipe: "elements", Kind: "normal", Seed: x.Seed*3<<20 + 7}
	switch x.C {
	case "bias":
		c.C = &cases.Tensor{Format: x.Out, Shape: c.Out.Shape, Strides: []int{0, 0, 1}, Generator: addend}
	case "full":
		c.C = &cases.Tensor{Format: x.Out, Shape: c.Out.Shape, Strides: []int{m * n, n, 1}, Generator: addend}
	}
	scales := func(n int, seed uint64) *cases.Tensor {
		return &cases.Tensor{Format: format.F32, Shape: []int{n}, Strides: []int{1}, Generator: &cases.Generator{Recipe: "scales", Kind: "normal", Seed: seed}}
	}
	switch x.Scaling {
	case "tensor":
		scalar("scale_a", 0.013)
		scalar("scale_b", 2)
	case "row":
		c.ScaleA, c.ScaleB = scales(m, (x.Seed*3+1)<<21), scales(n, (x.Seed*3+2)<<21)
	}
	return c
}

// ReduceKernel is the name of the kernel that merges split-K partial sums: its 4th argument is the workspace, and the 9th
// tells how a bias is added. The output's type stands beside them.
func ReduceKernel(workspace, ninth string) string { return ReduceKernelOf(workspace, ninth, ninth) }

// ReduceKernelOf is ReduceKernel where a bias is of another type than the output.
func ReduceKernelOf(workspace, out, ninth string) string {
	return "void cublasLt::splitKreduce_kernel<32, 16, int, " + workspace + ", " + out + ", float, " + out + ", false, " + ninth +
		", " + out + ", " + out + ", true, false, false, false>(cublasLt::cublasSplitKParams<float>, " + workspace + " const*)"
}

// Cutlass is the name that a profiler prints for a CUTLASS kernel.
func Cutlass(name string) string {
	return "void cutlass::Kernel2<" + name + ">(" + name + "::Params)"
}

// Scalar is v as a case holds it, in f32.
func Scalar(v float32) cases.Scalar {
	return cases.Scalar{Format: format.F32, Bits: uint64(math.Float32bits(v))}
}
