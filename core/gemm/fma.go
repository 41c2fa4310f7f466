package gemm

import (
	"math"

	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// chain32 runs chains of f32 fused multiply-adds.
type chain32 struct {
	float32Merge
	panels[simd.Panel32]
	kernel *simd.Chain32
}

func newChain32(j *job, memory *workspace) *chain32 {
	k := simd.Chain32Kernel(j.level)
	return &chain32{float32Merge: float32Merge{j.level}, kernel: k, panels: panels[simd.Panel32]{job: j, memory: &memory.chain32, mr: k.MR, nr: k.NR, kc: k.KC, packA: k.PackA, packB: k.PackB}}
}

func (c *chain32) chain(acc []float32, ld int, t tile, ranges []plan.Range) {
	for _, r := range ranges {
		c.strips(t, r, func(row, column int, a, b *simd.Panel32, _, _ int) {
			c.kernel.Run(acc[row*ld+column:], ld, a, b)
		})
		if r.Pad > 0 {
			padZero(acc)
		}
		if c.job.stopped() {
			return
		}
	}
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
	panels[simd.Panel64]
	kernel *simd.Chain64
}

func newChain64(j *job, memory *workspace) *chain64 {
	k := simd.Chain64Kernel(j.level)
	return &chain64{kernel: k, panels: panels[simd.Panel64]{job: j, memory: &memory.chain64, mr: k.MR, nr: k.NR, kc: k.KC, packA: k.PackA, packB: k.PackB}}
}

func (c *chain64) chain(acc []float64, ld int, t tile, ranges []plan.Range) {
	for _, r := range ranges {
		c.strips(t, r, func(row, column int, a, b *simd.Panel64, k, n int) {
			if !c.kernel.Run(acc[row*ld+column:], ld, a, b) {
				c.scalar(acc, ld, t, row, column, k, r.Stride(), n)
			}
		})
		if r.Pad > 0 {
			padZero(acc)
		}
		if c.job.stopped() {
			return
		}
	}
}

func (c *chain64) scalar(acc []float64, ld int, t tile, row, column, k, stride, n int) {
	j := c.job
	a, b := make([]uint64, n), make([]uint64, n)
	for r := row; r < min(row+c.mr, t.rows); r++ {
		for i := range n {
			a[i] = j.rows.bits(t.batch, t.row+r, k+i*stride)
		}
		for col := column; col < min(column+c.nr, t.columns); col++ {
			start := acc[r*ld+col]
			v := start
			for i := range n {
				b[i] = j.columns.bits(t.batch, t.column+col, k+i*stride)
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
