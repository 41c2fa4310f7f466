package verify

import (
	"context"

	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// How many stored elements each round of the elimination looks at: most wrong plans fall in the first. What is left after
// the last round is run whole, which costs less than more single elements would.
var rounds = []int{4, 28}

// eliminate keeps the candidates that agree on the stored elements. One candidate alone is not put to this test: its whole
// output is compared anyway.
func (r *replay) eliminate(ctx context.Context, candidates []candidate) ([]candidate, error) {
	if len(candidates) == 1 || len(r.known.samples) == 0 {
		return candidates, nil
	}
	return r.sift(ctx, candidates)
}

// sift looks at more and more stored elements, until one candidate is left or enough were looked at.
func (r *replay) sift(ctx context.Context, candidates []candidate) ([]candidate, error) {
	order := spread(len(r.known.samples))
	for _, count := range rounds {
		count = min(count, len(order))
		at, want := make([]gemm.Position, count), make([]uint64, count)
		for i, o := range order[:count] {
			at[i], want[i] = r.known.at[o], r.known.samples[o]
		}
		order = order[count:]
		var kept []candidate
		for _, candidate := range candidates {
			if err := r.poll(); err != nil {
				return nil, err
			}
			got, err := gemm.Elements(ctx, r.args(candidate, nil), at)
			if err != nil {
				return nil, err
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			differing := 0
			for i := range got {
				if got[i] != want[i] {
					differing++
				}
			}
			if differing == 0 {
				kept = append(kept, candidate)
			} else {
				r.rejected, r.tested, r.disagreed = r.rejected+1, r.tested+count, r.disagreed+differing
			}
		}
		candidates = kept
		if len(candidates) <= 1 || len(order) == 0 {
			break
		}
	}
	return candidates, nil
}

// spread orders n indices so that any beginning of the list covers the whole: by a stride that shares no factor with n.
func spread(n int) []int {
	order := make([]int, 0, n)
	stride := max(n*5/8, 1)
	for gcd(stride, n) != 1 {
		stride++
	}
	for i := range n {
		order = append(order, i*stride%n)
	}
	return order
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// others are the plans, not run whole, that may give the output that agrees with the record too. Where no elements are
// stored they are sifted now, on elements of that output.
func (r *replay) others(ctx context.Context, out []byte, plans []candidate) ([]candidate, error) {
	if len(r.known.samples) > 0 || len(plans) == 0 {
		return plans, nil
	}
	r.known.sample(out, r.c)
	return r.sift(ctx, plans)
}
