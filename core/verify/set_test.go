package verify

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// writeSet makes FILE.jsonl of lines, with data in FILE.bin beside it where there is any.
func writeSet(t *testing.T, data []byte, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "set.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if data != nil {
		if err := os.WriteFile(strings.TrimSuffix(path, "jsonl")+"bin", data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// openSet is OpenSet, which must not fail.
func openSet(t *testing.T, path string) *Set {
	t.Helper()
	s, err := OpenSet(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const smallAbout = `{"about": {"gpu": "NVIDIA H200"}}`

// smallLine is one golden case of 15 bf16 elements, stored at an offset.
func smallLine(id string, offset int) string {
	return fmt.Sprintf(`{"op": "mm", "m": 3, "n": 5, "k": 7, "seed": 11, "kind": "normal", "layout": "NT", "a": "bf16", "b": "bf16", "out": "bf16",`+
		` "kernels": [%q], "id": %q, "offset": %d, "elements": 15, "bytes": 30}`, nvjetKernel, id, offset)
}

func TestOpenSetErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.jsonl")
	var file *fs.PathError
	if _, err := OpenSet(missing); !errors.As(err, &file) || file.Path != missing {
		t.Errorf("a missing file: %v", err)
	}
	instruction := `{"gpu": "H100", "format": "f16", "out": "f32", "rows": 1, "k": 1, "instruction": "mma.sync", "a": 0, "b": 2, "c": 4, "d": 8}`
	if _, err := OpenSet(writeSet(t, nil, instruction)); !errors.As(err, &file) || filepath.Base(file.Path) != "set.bin" {
		t.Errorf("instructions without a .bin: %v", err)
	}
	for _, test := range []struct {
		lines []string
		want  string
	}{
		{[]string{""}, "is no set of recorded cases: its first line is not a JSON object"},
		{[]string{"\n \n"}, "is no set of recorded cases"},
		{[]string{"[1, 2]"}, "is no set of recorded cases"},
		{[]string{"\x93NUMPY"}, "is no set of recorded cases"},
		{[]string{smallAbout, "{}"}, `set.jsonl, line 2: a: number format "" is unknown`},
		{[]string{smallAbout, smallLine("x", 0), "rubbish"}, "set.jsonl, line 3: invalid character"},
		{[]string{instruction, `{"gpu": "H100"}`}, `set.jsonl, line 2: format: number format "" is unknown`},
	} {
		_, err := OpenSet(writeSet(t, make([]byte, 64), test.lines...))
		var refusal *gemm.Error
		if !errors.As(err, &refusal) || refusal.Kind != gemm.KindArgument || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v, want %s", test.lines, err, test.want)
		}
	}
}

func TestSetAbout(t *testing.T) {
	s := openSet(t, writeSet(t, nil, "", smallAbout, smallLine("x", 0), "", smallLine("y", 0)))
	var about map[string]any
	if err := json.Unmarshal(s.AboutJSON(), &about); err != nil {
		t.Fatal(err)
	}
	gpu, _ := about["about"].(map[string]any)
	if s.Len() != 2 || about["cases"] != 2.0 || about["kind"] != "golden" || about["multiply_adds"] != 210.0 || gpu["gpu"] != "NVIDIA H200" {
		t.Errorf("%d cases, %v", s.Len(), about)
	}
	golden := openSet(t, goldenPath)
	if about := golden.About(); golden.Len() != wantedCases || about["multiply_adds"] != uint64(203017357935) {
		t.Errorf("%d cases, %v", golden.Len(), about)
	}
}

func TestSetReplay(t *testing.T) {
	path := writeSet(t, make([]byte, 40), smallAbout, smallLine("zeros", 4), smallLine("outside", 12))
	s := openSet(t, path)
	v, err := s.Replay(t.Context(), 0, Options{})
	if err != nil || v.ID != "zeros" || v.Outcome != Wrong || v.Comparison == nil || v.Comparison.Count != 15 || v.Comparison.Differing != 15 {
		t.Errorf("a case of zeros: %+v, %v", v, err)
	}
	if v, err = s.Replay(t.Context(), 1, Options{}); !cutShort(err) {
		t.Errorf("samples outside the .bin: %+v, %v", v, err)
	}
	for _, index := range []int{-1, 2, 1 << 40} {
		var refusal *gemm.Error
		if _, err := s.Replay(t.Context(), index, Options{}); !errors.As(err, &refusal) || refusal.Kind != gemm.KindArgument ||
			err.Error() != fmt.Sprintf("case %d: the set has 2", index) {
			t.Errorf("case %d: %v", index, err)
		}
	}
	if err := os.Remove(strings.TrimSuffix(path, "jsonl") + "bin"); err != nil {
		t.Fatal(err)
	}
	var file *fs.PathError
	if _, err := s.Replay(t.Context(), 0, Options{}); !errors.As(err, &file) || filepath.Base(file.Path) != "set.bin" {
		t.Errorf("a .bin that is gone: %v", err)
	}
}

// cutShort tells the error of a .bin without the elements asked for: one about what was given, which names the file.
func cutShort(err error) bool {
	var refusal *gemm.Error
	return errors.As(err, &refusal) && refusal.Kind == gemm.KindArgument && strings.HasPrefix(err.Error(), "set.bin: ends before the output elements of ")
}

// TestTruncatedBin: the golden set with half of its .bin gives an error that names the file, never a verdict.
func TestTruncatedBin(t *testing.T) {
	text, err := os.ReadFile(goldenPath)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(strings.TrimSuffix(goldenPath, "jsonl") + "bin")
	if err != nil {
		t.Fatal(err)
	}
	s := openSet(t, writeSet(t, data[:len(data)/2], string(text)))
	for i, c := range s.golden.Cases {
		if c.Out.Samples.Offset+int64(c.Out.Samples.Bytes) <= int64(len(data)/2) {
			continue
		}
		if v, err := s.Replay(t.Context(), i, Options{}); !cutShort(err) || v.Outcome != "" {
			t.Fatalf("%s: %+v, %v", c.ID, v, err)
		}
	}
}

// instructionSet writes a block of rows of one product a·b + c in f16 → f32: 2·3 + 1 = 7, over and over, but for changes.
func instructionSet(t *testing.T, change func(data []byte), replace ...string) *Set {
	t.Helper()
	const rows, k = 5, 16
	data := make([]byte, rows*k*2*2+rows*4*2)
	for r := range rows {
		binary.LittleEndian.PutUint16(data[r*k*2:], 0x4000)
		binary.LittleEndian.PutUint16(data[(rows+r)*k*2:], 0x4200)
		binary.LittleEndian.PutUint32(data[rows*k*4+4*r:], 0x3f800000)
		binary.LittleEndian.PutUint32(data[rows*k*4+rows*4+4*r:], 0x40e00000)
	}
	if change != nil {
		change(data)
	}
	line := fmt.Sprintf(`{"gpu": "H100", "format": "f16", "out": "f32", "rows": %d, "k": %d, "instruction": "mma.sync", "a": 0, "b": %d, "c": %d, "d": %d}`,
		rows, k, rows*k*2, rows*k*4, rows*k*4+rows*4)
	return openSet(t, writeSet(t, data, strings.NewReplacer(replace...).Replace(line)))
}

func TestInstructionVerdicts(t *testing.T) {
	last := func(data []byte) { data[len(data)-4] ^= 1 }
	for _, test := range []struct {
		name    string
		change  func([]byte)
		replace []string
		outcome Outcome
		reason  string
	}{
		{"exact", nil, nil, Exact, ""},
		{"a bit of a result", last, nil, Wrong, "1 of 5 elements differ, first at 4 (expected 0x40e00001, found 0x40e00000), worst at 4 (1 unit in the last place)"},
		{"a GPU nobody knows", nil, []string{"H100", "X9"}, Undecided, `the architecture of GPU "X9" is not known`},
		{"an instruction nobody knows", nil, []string{"mma.sync", "fma.rn"}, Undecided, "the catalogue has no fma.rn instruction of f16 with result f32 on hopper"},
		{"a format that GPU lacks", nil, []string{"H100", "V100", `"f16"`, `"bf16"`}, Undecided, "the catalogue has no mma.sync instruction of bf16 with result f32 on volta"},
		{"no rows", nil, []string{`"rows": 5`, `"rows": 0`}, Undecided, "the set has no rows: nothing was compared"},
	} {
		s := instructionSet(t, test.change, test.replace...)
		v, err := s.Replay(t.Context(), 0, Options{})
		if err != nil || v.Outcome != test.outcome || v.Reason != test.reason {
			t.Errorf("%s: %s, %q, %v; want %s, %q", test.name, v.Outcome, v.Reason, err, test.outcome, test.reason)
		}
		if exact := v.Outcome == Exact; exact != (v.EvidenceBits == 5*32) || exact != (v.Comparison == nil && v.Plan == "hopper/f16") {
			t.Errorf("%s: %+v", test.name, v)
		}
	}
	s := instructionSet(t, nil)
	about := s.About()
	if s.Len() != 1 || about["kind"] != "instructions" || about["multiply_adds"] != uint64(80) || about["cases"] != 1 {
		t.Errorf("%d sets, %v", s.Len(), about)
	}
	if v, err := s.Replay(t.Context(), 1, Options{}); err == nil || err.Error() != "case 1: the set has 1" {
		t.Errorf("%+v, %v", v, err)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if v, err := s.Replay(cancelled, 0, Options{}); !errors.Is(err, context.Canceled) || v.Outcome != "" {
		t.Errorf("cancelled: %+v, %v", v, err)
	}
	if v, err := s.Replay(t.Context(), 0, Options{Progress: func(_, _ uint64) error { return errEnough }}); !errors.Is(err, errEnough) || v.Outcome != "" {
		t.Errorf("a refusing callback: %+v, %v", v, err)
	}
}
