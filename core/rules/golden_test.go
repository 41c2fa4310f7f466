package rules

import (
	"runtime"
	"sync"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// explained tells whether some candidate gives the stored elements of a case, or a few of them, spread over the output.
func explained(t *testing.T, g *cases.Golden, c *cases.Case, o Options, few int) bool {
	batch, m, n, _ := c.Sizes()
	data, err := g.Stored(c)
	if err != nil {
		t.Error(err)
		return false
	}
	operands, err := c.Materialize()
	if err != nil {
		t.Error(err)
		return false
	}
	indices := cases.SampleIndices(batch * m * n)
	stored := gemm.Dense(data, c.Out.Format, 1, 1, len(indices))
	var at []gemm.Position
	var want []uint64
	for i := 0; i < len(indices); i += max(1, len(indices)/few) {
		index := indices[i]
		at = append(at, gemm.Position{Batch: index / (m * n), Row: index / n % m, Column: index % n})
		want = append(want, stored.Bits(0, 0, i))
	}
	choice := Choose(c, o)
	for _, candidate := range choice.Candidates {
		agrees := func(from, to int) bool {
			got, err := gemm.Elements(t.Context(), &gemm.Args{
				Profile: candidate.Profile, A: operands.A, B: operands.B, C: operands.C,
				D:     &gemm.Matrix{Format: c.Out.Format, Batch: batch, Rows: m, Columns: n, BatchStride: m * n, RowStride: n, ColumnStride: 1},
				Alpha: c.Number("alpha", 1), Beta: c.Number("beta", 1), ScaleA: operands.ScaleA, ScaleB: operands.ScaleB, Threads: 1,
			}, at[from:to])
			if err != nil {
				t.Errorf("%s, rule %s: %v", c.ID, candidate.Rule, err)
				return false
			}
			for i := range got {
				if got[i] != want[from+i] {
					return false
				}
			}
			return true
		}
		first := min(4, len(at))
		if agrees(0, first) && agrees(first, len(at)) {
			return true
		}
	}
	return false
}

// count runs cases one a processor.
func count(t *testing.T, g *cases.Golden, list []*cases.Case, o Options) int {
	found := 0
	var lock sync.Mutex
	var workers sync.WaitGroup
	work := make(chan *cases.Case)
	for range runtime.GOMAXPROCS(0) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for c := range work {
				ok := explained(t, g, c, o, 16)
				lock.Lock()
				if ok {
					found++
				} else {
					t.Logf("%s: no candidate gives the stored elements; kernels %.200v", c.ID, c.Kernels)
				}
				lock.Unlock()
			}
		}()
	}
	for _, c := range list {
		work <- c
	}
	close(work)
	workers.Wait()
	return found
}

// TestGolden: for every golden case some candidate gives the stored elements that are looked at; blind, for at least 490.
func TestGolden(t *testing.T) {
	g := readGolden(t)
	limit := uint64(1 << 62)
	if testing.Short() {
		limit = 2e5
	}
	var list []*cases.Case
	for _, c := range g.Cases {
		if c.MultiplyAdds() <= limit {
			list = append(list, c)
		}
	}
	if found := count(t, g, list, Options{}); found != len(list) {
		t.Errorf("by name: %d of %d explained", found, len(list))
	}
	if testing.Short() {
		list = list[:min(40, len(list))]
	}
	found := count(t, g, list, Options{Blind: true})
	if found*517 < 490*len(list) {
		t.Errorf("blind: %d of %d explained", found, len(list))
	}
	t.Logf("%d cases, blind %d", len(list), found)
}
