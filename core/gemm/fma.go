package gemm

import (
	"math"

	"github.com/hawkeye-audit/hawkeye/simd"
)

// chain32 runs chains of f32 fused multiply-adds.
type chain32 struct {
	float32Merge
	panels[simd.Panel32, float32]
}

func newChain32(j *job, memory *workspace) *chain32 {
	k := simd.Chain32Kernel(j.level)
	c := &chain32{float32Merge{j.level}, newPanels[simd.Panel32, float32](j, &memory.chain32, cacheOf(j, func(c *panelCaches) *panelCache[simd.Panel32] { return &c.chain32 }), k.MR, k.NR, k.KC)}
	c.packA, c.packB, c.kernel, c.pad = k.PackA, k.PackB, k.Run, padZero[float32]
	return c
}

// cacheOf is one of the job's panel caches, nil where it has none.
func cacheOf[P any](j *job, choose func(*panelCaches) *panelCache[P]) *panelCache[P] {
	if j.caches == nil {
		return nil
	}
	return choose(j.caches)
}

// padZero adds the +0 of padding products: it turns -0 into +0 and changes nothing else.
func padZero[T float32 | float64](acc []T) {
	for i, v := range acc {
		if v == 0 {
			acc[i] = 0
		}
	}
}

// chain64 runs chains of f64 fused multiply-adds. NaN payloads follow the GPU's rules, not the processor's, so a kernel
// tile that meets one is done again element by element.
type chain64 struct {
	float64Merge
	panels[simd.Panel64, float64]
}

func newChain64(j *job, memory *workspace) *chain64 {
	k := simd.Chain64Kernel(j.level)
	c := &chain64{panels: newPanels[simd.Panel64, float64](j, &memory.chain64, cacheOf(j, func(c *panelCaches) *panelCache[simd.Panel64] { return &c.chain64 }), k.MR, k.NR, k.KC)}
	c.packA, c.packB, c.kernel, c.redo, c.pad = k.PackA, k.PackB, k.Run, c.scalar, padZero[float64]
	return c
}

func (c *chain64) scalar(acc []float64, ld int, t tile, row, column int, s *span) {
	j := c.job
	a, b := make([]uint64, s.n), make([]uint64, s.n)
	for r := row; r < min(row+c.mr, t.rows); r++ {
		for i := range a {
			a[i] = j.rows.bits(t.batch, t.row+r, s.at(i))
		}
		for col := column; col < min(column+c.nr, t.columns); col++ {
			if !j.wants(t.row+r, t.column+col) {
				continue
			}
			start := acc[r*ld+col]
			v := start
			for i := range b {
				b[i] = j.columns.bits(t.batch, t.column+col, s.at(i))
				v = math.FMA(math.Float64frombits(a[i]), math.Float64frombits(b[i]), v)
			}
			if v != v {
				x, y := a, b
				if j.swapped {
					x, y = b, a
				}
				v = math.Float64frombits(j.step.Dot(x, y, math.Float64bits(start)))
			}
			acc[r*ld+col] = v
		}
		if j.stopped() {
			return
		}
	}
}
