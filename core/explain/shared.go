package explain

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// pair is an element that both multiplications have, for equal operands.
type pair struct{ a, b gemm.Position }

// How many elements are compared to find one whose bits differ: so many products' worth, and so many elements at most.
const (
	comparedWork = 1 << 22
	comparedMost = 256
)

// show fills Element, or says in Unshown why not.
func (r *Reasons) show(ctx context.Context, a, b *cases.Case) error {
	operandsA, err := a.Materialize()
	if err != nil {
		r.Unshown = fmt.Sprintf("%s: %v", a.ID, err)
		return nil
	}
	operandsB, err := b.Materialize()
	if err != nil {
		r.Unshown = fmt.Sprintf("%s: %v", b.ID, err)
		return nil
	}
	argsA, argsB := arguments(a, operandsA, r.A.profile), arguments(b, operandsB, r.B.profile)
	most := comparedMost
	if k := a.A.Shape[2]; k > 0 {
		most = min(max(comparedWork/k, 4), most)
	}
	e := &Element{}
	pairs := sharedPairs(argsA, argsB, most)
	if len(pairs) == 0 {
		if pairs, r.Unshown = r.lend(ctx, a, argsA, &argsB, most); len(pairs) == 0 {
			return nil
		}
		e.Operands = a.ID
	}
	return r.fill(ctx, e, argsA, argsB, pairs)
}

// arguments are those of a replay, without memory for the output.
func arguments(c *cases.Case, o *cases.InMemory, p *profile.Profile) *gemm.Args {
	batch, m, n, _ := c.Sizes()
	return &gemm.Args{
		Profile: p, A: o.A, B: o.B, C: o.C, Alpha: c.Number("alpha", 1), Beta: c.Number("beta", 1), ScaleA: o.ScaleA, ScaleB: o.ScaleB,
		D: &gemm.Matrix{Format: c.Out.Format, Batch: batch, Rows: m, Columns: n, BatchStride: m * n, RowStride: n, ColumnStride: 1},
	}
}

// lend makes argsB a multiplication of A's operands by B's arithmetic, where that takes them.
func (r *Reasons) lend(ctx context.Context, a *cases.Case, argsA *gemm.Args, argsB **gemm.Args, most int) (pairs []pair, why string) {
	lent := *argsA
	lent.Profile = r.B.profile
	lent.C, lent.Alpha, lent.Beta = nil, 1, 1
	own := *argsA
	own.C, own.Alpha, own.Beta = nil, 1, 1
	if (*argsB).D.Format != lent.D.Format {
		d := *lent.D
		d.Format = (*argsB).D.Format
		lent.D = &d
	}
	const none = "no row and column are equal in both, and "
	if own.Profile.Epilogue.Scaling != lent.Profile.Epilogue.Scaling {
		return nil, none + "one scales its operands where the other does not"
	}
	batch, m, n, k := a.Sizes()
	if batch*m*n == 0 || k == 0 {
		return nil, none + r.A.ID + " has no element to compute"
	}
	first := []gemm.Position{{}}
	if _, err := gemm.Elements(ctx, &lent, first); err != nil {
		return nil, fmt.Sprintf("%s%s's arithmetic does not take %s's operands: %v", none, r.B.ID, r.A.ID, err)
	}
	for i := range min(most, batch*m*n) {
		at := i * (batch * m * n / min(most, batch*m*n)) // spread over the output
		p := gemm.Position{Batch: at / (m * n), Row: at / n % m, Column: at % n}
		pairs = append(pairs, pair{p, p})
	}
	*argsA, *argsB = own, &lent
	return pairs, ""
}

// fill compares the elements of both and shows the first that differs: in the output's bits where both have one format,
// else in the merged sum.
func (r *Reasons) fill(ctx context.Context, e *Element, argsA, argsB *gemm.Args, pairs []pair) error {
	at, bt := make([]gemm.Position, len(pairs)), make([]gemm.Position, len(pairs))
	for i, p := range pairs {
		at[i], bt[i] = p.a, p.b
	}
	outA, err := gemm.Elements(ctx, argsA, at)
	if err != nil {
		return err
	}
	outB, err := gemm.Elements(ctx, argsB, bt)
	if err != nil {
		return err
	}
	chosen, oneFormat := 0, argsA.D.Format == argsB.D.Format
	e.Compared, e.Equal = len(pairs), oneFormat
	for i := range pairs {
		if oneFormat && outA[i] != outB[i] {
			chosen, e.Equal = i, false
			break
		}
	}
	if e.Equal || !oneFormat { // then one whose sums part, if any does
		sumA, errA := gemm.Elements(ctx, bare(argsA), at)
		sumB, errB := gemm.Elements(ctx, bare(argsB), bt)
		for i := 0; errA == nil && errB == nil && i < len(pairs); i++ {
			if sumA[i] != sumB[i] {
				chosen = i
				break
			}
		}
	}
	p := pairs[chosen]
	tracedA, err := trace(ctx, argsA, p.a)
	if err != nil {
		return err
	}
	tracedB, err := trace(ctx, argsB, p.b)
	if err != nil {
		return err
	}
	e.Parting = part(tracedA, tracedB)
	e.SumA, e.SumB = *sumAt(tracedA, len(tracedA)-1), *sumAt(tracedB, len(tracedB)-1)
	e.OutA, e.OutB = value{outA[chosen], argsA.D.Format}.String(), value{outB[chosen], argsB.D.Format}.String()
	e.At, e.AtB = place(p.a, argsA.D.Batch), place(p.b, argsB.D.Batch)
	if e.Operands == "" {
		e.Shared = fmt.Sprintf("row %s of A and column %s of B", both(p.a.Row, p.b.Row, p.a.Batch, p.b.Batch, argsA.D.Batch, argsB.D.Batch),
			both(p.a.Column, p.b.Column, p.a.Batch, p.b.Batch, argsA.D.Batch, argsB.D.Batch))
	}
	r.Element = e
	return nil
}

// bare asks for the merged sum, in the accumulator's format, of a plan that has one.
func bare(a *gemm.Args) *gemm.Args {
	p, d, b := *a.Profile, *a.D, *a
	p.Epilogue.Out, d.Format = p.Step.Result, p.Step.Result
	p.Epilogue.Scaling, b.ScaleA, b.ScaleB, b.C, b.Beta = profile.ScalingNone, nil, nil, nil, 1
	if !p.Epilogue.Form.InOperand() {
		b.Alpha = 1
	}
	b.Profile, b.D = &p, &d
	return &b
}

func both(x, y, batchX, batchY, batchesX, batchesY int) string {
	index := func(i, batch, batches int) string {
		if batches > 1 {
			return fmt.Sprintf("%d of batch %d", i, batch)
		}
		return fmt.Sprint(i)
	}
	a, b := index(x, batchX, batchesX), index(y, batchY, batchesY)
	if a == b {
		return a
	}
	return fmt.Sprintf("%s (%s in the second)", a, b)
}

func place(p gemm.Position, batches int) string {
	if batches > 1 {
		return fmt.Sprintf("element (%d, %d, %d)", p.Batch, p.Row, p.Column)
	}
	return fmt.Sprintf("element (%d, %d)", p.Row, p.Column)
}

// line is a row of A or a column of B.
type line struct{ batch, index int }

// sharedPairs finds elements whose row of A and column of B have the same bits in both multiplications, most at most:
// spread over the shared rows and columns.
func sharedPairs(a, b *gemm.Args, most int) []pair {
	if a.A.Columns != b.A.Columns || a.A.Columns == 0 || a.A.Format != b.A.Format || a.B.Format != b.B.Format {
		return nil
	}
	rows := sharedLines(a.A, b.A, false, most)
	columns := sharedLines(a.B, b.B, true, most)
	var pairs []pair
	for _, row := range rows {
		for _, column := range columns {
			if row.in.batch != column.in.batch {
				continue
			}
			if r, c, ok := together(row, column); ok {
				pairs = append(pairs, pair{gemm.Position{Batch: row.in.batch, Row: row.in.index, Column: column.in.index},
					gemm.Position{Batch: r.batch, Row: r.index, Column: c.index}})
			}
		}
	}
	if len(pairs) <= most {
		return pairs
	}
	spread := make([]pair, most)
	for i := range spread {
		spread[i] = pairs[i*len(pairs)/most]
	}
	return spread
}

// shared is a line of one matrix, and the equal ones of another, by batch: the first of each, or the one at the same place.
type shared struct {
	in    line
	equal map[int]line
}

// together picks from the lines equal to a row and a column a row and a column of one batch: of the same batch, if there are
// any, else of the first.
func together(row, column shared) (r, c line, ok bool) {
	least := -1
	for batch := range row.equal {
		if _, both := column.equal[batch]; both && (least < 0 || batch == row.in.batch || least != row.in.batch && batch < least) {
			least = batch
		}
	}
	return row.equal[least], column.equal[least], least >= 0
}

// sharedLines finds lines (rows, or columns) that both matrices have.
func sharedLines(x, y *gemm.Matrix, columns bool, most int) []shared {
	known := map[[sha256.Size]byte][]line{}
	var buffer []byte
	each(y, columns, func(l line) bool {
		buffer = lineBits(buffer[:0], y, l, columns)
		sum := sha256.Sum256(buffer)
		known[sum] = append(known[sum], l)
		return true
	})
	var found []shared
	each(x, columns, func(l line) bool {
		buffer = lineBits(buffer[:0], x, l, columns)
		same := known[sha256.Sum256(buffer)]
		if len(same) == 0 {
			return true
		}
		s := shared{l, map[int]line{}}
		for _, other := range same {
			if _, have := s.equal[other.batch]; !have || other == l {
				s.equal[other.batch] = other
			}
		}
		found = append(found, s)
		return len(found) < most
	})
	return found
}

func each(m *gemm.Matrix, columns bool, f func(line) bool) {
	n := m.Rows
	if columns {
		n = m.Columns
	}
	for batch := range m.Batch {
		for i := range n {
			if !f(line{batch, i}) {
				return
			}
		}
	}
}

// lineBits appends the bits of a line.
func lineBits(to []byte, m *gemm.Matrix, l line, columns bool) []byte {
	n, size := m.Columns, m.Format.Bytes()
	if columns {
		n = m.Rows
	}
	for k := range n {
		var bits uint64
		if columns {
			bits = m.Bits(l.batch, k, l.index)
		} else {
			bits = m.Bits(l.batch, l.index, k)
		}
		for range size {
			to = append(to, byte(bits))
			bits >>= 8
		}
	}
	return to
}
