package explain

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/verify"
)

// subject is a recorded case, a line of a golden set, whose profile is known.
func subject(t *testing.T, line string, p *profile.Profile) Subject {
	t.Helper()
	path := filepath.Join(t.TempDir(), "set.jsonl")
	if err := os.WriteFile(path, []byte("{\"about\":{\"gpu\":\"none\"}}\n"+line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	golden, err := cases.ReadGolden(path)
	if err != nil {
		t.Fatal(err)
	}
	c := golden.Cases[0]
	v := verify.Verdict{ID: c.ID, Outcome: verify.Exact, Op: c.Op, DType: c.A.Format.String(), Out: c.Out.Format.String()}
	if p == nil {
		v.Outcome, v.Reason = verify.Undecided, "no rule"
	} else {
		v.Plan, v.ProfileID, v.Profile, v.Family = p.Plan.Describe(), p.ID(), p.JSON(), "nvjet"
	}
	return Subject{c, v}
}

const (
	alone  = `{"op":"mm","m":1,"n":40,"k":512,"seed":7,"kind":"cancel","layout":"NT","a":"bf16","b":"bf16","out":"f32","kernels":["alone"],"id":"alone"}`
	batch  = `{"op":"mm","m":2,"n":40,"k":512,"seed":7,"kind":"cancel","layout":"NT","a":"bf16","b":"bf16","out":"f32","kernels":["batch"],"id":"batch"}`
	others = `{"op":"mm","m":2,"n":40,"k":512,"seed":8,"kind":"cancel","layout":"NN","a":"bf16","b":"bf16","out":"f32","kernels":["others"],"id":"others"}`
)

func why(t *testing.T, a, b Subject) *Reasons {
	t.Helper()
	r, err := Why(context.Background(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	return r
}

func has(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in:\n%s", w, text)
		}
	}
}

// A row multiplied alone by a split kernel and in a batch by a plain one.
func TestWhyARowDiffers(t *testing.T) {
	plain := load(t, "hopper/bf16")
	plain.Epilogue.Out = format.F32
	split := load(t, "hopper/bf16")
	split.Epilogue.Out, split.Plan = format.F32, plan.SplitK(3, 64, plan.Plain(), format.BF16, format.F32) // 192, 192, 128
	a, b := subject(t, alone, split), subject(t, batch, plain)
	r := why(t, a, b)
	e := r.Element
	if e == nil || e.Equal || r.SameArithmetic {
		t.Fatalf("nothing is shown: %+v", r)
	}
	if !strings.HasPrefix(e.Shared, "row 0 of A and column ") || e.At != e.AtB {
		t.Errorf("shared are %q at %s and %s", e.Shared, e.At, e.AtB)
	}
	p := &e.Parting
	if p.Alike != 12 || p.LastAlike.Over != "k = 0…191" || !strings.Contains(p.NextA.What, "rounds a partial sum to bf16") ||
		p.NextB.What != "goes on in that accumulator with k = 192…207" {
		t.Errorf("they part so: %+v, %+v, %+v", p, p.NextA, p.NextB)
	}
	if p.DifferentA == nil || p.DifferentA.Bits == p.DifferentB.Bits {
		t.Errorf("the first that differ: %+v and %+v", p.DifferentA, p.DifferentB)
	}
	has(t, r.Text, "alone", "batch", "What differs", "3 slices", "rounded to bf16", "partial sums are the same in both", "k = 0…191", "the output element is")
	var parts []string
	for _, d := range r.Differences {
		parts = append(parts, d.Part)
	}
	if got := strings.Join(parts, " "); got != "shape kernel order merge" {
		t.Errorf("what differs: %s", got)
	}
	// The element's output is what package gemm computes.
	o, err := b.Case.Materialize()
	if err != nil {
		t.Fatal(err)
	}
	var column int
	if _, err := parseInt(e.At, "element (0, %d)", &column); err != nil {
		t.Fatal(err)
	}
	got, err := gemm.Elements(context.Background(), arguments(b.Case, o, plain), []gemm.Position{{Column: column}})
	if err != nil {
		t.Fatal(err)
	}
	if want := (value{got[0], format.F32}).String(); e.OutB != want || e.SumB.Bits != (value{got[0], format.F32}).hexadecimal() {
		t.Errorf("the output element is %s, want %s", e.OutB, want)
	}
}

func TestWhyNothingDiffers(t *testing.T) {
	plain := load(t, "hopper/bf16")
	plain.Epilogue.Out = format.F32
	r := why(t, subject(t, alone, plain), subject(t, batch, plain))
	if !r.SameArithmetic || !r.Element.Equal || r.Element.Compared != 40 || r.Element.Parting.NextA != nil {
		t.Errorf("one arithmetic: %+v, %+v", r, r.Element)
	}
	has(t, r.Text, "same arithmetic", "All 32 partial sums are alike", "Of 40 elements compared, no output element differs")
	has(t, why(t, subject(t, alone, plain), subject(t, alone, plain)).Text, "They are the same case.")
	// Slices that collapse at this K are the same order under another name.
	split := load(t, "hopper/bf16")
	split.Epilogue.Out, split.Plan = format.F32, plan.Tiled(plan.ResidueFirst, 64)
	r = why(t, subject(t, alone, plain), subject(t, batch, split))
	if !r.SameArithmetic {
		t.Errorf("a residue of nothing makes a difference: %+v", r.Differences)
	}
}

// Without shared operands both orders run on the first one's.
func TestWhyOnLentOperands(t *testing.T) {
	plain := load(t, "hopper/bf16")
	plain.Epilogue.Out = format.F32
	narrow := load(t, "hopper/bf16-k8")
	narrow.Epilogue.Out = format.F32
	r := why(t, subject(t, batch, plain), subject(t, others, narrow))
	if r.Element == nil || r.Element.Operands != "batch" || r.Element.Shared != "" || r.Element.Equal {
		t.Fatalf("lent operands: %+v %q", r.Element, r.Unshown)
	}
	has(t, r.Text, "share no row and column", "16 products at once", "8 products at once", "part at once")
	other := subject(t, strings.Replace(others, `"a":"bf16","b":"bf16"`, `"a":"f16","b":"f16"`, 1), load(t, "hopper/f16"))
	r = why(t, subject(t, batch, plain), other)
	if r.Element != nil || !strings.Contains(r.Unshown, "does not take") {
		t.Errorf("f16 arithmetic on bf16 operands: %+v %q", r.Element, r.Unshown)
	}
	has(t, r.Text, "operands", "No element of both is shown")
}

func TestWhyUndecided(t *testing.T) {
	plain := load(t, "hopper/bf16")
	r := why(t, subject(t, alone, plain), subject(t, batch, nil))
	if r.Element != nil || r.SameArithmetic {
		t.Errorf("%+v", r)
	}
	has(t, r.Text, "undecided: no rule", "no arithmetic is known for batch")
}

func TestWhyEpilogues(t *testing.T) {
	form := func(f profile.Form) *profile.Profile {
		p := load(t, "hopper/bf16")
		p.Epilogue.Form = f
		return p
	}
	line := strings.NewReplacer(`"op":"mm"`, `"op":"addmm","c":"bias"`, `"out":"f32"`, `"out":"bf16"`, `"kind":"cancel"`, `"kind":"normal"`).Replace(batch)
	r := why(t, subject(t, line, form(profile.FormAdd)), subject(t, strings.Replace(line, "batch", "again", 2), form(profile.FormRoundThenAdd)))
	if r.Element == nil || r.Element.Parting.NextA != nil || r.Element.Equal {
		t.Fatalf("a bias rounded once and twice: %+v", r.Element)
	}
	has(t, r.Text, "epilogue", "with a bias", "All 32 partial sums are alike", "after the epilogue (addend, factors, last rounding) the output element is")
}

func TestWhyStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	plain := load(t, "hopper/bf16")
	if _, err := Why(ctx, subject(t, alone, plain), subject(t, batch, plain)); err == nil {
		t.Error("a cancelled comparison went on")
	}
}
