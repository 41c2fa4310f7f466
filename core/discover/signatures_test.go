package discover

import (
	"context"
	"encoding/json"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/verify"
)

var allSignatures = flag.Bool("signatures", false, "simulate all that were discovered on a GPU, not only some of the quick ones")

// TestSignatures: what the rules say of a product recorded on a GPU, asked as a black box and without suspects, is found with every
// constant of its step, and with the same sums (docs/discovered.md).
func TestSignatures(t *testing.T) {
	const set = "../../tests/goldens/h200-discovered.jsonl"
	quick := []string{"mm-f64-TN-48x80x192", "bmm-f16-NT-33x27x129-b3", "mm-f16-NN-64x64x512-f16acc", "mm-tf32-NN-63x61x255"}
	golden, err := cases.ReadGolden(set)
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	for _, c := range golden.Cases {
		name := c.ID[:strings.LastIndexByte(c.ID, '-')]
		if asked[name] || !*allSignatures && (testing.Short() || !slices.Contains(quick, name)) {
			continue
		}
		asked[name] = true
		t.Run(name, func(t *testing.T) {
			stored, err := golden.Stored(c)
			if err != nil {
				t.Fatal(err)
			}
			v, err := verify.ReplayCase(t.Context(), c, stored, verify.Options{})
			if err != nil || v.Outcome != verify.Exact {
				t.Fatalf("by the rules it is %s: %s; %v", v.Outcome, v.Reason, err)
			}
			p, err := profile.Parse(v.Profile)
			if err != nil {
				t.Fatal(err)
			}
			box := synthetic{p: p, s: signatureOf(c, p)}
			start := time.Now()
			r, err := Run(context.Background(), box.s, box.multiply(), Options{})
			if err != nil || r.Profile == nil {
				t.Fatalf("not certified: %v %+v", err, r)
			}
			t.Logf("%d calls, %.1f s", r.Calls, time.Since(start).Seconds())
			if how := box.differs(t, r.Profile, false); how != "" {
				t.Errorf("certified, and differs: %s", how)
			}
			if want, got := text(t, p.Step), text(t, r.Profile.Step); got != want {
				t.Errorf("found %s\nwant  %s", got, want)
			}
		})
	}
	if !testing.Short() && len(asked) < len(quick) {
		t.Errorf("only %v are in %s", asked, set)
	}
}

func signatureOf(c *cases.Case, p *profile.Profile) Signature {
	batch, m, n, k := c.Sizes()
	s := Signature{
		A: c.A.Format, B: c.B.Format, D: c.Out.Format, Batch: batch, M: m, N: n, K: k,
		Alpha: c.Number("alpha", 1), Beta: c.Number("beta", 1), Scaling: p.Epilogue.Scaling,
	}
	if c.C != nil {
		s.C, s.Addend = c.C.Format, AddendFull
		if c.C.Strides[1] == 0 {
			s.Addend = AddendBias
		}
	}
	return s
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
