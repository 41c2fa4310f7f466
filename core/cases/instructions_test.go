package cases

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

const instructionLine = `{"gpu": "H100", "format": "f16", "out": "f32", "rows": 2, "k": 3, "instruction": "mma.sync", "a": 0, "b": 12, "c": 24, "d": 32}`

func instructionData() []byte {
	data := make([]byte, 40)
	for i := range data {
		data[i] = byte(i)
	}
	return data
}

func TestReadInstructions(t *testing.T) {
	data := instructionData()
	tf32 := strings.NewReplacer(`"f16"`, `"tf32"`, `"k": 3`, `"k": 1`, `"b": 12`, `"b": 8`).Replace(instructionLine)
	all, err := ReadInstructions(writeSet(t, data, instructionLine, "", tf32))
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Sets) != 2 {
		t.Fatalf("%d sets were read", len(all.Sets))
	}
	s := all.Sets[0]
	if s.GPU != "H100" || s.Format != format.F16 || s.Out != format.F32 || s.Rows != 2 || s.K != 3 || s.Instruction != "mma.sync" {
		t.Errorf("read %+v", s)
	}
	for name, part := range map[string][2][]byte{"a": {s.A, data[:12]}, "b": {s.B, data[12:24]}, "c": {s.C, data[24:32]}, "d": {s.D, data[32:]}} {
		if !bytes.Equal(part[0], part[1]) || cap(part[0]) != len(part[0]) {
			t.Errorf("%s is %v (capacity %d), want %v", name, part[0], cap(part[0]), part[1])
		}
	}
	if s := all.Sets[1]; s.Format != format.TF32 || !bytes.Equal(s.A, data[:8]) || !bytes.Equal(s.B, data[8:16]) {
		t.Errorf("read %+v", s)
	}
}

func TestInstructionErrors(t *testing.T) {
	for _, test := range []struct{ old, new, want string }{
		{`"f16"`, `"half"`, `format: number format "half" is unknown`},
		{`"f32"`, `"float"`, `out: number format "float" is unknown`},
		{`"rows": 2`, `"rows": -2`, "rows and k: -2 and 3 are out of range"},
		{`"k": 3`, `"k": -3`, "rows and k: 2 and -3 are out of range"},
		{`"rows": 2`, `"rows": 4611686018427387904`, "rows and k: 4611686018427387904 and 3 are out of range"},
		{`"rows": 2, "k": 3`, `"rows": 2147483648, "k": 2147483648`, "a: bytes "},
		{`"format": "f16", "out": "f32", "rows": 2, "k": 3`, `"format": "tf32", "out": "f32", "rows": 2147483648, "k": 2147483648`, "bytes "}, // 2^64 bytes
		{`"rows": 2`, `"rows": 4`, "a: bytes"},                                                                                                // d reaches too far even where a fits
		{`"a": 0`, `"a": -2`, "a: bytes -2 to 10 are not in set.bin"},
		{`"b": 12`, `"b": 30`, "b: bytes 30 to 42 are not in set.bin"},
		{`"c": 24`, `"c": 36`, "c: bytes 36 to 44 are not in set.bin"},
		{`"d": 32`, `"d": 9223372036854775807`, "d: bytes"},
		{`"a": 0`, `"a": 1`, "a: offset 1 is not a multiple of the 2 bytes of an element"},
		{`"c": 24`, `"c": 26`, "c: offset 26 is not a multiple of the 4 bytes of an element"},
		{`"a": 0`, `"a": "0"`, "cannot unmarshal string"},
		{`"k": 3`, `"k": 3.5`, "cannot unmarshal number 3.5"},
		{`{"gpu"`, `"gpu"`, "invalid character ':' after top-level value"},
	} {
		line := strings.Replace(instructionLine, test.old, test.new, 1)
		if line == instructionLine {
			t.Fatalf("%s is not in the line", test.old)
		}
		if test.new == `"rows": 4` { // a to c fit, d does not
			line = strings.NewReplacer(`"k": 3`, `"k": 1`, `"b": 12`, `"b": 8`, `"c": 24`, `"c": 16`).Replace(line)
			test.want = "d: bytes 32 to 48 are not in set.bin"
		}
		_, err := ReadInstructions(writeSet(t, instructionData(), instructionLine, line))
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "set.jsonl, line 2: ") {
			t.Errorf("%s:\n got %v\nwant set.jsonl, line 2: …%s…", line, err, test.want)
		}
	}
	if _, err := ReadInstructions(writeSet(t, nil, instructionLine)); !os.IsNotExist(err) || !strings.Contains(err.Error(), "set.bin") {
		t.Errorf("no .bin: %v", err)
	}
	only := filepath.Join(t.TempDir(), "only.bin")
	if err := os.WriteFile(only, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadInstructions(strings.TrimSuffix(only, "bin") + "jsonl"); !os.IsNotExist(err) || !strings.Contains(err.Error(), "only.jsonl") {
		t.Errorf("no .jsonl: %v", err)
	}
}
