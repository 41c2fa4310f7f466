package gemm

import (
	"cmp"
	"slices"
)

// block is rows × columns of the output that hold chosen elements, in the numbering of a job that may be swapped.
type block struct {
	batch         int
	rows, columns []int
	swapped       bool
	cells         []cell
}

// cell is a chosen element of a block: its place in the block, and which of the positions it is (several, if one is named
// twice).
type cell struct {
	row, column int
	indices     []int
}

func (b *block) outputRows() []int {
	if b.swapped {
		return b.columns
	}
	return b.rows
}

func (b *block) outputColumns() []int {
	if b.swapped {
		return b.rows
	}
	return b.columns
}

// blockWidth is how many columns a block has at most: a vector's lanes. A kernel's time goes with rows × vectors, so that a
// block of 16 elements in 16 rows and 16 columns costs no more than they would in 16 rows of one column.
const blockWidth = 16

// blocksOf puts positions into blocks of few rows and at most blockWidth columns, for each batch in whichever orientation
// makes fewer rows in all.
func blocksOf(at []Position) []block {
	byBatch := map[int][]int{}
	var batches []int
	for i, p := range at {
		if _, seen := byBatch[p.Batch]; !seen {
			batches = append(batches, p.Batch)
		}
		byBatch[p.Batch] = append(byBatch[p.Batch], i)
	}
	slices.Sort(batches)
	var blocks []block
	for _, batch := range batches {
		best, least := []block(nil), 0
		for _, swapped := range []bool{false, true} {
			list := blocksOfBatch(at, byBatch[batch], batch, swapped)
			cost := 0
			for _, b := range list {
				cost += len(b.rows) + 2 // and packing its columns
			}
			if best == nil || cost < least {
				best, least = list, cost
			}
		}
		blocks = append(blocks, best...)
	}
	return blocks
}

// line is a column of the output with its chosen elements, by row.
type line struct {
	column int
	cells  []lineCell
}

type lineCell struct {
	row     int
	indices []int
}

func blocksOfBatch(at []Position, indices []int, batch int, swapped bool) []block {
	place := func(i int) (row, column int) {
		if swapped {
			return at[i].Column, at[i].Row
		}
		return at[i].Row, at[i].Column
	}
	indices = slices.Clone(indices)
	slices.SortStableFunc(indices, func(x, y int) int {
		rowX, columnX := place(x)
		rowY, columnY := place(y)
		return cmp.Or(cmp.Compare(columnX, columnY), cmp.Compare(rowX, rowY))
	})
	var lines []*line
	for _, i := range indices {
		row, column := place(i)
		if len(lines) == 0 || lines[len(lines)-1].column != column {
			lines = append(lines, &line{column: column})
		}
		l := lines[len(lines)-1]
		if n := len(l.cells); n > 0 && l.cells[n-1].row == row {
			l.cells[n-1].indices = append(l.cells[n-1].indices, i)
			continue
		}
		l.cells = append(l.cells, lineCell{row, []int{i}})
	}
	// Columns of many elements begin a block; what follows are those that add the fewest rows to it.
	slices.SortStableFunc(lines, func(x, y *line) int { return cmp.Compare(len(y.cells), len(x.cells)) })
	var blocks []block
	for len(lines) > 0 {
		b := block{batch: batch, swapped: swapped}
		place := map[int]int{}
		for len(lines) > 0 && len(b.columns) < blockWidth {
			best, fewest := 0, -1
			for i, l := range lines[:min(len(lines), 512)] {
				added := 0
				for _, c := range l.cells {
					if _, have := place[c.row]; !have {
						added++
					}
				}
				if fewest < 0 || added < fewest {
					best, fewest = i, added
				}
				if len(b.columns) == 0 || added == 0 {
					break
				}
			}
			l := lines[best]
			lines = slices.Delete(lines, best, best+1)
			for _, c := range l.cells {
				if _, have := place[c.row]; !have {
					place[c.row] = len(b.rows)
					b.rows = append(b.rows, c.row)
				}
				b.cells = append(b.cells, cell{place[c.row], len(b.columns), c.indices})
			}
			b.columns = append(b.columns, l.column)
		}
		blocks = append(blocks, b)
	}
	return blocks
}
