package gemm

import (
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// integers runs exact sums of 8-bit integer products.
type integers struct {
	int32Merge
	panels[simd.PanelInt8]
	kernel *simd.Int8
}

func newIntegers(j *job, memory *workspace) *integers {
	k := simd.Int8Kernel(j.level)
	return &integers{kernel: k, panels: panels[simd.PanelInt8]{job: j, memory: &memory.int8, mr: k.MR, nr: k.NR, kc: k.KC, packA: k.PackA, packB: k.PackB}}
}

func (c *integers) chain(acc []int32, ld int, t tile, ranges []plan.Range) {
	for _, r := range ranges {
		c.strips(t, r, func(row, column int, a, b *simd.PanelInt8, _, _ int) {
			c.kernel.Run(acc[row*ld+column:], ld, a, b)
		})
		if c.job.stopped() {
			return
		}
	}
}
