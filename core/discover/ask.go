package discover

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// vector is what one output element reads of an operand: a row of A or a column of B, the same bit pattern at every k but
// for a few.
type vector struct {
	fill uint64
	at   []entry // ascending k
}

type entry struct {
	k    int
	bits uint64
}

// key tells vectors apart.
func (v *vector) key() string {
	text := binary.LittleEndian.AppendUint64(nil, v.fill)
	for _, e := range v.at {
		text = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(text, uint32(e.k)), e.bits)
	}
	return string(text)
}

// question is one output element's operands.
type question struct {
	a, b  vector
	start uint64 // what the accumulator starts from, where the signature has that
}

// errTooManyCalls ends a discovery that asks more than it may.
var errTooManyCalls = errors.New("the calls allowed are used up")

// asker packs questions into calls of the box.
type asker struct {
	ctx   context.Context
	s     *Signature
	box   Box
	o     *Options
	phase string

	calls, questions int
	done, total      int // of the certificate

	a, b, c, d     []byte
	scaleA, scaleB []float32
	dirtyA, dirtyB map[int]bool // rows of A and columns of B, over all batches, that are not zero
}

func newAsker(ctx context.Context, s *Signature, box Box, o *Options) (*asker, error) {
	q := &asker{ctx: ctx, s: s, box: box, o: o, dirtyA: map[int]bool{}, dirtyB: map[int]bool{}}
	const most = 1 << 36 // bytes of one matrix
	size := func(n, m int, bytes int) ([]byte, error) {
		if total := float64(s.Batch) * float64(n) * float64(m) * float64(bytes); total > most {
			return nil, fmt.Errorf("discover: a matrix of %d × %d × %d elements is too large to be probed", s.Batch, n, m)
		}
		return make([]byte, s.Batch*n*m*bytes), nil
	}
	var err error
	if q.a, err = size(s.M, s.K, s.A.Info().Bytes); err != nil {
		return nil, err
	}
	if q.b, err = size(s.K, s.N, s.B.Info().Bytes); err != nil {
		return nil, err
	}
	if q.d, err = size(s.M, s.N, s.D.Info().Bytes); err != nil {
		return nil, err
	}
	switch s.Addend {
	case AddendBias:
		q.c = make([]byte, s.N*s.C.Info().Bytes)
	case AddendFull, AddendStart:
		if q.c, err = size(s.M, s.N, s.C.Info().Bytes); err != nil {
			return nil, err
		}
	}
	switch s.Scaling {
	case profile.ScalingTensor:
		q.scaleA, q.scaleB = ones(1), ones(1)
	case profile.ScalingRow:
		q.scaleA, q.scaleB = ones(s.M), ones(s.N)
	}
	return q, nil
}

func ones(n int) []float32 { return slices.Repeat([]float32{1}, n) }

// call runs the box once on what the buffers hold.
func (q *asker) call(wanted []gemm.Position) error {
	return q.callWith(&Call{A: q.a, B: q.b, C: q.c, D: q.d, ScaleA: q.scaleA, ScaleB: q.scaleB, Wanted: wanted})
}

func (q *asker) callWith(c *Call) error {
	if err := q.report(); err != nil {
		return err
	}
	if q.calls >= q.o.MaxCalls {
		return errTooManyCalls
	}
	q.calls++
	return q.box(q.ctx, c)
}

// report tells how far it is, and whether to go on.
func (q *asker) report() error {
	if q.ctx.Err() != nil {
		return context.Cause(q.ctx)
	}
	if q.o.Progress == nil {
		return nil
	}
	return q.o.Progress(Progress{Phase: q.phase, Calls: q.calls, Questions: q.questions, Done: q.done, Total: q.total})
}

// fewAnswers: the output has one row or one column, so that a call answers few questions.
func (q *asker) fewAnswers() bool { return min(q.s.M, q.s.N)*q.s.Batch < 2 }

// place is where a question stands in a call.
type place struct{ batch, row, column int }

// packing is one call being filled: which vector is which row or column of which batch.
type packing struct {
	rows, columns []map[string]int // a batch each
	taken         map[place]bool
	where         []place // of the questions, in order
}

func (q *asker) newPacking() *packing {
	p := &packing{taken: map[place]bool{}}
	for range q.s.Batch {
		p.rows, p.columns = append(p.rows, map[string]int{}), append(p.columns, map[string]int{})
	}
	return p
}

// put finds a place for a question: a row and a column that hold its vectors, or are free.
func (p *packing) put(s *Signature, a, b string) (place, bool) {
	for batch := range p.rows {
		row, hasRow := p.rows[batch][a]
		column, hasColumn := p.columns[batch][b]
		if !hasRow {
			row = len(p.rows[batch])
		}
		if !hasColumn {
			column = len(p.columns[batch])
		}
		at := place{batch, row, column}
		if row >= s.M || column >= s.N || p.taken[at] {
			continue
		}
		p.rows[batch][a], p.columns[batch][b], p.taken[at] = row, column, true
		return at, true
	}
	return place{}, false
}

// ask gives the output element of every question, as bit patterns.
func (q *asker) ask(list []question) ([]uint64, error) {
	answers := make([]uint64, 0, len(list))
	for from := 0; from < len(list); {
		p := q.newPacking()
		to := from
		for ; to < len(list); to++ {
			at, ok := p.put(q.s, list[to].a.key(), list[to].b.key())
			if !ok {
				break
			}
			p.where = append(p.where, at)
		}
		if to == from { // cannot be: an empty call takes any question
			return nil, errors.New("discover: internal fault: a question fits no call")
		}
		if err := q.run(list[from:to], p); err != nil {
			return nil, err
		}
		answers = append(answers, q.read(p.wanted())...)
		from = to
	}
	q.questions += len(list)
	return answers, nil
}

// read gives output elements.
func (q *asker) read(at []gemm.Position) []uint64 {
	size := q.s.D.Info().Bytes
	values := make([]uint64, len(at))
	for i, p := range at {
		values[i] = load(q.d[((p.Batch*q.s.M+p.Row)*q.s.N+p.Column)*size:], size)
	}
	return values
}

func (p *packing) wanted() []gemm.Position {
	list := make([]gemm.Position, len(p.where))
	for i, at := range p.where {
		list[i] = gemm.Position{Batch: at.batch, Row: at.row, Column: at.column}
	}
	return list
}

func (q *asker) run(list []question, p *packing) error {
	s := q.s
	q.clear()
	sizeA, sizeB, sizeC := s.A.Info().Bytes, s.B.Info().Bytes, 0
	if s.Addend == AddendStart {
		sizeC = s.C.Info().Bytes
	}
	for i := range list {
		at := p.where[i]
		if row := at.batch*s.M + at.row; !q.dirtyA[row] {
			q.dirtyA[row] = true
			list[i].a.write(q.a[row*s.K*sizeA:], s.K, sizeA, sizeA)
		}
		if column := at.batch*s.N + at.column; !q.dirtyB[column] {
			q.dirtyB[column] = true
			list[i].b.write(q.b[(at.batch*s.K*s.N+at.column)*sizeB:], s.K, s.N*sizeB, sizeB)
		}
		if sizeC > 0 {
			cases.Put(q.c[((at.batch*s.M+at.row)*s.N+at.column)*sizeC:], sizeC, list[i].start)
		}
	}
	return q.call(p.wanted())
}

// clear makes everything zero again that an earlier call has written.
func (q *asker) clear() {
	if len(q.dirtyA) > 0 {
		clear(q.a)
	}
	if len(q.dirtyB) > 0 {
		clear(q.b)
	}
	clear(q.dirtyA)
	clear(q.dirtyB)
	clear(q.c)
}

func (v *vector) write(to []byte, k, stride, size int) {
	if v.fill != 0 {
		for i := range k {
			cases.Put(to[i*stride:], size, v.fill)
		}
	}
	for _, e := range v.at {
		cases.Put(to[e.k*stride:], size, e.bits)
	}
}

func load(from []byte, size int) uint64 {
	switch size {
	case 1:
		return uint64(from[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(from))
	case 4:
		return uint64(binary.LittleEndian.Uint32(from))
	}
	return binary.LittleEndian.Uint64(from)
}
