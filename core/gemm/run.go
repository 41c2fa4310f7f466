package gemm

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hawkeye-audit/hawkeye/simd"
)

// Tile sizes before padding and balancing: an accumulator tile of 512 × 512 f32 is 1 MiB, and packing a strip of k then costs
// a few per cent of the multiply-adds it serves.
const (
	tileRows    = 512
	tileColumns = 512
	// A plan that merges keeps several such tiles, which are to stay in the second cache.
	mergedRows = 128
	// The scalar model is slow enough that small tiles balance and stop better.
	oracleTile = 16
	// Elements walked one by one need no large tiles either.
	aloneTile = 8
	// scatteredBytes is how much of an operand a tile may read where it reads it in many passes, so that all but the first
	// find it in the second cache.
	scatteredBytes = 256 << 10
)

// progressInterval is how often the calling goroutine reports.
const progressInterval = 100 * time.Millisecond

// Run computes D. It returns an *Error for what it refuses, the progress callback's error, or the context's; D is
// unspecified after either of the last two. A panic, the callback's too, is returned as an error.
func Run(ctx context.Context, a *Args) error {
	var err error
	if fault := guard(func() { err = run(ctx, a) }); fault != nil {
		return fault
	}
	return err
}

func run(ctx context.Context, a *Args) error {
	var j *job
	var err error
	// The host's rounding mode must not reach alpha and beta on their way to f32.
	simd.WithDefaultFloats(func() {
		if err = a.check(); err == nil && !a.D.Empty() {
			j, err = newJob(ctx, a)
		}
	})
	if err != nil || j == nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	threads := a.Threads
	if threads <= 0 {
		threads = DefaultThreads()
	}
	memory := workspaces.Get().(*workspace)
	defer workspaces.Put(memory)
	if j.level != simd.Oracle && j.fastFMA() && j.alone(j.rows.lanes*j.columns.lanes, j.rows.lanes, j.columns.lanes) {
		tiles := j.cut(threads, aloneTile, aloneTile, 1, 1)
		return j.run(j.tileRunner, j.tileRunner(memory), tiles, min(threads, tiles.count))
	}
	first, rowPad, columnPad := j.newRunner(memory)
	if wasted(j.columns.lanes, rowPad, j.rows.lanes, columnPad) < wasted(j.rows.lanes, rowPad, j.columns.lanes, columnPad) {
		j.rows, j.columns, j.swapped = j.columns, j.rows, true
		first, rowPad, columnPad = j.newRunner(memory)
	}
	rowTile, columnTile := j.tileSize()
	tiles := j.cut(threads, rowTile, columnTile, rowPad, columnPad)
	again := func(memory *workspace) runner {
		r, _, _ := j.newRunner(memory)
		return r
	}
	return j.run(again, first, tiles, min(threads, tiles.count))
}

// wasted counts the accumulators that padding to whole kernel tiles adds.
func wasted(rows, rowPad, columns, columnPad int) int {
	return roundUp(rows, rowPad)*roundUp(columns, columnPad) - rows*columns
}

// tiling numbers the tiles of a job: batch by batch, down the rows within a column block, so that neighbours share
// columns.
type tiling struct {
	rows, columns, rowTile, columnTile int
	down, across                       int
	count                              int
}

// tileSize is how large tiles may become.
func (j *job) tileSize() (rows, columns int) {
	if j.level == simd.Oracle {
		return oracleTile, oracleTile
	}
	rows, columns = tileRows, tileColumns
	if j.tree.Depth() > 1 {
		rows = mergedRows
	}
	// Chains that together read whole lines of memory, each a few bytes of them; but not where chains are so short that it is
	// their number that counts.
	if j.size.scattered*2 > j.size.products && j.size.leaves*16 < j.size.products {
		fit := func(o *operand, lanes int) int {
			if o.laneStride == 1 {
				return lanes
			}
			return min(lanes, max(scatteredBytes/max(j.args.A.Columns*o.size, 1), 1))
		}
		rows, columns = fit(&j.rows, rows), fit(&j.columns, columns)
	}
	return rows, columns
}

func (j *job) cut(threads, rowTile, columnTile, rowPad, columnPad int) tiling {
	t := tiling{rows: j.rows.lanes, columns: j.columns.lanes, rowTile: rowTile, columnTile: columnTile}
	count := func() int {
		t.rowTile, t.columnTile = roundUp(min(t.rowTile, t.rows), rowPad), roundUp(min(t.columnTile, t.columns), columnPad)
		t.down, t.across = ceilDiv(t.rows, t.rowTile), ceilDiv(t.columns, t.columnTile)
		t.count = j.batch * t.down * t.across
		return t.count
	}
	// Several tiles a thread keep all of them busy to the end; very small ones would spend their time packing.
	for threads > 1 && count() < 2*threads {
		switch {
		case t.columnTile > 64 && t.columnTile >= t.rowTile && t.columnTile > columnPad:
			t.columnTile = roundUp(t.columnTile/2, columnPad)
		case t.rowTile > 32 && t.rowTile > rowPad:
			t.rowTile = roundUp(t.rowTile/2, rowPad)
		default:
			count()
			return t
		}
	}
	count()
	return t
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func (t *tiling) tile(i int) tile {
	perBatch := t.down * t.across
	batch, i := i/perBatch, i%perBatch
	row, column := i%t.down*t.rowTile, i/t.down*t.columnTile
	return tile{batch: batch, row: row, rows: min(t.rowTile, t.rows-row), column: column, columns: min(t.columnTile, t.columns-column)}
}

func (j *job) run(again func(*workspace) runner, first runner, tiles tiling, threads int) error {
	if threads <= 1 && j.args.Progress == nil && j.ctx.Done() == nil {
		return guard(func() {
			simd.WithDefaultFloats(func() {
				for i := range tiles.count {
					first(tiles.tile(i))
				}
			})
		})
	}
	var next atomic.Int64
	var group errgroup.Group
	for w := range threads {
		group.Go(func() error {
			return guard(func() {
				run := first
				if w > 0 {
					memory := workspaces.Get().(*workspace)
					defer workspaces.Put(memory)
					run = again(memory)
				}
				simd.WithDefaultFloats(func() {
					for !j.stopped() {
						i := int(next.Add(1)) - 1
						if i >= tiles.count {
							return
						}
						run(tiles.tile(i))
					}
				})
			})
		})
	}
	finished := make(chan error, 1)
	go func() { finished <- group.Wait() }()
	return j.watch(finished)
}

// watch reports progress from the calling goroutine until the workers are done. A refusal from the callback or the
// context stops the workers, which is waited for: afterwards nobody touches the caller's memory.
func (j *job) watch(finished <-chan error) error {
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	var stop error
	halt := func(err error) {
		if stop == nil {
			stop = err
			j.cancel.Store(true)
		}
	}
	cancelled := j.ctx.Done()
	for {
		select {
		case err := <-finished:
			if stop != nil {
				return stop
			}
			if err == nil {
				err = j.report(j.total)
			}
			return err
		case <-cancelled:
			halt(context.Cause(j.ctx))
			cancelled = nil
		case <-ticker.C:
			if stop == nil {
				if err := j.report(min(j.done.Load(), j.total)); err != nil {
					halt(err)
				}
			}
		}
	}
}

// report calls the callback; a panic in it stops the run like an error, since workers must not outlive the call.
func (j *job) report(done uint64) (err error) {
	if j.args.Progress == nil {
		return nil
	}
	if fault := guard(func() { err = j.args.Progress(done, j.total) }); fault != nil {
		return fault
	}
	return err
}

// guard turns a panic into an error: a fault of Hawkeye's must not take its host down.
func guard(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("internal fault: %v", r)
		}
	}()
	f()
	return nil
}
