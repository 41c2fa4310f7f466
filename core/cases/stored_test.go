package cases_test

import (
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
)

// kept is a source of one operand's bytes for a and b alike.
type kept map[string][]byte

func (k kept) Operand(name string, _ *cases.Tensor) ([]byte, error) { return k[name], nil }

// TestStoredOnce: elements along strides of 0 are there once and are repeated, whatever axis they are on.
func TestStoredOnce(t *testing.T) {
	for _, test := range []struct {
		strides []int
		stored  cases.Stored
		at      func(b, i, j int) int // of a, two by three by four
		count   int
	}{
		{[]int{0, 4, 1}, cases.Once, func(_, i, j int) int { return 4*i + j }, 12},
		{[]int{0, 0, 1}, cases.Once, func(_, _, j int) int { return j }, 4},
		{[]int{3, 1, 0}, cases.Once, func(b, i, _ int) int { return 3*b + i }, 6},
		{[]int{0, 0, 0}, cases.Once, func(_, _, _ int) int { return 0 }, 1},
		{[]int{0, 1, 3}, cases.OnceTransposed, func(_, i, j int) int { return 4*i + j }, 12}, // the source has turned it
		{[]int{12, 4, 1}, cases.Once, func(b, i, j int) int { return 12*b + 4*i + j }, 24},
	} {
		elements := make([]byte, test.count)
		for i := range elements {
			elements[i] = byte(i + 1)
		}
		b := make([]byte, 2*4*5)
		c := &cases.Case{
			RecordVersion: cases.RecordVersion, Op: "bmm",
			A:      cases.Tensor{Format: format.S8, Shape: []int{2, 3, 4}, Strides: test.strides, File: "a", Stored: test.stored},
			B:      cases.Tensor{Format: format.S8, Shape: []int{2, 4, 5}, Strides: []int{20, 5, 1}, File: "b"},
			Out:    cases.Output{Format: format.S32, Shape: []int{2, 3, 5}},
			Source: kept{"a": elements, "b": b},
		}
		o, err := c.Materialize()
		if err != nil {
			t.Fatalf("%v: %v", test.strides, err)
		}
		for s := range 2 {
			for i := range 3 {
				for j := range 4 {
					if got, want := o.A.Bits(s, i, j), uint64(test.at(s, i, j)+1); got != want {
						t.Errorf("%v (%d, %d, %d): %d, want %d", test.strides, s, i, j, got, want)
					}
				}
			}
		}
		c.Source = kept{"a": append(elements, 0), "b": b}
		if _, err := c.Materialize(); err == nil {
			t.Errorf("%v: a byte too many is taken", test.strides)
		}
	}
}
