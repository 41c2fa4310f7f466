package gemm

import (
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// fusedChainer runs fused steps: through a kernel where it proves its answer exact, else through one that takes exponents
// further apart, else through the wide path, which takes anything.
type fusedChainer struct {
	float32Merge
	job      *job
	memory   *workspace
	kernel   *simd.Fused // nil where no kernel knows the step's constants
	far      *simd.Far   // nil where the level has none
	shape    simd.FusedShape
	farShape simd.FarShape
	wide     wideStep
	rowsOf   *decoder
	colsOf   *decoder
	// padding where no kernel sets it
	rowPad, columnPad int
}

func newFusedChainer(j *job, memory *workspace) *fusedChainer {
	f := &fusedChainer{float32Merge: float32Merge{j.level}, job: j, memory: memory, wide: newWideStep(&j.step), rowsOf: decoderOf(j.rows.as), colsOf: decoderOf(j.columns.as), rowPad: 4, columnPad: 16}
	if shape, ok := fusedShape(&j.step); ok {
		f.shape, f.kernel = shape, simd.FusedKernel(j.level)
	}
	if shape, ok := farShape(&j.step); ok {
		f.farShape, f.far = shape, simd.FarKernel(j.level)
	}
	return f
}

func (f *fusedChainer) padding() (int, int) {
	switch {
	case f.kernel != nil:
		return f.kernel.MR, f.kernel.NR
	case f.far != nil:
		return f.far.MR, f.far.NR
	}
	return f.rowPad, f.columnPad
}

func (f *fusedChainer) chain(acc []float32, ld int, t tile, ranges []plan.Range) {
	mr, nr := f.padding()
	// Without a kernel the strip only bounds the decoded elements held at once.
	length := 256
	if f.kernel != nil {
		length = f.kernel.KC
	}
	length = max(length/f.job.step.Group, 1) * f.job.step.Group
	for _, r := range ranges {
		for done, total := 0, r.Len(); done < total; done += length {
			n := min(length, total-done)
			f.strip(acc, ld, t, mr, nr, r.Start+done*r.Stride(), r.Stride(), n)
			if f.job.stopped() {
				return
			}
		}
	}
}

// kernelTile is the part of a tile that one call of a kernel computes, in one strip of k.
type kernelTile struct {
	batch               int
	panel, row, rows    int // which panel of rows of the tile; its rows in the job's numbering
	column, columns     int
	k, stride, products int // k, k+stride, …
}

// strip continues every accumulator of the tile through n elements of k.
func (f *fusedChainer) strip(acc []float32, ld int, t tile, mr, nr, k, stride, n int) {
	panels := ceilDiv(t.rows, mr)
	memory := &f.memory.fused
	rowPanels := memory.rows(panels)
	for len(f.memory.wideA) < panels {
		f.memory.wideA = append(f.memory.wideA, wideStrip{})
		f.memory.farA = append(f.memory.farA, false)
	}
	for i := range panels {
		f.memory.wideA[i].filled, f.memory.farA[i] = false, false
		if f.kernel != nil {
			lanes := min(mr, t.rows-i*mr)
			source := f.job.rows.strip(t.batch, t.row+i*mr, lanes, k, stride, n, &memory.scratch)
			f.kernel.PackA(&rowPanels[i], &source, f.shape)
		}
	}
	for column := 0; column < t.columns; column += nr {
		lanes := min(nr, t.columns-column)
		f.memory.wideB.filled, f.memory.farB = false, false
		if f.kernel != nil {
			source := f.job.columns.strip(t.batch, t.column+column, lanes, k, stride, n, &memory.scratch)
			f.kernel.PackB(&memory.b, &source, f.shape)
		}
		for i := range panels {
			c := acc[i*mr*ld+column:]
			if f.kernel != nil && f.kernel.Run(c, ld, &rowPanels[i], &memory.b, f.shape) {
				continue
			}
			part := kernelTile{
				batch: t.batch, panel: i, row: t.row + i*mr, rows: min(mr, t.rows-i*mr), column: t.column + column, columns: lanes,
				k: k, stride: stride, products: n,
			}
			if !f.runFar(c, ld, &part) {
				f.runWide(c, ld, &part)
				if f.job.stopped() {
					return
				}
			}
		}
		f.job.progress(t.rows * lanes * n)
		if f.job.stopped() {
			return
		}
	}
}

// runFar does what the first kernel declined, if it can.
func (f *fusedChainer) runFar(c []float32, ld int, p *kernelTile) bool {
	if f.far == nil {
		return false
	}
	m := f.memory
	a := m.far.rows(p.panel + 1)
	if !m.farA[p.panel] {
		source := f.job.rows.strip(p.batch, p.row, p.rows, p.k, p.stride, p.products, &m.far.scratch)
		f.far.PackA(&a[p.panel], &source, f.farShape)
		m.farA[p.panel] = true
	}
	if !m.farB {
		source := f.job.columns.strip(p.batch, p.column, p.columns, p.k, p.stride, p.products, &m.far.scratch)
		f.far.PackB(&m.far.b, &source, f.farShape)
		m.farB = true
	}
	return f.far.Run(c, ld, &a[p.panel], &m.far.b, f.farShape)
}

// runWide does what the kernels declined. Decoded strips are kept for the tiles that share them.
func (f *fusedChainer) runWide(c []float32, ld int, p *kernelTile) {
	a, b := &f.memory.wideA[p.panel], &f.memory.wideB
	if !a.filled {
		a.fill(&f.job.rows, f.rowsOf, p.batch, p.row, p.rows, p.k, p.stride, p.products)
	}
	if !b.filled {
		b.fill(&f.job.columns, f.colsOf, p.batch, p.column, p.columns, p.k, p.stride, p.products)
	}
	for i := range p.rows {
		x, xSpecial := a.lane(i)
		for j := range p.columns {
			y, ySpecial := b.lane(j)
			special := xSpecial || ySpecial
			if !special && f.wide.negligible(a.greatest[i]+b.greatest[j]) {
				// Every group sums the accumulator alone, so one does what all of them do.
				n := min(f.wide.group, len(x))
				c[i*ld+j] = f.wide.step(x[:n], y[:n], false, c[i*ld+j])
				continue
			}
			c[i*ld+j] = f.wide.chain(x, y, special, c[i*ld+j])
		}
	}
}
