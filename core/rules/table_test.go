package rules

import (
	"strings"
	"testing"
)

// good is the smallest table; every bad one below differs from it in one place.
const good = `{"about": "", "gpus": ["here"], "steps": {"chain": {"f32": "cuda-core/f32"}},
 "rules": [{"id": "r", "family": "f", "kernel": "^k_(?P<tile>\\d+)", "when": ["!reduce"], "let": {"half_k": "k / 2", "two": "half_k * 2"}, "step": "chain",
  "plans": [{"search": [{"name": "slices", "from": "1", "to": "min(4, two)", "distinct": "ceil(k/slices)"}, {"name": "lanes", "values": [2, "tile"]}],
   "plan": {"split": {"slices": "slices", "grain": 1, "of": {"lanes": {"count": "lanes", "run": 1, "of": {"chain": {}}, "folds": "countdown(lanes)",
    "merge": {"partial": "f32", "sum": "sum"}}}, "merge": {"partial": "workspace", "sum": "f32", "from_zero": true}}}}],
  "measured": "here"}],
 "epilogues": [{"forms": ["add"]}],
 "blind": [{"rule": "r", "when": ["k > 1"], "assume": [{"name": "tile", "values": [8]}]}]}`

func TestBadTables(t *testing.T) {
	if _, err := readTable([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct{ from, to, want string }{
		{`{"about"`, `{"above"`, "above"},
		{`"blind"`, `"blond"`, "blond"},
		{`"gpus": ["here"], `, ``, "gpus: must name"},
		{`"gpus": ["here"]`, `"gpus": [""]`, "gpus: must name"},
		{`]}]}`, `]}]} x`, "invalid character"},
		{`"cuda-core/f32"`, `"cuda-core/f33"`, "steps.chain.f32"},
		{`"id": "r", `, ``, "rules[0].id: missing"},
		{`"family": "f", `, ``, "rules[0] (r).family: missing"},
		{`"kernel": "^k_(?P<tile>\\d+)", `, ``, "rules[0] (r).kernel: missing"},
		{`^k_(?P`, `^k_((?P`, "rules[0] (r).kernel: error parsing regexp"},
		{`"measured": "here"`, `"measured": ""`, "rules[0] (r).measured: missing; say how the row is known"},
		{`"!reduce"`, `"!reduced"`, `rules[0] (r).when[0]: expression "!reduced": no variable is called "reduced"`},
		{`"!reduce"`, `"!"`, `rules[0] (r).when[0]: expression "!": it ends too early`},
		{`"half_k": "k / 2"`, `"half_k": "two / 2"`, "rules[0] (r).let: [half_k two] are defined by one another"},
		{`"half_k": "k / 2"`, `"k": "m / 2"`, "rules[0] (r).let.k: that name is taken"},
		{`"half_k": "k / 2"`, `"half_k": "q / 2"`, `no variable is called "q"`},
		{`"step": "chain"`, `"step": "chains"`, `rules[0] (r).step: no set of steps is called "chains"`},
		{`"step": "chain"`, `"step": "k ? 'chain'"`, "rules[0] (r).step: expression"},
		{`"name": "slices", `, ``, "rules[0] (r).plans[0].search: a variable has no name"},
		{`"from": "1", `, ``, "search.slices: from and to go together"},
		{`"from": "1", "to": "min(4, two)", `, ``, "search.slices: has either values or from and to"},
		{`"values": [2, "tile"]`, `"values": [[]]`, "search.lanes.values[0]: must be a number or an expression"},
		{`"values": [2, "tile"]`, `"values": [2, "tiles"]`, `search.lanes.values[1]: expression "tiles": no variable is called "tiles"`},
		{`"slices": "slices"`, `"slices": "slice"`, `plan.split.slices: expression "slice": no variable is called "slice"`},
		{`"slices": "slices"`, `"slice": "slices"`, `plan: with 2 for every number that is not known: it makes no plan: json: unknown field "slice"`},
		{`"slices": "slices"`, `"slices": 0`, "plan.split.slices"},
		{`"countdown(lanes)"`, `"upwards"`, `folds: is "upwards"; write a list`},
		{`"countdown(lanes)"`, `"countdown(lane)"`, `no variable is called "lane"`},
		{`"countdown(lanes)"`, `"through(lanes, )"`, "ends too early"},
		{`"countdown(lanes)"`, `[{"to": 3}]`, "plan.split.of.lanes.folds[0]"},
		{`"sum": "sum"`, `"sum": "f33"`, `no variable is called "f33"`},
		{`"sum": "sum"`, `"sum": "tile"`, "it makes no plan"},
		{`["add"]`, `[]`, "epilogues[0].forms: missing"},
		{`["add"]`, `["plus"]`, `epilogues[0].forms[0]: no form is called "plus"`},
		{`"rule": "r"`, `"rule": "s"`, `blind[0].rule: no rule is called "s"`},
		{`"assume": [{"name": "tile", "values": [8]}]`, `"assume": []`, `blind[0].assume: rule r reads "tile" in the kernel's name; say what to assume for it`},
		{`"when": ["k > 1"]`, `"when": ["tile > 1"]`, `blind[0].when[0]: expression "tile > 1": no variable is called "tile"`},
	} {
		text := strings.Replace(good, bad.from, bad.to, 1)
		if text == good {
			t.Fatalf("%s is not in the table", bad.from)
		}
		if _, err := readTable([]byte(text)); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s → %s:\n got %v\nwant …%s…", bad.from, bad.to, err, bad.want)
		}
	}
	twice := strings.Replace(good, `"rules": [`, `"rules": [{"id": "r", "family": "f", "kernel": "x", "step": "chain", "plans": [{"plan": {"chain": {}}}], "measured": "here"}, `, 1)
	if _, err := readTable([]byte(twice)); err == nil || !strings.Contains(err.Error(), "rules[1] (r).id: is there twice") {
		t.Errorf("two rows of one id: %v", err)
	}
}

// TestDomains: the order of values, and what is left out.
func TestDomains(t *testing.T) {
	s := scope{"k": number(10), "grid": number(0), "five": number(5)}
	for _, test := range []struct {
		domain domain
		want   []int
	}{
		{domain{Name: "x", Values: []any{3.0, "k", 3.0}}, []int{3, 10}},
		{domain{Name: "x", From: "1", To: "k", Distinct: "ceil(k/x)"}, []int{1, 2, 3, 4, 5, 10}},
		{domain{Name: "x", From: "1", To: "3", First: []string{"2"}}, []int{2, 1, 3}},
		{domain{Name: "x", From: "1", To: "6", Prefer: "x % 3 == 0"}, []int{3, 6, 1, 2, 4, 5}},
		{domain{Name: "x", From: "1", To: "6", Only: "five"}, []int{5}},
		{domain{Name: "x", From: "1", To: "2", Only: "grid"}, []int{1, 2}},
		{domain{Name: "x", From: "3", To: "2"}, nil},
	} {
		if err := test.domain.compile("test", s); err != nil {
			t.Fatal(err)
		}
		values, err := test.domain.list(s)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, v := range values {
			got = append(got, v.number)
		}
		if len(got) != len(test.want) {
			t.Errorf("%+v: %v, want %v", test.domain, got, test.want)
			continue
		}
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("%+v: %v, want %v", test.domain, got, test.want)
				break
			}
		}
		if _, left := s["x"]; left {
			t.Fatal("the variable is left in the scope")
		}
	}
}

// TestTableIsUsed: every row of the table can be reached by name or blind, and says how it is known.
func TestTableIsUsed(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range readGolden(t).Cases {
		for _, candidate := range Choose(c, Options{}).Candidates {
			seen[candidate.Rule] = true
		}
	}
	unseen := map[string]bool{ // no case of the golden set has such a kernel; measured elsewhere
		"magma": true, "gemv2t": true, "gemv2t-split-k": true, "largek-alone": true, "cutlass-f64-split-k": true,
		"cutlass-half-k8": true, "cutlass-half-k8-split-k": true, "cutlass-grouped": true,
	}
	for _, r := range loaded().Rules {
		if !seen[r.ID] && !unseen[r.ID] {
			t.Errorf("no golden case meets rule %s", r.ID)
		}
	}
}
