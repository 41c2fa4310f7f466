package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/trace"
	"github.com/hawkeye-audit/hawkeye/core/trace/tracetest"
)

// traceCases are golden cases of few elements that are exact, a few of each family, layout and epilogue.
func traceCases(t *testing.T) []*cases.Case {
	t.Helper()
	golden, err := cases.ReadGolden(goldenPath)
	if err != nil {
		t.Fatal(err)
	}
	var list []*cases.Case
	seen := map[string]int{}
	for _, c := range golden.Cases {
		batch, m, n, k := c.Sizes()
		family := choose(c, Options{}).family
		key := family + c.Op + c.A.Format.String()
		if batch*m*n*k < 1<<20 && batch*(m*k+k*n) < 50000 && seen[key] < 1 {
			seen[key]++
			list = append(list, c)
		}
	}
	return list
}

// TestTraceVerdicts: a case gives the same verdict from a trace as from the golden set.
func TestTraceVerdicts(t *testing.T) {
	list := traceCases(t)
	if len(list) < 20 {
		t.Fatalf("only %d cases", len(list))
	}
	w := tracetest.New(t, filepath.Join(t.TempDir(), "run.hawk"))
	for i, c := range list {
		w.Add(i%2, c, tracetest.More{})
	}
	root := w.Seal()
	s := openSet(t, w.Dir)
	var about struct {
		Kind         string
		Cases        int
		MultiplyAdds uint64 `json:"multiply_adds"`
		Trace        struct {
			Sealed   bool
			Root     string
			Problems []*trace.Problem
			Ranks    []struct{ Rank, Lines int }
		}
	}
	if err := json.Unmarshal(s.AboutJSON(), &about); err != nil {
		t.Fatal(err)
	}
	if about.Kind != "trace" || about.Cases != len(list) || !about.Trace.Sealed || about.Trace.Root != root || len(about.Trace.Problems) != 0 ||
		len(about.Trace.Ranks) != 2 || about.Trace.Ranks[0].Lines+about.Trace.Ranks[1].Lines != len(list) {
		t.Errorf("%s", s.AboutJSON())
	}
	total := uint64(0)
	for i := range list {
		total += list[i].MultiplyAdds()
		j := i / 2 // the ranks stand one behind the other
		if i%2 == 1 {
			j += about.Trace.Ranks[0].Lines
		}
		want := replayed(t, list[i], nil)
		got, err := s.Replay(t.Context(), j, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Outcome != want.Outcome || got.Plan != want.Plan || got.ProfileID != want.ProfileID || got.Reason != want.Reason || got.Broken != nil {
			t.Errorf("%s: %s (%s), want %s (%s)", list[i].ID, got.Outcome, got.Reason, want.Outcome, want.Reason)
		}
		if c, err := s.Case(j); err != nil || c.ID != got.ID || c.Op != list[i].Op {
			t.Errorf("%s: case %v, %v", list[i].ID, c, err)
		}
	}
	if about.MultiplyAdds != total {
		t.Errorf("%d multiply-adds, want %d", about.MultiplyAdds, total)
	}
}

// searchedCase is a golden case whose plan is found by searching.
func searchedCase(t *testing.T) (*cases.Case, Verdict) {
	t.Helper()
	for _, c := range traceCases(t) {
		c.Kernels, c.Launches = nil, nil
		if v := replayed(t, c, nil); v.Outcome == Exact && v.PlansTried > 1 && len(v.Others) == 0 {
			return c, v
		}
	}
	t.Fatal("no small case is found by searching")
	return nil, Verdict{}
}

// TestReusedProfile: a profile that was found is tried first on later lines of the same signature, confirmed on each, and no
// help to a wrong output.
func TestReusedProfile(t *testing.T) {
	c, first := searchedCase(t)
	w := tracetest.New(t, filepath.Join(t.TempDir(), "run.hawk"))
	w.Add(0, c, tracetest.More{})
	w.Add(0, c, tracetest.More{Step: 1})
	wrong := *c
	wrong.Out.Hash = strings.Repeat("0", 64)
	w.Add(0, &wrong, tracetest.More{Step: 2})
	other := *c
	other.Flags.ReducedReductions = !c.Flags.ReducedReductions
	w.Add(0, &other, tracetest.More{Step: 3})
	w.Add(0, c, tracetest.More{Step: 4})
	w.Seal()
	s := openSet(t, w.Dir)
	for i, want := range []struct {
		outcome Outcome
		reused  bool
	}{{Exact, false}, {Exact, true}, {replayed(t, &wrong, nil).Outcome, false}, {Exact, false}, {Exact, true}} {
		v, err := s.Replay(t.Context(), i, Options{})
		if err != nil || v.Outcome != want.outcome || v.Reused != want.reused {
			t.Errorf("line %d: %s, reused %v, %s, %v; want %v", i, v.Outcome, v.Reused, v.Reason, err, want)
		}
		if exact := v.Outcome == Exact; exact && (v.ProfileID != first.ProfileID || v.EvidenceBits < wantedBits || (v.PlansTried == 1) != v.Reused) {
			t.Errorf("line %d: %+v", i, v)
		}
	}
	// A profile that is given is the only one, and blind is another search.
	if v, err := s.Replay(t.Context(), 1, Options{Blind: true}); err != nil || v.Reused || v.Outcome != Exact {
		t.Errorf("blind: %+v, %v", v, err)
	}
	stop := errors.New("stop")
	if v, err := s.Replay(t.Context(), 1, Options{Progress: func(_, _ uint64) error { return stop }}); !errors.Is(err, stop) || v.Outcome != Undecided {
		t.Errorf("stopped: %+v, %v", v, err)
	}
}

// TestBrokenTrace: a line that is not as it was written is never exact, nor wrong: the verdict names the place.
func TestBrokenTrace(t *testing.T) {
	c, _ := searchedCase(t)
	for _, test := range []struct {
		name  string
		spoil func(dir string, l *trace.Line) (string, func([]byte) []byte)
		field string
		lines []int // of the verdicts that are broken
	}{
		{"a bit of an operand", func(_ string, l *trace.Line) (string, func([]byte) []byte) {
			return tracetest.TensorFile(l.Case.B.File), func(b []byte) []byte { b[len(b)-1] ^= 4; return b }
		}, "b.file", []int{0, 1, 2}},
		{"an operand gone", func(_ string, l *trace.Line) (string, func([]byte) []byte) {
			return tracetest.TensorFile(l.Case.A.File), func([]byte) []byte { return nil }
		}, "a.file", []int{0, 1, 2}},
		{"the hash of an output", func(_ string, l *trace.Line) (string, func([]byte) []byte) {
			return tracetest.IndexFile(0), func(b []byte) []byte {
				return bytes.Replace(b, []byte(l.Case.Out.Hash), []byte(strings.Repeat("1", 64)), 1)
			}
		}, "", []int{0}},
		{"a flag", func(string, *trace.Line) (string, func([]byte) []byte) {
			return tracetest.IndexFile(0), func(b []byte) []byte {
				return bytes.Replace(b, []byte(`"flags":{`), []byte(`"flags":{"use_fast_accum":true,`), 1)
			}
		}, "", []int{0}},
		{"a line removed", func(string, *trace.Line) (string, func([]byte) []byte) {
			return tracetest.IndexFile(0), func(b []byte) []byte { return b[bytes.IndexByte(b, '\n')+1:] }
		}, "seq", []int{0}},
	} {
		w := tracetest.New(t, filepath.Join(t.TempDir(), "run.hawk"))
		for step := range 3 {
			w.Add(0, c, tracetest.More{Step: step})
		}
		w.Seal()
		l, err := openSet(t, w.Dir).Trace().Line(0)
		if err != nil {
			t.Fatal(err)
		}
		name, change := test.spoil(w.Dir, l)
		path := filepath.Join(w.Dir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, change(data), 0o600); err != nil {
			t.Fatal(err)
		}
		s := openSet(t, w.Dir)
		broken := map[int]bool{}
		for _, i := range test.lines {
			broken[i] = true
		}
		for i := range s.Len() {
			v, err := s.Replay(t.Context(), i, Options{})
			if err != nil || (v.Broken != nil) != broken[i] {
				t.Errorf("%s, line %d: %+v, %v", test.name, i, v, err)
				continue
			}
			if broken[i] && (v.Outcome != Undecided || v.Broken.Line != i+1 || v.Broken.Field != test.field || !strings.HasPrefix(v.Reason, "the trace is broken: rank-0000.jsonl, line ")) {
				t.Errorf("%s, line %d: %s, %s, %v", test.name, i, v.Outcome, v.Reason, v.Broken)
			}
			if !broken[i] && v.Outcome != Exact {
				t.Errorf("%s, line %d: %s, %s", test.name, i, v.Outcome, v.Reason)
			}
		}
	}
	if _, err := OpenSet(t.TempDir()); err == nil || !strings.Contains(err.Error(), "manifest.json") {
		t.Errorf("a folder that is no trace: %v", err)
	}
}
