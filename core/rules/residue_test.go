package rules

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
)

// recordedResidue is a line of tests/goldens/h200-residue.jsonl: a tf32 product of one xmma kernel, K more than its tile and no
// multiple of it. Elements holds 41 of its elements, little endian, a 40th of them apart.
type recordedResidue struct {
	Size     [3]int
	Layout   string
	Kind     string
	Seed     uint64
	Kernel   int
	Launch   [6]int
	Elements string
}

// TestResidue: xmma kernels take the K mod tile products that fill no tile last, sm90 ones as sm80 ones. Taken first, they
// would give other bits in every one of these products.
func TestResidue(t *testing.T) {
	var names []string
	count := map[string]int{}
	for number, r := range readLines[recordedResidue](t, "../../tests/goldens/h200-residue.jsonl", &names) {
		launched := recordedSlices{Size: r.Size, Layout: r.Layout, A: "f32", TF32: true, Kernels: []int{r.Kernel}, Launches: [][6]int{r.Launch}}
		c := launched.record(t, names)
		choice := Choose(c, Options{})
		if len(choice.Candidates) != 1 {
			t.Fatalf("line %d: %d candidates, %s", number, len(choice.Candidates), choice.Unknown)
		}
		m, n, k := r.Size[0], r.Size[1], r.Size[2]
		a, b, err := cases.Operands(format.F32, format.F32, r.Kind, r.Seed, 1, m, n, k)
		if err != nil {
			t.Fatal(err)
		}
		data, err := hex.DecodeString(r.Elements)
		if err != nil {
			t.Fatal(err)
		}
		var at []gemm.Position
		for i := 0; i < m*n; i += m * n / 40 {
			at = append(at, gemm.Position{Row: i / n, Column: i % n})
		}
		p := *choice.Candidates[0].Profile
		same := func() bool {
			args := &gemm.Args{Profile: &p, A: gemm.Dense(a, format.F32, 1, m, k), B: gemm.Dense(b, format.F32, 1, k, n), Alpha: 1, Threads: 1,
				D: &gemm.Matrix{Format: format.F32, Batch: 1, Rows: m, Columns: n}}
			got, err := gemm.Elements(t.Context(), args, at)
			if err != nil {
				t.Fatal(err)
			}
			for i, bits := range got {
				if uint32(bits) != binary.LittleEndian.Uint32(data[4*i:]) {
					return false
				}
			}
			return len(data) == 4*len(got)
		}
		kernel := Parse(names[r.Kernel])
		if !same() {
			t.Errorf("line %d, K = %d by %s: not what %s gives", number, k, names[r.Kernel], p.Plan.Describe())
		}
		if p.Plan = plan.Tiled(plan.ResidueFirst, kernel.Tile[2]); same() {
			t.Errorf("line %d, K = %d by %s: the residue first gives the same bits", number, k, names[r.Kernel])
		}
		count[strings.SplitN(names[r.Kernel], "_", 2)[0]]++
	}
	if count["sm90"] != 72 || count["sm80"] < 60 {
		t.Error(count)
	}
}
