package gemm

import (
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/step"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// Chains of the catalogue run on the chain kernels, whatever their rows say of NaN: the scalar model takes minutes for what
// they do in a second.
func TestCatalogueChainsAreFast(t *testing.T) {
	for _, name := range []string{"cuda-core/f32", "cuda-core/f64", "cuda-core/f16", "cuda-core/bf16"} {
		entry, ok := step.Find(name)
		if !ok {
			t.Errorf("no row is called %s", name)
			continue
		}
		if j := (&job{step: entry.Params, level: simd.Portable}); !j.fastFMA() {
			t.Errorf("%s runs on the scalar model", name)
		}
	}
}
