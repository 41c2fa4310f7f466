package gemm

import "github.com/hawkeye-audit/hawkeye/simd"

// integers runs exact sums of 8-bit integer products.
type integers struct {
	int32Merge
	panels[simd.PanelInt8, int32]
}

func newIntegers(j *job, memory *workspace) *integers {
	k := simd.Int8Kernel(j.level)
	c := &integers{panels: newPanels[simd.PanelInt8, int32](j, &memory.int8, cacheOf(j, func(c *panelCaches) *panelCache[simd.PanelInt8] { return &c.int8 }), k.MR, k.NR, k.KC)}
	c.packA, c.packB, c.kernel = k.PackA, k.PackB, k.Run
	return c
}
