package cases

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

const goldenSet = "../../tests/goldens/h200-torch2.11.jsonl"

// writeSet makes FILE.jsonl of lines with data in FILE.bin beside it.
func writeSet(t *testing.T, data []byte, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "set.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data != nil {
		if err := os.WriteFile(strings.TrimSuffix(path, "jsonl")+"bin", data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// goldenText is a well-formed line with some fields replaced: name, JSON value, name, … An empty value leaves the field out.
func goldenText(replaced ...string) string {
	fields := [][2]string{
		{"op", `"mm"`}, {"m", "3"}, {"n", "5"}, {"k", "7"}, {"batch", "2"}, {"seed", "11"}, {"kind", `"normal"`}, {"layout", `"NT"`},
		{"a", `"bf16"`}, {"b", `"bf16"`}, {"out", `"bf16"`}, {"kernels", `["nvjet_sm90_x"]`}, {"sha256", `"` + strings.Repeat("a0", 32) + `"`},
		{"id", `"one"`}, {"offset", "4"}, {"elements", "30"}, {"bytes", "60"},
	}
	for i := 0; i < len(replaced); i += 2 {
		found := false
		for j := range fields {
			if fields[j][0] == replaced[i] {
				fields[j][1], found = replaced[i+1], true
			}
		}
		if !found {
			fields = append(fields, [2]string{replaced[i], replaced[i+1]})
		}
	}
	var parts []string
	for _, f := range fields {
		if f[1] != "" {
			parts = append(parts, fmt.Sprintf("%q: %s", f[0], f[1]))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

const aboutLine = `{"about": {"gpu": "NVIDIA H200", "torch": "2.11"}}`

func readOne(t *testing.T, text string) (*Case, *Golden, error) {
	t.Helper()
	data := make([]byte, 64)
	for i := range data {
		data[i] = byte(i)
	}
	g, err := ReadGolden(writeSet(t, data, aboutLine, "", text))
	if err != nil {
		return nil, g, err
	}
	if len(g.Cases) != 1 {
		t.Fatalf("%d cases were read from one line", len(g.Cases))
	}
	return g.Cases[0], g, nil
}

// TestGoldenLine: every field of a line arrives where the record has it.
func TestGoldenLine(t *testing.T) {
	c, g, err := readOne(t, goldenText("c", `"full"`, "c_lower", "4", "alpha", "0.75", "beta", "-1.5", "tf32", "true", "f16acc", "true",
		"fast", "true", "scaling", `"tensor"`, "scale_a", "0.013", "scale_b", "2", "unknown_field", "[1]"))
	if err != nil {
		t.Fatal(err)
	}
	want := &Case{
		RecordVersion: "1.0", ID: "one", Op: "mm", Kernels: []string{"nvjet_sm90_x"},
		A: Tensor{Format: format.BF16, Shape: []int{2, 3, 7}, Strides: []int{21, 7, 1}, Generator: &Generator{Recipe: "operands-a", Kind: "normal", Seed: 11}},
		B: Tensor{Format: format.BF16, Shape: []int{2, 7, 5}, Strides: []int{35, 1, 7}, Generator: &Generator{Recipe: "operands-b", Kind: "normal", Seed: 11}},
		C: &Tensor{Format: format.BF16, Shape: []int{2, 3, 5}, Strides: []int{15, 5, 1},
			Generator: &Generator{Recipe: "elements", Kind: "normal", Seed: 33<<20 + 7, Lower: 4}},
		Out: Output{Format: format.BF16, Shape: []int{2, 3, 5}, Hash: strings.Repeat("a0", 32),
			Samples: &Samples{File: "set.bin", Offset: 4, Bytes: 60, Elements: 30}},
		Flags: Flags{AllowTF32: true, F16Accumulation: true, FastAccumulation: true},
		Scalars: map[string]Scalar{
			"alpha": {format.F32, 0x3f400000}, "beta": {format.F32, 0xbfc00000},
			"scale_a": {format.F32, uint64(math.Float32bits(0.013))}, "scale_b": {format.F32, 0x40000000},
		},
		Device: map[string]string{"gpu": "NVIDIA H200", "torch": "2.11"},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("read %+v, want %+v", c, want)
	}
	if batch, m, n, k := c.Sizes(); [4]int{batch, m, n, k} != [4]int{2, 3, 5, 7} || c.MultiplyAdds() != 210 {
		t.Errorf("sizes %d, %d, %d, %d, %d multiply-adds", batch, m, n, k, c.MultiplyAdds())
	}
	data, err := g.Stored(c)
	if err != nil || len(data) != 60 || data[0] != 4 || data[59] != 63 {
		t.Errorf("stored %v, %v", data, err)
	}
}

func TestGoldenVariants(t *testing.T) {
	for _, test := range []struct {
		name, text string
		holds      func(c *Case) bool
	}{
		{"no batch is a batch of 1", goldenText("batch", "", "elements", "15", "bytes", "30"),
			func(c *Case) bool { return c.A.Shape[0] == 1 && c.Out.Shape[0] == 1 }},
		{"a batch of 0 stays 0", goldenText("batch", "0", "elements", "0", "bytes", "0"),
			func(c *Case) bool { return c.A.Shape[0] == 0 && c.Out.Shape[0] == 0 && c.Out.Samples == nil }},
		{"no id is the line's number", goldenText("id", ""), func(c *Case) bool { return c.ID == "line-3" }},
		{"no hash", goldenText("sha256", ""), func(c *Case) bool { return c.Out.Hash == "" }},
		{"nothing stored", goldenText("elements", "", "bytes", "", "offset", ""), func(c *Case) bool { return c.Out.Samples == nil }},
		{"bias", goldenText("c", `"bias"`, "c_lower", "7"),
			func(c *Case) bool {
				return reflect.DeepEqual(c.C.Strides, []int{0, 0, 1}) && c.C.Generator.Lower == 7
			}},
		{"no addend", goldenText(), func(c *Case) bool { return c.C == nil && len(c.Scalars) == 0 }},
		{"layout TN", goldenText("layout", `"TN"`), func(c *Case) bool {
			return reflect.DeepEqual(c.A.Strides, []int{21, 1, 3}) && reflect.DeepEqual(c.B.Strides, []int{35, 5, 1})
		}},
		{"f64 scalars keep all bits", goldenText("a", `"f64"`, "b", `"f64"`, "out", `"f64"`, "bytes", "240", "alpha", "0.1"),
			func(c *Case) bool { return c.Scalars["alpha"] == Scalar{format.F64, math.Float64bits(0.1)} }},
		{"integers", goldenText("a", `"i8"`, "b", `"i8"`, "out", `"i32"`, "bytes", "120"),
			func(c *Case) bool { return c.A.Format == format.S8 && c.Out.Format == format.S32 }},
		{"scales a row", goldenText("scaling", `"row"`), func(c *Case) bool {
			return reflect.DeepEqual(c.ScaleA.Shape, []int{3}) && reflect.DeepEqual(c.ScaleB.Shape, []int{5}) &&
				c.ScaleA.Generator.Seed == 34<<21 && c.ScaleB.Generator.Seed == 35<<21
		}},
		{"a larger output is sampled", goldenText("m", "100", "n", "99", "batch", "1", "elements", "500", "bytes", "1000"),
			func(c *Case) bool { return c.Out.Samples.Elements == 500 }},
	} {
		c, _, err := readOne(t, test.text)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		} else if !test.holds(c) {
			t.Errorf("%s: read %+v", test.name, c)
		}
	}
}

// TestGoldenErrors: what cannot be read is refused before memory is taken for it, with file, line and field.
func TestGoldenErrors(t *testing.T) {
	huge := "4611686018427387904" // 2^62
	for _, test := range []struct{ text, want string }{
		{goldenText("m", "-1"), "a size of -1 is out of range"},
		{goldenText("batch", "-2"), "a size of -2 is out of range"},
		{goldenText("k", huge), "a size of 4611686018427387904 is out of range"},
		{goldenText("n", "2147483649"), "a size of 2147483649 is out of range"},
		{goldenText("m", "1e30"), "cannot unmarshal number 1e30"},
		{goldenText("m", "9223372036854775808"), "cannot unmarshal number"},
		{goldenText("k", "2.5"), "cannot unmarshal number 2.5"},
		{goldenText("seed", "-1"), "cannot unmarshal number -1"},
		{goldenText("m", "65536", "k", "65536"), "2 × 65536 × 65536 elements are more than a golden set may have"},
		{goldenText("n", "2147483648", "k", "2147483648"), "2 × 3 × 2147483648 elements are more"},
		{goldenText("m", "2147483648", "n", "2147483648", "batch", "2147483648"), "elements are more"},
		{goldenText("m", "2147483648", "n", "2", "k", "0"), "2 × 2147483648 × 2 elements are more"},
		{goldenText("a", ""), `a: number format "" is unknown`},
		{goldenText("a", `"fp16"`), `a: number format "fp16" is unknown; known are f16, bf16`},
		{goldenText("b", `"int8"`), `b: number format "int8" is unknown`},
		{goldenText("out", "null"), `out: number format "" is unknown`},
		{goldenText("a", "1"), "cannot unmarshal number into Go struct field goldenLine.a of type string"},
		{goldenText("layout", `"N"`), `layout: is "N", want two of N and T`},
		{goldenText("layout", `"NTT"`), `layout: is "NTT", want two of N and T`},
		{goldenText("layout", `"nt"`), `layout: is "nt", want two of N and T`},
		{goldenText("layout", ""), `layout: is "", want two of N and T`},
		{goldenText("c", `"row"`), `c: is "row", want bias or full`},
		{goldenText("scaling", `"block"`), `scaling: is "block", want tensor or row`},
		{goldenText("sha256", `"a0"`), `sha256: is "a0", want 64 lower-case hexadecimal digits`},
		{goldenText("sha256", `"`+strings.Repeat("A0", 32)+`"`), "want 64 lower-case hexadecimal digits"},
		{goldenText("sha256", `"`+strings.Repeat("g0", 32)+`"`), "want 64 lower-case hexadecimal digits"},
		{goldenText("bytes", "59"), "bytes: 30 elements of bf16 are 60 bytes, not 59 at offset 4"},
		{goldenText("bytes", ""), "bytes: 30 elements of bf16 are 60 bytes, not 0 at offset 4"},
		{goldenText("bytes", "-60"), "bytes: 30 elements of bf16 are 60 bytes, not -60 at offset 4"},
		{goldenText("offset", "-1"), "bytes: 30 elements of bf16 are 60 bytes, not 60 at offset -1"},
		{goldenText("elements", "31", "bytes", "62"), "elements: 31 are stored, of this output it must be 30"},
		{goldenText("elements", "-30", "bytes", "-60"), "elements: -30 are stored, of this output it must be 30"},
		{goldenText("elements", "1099511627776", "bytes", "2199023255552"), "elements: 1099511627776 are stored, of this output it must be 30"},
		{goldenText("elements", "9223372036854775807", "bytes", "-2"), "elements: 9223372036854775807 are stored"},
		{goldenText("elements", "", "bytes", "60"), "elements: 0 are stored, of this output it must be 30"},
		{`{}`, `a: number format "" is unknown`},
		{`null`, `a: number format "" is unknown`},
		{`[]`, "cannot unmarshal array"},
		{`{"op": "mm"`, "unexpected end of JSON input"},
		{goldenText() + "}", "invalid character '}' after top-level value"},
		{`{"about": {"gpu": 5}}`, "cannot unmarshal number into Go struct field goldenLine.about of type string"},
		{"not JSON", "invalid character"},
	} {
		_, _, err := readOne(t, test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "set.jsonl, line 3: ") {
			t.Errorf("%s:\n got %v\nwant set.jsonl, line 3: …%s…", test.text, err, test.want)
		}
	}
}

func TestGoldenFiles(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.jsonl")
	if _, err := ReadGolden(missing); !os.IsNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
	if g, err := ReadGolden(writeSet(t, nil, "", " \t")); err != nil || len(g.Cases) != 0 {
		t.Errorf("an empty file: %v, %v", g, err)
	}
	long := writeSet(t, nil, `{"op": "`+strings.Repeat("x", 17<<20)+`"}`)
	if _, err := ReadGolden(long); err == nil || err.Error() != "set.jsonl: bufio.Scanner: token too long" {
		t.Errorf("a line of 17 MiB: %v", err)
	}
}

// TestStoredErrors: samples that are not in the .bin are an error that names it, never zeros.
func TestStoredErrors(t *testing.T) {
	for _, offset := range []string{"5", "64", "65", "1099511627776", "9223372036854775807"} {
		c, g, err := readOne(t, goldenText("offset", offset))
		if err != nil {
			t.Fatal(err)
		}
		if data, err := g.Stored(c); err == nil || !strings.HasPrefix(err.Error(), "set.bin: ") || data != nil {
			t.Errorf("offset %s: %v, %v", offset, data, err)
		}
	}
	c, g, err := readOne(t, goldenText("elements", "", "bytes", ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Stored(c); err == nil || err.Error() != "no output elements are stored" {
		t.Errorf("nothing stored: %v", err)
	}
	g, err = ReadGolden(writeSet(t, nil, goldenText()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Stored(g.Cases[0]); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "set.bin") {
		t.Errorf("no .bin: %v", err)
	}
}

// TestGoldenSet reads the set of the repository: every case's samples are there.
func TestGoldenSet(t *testing.T) {
	g, err := ReadGolden(goldenSet)
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Cases) != 517 || g.About["gpu"] != "NVIDIA H200" || g.About["nvidia-cublas"] != "13.1.0.3" {
		t.Errorf("%d cases of %v", len(g.Cases), g.About)
	}
	total := 0
	for _, c := range g.Cases {
		data, err := g.Stored(c)
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
		}
		if len(c.Out.Hash) != 64 || c.Device["torch"] == "" {
			t.Errorf("%s: hash %q, device %v", c.ID, c.Out.Hash, c.Device)
		}
		total += len(data)
	}
	if total != 1589376 {
		t.Errorf("%d bytes are stored in all, the file has 1589376", total)
	}
}
