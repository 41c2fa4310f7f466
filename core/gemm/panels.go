package gemm

import (
	"sync"
	"sync/atomic"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// panels runs a tile's chains through the kernels that have no groups: fused multiply-add chains and integer sums. It packs
// the rows of a span once and each column panel once, and runs the kernel for every kernel tile.
type panels[P any, T accumulator] struct {
	job          *job
	mr, nr       int
	packA, packB func(*P, *simd.Source)
	kernel       func(acc []T, ld int, a, b *P) bool
	// redo continues what the kernel declined; rows and columns are those of the kernel tile, counted in the tile.
	redo   func(acc []T, ld int, t tile, row, column int, s *span)
	pad    func(acc []T) // adds the zero products of a padded range; nil where they change nothing
	memory *packed[P]
	cache  *panelCache[P] // of a probe; nil elsewhere
	spans  spanner
	source simd.Source // here, since what is passed to a function value is allocated otherwise
	a      []*P
}

func newPanels[P any, T accumulator](j *job, memory *packed[P], cache *panelCache[P], mr, nr, kc int) panels[P, T] {
	return panels[P, T]{job: j, memory: memory, cache: cache, mr: mr, nr: nr, spans: spanner{limit: kc, grid: cache != nil}}
}

func (p *panels[P, T]) padding() (int, int) { return p.mr, p.nr }

func (p *panels[P, T]) chain(acc []T, ld int, t tile, ranges []plan.Range) {
	p.spans.begin(ranges)
	for {
		s, pad, ok := p.spans.next()
		if !ok {
			return
		}
		p.span(acc, ld, t, &s)
		if pad && p.pad != nil {
			p.pad(acc)
		}
		if p.job.stopped() {
			return
		}
	}
}

func (p *panels[P, T]) span(acc []T, ld int, t tile, s *span) {
	count := ceilDiv(t.rows, p.mr)
	own := p.memory.rows(count)
	p.a = p.a[:0]
	for i := range count {
		row := i * p.mr
		p.a = append(p.a, p.packed(&own[i], &p.job.rows, p.packA, false, t.batch, t.row+row, min(p.mr, t.rows-row), s))
	}
	for column := 0; column < t.columns; column += p.nr {
		lanes := min(p.nr, t.columns-column)
		b := p.packed(&p.memory.b, &p.job.columns, p.packB, true, t.batch, t.column+column, lanes, s)
		for i, a := range p.a {
			if !p.kernel(acc[i*p.mr*ld+column:], ld, a, b) {
				p.redo(acc, ld, t, i*p.mr, column, s)
			}
		}
		p.job.progress(t.rows * lanes * s.n)
		if p.job.stopped() {
			return
		}
	}
}

// packed gives a packed strip: own, or one that the probe has kept from another candidate.
func (p *panels[P, T]) packed(own *P, o *operand, pack func(*P, *simd.Source), columns bool, batch, lane, lanes int, s *span) *P {
	width := p.mr
	if columns {
		width = p.nr
	}
	key := panelKey{columns: columns, lane: lane, start: s.start, n: s.n, as: o.as, rounding: o.rounding, scaled: o.scaled}
	return kept(p.cache, key, s, 8*width*s.n, own, func(panel *P) {
		p.source = o.strip(batch, lane, lanes, s, true, &p.memory.scratch)
		pack(panel, &p.source)
	})
}

// panelKey names a packed strip of a probe's gathered lanes. Everything that packing depends on besides is the same for
// all candidates.
type panelKey struct {
	columns  bool
	lane     int
	start, n int
	as       format.Format
	rounding format.Rounding
	scaled   bool
	shape    simd.FarShape // of the fused step
}

// panelCache keeps packed strips from one candidate of a probe to the next: candidates differ in their plans, and packing
// few lanes takes as long as multiplying them. Panels in it are only read.
type panelCache[P any] struct {
	lock   sync.RWMutex
	panels map[panelKey]*P
	budget *atomic.Int64 // bytes left, shared by the caches of a probe
}

func (c *panelCache[P]) get(key panelKey) *P {
	c.lock.RLock()
	defer c.lock.RUnlock()
	return c.panels[key]
}

// kept gives the panel of a key from the cache, packed now if it is not there. Without a cache, or where it is full or the
// span is one that no other plan will have, the panel is packed into own.
func kept[P any](c *panelCache[P], key panelKey, s *span, bytes int, own *P, pack func(*P)) *P {
	if c == nil || s.stride != 1 { // listed k have no stride
		pack(own)
		return own
	}
	if panel := c.get(key); panel != nil {
		return panel
	}
	if !c.reserve(bytes) {
		pack(own)
		return own
	}
	own = new(P)
	pack(own)
	c.put(key, own)
	return own
}

// reserve tells whether there is room for a panel of about so many bytes.
func (c *panelCache[P]) reserve(bytes int) bool {
	if c.budget.Add(-int64(bytes)) < 0 {
		c.budget.Add(int64(bytes))
		return false
	}
	return true
}

func (c *panelCache[P]) put(key panelKey, panel *P) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.panels == nil {
		c.panels = map[panelKey]*P{}
	}
	c.panels[key] = panel
}

// panelCaches are the caches of one tile of a probe.
type panelCaches struct {
	chain32 panelCache[simd.Panel32]
	chain64 panelCache[simd.Panel64]
	int8    panelCache[simd.PanelInt8]
	fused   panelCache[simd.FusedPanel]
	far     panelCache[simd.FarPanel]
	alone32 panelCache[[]float32] // lanes widened whole
	alone64 panelCache[[]float64]
}

// newPanelCaches makes caches that take no more than budget bytes together.
func newPanelCaches(budget *atomic.Int64) *panelCaches {
	c := new(panelCaches)
	for _, b := range []**atomic.Int64{&c.chain32.budget, &c.chain64.budget, &c.int8.budget, &c.fused.budget, &c.far.budget, &c.alone32.budget, &c.alone64.budget} {
		*b = budget
	}
	return c
}
