package verify

import (
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// TestNoTile: rows or columns apart from each other, and two neighbours in a line, are not called a tile.
func TestNoTile(t *testing.T) {
	x := splitCall(12, 10, 64, "normal")
	x.Out = format.F32
	c := x.Record()
	r := &replay{c: c, batch: 1, m: 12, n: 10, k: 64, count: 120}
	compared := func(differs func(row, column int) bool) *compared {
		var at []gemm.Position
		var want, got []uint64
		for i := range 12 {
			for j := range 10 {
				at, want, got = append(at, gemm.Position{Row: i, Column: j}), append(want, 7), append(got, 7)
				if differs(i, j) {
					got[len(got)-1] = 9
				}
			}
		}
		return r.compare(&trial{candidate: choose(c, Options{}).candidates[0]}, at, want, got)
	}
	for name, of := range map[string]struct {
		want    DifferenceKind
		differs func(i, j int) bool
	}{
		"rows 3 and 5":            {Scattered, func(i, _ int) bool { return i == 3 || i == 5 }},
		"columns 2 and 4":         {Scattered, func(_, j int) bool { return j == 2 || j == 4 }},
		"two neighbours in a row": {Scattered, func(i, j int) bool { return i == 6 && (j == 3 || j == 4) }},
		"two neighbours, upright": {Scattered, func(i, j int) bool { return j == 6 && (i == 3 || i == 4) }},
		"a tile":                  {DifferentTile, func(i, j int) bool { return i >= 3 && i < 7 && j >= 2 && j < 9 }},
		"most of a tile":          {DifferentTile, func(i, j int) bool { return i >= 3 && i < 7 && j >= 2 && j < 9 && (i+j)%3 != 0 }},
		"two rows by each other":  {DifferentTile, func(i, _ int) bool { return i == 3 || i == 4 }},
		"one row":                 {DifferentRow, func(i, _ int) bool { return i == 3 }},
	} {
		if d := r.locate(compared(of.differs)); d.Kind != of.want {
			t.Errorf("%s: %s, want %s: %s", name, d.Kind, of.want, d.Text)
		}
	}
}
