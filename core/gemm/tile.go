package gemm

import "github.com/hawkeye-audit/hawkeye/core/plan"

// tile is one block of the output: rows [row, row+rows) by columns [column, column+columns) of one batch, in the
// numbering of the job (which may have swapped A and B, and counts chosen rows and columns only).
type tile struct {
	batch, row, rows, column, columns int
}

// accumulator is the type in which a tile's partial sums are held: float32 for f32 and f16 accumulators (every f16 is a
// float32), float64 for f64, int32 for s32.
type accumulator interface {
	float32 | float64 | int32
}

// chainer continues the accumulators of a tile through one chain. acc holds the tile with a row stride of ld, its columns
// padded to whole kernel tiles; it starts at +0.
type chainer[T accumulator] interface {
	// padding gives a kernel tile's rows and columns. A tile's columns are padded to them in memory; its rows are not,
	// since kernels leave rows alone that a panel lacks.
	padding() (rows, columns int)
	// chain runs the ranges in order; it returns early, with acc unspecified, once the job is stopped.
	chain(acc []T, ld int, t tile, ranges []plan.Range)
	// first makes the first partial sum of a merge the running sum, in place.
	first(sum []T, m *plan.Merge)
	// merge adds a further partial sum to the running sum.
	merge(sum, partial []T, m *plan.Merge)
}

// evaluator walks a summation tree for one tile after another, keeping one accumulator tile a level of the tree.
type evaluator[T accumulator] struct {
	chainer chainer[T]
	levels  *levels[T]
	stopped func() bool
	// start fills a tile with the values its accumulators start from; nil: they start at +0.
	start func(acc []T, ld int, t tile)
}

// evaluate returns the merged sums of the tile and their row stride.
func (e *evaluator[T]) evaluate(tree *plan.Tree, t tile) ([]T, int) {
	_, c := e.chainer.padding()
	rows, ld := t.rows, roundUp(t.columns, c)
	e.walk(tree, t, 0, rows, ld)
	return (*e.levels)[0][:rows*ld], ld
}

func (e *evaluator[T]) walk(tree *plan.Tree, t tile, level, rows, ld int) {
	if level == len(*e.levels) {
		*e.levels = append(*e.levels, nil)
	}
	if cap((*e.levels)[level]) < rows*ld {
		(*e.levels)[level] = make([]T, rows*ld)
	}
	sum := (*e.levels)[level][:rows*ld]
	if tree.Leaf() {
		clear(sum)
		if e.start != nil {
			e.start(sum, ld, t)
		}
		e.chainer.chain(sum, ld, t, tree.Chain)
		return
	}
	m := tree.Merge
	for i, child := range tree.Sum {
		if e.stopped() {
			return
		}
		if i == 0 {
			e.walk(child, t, level, rows, ld)
			e.chainer.first(sum, m)
			continue
		}
		e.walk(child, t, level+1, rows, ld)
		e.chainer.merge(sum, (*e.levels)[level+1][:rows*ld], m)
	}
}

func roundUp(n, multiple int) int { return ceilDiv(n, multiple) * multiple }
