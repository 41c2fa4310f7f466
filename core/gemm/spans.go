package gemm

import "github.com/hawkeye-audit/hawkeye/core/plan"

// span is some of a chain's k, in order: start, start+stride, … (n of them), or those listed.
type span struct {
	start, stride, n int
	list             []int // nil for a progression
}

// at is the span's i-th k.
func (s *span) at(i int) int {
	if s.list != nil {
		return s.list[i]
	}
	return s.start + i*s.stride
}

// spanner cuts the ranges of a chain into spans of at most limit k. Chains without groups may cross from one range to the
// next, so that short ranges, of which a thread of a gemv has many, become one span.
type spanner struct {
	limit int
	// grid: progressions of stride 1 end at multiples of limit, so that chains of different plans have spans in common.
	grid bool
	list []int // memory

	ranges []plan.Range
	done   int // of the first range
}

// begin starts on a chain.
func (s *spanner) begin(ranges []plan.Range) { s.ranges, s.done = ranges, 0 }

// next gives the next span, and whether a range with padding ends with it; false after the last.
func (s *spanner) next() (piece span, pad, ok bool) {
	for len(s.ranges) > 0 {
		r := s.ranges[0]
		total := r.Len()
		if total == 0 {
			s.ranges = s.ranges[1:]
			continue
		}
		if s.done == 0 && total*4 <= s.limit && r.Pad == 0 && len(s.ranges) > 1 {
			if piece, pad, ok = s.together(); ok {
				return piece, pad, true
			}
		}
		piece = span{start: r.Start + s.done*r.Stride(), stride: r.Stride(), n: min(s.limit, total-s.done)}
		if s.grid && piece.stride == 1 {
			piece.n = min(piece.n, s.limit-piece.start%s.limit)
		}
		if s.done += piece.n; s.done == total {
			pad = r.Pad > 0
			s.ranges, s.done = s.ranges[1:], 0
		}
		return piece, pad, true
	}
	return piece, false, false
}

// together joins short ranges up to one with padding, if there are at least two.
func (s *spanner) together() (piece span, pad, ok bool) {
	s.list = s.list[:0]
	taken := 0
	for _, r := range s.ranges {
		n := r.Len()
		if n*4 > s.limit || len(s.list)+n > s.limit {
			break
		}
		for k, i := r.Start, 0; i < n; i++ {
			s.list = append(s.list, k)
			k += r.Stride()
		}
		taken++
		if r.Pad > 0 {
			pad = true
			break
		}
	}
	if taken < 2 || len(s.list) == 0 {
		return piece, false, false
	}
	s.ranges = s.ranges[taken:]
	return span{n: len(s.list), list: s.list}, pad, true
}
