package trace_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/trace"
	"github.com/hawkeye-audit/hawkeye/core/trace/tracetest"
)

const goldenPath = "../../tests/goldens/h200-torch2.11.jsonl"

// golden is the golden set, read once.
var golden = func() *cases.Golden {
	g, err := cases.ReadGolden(goldenPath)
	if err != nil {
		panic(err)
	}
	return g
}()

// small lists golden cases of few elements that are not alike in layout, formats, addends and scales.
func small() []*cases.Case {
	var list []*cases.Case
	seen := map[string]bool{}
	for _, c := range golden.Cases {
		batch, m, n, k := c.Sizes()
		key := fmt.Sprint(c.A.Format, c.Out.Format, c.A.Strides[2] == 1, c.B.Strides[2] == 1, c.C != nil, c.ScaleA != nil, batch > 1)
		if batch*(m*k+k*n+m*n) < 200000 && !seen[key] {
			seen[key] = true
			list = append(list, c)
		}
	}
	return list
}

// few is a handful of the smallest.
func few(count int) []*cases.Case {
	list := small()
	size := func(c *cases.Case) int {
		batch, m, n, k := c.Sizes()
		return batch * (m*k + k*n + m*n)
	}
	slices.SortStableFunc(list, func(a, b *cases.Case) int { return size(a) - size(b) })
	return list[:count]
}

// write makes a trace of cases, all of rank 0.
func write(t testing.TB, list []*cases.Case) *tracetest.Writer {
	t.Helper()
	w := tracetest.New(t, filepath.Join(t.TempDir(), "run.hawk"))
	for i, c := range list {
		w.Add(0, c, tracetest.More{Step: i / 4, Call: i % 4, Module: fmt.Sprintf("layers.%d.fc", i%3)})
	}
	return w
}

func open(t testing.TB, dir string) *trace.Trace {
	t.Helper()
	opened, err := trace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	return opened
}

func sound(t testing.TB, opened *trace.Trace) {
	t.Helper()
	if list, count := opened.Problems(); count != 0 || len(list) != 0 || len(opened.Torn()) != 0 {
		t.Fatalf("problems of a sound trace: %v, torn %v", list, opened.Torn())
	}
	if list, err := opened.CheckFiles(nil); err != nil || len(list) != 0 {
		t.Fatalf("files of a sound trace: %v, %v", list, err)
	}
}

// TestOperandsComeBack: every golden case of every kind that is not large gives the same operands through a trace.
func TestOperandsComeBack(t *testing.T) {
	list := small()
	if len(list) < 40 {
		t.Fatalf("only %d kinds of case", len(list))
	}
	w := write(t, list)
	root := w.Seal()
	opened := open(t, w.Dir)
	sound(t, opened)
	if opened.Len() != len(list) || opened.Root().String() != root {
		t.Fatalf("%d lines, root %v; want %d, %s", opened.Len(), opened.Root(), len(list), root)
	}
	stored := 0
	for i, c := range list {
		l, err := opened.Line(i)
		if err != nil {
			t.Fatal(err)
		}
		if l.Seq != i || l.Step != i/4 || l.Case.ID != opened.ID(i) || l.Case.Op != c.Op || opened.MultiplyAdds(i) != c.MultiplyAdds() {
			t.Errorf("line %d: %+v", i, l)
		}
		want, err := c.Materialize()
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.Case.Materialize()
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		for _, x := range []struct {
			name      string
			got, want *gemm.Matrix
		}{{"a", got.A, want.A}, {"b", got.B, want.B}, {"c", got.C, want.C}} {
			sameMatrix(t, c.ID+" "+x.name, x.got, x.want)
		}
		if !slices.Equal(got.ScaleA, want.ScaleA) || !slices.Equal(got.ScaleB, want.ScaleB) {
			t.Errorf("%s: scales %v %v, want %v %v", c.ID, got.ScaleA, got.ScaleB, want.ScaleA, want.ScaleB)
		}
		if l.Case.B.Stored != "" {
			stored++
		}
	}
	if stored == 0 || stored == len(list) {
		t.Errorf("%d of %d weights are transposed", stored, len(list))
	}
}

func sameMatrix(t *testing.T, name string, got, want *gemm.Matrix) {
	t.Helper()
	if got == nil || want == nil {
		if got != want {
			t.Errorf("%s is there in one only", name)
		}
		return
	}
	if got.Format != want.Format || got.Batch != want.Batch || got.Rows != want.Rows || got.Columns != want.Columns {
		t.Fatalf("%s: %v, want %v", name, got, want)
	}
	for b := range got.Batch {
		for i := range got.Rows {
			for j := range got.Columns {
				if got.Bits(b, i, j) != want.Bits(b, i, j) {
					t.Fatalf("%s (%d, %d, %d): %#x, want %#x", name, b, i, j, got.Bits(b, i, j), want.Bits(b, i, j))
				}
			}
		}
	}
}

// TestStored: output elements come from the line, or from the file of the whole output.
func TestStored(t *testing.T) {
	c := few(1)[0]
	batch, m, n, _ := c.Sizes()
	out := make([]byte, batch*m*n*c.Out.Format.Bytes())
	for i := range out {
		out[i] = byte(37 * i)
	}
	w := tracetest.New(t, filepath.Join(t.TempDir(), "run.hawk"))
	w.Add(0, c, tracetest.More{})
	w.Add(0, c, tracetest.More{Samples: out})
	w.Add(0, c, tracetest.More{Output: out})
	w.Add(0, c, tracetest.More{Output: out, Samples: out})
	other := bytes.Clone(out)
	other[len(other)-1] ^= 1
	w.Add(0, c, tracetest.More{Output: out, Samples: other})
	w.Seal()
	opened := open(t, w.Dir)
	for i, want := range [][]byte{nil, out, out, out} {
		l, err := opened.Line(i)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := opened.Stored(i, l); err != nil || !bytes.Equal(got, want) {
			t.Errorf("line %d: %x, %v; want %x", i, got, err, want)
		}
	}
	list, err := opened.CheckFiles(nil)
	if err != nil || len(list) != 1 || list[0].Line != 5 || list[0].Field != "out.samples.data" {
		t.Errorf("samples beside another output: %v, %v", list, err)
	}
}

func TestRootOfNothing(t *testing.T) {
	w := tracetest.New(t, filepath.Join(t.TempDir(), "run.hawk"))
	root := w.Seal()
	opened := open(t, w.Dir)
	sound(t, opened)
	// Of no lines: the hash of nothing, as published everywhere. Of the trace: the one leaf that its facts are.
	if opened.Root().String() != root || opened.Len() != 0 || trace.Root(nil).String() != "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" {
		t.Errorf("root %s, %v; of nothing %v", root, opened.Root(), trace.Root(nil))
	}
}

// TestRoots: the tree by levels is the tree by halves, for every number of lines up to a few powers of two.
func TestRoots(t *testing.T) {
	c := few(1)[0]
	for _, ranks := range []int{1, 3} {
		for count := range 10 {
			w := tracetest.New(t, filepath.Join(t.TempDir(), "run.hawk"))
			for rank := range ranks {
				for range count + rank {
					w.Add(rank, c, tracetest.More{})
				}
			}
			root := w.Seal()
			opened := open(t, w.Dir)
			if _, problems := opened.Problems(); problems != 0 || opened.Root().String() != root {
				t.Errorf("%d ranks of %d lines and more: %v, want %s; %d problems", ranks, count, opened.Root(), root, problems)
			}
		}
	}
}

// edit rewrites a file of a trace.
func edit(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// copied is a copy of a trace that a test may spoil.
func copied(t testing.TB, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "run.hawk")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestFlippedFile: one bit of any tensor file, anywhere in it, is found, and every line and field that uses it is named.
func TestFlippedFile(t *testing.T) {
	w := write(t, few(6))
	w.Seal()
	uses := map[string][]string{} // "line field" by file
	opened := open(t, w.Dir)
	for i := range opened.Len() {
		l, err := opened.Line(i)
		if err != nil {
			t.Fatal(err)
		}
		for name, x := range map[string]*cases.Tensor{"a": &l.Case.A, "b": &l.Case.B, "c": l.Case.C, "scale_a": l.Case.ScaleA, "scale_b": l.Case.ScaleB} {
			if x != nil {
				uses[x.File] = append(uses[x.File], fmt.Sprintf("%d %s.file", i+1, name))
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for name, want := range uses {
		path := filepath.Join(w.Dir, tracetest.TensorFile(name))
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		places := []int{0, 7, 8, 20, len(whole) - 1, random.IntN(len(whole)), random.IntN(len(whole))}
		for _, at := range places {
			flipped := bytes.Clone(whole)
			flipped[at] ^= 1 << random.IntN(8)
			edit(t, path, func([]byte) []byte { return flipped })
			list, err := opened.CheckFiles(nil)
			var got []string
			for _, p := range list {
				got = append(got, fmt.Sprintf("%d %s", p.Line, p.Field))
				if !strings.Contains(p.Text, name) {
					t.Errorf("%v does not name the file", p)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("byte %d of %s: %v, %v; want %v", at, name, got, err, want)
			}
		}
		edit(t, path, func([]byte) []byte { return whole })
	}
	sound(t, opened)
}

// lines cuts an index.
func lines(text []byte) [][]byte {
	list := bytes.SplitAfter(text, []byte("\n"))
	return list[:len(list)-1]
}

// TestFlippedLine: one bit of any line is found and the line named; no other line than the one before it is accused, which
// cannot be told from it where the link changed. Against a root kept elsewhere it is found whatever the manifest says.
func TestFlippedLine(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		w := write(t, few(6))
		var root string
		if sealed {
			root = w.Seal()
		} else {
			root = w.Leave()
		}
		kept, _ := trace.ParseHash(root)
		path := filepath.Join(w.Dir, tracetest.IndexFile(0))
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if p := open(t, w.Dir).CheckRoot(kept); p != nil {
			t.Fatal(p)
		}
		random := rand.New(rand.NewPCG(3, 4))
		start := 0
		for i, line := range lines(whole) {
			for at := start + random.IntN(5); at < start+len(line); at += 1 + random.IntN(31) {
				flipped := bytes.Clone(whole)
				flipped[at] ^= 1 << random.IntN(8)
				edit(t, path, func([]byte) []byte { return flipped })
				opened, err := trace.Open(w.Dir)
				if err != nil {
					t.Fatal(err)
				}
				if opened.CheckRoot(kept) == nil {
					t.Fatalf("line %d, byte %d: the root is the same", i+1, at-start)
				}
				list, _ := opened.Problems()
				named := len(opened.Torn()) > 0 && opened.Torn()[0].Line == i+1
				for _, p := range list {
					if p.File != tracetest.IndexFile(0) {
						continue
					}
					named = named || p.Line == i+1
					// A line end made or unmade moves what follows.
					ends := bytes.Count(flipped, []byte("\n")) != bytes.Count(whole, []byte("\n"))
					if p.Line != i+1 && p.Line != i && !ends {
						t.Errorf("line %d, byte %d: %v", i+1, at-start, p)
					}
				}
				if last := i == 5; !named && (sealed || !last) {
					// Where the link was changed and nothing follows it, the line before is named.
					if i != 4 && !last || sealed {
						t.Errorf("line %d, byte %d (%q for %q): not named by %v", i+1, at-start, flipped[at], whole[at], list)
					}
				}
				_ = opened.Close()
			}
			start += len(line)
		}
	}
}

// TestMovedLines: lines removed, repeated or exchanged are found and placed.
func TestMovedLines(t *testing.T) {
	w := write(t, few(6))
	kept, _ := trace.ParseHash(w.Seal())
	for _, test := range []struct {
		name  string
		order []int
		lines []int // of the problems in the index
		says  string
	}{
		{"as it was", []int{0, 1, 2, 3, 4, 5}, nil, ""},
		{"the first removed", []int{1, 2, 3, 4, 5}, []int{1}, "is 1 where 0 is due: lines before it were removed"},
		{"one removed", []int{0, 1, 3, 4, 5}, []int{3}, "is 3 where 2 is due: lines before it were removed"},
		{"two removed", []int{0, 3, 4, 5}, []int{2}, "is 3 where 1 is due: lines before it were removed"},
		{"the last removed", []int{0, 1, 2, 3, 4}, []int{5}, "is not the last line that the manifest names"},
		{"all removed", nil, nil, ""},
		{"exchanged", []int{0, 2, 1, 3, 4, 5}, []int{2, 3}, "is 1 where 3 is due: the line was moved"},
		{"the last two exchanged", []int{0, 1, 2, 3, 5, 4}, []int{5, 6}, "is 4 where 6 is due: the line was moved"},
		{"repeated", []int{0, 1, 1, 2, 3, 4, 5}, []int{3}, "is 1 like that of the line before: a line is there twice"},
		{"repeated later", []int{0, 1, 2, 3, 1, 4, 5}, []int{5}, "is 1 where 4 is due: the line was moved or repeated"},
		{"the last repeated", []int{0, 1, 2, 3, 4, 5, 5}, []int{7}, "a line is there twice"},
	} {
		dir := copied(t, w.Dir)
		edit(t, filepath.Join(dir, tracetest.IndexFile(0)), func(text []byte) []byte {
			var moved []byte
			for _, i := range test.order {
				moved = append(moved, lines(text)[i]...)
			}
			return moved
		})
		opened := open(t, dir)
		same := test.name == "as it was"
		if (opened.CheckRoot(kept) == nil) != same {
			t.Errorf("%s: against the root that was kept: %v", test.name, opened.CheckRoot(kept))
		}
		list, count := opened.Problems()
		if (count == 0) != same {
			t.Errorf("%s: %v", test.name, list)
		}
		var at []int
		said := test.says == ""
		for _, p := range list {
			if p.File == tracetest.IndexFile(0) {
				at = append(at, p.Line)
			}
			said = said || strings.Contains(p.Text, test.says)
		}
		slices.Sort(at)
		if !slices.Equal(at, test.lines) || !said {
			t.Errorf("%s: lines %v, want %v: %v", test.name, at, test.lines, list)
		}
	}
}

// TestForgedChain: whoever changes a line and computes the chain, the roots and the manifest anew is found by the root kept
// elsewhere alone.
func TestForgedChain(t *testing.T) {
	list := few(4)
	kept, _ := trace.ParseHash(write(t, list).Seal())
	changed := *list[1]
	changed.Flags.AllowTF32 = !changed.Flags.AllowTF32
	w := write(t, []*cases.Case{list[0], &changed, list[2], list[3]})
	w.Seal()
	opened := open(t, w.Dir)
	sound(t, opened)
	if p := opened.CheckRoot(kept); p == nil || p.Field != "root" {
		t.Errorf("%v", p)
	}
}

// TestManifest: what a sealed manifest says is compared with the indices.
func TestManifest(t *testing.T) {
	w := write(t, few(3))
	w.Seal()
	another := strings.Repeat("5", 64)
	rank := func(m map[string]any) map[string]any { return m["ranks"].([]any)[0].(map[string]any) }
	for _, test := range []struct {
		name   string
		change func(m map[string]any)
		fields []string
	}{
		{"root", func(m map[string]any) { m["root"] = another }, []string{"root"}},
		{"no root", func(m map[string]any) { delete(m, "root") }, []string{"root"}},
		{"a rank's root", func(m map[string]any) { rank(m)["root"] = another }, []string{"ranks[0].root"}},
		{"last", func(m map[string]any) { rank(m)["last"] = another }, []string{"", "ranks[0].last"}},
		{"lines", func(m map[string]any) { rank(m)["lines"] = 2 }, []string{"ranks[0].lines"}},
		{"no lines", func(m map[string]any) { delete(rank(m), "lines") }, []string{"ranks[0].lines"}},
		{"names in capitals", func(m map[string]any) {
			for _, name := range []string{"lines", "last", "root"} { // by no other name, and no hash is over them
				rank(m)[strings.ToUpper(name)] = rank(m)[name]
				delete(rank(m), name)
			}
		}, []string{"ranks[0].lines", "ranks[0].last", "ranks[0].root"}},
		{"no ranks", func(m map[string]any) { m["ranks"] = []any{} }, []string{"", "root"}},
		{"a rank more", func(m map[string]any) {
			m["ranks"] = append(m["ranks"].([]any), map[string]any{"rank": 3, "file": "rank-0003.jsonl"})
		}, []string{""}},
		{"unsealed", func(m map[string]any) { m["sealed"] = false; m["root"] = nil }, nil},
	} {
		dir := copied(t, w.Dir)
		edit(t, filepath.Join(dir, "manifest.json"), func(text []byte) []byte {
			var m map[string]any
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			test.change(m)
			text, _ = json.Marshal(m)
			return text
		})
		list, _ := open(t, dir).Problems()
		var fields []string
		for _, p := range list {
			fields = append(fields, p.Field)
		}
		if !slices.Equal(fields, test.fields) {
			t.Errorf("%s: %v, want %q", test.name, list, test.fields)
		}
	}
}

// TestTornLine: an index cut at any byte, as by kill -9, opens; the lines before are sound and the torn one is reported.
func TestTornLine(t *testing.T) {
	w := write(t, few(3))
	w.Leave()
	path := filepath.Join(w.Dir, tracetest.IndexFile(0))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut <= len(whole); cut += 1 + cut%13 {
		edit(t, path, func([]byte) []byte { return whole[:cut] })
		opened, err := trace.Open(w.Dir)
		if err != nil {
			t.Fatal(err)
		}
		complete := bytes.Count(whole[:cut], []byte("\n"))
		torn := cut > 0 && whole[cut-1] != '\n'
		if _, count := opened.Problems(); count != 0 || opened.Len() != complete || (len(opened.Torn()) == 1) != torn || torn && opened.Torn()[0].Line != complete+1 {
			t.Errorf("cut at %d: %d lines, torn %v, %d problems", cut, opened.Len(), opened.Torn(), count)
		}
		_ = opened.Close()
	}
	// What a machine that stopped may leave: zeros, with a line end or without.
	for _, tail := range []string{"\x00\x00\x00", "\x00\x00\n", "\n", `{"seq": 3` + "\n"} {
		edit(t, path, func([]byte) []byte { return append(bytes.Clone(whole), tail...) })
		opened := open(t, w.Dir)
		if _, count := opened.Problems(); count != 0 || opened.Len() != 3 || len(opened.Torn()) != 1 {
			t.Errorf("%q: %d lines, torn %v", tail, opened.Len(), opened.Torn())
		}
	}
	// In a sealed trace nothing is torn by accident.
	w.Seal()
	edit(t, path, func([]byte) []byte { return append(bytes.Clone(whole), "{"...) })
	if list, _ := open(t, w.Dir).Problems(); len(list) != 1 || list[0].Line != 4 {
		t.Errorf("a sealed trace with a tail: %v", list)
	}
}

// TestChangedSince: a line that is changed after the trace was opened is not believed.
func TestChangedSince(t *testing.T) {
	w := write(t, few(2))
	w.Seal()
	opened := open(t, w.Dir)
	edit(t, filepath.Join(w.Dir, tracetest.IndexFile(0)), func(text []byte) []byte {
		return bytes.Replace(text, []byte(`"step":0`), []byte(`"step":7`), 1)
	})
	if _, err := opened.Line(0); err == nil || !strings.Contains(err.Error(), "was changed since the trace was opened") {
		t.Errorf("%v", err)
	}
}

func TestParseHash(t *testing.T) {
	good := strings.Repeat("0a", 32)
	if h, ok := trace.ParseHash(good); !ok || h.String() != good {
		t.Errorf("%v, %v", h, ok)
	}
	for _, bad := range []string{"", good[:63], good + "0", strings.ToUpper(good), "../" + good[:61], good[:62] + "/.", "0x" + good[:62], hex.EncodeToString([]byte(good))} {
		if _, ok := trace.ParseHash(bad); ok {
			t.Errorf("%q passes", bad)
		}
	}
}
