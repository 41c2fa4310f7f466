package plan

import "github.com/hawkeye-audit/hawkeye/core/format"

// Plain is one accumulator, k ascending.
func Plain() Plan { return Plan{Chain: &Chain{}} }

// Tiled takes the residue of K modulo tile first or last, in a zero-padded tile of its own.
func Tiled(where Residue, tile int) Plan { return Plan{Chain: &Chain{Residue: where, Tile: tile}} }

// SplitK cuts K into slices and adds their partial sums in the format sum, from +0, each first rounded to workspace.
func SplitK(slices, grain int, of Plan, workspace, sum format.Format) Plan {
	return Plan{Split: &Split{Slices: slices, Grain: grain, Of: &of, Merge: Merge{Partial: workspace, Sum: sum, FromZero: true}}}
}

// Promoted restarts the accumulator every interval k and adds the totals in f32.
func Promoted(interval int, of Plan) Plan {
	return Plan{Promote: &Promote{Interval: interval, Of: &of, Merge: In(format.F32)}}
}

// SerialK cuts K into slices that are added in the output, one after another.
func SerialK(slices, grain int, of Plan) Plan {
	return Plan{Serial: &Serial{Slices: slices, Grain: grain, Of: &of}}
}

// Dealt deals k in runs to lanes in turn and adds their sums by folds: gemv and gemmSN kernels.
func Dealt(lanes, run int, of Plan, folds []Fold, merge Merge) Plan {
	return Plan{Lanes: &Lanes{Count: lanes, Run: run, Of: &of, Folds: folds, Merge: merge}}
}

// Contiguous gives every lane one run of ceil(K/lanes) k, but deals runs of most k where that is fewer.
func Contiguous(lanes, most int, of Plan, folds []Fold, merge Merge) Plan {
	p := Dealt(lanes, most, of, folds, merge)
	p.Lanes.Whole = true
	return p
}

// Strided is interleaved split-K: slice s takes the tiles s, s+slices, s+2·slices, … of tile k; partial sums are added
// from slice 0 on (xmma in two kernels).
func Strided(slices, tile int, of Plan, merge Merge) Plan {
	return Dealt(slices, tile, of, Forward(), merge)
}

// Buffered is interleaved split-K in one launch: every slice but the last is added to one of the buffers in turn, and
// the last slice adds the buffers to its own sum.
func Buffered(slices, tile, buffers int, of Plan, merge Merge) Plan {
	p := Strided(slices, tile, of, merge)
	p.Lanes.Buffers = buffers
	return p
}

// Threads of a block of a dot kernel.
const dotThreads = 128

// Dot is a dot product in two kernels (dot_kernel, reduce_1Block_kernel): tiles of 128·vector k are dealt to blocks in
// turn; each of a block's 128 threads keeps vector chains and adds them forward, the threads are added by a count-down
// tree, and the blocks 128, 64, 32 and 4 apart, then the last four forward. Measured on an H200 with vector 1 and 2 and 8
// to 56 blocks.
func Dot(blocks, vector int, merge Merge) Plan {
	thread := Plain()
	if vector > 1 {
		thread = Dealt(vector, 1, Plain(), Forward(), merge)
	}
	var folds []Fold
	for _, to := range []int{dotThreads, 64, 32, 4} {
		if to < blocks {
			folds = append(folds, Fold{To: to})
		}
	}
	folds = append(folds, Forward()...)
	return Dealt(blocks, dotThreads*vector, Dealt(dotThreads, vector, thread, CountDown(dotThreads), merge), folds, merge)
}

// Forward adds values from the first to the last.
func Forward() []Fold { return []Fold{{To: 1}} }

// CountDown halves n values until one is left, value i taking value i + half; n need not be a power of two, the first
// fold then leaves the greatest power of two below n.
func CountDown(n int) []Fold {
	if n <= 1 {
		return Forward()
	}
	var folds []Fold
	for to := 1; to < n; to *= 2 {
		folds = append([]Fold{{To: to}}, folds...)
	}
	return folds
}

// Neighbours adds pairs of neighbours until one value is left; n is a power of two.
func Neighbours(n int) []Fold {
	folds := CountDown(n)
	for i := range folds {
		folds[i].Adjacent = n > 1
	}
	return folds
}

// In is the merge that keeps everything in f.
func In(f format.Format) Merge { return Merge{Partial: f, Sum: f} }
