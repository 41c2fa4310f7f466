package explain

import (
	"context"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
)

// TestOneSerialSlice: where all of K fits in the first slice, the parts inside it are no slices of the serial sum.
func TestOneSerialSlice(t *testing.T) {
	p := load(t, "hopper/f16")
	p.Plan = plan.SerialK(4, 1000, plan.SplitK(3, 64, plan.Plain(), format.F32, format.F32))
	text, err := Profile(p, About{K: 190})
	if err != nil {
		t.Fatal(err)
	}
	has(t, text, "3 accumulators of 64, 64 and 62 products, in 1 slice (3 of the 4 slices have nothing to do)")
}

// TestRoundingsCounted: a step that rounds several times is not counted as one rounding.
func TestRoundingsCounted(t *testing.T) {
	for name, said := range map[string]bool{"hopper/e4m3-mma": false, "hopper/e5m2-mma-f16": false, "cdna2/f16": false, "cdna1/bf16-pairwise": false,
		"hopper/bf16": true, "cdna1/f16-exact": true, "cdna3/bf16": true, "hopper/f32": true} {
		text, err := Profile(load(t, name), About{K: 64})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(text, "In all an element is rounded"); got != said {
			t.Errorf("%s: says how often an element is rounded: %v, want %v: %s", name, got, said, text)
		}
	}
	one := load(t, "hopper/f16")
	text, err := Profile(one, About{K: 16})
	if err != nil {
		t.Fatal(err)
	}
	has(t, text, "rounded 2 times (without addend and factors): 1 time in steps, 1 on the way out")
}

// TestFirstPartRounded: a first partial sum that the merge rounds to f16 does not begin with +0.
func TestFirstPartRounded(t *testing.T) {
	p := load(t, "hopper/f16")
	const k = 4
	values := make([]byte, 2*k)
	for i := range k {
		values[2*i], values[2*i+1] = 0x01, 0x3c // 1 + 2^-10, whose square f16 does not hold
	}
	a, b := gemm.Dense(values, format.F16, 1, 1, k), gemm.Dense(values, format.F16, 1, k, 1)
	for _, partial := range []format.Format{format.F16, format.F32} {
		p.Plan = plan.SplitK(2, 2, plan.Plain(), partial, format.F16)
		p.Plan.Split.Merge.FromZero = false
		sums, err := trace(context.Background(), &gemm.Args{Profile: p, A: a, B: b, Alpha: 1, Beta: 1}, gemm.Position{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := sums[1].what(), "rounds a partial sum to f16"; got != want {
			t.Errorf("partial sums in %v: %q, want %q", partial, got, want)
		}
	}
}
