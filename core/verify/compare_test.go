package verify

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// row packs bit patterns into a batch of one row.
func row(f format.Format, bits ...uint64) *gemm.Matrix {
	size := f.Bytes()
	data := make([]byte, 0, len(bits)*size+8)
	for _, v := range bits {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], v)
		data = append(data, word[:size]...)
	}
	return gemm.Dense(data, f, 1, 1, len(bits))
}

func TestCompare(t *testing.T) {
	const nan = math.MaxUint64
	for _, test := range []struct {
		name             string
		f                format.Format
		expected, actual []uint64
		want             Comparison
	}{
		{"equal", format.F16, []uint64{1, 2, 0x7fff, 0x8000}, []uint64{1, 2, 0x7fff, 0x8000}, Comparison{Count: 4, First: -1, Worst: -1}},
		{"one ulp", format.BF16, []uint64{0x3f80, 0x4000}, []uint64{0x3f80, 0x4001},
			Comparison{Count: 2, Differing: 1, First: 1, Worst: 1, WorstUlps: 1, FirstExpected: 0x4000, FirstActual: 0x4001, WorstExpected: 0x4000, WorstActual: 0x4001}},
		{"first and worst", format.F32, []uint64{5, 0x3f800000, 7, 0x3f800000}, []uint64{6, 0x3f800000, 17, 0x3f800003},
			Comparison{Count: 4, Differing: 3, First: 0, Worst: 2, WorstUlps: 10, FirstExpected: 5, FirstActual: 6, WorstExpected: 7, WorstActual: 17}},
		{"the first of two equally bad", format.F32, []uint64{10, 20, 30}, []uint64{10, 22, 28},
			Comparison{Count: 3, Differing: 2, First: 1, Worst: 1, WorstUlps: 2, FirstExpected: 20, FirstActual: 22, WorstExpected: 20, WorstActual: 22}},
		{"zeros of both signs", format.F32, []uint64{0}, []uint64{0x80000000},
			Comparison{Count: 1, Differing: 1, First: 0, Worst: 0, FirstActual: 0x80000000, WorstActual: 0x80000000}},
		{"across zero", format.F16, []uint64{0x0002}, []uint64{0x8003},
			Comparison{Count: 1, Differing: 1, First: 0, Worst: 0, WorstUlps: 5, FirstExpected: 2, FirstActual: 0x8003, WorstExpected: 2, WorstActual: 0x8003}},
		{"two NaNs", format.F16, []uint64{0x7fff}, []uint64{0x7e00},
			Comparison{Count: 1, Differing: 1, First: 0, Worst: 0, FirstExpected: 0x7fff, FirstActual: 0x7e00, WorstExpected: 0x7fff, WorstActual: 0x7e00}},
		{"two NaNs, then an ulp", format.F16, []uint64{0x7fff, 3}, []uint64{0x7e00, 4},
			Comparison{Count: 2, Differing: 2, First: 0, Worst: 1, WorstUlps: 1, FirstExpected: 0x7fff, FirstActual: 0x7e00, WorstExpected: 3, WorstActual: 4}},
		{"a NaN is worst", format.F32, []uint64{0, 0x7fffffff, 0}, []uint64{0x7f800000, 0, 0xff800000},
			Comparison{Count: 3, Differing: 3, First: 0, Worst: 1, WorstUlps: nan, FirstActual: 0x7f800000, WorstExpected: 0x7fffffff}},
		{"Inf is a step past the largest", format.F16, []uint64{0x7bff}, []uint64{0x7c00},
			Comparison{Count: 1, Differing: 1, First: 0, Worst: 0, WorstUlps: 1, FirstExpected: 0x7bff, FirstActual: 0x7c00, WorstExpected: 0x7bff, WorstActual: 0x7c00}},
		{"f64", format.F64, []uint64{0x3ff0000000000000, 0x7fefffffffffffff}, []uint64{0x3ff0000000000002, 0xffefffffffffffff},
			Comparison{Count: 2, Differing: 2, First: 0, Worst: 1, WorstUlps: 2 * 0x7fefffffffffffff, FirstExpected: 0x3ff0000000000000,
				FirstActual: 0x3ff0000000000002, WorstExpected: 0x7fefffffffffffff, WorstActual: 0xffefffffffffffff}},
		{"s32", format.S32, []uint64{0xffffffff, 0x80000000}, []uint64{1, 0x7fffffff},
			Comparison{Count: 2, Differing: 2, First: 0, Worst: 1, WorstUlps: 0xffffffff, FirstExpected: 0xffffffff, FirstActual: 1,
				WorstExpected: 0x80000000, WorstActual: 0x7fffffff}},
		{"e4m3", format.E4M3, []uint64{0x7e, 0x38}, []uint64{0x7f, 0x38},
			Comparison{Count: 2, Differing: 1, First: 0, Worst: 0, WorstUlps: nan, FirstExpected: 0x7e, FirstActual: 0x7f, WorstExpected: 0x7e, WorstActual: 0x7f}},
	} {
		got, err := Compare(row(test.f, test.expected...), row(test.f, test.actual...))
		if err != nil || got != test.want {
			t.Errorf("%s: %+v, %v\nwant %+v", test.name, got, err, test.want)
		}
	}
}

func TestCompareSentence(t *testing.T) {
	for _, test := range []struct {
		c    Comparison
		want string
	}{
		{Comparison{Count: 12, First: -1, Worst: -1}, "all 12 elements have the same bits"},
		{Comparison{Count: 12, Differing: 3, First: 4, FirstExpected: 0x3f80, FirstActual: 0x3f81, Worst: 7, WorstUlps: 9},
			"3 of 12 elements differ, first at 4 (expected 0x3f80, found 0x3f81), worst at 7 (9 units in the last place)"},
		{Comparison{Count: 1, Differing: 1, FirstExpected: 1, FirstActual: 0x7fff, WorstUlps: math.MaxUint64},
			"1 of 1 elements differ, first at 0 (expected 0x1, found 0x7fff), worst at 0 (a NaN against a number)"},
	} {
		if got := test.c.String(); got != test.want {
			t.Errorf("%s\nwant %s", got, test.want)
		}
	}
}

// TestCompareStrides: indices are those of the logical matrix, however it lies in memory.
func TestCompareStrides(t *testing.T) {
	const batch, rows, columns = 2, 3, 5
	dense := make([]byte, batch*rows*columns*2)
	for i := range batch * rows * columns {
		binary.LittleEndian.PutUint16(dense[2*i:], uint16(0x3c00+i))
	}
	expected := gemm.Dense(dense, format.F16, batch, rows, columns)
	for name, m := range map[string]*gemm.Matrix{
		"transposed": {BatchStride: 15, RowStride: 1, ColumnStride: 3},
		"padded":     {Offset: 3, BatchStride: 40, RowStride: 12, ColumnStride: 2},
		"backwards":  {Offset: 29, BatchStride: -15, RowStride: -5, ColumnStride: -1},
		"interlaced": {BatchStride: 1, RowStride: 10, ColumnStride: 2},
	} {
		data := make([]byte, 2*100)
		for i := range data {
			data[i] = 0xAA // what lies between the elements must not be read
		}
		other := gemm.Dense(data, format.F16, batch, rows, columns)
		other.Offset, other.BatchStride, other.RowStride, other.ColumnStride = m.Offset, m.BatchStride, m.RowStride, m.ColumnStride
		at := func(b, i, j int) []byte {
			return data[2*(m.Offset+b*m.BatchStride+i*m.RowStride+j*m.ColumnStride):]
		}
		for b := range batch {
			for i := range rows {
				for j := range columns {
					binary.LittleEndian.PutUint16(at(b, i, j), uint16(expected.Bits(b, i, j)))
				}
			}
		}
		if c, err := Compare(expected, other); err != nil || c.Differing != 0 || c.Count != 30 {
			t.Errorf("%s: %v, %v", name, c, err)
		}
		binary.LittleEndian.PutUint16(at(1, 2, 3), 0x7c00)
		binary.LittleEndian.PutUint16(at(1, 0, 4), 0x3c00)
		c, err := Compare(expected, other)
		if err != nil || c.Differing != 2 || c.First != 19 || c.Worst != 28 || c.FirstActual != 0x3c00 || c.WorstExpected != 0x3c00+28 {
			t.Errorf("%s: %v, %v; want differences at 19 and 28", name, c, err)
		}
	}
	one := gemm.Dense(dense, format.F16, batch, rows, columns)
	one.BatchStride, one.RowStride, one.ColumnStride = 0, 0, 0 // one element everywhere
	if c, err := Compare(one, expected); err != nil || c.Count != 30 || c.Differing != 29 || c.Worst != 29 || c.WorstUlps != 29 {
		t.Errorf("strides of 0: %v, %v", c, err)
	}
}

func TestCompareRefuses(t *testing.T) {
	a := row(format.F16, 1, 2, 3, 4)
	shape := func(batch, rows, columns int) *gemm.Matrix {
		return gemm.Dense(make([]byte, 64), format.F16, batch, rows, columns)
	}
	for name, test := range map[string]struct {
		x, y *gemm.Matrix
		kind gemm.Kind
		want string
	}{
		"nothing expected": {nil, a, gemm.KindArgument, "a matrix to compare is missing"},
		"nothing found":    {a, nil, gemm.KindArgument, "a matrix to compare is missing"},
		"formats":          {a, row(format.BF16, 1, 2, 3, 4), gemm.KindFormat, "expected is f16, actual is bf16; compare outputs of one format"},
		"columns":          {a, row(format.F16, 1, 2, 3), gemm.KindShape, "expected is 1×1×4, actual is 1×1×3"},
		"rows":             {a, shape(1, 4, 1), gemm.KindShape, "expected is 1×1×4, actual is 1×4×1"},
		"batch":            {shape(2, 1, 4), a, gemm.KindShape, "expected is 2×1×4, actual is 1×1×4"},
		"no format":        {&gemm.Matrix{Batch: 1, Rows: 1, Columns: 1}, a, gemm.KindFormat, "0 is no number format"},
		"no memory":        {a, &gemm.Matrix{Format: format.F16, Batch: 1, Rows: 1, Columns: 4, ColumnStride: 1}, 0, ""},
		"a negative size":  {&gemm.Matrix{Format: format.F16, Batch: 1, Rows: -1, Columns: 4}, a, 0, ""},
	} {
		c, err := Compare(test.x, test.y)
		var refusal *gemm.Error
		if !errors.As(err, &refusal) || test.kind != 0 && refusal.Kind != test.kind || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
		if c.First != -1 || c.Worst != -1 || c.Count != 0 {
			t.Errorf("%s: %+v beside an error", name, c)
		}
	}
}

// TestCompareEmpty: nothing differs in nothing, at once even where the other sizes are huge.
func TestCompareEmpty(t *testing.T) {
	for _, size := range [][3]int{{0, 3, 5}, {2, 0, 5}, {2, 3, 0}, {1 << 30, 1 << 30, 0}} {
		m := &gemm.Matrix{Format: format.F32, Batch: size[0], Rows: size[1], Columns: size[2]}
		c, err := Compare(m, m) // walking the huge ones would never end
		if err != nil || c != (Comparison{First: -1, Worst: -1}) {
			t.Errorf("%v: %+v, %v", size, c, err)
		}
	}
}

// TestComparisonJSON: the names are part of what verdicts promise (docs/verdicts.md).
func TestComparisonJSON(t *testing.T) {
	text, err := json.Marshal(Comparison{Count: 9, Differing: 2, First: 3, Worst: 4, WorstUlps: 5, FirstExpected: 6, FirstActual: 7, WorstExpected: 8, WorstActual: 1})
	const want = `{"count":9,"differing":2,"first":3,"worst":4,"worst_ulps":5,"first_expected":6,"first_actual":7,"worst_expected":8,"worst_actual":1}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}
