package verify

import (
	"fmt"
	"math"

	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// Comparison counts how two outputs of one shape differ, bit by bit. Indices are flat and row-major.
type Comparison struct {
	Count         int    `json:"count"`
	Differing     int    `json:"differing"`
	First         int    `json:"first"` // -1 where nothing differs
	Worst         int    `json:"worst"`
	WorstUlps     uint64 `json:"worst_ulps"`     // distance in units in the last place; the largest uint64 against a NaN
	FirstExpected uint64 `json:"first_expected"` // bit patterns
	FirstActual   uint64 `json:"first_actual"`
	WorstExpected uint64 `json:"worst_expected"`
	WorstActual   uint64 `json:"worst_actual"`
}

// Compare walks two matrices of equal shape and format. Every bit counts: +0 and -0 differ, and so do two NaNs of
// different patterns (at a distance of 0 ulps).
func Compare(expected, actual *gemm.Matrix) (Comparison, error) {
	c := Comparison{First: -1, Worst: -1}
	if expected == nil || actual == nil {
		return c, &gemm.Error{Kind: gemm.KindArgument, Message: "a matrix to compare is missing"}
	}
	for _, m := range []*gemm.Matrix{expected, actual} {
		if err := m.Check("matrix"); err != nil {
			return c, err
		}
	}
	if expected.Format != actual.Format {
		return c, &gemm.Error{Kind: gemm.KindFormat, Message: fmt.Sprintf("expected is %v, actual is %v; compare outputs of one format", expected.Format, actual.Format)}
	}
	if expected.Batch != actual.Batch || expected.Rows != actual.Rows || expected.Columns != actual.Columns {
		return c, &gemm.Error{Kind: gemm.KindShape, Message: fmt.Sprintf("expected is %d×%d×%d, actual is %d×%d×%d",
			expected.Batch, expected.Rows, expected.Columns, actual.Batch, actual.Rows, actual.Columns)}
	}
	if expected.Empty() {
		return c, nil // its other sizes may be huge
	}
	for b := range expected.Batch {
		for i := range expected.Rows {
			for j := range expected.Columns {
				c.add(expected, expected.Bits(b, i, j), actual.Bits(b, i, j))
			}
		}
	}
	return c, nil
}

func (c *Comparison) add(m *gemm.Matrix, expected, actual uint64) {
	index := c.Count
	c.Count++
	if expected == actual {
		return
	}
	c.Differing++
	if c.First < 0 {
		c.First, c.FirstExpected, c.FirstActual = index, expected, actual
	}
	if distance := m.Format.Ulps(expected, actual); c.Worst < 0 || distance > c.WorstUlps {
		c.Worst, c.WorstUlps, c.WorstExpected, c.WorstActual = index, distance, expected, actual
	}
}

// String says the outcome in a sentence.
func (c Comparison) String() string { return c.sentence("elements", "expected", "found") }

// stored is the sentence about a record's stored elements and the replayed ones.
func (c Comparison) stored() string { return c.sentence("stored elements", "recorded", "replayed") }

func (c Comparison) sentence(elements, expected, actual string) string {
	if c.Differing == 0 {
		return fmt.Sprintf("all %d %s have the same bits", c.Count, elements)
	}
	worst := fmt.Sprintf("%d units in the last place", c.WorstUlps)
	switch c.WorstUlps {
	case 1:
		worst = "1 unit in the last place"
	case math.MaxUint64:
		worst = "a NaN against a number"
	}
	return fmt.Sprintf("%d of %d %s differ, first at %d (%s %#x, %s %#x), worst at %d (%s)",
		c.Differing, c.Count, elements, c.First, expected, c.FirstExpected, actual, c.FirstActual, c.Worst, worst)
}
