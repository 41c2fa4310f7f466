package trace_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/trace"
	"github.com/hawkeye-audit/hawkeye/core/trace/tracetest"
)

// TestFacts: the root stands for what the manifest says, in whatever way it is spaced.
func TestFacts(t *testing.T) {
	write := func(t *testing.T) (string, trace.Hash) {
		w := tracetest.New(t, filepath.Join(t.TempDir(), "run.hawk"))
		w.Add(0, few(1)[0], tracetest.More{})
		root, _ := trace.ParseHash(w.Seal())
		return w.Dir, root
	}
	for _, change := range []struct{ from, to string }{
		{`"every":1`, `"every":2`}, {`"seed":0`, `"seed":1`}, {`"fraction":1`, `"fraction":1.0`}, {`"outputs":"hash"`, `"outputs":"full"`},
		{`"NVIDIA H200"`, `"NVIDIA H100"`}, {`"2.11.0"`, `"2.11.1"`}, {`"dropped":0`, `"dropped":1`}, {`"missed":"not measured"`, `"missed":0`},
		{`"created":"2026`, `"created":"2025`}, {`"torch":`, `"more":1,"torch":`}, {`"device":{"gpu":"NVIDIA H200"},`, ``},
	} {
		dir, root := write(t)
		edit(t, filepath.Join(dir, "manifest.json"), func(text []byte) []byte {
			changed := strings.Replace(string(text), change.from, change.to, 1)
			if changed == string(text) {
				t.Fatalf("%s is not in %s", change.from, text)
			}
			return []byte(changed)
		})
		opened := open(t, dir)
		list, _ := opened.Problems()
		var fields []string
		for _, p := range list {
			if p.File == "manifest.json" {
				fields = append(fields, p.Field)
			}
		}
		if fmt.Sprint(fields) != "[facts root]" || opened.CheckRoot(root) == nil {
			t.Errorf("%s made %s: %v", change.from, change.to, list)
		}
	}
	dir, root := write(t)
	edit(t, filepath.Join(dir, "manifest.json"), func(text []byte) []byte {
		spaced := strings.NewReplacer(`":`, `" :  `, `,"`, ",\n\t\"", `{`, "{ ").Replace(string(text))
		if !json.Valid([]byte(spaced)) {
			t.Fatal(spaced)
		}
		return []byte(spaced)
	})
	opened := open(t, dir)
	sound(t, opened)
	if opened.CheckRoot(root) != nil {
		t.Errorf("white space changes the root")
	}
}
