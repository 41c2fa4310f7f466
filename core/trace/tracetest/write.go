// Package tracetest writes traces for tests, by hand: it shares no code with package trace, so that a test compares two
// readings of docs/trace.md.
package tracetest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

var dtypes = map[format.Format]string{
	format.F16: "F16", format.BF16: "BF16", format.F32: "F32", format.F64: "F64", format.E4M3: "F8_E4M3", format.E5M2: "F8_E5M2",
	format.S8: "I8", format.U8: "U8", format.S32: "I32",
}

// Writer writes one trace.
type Writer struct {
	Dir string
	// Settings of the manifest.
	Settings map[string]any

	t     testing.TB
	ranks [][][]byte // lines of each rank, without their ends
}

// More is what a line says beside the case.
type More struct {
	Step, Call int
	Module     string
	Pass       string // "": forward
	Samples    []byte // output elements at cases.SampleIndices, kept in the line
	Output     []byte // the whole output, kept in a file
}

// New begins a trace in a folder that is not there yet.
func New(t testing.TB, dir string) *Writer {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w := &Writer{Dir: dir, Settings: map[string]any{"every": 1, "fraction": 1.0, "seed": 0, "outputs": "hash"}, t: t}
	w.manifest(false)
	return w
}

// Add appends a case to a rank's index and its operands to the tensors. The case must be one that Materialize rebuilds.
func (w *Writer) Add(rank int, c *cases.Case, more More) {
	w.t.Helper()
	for rank >= len(w.ranks) {
		w.ranks = append(w.ranks, nil)
	}
	o, err := c.Materialize()
	if err != nil {
		w.t.Fatal(err)
	}
	kept := *c
	kept.A, kept.B = w.operand(c.A, o.A), w.operand(c.B, o.B)
	if c.C != nil {
		addend := w.operand(*c.C, o.C)
		kept.C = &addend
	}
	kept.ScaleA, kept.ScaleB = w.scales(c.ScaleA, o.ScaleA), w.scales(c.ScaleB, o.ScaleB)
	kept.Device, kept.Out.Samples = nil, nil
	if more.Samples != nil {
		kept.Out.Samples = &cases.Samples{Indices: "default", Data: hex.EncodeToString(more.Samples)}
	}
	if more.Output != nil {
		kept.Out.File = w.Tensor(c.Out.Format, c.Out.Shape, more.Output)
		kept.Out.Hash = hashOf(more.Output)
	}
	lines := w.ranks[rank]
	prev := fmt.Sprintf("%064d", 0)
	if len(lines) > 0 {
		prev = hashOf(lines[len(lines)-1])
	}
	kept.ID = fmt.Sprintf("r%d-%06d", rank, len(lines))
	if more.Pass == "" {
		more.Pass = "forward"
	}
	kept.Extra = map[string]json.RawMessage{}
	for name, v := range map[string]any{"seq": len(lines), "prev": prev, "step": more.Step, "call": more.Call, "module": more.Module,
		"pass": more.Pass, "sampled": true} {
		kept.Extra[name] = w.json(v)
	}
	w.ranks[rank] = append(lines, w.json(kept))
}

// Seal writes the indices and the manifest, and gives the root.
func (w *Writer) Seal() string { return w.finish(true) }

// Leave writes the indices and leaves the trace unsealed, as a process that is killed does. It gives the root.
func (w *Writer) Leave() string { return w.finish(false) }

func (w *Writer) finish(sealed bool) string {
	w.t.Helper()
	for rank, lines := range w.ranks {
		var text []byte
		for _, line := range lines {
			text = append(append(text, line...), '\n')
		}
		w.write(IndexFile(rank), text)
	}
	return w.manifest(sealed)
}

// IndexFile is the name of a rank's index.
func IndexFile(rank int) string { return fmt.Sprintf("rank-%04d.jsonl", rank) }

// TensorFile is where a tensor lies in the trace's folder.
func TensorFile(hash string) string {
	return filepath.Join("tensors", hash[:2], hash+".safetensors")
}

func (w *Writer) manifest(sealed bool) string {
	ranks := []any{}
	var roots [][]byte
	for rank, lines := range w.ranks {
		var hashes [][]byte
		for _, line := range lines {
			sum := sha256.Sum256(line)
			hashes = append(hashes, sum[:])
		}
		r := map[string]any{"rank": rank, "file": IndexFile(rank), "lines": len(lines), "last": fmt.Sprintf("%064d", 0), "root": hex.EncodeToString(merkle(hashes))}
		if len(hashes) > 0 {
			r["last"] = hex.EncodeToString(hashes[len(hashes)-1])
		}
		roots = append(roots, merkle(hashes))
		ranks = append(ranks, r)
	}
	m := map[string]any{
		"trace_version": "1.0", "created": "2026-01-02T03:04:05Z", "torch": "2.11.0", "device": map[string]any{"gpu": "NVIDIA H200"},
		"settings": w.Settings, "coverage": map[string]any{"recorded": 0, "skipped": map[string]any{}, "dropped": 0, "missed": "not measured"},
	}
	facts := sha256.Sum256(w.json(m))
	root := hex.EncodeToString(merkle(append([][]byte{facts[:]}, roots...)))
	m["facts"], m["sealed"], m["ranks"], m["root"] = hex.EncodeToString(facts[:]), sealed, ranks, root
	w.write("manifest.json", w.json(m))
	return root
}

// merkle splits where the left part is the largest full tree, which is another way to say that odd nodes go up unchanged.
func merkle(hashes [][]byte) []byte {
	var sum [sha256.Size]byte
	switch n := len(hashes); n {
	case 0:
		sum = sha256.Sum256(nil)
	case 1:
		sum = sha256.Sum256(append([]byte{0}, hashes[0]...))
	default:
		half := 1
		for 2*half < n {
			half *= 2
		}
		sum = sha256.Sum256(append(append([]byte{1}, merkle(hashes[:half])...), merkle(hashes[half:])...))
	}
	return sum[:]
}

// operand writes a matrix; one that is transposed in memory in the order of its memory, and along strides of 0 once.
func (w *Writer) operand(t cases.Tensor, m *gemm.Matrix) cases.Tensor {
	kept := cases.Tensor{Format: t.Format, Shape: t.Shape, Strides: t.Strides}
	part := *m
	if t.Strides[0] == 0 && part.Batch > 1 {
		part.Batch, kept.Stored = 1, "once"
	}
	if t.Strides[1] == 0 && part.Rows > 1 {
		part.Rows, kept.Stored = 1, "once"
	}
	dense := bitsOf(&part, false)
	kept.Hash = hashOf(dense)
	shape := []int{part.Batch, part.Rows, part.Columns}
	if t.Strides[1] == 1 && t.Strides[2] != 1 {
		kept.Stored = map[cases.Stored]cases.Stored{"": "transposed", "once": "once-transposed"}[kept.Stored]
		shape[1], shape[2] = shape[2], shape[1]
		kept.File = w.Tensor(t.Format, shape, bitsOf(&part, true))
		return kept
	}
	kept.File = w.Tensor(t.Format, shape, dense)
	return kept
}

func bitsOf(m *gemm.Matrix, exchanged bool) []byte {
	rows, columns := m.Rows, m.Columns
	if exchanged {
		rows, columns = columns, rows
	}
	var data []byte
	for b := range m.Batch {
		for i := range rows {
			for j := range columns {
				bits := uint64(0)
				if exchanged {
					bits = m.Bits(b, j, i)
				} else {
					bits = m.Bits(b, i, j)
				}
				data = append(data, binary.LittleEndian.AppendUint64(nil, bits)[:m.Format.Bytes()]...)
			}
		}
	}
	return data
}

func (w *Writer) scales(t *cases.Tensor, list []float32) *cases.Tensor {
	if t == nil {
		return nil
	}
	var data []byte
	for _, v := range list {
		data, _ = binary.Append(data, binary.LittleEndian, v)
	}
	return &cases.Tensor{Format: format.F32, Shape: t.Shape, Strides: t.Strides, File: w.Tensor(format.F32, t.Shape, data), Hash: hashOf(data)}
}

// Tensor writes elements as a safetensors file and gives its name.
func (w *Writer) Tensor(f format.Format, shape []int, data []byte) string {
	w.t.Helper()
	header := w.json(map[string]any{"t": map[string]any{"dtype": dtypes[f], "shape": shape, "data_offsets": []int{0, len(data)}}})
	return w.File(append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...))
}

// File writes any bytes as a file of the tensors and gives its name.
func (w *Writer) File(data []byte) string {
	w.t.Helper()
	name := hashOf(data)
	w.write(TensorFile(name), data)
	return name
}

func (w *Writer) write(name string, data []byte) {
	w.t.Helper()
	path := filepath.Join(w.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *Writer) json(v any) []byte {
	w.t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
