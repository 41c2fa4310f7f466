package gemm

import (
	"math"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
)

// The oracle path calls the scalar model of package step for every element. It is what every other path is tested
// against, and runs the steps that have no faster path.

// pieceGroups is how many groups of a chain are gathered at once.
const pieceGroups = 256

// scalarModel gathers one element's operands and runs a chain on bit patterns.
type scalarModel struct {
	job  *job
	a, b []uint64
}

// element continues the accumulator c, a bit pattern of the step's result format, through one range.
func (s *scalarModel) element(t tile, row, column int, r plan.Range, c uint64) uint64 {
	j := s.job
	// Pieces of whole groups, so that a long chain can be stopped and holds little memory; padding belongs to the last.
	piece := pieceGroups * j.step.Span() * r.Stride()
	for start := r.Start; ; start += piece {
		s.a, s.b = s.a[:0], s.b[:0]
		last := r.Stop-start <= piece
		for k := start; k < r.Stop && k < start+piece; k += r.Stride() {
			s.a = append(s.a, j.rows.bits(t.batch, t.row+row, k))
			s.b = append(s.b, j.columns.bits(t.batch, t.column+column, k))
		}
		if last {
			// Zeros that fill the last group and begin another do what any number of them does.
			for range min(r.Pad, j.step.Span()) {
				s.a, s.b = append(s.a, 0), append(s.b, 0)
			}
		}
		if j.swapped {
			c = j.step.Dot(s.b, s.a, c)
		} else {
			c = j.step.Dot(s.a, s.b, c)
		}
		if last || j.stopped() {
			return c
		}
	}
}

// over calls each for every element of the tile.
func (s *scalarModel) over(t tile, ranges []plan.Range, ld int, each func(index int, run func(c uint64) uint64)) {
	work := 0
	for _, r := range ranges {
		work += r.Len()
	}
	for row := range t.rows {
		for column := range t.columns {
			each(row*ld+column, func(c uint64) uint64 {
				for _, r := range ranges {
					c = s.element(t, row, column, r, c)
				}
				return c
			})
			s.job.progress(work)
			if s.job.stopped() {
				return
			}
		}
	}
}

func (*scalarModel) padding() (int, int) { return 1, 1 }

type oracle32 struct {
	float32Merge
	scalarModel
	half bool // an f16 accumulator, held as the float32 of its value
}

func (o *oracle32) chain(acc []float32, ld int, t tile, ranges []plan.Range) {
	o.over(t, ranges, ld, func(i int, run func(uint64) uint64) {
		c := math.Float32bits(acc[i])
		if o.half {
			c = uint32(format.F16ToF32(uint16(run(uint64(format.F32ToF16(c))))))
		} else {
			c = uint32(run(uint64(c)))
		}
		acc[i] = canonical32(math.Float32frombits(c))
	})
}

type oracle64 struct {
	float64Merge
	scalarModel
}

func (o *oracle64) chain(acc []float64, ld int, t tile, ranges []plan.Range) {
	o.over(t, ranges, ld, func(i int, run func(uint64) uint64) {
		acc[i] = math.Float64frombits(run(math.Float64bits(acc[i])))
	})
}

type oracleInt struct {
	int32Merge
	scalarModel
}

func (o *oracleInt) chain(acc []int32, ld int, t tile, ranges []plan.Range) {
	o.over(t, ranges, ld, func(i int, run func(uint64) uint64) {
		acc[i] = int32(uint32(run(uint64(uint32(acc[i])))))
	})
}
