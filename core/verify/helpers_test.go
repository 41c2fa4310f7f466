package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// samplesOf takes the stored elements out of a whole output.
func samplesOf(out []byte, width int) []byte {
	var list []byte
	for _, i := range cases.SampleIndices(len(out) / width) {
		list = append(list, out[i*width:(i+1)*width]...)
	}
	return list
}

// compute runs a case under a profile of the catalogue with a plan of its own, as if a GPU had.
func compute(t testing.TB, c *cases.Case, name string, p plan.Plan, e profile.Epilogue) []byte {
	t.Helper()
	base, err := profile.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	o, err := c.Materialize()
	if err != nil {
		t.Fatal(err)
	}
	base.Plan, base.Epilogue = p, e
	base.Epilogue.Out = c.Out.Format
	if base.Epilogue.Form == "" {
		base.Epilogue.Form = profile.FormAdd
	}
	batch, m, n, _ := c.Sizes()
	out := make([]byte, batch*m*n*c.Out.Format.Bytes())
	err = gemm.Run(context.Background(), &gemm.Args{
		Profile: base, A: o.A, B: o.B, C: o.C, D: gemm.Dense(out, c.Out.Format, batch, m, n),
		Alpha: c.Number("alpha", 1), Beta: c.Number("beta", 1), ScaleA: o.ScaleA, ScaleB: o.ScaleB,
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// replayed is ReplayCase, which must not fail.
func replayed(t testing.TB, c *cases.Case, data []byte) Verdict {
	t.Helper()
	v, err := ReplayCase(context.Background(), c, data, Options{})
	if err != nil {
		t.Fatalf("%s: %v", c.ID, err)
	}
	return v
}
