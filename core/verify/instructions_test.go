package verify

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hawkeye-audit/hawkeye/simd"
)

// recordedInstructions finds results of single instructions on A100, L40S, H100, B200, which are no part of this
// repository.
func recordedInstructions(t *testing.T) *Set {
	t.Helper()
	path, named := os.LookupEnv("HAWKEYE_INSTRUCTIONS")
	if !named {
		path = filepath.Join("..", "..", "..", "shared", "goldens", "instructions.jsonl")
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "instructions.jsonl")
	}
	if _, err := os.Stat(path); err != nil && !named {
		t.Skip("recorded instructions are no part of the repository: set HAWKEYE_INSTRUCTIONS to instructions.jsonl, its .bin beside it")
	}
	return openSet(t, path)
}

// TestInstructions: every row of every recorded instruction, at every level.
func TestInstructions(t *testing.T) {
	s := recordedInstructions(t)
	for _, level := range simd.Levels() {
		t.Run(level.String(), func(t *testing.T) {
			useLevel(t, level)
			start, rows := time.Now(), 0
			for i := range s.Len() {
				v, err := s.Replay(t.Context(), i, Options{})
				if err != nil || v.Outcome != Exact || v.Elements != s.instructions.Sets[i].Rows || v.Elements == 0 {
					t.Errorf("%s: %s of %d rows, %v: %s", v.ID, v.Outcome, v.Elements, err, v.Reason)
				}
				rows += v.Elements
			}
			t.Logf("%d sets, %d rows exact, in %.2f s", s.Len(), rows, time.Since(start).Seconds())
			if s.Len() != 26 || rows != 130000 {
				t.Errorf("%d sets of %d rows, want 26 of 130000", s.Len(), rows)
			}
		})
	}
}
