package gemm

import (
	"sync"

	"github.com/hawkeye-audit/hawkeye/simd"
)

// workspace is the memory a worker needs for tiles: accumulators, packed strips, decoded strips. It goes back to a pool, so
// that a program of many small products does not allocate in each.
type workspace struct {
	float32s levels[float32]
	float64s levels[float64]
	int32s   levels[int32]
	chain32  packed[simd.Panel32]
	chain64  packed[simd.Panel64]
	int8     packed[simd.PanelInt8]
	fused    packed[simd.FusedPanel]
	far      packed[simd.FarPanel]
	wideA    []wideStrip
	wideB    wideStrip
	alone32  aloneMemory[float32]
	alone64  aloneMemory[float64]
}

// levels holds an accumulator tile for every level of a summation tree.
type levels[T accumulator] [][]T

// packed holds the panels of a strip: all rows of a tile, one block of columns.
type packed[P any] struct {
	a       []P
	b       P
	scratch []byte // chosen lanes, copied together
}

// rows makes sure of count panels.
func (p *packed[P]) rows(count int) []P {
	for len(p.a) < count {
		var empty P
		p.a = append(p.a, empty)
	}
	return p.a[:count]
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}
