package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// benchOperands are strips that fill a panel.
func benchOperands(f *Fused, form format.Format, layoutA, layoutB string, k int) (a, b *operand) {
	r := rand.New(rand.NewPCG(3, 4))
	element := func(_, _ int) uint32 { return randomElement(r, form, "normal") }
	return makeOperand(form, form, "", layoutA, f.MR, k, element), makeOperand(form, form, "", layoutB, f.NR, k, element)
}

// timeBest runs f b.N times and reports what one call does at best: a call is short against the other load of a machine,
// which the mean would show. work is what a call does.
func timeBest(b *testing.B, work int, unit string, f func()) {
	best := time.Duration(math.MaxInt64)
	for b.Loop() {
		start := time.Now()
		f()
		best = min(best, time.Since(start))
	}
	if unit == "GMAC/s" {
		b.ReportMetric(float64(work)/best.Seconds()/1e9, "best-"+unit)
	} else {
		b.ReportMetric(best.Seconds()*1e9/float64(work), "best-"+unit)
	}
}

// BenchmarkFusedRun is the kernel alone, on panels in the second cache.
func BenchmarkFusedRun(b *testing.B) {
	for _, f := range fusedLevels() {
		for _, c := range []struct {
			name  string
			form  format.Format
			shape FusedShape
		}{
			{"f16", format.F16, FusedShape{16, 25, 23}},
			{"bf16", format.BF16, FusedShape{16, 25, 23}},
			{"tf32", format.TF32, FusedShape{8, 25, 23}},
			{"f16ampere", format.F16, FusedShape{8, 24, 23}},
			{"f16volta", format.F16, FusedShape{4, 23, 23}},
			{"e4m3", format.E4M3, FusedShape{32, 13, 13}},
			{"e4m3blackwell", format.E4M3, FusedShape{32, 25, 23}},
		} {
			for _, lanes := range []int{f.NR, f.NR / 4} {
				b.Run(fmt.Sprintf("%v/%s/%d", f.Level, c.name, lanes), func(b *testing.B) {
					x, y := benchOperands(f, c.form, "k", "lanes", f.KC)
					y.source.Lanes = lanes
					var pa, pb FusedPanel
					f.PackA(&pa, &x.source, c.shape)
					f.PackB(&pb, &y.source, c.shape)
					acc := make([]float32, f.MR*f.NR)
					timeBest(b, f.MR*lanes*f.KC, "GMAC/s", func() {
						clear(acc)
						if !f.Run(acc, f.NR, &pa, &pb, c.shape) {
							b.Fatal("declined")
						}
					})
				})
			}
		}
	}
}

// BenchmarkFusedPack is the packing.
func BenchmarkFusedPack(b *testing.B) {
	for _, f := range fusedLevels() {
		for _, form := range []format.Format{format.F16, format.BF16, format.TF32, format.E4M3} {
			for _, layout := range []string{"lanes", "k", "odd"} {
				shape := FusedShape{16, 25, 23}
				x, y := benchOperands(f, form, layout, layout, f.KC)
				var p FusedPanel
				b.Run(fmt.Sprintf("%v/A/%v/%s", f.Level, form, layout), func(b *testing.B) {
					timeBest(b, f.MR*f.KC, "ns/element", func() { f.PackA(&p, &x.source, shape) })
				})
				b.Run(fmt.Sprintf("%v/B/%v/%s", f.Level, form, layout), func(b *testing.B) {
					timeBest(b, f.NR*f.KC, "ns/element", func() { f.PackB(&p, &y.source, shape) })
				})
			}
		}
	}
}
