package main

/*
#include "boundary.h"
*/
import "C"

import (
	"encoding/json"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/rules"
)

// largestCase bounds the JSON of a case record in bytes; kernel names are the longest that one has.
const largestCase = 16 << 20

// choiceAnswer is what hawkeye_rules_choose writes.
type choiceAnswer struct {
	Family     string            `json:"family"`
	Determined bool              `json:"determined"`
	Uncertain  bool              `json:"uncertain"`
	Unknown    string            `json:"unknown"`
	Count      int               `json:"count"`
	Candidates []candidateAnswer `json:"candidates"`
}

type candidateAnswer struct {
	Family    string          `json:"family"`
	Rule      string          `json:"rule"`
	Slices    int             `json:"slices"`
	ProfileID string          `json:"profile_id"`
	Profile   json.RawMessage `json:"profile"`
}

//export hawkeyeGoRulesChoose
func hawkeyeGoRulesChoose(text *C.char, length C.size_t, most C.int32_t, buffer *C.char, size C.size_t, needed *C.size_t,
	message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		switch {
		case text == nil:
			return fail(statusArgument, "json is NULL")
		case length > largestCase:
			return fail(statusArgument, "the JSON has %d bytes, more than any case record: at most %d are read", uint64(length), largestCase)
		case most < 0:
			return fail(statusArgument, "most is %d: it cannot be negative", int32(most))
		}
		answer, err := chooseFor(C.GoBytes(unsafe.Pointer(text), C.int(length)), int(most))
		if err != nil {
			return err
		}
		return returnText(answer, buffer, size, needed)
	})
}

// chooseFor is the call without its pointers.
func chooseFor(record []byte, most int) (string, error) {
	var c cases.Case
	if err := json.Unmarshal(record, &c); err != nil {
		return "", fail(statusArgument, "%v", err)
	}
	for _, t := range []struct {
		name   string
		format format.Format
	}{{"a", c.A.Format}, {"b", c.B.Format}, {"out", c.Out.Format}} {
		if t.format == format.Invalid {
			return "", fail(statusArgument, "case record: %s.format: is missing", t.name)
		}
	}
	choice := rules.Choose(&c, rules.Options{})
	answer := choiceAnswer{
		Family: choice.Family, Determined: choice.Determined, Uncertain: choice.Uncertain, Unknown: choice.Unknown,
		Count: len(choice.Candidates), Candidates: []candidateAnswer{},
	}
	for _, x := range choice.Candidates[:min(most, len(choice.Candidates))] {
		answer.Candidates = append(answer.Candidates, candidateAnswer{x.Family, x.Rule, x.Slices, x.Profile.ID(), x.Profile.JSON()})
	}
	written, err := json.Marshal(answer)
	return string(written), err
}
