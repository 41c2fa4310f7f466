package explain

import (
	"slices"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// TestSharedInAnotherBatch: a row that stands in the second matrix of a batch goes with the column of that matrix, though the
// first has an equal column too.
func TestSharedInAnotherBatch(t *testing.T) {
	one := gemm.Dense([]byte{0, 0x3c, 0, 0x40}, format.F16, 1, 1, 2)
	many := gemm.Dense([]byte{1, 0x3c, 1, 0x40, 0, 0x3c, 0, 0x40}, format.F16, 2, 1, 2)
	column := []byte{0, 0x3c, 0, 0x41}
	w := gemm.Dense(column, format.F16, 1, 2, 1)
	both := gemm.Dense(slices.Concat(column, column), format.F16, 2, 2, 1)
	alone, batch := &gemm.Args{A: one, B: w}, &gemm.Args{A: many, B: both}
	if got, want := sharedPairs(alone, batch, 10), []pair{{gemm.Position{}, gemm.Position{Batch: 1}}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := sharedPairs(batch, alone, 10), []pair{{gemm.Position{Batch: 1}, gemm.Position{}}}; !slices.Equal(got, want) {
		t.Errorf("the other way round: %v, want %v", got, want)
	}
}
