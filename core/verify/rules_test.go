package verify

import (
	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
)

// call describes a multiplication to build a case from.
type call struct {
	op        string
	a, b, out format.Format // b and out: a's where they are Invalid
	size      [4]int        // batch, m, n, k
	layout    string        // NN where empty
	kind      string        // normal where empty
	seed      uint64
	c         string // bias, full or nothing
	alpha     float32
	beta      float32 // alpha and beta of 0 are left out
	scaling   string  // tensor or row
	flags     cases.Flags
	kernels   []string
	hash      string
}

func (x call) record() *cases.Case {
	if x.b == format.Invalid {
		x.b = x.a
	}
	if x.out == format.Invalid {
		x.out = x.a
	}
	if x.layout == "" {
		x.layout = "NN"
	}
	if x.kind == "" {
		x.kind = "normal"
	}
	batch, m, n, k := x.size[0], x.size[1], x.size[2], x.size[3]
	operand := func(f format.Format, rows, columns int, layout byte, recipe string) cases.Tensor {
		t := cases.Tensor{Format: f, Shape: []int{batch, rows, columns}, Strides: []int{rows * columns, columns, 1},
			Generator: &cases.Generator{Recipe: recipe, Kind: x.kind, Seed: x.seed}}
		if layout == 'T' {
			t.Strides = []int{rows * columns, 1, rows}
		}
		return t
	}
	c := &cases.Case{
		RecordVersion: cases.RecordVersion, ID: "made", Op: x.op, Kernels: x.kernels, Flags: x.flags,
		A: operand(x.a, m, k, x.layout[0], "operands-a"), B: operand(x.b, k, n, x.layout[1], "operands-b"),
		Out: cases.Output{Format: x.out, Shape: []int{batch, m, n}, Hash: x.hash}, Scalars: map[string]cases.Scalar{},
	}
	if c.Op == "" {
		c.Op = "mm"
	}
	scalar := func(name string, v float32) {
		if v != 0 {
			c.Scalars[name] = scalarOf(v)
		}
	}
	scalar("alpha", x.alpha)
	scalar("beta", x.beta)
	addend := &cases.Generator{Recipe: "elements", Kind: "normal", Seed: x.seed*3<<20 + 7}
	switch x.c {
	case "bias":
		c.C = &cases.Tensor{Format: x.out, Shape: c.Out.Shape, Strides: []int{0, 0, 1}, Generator: addend}
	case "full":
		c.C = &cases.Tensor{Format: x.out, Shape: c.Out.Shape, Strides: []int{m * n, n, 1}, Generator: addend}
	}
	scales := func(n int, seed uint64) *cases.Tensor {
		return &cases.Tensor{Format: format.F32, Shape: []int{n}, Strides: []int{1}, Generator: &cases.Generator{Recipe: "scales", Kind: "normal", Seed: seed}}
	}
	switch x.scaling {
	case "tensor":
		scalar("scale_a", 0.013)
		scalar("scale_b", 2)
	case "row":
		c.ScaleA, c.ScaleB = scales(m, (x.seed*3+1)<<21), scales(n, (x.seed*3+2)<<21)
	}
	return c
}

// reduceKernel is the name of the kernel that merges split-K partial sums: its 4th argument is the workspace, and the 9th
// tells how a bias is added. The output's type stands beside them.
func reduceKernel(workspace, ninth string) string { return reduceKernelOf(workspace, ninth, ninth) }

func reduceKernelOf(workspace, out, ninth string) string {
	return "void cublasLt::splitKreduce_kernel<32, 16, int, " + workspace + ", " + out + ", float, " + out + ", false, " + ninth +
		", " + out + ", " + out + ", true, false, false, false>(cublasLt::cublasSplitKParams<float>, " + workspace + " const*)"
}

func cutlass(name string) string {
	return "void cutlass::Kernel2<" + name + ">(" + name + "::Params)"
}

// slicings counts how many ways there are to cut K into at most 400 slices of whole units: every number of slices that
// gives another width.
func slicings(k, grain int) int {
	units := (k + grain - 1) / grain
	widths := map[int]bool{}
	for s := 1; s <= 400 && s <= units; s++ {
		widths[(units+s-1)/s] = true
	}
	return len(widths)
}
