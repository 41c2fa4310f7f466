package gemm_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// slowCall is a multiplication that takes the scalar model many seconds.
func slowCall(t *testing.T, level simd.Level) (*gemm.Args, []byte) {
	p := load(t, "hopper/bf16", plan.Plain(), format.F32)
	m, n, k := 300, 300, 20000
	zeros := alignedBytes(2 * (m*k + k*n))
	out := alignedBytes(4 * m * n)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range zeros { // NaN and Inf now and then, so that no kernel runs it
		zeros[i] = byte(r.Uint32())
	}
	return &gemm.Args{Profile: p, A: gemm.Dense(zeros, format.BF16, 1, m, k), B: gemm.Dense(zeros[2*m*k:], format.BF16, 1, k, n),
		D: gemm.Dense(out, format.F32, 1, m, n), Alpha: 1, Beta: 1, Threads: 2, Level: &level}, out
}

// settled fails where memory still changes.
func settled(t *testing.T, name string, memory []byte) {
	t.Helper()
	before := bytes.Clone(memory)
	time.Sleep(30 * time.Millisecond)
	if !bytes.Equal(before, memory) {
		t.Errorf("%s: D is written after the call has returned", name)
	}
}

var errStop = errors.New("enough")

// TestCancel: the context and the callback stop a run soon, with their own error, and nothing is written afterwards.
func TestCancel(t *testing.T) {
	for _, level := range []simd.Level{simd.Levels()[0], simd.Oracle} {
		args, out := slowCall(t, level)
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(20*time.Millisecond, func() { cancel(errStop) })
		begun := time.Now()
		err := gemm.Run(ctx, args)
		if took := time.Since(begun); !errors.Is(err, errStop) || took > 2*time.Second {
			t.Errorf("%v: a cancelled context gave %v after %v", level, err, took)
		}
		settled(t, "context, "+level.String(), out)

		args, out = slowCall(t, level)
		calls := 0
		args.Progress = func(done, total uint64) error {
			if calls++; total != 300*300*20000 || done > total {
				t.Errorf("%v: progress of %d in %d", level, done, total)
			}
			return errStop
		}
		begun = time.Now()
		err = gemm.Run(context.Background(), args)
		if took := time.Since(begun); !errors.Is(err, errStop) || took > 2*time.Second {
			t.Errorf("%v: a refusing callback gave %v after %v", level, err, took)
		}
		if calls != 1 {
			t.Errorf("%v: the callback was called %d times after its error", level, calls-1)
		}
		settled(t, "callback, "+level.String(), out)

		args, out = slowCall(t, level)
		args.Progress = func(_, _ uint64) error { panic("in the callback") }
		if err := gemm.Run(context.Background(), args); err == nil {
			t.Errorf("%v: a panic of the callback was lost", level)
		}
		settled(t, "panic, "+level.String(), out)
	}
}

// TestCancelledBefore: a context that is already cancelled runs nothing.
func TestCancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 20 {
		args := valid(t)
		if err := gemm.Run(ctx, args); !errors.Is(err, context.Canceled) {
			t.Fatalf("Run: %v", err)
		}
		if args.D.Bits(0, 0, 0) != 0x5A5A {
			t.Fatal("D was written")
		}
		if _, err := gemm.Elements(ctx, args, []gemm.Position{{}}); !errors.Is(err, context.Canceled) {
			t.Fatalf("Elements: %v", err)
		}
	}
}

// TestProgress: what is reported grows up to the whole, on the calling goroutine, and changes no bit.
func TestProgress(t *testing.T) {
	p := load(t, "hopper/bf16", plan.SplitK(3, 64, plan.Tiled(plan.ResidueFirst, 32), format.F32, format.F32), format.F32)
	a, b := operandsOf(rand.New(rand.NewPCG(1, 1)), p, "bits", 2, 60, 50, 4000)
	level := simd.Levels()[0]
	want := run(t, level, p, a, b, nil)
	last, total := uint64(0), uint64(2*60*50*4000)
	var inside atomic.Int32
	got := run(t, level, p, a, b, func(args *gemm.Args) {
		args.Threads = 3
		args.Progress = func(done, all uint64) error {
			if inside.Add(1) != 1 {
				t.Error("two calls at once")
			}
			defer inside.Add(-1)
			if done < last || done > all || all != total {
				t.Errorf("%d of %d after %d", done, all, last)
			}
			last = done
			return nil
		}
	})
	if last != total {
		t.Errorf("the last report was %d of %d", last, total)
	}
	if !bytes.Equal(got, want) {
		t.Error("reporting changed the bits")
	}
}

// TestLastReportMayRefuse: the error of the last report, after which all is done, is returned too.
func TestLastReportMayRefuse(t *testing.T) {
	args := valid(t)
	args.Progress = func(done, total uint64) error {
		if done == total {
			return errStop
		}
		return nil
	}
	if err := gemm.Run(context.Background(), args); !errors.Is(err, errStop) {
		t.Errorf("%v", err)
	}
}

// TestCancelEveryPath: each path of the package looks at the stop sign often enough.
func TestCancelEveryPath(t *testing.T) {
	const m, n, k = 700, 900, 400000
	for name, p := range sums(t) {
		for _, level := range []simd.Level{simd.Levels()[0], simd.Portable} {
			a, b := operandsOf(rand.New(rand.NewPCG(1, 1)), p, "bits", 1, 1, 1, 1)
			a.Rows, a.Columns, b.Rows, b.Columns = m, k, k, n // one element all over: no memory
			a.RowStride, a.ColumnStride, b.RowStride, b.ColumnStride = 0, 0, 0, 0
			out := alignedBytes(m * n * p.Epilogue.Out.Bytes())
			ctx, cancel := context.WithCancelCause(context.Background())
			time.AfterFunc(10*time.Millisecond, func() { cancel(errStop) })
			begun := time.Now()
			err := gemm.Run(ctx, &gemm.Args{Profile: p, A: a, B: b, D: gemm.Dense(out, p.Epilogue.Out, 1, m, n), Alpha: 1, Beta: 1, Threads: 2, Level: &level})
			if took := time.Since(begun); !errors.Is(err, errStop) || took > 2*time.Second {
				t.Errorf("%s, %v: %v after %v", name, level, err, took)
			}
			settled(t, name, out)
		}
	}
}
