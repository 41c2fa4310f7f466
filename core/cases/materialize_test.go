package cases

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// sameElements fails unless m holds the dense row-major elements.
func sameElements(t *testing.T, name string, m *gemm.Matrix, dense []byte, batch, rows, columns int) {
	t.Helper()
	if m.Batch != batch || m.Rows != rows || m.Columns != columns {
		t.Fatalf("%s is %d×%d×%d, want %d×%d×%d", name, m.Batch, m.Rows, m.Columns, batch, rows, columns)
	}
	want := gemm.Dense(dense, m.Format, batch, rows, columns)
	for b := range batch {
		for i := range rows {
			for j := range columns {
				if m.Bits(b, i, j) != want.Bits(b, i, j) {
					t.Fatalf("%s (%d, %d, %d) is %#x, want %#x", name, b, i, j, m.Bits(b, i, j), want.Bits(b, i, j))
				}
			}
		}
	}
}

// TestMaterializeLayouts: the layout moves the elements in memory and changes none.
func TestMaterializeLayouts(t *testing.T) {
	for _, f := range []string{"bf16", "f64", "e4m3", "f32"} {
		for _, layout := range []string{"NN", "NT", "TN", "TT"} {
			for _, size := range [][4]int{{2, 3, 5, 7}, {1, 1, 5, 7}, {1, 3, 1, 1}, {3, 1, 1, 4}, {1, 3, 5, 0}, {0, 3, 5, 2}, {2, 0, 5, 2}} {
				batch, m, n, k := size[0], size[1], size[2], size[3]
				line := goldenLine{Op: "bmm", Batch: batch, M: m, N: n, K: k, A: f, B: f, Out: "f32", Layout: layout, Kind: "cancel", Seed: 5}
				c, err := line.record("x.bin")
				if err != nil {
					t.Fatal(err)
				}
				o, err := c.Materialize()
				if err != nil {
					t.Fatal(err)
				}
				a, b, err := Operands(c.A.Format, c.B.Format, "cancel", 5, batch, m, n, k)
				if err != nil {
					t.Fatal(err)
				}
				sameElements(t, f+" a "+layout, o.A, a, batch, m, k)
				sameElements(t, f+" b "+layout, o.B, b, batch, k, n)
				for _, x := range []struct {
					matrix *gemm.Matrix
					tensor Tensor
				}{{o.A, c.A}, {o.B, c.B}} { // a stride along a size of 1 means nothing
					row, column := x.matrix.RowStride == x.tensor.Strides[1], x.matrix.ColumnStride == x.tensor.Strides[2]
					if !x.matrix.Empty() && (x.matrix.Rows > 1 && !row || x.matrix.Columns > 1 && !column) {
						t.Errorf("%s, %v: strides %d and %d, the record has %v", layout, size, x.matrix.RowStride, x.matrix.ColumnStride, x.tensor.Strides)
					}
				}
				if o.C != nil || o.ScaleA != nil || o.ScaleB != nil {
					t.Errorf("an addend or scales out of nothing")
				}
			}
		}
	}
}

func TestMaterializeAddend(t *testing.T) {
	for _, kind := range []string{"bias", "full"} {
		line := goldenLine{Batch: 2, M: 3, N: 5, K: 4, A: "f16", B: "f16", Out: "f32", Layout: "NN", Kind: "wide", Seed: 9, C: kind, CLower: 7}
		c, err := line.record("x.bin")
		if err != nil {
			t.Fatal(err)
		}
		o, err := c.Materialize()
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{"bias": 5, "full": 30}[kind]
		data, err := Elements(format.F32, "normal", 27<<20+7, count, 7)
		if err != nil {
			t.Fatal(err)
		}
		for b := range 2 {
			for i := range 3 {
				for j := range 5 {
					at := j
					if kind == "full" {
						at += (b*3 + i) * 5
					}
					if want := uint64(binary.LittleEndian.Uint32(data[4*at:])); o.C.Bits(b, i, j) != want {
						t.Fatalf("%s (%d, %d, %d) is %#x, want %#x", kind, b, i, j, o.C.Bits(b, i, j), want)
					}
				}
			}
		}
	}
}

func TestMaterializeScales(t *testing.T) {
	a, b := 0.013, 2.0
	line := goldenLine{Batch: 1, M: 3, N: 5, K: 4, A: "e4m3", B: "e5m2", Out: "bf16", Layout: "NT", Kind: "normal", Seed: 9, Scaling: "tensor", ScaleA: &a, ScaleB: &b}
	c, err := line.record("x.bin")
	if err != nil {
		t.Fatal(err)
	}
	o, err := c.Materialize()
	if err != nil || len(o.ScaleA) != 1 || len(o.ScaleB) != 1 || o.ScaleA[0] != 0.013 || o.ScaleB[0] != 2 {
		t.Errorf("a scale a tensor: %v, %v, %v", o.ScaleA, o.ScaleB, err)
	}
	line.Scaling, line.ScaleA, line.ScaleB = "row", nil, nil
	if c, err = line.record("x.bin"); err != nil {
		t.Fatal(err)
	}
	if o, err = c.Materialize(); err != nil || len(o.ScaleA) != 3 || len(o.ScaleB) != 5 {
		t.Fatalf("a scale a row: %v, %v, %v", o.ScaleA, o.ScaleB, err)
	}
	negative := 0
	for i, list := range [][]float32{o.ScaleA, o.ScaleB} {
		data, err := Elements(format.F32, "normal", uint64(28+i)<<21, len(list), 0)
		if err != nil {
			t.Fatal(err)
		}
		for j, got := range list {
			bits := binary.LittleEndian.Uint32(data[4*j:])
			negative += int(bits >> 31)
			if math.Float32bits(got) != bits&0x7fffffff {
				t.Errorf("scale %d of %d is %g, want %#x without its sign", j, i, got, bits)
			}
		}
	}
	if negative == 0 {
		t.Error("no sign was there to clear: choose another seed")
	}
}

// TestMaterializeRefuses: operands this version cannot rebuild are refused, never made up, and no record crashes it.
func TestMaterializeRefuses(t *testing.T) {
	const files = "a and b: the record has neither files of them nor one recipe for both"
	const none = ": the record has neither a file nor a recipe of it"
	for name, test := range map[string]struct {
		change func(c *Case)
		want   string
	}{
		"a of nothing":        {func(c *Case) { c.A.Generator = nil }, files},
		"b of nothing":        {func(c *Case) { c.B.Generator = nil }, files},
		"c of nothing":        {func(c *Case) { c.C.Generator = nil }, "c" + none},
		"scale_a of nothing":  {func(c *Case) { c.ScaleA.Generator = nil }, "scale_a" + none},
		"scale_b of nothing":  {func(c *Case) { c.ScaleB.Generator = nil }, "scale_b" + none},
		"a from a file":       {func(c *Case) { c.A.File = "x" }, "a: the operand comes from a file, and there is nothing to read it from"},
		"c from a file":       {func(c *Case) { c.C.File = "x" }, "c: the operand comes from a file"},
		"scale_b from a file": {func(c *Case) { c.ScaleB.File = "x" }, "scale_b: the operand comes from a file"},
		"another recipe":      {func(c *Case) { c.A.Generator.Recipe = "elements" }, files},
		"two seeds":           {func(c *Case) { c.B.Generator.Seed++ }, files},
		"two kinds":           {func(c *Case) { c.B.Generator.Kind = "bits" }, files},
		"no such kind":        {func(c *Case) { c.A.Generator.Kind, c.B.Generator.Kind = "x", "x" }, `no kind of input is called "x"`},
		"no such kind of c":   {func(c *Case) { c.C.Generator.Kind = "x" }, `no kind of input is called "x"`},
		"a format":            {func(c *Case) { c.A.Format = format.TF32 }, "no inputs are made in tf32"},
		"a format of c":       {func(c *Case) { c.C.Format = format.S32 }, "no inputs are made in s32"},
		"a shape":             {func(c *Case) { c.A.Shape = c.A.Shape[1:] }, "a.shape: has 2 sizes, want 3"},
		"a negative size":     {func(c *Case) { c.A.Shape[1] = -1 }, "a.shape: a size of -1 is out of range"},
		"no strides of c":     {func(c *Case) { c.C.Strides = nil }, "c.strides: there are 0"},
		"a shape of scales":   {func(c *Case) { c.ScaleA.Shape = nil }, "scale_a.shape: is [], must be [3]"},
	} {
		line := goldenLine{Batch: 2, M: 3, N: 5, K: 4, A: "f16", B: "f16", Out: "f32", Layout: "NN", Kind: "wide", Seed: 9, C: "bias", Scaling: "row"}
		c, err := line.record("x.bin")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Materialize(); err != nil {
			t.Fatalf("unchanged: %v", err)
		}
		test.change(c)
		if o, err := c.Materialize(); err == nil || !strings.Contains(err.Error(), test.want) || o != nil {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	var c Case
	if err := json.Unmarshal([]byte(recordText(t, "id", `"y"`)), &c); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Materialize(); err == nil || err.Error() != files {
		t.Errorf("a record without generators: %v", err)
	}
}
