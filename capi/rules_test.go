package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/rules"
)

// TestChooseAnswers: what the call writes is what package rules chose, for every golden case, with names and without.
func TestChooseAnswers(t *testing.T) {
	golden, err := cases.ReadGolden("../tests/goldens/h200-torch2.11.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range golden.Cases {
		if testing.Short() && i%10 != 0 {
			continue
		}
		blind := *c
		blind.Kernels, blind.Launches = nil, nil
		for _, x := range []*cases.Case{c, &blind} {
			record, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			text, err := chooseFor(record, 2)
			if err != nil {
				t.Fatalf("%s: %v", c.ID, err)
			}
			var got choiceAnswer
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			want := rules.Choose(x, rules.Options{})
			if got.Count != len(want.Candidates) || got.Family != want.Family || got.Determined != want.Determined || got.Unknown != want.Unknown || len(got.Candidates) != min(2, got.Count) {
				t.Errorf("%s: %s, chosen were %d of %s", c.ID, text, len(want.Candidates), want.Family)
			}
			for j, candidate := range got.Candidates {
				p, err := profile.Parse(candidate.Profile)
				if err != nil {
					t.Fatalf("%s: %v", c.ID, err)
				}
				if id := want.Candidates[j].Profile.ID(); p.ID() != id || candidate.ProfileID != id || candidate.Rule != want.Candidates[j].Rule {
					t.Errorf("%s: candidate %d is %s of rule %s, chosen was %s of %s", c.ID, j, p.ID(), candidate.Rule, id, want.Candidates[j].Rule)
				}
			}
		}
	}
}

// TestChooseRefuses: hostile records are refused with a sentence that names the field.
func TestChooseRefuses(t *testing.T) {
	record := func(a string) string {
		return fmt.Sprintf(`{"record_version":"1.0","op":"mm","a":%s,"b":{"format":"bf16","shape":[1,4,4],"strides":[16,4,1]},"out":{"format":"bf16","shape":[1,4,4]}}`, a)
	}
	if _, err := chooseFor([]byte(record(`{"format":"bf16","shape":[1,4,4],"strides":[16,4,1]}`)), 1); err != nil {
		t.Fatal(err)
	}
	for text, words := range map[string]string{
		"": "JSON", "[]": "case record", "{": "JSON", "{}": "record_version", "null": "record_version",
		record(`{}`): "a.shape",
		record(`{"shape":[1,4,4],"strides":[16,4,1]}`):                                           "a.format: is missing",
		record(`{"format":"bf16","shape":[1,4,4]}`):                                              "a.strides",
		record(`{"format":"bf16","shape":[1,4,-4]}`):                                             "out of range",
		record(`{"format":"bf16","shape":[1,4,4e300]}`):                                          "case record",
		record(`{"format":"bf16","shape":[2147483647,2147483647,2147483647],"strides":[0,0,0]}`): "more elements",
	} {
		_, err := chooseFor([]byte(text), 1)
		if s, message := statusOf(err); s != statusArgument || !strings.Contains(message, words) {
			t.Errorf("%s: status %d, %q, want %q", text, s, message, words)
		}
	}
}
