package cases

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// InMemory holds a case's operands, dense and row-major, each as a matrix with the layout it was recorded with.
type InMemory struct {
	A, B, C        *gemm.Matrix
	ScaleA, ScaleB []float32
}

// Materialize rebuilds the operands of a case.
func (c *Case) Materialize() (*InMemory, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	batch, m, n, k := c.Sizes()
	ga, gb := c.A.Generator, c.B.Generator
	fromFile := ga == nil || gb == nil
	for _, t := range []*Tensor{c.C, c.ScaleA, c.ScaleB} {
		fromFile = fromFile || t != nil && t.Generator == nil
	}
	if fromFile || ga.Recipe != "operands-a" || gb.Recipe != "operands-b" || ga.Seed != gb.Seed || ga.Kind != gb.Kind {
		return nil, fmt.Errorf("operands that come from files are not read by this version")
	}
	a, b, err := Operands(c.A.Format, c.B.Format, ga.Kind, ga.Seed, batch, m, n, k)
	if err != nil {
		return nil, err
	}
	o := &InMemory{
		A: laidOut(a, &c.A),
		B: laidOut(b, &c.B),
	}
	if c.C != nil {
		count := batch * m * n
		if c.C.Strides[1] == 0 {
			count = n
		}
		data, err := Elements(c.C.Format, c.C.Generator.Kind, c.C.Generator.Seed, count, c.C.Generator.Lower)
		if err != nil {
			return nil, err
		}
		o.C = gemm.Dense(data, c.C.Format, batch, m, n)
		o.C.BatchStride, o.C.RowStride, o.C.ColumnStride = c.C.Strides[0], c.C.Strides[1], c.C.Strides[2]
	}
	if o.ScaleA, err = c.scale("scale_a", c.ScaleA); err != nil {
		return nil, err
	}
	o.ScaleB, err = c.scale("scale_b", c.ScaleB)
	return o, err
}

// laidOut gives dense row-major bits the layout of t, so that the replay walks memory as the recorded call did.
func laidOut(data []byte, t *Tensor) *gemm.Matrix {
	batch, rows, columns := t.Shape[0], t.Shape[1], t.Shape[2]
	m := gemm.Dense(data, t.Format, batch, rows, columns)
	if t.Strides[2] == 1 || m.Empty() {
		return m
	}
	size := t.Format.Bytes()
	moved := make([]byte, len(data))
	for s := range batch {
		for i := range rows {
			from := data[(s*rows+i)*columns*size:]
			to := moved[(s*rows*columns+i)*size:]
			for j := range columns {
				copy(to[j*rows*size:j*rows*size+size], from[j*size:j*size+size])
			}
		}
	}
	m = gemm.Dense(moved, t.Format, batch, rows, columns)
	m.RowStride, m.ColumnStride = 1, rows
	return m
}

func (c *Case) scale(name string, t *Tensor) ([]float32, error) {
	if t == nil {
		if s, ok := c.Scalars[name]; ok {
			return []float32{float32(s.Value())}, nil
		}
		return nil, nil
	}
	data, err := Elements(format.F32, t.Generator.Kind, t.Generator.Seed, t.Shape[0], 0)
	if err != nil {
		return nil, err
	}
	list := make([]float32, t.Shape[0])
	for i := range list {
		list[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]) &^ (1 << 31)) // scales are positive
	}
	return list, nil
}
