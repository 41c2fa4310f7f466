package cuda

import (
	"errors"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

func TestNamesAreTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, i := range Everything() {
		if seen[i.Name] {
			t.Errorf("%s stands twice", i.Name)
		}
		seen[i.Name] = true
		if i.Catalogue != "" {
			t.Errorf("%s has row %s of no GPU", i.Name, i.Catalogue)
		}
		s := i.Signature(3)
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", i.Name, err)
		}
	}
}

func TestEveryCapabilityHasItsInstructions(t *testing.T) {
	for _, x := range []struct {
		capability      Capability
		count           int
		has, lacks, row string // row: of has
	}{
		{Capability{7, 5}, 6, "mma.m16n8k8.f32.f16.f16.f32", "mma.m16n8k16.f32.f16.f16.f32", "turing/f16"},
		{Capability{8, 0}, 21, "mma.m16n8k8.f32.tf32.tf32.f32", "mma.m16n8k32.f32.e4m3.e4m3.f32", "ampere/tf32"},
		{Capability{8, 6}, 21, "mma.m16n8k16.f16.f16.f16.f16", "mma.m16n8k16.f64.f64.f64.f64", "ampere/f16-f16"},
		{Capability{8, 9}, 37, "mma.m16n8k32.f16.e5m2.e5m2.f16", "wgmma.m64n8k16.f32.f16.f16", "ada/e5m2-f16"},
		{Capability{9, 0}, 72, "wgmma.m64n8k32.f32.e4m3.e5m2", "", "hopper/e4m3-e5m2"},
		{Capability{10, 0}, 40, "mma.m16n8k32.f32.e4m3.e4m3.f32", "wgmma.m64n8k16.f32.f16.f16", "blackwell/e4m3-mma"},
		{Capability{12, 1}, 40, "mma.m16n8k16.f32.bf16.bf16.f32", "wgmma.m64n8k16.f32.f16.f16", ""},
	} {
		list := Instructions(x.capability)
		if len(list) != x.count {
			t.Errorf("%v: %d instructions, %d were counted on", x.capability, len(list), x.count)
		}
		for _, i := range list {
			if !x.capability.AtLeast(i.Least) {
				t.Errorf("%v: %s needs %v", x.capability, i.Name, i.Least)
			}
			if entry, found := step.Find(i.Catalogue); i.Catalogue != "" &&
				(!found || entry.Params.A != i.A || entry.Params.B != i.B || entry.Params.Result != i.Accumulator) {
				t.Errorf("%v: %s is not described by %s", x.capability, i.Name, i.Catalogue)
			}
		}
		i, err := Find(x.capability, x.has)
		if err != nil || i.Catalogue != x.row {
			t.Errorf("%v: %s: row %q, %v", x.capability, x.has, i.Catalogue, err)
		}
		if x.lacks == "" {
			continue
		}
		var ours *Error
		if _, err := Find(x.capability, x.lacks); !errors.As(err, &ours) || ours.Kind != KindCapability {
			t.Errorf("%v: %s: %v", x.capability, x.lacks, err)
		}
	}
}

func TestRowsOfHopper(t *testing.T) {
	for _, i := range Instructions(Capability{9, 0}) {
		if i.Catalogue == "" {
			t.Errorf("%s has no row", i.Name)
		}
	}
	for name, row := range map[string]string{
		"mma.m16n8k8.f32.f16.f16.f32":     "hopper/f16-k8",
		"mma.m16n8k8.f16.f16.f16.f16":     "hopper/f16-f16-k8",
		"mma.m16n8k16.f32.bf16.bf16.f32":  "hopper/bf16",
		"mma.m16n8k4.f32.tf32.tf32.f32":   "hopper/tf32-k4",
		"mma.m16n8k8.f32.tf32.tf32.f32":   "hopper/tf32",
		"mma.m16n8k32.f16.e4m3.e4m3.f16":  "hopper/e4m3-mma-f16",
		"mma.m16n8k16.f32.e4m3.e4m3.f32":  "hopper/e4m3-mma",
		"mma.m16n8k32.f16.e5m2.e4m3.f16":  "hopper/e5m2-e4m3-mma-f16",
		"wgmma.m64n8k32.f16.e4m3.e5m2":    "hopper/e4m3-e5m2-f16",
		"mma.m16n8k16.f64.f64.f64.f64":    "cuda-core/f64",
		"mma.m8n8k16.s32.u8.s8.s32":       "integer/u8-s8",
		"wgmma.m64n8k32.f32.e5m2.e4m3-rs": "hopper/e5m2-e4m3",
		"wgmma.m64n8k8.f32.tf32.tf32":     "hopper/tf32",
	} {
		i, err := Find(Capability{9, 0}, name)
		if err != nil || i.Catalogue != row {
			t.Errorf("%s: row %q, wanted %q, %v", name, i.Catalogue, row, err)
		}
	}
}

func TestUnknownNamesAreToldKnownOnes(t *testing.T) {
	_, err := Find(Capability{9, 0}, "mma.m16n8k16.f32.bf16.bf16")
	var ours *Error
	if !errors.As(err, &ours) || ours.Kind != KindInstruction || !strings.Contains(err.Error(), "mma.m16n8k16.f32.bf16.bf16.f32") {
		t.Error(err)
	}
}

func TestTF32OperandsAreWholeWords(t *testing.T) {
	i, err := Find(Capability{8, 0}, "mma.m16n8k8.f32.tf32.tf32.f32")
	if err != nil {
		t.Fatal(err)
	}
	if s := i.Signature(1); s.A != format.F32 || s.B != format.F32 || s.D != format.F32 {
		t.Errorf("%+v", s)
	}
}
