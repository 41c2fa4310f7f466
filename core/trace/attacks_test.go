package trace_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/trace"
	"github.com/hawkeye-audit/hawkeye/core/trace/tracetest"
)

// inTime fails where a hostile file keeps a reader waiting.
func inTime(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: still reading", what)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestHostileFolders: folders that are no trace are refused, without a panic, a wait or a look outside.
func TestHostileFolders(t *testing.T) {
	sparse := func(size int64) func(t *testing.T, dir, outside string) {
		return func(t *testing.T, dir, _ string) { must(t, os.Truncate(filepath.Join(dir, "manifest.json"), size)) }
	}
	manifest := func(replace ...string) func(t *testing.T, dir, outside string) {
		return func(t *testing.T, dir, _ string) {
			edit(t, filepath.Join(dir, "manifest.json"), func(text []byte) []byte {
				changed := strings.NewReplacer(replace...).Replace(string(text))
				if changed == string(text) {
					t.Fatalf("%q changes nothing in %s", replace, text)
				}
				return []byte(changed)
			})
		}
	}
	swap := func(name string, put func(at, outside string) error) func(t *testing.T, dir, outside string) {
		return func(t *testing.T, dir, outside string) {
			at := filepath.Join(dir, name)
			must(t, os.Rename(at, filepath.Join(outside, filepath.Base(name))))
			must(t, put(at, filepath.Join(outside, filepath.Base(name))))
		}
	}
	link := func(at, outside string) error { return os.Symlink(outside, at) }
	pipe := func(at, _ string) error { return syscall.Mkfifo(at, 0o600) }
	folder := func(at, _ string) error { return os.Mkdir(at, 0o700) }
	for _, test := range []struct {
		name string
		do   func(t *testing.T, dir, outside string)
		want string
	}{
		{"no manifest", func(t *testing.T, dir, _ string) { must(t, os.Remove(filepath.Join(dir, "manifest.json"))) }, "no such file"},
		{"a manifest that is a link", swap("manifest.json", link), "manifest.json: is no plain file"},
		{"a manifest that is a pipe", swap("manifest.json", pipe), "manifest.json: is no plain file"},
		{"a manifest that is a folder", swap("manifest.json", folder), "manifest.json: is no plain file"},
		{"a manifest of a terabyte", sparse(1 << 40), "has 1099511627776 bytes, and at most 16777216 are read"},
		{"an empty manifest", sparse(0), "manifest.json: "},
		{"half a manifest", sparse(100), "manifest.json: is no JSON"},
		{"a manifest of zeros", func(t *testing.T, dir, _ string) {
			edit(t, filepath.Join(dir, "manifest.json"), func(b []byte) []byte { return make([]byte, 99) })
		}, "is no JSON"},
		{"a version to come", manifest(`"trace_version":"1.0"`, `"trace_version":"2.0"`), `trace_version: is "2.0"`},
		{"no version", manifest(`"trace_version":"1.0",`, ``, `,"trace_version":"1.0"`, ``), `trace_version: is ""`},
		{"a field twice", manifest(`"sealed":true`, `"sealed":true,"sealed":false`), `"sealed" is there twice`},
		{"a field in two cases", manifest(`"sealed":true`, `"sealed":true,"SEALED":false`), `"SEALED" is there twice`},
		{"deep", manifest(`"missed":"not measured"`, `"missed":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)), "nested deeper"},
		{"a tail", manifest(`{"coverage"`, `{}{"coverage"`), "manifest.json: "},
		{"an index elsewhere", manifest(`"rank-0000.jsonl"`, `"../rank-0000.jsonl"`), "it must be rank-0000.jsonl"},
		{"an index of another name", manifest(`"rank-0000.jsonl"`, `"/etc/passwd"`), "it must be rank-0000.jsonl"},
		{"an index of another rank", manifest(`"rank":0`, `"rank":1`), "it must be rank-0001.jsonl"},
		{"a rank below 0", manifest(`"rank":0`, `"rank":-1`), "rank -1 has the file"},
		{"a rank beyond", manifest(`"rank":0`, `"rank":1000000000`), "rank 1000000000 has the file"},
		{"a rank that is no number", manifest(`"rank":0`, `"rank":"0"`), "manifest.json: "},
		{"no rank", manifest(`"rank":0,`, ``), "rank -1 has the file"},
		{"a rank in capitals", manifest(`"rank":0`, `"RANK":0`), "rank -1 has the file"},
		{"an index in capitals", manifest(`"file":"rank-0000.jsonl"`, `"File":"rank-0000.jsonl"`), `has the file ""`},
		{"a rank twice", manifest(`"ranks":[`, `"ranks":[{"rank":0,"file":"rank-0000.jsonl"},`), "rank 0 is not above the one before"},
		{"an index that is a link", swap("rank-0000.jsonl", link), "rank-0000.jsonl: is no plain file"},
		{"an index that is a pipe", swap("rank-0000.jsonl", pipe), "rank-0000.jsonl: is no plain file"},
		{"an index that is a folder", swap("rank-0000.jsonl", folder), "rank-0000.jsonl: is no plain file"},
	} {
		w := write(t, few(2))
		w.Seal()
		test.do(t, w.Dir, t.TempDir())
		inTime(t, test.name, func() {
			if opened, err := trace.Open(w.Dir); err == nil || opened != nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %s", test.name, err, test.want)
			}
		})
	}
	var path *fs.PathError
	if _, err := trace.Open(filepath.Join(t.TempDir(), "none")); !errors.As(err, &path) {
		t.Errorf("no folder: %v", err)
	}
}

// TestHostileLines: a line that is no record of a trace is a problem of that line and field, and the lines around it are
// not. Each is chained and sealed as if a recorder had written it.
func TestHostileLines(t *testing.T) {
	c := few(1)[0]
	w := write(t, few(1))
	w.Seal()
	text, err := os.ReadFile(filepath.Join(w.Dir, tracetest.IndexFile(0)))
	must(t, err)
	type object = map[string]any
	sub := func(m object, name string) object { return m[name].(object) }
	far := []any{1, 1 << 16, 1 << 16}
	for _, test := range []struct {
		name   string
		change func(m object)
		field  string
		want   string
	}{
		{"a file outside", func(m object) { sub(m, "a")["file"] = "../../../etc/passwd" }, "a.file", "is no hash"},
		{"a file by its path", func(m object) { sub(m, "b")["file"] = "/etc/passwd" }, "b.file", "is no hash"},
		{"a hash with a path", func(m object) { sub(m, "a")["file"] = "../" + strings.Repeat("0", 61) }, "a.file", "is no hash"},
		{"a hash in capitals", func(m object) { sub(m, "a")["file"] = strings.ToUpper(sub(m, "a")["file"].(string)) }, "a.file", "is no hash"},
		{"no file", func(m object) { delete(sub(m, "a"), "file") }, "a.file", "is no hash"},
		{"no hash", func(m object) { delete(sub(m, "b"), "sha256") }, "b.sha256", "is no hash"},
		{"a file of the output outside", func(m object) { sub(m, "out")["file"] = "../x" }, "out.file", "is no hash"},
		{"no hash of the output", func(m object) { delete(sub(m, "out"), "sha256") }, "out.sha256", "is missing"},
		{"a recipe", func(m object) { sub(m, "a")["generator"] = object{"recipe": "operands-a", "kind": "normal", "seed": 1} }, "a.generator", "not rebuilt"},
		{"too large", func(m object) { sub(m, "a")["shape"] = far }, "a.shape", "are more elements than a case may have"},
		{"a size that overflows", func(m object) { sub(m, "a")["shape"] = []any{1, 1 << 62, 1 << 62} }, "a.shape", "is out of range"},
		{"a negative size", func(m object) { sub(m, "a")["shape"] = []any{-1, 1, 1} }, "a.shape", "is out of range"},
		{"a size beyond int64", func(m object) { sub(m, "a")["shape"] = []any{1, 1, json.Number("9223372036854775808")} }, "a.shape", "does not go into"},
		{"half a size", func(m object) { sub(m, "a")["shape"] = []any{1, 1, 1.5} }, "a.shape", "does not go into"},
		{"a size of half a megabyte", func(m object) { sub(m, "a")["shape"] = []any{1, 1, json.Number(strings.Repeat("9", 1<<19))} }, "a.shape", "is a number 999"},
		{"a scalar of half a megabyte", func(m object) { m["scalars"] = object{"alpha": strings.Repeat("9", 1<<19)} }, "", `scalar "999`},
		{"no sizes", func(m object) { delete(sub(m, "a"), "shape") }, "a.shape", "has 0 sizes"},
		{"shapes that do not fit", func(m object) { sub(m, "b")["shape"] = []any{1, 1, 1} }, "b.shape", "beside a of"},
		{"no strides", func(m object) { delete(sub(m, "a"), "strides") }, "a.strides", "there are 0"},
		{"a negative stride", func(m object) { sub(m, "a")["strides"] = []any{1, -1, 1} }, "a.strides", "one is negative"},
		{"a negative offset", func(m object) { sub(m, "a")["offset"] = -8 }, "a.offset", "is negative"},
		{"a format nobody knows", func(m object) { sub(m, "a")["format"] = "f17" }, "", `number format "f17" is unknown`},
		{"a format of no file", func(m object) { sub(m, "a")["format"] = "e2m1" }, "a.format", "no file holds e2m1"},
		{"another way to store", func(m object) { sub(m, "a")["stored"] = "backwards" }, "a.stored", `is "backwards"`},
		{"another record", func(m object) { m["record_version"] = "2.0" }, "record_version", `is "2.0"`},
		{"another id", func(m object) { m["id"] = "r0-000001" }, "id", "it must be r0-000000"},
		{"an id of a megabyte", func(m object) { m["id"] = strings.Repeat("x", 1<<20) }, "", "longer than"},
		{"no seq", func(m object) { delete(m, "seq") }, "seq", "is missing"},
		{"no prev", func(m object) { delete(m, "prev") }, "prev", "is no hash"},
		{"another pass", func(m object) { m["pass"] = "sideways" }, "pass", `is "sideways"`},
		{"not sampled", func(m object) { m["sampled"] = false }, "sampled", "is not true"},
		{"a module that is no text", func(m object) { m["module"] = []any{} }, "module", "does not go into"},
		{"samples in a file", func(m object) { sub(m, "out")["samples"] = object{"file": "x", "offset": 0, "bytes": 1, "elements": 1} }, "out.samples", "nothing else"},
		{"other indices", func(m object) { sub(m, "out")["samples"] = object{"indices": "all", "data": ""} }, "out.samples.indices", `is "all"`},
		{"too few samples", func(m object) { sub(m, "out")["samples"] = object{"indices": "default", "data": "00"} }, "out.samples.data", "has 2 digits"},
		{"samples in capitals", func(m object) {
			batch, rows, columns, _ := c.Sizes()
			sub(m, "out")["samples"] = object{"indices": "default", "data": strings.Repeat("A", 2*c.Out.Format.Bytes()*batch*rows*columns)}
		}, "out.samples.data", "lower-case"},
		{"launches of no kernels", func(m object) {
			m["kernels"] = []any{}
			m["launches"] = []any{object{"grid": []any{1, 1, 1}, "block": []any{1, 1, 1}}}
		}, "launches", "1 are given for 0 kernels"},
		{"two spellings", func(m object) { m["OUT"] = m["out"] }, "", "is there twice"},
		{"a long s", func(m object) { m["ſeq"] = 1 }, "", "is there twice"},
	} {
		var m object
		must(t, json.Unmarshal(text, &m))
		test.change(m)
		line, err := json.Marshal(m)
		must(t, err)
		dir := copied(t, w.Dir)
		must(t, os.WriteFile(filepath.Join(dir, tracetest.IndexFile(0)), append(line, '\n'), 0o600))
		opened := open(t, dir)
		list, _ := opened.Problems()
		if len(list) == 0 || list[0].Line != 1 || list[0].Field != test.field || !strings.Contains(list[0].Text, test.want) || opened.Len() != 1 {
			t.Errorf("%s: %v, want %s: %s", test.name, list, test.field, test.want)
			continue
		}
		for _, p := range list {
			if len(p.Error()) > 1000 {
				t.Errorf("%s: a problem of %d bytes", test.name, len(p.Error()))
			}
		}
		if opened.Broken(0) == nil {
			t.Errorf("%s: the line passes for sound", test.name)
		}
		if l, err := opened.Line(0); err == nil { // only where the rest is a record
			_, _ = l.Case.Materialize()
		}
	}
	// Deep nesting and bytes that are no text.
	for _, tail := range []string{strings.Repeat("[", 1000) + strings.Repeat("]", 1000), "\"\xff\""} {
		dir := copied(t, w.Dir)
		line := strings.Replace(strings.TrimSpace(string(text)), "{", `{"x":`+tail+",", 1)
		must(t, os.WriteFile(filepath.Join(dir, tracetest.IndexFile(0)), []byte(line+"\n"), 0o600))
		if list, _ := open(t, dir).Problems(); len(list) == 0 || list[0].Line != 1 {
			t.Errorf("%.20q: %v", tail, list)
		}
	}
}

// safetensors builds a file of a header and elements.
func safetensors(header string, data []byte) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
}

// TestHostileTensors: files that are not what the record says are refused by name, before memory is taken for them. Every one
// has the name of its own hash, so that only its contents speak against it.
func TestHostileTensors(t *testing.T) {
	var c = few(1)[0]
	for _, x := range golden.Cases {
		if batch, m, n, k := x.Sizes(); x.A.Format == format.BF16 && x.A.Strides[2] == 1 && batch*m*n*k > 0 && m*k < 5000 && k*n < 5000 {
			c = x
			break
		}
	}
	batch, m, _, k := c.Sizes()
	bytesOf := batch * m * k * 2
	data := make([]byte, bytesOf)
	shape := fmt.Sprintf("[%d,%d,%d]", batch, m, k)
	header := func(replace ...string) string {
		text := `{"t":{"dtype":"BF16","shape":SHAPE,"data_offsets":[0,BYTES]}}`
		return strings.NewReplacer(append(replace, "SHAPE", shape, "BYTES", fmt.Sprint(bytesOf))...).Replace(text)
	}
	length := func(n uint64, rest string) []byte { return append(binary.LittleEndian.AppendUint64(nil, n), rest...) }
	for _, test := range []struct {
		name string
		file []byte
		want string
	}{
		{"nothing", nil, "is no safetensors file"},
		{"seven bytes", make([]byte, 7), "is no safetensors file"},
		{"a header beyond the file", length(1000, "{}"), "header would have 1000 bytes"},
		{"a header of 2^63", length(1<<63, "{}"), "header would have 9223372036854775808 bytes"},
		{"a header of 2^64 - 1", length(1<<64-1, "{}"), "header would have"},
		{"a header of more than a megabyte", append(length(1<<20+1, strings.Repeat(" ", 1<<20+1)), data...), "header would have 1048577 bytes"},
		{"a byte less", safetensors(header(), data[1:]), "bytes of elements"},
		{"a byte more", safetensors(header(), append(data[:bytesOf:bytesOf], 0)), "bytes of elements"},
		{"no JSON", safetensors(strings.Repeat("x", 60), data), "header"},
		{"a list", safetensors("[]", data), "header"},
		{"no tensor", safetensors("{}", data), "one tensor, named t"},
		{"another name", safetensors(header(`"t"`, `"u"`), data), "one tensor, named t"},
		{"two tensors", safetensors(header(`{"t"`, `{"u":{"dtype":"BF16","shape":[0],"data_offsets":[0,0]},"t"`), data), "one tensor, named t"},
		{"a tensor twice", safetensors(header(`{"t"`, `{"t":{},"t"`), data), `"t" is there twice`},
		{"another dtype", safetensors(header("BF16", "F16"), data), `dtype "F16", the record says bf16`},
		{"a dtype nobody knows", safetensors(header("BF16", "Q4"), data), `dtype "Q4"`},
		{"another shape", safetensors(header("SHAPE", "[1,1,1]"), data), "of shape [1 1 1]"},
		{"a flat shape", safetensors(header("SHAPE", fmt.Sprintf("[%d]", bytesOf/2)), data), "of shape"},
		{"other offsets", safetensors(header("[0,", "[2,"), data), "the elements lie at"},
		{"negative offsets", safetensors(header("[0,", "[-2,"), data), "header"},
		{"offsets beyond", safetensors(header("BYTES]", "18446744073709551615]"), data), "the elements lie at"},
		{"a further field", safetensors(header(`"dtype"`, `"x":1,"dtype"`), data), "unknown field"},
		{"other elements", safetensors(header(), data), "sha256"},
		{"metadata", safetensors(header(`{"t"`, `{"__metadata__":{"x":"y"},"t"`), data), "sha256"},
	} {
		w := tracetest.New(t, filepath.Join(t.TempDir(), "run.hawk"))
		w.Add(0, c, tracetest.More{})
		w.Seal()
		name := w.File(test.file)
		list := filesWith(t, w, name)
		if len(list) != 1 || !strings.HasPrefix(list[0].Field, "a.") || !strings.Contains(list[0].Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.name, list, test.want)
		}
	}
	// A file of a terabyte that takes no room on the disk: refused by its size.
	w := tracetest.New(t, filepath.Join(t.TempDir(), "run.hawk"))
	w.Add(0, c, tracetest.More{})
	w.Seal()
	name := w.File(safetensors(header(), data))
	must(t, os.Truncate(filepath.Join(w.Dir, tracetest.TensorFile(name)), 1<<40))
	if list := filesWith(t, w, name); len(list) != 1 || !strings.Contains(list[0].Text, "the file holds 10995116") {
		t.Errorf("a terabyte: %v", list)
	}
}

// filesWith makes a's file another one and checks the files.
func filesWith(t *testing.T, w *tracetest.Writer, name string) []*trace.Problem {
	t.Helper()
	edit(t, filepath.Join(w.Dir, tracetest.IndexFile(0)), func(text []byte) []byte {
		var m map[string]any
		must(t, json.Unmarshal(text, &m))
		m["a"].(map[string]any)["file"] = name
		text, _ = json.Marshal(m)
		return append(text, '\n')
	})
	list, err := open(t, w.Dir).CheckFiles(nil)
	must(t, err)
	return list
}

// TestHostileTensorPlaces: what lies where a tensor should be is not followed and does not keep the reader waiting, even
// where it leads to the right bytes.
func TestHostileTensorPlaces(t *testing.T) {
	for name, put := range map[string]func(at, outside string) error{
		"gone":     func(string, string) error { return nil },
		"a link":   func(at, outside string) error { return os.Symlink(outside, at) },
		"a pipe":   func(at, _ string) error { return syscall.Mkfifo(at, 0o600) },
		"a folder": func(at, _ string) error { return os.Mkdir(at, 0o700) },
		"a folder that is a link": func(at, outside string) error {
			if err := os.RemoveAll(filepath.Dir(at)); err != nil {
				return err
			}
			return os.Symlink(filepath.Dir(outside), filepath.Dir(at))
		},
	} {
		w := write(t, few(1))
		w.Seal()
		opened := open(t, w.Dir)
		l, err := opened.Line(0)
		must(t, err)
		at := filepath.Join(w.Dir, tracetest.TensorFile(l.Case.A.File))
		outside := filepath.Join(t.TempDir(), filepath.Base(at))
		must(t, os.Rename(at, outside))
		must(t, put(at, outside))
		inTime(t, name, func() {
			if _, err := l.Case.Materialize(); err == nil || !strings.Contains(err.Error(), "line 1 (r0-000000), a.file: ") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
