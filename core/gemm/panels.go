package gemm

import (
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
		count := ceilDiv(t.rows, p.mr)
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
