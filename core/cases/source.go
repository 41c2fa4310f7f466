package cases

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// Source gives the bits of operands that a record keeps in files. It checks what it reads against the record's hashes.
type Source interface {
	// Operand gives the elements of a tensor of the case, dense and row-major in its shape, those that are stored once
	// only once (Tensor.Kept), little endian. name is the tensor's field in the record: a, b, c, scale_a or scale_b.
	Operand(name string, t *Tensor) ([]byte, error)
}

// Factor reads one factor from the case's source: "a" or "b".
func (c *Case) Factor(name string) (*gemm.Matrix, error) {
	t := &c.A
	if name == "b" {
		t = &c.B
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	data, err := c.fromSource(name, t)
	if err != nil {
		return nil, err
	}
	return laidOut(data, t), nil
}

// fromSource reads a tensor that has a file, in the order of the shape that is kept.
func (c *Case) fromSource(name string, t *Tensor) ([]byte, error) {
	if c.Source == nil {
		return nil, fmt.Errorf("%s: the operand comes from a file, and there is nothing to read it from", name)
	}
	data, err := c.Source.Operand(name, t)
	if err != nil {
		return nil, err
	}
	count := t.Format.Bytes()
	for _, size := range t.Kept() {
		count *= size
	}
	if len(data) != count {
		return nil, fmt.Errorf("%s: %d bytes were read, %v of %v are %d", name, len(data), t.Kept(), t.Format, count)
	}
	return data, nil
}

// addendFromSource is the addend of a file. Along a stride of 0 all its elements must be the same: such an addend is a bias,
// and treated as one.
func (c *Case) addendFromSource() (*gemm.Matrix, error) {
	data, err := c.fromSource("c", c.C)
	if err != nil {
		return nil, err
	}
	if c.C.Stored.Once() {
		return spread(data, c.C), nil
	}
	m := gemm.Dense(data, c.C.Format, c.C.Shape[0], c.C.Shape[1], c.C.Shape[2])
	if m.Empty() {
		return m, nil
	}
	repeated := *m
	for axis, stride := range []*int{&repeated.BatchStride, &repeated.RowStride, &repeated.ColumnStride} {
		if c.C.Strides[axis] == 0 {
			*stride = 0
		}
	}
	if repeated == *m {
		return m, nil
	}
	for b := range m.Batch {
		for i := range m.Rows {
			for j := range m.Columns {
				if m.Bits(b, i, j) != repeated.Bits(b, i, j) {
					return nil, fmt.Errorf("c: has strides %v, but element (%d, %d, %d) is not the one that it repeats", c.C.Strides, b, i, j)
				}
			}
		}
	}
	return &repeated, nil
}

// spread is the matrix of elements of which those along strides of 0 are there once.
func spread(data []byte, t *Tensor) *gemm.Matrix {
	kept := t.Kept()
	m := gemm.Dense(data, t.Format, kept[0], kept[1], kept[2])
	m.Batch, m.Rows, m.Columns = t.Shape[0], t.Shape[1], t.Shape[2]
	for axis, stride := range []*int{&m.BatchStride, &m.RowStride, &m.ColumnStride} {
		if kept[axis] != t.Shape[axis] {
			*stride = 0
		}
	}
	return m
}

// scaleFromSource reads a scale for each row or column, in f32.
func (c *Case) scaleFromSource(name string, t *Tensor) ([]float32, error) {
	if t.Format != format.F32 {
		return nil, fmt.Errorf("%s: is of %v, and scales are f32", name, t.Format)
	}
	data, err := c.fromSource(name, t)
	if err != nil {
		return nil, err
	}
	list := make([]float32, len(data)/4)
	for i := range list {
		list[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return list, nil
}
