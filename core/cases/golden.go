package cases

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// goldenLine is one line of a golden set (docs/cases.md).
type goldenLine struct {
	About    map[string]string `json:"about"`
	Op       string            `json:"op"`
	M        int               `json:"m"`
	N        int               `json:"n"`
	K        int               `json:"k"`
	Batch    int               `json:"batch"`
	A        string            `json:"a"`
	B        string            `json:"b"`
	Out      string            `json:"out"`
	Layout   string            `json:"layout"`
	Kind     string            `json:"kind"`
	Seed     uint64            `json:"seed"`
	C        string            `json:"c"`
	CLower   int               `json:"c_lower"`
	Alpha    *float64          `json:"alpha"`
	Beta     *float64          `json:"beta"`
	TF32     bool              `json:"tf32"`
	F16Acc   bool              `json:"f16acc"`
	Fast     bool              `json:"fast"`
	Scaling  string            `json:"scaling"`
	ScaleA   *float64          `json:"scale_a"`
	ScaleB   *float64          `json:"scale_b"`
	Kernels  []string          `json:"kernels"`
	Launches []Launch          `json:"launches"`
	SHA256   string            `json:"sha256"`
	ID       string            `json:"id"`
	Offset   int64             `json:"offset"`
	Bytes    int               `json:"bytes"`
	Elements int               `json:"elements"`
}

// Golden is a golden set: cases, and the file that holds their stored output elements.
type Golden struct {
	About map[string]string
	Cases []*Case
	bin   string
}

// maxElements bounds the operands a golden line may ask for (a line of text must not fill the memory).
const maxElements = 1 << 31

// ReadGolden imports a golden set from FILE.jsonl, its stored elements from FILE.bin beside it.
func ReadGolden(path string) (*Golden, error) {
	g := &Golden{bin: strings.TrimSuffix(path, filepath.Ext(path)) + ".bin"}
	err := lines(path, func(number int, text []byte) error {
		line := goldenLine{Batch: 1}
		if err := json.Unmarshal(text, &line); err != nil {
			return err
		}
		if line.About != nil {
			g.About = line.About
			return nil
		}
		c, err := line.record(filepath.Base(g.bin))
		if err != nil {
			return err
		}
		c.Device = g.About
		if c.ID == "" {
			c.ID = fmt.Sprintf("line-%d", number)
		}
		g.Cases = append(g.Cases, c)
		return nil
	})
	return g, err
}

// lines calls f with every nonempty line of a file and its number; an error names both.
func lines(path string, f func(number int, text []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 16<<20)
	for number := 1; scanner.Scan(); number++ {
		if len(strings.TrimSpace(scanner.Text())) == 0 {
			continue
		}
		if err := f(number, scanner.Bytes()); err != nil {
			return fmt.Errorf("%s, line %d: %w", filepath.Base(path), number, err)
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return nil
}

// goldenFormats are the names golden sets use beside format's own.
var goldenFormats = map[string]format.Format{"i8": format.S8, "i32": format.S32}

func goldenFormat(name string) (format.Format, error) {
	if f, ok := goldenFormats[name]; ok {
		return f, nil
	}
	return format.Parse(name)
}

func (l *goldenLine) record(bin string) (*Case, error) {
	for _, size := range []int{l.Batch, l.M, l.N, l.K} {
		if size < 0 || size > maxElements {
			return nil, fmt.Errorf("a size of %d is out of range", size)
		}
	}
	for _, product := range [][3]int{{l.Batch, l.M, l.K}, {l.Batch, l.K, l.N}, {l.Batch, l.M, l.N}} {
		if float64(product[0])*float64(product[1])*float64(product[2]) > maxElements {
			return nil, fmt.Errorf("%d × %d × %d elements are more than a golden set may have", product[0], product[1], product[2])
		}
	}
	fa, err := goldenFormat(l.A)
	if err != nil {
		return nil, fmt.Errorf("a: %w", err)
	}
	fb, err := goldenFormat(l.B)
	if err != nil {
		return nil, fmt.Errorf("b: %w", err)
	}
	out, err := goldenFormat(l.Out)
	if err != nil {
		return nil, fmt.Errorf("out: %w", err)
	}
	if len(l.Layout) != 2 || strings.Trim(l.Layout, "NT") != "" {
		return nil, fmt.Errorf("layout: is %q, want two of N and T", l.Layout)
	}
	if len(l.Launches) > 0 && len(l.Launches) != len(l.Kernels) {
		return nil, fmt.Errorf("launches: %d are given for %d kernels", len(l.Launches), len(l.Kernels))
	}
	c := &Case{
		RecordVersion: RecordVersion, ID: l.ID, Op: l.Op, Kernels: l.Kernels, Launches: l.Launches,
		A:       operand(fa, l.Batch, l.M, l.K, l.Layout[0], &Generator{Recipe: "operands-a", Kind: l.Kind, Seed: l.Seed}),
		B:       operand(fb, l.Batch, l.K, l.N, l.Layout[1], &Generator{Recipe: "operands-b", Kind: l.Kind, Seed: l.Seed}),
		Out:     Output{Format: out, Shape: []int{l.Batch, l.M, l.N}, Hash: l.SHA256},
		Flags:   Flags{AllowTF32: l.TF32, F16Accumulation: l.F16Acc, FastAccumulation: l.Fast},
		Scalars: map[string]Scalar{},
	}
	if l.SHA256 != "" && !isSHA256(l.SHA256) {
		return nil, fmt.Errorf("sha256: is %q, want 64 lower-case hexadecimal digits", l.SHA256)
	}
	if l.Elements != 0 || l.Bytes != 0 {
		// Before the bytes: this also keeps their number small.
		if want := len(SampleIndices(l.Batch * l.M * l.N)); l.Elements != want {
			return nil, fmt.Errorf("elements: %d are stored, of this output it must be %d", l.Elements, want)
		}
		if l.Bytes != l.Elements*out.Bytes() || l.Offset < 0 {
			return nil, fmt.Errorf("bytes: %d elements of %v are %d bytes, not %d at offset %d", l.Elements, out, l.Elements*out.Bytes(), l.Bytes, l.Offset)
		}
		c.Out.Samples = &Samples{File: bin, Offset: l.Offset, Bytes: l.Bytes, Elements: l.Elements}
	}
	addend := &Generator{Recipe: "elements", Kind: "normal", Seed: (l.Seed*3)<<20 + 7, Lower: l.CLower}
	switch l.C {
	case "":
	case "bias":
		c.C = &Tensor{Format: out, Shape: []int{l.Batch, l.M, l.N}, Strides: []int{0, 0, 1}, Generator: addend}
	case "full":
		c.C = &Tensor{Format: out, Shape: []int{l.Batch, l.M, l.N}, Strides: []int{l.M * l.N, l.N, 1}, Generator: addend}
	default:
		return nil, fmt.Errorf("c: is %q, want bias or full", l.C)
	}
	for name, v := range map[string]*float64{"alpha": l.Alpha, "beta": l.Beta, "scale_a": l.ScaleA, "scale_b": l.ScaleB} {
		if v == nil {
			continue
		}
		s := Scalar{format.F32, uint64(math.Float32bits(float32(*v)))}
		if out == format.F64 {
			s = Scalar{format.F64, math.Float64bits(*v)}
		}
		c.Scalars[name] = s
	}
	switch l.Scaling {
	case "", "tensor":
	case "row":
		c.ScaleA = scales(l.M, (l.Seed*3+1)<<21)
		c.ScaleB = scales(l.N, (l.Seed*3+2)<<21)
	default:
		return nil, fmt.Errorf("scaling: is %q, want tensor or row", l.Scaling)
	}
	return c, nil
}

// isSHA256 tells whether a hash is written as Hawkeye writes it: another spelling would never agree.
func isSHA256(hash string) bool {
	return len(hash) == 64 && strings.Trim(hash, "0123456789abcdef") == ""
}

// operand is batch × rows × columns, in memory as the letter says: N row-major, T transposed.
func operand(f format.Format, batch, rows, columns int, layout byte, g *Generator) Tensor {
	t := Tensor{Format: f, Shape: []int{batch, rows, columns}, Strides: []int{rows * columns, columns, 1}, Generator: g}
	if layout == 'T' {
		t.Strides = []int{rows * columns, 1, rows}
	}
	return t
}

func scales(n int, seed uint64) *Tensor {
	return &Tensor{Format: format.F32, Shape: []int{n}, Strides: []int{1}, Generator: &Generator{Recipe: "scales", Kind: "normal", Seed: seed}}
}

// Stored reads the stored output elements of a case, little endian.
func (g *Golden) Stored(c *Case) ([]byte, error) {
	if c.Out.Samples == nil {
		return nil, errors.New("no output elements are stored")
	}
	file, err := os.Open(g.bin)
	if err != nil {
		return nil, fmt.Errorf("%s, which holds the set's output elements, cannot be read: %w", filepath.Base(g.bin), err)
	}
	defer file.Close()
	data := make([]byte, c.Out.Samples.Bytes)
	switch _, err := file.ReadAt(data, c.Out.Samples.Offset); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: ends before the output elements of %s (%d bytes at %d): it is cut short, or belongs to another set",
			filepath.Base(g.bin), c.ID, len(data), c.Out.Samples.Offset)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", filepath.Base(g.bin), err)
	}
	return data, nil
}
