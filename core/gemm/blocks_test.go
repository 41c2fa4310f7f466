package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/plan"
)

// TestBlocks: every position is in exactly one cell of one block, at the row and column that the block says.
func TestBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 41))
	for trial := range 400 {
		at := make([]Position, r.IntN(120))
		for i := range at {
			at[i] = Position{r.IntN(3), r.IntN(1 + trial), r.IntN(1 + r.IntN(200))}
		}
		seen := make([]int, len(at))
		for _, b := range blocksOf(at) {
			if len(b.columns) > blockWidth || len(b.columns) == 0 {
				t.Fatalf("a block of %d columns", len(b.columns))
			}
			for _, c := range b.cells {
				row, column := c.row, c.column
				if b.swapped {
					row, column = column, row
				}
				for _, i := range c.indices {
					seen[i]++
					if want := (Position{b.batch, b.outputRows()[row], b.outputColumns()[column]}); at[i] != want {
						t.Fatalf("position %v is in the cell of %v", at[i], want)
					}
				}
			}
		}
		for i, n := range seen {
			if n != 1 {
				t.Fatalf("position %d of %v is in %d cells", i, at, n)
			}
		}
	}
}

// TestBlocksAreFew: positions of one row or one column, and those of a grid, come together.
func TestBlocksAreFew(t *testing.T) {
	var row, column, grid, diagonal []Position
	for i := range 16 {
		row, column = append(row, Position{0, 7, 10 * i}), append(column, Position{0, 10 * i, 7})
		diagonal = append(diagonal, Position{0, 10 * i, 3 * i})
		for k := range 4 {
			grid = append(grid, Position{0, 9 * k, 5 * i})
		}
	}
	for _, c := range []struct {
		name string
		at   []Position
		rows int
	}{{"a row", row, 1}, {"a column", column, 1}, {"a grid", grid, 4}, {"a diagonal", diagonal, 16}} {
		blocks := blocksOf(c.at)
		if len(blocks) != 1 || len(blocks[0].rows) != c.rows {
			t.Errorf("%s: %d blocks, the first with %d rows, want one with %d", c.name, len(blocks), len(blocks[0].rows), c.rows)
		}
	}
}

// TestSpans: spans hold every k of a chain once and in order, at most limit each, and end where a range has padding.
func TestSpans(t *testing.T) {
	r := rand.New(rand.NewPCG(42, 42))
	for range 3000 {
		s := spanner{limit: 1 + r.IntN(40), grid: r.IntN(2) == 0}
		var ranges []plan.Range
		want, got := "", ""
		for range r.IntN(12) {
			x := plan.Range{Start: r.IntN(50), Step: r.IntN(4)}
			if x.Stop = x.Start + r.IntN(pick(r, 3, 12, 200)); r.IntN(4) == 0 && x.Len() > 0 {
				x.Pad = 1
			}
			ranges = append(ranges, x)
			for k := x.Start; k < x.Stop; k += x.Stride() {
				want += fmt.Sprint(k, " ")
			}
			if x.Pad > 0 {
				want += "+0 "
			}
		}
		s.begin(ranges)
		for {
			p, pad, ok := s.next()
			if !ok {
				break
			}
			if p.n < 1 || p.n > s.limit {
				t.Fatalf("a span of %d k, the limit is %d", p.n, s.limit)
			}
			for i := range p.n {
				got += fmt.Sprint(p.at(i), " ")
			}
			if pad {
				got += "+0 "
			}
		}
		if got != want {
			t.Fatalf("limit %d, %+v: %s, want %s", s.limit, ranges, got, want)
		}
	}
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }
