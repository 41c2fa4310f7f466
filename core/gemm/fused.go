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
	caches   *panelCaches // of a probe; nil elsewhere
	kernel   *simd.Fused  // nil where no kernel knows the step's constants
	far      *simd.Far    // nil where the level has none
	shape    simd.FusedShape
	farShape simd.FarShape
	wide     wideStep
	rowsOf   *decoder
	colsOf   *decoder
	// padding where no kernel sets it
	rowPad, columnPad int
	// The packed strips of the current span; those of far kernels are packed where they are asked for.
	a    []*simd.FusedPanel
	farA []*simd.FarPanel
	farB *simd.FarPanel
}

func newFusedChainer(j *job, memory *workspace) *fusedChainer {
	f := &fusedChainer{float32Merge: float32Merge{j.level}, job: j, memory: memory, caches: j.caches, wide: newWideStep(&j.step), rowsOf: decoderOf(j.rows.as), colsOf: decoderOf(j.columns.as), rowPad: 4, columnPad: 16}
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
	length, group := 256, f.job.step.Group
	if f.kernel != nil {
		length = f.kernel.KC
	}
	length = max(length/group, 1) * group
	for _, r := range ranges {
		for done, total := 0, r.Len(); done < total; {
			s := span{start: r.Start + done*r.Stride(), stride: r.Stride(), n: min(length, total-done)}
			// Where strips are kept for other plans they end at the same k in all of them, if groups do.
			if left := length - s.start%length; f.caches != nil && s.stride == 1 && left%group == 0 {
				s.n = min(s.n, left)
			}
			f.strip(acc, ld, t, mr, nr, &s)
			if f.job.stopped() {
				return
			}
			done += s.n
		}
	}
}

// kernelTile is the part of a tile that one call of a kernel computes, in one strip of k.
type kernelTile struct {
	batch            int
	panel, row, rows int // which panel of rows of the tile; its rows in the job's numbering
	column, columns  int
	span             *span
}

// strip continues every accumulator of the tile through a span of k.
func (f *fusedChainer) strip(acc []float32, ld int, t tile, mr, nr int, s *span) {
	panels := ceilDiv(t.rows, mr)
	memory := f.memory
	for len(memory.wideA) < panels {
		memory.wideA = append(memory.wideA, wideStrip{})
	}
	own := memory.fused.rows(panels)
	f.a, f.farA = f.a[:0], f.farA[:0]
	for i := range panels {
		memory.wideA[i].filled = false
		f.farA = append(f.farA, nil)
		if f.kernel != nil {
			f.a = append(f.a, f.packed(&own[i], false, t.batch, t.row+i*mr, min(mr, t.rows-i*mr), s))
		}
	}
	for column := 0; column < t.columns; column += nr {
		lanes := min(nr, t.columns-column)
		memory.wideB.filled, f.farB = false, nil
		var b *simd.FusedPanel
		if f.kernel != nil {
			b = f.packed(&memory.fused.b, true, t.batch, t.column+column, lanes, s)
		}
		for i := range panels {
			c := acc[i*mr*ld+column:]
			if f.kernel != nil && f.kernel.Run(c, ld, f.a[i], b, f.shape) {
				continue
			}
			part := kernelTile{
				batch: t.batch, panel: i, row: t.row + i*mr, rows: min(mr, t.rows-i*mr), column: t.column + column, columns: lanes, span: s,
			}
			if !f.runFar(c, ld, &part) {
				f.runWide(c, ld, &part)
				if f.job.stopped() {
					return
				}
			}
		}
		f.job.progress(t.rows * lanes * s.n)
		if f.job.stopped() {
			return
		}
	}
}

// packed gives a strip as the kernel takes it: packed into own, or kept from another candidate of a probe.
func (f *fusedChainer) packed(own *simd.FusedPanel, columns bool, batch, lane, lanes int, s *span) *simd.FusedPanel {
	o := f.side(columns)
	var cache *panelCache[simd.FusedPanel]
	bytes := 8 * lanes * s.n
	if columns {
		bytes = 5 * f.kernel.NR * s.n
	}
	if f.caches != nil {
		cache = &f.caches.fused
	}
	return kept(cache, f.key(o, columns, lane, s), s, bytes, own, func(p *simd.FusedPanel) {
		source := o.strip(batch, lane, lanes, s, false, &f.memory.fused.scratch)
		if columns {
			f.kernel.PackB(p, &source, f.shape)
		} else {
			f.kernel.PackA(p, &source, f.shape)
		}
	})
}

func (f *fusedChainer) side(columns bool) *operand {
	if columns {
		return &f.job.columns
	}
	return &f.job.rows
}

func (f *fusedChainer) key(o *operand, columns bool, lane int, s *span) panelKey {
	return panelKey{columns: columns, lane: lane, start: s.start, n: s.n, as: o.as, rounding: o.rounding, shape: f.farShape}
}

// runFar does what the first kernel declined, if it can.
func (f *fusedChainer) runFar(c []float32, ld int, p *kernelTile) bool {
	if f.far == nil {
		return false
	}
	a := f.memory.far.rows(p.panel + 1)
	if f.farA[p.panel] == nil {
		f.farA[p.panel] = f.packedFar(&a[p.panel], false, p.batch, p.row, p.rows, p.span)
	}
	if f.farB == nil {
		f.farB = f.packedFar(&f.memory.far.b, true, p.batch, p.column, p.columns, p.span)
	}
	return f.far.Run(c, ld, f.farA[p.panel], f.farB, f.farShape)
}

func (f *fusedChainer) packedFar(own *simd.FarPanel, columns bool, batch, lane, lanes int, s *span) *simd.FarPanel {
	o := f.side(columns)
	var cache *panelCache[simd.FarPanel]
	bytes := 8 * lanes * s.n
	if columns {
		bytes = 8 * f.far.NR * s.n
	}
	if f.caches != nil {
		cache = &f.caches.far
	}
	return kept(cache, f.key(o, columns, lane, s), s, bytes, own, func(p *simd.FarPanel) {
		source := o.strip(batch, lane, lanes, s, false, &f.memory.far.scratch)
		if columns {
			f.far.PackB(p, &source, f.farShape)
		} else {
			f.far.PackA(p, &source, f.farShape)
		}
	})
}

// runWide does what the kernels declined. Decoded strips are kept for the tiles that share them.
func (f *fusedChainer) runWide(c []float32, ld int, p *kernelTile) {
	a, b := &f.memory.wideA[p.panel], &f.memory.wideB
	if !a.filled {
		a.fill(&f.job.rows, f.rowsOf, p.batch, p.row, p.rows, p.span)
	}
	if !b.filled {
		b.fill(&f.job.columns, f.colsOf, p.batch, p.column, p.columns, p.span)
	}
	for i := range p.rows {
		x, xSpecial := a.lane(i)
		for j := range p.columns {
			if !f.job.wants(p.row+i, p.column+j) {
				continue
			}
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
