package verify

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/trace/tracetest"
)

var (
	onA100 = map[string]string{"gpu": "NVIDIA A100-SXM4-80GB", "torch": "2.11.0"}
	onCPU  = map[string]string{"device": "cpu", "cpu": "x86_64, AVX512"}
	onH200 = map[string]string{"gpu": "NVIDIA H200"}
	inName = map[string]string{"gpu": "NVIDIA H200", "emulated": "h200-torch2.11", "cpu": "x86_64, AVX512"}
)

// changes are outputs that the plans of a case do not give: one element, all elements, another computation.
func changes(c *cases.Case, out []byte) map[string][]byte {
	one, all := append([]byte(nil), out...), append([]byte(nil), out...)
	one[len(one)/2] ^= 1
	for i := 0; i < len(all); i += c.Out.Format.Bytes() {
		all[i] ^= 1
	}
	return map[string][]byte{"one element": one, "all elements": all}
}

// TestElsewhereIsNeverWrong: what another device computed differently is undecided, however well a kernel's name would
// determine its plan, or the rest of the output identify it.
func TestElsewhereIsNeverWrong(t *testing.T) {
	golden := openGolden(t)
	tried, wrong := 0, 0
	for _, original := range smallCases(golden, 1e6, 60) {
		data := stored(t, golden, original)
		if len(data) < 64 || len(data) != original.Out.Format.Bytes()*original.Out.Shape[0]*original.Out.Shape[1]*original.Out.Shape[2] {
			continue
		}
		for what, changed := range changes(original, data) {
			c := *original
			c.Out.Hash = hashOf(changed)
			for _, device := range []map[string]string{onH200, inName, nil, onA100, onCPU, {"torch": "2.11"}} {
				c.Device = device
				v := replayed(t, &c, changed)
				here := device == nil || device["gpu"] == "NVIDIA H200"
				switch {
				case here && v.Outcome == Wrong:
					wrong++
				case here:
				case v.Outcome != Undecided || v.Elsewhere == "" || !strings.HasPrefix(v.Reason, v.Elsewhere+"; "):
					t.Errorf("%s, %s of %v: %s: %s", c.ID, what, device, v.Outcome, v.Reason)
				default:
					tried++
				}
				if here && v.Elsewhere != "" {
					t.Errorf("%s of %v: elsewhere: %s", c.ID, device, v.Elsewhere)
				}
			}
		}
	}
	if tried < 30 || wrong < 30 {
		t.Errorf("%d verdicts on changed outputs of other devices, %d were wrong on an H200", tried, wrong)
	}
}

// TestElsewhereMayBeExact: bits that agree agree wherever they were computed, and the verdict says what the plan rests on.
func TestElsewhereMayBeExact(t *testing.T) {
	golden := openGolden(t)
	exact, little := 0, 0
	for _, original := range smallCases(golden, 1e6, 80) {
		data := stored(t, golden, original)
		here := replayed(t, original, data)
		if here.Elsewhere != "" || len(here.Notes) > 0 && strings.Contains(strings.Join(here.Notes, ""), "measured") {
			t.Errorf("%s on an H200: %+v", original.ID, here)
		}
		c := *original
		c.Device = inName
		if v := replayed(t, &c, data); v.Outcome != here.Outcome || v.Reason != here.Reason || len(v.Notes) != len(here.Notes) {
			t.Errorf("%s emulated: %s (%s), want %s (%s)", c.ID, v.Outcome, v.Reason, here.Outcome, here.Reason)
		}
		for _, device := range []map[string]string{onA100, onCPU} {
			c.Device = device
			v := replayed(t, &c, data)
			switch {
			case here.Outcome == Exact && here.EvidenceBits >= wantedBits:
				exact++
				if v.Outcome != Exact || len(v.Notes) == 0 || v.Notes[0] != v.Elsewhere+"; the plan that gives these bits was measured on an NVIDIA H200" {
					t.Errorf("%s of %v: %s: %s; notes %q", c.ID, device, v.Outcome, v.Reason, v.Notes)
				}
			case v.Outcome != Undecided || len(v.Notes) > 0: // less evidence than a plan of unknown hardware needs
				t.Errorf("%s of %v: %s with %g bits; %g on an H200", c.ID, device, v.Outcome, v.EvidenceBits, here.EvidenceBits)
			case here.Outcome == Exact:
				little++
			}
		}
	}
	if exact < 40 {
		t.Errorf("%d exact", exact)
	}
	t.Logf("%d exact, %d of too little evidence elsewhere", exact, little)
}

// TestElsewhereLittleOutput: where a name determines the plan, one element is enough on the GPU that it was measured on, and
// not elsewhere.
func TestElsewhereLittleOutput(t *testing.T) {
	c := call{A: format.BF16, Size: [4]int{1, 1, 1, 64}, Layout: "TN", Kernels: []string{"nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"}}.Record()
	out := compute(t, c, "hopper/bf16", plan.Plain(), profile.Epilogue{})
	c.Out.Hash = hashOf(out)
	if v := replayed(t, c, nil); v.Outcome != Exact || v.EvidenceBits != 16 {
		t.Fatalf("%+v", v)
	}
	c.Device = onA100
	if v := replayed(t, c, nil); v.Outcome != Undecided || len(v.Notes) > 0 || !strings.HasSuffix(v.Reason, "too little output: the one plan tried agrees on 1 element, worth 16.0 bits, and 30 are wanted") {
		t.Errorf("%+v", v)
	}
}

// TestOtherLibraryIsNoted: another version of cuBLAS changes no verdict, and the verdict says so.
func TestOtherLibraryIsNoted(t *testing.T) {
	c := splitCall(17, 13, 129, "cancel").Record()
	out := compute(t, c, "hopper/bf16-k8", splitPlan(3), profile.Epilogue{})
	c.Out.Hash = hashOf(out)
	c.Device = map[string]string{"gpu": "NVIDIA H200", "nvidia-cublas": "13.4.1.3"}
	if v := replayed(t, c, out); v.Outcome != Exact || len(v.Notes) == 0 || !strings.HasPrefix(v.Notes[len(v.Notes)-1], "recorded with cuBLAS 13.4.1.3: ") {
		t.Errorf("%+v", v)
	}
	c.Device["nvidia-cublas"] = "13.1.0.3"
	if v := replayed(t, c, out); v.Outcome != Exact || strings.Contains(strings.Join(v.Notes, " "), "cuBLAS 13") {
		t.Errorf("%+v", v)
	}
}

// TestElsewhereGivenProfile: a profile that the caller names is judged as it stands.
func TestElsewhereGivenProfile(t *testing.T) {
	c := splitCall(17, 13, 129, "cancel").Record()
	out := compute(t, c, "hopper/bf16-k8", splitPlan(3), profile.Epilogue{})
	c.Out.Hash, c.Device = hashOf(out), onA100
	found := replayed(t, c, out)
	p, err := profile.Parse(found.Profile)
	if found.Outcome != Exact || found.Elsewhere == "" || err != nil {
		t.Fatalf("%+v, %v", found, err)
	}
	for want, data := range map[Outcome][]byte{Exact: out, Wrong: changes(c, out)["one element"]} {
		c.Out.Hash = hashOf(data)
		if v, err := ReplayCase(t.Context(), c, data, Options{Profile: p}); err != nil || v.Outcome != want || v.Elsewhere != "" || len(v.Notes) > 0 {
			t.Errorf("want %s: %+v, %v", want, v, err)
		}
	}
}

// TestElsewhereTrace: lines are judged by the device of the manifest, or by their own.
func TestElsewhereTrace(t *testing.T) {
	c, _ := searchedCase(t)
	wrong := *c
	wrong.Out.Hash = strings.Repeat("0", 64)
	named := *openGolden(t).Cases[0]
	for _, x := range openGolden(t).Cases {
		if ch := choose(x, Options{}); !ch.searched && !ch.uncertain && ch.unknown == "" && x.MultiplyAdds() < 1e6 {
			named = *x
			break
		}
	}
	named.Out.Hash = strings.Repeat("0", 64)
	for _, test := range []struct {
		device any
		want   string
	}{
		{map[string]any{"gpu": "NVIDIA H200"}, ""},
		{map[string]any{"gpu": "NVIDIA H200", "emulated": "h200-torch2.11", "cpu": "x"}, ""},
		{map[string]any{"gpu": "NVIDIA A100"}, "recorded on an NVIDIA A100: the rules were measured on an NVIDIA H200"},
		{map[string]any{"device": "cpu", "cpu": "x86_64"}, "recorded on a CPU (x86_64): no rule is known for it"},
		{map[string]any{"torch": "2.11.0"}, "the record does not name the GPU: no rule is known for it"},
		{map[string]any{"gpu": 7}, "the record does not name the GPU: no rule is known for it"},
		{map[string]any{}, "the record does not name the GPU: no rule is known for it"},
		{nil, "the record does not name the GPU: no rule is known for it"},
	} {
		w := tracetest.New(t, filepath.Join(t.TempDir(), "run.hawk"))
		w.Add(0, c, tracetest.More{})
		w.Add(0, c, tracetest.More{Step: 1}) // by the profile that was found
		w.Add(0, &wrong, tracetest.More{Step: 2})
		w.Add(0, &named, tracetest.More{Step: 3})
		w.Seal()
		path := filepath.Join(w.Dir, "manifest.json")
		var manifest map[string]any
		text, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(text, &manifest) != nil {
			t.Fatal(err)
		}
		manifest["device"] = test.device
		text, _ = json.Marshal(manifest)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s := openSet(t, w.Dir)
		for i := range s.Len() {
			v, err := s.Replay(t.Context(), i, Options{})
			if err != nil || v.Elsewhere != test.want || v.Broken != nil {
				t.Errorf("%v, line %d: elsewhere %q, %v", test.device, i, v.Elsewhere, err)
			}
			switch {
			case i < 2 && (v.Outcome != Exact || (len(v.Notes) > 0) != (test.want != "") || v.Reused != (i == 1)):
				t.Errorf("%v, line %d: %s: %s; notes %q, reused %v", test.device, i, v.Outcome, v.Reason, v.Notes, v.Reused)
			case i == 3 && test.want == "" && v.Outcome != Wrong, i >= 2 && test.want != "" && v.Outcome != Undecided:
				t.Errorf("%v, line %d: %s: %s", test.device, i, v.Outcome, v.Reason)
			}
		}
	}
}
