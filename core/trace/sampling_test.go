package trace_test

import (
	"path/filepath"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/trace/tracetest"
)

// TestSampling: lines that the settings would not have chosen are named. The steps and calls were computed with Python's
// hmac; for the seed 7, of the steps 0 to 11 one in three are these, and of the calls 0 to 11 of step 2 half are these.
func TestSampling(t *testing.T) {
	steps, calls := map[int]bool{3: true, 5: true, 6: true, 7: true, 9: true}, map[int]bool{0: true, 1: true, 3: true, 4: true, 7: true, 8: true, 9: true, 11: true}
	for _, seed := range []any{7, "7"} {
		w := tracetest.New(t, filepath.Join(t.TempDir(), "run.hawk"))
		w.Settings["seed"], w.Settings["every"], w.Settings["fraction"] = seed, 3, 1.0
		for step := range 12 {
			w.Add(0, few(1)[0], tracetest.More{Step: step})
		}
		w.Seal()
		opened := open(t, w.Dir)
		for step := range 12 {
			p := opened.Broken(step)
			if (p == nil) != steps[step] || p != nil && p.Field != "step" {
				t.Errorf("step %d: %v", step, p)
			}
		}
		w = tracetest.New(t, filepath.Join(t.TempDir(), "run.hawk"))
		w.Settings["seed"], w.Settings["fraction"] = seed, 0.5
		for call := range 12 {
			w.Add(0, few(1)[0], tracetest.More{Step: 2, Call: call})
		}
		w.Seal()
		opened = open(t, w.Dir)
		for call := range 12 {
			p := opened.Broken(call)
			if (p == nil) != calls[call] || p != nil && p.Field != "call" {
				t.Errorf("call %d: %v", call, p)
			}
		}
	}
	// Settings that do not say how was sampled refuse nothing.
	for _, settings := range []map[string]any{{}, {"every": 0, "fraction": 0.5, "seed": 1}, {"every": "x"}, {"every": 3, "fraction": 1, "seed": []int{1}}} {
		w := tracetest.New(t, filepath.Join(t.TempDir(), "run.hawk"))
		w.Settings = settings
		for step := range 4 {
			w.Add(0, few(1)[0], tracetest.More{Step: step, Call: step})
		}
		w.Seal()
		sound(t, open(t, w.Dir))
	}
}
