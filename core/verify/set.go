package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// Set is an opened file of recorded cases: a golden set of whole multiplications, or results of single instructions.
type Set struct {
	golden       *cases.Golden
	instructions *cases.Instructions
}

// OpenSet reads FILE.jsonl; outputs and instruction operands are in FILE.bin beside it. The first line tells which kind
// of set it is.
func OpenSet(path string) (*Set, error) {
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
	if s.instructions != nil {
		return len(s.instructions.Sets)
	}
	return len(s.golden.Cases)
}

// Case gives the record of one case of a golden set. Single instructions have none.
func (s *Set) Case(index int) (*cases.Case, error) {
	switch {
	case index < 0 || index >= s.Len():
		return nil, &gemm.Error{Kind: gemm.KindArgument, Message: fmt.Sprintf("case %d: the set has %d", index, s.Len())}
	case s.instructions != nil:
		return nil, &gemm.Error{Kind: gemm.KindArgument, Message: "the set holds results of single instructions, not of multiplications"}
	}
	return s.golden.Cases[index], nil
}

// About describes the set.
func (s *Set) About() map[string]any {
	about := map[string]any{"cases": s.Len(), "kind": "golden"}
	total := uint64(0)
	if s.instructions != nil {
		about["kind"] = "instructions"
		for _, set := range s.instructions.Sets {
			total += uint64(set.Rows) * uint64(set.K)
		}
	} else {
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
