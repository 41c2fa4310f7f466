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
	first, rowPad, columnPad := j.newRunner(memory)
	if wasted(j.columns.lanes, rowPad, j.rows.lanes, columnPad) < wasted(j.rows.lanes, rowPad, j.columns.lanes, columnPad) {
		j.rows, j.columns, j.swapped = j.columns, j.rows, true
		first, rowPad, columnPad = j.newRunner(memory)
	}
	tiles := j.cut(threads, rowPad, columnPad)
	return j.run(first, tiles, min(threads, tiles.count))
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

func (j *job) cut(threads, rowPad, columnPad int) tiling {
	t := tiling{rows: j.rows.lanes, columns: j.columns.lanes, rowTile: tileRows, columnTile: tileColumns}
	if j.tree.Depth() > 1 {
		t.rowTile = mergedRows
	}
	if j.level == simd.Oracle {
		t.rowTile, t.columnTile = oracleTile, oracleTile
	}
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

func (j *job) run(first runner, tiles tiling, threads int) error {
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
					run, _, _ = j.newRunner(memory)
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
