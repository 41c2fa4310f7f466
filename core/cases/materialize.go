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

// Materialize rebuilds the operands of a case, or reads them from its source.
func (c *Case) Materialize() (*InMemory, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	a, b, err := c.factors()
	if err != nil {
		return nil, err
	}
	o := &InMemory{
		A: laidOut(a, &c.A),
		B: laidOut(b, &c.B),
	}
	if o.C, err = c.addend(); err != nil {
		return nil, err
	}
	if o.ScaleA, err = c.scale("scale_a", c.ScaleA); err != nil {
		return nil, err
	}
	if o.ScaleB, err = c.scale("scale_b", c.ScaleB); err != nil {
		return nil, err
	}
	return o, nil
}

// factors are the dense bits of a and b.
func (c *Case) factors() (a, b []byte, err error) {
	if c.A.File != "" || c.B.File != "" {
		if a, err = c.fromSource("a", &c.A); err != nil {
			return nil, nil, err
		}
		b, err = c.fromSource("b", &c.B)
		return a, b, err
	}
	ga, gb := c.A.Generator, c.B.Generator
	if ga == nil || gb == nil || ga.Recipe != "operands-a" || gb.Recipe != "operands-b" || ga.Seed != gb.Seed || ga.Kind != gb.Kind {
		return nil, nil, fmt.Errorf("a and b: the record has neither files of them nor one recipe for both")
	}
	batch, m, n, k := c.Sizes()
	return Operands(c.A.Format, c.B.Format, ga.Kind, ga.Seed, batch, m, n, k)
}

// addend is c, nil where the case has none.
func (c *Case) addend() (*gemm.Matrix, error) {
	switch {
	case c.C == nil:
		return nil, nil
	case c.C.File != "":
		return c.addendFromSource()
	case c.C.Generator == nil:
		return nil, fmt.Errorf("c: the record has neither a file nor a recipe of it")
	}
	batch, m, n, _ := c.Sizes()
	count := batch * m * n
	if c.C.Strides[1] == 0 {
		count = n
	}
	data, err := Elements(c.C.Format, c.C.Generator.Kind, c.C.Generator.Seed, count, c.C.Generator.Lower)
	if err != nil {
		return nil, err
	}
	o := gemm.Dense(data, c.C.Format, batch, m, n)
	o.BatchStride, o.RowStride, o.ColumnStride = c.C.Strides[0], c.C.Strides[1], c.C.Strides[2]
	return o, nil
}

// laidOut gives dense row-major bits the layout of t, so that the replay walks memory as the recorded call did.
func laidOut(data []byte, t *Tensor) *gemm.Matrix {
	batch, rows, columns := t.Shape[0], t.Shape[1], t.Shape[2]
	if t.Stored.Once() {
		return spread(data, t)
	}
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
	if t.File != "" {
		return c.scaleFromSource(name, t)
	}
	if t.Generator == nil {
		return nil, fmt.Errorf("%s: the record has neither a file nor a recipe of it", name)
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
