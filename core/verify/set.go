package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/trace"
)

// Set is what OpenSet opened: a golden set of whole multiplications, results of single instructions, or a trace.
type Set struct {
	golden       *cases.Golden
	instructions *cases.Instructions
	trace        *trace.Trace
	found        found
}

// OpenSet reads FILE.jsonl; outputs and instruction operands are in FILE.bin beside it. The first line tells which kind
// of set it is. A folder is a trace (docs/trace.md).
func OpenSet(path string) (*Set, error) {
	if about, err := os.Stat(path); err == nil && about.IsDir() {
		t, err := trace.Open(path)
		if err != nil {
			return nil, malformed(err)
		}
		return &Set{trace: t}, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	first, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	var probe map[string]json.RawMessage
	if err := json.Unmarshal(first, &probe); err != nil {
		return nil, malformed(fmt.Errorf("%s is no set of recorded cases: its first line is not a JSON object", path))
	}
	if _, ok := probe["instruction"]; ok {
		instructions, err := cases.ReadInstructions(path)
		return &Set{instructions: instructions}, malformed(err)
	}
	golden, err := cases.ReadGolden(path)
	return &Set{golden: golden}, malformed(err)
}

// malformed marks an error that is about what a file says, not about reading it.
func malformed(err error) error {
	var file *fs.PathError
	if err == nil || errors.As(err, &file) {
		return err
	}
	return &gemm.Error{Kind: gemm.KindArgument, Message: err.Error()}
}

// Len counts the cases.
func (s *Set) Len() int {
	switch {
	case s.instructions != nil:
		return len(s.instructions.Sets)
	case s.trace != nil:
		return s.trace.Len()
	}
	return len(s.golden.Cases)
}

// Trace is the opened trace, nil where the set is none.
func (s *Set) Trace() *trace.Trace { return s.trace }

// Case gives the record of one case of a golden set or a trace. Single instructions have none.
func (s *Set) Case(index int) (*cases.Case, error) {
	switch {
	case index < 0 || index >= s.Len():
		return nil, &gemm.Error{Kind: gemm.KindArgument, Message: fmt.Sprintf("case %d: the set has %d", index, s.Len())}
	case s.instructions != nil:
		return nil, &gemm.Error{Kind: gemm.KindArgument, Message: "the set holds results of single instructions, not of multiplications"}
	case s.trace != nil:
		l, err := s.trace.Line(index)
		if err != nil {
			return nil, malformed(err)
		}
		return l.Case, nil
	}
	return s.golden.Cases[index], nil
}

// About describes the set.
func (s *Set) About() map[string]any {
	about := map[string]any{"cases": s.Len(), "kind": "golden"}
	total := uint64(0)
	switch {
	case s.instructions != nil:
		about["kind"] = "instructions"
		for _, set := range s.instructions.Sets {
			total += uint64(set.Rows) * uint64(set.K)
		}
	case s.trace != nil:
		about["kind"], about["trace"] = "trace", s.trace.About()
		device := map[string]any{}
		if torch := s.trace.Manifest.Torch; torch != "" {
			device["torch"] = torch
		}
		maps.Copy(device, s.trace.Manifest.Device)
		about["about"] = device
		for i := range s.trace.Len() {
			total += s.trace.MultiplyAdds(i)
		}
	default:
		about["about"] = s.golden.About
		for _, c := range s.golden.Cases {
			total += c.MultiplyAdds()
		}
	}
	about["multiply_adds"] = total
	return about
}

// AboutJSON is About as JSON.
func (s *Set) AboutJSON() []byte {
	text, err := json.Marshal(s.About())
	if err != nil {
		panic(err)
	}
	return text
}

// Replay replays one case.
func (s *Set) Replay(ctx context.Context, index int, o Options) (Verdict, error) {
	if index < 0 || index >= s.Len() {
		return Verdict{}, &gemm.Error{Kind: gemm.KindArgument, Message: fmt.Sprintf("case %d: the set has %d", index, s.Len())}
	}
	if s.instructions != nil {
		return replayInstructions(ctx, s.instructions, index, o)
	}
	if s.trace != nil {
		v, err := s.replayLine(ctx, index, o)
		v.clip()
		return v, err
	}
	c := s.golden.Cases[index]
	var stored []byte
	if c.Out.Samples != nil {
		var err error
		if stored, err = s.golden.Stored(c); err != nil {
			return Verdict{}, malformed(err)
		}
	}
	v, err := ReplayCase(ctx, c, stored, o)
	v.clip()
	return v, err
}
