package gemm

import (
	"math"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// panels cuts a tile's chain into strips for the kernels that have no groups: fused multiply-add chains and integer sums.
// It packs the rows of a strip once and each column panel once, and calls run for every kernel tile.
type panels[P any] struct {
	job          *job
	mr, nr, kc   int
	packA, packB func(*P, *simd.Source)
	memory       *packed[P]
}

func (p *panels[P]) padding() (int, int) { return p.mr, p.nr }

func (p *panels[P]) strips(t tile, r plan.Range, run func(row, column int, a, b *P, k, n int)) {
	for done, total := 0, r.Len(); done < total; done += p.kc {
		n, k := min(p.kc, total-done), r.Start+done*r.Stride()
		count := roundUp(t.rows, p.mr) / p.mr
		rows := p.memory.rows(count)
		for i := range count {
			source := p.job.rows.strip(t.batch, t.row+i*p.mr, min(p.mr, t.rows-i*p.mr), k, r.Stride(), n, &p.memory.scratch)
			p.packA(&rows[i], &source)
		}
		for column := 0; column < t.columns; column += p.nr {
			lanes := min(p.nr, t.columns-column)
			source := p.job.columns.strip(t.batch, t.column+column, lanes, k, r.Stride(), n, &p.memory.scratch)
			p.packB(&p.memory.b, &source)
			for i := range count {
				run(i*p.mr, column, &rows[i], &p.memory.b, k, n)
			}
			p.job.progress(t.rows * lanes * n)
			if p.job.stopped() {
				return
			}
		}
	}
}

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

// integers runs exact sums of 8-bit integer products.
type integers struct {
	int32Merge
	panels[simd.PanelInt8]
	kernel *simd.Int8
}

func newIntegers(j *job, memory *workspace) *integers {
	k := simd.Int8Kernel(j.level)
	return &integers{kernel: k, panels: panels[simd.PanelInt8]{job: j, memory: &memory.int8, mr: k.MR, nr: k.NR, kc: k.KC, packA: k.PackA, packB: k.PackB}}
}

func (c *integers) chain(acc []int32, ld int, t tile, ranges []plan.Range) {
	for _, r := range ranges {
		c.strips(t, r, func(row, column int, a, b *simd.PanelInt8, _, _ int) {
			c.kernel.Run(acc[row*ld+column:], ld, a, b)
		})
		if c.job.stopped() {
			return
		}
	}
}

// The formats each chain kernel takes.
func chainFormat32(f format.Format) bool {
	return f == format.F32 || f == format.F16 || f == format.BF16
}
func int8Format(f format.Format) bool { return f == format.S8 || f == format.U8 }
