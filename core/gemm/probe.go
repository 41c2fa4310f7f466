package gemm

import (
	"context"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// Probe computes a few output elements of one multiplication under one profile after another, as a search for the plan of
// recorded bits does. What does not depend on the profile is done once: the lanes of the operands that the elements need
// are copied together when the probe is made, and packed strips are kept from one profile to the next, so that a further
// profile costs little more than its multiply-adds.
//
// A probe may be used by several goroutines at once. It holds copies of the rows of A and columns of B that it needs, and up
// to probeBudget of packed strips; addend, scales and start are read from the caller's memory at each call.
type Probe struct {
	args  Args // without a profile
	count int
	tiles []*probeTile
	tf32  sync.Map // *Matrix → bool: whether an f32 operand holds tf32 alone, which takes reading all of it
}

// probeBudget bounds the packed strips that a probe keeps, in bytes.
const probeBudget = 64 << 20

// probeTile is a block of rows × columns of the output that holds some of the elements. Its sizes and its numbering are
// the job's: swapped, its rows are columns of the output.
type probeTile struct {
	block
	// The block's rows and columns in A, B and C.
	rowsOfA, columnsOfB []int
	gather              sync.Once
	a, b, start         *Matrix
	caches              *panelCaches
	wanted              []bool
}

// NewProbe makes a probe of elements anywhere in the output. a.Profile is not looked at; a.D gives sizes and format, its
// memory is not touched.
func NewProbe(a *Args, at []Position) (*Probe, error) {
	p, err := newProbe(a, at)
	if err != nil {
		return nil, err
	}
	budget := new(atomic.Int64)
	budget.Store(probeBudget)
	for _, t := range p.tiles {
		t.caches = newPanelCaches(budget)
	}
	return p, nil
}

func newProbe(a *Args, at []Position) (*Probe, error) {
	if err := a.checkMatrices(); err != nil {
		return nil, err
	}
	if a.D == nil {
		return nil, fail(KindArgument, "d is missing: its sizes and format are needed, its memory is not")
	}
	if err := a.checkShapes(); err != nil {
		return nil, err
	}
	for i, p := range at {
		if p.Batch < 0 || p.Batch >= a.D.Batch || p.Row < 0 || p.Row >= a.D.Rows || p.Column < 0 || p.Column >= a.D.Columns {
			return nil, fail(KindShape, "at[%d] is (%d, %d, %d), but d is %d×%d×%d", i, p.Batch, p.Row, p.Column, a.D.Batch, a.D.Rows, a.D.Columns)
		}
	}
	p := &Probe{args: *a, count: len(at)}
	p.args.Profile, p.args.Progress = nil, nil
	for _, b := range blocksOf(at) {
		t := &probeTile{block: b}
		t.rowsOfA, t.columnsOfB = chosen(a.Rows, b.outputRows()), chosen(a.Columns, b.outputColumns())
		t.wanted = make([]bool, len(b.rows)*len(b.columns))
		for _, c := range b.cells {
			t.wanted[c.row*len(b.columns)+c.column] = true
		}
		p.tiles = append(p.tiles, t)
	}
	return p, nil
}

// chosen is list where index is nil, else what index has there.
func chosen(index, list []int) []int {
	if index == nil {
		return list
	}
	of := make([]int, len(list))
	for i, v := range list {
		of[i] = index[v]
	}
	return of
}

// Elements computes the probe's elements under a profile, as bit patterns of the format of D, in the order of the positions.
func (p *Probe) Elements(ctx context.Context, prof *profile.Profile) ([]uint64, error) {
	return p.elements(ctx, prof, false)
}

// elements forgets the gathered lanes of each tile after it, if told so.
func (p *Probe) elements(ctx context.Context, prof *profile.Profile, forget bool) ([]uint64, error) {
	values := make([]uint64, p.count)
	var err error
	fault := guard(func() {
		// From the start: the host's rounding mode must not reach alpha and beta on their way to f32.
		simd.WithDefaultFloats(func() { err = p.run(ctx, prof, values, forget) })
	})
	switch {
	case fault != nil:
		return nil, fault
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return values, nil
}

func (p *Probe) run(ctx context.Context, prof *profile.Profile, values []uint64, forget bool) error {
	a := p.args
	a.Profile = prof
	if err := a.checkProfile(); err != nil {
		return err
	}
	if err := a.checkFormatsWith(p.holdsTF32); err != nil {
		return err
	}
	if err := a.checkEpilogue(); err != nil {
		return err
	}
	call, err := newCall(ctx, &a)
	if err != nil {
		return err
	}
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, func() { call.cancel.Store(true) })()
	}
	memory := workspaces.Get().(*workspace)
	defer workspaces.Put(memory)
	var out []byte
	for _, t := range p.tiles {
		if ctx.Err() != nil {
			return nil
		}
		out = t.run(p, call, memory, values, out)
		if forget {
			t.a, t.b, t.start, t.gather = nil, nil, nil, sync.Once{}
		}
	}
	return nil
}

func (p *Probe) holdsTF32(m *Matrix) bool {
	if holds, known := p.tf32.Load(m); known {
		return holds.(bool)
	}
	holds := m.holdsTF32()
	p.tf32.Store(m, holds)
	return holds
}

// run computes the tile's elements into values, in an output of its own, whose memory it gives back to be used again.
func (t *probeTile) run(p *Probe, call *job, memory *workspace, values []uint64, out []byte) []byte {
	t.gather.Do(func() { t.copyOperands(&p.args) })
	rows, columns := len(t.rowsOfA), len(t.columnsOfB)
	a := *call.args
	size := a.D.elementSize()
	if need := rows*columns*size + 16; cap(out) < need {
		out = make([]byte, need)
	}
	a.A, a.B, a.Start, a.Rows, a.Columns = t.a, t.b, t.start, t.rowsOfA, t.columnsOfB
	d := Matrix{Data: unsafe.Pointer(unsafe.SliceData(out)), Format: a.D.Format, Batch: a.D.Batch, Rows: rows, Columns: columns, RowStride: columns, ColumnStride: 1}
	a.D = &d
	j := &job{args: &a, step: call.step, level: call.level, tree: call.tree, size: call.size, batch: 1, ctx: call.ctx, cancel: call.cancel, caches: t.caches, wanted: t.wanted}
	j.operands(&a, nil, nil)
	if t.swapped {
		j.rows, j.columns, j.swapped = j.columns, j.rows, true
	}
	if j.alone(len(t.cells), len(t.rows), len(t.columns)) {
		at := make([]place, len(t.cells))
		for i, c := range t.cells {
			at[i] = place{c.row, c.column}
		}
		j.elementRunner(memory)(t.batch, at)
	} else {
		run, _, _ := j.newRunner(memory)
		run(tile{batch: t.batch, rows: len(t.rows), columns: len(t.columns)})
	}
	for _, c := range t.cells {
		row, column := c.row, c.column
		if t.swapped {
			row, column = column, row
		}
		for _, i := range c.indices {
			values[i] = d.Bits(0, row, column)
		}
	}
	return out
}

// copyOperands copies the block's rows of A and columns of B, and its elements of Start, together.
func (t *probeTile) copyOperands(a *Args) {
	k := a.A.Columns
	t.a = &Matrix{Data: t.lanes(a.A, true, t.rowsOfA, k), Format: a.A.Format, Batch: a.A.Batch, Rows: len(t.rowsOfA), Columns: k, RowStride: k, ColumnStride: 1}
	t.b = &Matrix{Data: t.lanes(a.B, false, t.columnsOfB, k), Format: a.B.Format, Batch: a.B.Batch, Rows: k, Columns: len(t.columnsOfB), RowStride: 1, ColumnStride: k}
	if s := a.Start; s != nil {
		rows, columns := t.outputRows(), t.outputColumns()
		size := s.elementSize()
		values := make([]byte, len(rows)*len(columns)*size+16)
		t.start = &Matrix{Data: unsafe.Pointer(unsafe.SliceData(values)), Format: s.Format, Batch: s.Batch, Rows: len(rows), Columns: len(columns), RowStride: len(columns), ColumnStride: 1}
		for i, row := range rows {
			for j, column := range columns {
				store(t.start.at(0, i, j), size, s.Bits(t.batch, row, column))
			}
		}
	}
}

// lanes copies chosen lanes of the block's batch, one after another.
func (t *probeTile) lanes(m *Matrix, areRows bool, index []int, k int) unsafe.Pointer {
	o := operandOf(m, m.Format, "", areRows, index)
	memory := make([]byte, len(index)*k*o.size+64)
	if k > 0 {
		o.strip(t.batch, 0, len(index), &span{stride: 1, n: k}, false, &memory)
	}
	return unsafe.Pointer(unsafe.SliceData(memory))
}
