package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// A record is a golden line to be, with its stored output elements.
type record struct {
	line   map[string]any
	stored []byte
}

// newRecord is a multiplication by one kernel list; extra fields replace the common ones.
func newRecord(kernels []string, extra map[string]any) *record {
	line := map[string]any{"op": "mm", "m": 32, "n": 48, "k": 96, "batch": 1, "a": "bf16", "b": "bf16", "out": "bf16",
		"layout": "NN", "kind": "normal", "seed": 5, "kernels": kernels}
	maps.Copy(line, extra)
	return &record{line: line}
}

func (r *record) write(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "set.jsonl")
	text, err := json.Marshal(r.line)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{path: text, strings.TrimSuffix(path, ".jsonl") + ".bin": r.stored} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// compute is the output under a named profile's step, in a plan and an epilogue's form.
func (r *record) compute(t *testing.T, name string, order plan.Plan, form profile.Form) []byte {
	t.Helper()
	golden, err := cases.ReadGolden(r.write(t))
	if err != nil {
		t.Fatal(err)
	}
	c := golden.Cases[0]
	operands, err := c.Materialize()
	if err != nil {
		t.Fatal(err)
	}
	base, err := profile.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	p := &profile.Profile{SchemaVersion: profile.SchemaVersion, Step: base.Step, Plan: order,
		Epilogue: profile.Epilogue{Out: c.Out.Format, Form: form}}
	batch, m, n, _ := c.Sizes()
	out := make([]byte, batch*m*n*c.Out.Format.Bytes())
	err = gemm.Run(context.Background(), &gemm.Args{Profile: p, A: operands.A, B: operands.B, C: operands.C,
		D: gemm.Dense(out, c.Out.Format, batch, m, n), Alpha: c.Number("alpha", 1), Beta: c.Number("beta", 1)})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (r *record) hash(out []byte) {
	sum := sha256.Sum256(out)
	r.line["sha256"] = hex.EncodeToString(sum[:])
}

func (r *record) replay(t *testing.T) Verdict {
	t.Helper()
	set, err := OpenSet(r.write(t))
	if err != nil {
		t.Fatal(err)
	}
	v, err := set.Replay(context.Background(), 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (r *record) wants(t *testing.T, what string, outcome Outcome, reason string) Verdict {
	t.Helper()
	v := r.replay(t)
	if v.Outcome != outcome || !strings.Contains(v.Reason, reason) {
		t.Errorf("%s: %s (%s), want %s (…%s…)", what, v.Outcome, v.Reason, outcome, reason)
	}
	return v
}
