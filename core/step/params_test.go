package step

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

func TestCatalogue(t *testing.T) {
	entries := Catalogue()
	kinds := map[Kind]int{}
	for _, e := range entries {
		kinds[e.Params.Kind]++
		if len(e.Architectures) == 0 || e.Instruction == "" || e.Source == "" {
			t.Errorf("%s: architectures, instruction or source is missing", e.Name)
		}
		published := strings.Contains(e.Source, "pub")
		if published && !strings.Contains(e.Doubt, "published") {
			t.Errorf("%s: published and not checked, but nothing says so", e.Name)
		}
		family, _, _ := strings.Cut(e.Name, "/")
		apart := strings.HasPrefix(family, "cdna") || family == "mx"
		if e.Runnable == apart {
			t.Errorf("%s: runnable %v", e.Name, e.Runnable)
		}
		if e.Params.Kind == Fused && e.Params.Floor == nil && !strings.Contains(e.Doubt, "floor") {
			t.Errorf("%s: no floor, and nothing says that it is not known", e.Name)
		}
		text, err := json.Marshal(e.Params)
		if err != nil {
			t.Fatalf("%s: %v", e.Name, err)
		}
		var back Params
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, e.Params) {
			t.Errorf("%s: %s came back as %+v, %v", e.Name, text, back, err)
		}
	}
	for _, k := range []Kind{Fused, FMA, Exact, Integer, Converted, CDNA2, CDNA3, Scaled} {
		if kinds[k] == 0 {
			t.Errorf("no entry of kind %s", k)
		}
	}
	// What the rest of the project, and users, call by name.
	for _, name := range []string{"volta/f16", "turing/f16", "ampere/f16", "ampere/f16-f16", "ampere/bf16", "ampere/tf32", "ada/e4m3", "ada/e5m2-f16",
		"hopper/f16", "hopper/bf16", "hopper/f16-f16", "hopper/tf32", "hopper/f16-k8", "hopper/bf16-k8", "hopper/tf32-k4", "hopper/e4m3",
		"hopper/e5m2", "hopper/e4m3-e5m2", "hopper/e5m2-e4m3", "hopper/e4m3-mma", "hopper/e5m2-mma-f16", "blackwell/bf16", "blackwell/e2m1",
		"cuda-core/f32", "cuda-core/f64", "integer/s8", "integer/u8", "cdna1/f16-exact", "cdna2/f16", "cdna3/f16", "mx/e2m1-k64-ue4m3"} {
		if _, found := Find(name); !found {
			t.Errorf("no entry %s", name)
		}
	}
	if _, found := Find("hopper/f15"); found {
		t.Error("found an entry that is not there")
	}
	// What a caller does to its copy stays there.
	*entries[4].Params.Floor, entries[4].Architectures[0] = 99, "x"
	if e := Catalogue()[4]; *e.Params.Floor == 99 || e.Architectures[0] == "x" {
		t.Error("the catalogue can be changed from outside")
	}
}

func TestCatalogueRefusesFaults(t *testing.T) {
	step := `{"kind":"fma","a":"f32","b":"f32","group":1,"result":"f32","result_rounding":"nearest-even"}`
	for text, want := range map[string]string{
		`[{"name":"x","step":` + step + `},{"name":"x","step":` + step + `}]`: "twice",
		`[{"name":"x","step":` + step + `,"sorce":"pub"}]`:                    "sorce",
		`[{"name":"x","step":{"kind":"fma"}}]`:                                "a: ",
	} {
		if _, err := parseCatalogue([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestValidateNamesTheField(t *testing.T) {
	fused, fma := find(t, "hopper/bf16"), find(t, "cuda-core/f64")
	for _, c := range []struct {
		base  string
		field string
		spoil func(*Params)
	}{
		{"hopper/bf16", "kind", func(p *Params) { p.Kind = "fuse" }},
		{"hopper/bf16", "a", func(p *Params) { p.A = 0 }},
		{"hopper/bf16", "a", func(p *Params) { p.A = format.S8 }},
		{"hopper/bf16", "b", func(p *Params) { p.B = format.E8M0 }},
		{"hopper/bf16", "b", func(p *Params) { p.B = format.UE4M3 }},
		{"hopper/bf16", "b", func(p *Params) { p.B = 77 }},
		{"hopper/bf16", "result", func(p *Params) { p.Result = format.S32 }},
		{"hopper/bf16", "result", func(p *Params) { p.Result = format.E4M3 }},
		{"hopper/bf16", "group", func(p *Params) { p.Group = 0 }},
		{"hopper/bf16", "group", func(p *Params) { p.Group = 1 << 20 }},
		{"hopper/bf16", "group", func(p *Params) { p.Group = -4 }},
		{"hopper/bf16", "fraction_bits", func(p *Params) { p.Fraction = 0 }},
		{"hopper/bf16", "fraction_bits", func(p *Params) { p.Fraction = 1000 }},
		{"hopper/bf16", "align", func(p *Params) { p.Align = "" }},
		{"hopper/bf16", "align", func(p *Params) { p.Align = "truncate" }},
		{"hopper/bf16", "exponent_floor", func(p *Params) { p.Floor = ptr(-1 << 20) }},
		{"hopper/bf16", "input_rounding", func(p *Params) { p.InputRounding = format.NearestEven }},
		{"hopper/tf32", "input_rounding", func(p *Params) { p.InputRounding = "odd" }},
		{"hopper/bf16", "result_rounding", func(p *Params) { p.ResultRounding = "" }},
		{"hopper/bf16", "result_fraction_bits", func(p *Params) { p.ResultFraction = 23 }},
		{"hopper/bf16", "result_fraction_bits", func(p *Params) { p.ResultFraction = -1 }},
		{"hopper/bf16", "overflow", func(p *Params) { p.Overflow = format.ToInfinity }},
		{"hopper/bf16", "overflow", func(p *Params) { p.Overflow = format.Wrap }},
		{"hopper/bf16", "zero_sign", func(p *Params) { p.ZeroSign = "minus" }},
		{"hopper/bf16", "nan", func(p *Params) { p.NaN = 0x7f800000 }},
		{"hopper/bf16", "nan", func(p *Params) { p.NaN = 0x1_7fc00000 }},
		{"hopper/bf16", "nan", func(p *Params) { p.NaN = 0x7fffffff }},
		{"hopper/bf16", "keep_nan", func(p *Params) { p.KeepNaN = true }},
		{"hopper/bf16", "order", func(p *Params) { p.Order = "odd" }},
		{"hopper/bf16", "instruction_k", func(p *Params) { p.Order = Pairs }},
		{"hopper/bf16", "instruction_k", func(p *Params) { p.InstructionK = 40 }},
		{"hopper/bf16", "instruction_k", func(p *Params) { p.Group, p.InstructionK, p.Order = 3, 6, Pairs }},
		{"hopper/bf16", "via", func(p *Params) { p.Via = format.F16 }},
		{"hopper/bf16", "partial", func(p *Params) { p.Partial = format.F16 }},
		{"hopper/bf16", "partial_rounding", func(p *Params) { p.PartialRounding = format.Down }},
		{"hopper/bf16", "sum_fraction_bits", func(p *Params) { p.SumFraction = 31 }},
		{"hopper/bf16", "interleaved", func(p *Params) { p.Interleaved = true }},
		{"hopper/bf16", "drop_below", func(p *Params) { p.DropBelow = 1 }},
		{"hopper/bf16", "join_align", func(p *Params) { p.JoinAlign = format.Down }},
		{"hopper/bf16", "scale", func(p *Params) { p.Scale = format.E8M0 }},
		{"hopper/bf16", "scale_block", func(p *Params) { p.ScaleBlock = 16 }},
		{"hopper/bf16", "exact_group", func(p *Params) { p.ExactGroup = 16 }},
		{"hopper/e4m3-mma", "via", func(p *Params) { p.Via = format.E5M2 }},
		{"hopper/e4m3-mma", "via", func(p *Params) { p.Via = 0 }},
		{"hopper/e4m3-mma", "partial", func(p *Params) { p.Partial = format.F64 }},
		{"hopper/e4m3-mma", "partial_rounding", func(p *Params) { p.PartialRounding = "" }},
		{"cuda-core/f64", "group", func(p *Params) { p.Group = 2 }},
		{"cuda-core/f64", "fraction_bits", func(p *Params) { p.Fraction = 25 }},
		{"cuda-core/f64", "align", func(p *Params) { p.Align = format.Down }},
		{"cuda-core/f64", "exponent_floor", func(p *Params) { p.Floor = ptr(0) }},
		{"cuda-core/f64", "normalised_terms", func(p *Params) { p.NormalisedTerms = true }},
		{"cuda-core/f64", "zeros_align", func(p *Params) { p.ZerosAlign = true }},
		{"cuda-core/f64", "keep_nan", func(p *Params) { p.A = format.F32 }},
		{"integer/s8", "a", func(p *Params) { p.A = format.F16 }},
		{"integer/s8", "a", func(p *Params) { p.A = format.F32 }},
		{"integer/s8", "b", func(p *Params) { p.B = format.S32 }},
		{"integer/s8", "result", func(p *Params) { p.Result = format.F32 }},
		{"integer/s8", "result_rounding", func(p *Params) { p.ResultRounding = format.Down }},
		{"integer/s8", "flush_inputs", func(p *Params) { p.FlushInputs = true }},
		{"integer/s8", "zero_sign", func(p *Params) { p.ZeroSign = IEEEZero }},
		{"cdna2/f16", "group", func(p *Params) { p.Group = 6 }},
		{"cdna3/f16", "sum_fraction_bits", func(p *Params) { p.SumFraction = 0 }},
		{"cdna3/f16", "accumulator_fraction_bits", func(p *Params) { p.AccumulatorFraction = -1 }},
		{"cdna3/f16", "join_align", func(p *Params) { p.JoinAlign = "" }},
		{"cdna3/f16", "drop_below", func(p *Params) { p.DropBelow = -1 }},
		{"mx/e4m3", "scale", func(p *Params) { p.Scale = format.E4M3 }},
		{"mx/e4m3", "scale_block", func(p *Params) { p.ScaleBlock = 5 }},
		{"mx/e4m3", "scale_block", func(p *Params) { p.ScaleBlock = 0 }},
		{"mx/e2m1-k64-e8m0", "exact_group", func(p *Params) { p.ExactGroup = 5 }},
	} {
		p := find(t, c.base)
		c.spoil(&p)
		var fault *FieldError
		if err := p.Validate(); !errors.As(err, &fault) || fault.Field != c.field || !strings.HasPrefix(err.Error(), c.field+": ") {
			t.Errorf("%s: %v, want a fault of %s", c.base, err, c.field)
		}
	}
	if fused.Validate() != nil || fma.Validate() != nil {
		t.Error("the entries themselves are refused")
	}
	if err := (Params{}).Validate(); err == nil {
		t.Error("nothing at all is taken for a step")
	}
}

func TestBitsInJSON(t *testing.T) {
	p := find(t, "hopper/bf16")
	p.NaN = 0x7fc00000
	text, _ := json.Marshal(p)
	if !strings.Contains(string(text), `"nan":"0x7fc00000"`) {
		t.Errorf("%s", text)
	}
	var back Params
	if err := json.Unmarshal(text, &back); err != nil || back.NaN != p.NaN {
		t.Errorf("%v, %v", back.NaN, err)
	}
	for _, bad := range []string{"7fc00000", "0x", "0xfg", "0x11111111111111111", "-0x1"} {
		if new(Bits).UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q is taken for a bit pattern", bad)
		}
	}
}

// TestDescribe: every constant that an entry has stands in its description, and no two steps share one.
func TestDescribe(t *testing.T) {
	seen := map[string]Params{}
	for _, e := range Catalogue() {
		d := e.Params.Describe()
		if other, found := seen[d]; found && !reflect.DeepEqual(other, e.Params) {
			t.Errorf("%s is described like another step: %s", e.Name, d)
		}
		seen[d] = e.Params
		if strings.Contains(d, "unknown") || strings.Contains(d, "%!") || !strings.HasSuffix(d, ".") {
			t.Errorf("%s: %s", e.Name, d)
		}
	}
	for _, m := range mutants {
		for _, name := range []string{"hopper/f16", "hopper/e4m3-mma"} {
			p := find(t, name)
			if m.exists != nil && !m.exists(p) {
				continue
			}
			before := p.Describe()
			old := p
			m.apply(&p)
			if p.Describe() == before && !reflect.DeepEqual(old, p) {
				t.Errorf("%s: mutant %q is described alike: %s", name, m.name, before)
			}
		}
	}
	const want = "Groups of 16 products of bf16: the exact products and the f32 accumulator are cut toward zero to multiples of 2^(E-25), " +
		"E being the largest exponent among those that are not zero and at least -133, summed exactly and rounded once, toward zero, to f32; " +
		"overflow gives Inf, zero is +0, NaN is 0x7fffffff."
	if got := find(t, "hopper/bf16").Describe(); got != want {
		t.Errorf("hopper/bf16: %s", got)
	}
}
