package profile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// TestCatalogue: every file parses, every name is there once, every row of the step catalogue has a profile.
func TestCatalogue(t *testing.T) {
	entries, err := files.ReadDir("catalogue")
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]string{}
	for _, entry := range entries {
		text, err := files.ReadFile("catalogue/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		var documents []json.RawMessage
		if err := json.Unmarshal(text, &documents); err != nil {
			t.Fatalf("%s: %v", entry.Name(), err)
		}
		for i, d := range documents {
			p, err := Parse(d)
			if err != nil {
				t.Errorf("%s[%d]: %v", entry.Name(), i, err)
				continue
			}
			if p.Name == "" || p.Provenance.Source == "" || p.Provenance.Hardware == "" {
				t.Errorf("%s[%d]: name %q, source %q, hardware %q", entry.Name(), i, p.Name, p.Provenance.Source, p.Provenance.Hardware)
			}
			if other := written[p.Name]; other != "" {
				t.Errorf("%s is in %s and in %s", p.Name, other, entry.Name())
			}
			written[p.Name] = entry.Name()
			if architecture, _, _ := strings.Cut(p.Name, "/"); architecture+".json" != entry.Name() {
				t.Errorf("%s is in %s", p.Name, entry.Name())
			}
		}
	}
	list := List()
	if !sort.SliceIsSorted(list, func(i, j int) bool { return list[i].Name < list[j].Name }) {
		t.Error("the list is not sorted by name")
	}
	seen := map[string]*Profile{}
	for _, p := range list {
		if seen[p.Name] != nil {
			t.Errorf("%s is listed twice", p.Name)
		}
		seen[p.Name] = p
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		loaded, err := Load(p.Name)
		if err != nil || !reflect.DeepEqual(loaded, p) {
			t.Errorf("%s: loaded %+v, %v", p.Name, loaded, err)
		}
		if p.Epilogue.Out != DefaultOut(p.Step) {
			t.Errorf("%s: its output is %v, the default %v", p.Name, p.Epilogue.Out, DefaultOut(p.Step))
		}
	}
	for name := range written {
		if seen[name] == nil {
			t.Errorf("%s is written but not listed", name)
		}
	}
	for _, e := range step.Catalogue() {
		p := seen[e.Name]
		if p == nil {
			t.Errorf("the step %s has no profile", e.Name)
			continue
		}
		if p.Runnable() != e.Runnable {
			t.Errorf("%s: runnable %v, its step %v", e.Name, p.Runnable(), e.Runnable)
		}
		if written[e.Name] == "" && (p.Provenance.Doubts != e.Doubt || p.Provenance.Source != e.Source) {
			t.Errorf("%s: source %q and doubts %q are not the step's %q and %q", e.Name, p.Provenance.Source, p.Provenance.Doubts, e.Source, e.Doubt)
		}
	}
	// The names that the documentation and the C header promise.
	for _, name := range []string{"hopper/bf16", "hopper/f16", "hopper/tf32", "hopper/f32", "hopper/f64", "hopper/s8", "hopper/e4m3", "hopper/e4m3-fast", "ampere/f16"} {
		if seen[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
}

// TestStepsOfProfiles: a profile named as a step of the catalogue has that step, other than f8 rows, whose plain name is
// the promoted sum.
func TestStepsOfProfiles(t *testing.T) {
	for _, c := range []struct {
		name, step string
		plan       plan.Plan
	}{
		{"hopper/bf16", "hopper/bf16", plan.Plain()},
		{"hopper/e4m3-fast", "hopper/e4m3", plan.Plain()},
		{"hopper/e4m3", "hopper/e4m3", plan.Promoted(128, plan.Plain())},
		{"hopper/e5m2", "hopper/e5m2", plan.Promoted(128, plan.Plain())},
		{"hopper/f32", "cuda-core/f32", plan.Plain()},
		{"hopper/f64", "cuda-core/f64", plan.Plain()},
		{"hopper/s8", "integer/s8", plan.Plain()},
		{"ampere/tf32", "ampere/tf32", plan.Plain()},
	} {
		p, err := Load(c.name)
		if err != nil {
			t.Error(err)
			continue
		}
		e, _ := step.Find(c.step)
		if !reflect.DeepEqual(p.Step, e.Params) || !reflect.DeepEqual(p.Plan, c.plan) {
			t.Errorf("%s: step %+v, plan %+v", c.name, p.Step, p.Plan)
		}
	}
}

// TestLoadedIsOnesOwn: changing a loaded or listed profile, down to what it points at, changes no other.
func TestLoadedIsOnesOwn(t *testing.T) {
	for _, p := range List() {
		before := p.ID()
		spoil := func(p *Profile) {
			p.Name, p.Step.Group = "spoiled", 99
			if p.Step.Floor != nil {
				*p.Step.Floor = 7
			}
			if p.Plan.Chain != nil {
				p.Plan.Chain.Tile = 9
			}
			if p.Plan.Promote != nil {
				p.Plan.Promote.Interval, p.Plan.Promote.Of.Chain.Tile = 3, 5
			}
			if p.Plan.Split != nil {
				p.Plan.Split.Slices = 77
			}
		}
		name := p.Name
		loaded, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		spoil(loaded)
		spoil(p)
		again, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if again.ID() != before || again.Name != name {
			t.Fatalf("%s became another profile for everybody", name)
		}
	}
}

// TestCanonical: the canonical form is stable, sorted, spelled out, and parses to the same profile.
func TestCanonical(t *testing.T) {
	ids := map[string]string{}
	for _, p := range List() {
		text := p.JSON()
		again, err := Parse(text)
		if err != nil {
			t.Errorf("%s: its own JSON: %v", p.Name, err)
			continue
		}
		if !reflect.DeepEqual(again, p) {
			t.Errorf("%s came back as %+v", p.Name, again)
		}
		if again.ID() != p.ID() || !bytes.Equal(again.JSON(), text) {
			t.Errorf("%s: the canonical form is not stable", p.Name)
		}
		if len(p.ID()) != 64 {
			t.Errorf("%s: the ID is %q", p.Name, p.ID())
		}
		if !bytes.Equal(text, sortedKeys(t, text)) {
			t.Errorf("%s: keys are not sorted, or there is white space: %s", p.Name, text)
		}
		if !bytes.Contains(text, []byte(`"step":{`)) {
			t.Errorf("%s: the step is not spelled out", p.Name)
		}
		ids[p.ID()] = p.Name
	}
}

// sortedKeys writes JSON again, objects by key. encoding/json sorts map keys.
func sortedKeys(t *testing.T, text []byte) []byte {
	t.Helper()
	var v any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestKnownIDs: an identity stands in verdicts and traces, so it may never change for the same arithmetic.
func TestKnownIDs(t *testing.T) {
	p, err := Load("hopper/bf16")
	if err != nil {
		t.Fatal(err)
	}
	const text = `{"epilogue":{"form":"add","out":"bf16"},"plan":{"chain":{}},"schema_version":1,` +
		`"step":{"a":"bf16","align":"toward-zero","b":"bf16","exponent_floor":-133,"fraction_bits":25,"group":16,"kind":"fused","result":"f32","result_rounding":"toward-zero"}}`
	sum := sha256.Sum256([]byte(text))
	if want := hex.EncodeToString(sum[:]); p.ID() != want {
		t.Errorf("the ID of hopper/bf16 is %s, want that of %s, %s", p.ID(), text, want)
	}
}

// TestIDIsOfTheArithmetic: name and provenance do not enter the ID, everything else does.
func TestIDIsOfTheArithmetic(t *testing.T) {
	base, err := Load("hopper/bf16")
	if err != nil {
		t.Fatal(err)
	}
	id := base.ID()
	for name, change := range map[string]func(*Profile){
		"name":      func(p *Profile) { p.Name = "mine" },
		"source":    func(p *Profile) { p.Provenance.Source = "elsewhere" },
		"doubts":    func(p *Profile) { p.Provenance.Doubts = "many" },
		"data only": func(p *Profile) { p.Provenance.DataOnly = true },
	} {
		p := *base
		if change(&p); p.ID() != id {
			t.Errorf("%s changes the ID", name)
		}
	}
	seen := map[string]string{id: "nothing"}
	floor := -132
	for name, change := range map[string]func(*Profile){
		"schema":        func(p *Profile) { p.SchemaVersion = 2 },
		"group":         func(p *Profile) { p.Step.Group = 8 },
		"F":             func(p *Profile) { p.Step.Fraction = 24 },
		"floor":         func(p *Profile) { p.Step.Floor = &floor },
		"no floor":      func(p *Profile) { p.Step.Floor = nil },
		"rounding":      func(p *Profile) { p.Step.ResultRounding = format.NearestEven },
		"zero sign":     func(p *Profile) { p.Step.ZeroSign = step.SumZero },
		"a":             func(p *Profile) { p.Step.A = format.F16 },
		"residue":       func(p *Profile) { p.Plan = plan.Tiled(plan.ResidueFirst, 32) },
		"residue last":  func(p *Profile) { p.Plan = plan.Tiled(plan.ResidueLast, 32) },
		"tile":          func(p *Profile) { p.Plan = plan.Tiled(plan.ResidueFirst, 64) },
		"split":         func(p *Profile) { p.Plan = plan.SplitK(2, 64, plan.Plain(), format.F32, format.F32) },
		"slices":        func(p *Profile) { p.Plan = plan.SplitK(3, 64, plan.Plain(), format.F32, format.F32) },
		"workspace":     func(p *Profile) { p.Plan = plan.SplitK(3, 64, plan.Plain(), format.BF16, format.F32) },
		"promote":       func(p *Profile) { p.Plan = plan.Promoted(128, plan.Plain()) },
		"lanes":         func(p *Profile) { p.Plan = plan.Strided(2, 32, plan.Plain(), plan.In(format.F32)) },
		"run":           func(p *Profile) { p.Plan = plan.Strided(2, 64, plan.Plain(), plan.In(format.F32)) },
		"whole":         func(p *Profile) { p.Plan = plan.Contiguous(2, 32, plan.Plain(), plan.Forward(), plan.In(format.F32)) },
		"buffers":       func(p *Profile) { p.Plan = plan.Buffered(2, 32, 1, plan.Plain(), plan.In(format.F32)) },
		"fold":          func(p *Profile) { p.Plan = plan.Dealt(4, 32, plan.Plain(), plan.Forward(), plan.In(format.F32)) },
		"folds":         func(p *Profile) { p.Plan = plan.Dealt(4, 32, plan.Plain(), plan.CountDown(4), plan.In(format.F32)) },
		"neighbours":    func(p *Profile) { p.Plan = plan.Dealt(4, 32, plan.Plain(), plan.Neighbours(4), plan.In(format.F32)) },
		"serial":        func(p *Profile) { p.Plan = plan.SerialK(2, 64, plan.Plain()) },
		"alpha":         func(p *Profile) { p.Epilogue.Form = FormAlphaInA },
		"out":           func(p *Profile) { p.Epilogue.Out = format.F32 },
		"form":          func(p *Profile) { p.Epilogue.Form = FormFMAAlpha },
		"scaling":       func(p *Profile) { p.Epilogue.Scaling = ScalingRow },
		"zero alpha":    func(p *Profile) { p.Epilogue.ZeroAlpha = ZeroAlphaSkip },
		"plus zero":     func(p *Profile) { p.Epilogue.PlusZero = true },
		"instruction_k": func(p *Profile) { p.Step.InstructionK = 32 },
	} {
		p := *base
		change(&p)
		if other, taken := seen[p.ID()]; taken {
			t.Errorf("%s and %s have one ID", name, other)
		}
		seen[p.ID()] = name
	}
}

// TestKeyOrder: the order of keys, white space and the spelling of the step by name change nothing.
func TestKeyOrder(t *testing.T) {
	for _, p := range List() {
		r := rand.New(rand.NewPCG(1, 1))
		for range 3 {
			text := shuffled(r, p.JSON())
			again, err := Parse(text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if !reflect.DeepEqual(again, p) {
				t.Errorf("%s came back as %+v", text, again)
			}
		}
	}
	e, _ := step.Find("hopper/bf16")
	spelled, err := json.Marshal(e.Params)
	if err != nil {
		t.Fatal(err)
	}
	const rest = `"schema_version":1,"plan":{"chain":{}},"epilogue":{"out":"bf16","form":"add"},"provenance":{"source":"x"}}`
	byName, err := Parse([]byte(`{"step":"hopper/bf16",` + rest))
	if err != nil {
		t.Fatal(err)
	}
	byParameters, err := Parse([]byte(`{"step":` + string(spelled) + `,` + rest))
	if err != nil {
		t.Fatal(err)
	}
	if byName.ID() != byParameters.ID() {
		t.Error("the step by name and spelled out have two IDs")
	}
}

// shuffled writes JSON with the keys of every object in another order, and white space.
func shuffled(r *rand.Rand, text []byte) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil {
		var list []json.RawMessage
		if json.Unmarshal(text, &list) != nil {
			return text
		}
		for i := range list {
			list[i] = shuffled(r, list[i])
		}
		out, _ := json.Marshal(list)
		return out
	}
	keys := make([]string, 0, len(object))
	for key := range object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	var out bytes.Buffer
	out.WriteString("{ ")
	for i, key := range keys {
		if i > 0 {
			out.WriteString(" ,\n")
		}
		fmt.Fprintf(&out, "%q : %s", key, shuffled(r, object[key]))
	}
	out.WriteString("\t}")
	return out.Bytes()
}

const good = `{"schema_version":1,"name":"x","step":{"kind":"fused","a":"bf16","b":"bf16","group":16,"fraction_bits":25,"align":"toward-zero",` +
	`"exponent_floor":-133,"result":"f32","result_rounding":"toward-zero"},"plan":{"split":{"slices":2,"grain":64,"of":{"chain":{}},` +
	`"merge":{"partial":"f32","sum":"f32"}}},"epilogue":{"out":"bf16","form":"add"},"provenance":{"source":"H200"}}`

const lanesRule = `"lanes":{"count":4,"run":1,"of":{"chain":{}},"folds":[{"to":2},{"to":1}],"merge":{"partial":"f32","sum":"f32"}}`

// TestRefusals: a profile with anything unknown, missing or contradictory is refused, and the error names the field.
func TestRefusals(t *testing.T) {
	if _, err := Parse([]byte(good)); err != nil {
		t.Fatal(err)
	}
	in := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%s is not in the profile", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	lanes := func(more, form string) string {
		return `{"schema_version":1,"step":"cuda-core/f32","plan":{` + strings.Replace(lanesRule, `"count"`, more+`"count"`, 1) + `},"epilogue":{"out":"f32",` + form + `}}`
	}
	serial := func(of, form string) string {
		return `{"schema_version":1,"step":"hopper/bf16","plan":{"serial":{"slices":2,"grain":64,"of":{` + of + `}}},"epilogue":{"out":"bf16",` + form + `}}`
	}
	for _, text := range []string{
		lanes(``, `"form":"add"`), lanes(``, `"form":"alpha-in-a"`), serial(`"chain":{}`, `"form":"add"`), serial(lanesRule, `"form":"fma-beta"`),
		lanes(`"whole":true,`, `"form":"add","scaling":"tensor"`),
	} {
		p, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(p.JSON())
		if err != nil || again.ID() != p.ID() || !reflect.DeepEqual(again, p) {
			t.Errorf("%s came back as %+v, %v", text, again, err)
		}
	}
	for _, c := range []struct{ name, text, wants string }{
		{"nothing", ``, "ends too early"},
		{"half", good[:len(good)/2], "ends too early"},
		{"no object", `[1,2]`, "profile: "},
		{"no JSON", `hopper/bf16`, "profile: "},
		{"null", `null`, "schema_version"},
		{"more", good + ` {}`, "more text"},
		{"unknown field", in(`"name"`, `"comment":1,"name"`), "comment: unknown field"},
		{"unknown field of the step", in(`"group"`, `"grop":1,"group"`), "step.grop: unknown field"},
		{"unknown field of the plan", in(`"split"`, `"splits":1,"split"`), "splits: unknown field"},
		{"unknown field of a rule", in(`"grain"`, `"grains":1,"grain"`), "grains: unknown field"},
		{"unknown field of a merge", in(`"partial"`, `"order":1,"partial"`), "order: unknown field"},
		{"unknown field of the epilogue", in(`"form"`, `"bias":1,"form"`), "bias: unknown field"},
		{"unknown field of the provenance", in(`"source"`, `"author":1,"source"`), "author: unknown field"},
		{"a key in capitals", in(`"plan"`, `"Plan"`), "Plan: unknown field"},
		{"a key in capitals inside", in(`"group"`, `"Group"`), "Group: unknown field"},
		{"a key in letters that fold to the schema's", in(`"slices"`, `"ſlices"`), "lices: unknown field"},
		{"a key twice", in(`"name":"x"`, `"name":"x","name":"y"`), "name: is there twice"},
		{"a key twice inside", in(`"partial":"f32"`, `"partial":"f32","partial":"f16"`), "partial: is there twice"},
		{"a key twice after a list", in(`"name":"x"`, `"name":"x","other":[{"a":[1,{}]},2],"name":"y"`), "name: is there twice"},
		{"no version", in(`"schema_version":1,`, ``), "schema_version"},
		{"another version", in(`"schema_version":1`, `"schema_version":2`), "schema_version: is 2"},
		{"a version that is text", in(`"schema_version":1`, `"schema_version":"1"`), "schema_version"},
		{"no step", `{"schema_version":1}`, "step: missing"},
		{"step null", `{"schema_version":1,"step":null}`, "step: missing"},
		{"a step that is a number", `{"schema_version":1,"step":7}`, "step"},
		{"an unknown step", `{"schema_version":1,"step":"hopper/bf61"}`, `step: no row is called "hopper/bf61"`},
		{"an unknown kind", in(`"fused"`, `"fusion"`), "step.kind"},
		{"an unknown format", in(`"a":"bf16"`, `"a":"bf17"`), "bf17"},
		{"a group of 0", in(`"group":16`, `"group":0`), "step.group"},
		{"a huge group", in(`"group":16`, `"group":1000000000`), "step.group"},
		{"a group past 64 bits", in(`"group":16`, `"group":100000000000000000000`), "step.group"},
		{"a group that is no integer", in(`"group":16`, `"group":1.5`), "step.group"},
		{"a huge F", in(`"fraction_bits":25`, `"fraction_bits":5000`), "step.fraction_bits"},
		{"a huge floor", in(`-133`, `-1000000`), "step.exponent_floor"},
		{"an unknown rounding", in(`"result_rounding":"toward-zero"`, `"result_rounding":"sideways"`), "step.result_rounding"},
		{"an unknown alignment", in(`"align":"toward-zero"`, `"align":"no"`), "step.align"},
		{"a default written out", in(`"group":16`, `"group":16,"overflow":"infinity"`), "step.overflow"},
		{"what does not apply", in(`"group":16`, `"group":16,"interleaved":true`), "step.interleaved"},
		{"no plan", in(`"plan":{"split":{"slices":2,"grain":64,"of":{"chain":{}},"merge":{"partial":"f32","sum":"f32"}}},`, ``), "plan: must hold exactly one"},
		{"no slices", in(`"slices":2`, `"slices":0`), "plan.split.slices"},
		{"an unknown partial format", in(`"partial":"f32"`, `"partial":"f33"`), "f33"},
		{"merges in f64", in(`"sum":"f32"`, `"sum":"f64"`), "plan.split.merge"},
		{"partial sums in s32", in(`"partial":"f32"`, `"partial":"s32"`), "plan.split.merge"},
		{"an f64 step merged in f32", strings.Replace(in(`"a":"bf16","b":"bf16","group":16,"fraction_bits":25,"align":"toward-zero","exponent_floor":-133,"result":"f32","result_rounding":"toward-zero"`,
			`"a":"f64","b":"f64","group":1,"result":"f64","result_rounding":"nearest-even"`), "fused", "fma", 1), "plan.split.merge"},
		{"an unknown output", in(`"out":"bf16"`, `"out":"bf18"`), "bf18"},
		{"no output", in(`"out":"bf16",`, ``), "epilogue.out"},
		{"an output nobody rounds to", in(`"out":"bf16"`, `"out":"e4m3"`), "epilogue.out"},
		{"an output wider than the accumulator", in(`"out":"bf16"`, `"out":"f64"`), "epilogue.out"},
		{"an unknown form", in(`"form":"add"`, `"form":"sub"`), "epilogue.form"},
		{"half with an f32 accumulator", in(`"form":"add"`, `"form":"half"`), "epilogue.form"},
		{"an unknown treatment of an alpha of 0", in(`"form":"add"`, `"form":"add","zero_alpha":"ignore"`), "epilogue.zero_alpha"},
		{"a product of a fused step", in(`"form":"add"`, `"form":"product-a"`), "epilogue.form"},
		{"an unknown scaling", in(`"form":"add"`, `"form":"add","scaling":"block"`), "epilogue.scaling"},
		{"unknown field of lanes", lanes(`"runs":1,`, `"form":"add"`), "runs: unknown field"},
		{"unknown field of a fold", strings.Replace(lanes(``, `"form":"add"`), `{"to":1}`, `{"to":1,"by":2}`, 1), "by: unknown field"},
		{"lanes merged in f64", strings.Replace(lanes(``, `"form":"add"`), `"sum":"f32"`, `"sum":"f64"`, 1), "plan.lanes.merge"},
		{"lanes inside serial merged in s32", serial(strings.Replace(lanesRule, `"partial":"f32"`, `"partial":"s32"`, 1), `"form":"add"`), "plan.serial.of.lanes.merge"},
		{"scales of serial slices", serial(`"chain":{}`, `"form":"add","scaling":"row"`), "epilogue.scaling"},
		{"scales of a serial tree", strings.Replace(serial(`"chain":{}`, `"form":"add","scaling":"tensor"`), `"serial":{"slices":2,"grain":64,"of":{"chain":{}}}`,
			`"tree":{"k":0,"root":{"serial":true,"sum":[{},{}]}}`, 1), "epilogue.scaling"},
		{"alpha in A of a fused step", in(`"form":"add"`, `"form":"alpha-in-a"`), "epilogue.form"},
		{"alpha in A in f64", `{"schema_version":1,"step":"cuda-core/f64","plan":{"chain":{}},"epilogue":{"out":"f64","form":"alpha-in-a"}}`, "epilogue.form"},
		{"a source that is a number", in(`"source":"H200"`, `"source":200`), "provenance.source"},
	} {
		p, err := Parse([]byte(c.text))
		if err == nil {
			t.Errorf("%s: was read as %+v", c.name, p)
			continue
		}
		if !strings.HasPrefix(err.Error(), "profile: ") || !strings.Contains(err.Error(), c.wants) {
			t.Errorf("%s: %v; want %s", c.name, err, c.wants)
		}
	}
}

// TestMergesOfTrees: merges are held to the step's result however deep they stand.
func TestMergesOfTrees(t *testing.T) {
	deep := func(m plan.Merge) plan.Plan {
		leaf := func(from, to int) *plan.Tree { return &plan.Tree{Chain: []plan.Range{{Start: from, Stop: to}}} }
		good := plan.Merge{Partial: format.F32, Sum: format.F32}
		return plan.Plan{Tree: &plan.Fixed{K: 3, Root: &plan.Tree{Merge: &good, Sum: []*plan.Tree{
			leaf(0, 1), {Merge: &m, Sum: []*plan.Tree{leaf(1, 2), leaf(2, 3)}},
		}}}}
	}
	p, err := Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	p.Plan = deep(plan.Merge{Partial: format.F16, Sum: format.F32})
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	for _, m := range []plan.Merge{{Partial: format.F64, Sum: format.F32}, {Partial: format.F32, Sum: format.S32}} {
		p.Plan = deep(m)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "plan.tree.root.sum[1].merge") {
			t.Errorf("%+v: %v", m, err)
		}
	}
	p.Plan = plan.SplitK(2, 8, plan.Plan{Promote: &plan.Promote{Interval: 128, Of: &plan.Plan{Chain: &plan.Chain{}}, Merge: plan.Merge{Partial: format.F64, Sum: format.F64}}}, format.F32, format.F32)
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "plan.split.of.promote.merge") {
		t.Errorf("a merge inside a split: %v", err)
	}
	p.Plan = plan.Strided(2, 8, plan.Dealt(2, 2, plan.Plain(), plan.Forward(), plan.In(format.F64)), plan.In(format.F32))
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "plan.lanes.of.lanes.merge") {
		t.Errorf("a merge inside lanes: %v", err)
	}
	serial := func(m plan.Merge) plan.Plan {
		return plan.Plan{Tree: &plan.Fixed{Root: &plan.Tree{Serial: true, Sum: []*plan.Tree{{}, {Sum: []*plan.Tree{{}}, Merge: &m}}}}}
	}
	p.Plan = serial(plan.In(format.F32))
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	p.Plan = serial(plan.In(format.S32))
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "plan.tree.root.sum[1].merge") {
		t.Errorf("a merge below a serial root: %v", err)
	}
}

// TestHostileProfiles: no text may take the reader down or much memory.
func TestHostileProfiles(t *testing.T) {
	for name, text := range map[string]string{
		"deep plan":    strings.Repeat(`{"schema_version":1,"step":"hopper/bf16","plan":`, 1) + strings.Repeat(`{"promote":{"interval":1,"merge":{"partial":"f32","sum":"f32"},"of":`, 3000) + `{"chain":{}}` + strings.Repeat(`}}`, 3000) + `}`,
		"deeper JSON":  strings.Repeat(`{"plan":`, 20000),
		"deep tree":    `{"schema_version":1,"step":"hopper/bf16","plan":{"tree":{"k":0,"root":` + strings.Repeat(`{"merge":{"partial":"f32","sum":"f32"},"sum":[`, 4000) + `{}` + strings.Repeat(`]}`, 4000) + `}}}`,
		"huge K":       `{"schema_version":1,"step":"hopper/bf16","plan":{"tree":{"k":4611686018427387904,"root":{}}}}`,
		"long name":    `{"schema_version":1,"step":"` + strings.Repeat("x", 1<<20) + `"}`,
		"deep lanes":   `{"schema_version":1,"step":"hopper/bf16","plan":` + strings.Repeat(`{"lanes":{"count":1,"run":1,"folds":[{"to":1}],"merge":{"partial":"f32","sum":"f32"},"of":`, 3000) + `{"chain":{}}` + strings.Repeat(`}}`, 3000) + `}`,
		"many folds":   `{"schema_version":1,"step":"hopper/bf16","plan":{"lanes":{"count":2,"run":1,"merge":{"partial":"f32","sum":"f32"},"of":{"chain":{}},"folds":[` + strings.Repeat(`{"to":1},`, 1<<16) + `{"to":1}]}},"epilogue":{"out":"bf16","form":"add"}}`,
		"long folds":   longFolds(1 << 16),
		"many numbers": `{"schema_version":` + strings.Repeat("9", 1<<16) + `}`,
	} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s: was read", name)
		}
	}
}

// longFolds take one value off at a time: well formed, but a sum in every fold.
func longFolds(lanes int) string {
	var b strings.Builder
	for to := lanes - 1; to >= 1; to-- {
		fmt.Fprintf(&b, `{"to":%d},`, to)
	}
	return fmt.Sprintf(`{"schema_version":1,"step":"hopper/bf16","plan":{"lanes":{"count":%d,"run":1,"of":{"chain":{}},"folds":[%s],"merge":{"partial":"f32","sum":"f32"}}},"epilogue":{"out":"bf16","form":"add"}}`,
		lanes, strings.TrimSuffix(b.String(), ","))
}

// TestUnknownNames: the error for an unknown name says it, and near ones that are known.
func TestUnknownNames(t *testing.T) {
	for _, name := range []string{"hopper/bf17", "bf16", "hopper", "", "pascal/f16", "Hopper/BF16"} {
		_, err := Load(name)
		if err == nil {
			t.Errorf("%q was found", name)
			continue
		}
		if !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) || !strings.Contains(err.Error(), "known are") || len(err.Error()) > 600 {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, near := range map[string]string{"hopper/bf17": "hopper/bf16", "HOPPER/F16": "hopper/f16", "hoper/tf32": "hopper/tf32"} {
		if _, err := Load(name); err == nil || !strings.Contains(err.Error(), "known are "+near) {
			t.Errorf("%s: the near name %s is not suggested first: %v", name, near, err)
		}
	}
}

// TestChangedProfile: a profile that keeps a catalogue name with another arithmetic says so where it is described.
func TestChangedProfile(t *testing.T) {
	p, err := Load("hopper/bf16")
	if err != nil {
		t.Fatal(err)
	}
	const warning = "not the catalogue's hopper/bf16"
	if strings.Contains(p.Describe(), warning) {
		t.Errorf("the catalogue's own: %s", p.Describe())
	}
	p.Step.Group = 12
	if !strings.Contains(p.Describe(), warning) {
		t.Errorf("changed: %s", p.Describe())
	}
}

// TestDescribe: what is printed of a profile says its order, its epilogue, how it is known, and every doubt.
func TestDescribe(t *testing.T) {
	doubted := 0
	for _, p := range List() {
		text := p.Describe()
		for _, part := range []string{p.Name, p.Plan.Describe(), p.Epilogue.Describe(), strings.TrimSuffix(p.Provenance.Source, ".")} {
			if part == "" || !strings.Contains(text, part) {
				t.Errorf("%s: %q does not say %q", p.Name, text, part)
			}
		}
		if p.Provenance.Doubts != "" {
			doubted++
			if !strings.Contains(text, "Doubtful: "+strings.TrimSuffix(p.Provenance.Doubts, ".")) {
				t.Errorf("%s: its doubts are not printed: %s", p.Name, text)
			}
		}
		if p.Provenance.DataOnly != strings.Contains(text, "oracle") {
			t.Errorf("%s: %s", p.Name, text)
		}
		if strings.Contains(text, "%!") || strings.Contains(text, "  ") || strings.Contains(text, "..") {
			t.Errorf("%s: %q", p.Name, text)
		}
		if s := p.Summary(); strings.Contains(s, "\n") || !strings.Contains(s, p.Step.A.String()) {
			t.Errorf("%s: %q", p.Name, s)
		}
	}
	if doubted == 0 {
		t.Error("no profile is doubted")
	}
	for _, name := range []string{"mx/e2m1-k64-e8m0", "mx/e2m1-k64-ue4m3", "cdna1/f16-exact", "cdna1/f16-pairwise"} { // doubted in docs/arithmetic.md
		p, err := Load(name)
		if err != nil || p.Provenance.Doubts == "" {
			t.Errorf("%s is not doubted: %v", name, err)
		}
	}
}

// TestEpilogueSentences: forms, scalings and outputs are told apart by their sentence.
func TestEpilogueSentences(t *testing.T) {
	seen := map[string]Epilogue{}
	for _, form := range []Form{FormAdd, FormRoundThenAdd, FormFMAAlpha, FormFMABeta, FormHalf, FormAlphaInA, FormProductA, FormProductB} {
		for _, scaling := range []Scaling{ScalingNone, ScalingTensor, ScalingRow} {
			for _, out := range []format.Format{format.F16, format.BF16, format.F32} {
				e := Epilogue{Out: out, Form: form, Scaling: scaling}
				text := e.Describe()
				if other, taken := seen[text]; taken || !strings.Contains(text, out.String()) || strings.Contains(text, "%!") {
					t.Errorf("%+v and %+v: %q", e, other, text)
				}
				seen[text] = e
			}
		}
	}
}

// TestCheckOut: which accumulators are rounded to which outputs.
func TestCheckOut(t *testing.T) {
	allowed := map[format.Format][]format.Format{
		format.F32: {format.F16, format.BF16, format.F32}, format.F16: {format.F16, format.F32},
		format.F64: {format.F64}, format.S32: {format.S32},
	}
	for _, accumulator := range append(format.All(), format.Invalid, 200) {
		for _, out := range append(format.All(), format.Invalid, 200) {
			err := CheckOut("d", accumulator, out)
			if want := slices.Contains(allowed[accumulator], out); (err == nil) != want {
				t.Errorf("%v to %v: %v", accumulator, out, err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "d: ") {
				t.Errorf("%v", err)
			}
		}
	}
}

// FuzzParse: whatever is read is valid and has a stable canonical form.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"schema_version":1,"step":"cuda-core/f32","plan":{` + lanesRule + `},"epilogue":{"out":"f32","form":"alpha-in-a"}}`))
	f.Add([]byte(`{"schema_version":1,"step":"hopper/bf16","plan":{"serial":{"slices":2,"grain":64,"of":{` + lanesRule + `}}},"epilogue":{"out":"bf16","form":"add"}}`))
	for _, p := range List() {
		f.Add(p.JSON())
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		again, err := Parse(p.JSON())
		if err != nil || again.ID() != p.ID() {
			t.Fatalf("%v", err)
		}
		_ = p.Describe()
		for _, k := range []int{0, 1, 65, 1000} {
			tree, err := p.Plan.Expand(k)
			if err == nil {
				_ = tree.Depth()
			}
		}
	})
}
