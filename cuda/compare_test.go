package cuda

import (
	"slices"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// found is a profile of an instruction with a step of the catalogue, changed.
func found(t *testing.T, i Instruction, row string, change func(*step.Params)) *profile.Profile {
	t.Helper()
	entry, known := step.Find(row)
	if !known {
		t.Fatalf("no row %s", row)
	}
	if change != nil {
		change(&entry.Params)
	}
	return &profile.Profile{SchemaVersion: profile.SchemaVersion, Step: entry.Params, Plan: plan.Plain(),
		Epilogue: profile.Epilogue{Out: i.Accumulator, Form: profile.FormAdd}}
}

func TestCompareSaysWhatDiffers(t *testing.T) {
	hopper, ampere := Capability{9, 0}, Capability{8, 0}
	for _, x := range []struct {
		capability Capability
		name, row  string
		change     func(*step.Params)
		want       []string
	}{
		{hopper, "mma.m16n8k16.f32.bf16.bf16.f32", "hopper/bf16", nil, nil},
		{hopper, "mma.m16n8k16.f32.bf16.bf16.f32", "hopper/bf16", func(p *step.Params) { p.Fraction = 24 }, []string{"fraction_bits: 24, in the row 25"}},
		{hopper, "mma.m16n8k16.f32.bf16.bf16.f32", "hopper/bf16", func(p *step.Params) { p.Group = 8 }, []string{"groups: 0-7 then 8-15, in the row 0-15"}},
		{hopper, "mma.m16n8k16.f32.bf16.bf16.f32", "hopper/bf16", func(p *step.Params) { p.Group = 32 }, nil}, // 16 k do not show it
		{hopper, "mma.m16n8k16.f32.bf16.bf16.f32", "hopper/bf16", func(p *step.Params) { p.Floor = nil }, []string{"exponent_floor: none, in the row -133"}},
		{hopper, "mma.m16n8k16.f32.f16.f16.f32", "hopper/f16", func(p *step.Params) { p.Floor = nil }, nil}, // no sum is so small
		{hopper, "mma.m16n8k16.f16.f16.f16.f16", "hopper/f16-f16", func(p *step.Params) { p.Floor = nil }, []string{"exponent_floor: none, in the row -21"}},
		{hopper, "mma.m16n8k8.f32.tf32.tf32.f32", "hopper/tf32", func(p *step.Params) { p.InputRounding = format.TowardZero }, nil},
		{ampere, "mma.m16n8k16.f16.f16.f16.f16", "ampere/f16-f16", nil, nil},
		{hopper, "mma.m16n8k32.f32.e4m3.e4m3.f32", "hopper/e4m3-mma", func(p *step.Params) { p.Order = step.Consecutive },
			[]string{"groups: 0-15 then 16-31, in the row 0-1,4-5,8-9,12-13,16-17,20-21,24-25,28-29 then 2-3,6-7,10-11,14-15,18-19,22-23,26-27,30-31"}},
		{hopper, "mma.m8n8k16.s32.u8.s8.s32", "integer/u8-s8", func(p *step.Params) { p.Group = 4 }, nil},
		{hopper, "mma.m16n8k8.f64.f64.f64.f64", "cuda-core/f64", nil, nil},
	} {
		i, err := Find(x.capability, x.name)
		if err != nil {
			t.Fatal(err)
		}
		got := i.Compare(found(t, i, x.row, x.change))
		if got.Equal != (x.want == nil) || !slices.Equal(got.Differences, x.want) || got.Catalogue != x.row || got.Found == "" {
			t.Errorf("%s: %+v, wanted %q", x.name, got, x.want)
		}
	}
}

func TestCompareWithoutARow(t *testing.T) {
	i, err := Find(Capability{12, 0}, "mma.m16n8k16.f32.bf16.bf16.f32")
	if err != nil {
		t.Fatal(err)
	}
	if got := i.Compare(found(t, i, "hopper/bf16", nil)); got.Equal || got.Catalogue != "" || len(got.Differences) != 0 ||
		got.Found != "fused, groups of 16, 25 fraction bits, floor -133, to f32 toward zero" {
		t.Errorf("%+v", got)
	}
}
