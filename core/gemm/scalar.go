package gemm

import (
	"math"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// A tree of ten thousand short chains (a dot product's threads) over one output element leaves vectors nothing to do: they
// would spend their time on packing a few k at a time. Such trees are walked an element at a time.

// treeSize is what the cost of walking a tree depends on.
type treeSize struct {
	leaves, ranges, products int
	scattered                int // products in ranges of few k or of k that are not consecutive
}

func sizeOf(t *plan.Tree) (s treeSize) {
	s.add(t)
	return s
}

func (s *treeSize) add(t *plan.Tree) {
	if t.Leaf() {
		s.leaves++
		s.ranges += len(t.Chain)
		for _, r := range t.Chain {
			n := r.Len()
			if s.products += n; n < 16 || r.Stride() > 1 {
				s.scattered += n
			}
		}
		return
	}
	for _, child := range t.Sum {
		s.add(child)
	}
}

// longestAlone bounds the k of an element walked alone: its operands are held widened, and it cannot be stopped midway.
const longestAlone = 1 << 20

// alone tells whether cells single elements take less time one by one than a tile of rows × columns. The constants are
// nanoseconds on a Zen 4 core; which side is chosen changes no bit.
func (j *job) alone(cells, rows, columns int) bool {
	if j.level == simd.Oracle {
		return true
	}
	p, s := &j.step, &j.size
	products, leaves, ranges := float64(s.products), float64(s.leaves), float64(s.ranges)
	switch {
	case j.fastFMA():
		if s.products > longestAlone || j.level == simd.Portable {
			return false
		}
		width, vector, quad := 32, 16, 11.
		if p.Result == format.F64 {
			width, vector, quad = 16, 8, 3
		}
		panels := float64(ceilDiv(rows, 14) * ceilDiv(columns, width))
		together := panels*(90*ranges+20*leaves) + products*(0.5*float64(rows+columns)+max(1.3, 0.25*float64(rows*ceilDiv(columns, vector))))
		return float64(ceilDiv(cells, 4))*(quad*products+30*leaves) < together
	case p.Result == format.S32:
		return !int8Format(p.A) || !int8Format(p.B)
	case wideFits(p):
		_, fused := fusedShape(p)
		_, far := farShape(p)
		if !fused && (!far || simd.FarKernel(j.level) == nil) {
			return true
		}
		panels := float64(ceilDiv(rows, 16) * ceilDiv(columns, 64))
		together := 400*panels*ranges + products*(4+max(1.5, 0.25*float64(rows*ceilDiv(columns, 16))))
		return float64(cells)*(18*products+60*leaves) < together
	}
	return true
}

// place is one element in the numbering of a job.
type place struct{ row, column int }

// elementRunner evaluates elements one by one, with the arithmetic of newRunner's paths.
func (j *job) elementRunner(memory *workspace) func(batch int, at []place) {
	p := &j.step
	var one runner
	switch {
	case j.fastFMA() && p.Result == format.F64:
		cache := cacheOf(j, func(c *panelCaches) *panelCache[[]float64] { return &c.alone64 })
		s := &scalar[float64]{job: j, memory: &memory.alone64, cache: cache, out: j.epilogue.out64(), start: startOf[float64](j)}
		s.chain, s.first, s.merge = func(t *plan.Tree, v *quad[float64]) { scalarChain64(s, t, v) }, firstFloat64, mergeFloat64
		return s.run
	case j.fastFMA():
		cache := cacheOf(j, func(c *panelCaches) *panelCache[[]float32] { return &c.alone32 })
		s := &scalar[float32]{job: j, memory: &memory.alone32, cache: cache, out: j.epilogue.out32(), start: startOf[float32](j)}
		s.chain, s.first, s.merge = func(t *plan.Tree, v *quad[float32]) { scalarChain32(s, t, v) }, firstFloat32, mergeFloat32
		return s.run
	case j.level != simd.Oracle && p.Result != format.F64 && p.Result != format.S32 && wideFits(p):
		f := newFusedChainer(j, memory)
		f.kernel, f.far, f.rowPad, f.columnPad = nil, nil, 1, 1
		one, _, _ = runnerOf(j, f, &memory.float32s, j.epilogue.out32())
	default:
		one, _, _ = j.newRunner(memory)
	}
	return func(batch int, at []place) {
		for _, p := range at {
			if one(tile{batch: batch, row: p.row, rows: 1, column: p.column, columns: 1}); j.stopped() {
				return
			}
		}
	}
}

// tileRunner is elementRunner for whole tiles.
func (j *job) tileRunner(memory *workspace) runner {
	run := j.elementRunner(memory)
	var at []place
	return func(t tile) {
		at = at[:0]
		for c := range t.columns {
			for r := range t.rows {
				at = append(at, place{t.row + r, t.column + c})
			}
		}
		run(t.batch, at)
	}
}

// quad is four elements side by side: their chains do not wait for each other, and a node of the tree is visited once for
// all of them.
type quad[T float32 | float64] [4]T

// scalar walks trees of fused multiply-add chains for four elements after another.
type scalar[T float32 | float64] struct {
	job    *job
	memory *aloneMemory[T]
	cache  *panelCache[[]T]
	out    output[T]
	start  func(acc []T, ld int, t tile)
	// The arithmetic of the type.
	chain func(t *plan.Tree, v *quad[T])
	first func(v T, m *plan.Merge) T
	merge func(sum, v T, m *plan.Merge) T
	// The elements and their operands; where there are fewer than four the last is repeated.
	at    [4]tile
	a, b  [4][]T
	begin quad[T]
}

// aloneMemory is four rows and four columns, widened to the accumulator's type.
type aloneMemory[T float32 | float64] struct{ rows, columns [4][]T }

func (s *scalar[T]) run(batch int, at []place) {
	j := s.job
	for ; len(at) > 0 && !j.stopped(); at = at[min(4, len(at)):] {
		live := min(4, len(at))
		for i := range s.at {
			p := at[min(i, live-1)]
			s.at[i] = tile{batch: batch, row: p.row, rows: 1, column: p.column, columns: 1}
			if i >= live {
				s.a[i], s.b[i], s.begin[i] = s.a[i-1], s.b[i-1], s.begin[i-1]
				continue
			}
			// Elements of one row or column, the usual case, share it.
			if i > 0 && p.row == s.at[i-1].row {
				s.a[i] = s.a[i-1]
			} else {
				s.a[i] = s.widened(&j.rows, false, batch, p.row, &s.memory.rows[i])
			}
			if i > 0 && p.column == s.at[i-1].column {
				s.b[i] = s.b[i-1]
			} else {
				s.b[i] = s.widened(&j.columns, true, batch, p.column, &s.memory.columns[i])
			}
			if s.begin[i] = 0; s.start != nil {
				s.start(s.begin[i:i+1], 1, s.at[i])
			}
		}
		s.elements(live)
		j.progress(live * j.size.products)
	}
}

func (s *scalar[T]) elements(live int) {
	slices := []*plan.Tree{s.job.tree}
	if s.job.tree.Serial {
		slices = s.job.tree.Sum
	}
	put := s.out.store
	for _, slice := range slices {
		var v quad[T]
		s.walk(slice, &v)
		for i := range live {
			put(s.job, s.at[i], v[i:i+1], 1)
		}
		put = s.out.add
	}
}

// widened is a lane of an operand as numbers, all of its k.
func (s *scalar[T]) widened(o *operand, columns bool, batch, lane int, own *[]T) []T {
	k := s.job.args.A.Columns
	all := span{stride: 1, n: k}
	key := panelKey{columns: columns, lane: lane, n: k, as: o.as, scaled: o.scaled}
	return *kept(s.cache, key, &all, 8*k, own, func(to *[]T) {
		if cap(*to) < k {
			*to = make([]T, k)
		}
		*to = (*to)[:k]
		for i := range *to {
			(*to)[i] = startValue[T](o.bits(batch, lane, i), o.as)
		}
	})
}

func (s *scalar[T]) walk(t *plan.Tree, sum *quad[T]) {
	if t.Leaf() {
		s.chain(t, sum)
		return
	}
	m := t.Merge
	s.walk(t.Sum[0], sum)
	plain := m.Partial == m.Sum && (m.Sum == format.F32 || m.Sum == format.F64)
	if !plain || m.FromZero {
		for i, v := range sum {
			sum[i] = s.first(v, m)
		}
	}
	var v quad[T]
	for _, child := range t.Sum[1:] {
		s.walk(child, &v)
		for i := range sum {
			x := sum[i] + v[i]
			if !plain || x != x {
				x = s.merge(sum[i], v[i], m)
			}
			sum[i] = x
		}
	}
}

// scalarChain32 runs four chains of f32 fused multiply-adds.
func scalarChain32(s *scalar[float32], t *plan.Tree, sum *quad[float32]) {
	v := s.begin
	for _, r := range t.Chain {
		a0, b0 := s.a[0][:r.Stop], s.b[0][:r.Stop]
		a1, b1 := s.a[1][:len(a0)], s.b[1][:len(a0)]
		a2, b2 := s.a[2][:len(a0)], s.b[2][:len(a0)]
		a3, b3 := s.a[3][:len(a0)], s.b[3][:len(a0)]
		b0 = b0[:len(a0)]
		step := r.Stride()
		v0, v1, v2, v3 := v[0], v[1], v[2], v[3]
		for k := r.Start; k < len(a0); k += step {
			x0, x1 := sum32(a0[k], b0[k], v0), sum32(a1[k], b1[k], v1)
			x2, x3 := sum32(a2[k], b2[k], v2), sum32(a3[k], b3[k], v3)
			if doubtful(x0) || doubtful(x1) || doubtful(x2) || doubtful(x3) {
				v0, v1 = simd.FMA32(a0[k], b0[k], v0), simd.FMA32(a1[k], b1[k], v1)
				v2, v3 = simd.FMA32(a2[k], b2[k], v2), simd.FMA32(a3[k], b3[k], v3)
				continue
			}
			v0, v1, v2, v3 = float32(x0), float32(x1), float32(x2), float32(x3)
		}
		v = quad[float32]{v0, v1, v2, v3}
		if r.Pad > 0 {
			padZero(v[:])
		}
	}
	for i := range v {
		sum[i] = canonical32(v[i])
	}
}

// sum32 is a·b + c in f64. In the default floating-point environment the product of two f32 is exact there, and rounding
// the sum once more gives the f32 nearest to the exact one, unless that is doubtful: the f64 is a tie of f32 neighbours (a
// one and 28 zeros at the end), where the exact sum may lie to either side, or below f32's normal range, where ties lie
// elsewhere. NaNs are any.
func sum32(a, b, c float32) float64 {
	return float64(a)*float64(b) + float64(c) // may be fused: the product is exact, so that nothing changes
}

func doubtful(v float64) bool {
	u := math.Float64bits(v)
	return u<<35 == 1<<63 || u<<1>>1-1 < (1023-126)<<52-1 // a zero is exact and not meant
}

// scalarChain64 runs four chains of f64 fused multiply-adds; where a NaN arises the scalar model decides which.
func scalarChain64(s *scalar[float64], t *plan.Tree, sum *quad[float64]) {
	v := s.begin
	for _, r := range t.Chain {
		a0, b0 := s.a[0][:r.Stop], s.b[0][:r.Stop]
		a1, b1 := s.a[1][:len(a0)], s.b[1][:len(a0)]
		a2, b2 := s.a[2][:len(a0)], s.b[2][:len(a0)]
		a3, b3 := s.a[3][:len(a0)], s.b[3][:len(a0)]
		b0 = b0[:len(a0)]
		step := r.Stride()
		for k := r.Start; k < len(a0); k += step {
			v[0] = math.FMA(a0[k], b0[k], v[0])
			v[1] = math.FMA(a1[k], b1[k], v[1])
			v[2] = math.FMA(a2[k], b2[k], v[2])
			v[3] = math.FMA(a3[k], b3[k], v[3])
		}
		if r.Pad > 0 {
			padZero(v[:])
		}
	}
	for i := range v {
		if v[i] != v[i] {
			model, c := scalarModel{job: s.job}, math.Float64bits(s.begin[i])
			for _, r := range t.Chain {
				c = model.element(s.at[i], 0, 0, r, c)
			}
			v[i] = math.Float64frombits(c)
		}
	}
	*sum = v
}
