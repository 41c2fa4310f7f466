package verify

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// corruption makes a wrong output of a case whose right profile and output are given; nil where it does not apply.
type corruption struct {
	name  string
	kind  DifferenceKind
	fits  func(c *cases.Case) bool // golden cases to take kernels and formats from
	shape func(random *rand.Rand, size *[4]int)
	make  func(t *testing.T, random *rand.Rand, w *work) []byte
}

// work is a case with its right output.
type work struct {
	c        *cases.Case
	operands *cases.InMemory
	profile  *profile.Profile
	out      []byte
}

// run computes the case with operands, a profile and an output format of one's own.
func (w *work) run(t *testing.T, p *profile.Profile, f format.Format, change func(a *gemm.Args)) []byte {
	t.Helper()
	batch, m, n, _ := w.c.Sizes()
	out := make([]byte, batch*m*n*f.Bytes())
	a := &gemm.Args{Profile: p, A: w.operands.A, B: w.operands.B, C: w.operands.C, D: gemm.Dense(out, f, batch, m, n),
		Alpha: w.c.Number("alpha", 1), Beta: w.c.Number("beta", 1), ScaleA: w.operands.ScaleA, ScaleB: w.operands.ScaleB}
	if change != nil {
		change(a)
	}
	if err := gemm.Run(context.Background(), a); err != nil {
		if skip(err) {
			return nil
		}
		t.Fatal(err)
	}
	return out
}

// remade is a dense copy of a matrix, its elements changed by f.
func remade(m *gemm.Matrix, as format.Format, f func(i, j int, bits uint64) uint64) *gemm.Matrix {
	data := make([]byte, m.Batch*m.Rows*m.Columns*as.Bytes())
	at := 0
	for b := range m.Batch {
		for i := range m.Rows {
			for j := range m.Columns {
				putBits(data[at:], as.Bytes(), f(i, j, m.Bits(b, i, j)))
				at += as.Bytes()
			}
		}
	}
	return gemm.Dense(data, as, m.Batch, m.Rows, m.Columns)
}

// flippedOver is the transpose as a dense copy.
func flippedOver(m *gemm.Matrix) *gemm.Matrix {
	data := make([]byte, m.Batch*m.Rows*m.Columns*m.Format.Bytes())
	t := gemm.Dense(data, m.Format, m.Batch, m.Columns, m.Rows)
	size := m.Format.Bytes()
	for b := range m.Batch {
		for i := range m.Rows {
			for j := range m.Columns {
				putBits(data[((b*m.Columns+j)*m.Rows+i)*size:], size, m.Bits(b, i, j))
			}
		}
	}
	return t
}

// nudge changes the low bits of the elements chosen.
func nudge(random *rand.Rand, w *work, chosen func(batch, row, column int) bool) []byte {
	out := bytes.Clone(w.out)
	size := w.c.Out.Format.Bytes()
	batch, m, n, _ := w.c.Sizes()
	for b := range batch {
		for i := range m {
			for j := range n {
				if chosen(b, i, j) {
					out[((b*m+i)*n+j)*size] ^= byte(1 + random.IntN(7))
				}
			}
		}
	}
	return out
}

// sums are the merged f32 sums of a case.
func (w *work) sums(t *testing.T) []float32 {
	p := *w.profile
	p.Epilogue = profile.Epilogue{Out: format.F32, Form: profile.FormAdd}
	raw := w.run(t, &p, format.F32, nil)
	list := make([]float32, len(raw)/4)
	for i := range list {
		list[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return list
}

// outputOf writes values rounded by f.
func outputOf(values []float32, size int, f func(float32) uint64) []byte {
	out := make([]byte, len(values)*size)
	for i, v := range values {
		putBits(out[i*size:], size, f(v))
	}
	return out
}

// directed rounds to a 16-bit format toward zero or down, from the nearest value.
func directed(v float32, to format.Format, down bool) uint64 {
	bits := narrow(v, to, format.NearestEven)
	value := math.Float32frombits(widened(bits, to))
	switch negative := math.Signbit(float64(v)); {
	case v != v || math.IsInf(float64(v), 0):
	case down && value > v && negative || !negative && value > v: // too far up
		if !negative {
			return bits - 1
		}
		return bits + 1
	case !down && negative && value < v:
		return bits - 1
	}
	return bits
}

func plainCase(c *cases.Case) bool {
	return c.C == nil && c.ScaleA == nil && len(c.Scalars) == 0
}

func sixteen(f format.Format) bool { return f == format.F16 || f == format.BF16 }

// profileAs is the case's profile with another step, in the plan of one accumulator where that step's sums merge otherwise.
func (w *work) profileAs(t *testing.T, name string) *profile.Profile {
	base, err := profile.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	p := *w.profile
	if p.Step = base.Step; p.Validate() != nil {
		p.Plan = plan.Plain()
	}
	return &p
}

var corruptions = []corruption{
	{"the last K mod 64 products are missing", MissingProducts, func(c *cases.Case) bool { return c.A.Format != format.S8 },
		func(random *rand.Rand, size *[4]int) { size[3] = 64*(1+random.IntN(4)) + 8*(1+random.IntN(7)) },
		func(t *testing.T, _ *rand.Rand, w *work) []byte {
			_, _, _, k := w.c.Sizes()
			kept := k - k%64
			return w.run(t, w.profile, w.c.Out.Format, func(a *gemm.Args) {
				a.A = remade(a.A, a.A.Format, func(_, j int, bits uint64) uint64 {
					if j >= kept {
						return 0
					}
					return bits
				})
				a.B = remade(a.B, a.B.Format, func(i, _ int, bits uint64) uint64 {
					if i >= kept {
						return 0
					}
					return bits
				})
			})
		}},
	{"an element is changed", DifferentElement, nil, nil, func(_ *testing.T, random *rand.Rand, w *work) []byte {
		out := bytes.Clone(w.out)
		out[random.IntN(len(out))] ^= byte(1 + random.IntN(255))
		return out
	}},
	{"a row is changed", DifferentRow, nil, nil, func(_ *testing.T, random *rand.Rand, w *work) []byte {
		batch, m, _, _ := w.c.Sizes()
		b, row := random.IntN(batch), random.IntN(m)
		return nudge(random, w, func(s, i, _ int) bool { return s == b && i == row })
	}},
	{"a column is changed", DifferentColumn, nil, nil, func(_ *testing.T, random *rand.Rand, w *work) []byte {
		batch, _, n, _ := w.c.Sizes()
		b, column := random.IntN(batch), random.IntN(n)
		return nudge(random, w, func(s, _, j int) bool { return s == b && j == column })
	}},
	{"a tile is changed", DifferentTile, nil, nil, func(_ *testing.T, random *rand.Rand, w *work) []byte {
		batch, m, n, _ := w.c.Sizes()
		b, high, wide := random.IntN(batch), 2+random.IntN(m-3), 2+random.IntN(n-3)
		top, left := random.IntN(m-high+1), random.IntN(n-wide+1)
		return nudge(random, w, func(s, i, j int) bool { return s == b && i >= top && i < top+high && j >= left && j < left+wide })
	}},
	{"the output is rounded otherwise", DifferentRounding, func(c *cases.Case) bool { return sixteen(c.Out.Format) && plainCase(c) }, nil,
		func(t *testing.T, random *rand.Rand, w *work) []byte {
			if w.profile.Step.Result != format.F32 || w.profile.Plan.Serial != nil {
				return nil
			}
			to := w.c.Out.Format
			via := format.F16 + format.BF16 - to
			which := random.IntN(3)
			return outputOf(w.sums(t), 2, func(v float32) uint64 {
				if which < 2 {
					return directed(v, to, which == 1)
				}
				return narrow(math.Float32frombits(widened(narrow(v, via, format.NearestEven), via)), to, format.NearestEven)
			})
		}},
	{"tf32 for f32, or the reverse", DifferentTF32, func(c *cases.Case) bool { return c.A.Format == format.F32 && plainCase(c) }, nil,
		func(t *testing.T, _ *rand.Rand, w *work) []byte {
			name := "hopper/tf32"
			if w.profile.Step.A == format.TF32 {
				name = "hopper/f32"
			}
			return w.run(t, w.profileAs(t, name), w.c.Out.Format, nil)
		}},
	{"the bias is rounded twice for once, or once for twice", DifferentAddend, func(c *cases.Case) bool { return sixteen(c.Out.Format) && c.C != nil && c.C.Strides[1] == 0 }, nil,
		func(t *testing.T, _ *rand.Rand, w *work) []byte {
			p := *w.profile
			switch p.Epilogue.Form {
			case profile.FormAdd:
				p.Epilogue.Form = profile.FormRoundThenAdd
			case profile.FormRoundThenAdd:
				p.Epilogue.Form = profile.FormAdd
			default:
				return nil
			}
			return w.run(t, &p, w.c.Out.Format, nil)
		}},
	{"operands are swapped or transposed", DifferentOperands, func(c *cases.Case) bool { return c.A.Format == c.B.Format }, func(random *rand.Rand, size *[4]int) {
		size[1] = 5 + random.IntN(60)
		size[2], size[3] = size[1], size[1]
	},
		func(t *testing.T, random *rand.Rand, w *work) []byte {
			which := random.IntN(4)
			return w.run(t, w.profile, w.c.Out.Format, func(a *gemm.Args) {
				switch which {
				case 0:
					a.A = flippedOver(a.A)
				case 1:
					a.B = flippedOver(a.B)
				case 2:
					a.A, a.B = a.B, a.A
				default:
					a.A, a.B = flippedOver(a.A), flippedOver(a.B)
				}
			})
		}},
	{"another dtype", DifferentType, func(c *cases.Case) bool {
		return (sixteen(c.A.Format) || c.A.Format == format.F32 || c.A.Format == format.F64) && plainCase(c)
	}, nil,
		func(t *testing.T, random *rand.Rand, w *work) []byte {
			from, out := w.c.A.Format, w.c.Out.Format
			if from == format.F64 {
				single := func(_, _ int, bits uint64) uint64 {
					return uint64(math.Float32bits(float32(math.Float64frombits(bits))))
				}
				p := *w.profileAs(t, "hopper/f32")
				p.Epilogue.Out = format.F32
				raw := w.run(t, &p, format.F32, func(a *gemm.Args) { a.A, a.B = remade(a.A, format.F32, single), remade(a.B, format.F32, single) })
				wide := make([]byte, 2*len(raw))
				for i := 0; i < len(raw); i += 4 {
					binary.LittleEndian.PutUint64(wide[2*i:], math.Float64bits(float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[i:])))))
				}
				return wide
			}
			if out == format.F32 && w.profile.Step.Result == format.F32 && w.profile.Plan.Serial == nil && random.IntN(3) == 0 { // computed in bf16 and cast
				return outputOf(w.sums(t), 4, func(v float32) uint64 { return uint64(format.F32ToBF16(math.Float32bits(v))) << 16 })
			}
			via := format.BF16
			if from == format.BF16 || from == format.F32 && random.IntN(2) == 0 {
				via = format.F16
			}
			there := func(_, _ int, bits uint64) uint64 {
				return narrow(math.Float32frombits(widened(bits, from)), via, format.NearestEven)
			}
			changed := w.run(t, w.profileAs(t, "hopper/"+via.String()), out, func(a *gemm.Args) {
				a.A, a.B = remade(a.A, via, there), remade(a.B, via, there)
			})
			// Operands that the other format holds as they are leave the bits of another kernel, and of no fault.
			// So do operands that f16 rounds as tf32 does, with its 11 bits too: the bits are those of either fault.
			if from == format.F32 && via == format.F16 && bytes.Equal(changed, w.run(t, w.profileAs(t, "hopper/tf32"), out, nil)) {
				return nil
			}
			if from.Bytes() == 2 && bytes.Equal(changed, w.run(t, w.profileAs(t, "hopper/"+from.String()), out, nil)) {
				return nil
			}
			return changed
		}},
}

// faultTrials, where it is set, is how many trials each corruption gets.
const faultTrials = "HAWKEYE_FAULT_TRIALS"

// TestFaults injects the ten kinds of corruption into products of random shapes, formats and plans, as the kernels of the
// golden set compute them. Each must be seen always, and called by its name in 95 % of the trials.
func TestFaults(t *testing.T) {
	trials := 200
	if testing.Short() {
		trials = 20
	}
	if text := os.Getenv(faultTrials); text != "" {
		var err error
		if trials, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	golden := openGolden(t)
	for number, x := range corruptions {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(7, uint64(number)))
			outcomes, names := map[Outcome]int{}, map[string]int{}
			done, right := 0, 0
			for draws := 0; done < trials && draws < 60*trials; draws++ {
				w := drawn(t, golden, random, &x)
				if w == nil {
					continue
				}
				wrong := x.make(t, random, w)
				if wrong == nil || bytes.Equal(wrong, w.out) {
					continue
				}
				w.c.Out.Hash = hashOf(wrong)
				v := replayed(t, w.c, samplesOf(wrong, w.c.Out.Format.Bytes()))
				done++
				outcomes[v.Outcome]++
				if v.Outcome == Exact {
					t.Errorf("%s: exact by %s", describeCase(w.c), v.Plan)
				}
				kind := DifferenceKind("none")
				if v.Difference != nil {
					kind = v.Difference.Kind
				}
				names[string(kind)]++
				if kind == x.kind {
					right++
				} else if names[string(kind)] <= 2 {
					t.Logf("%s is called %s (%s): %s", describeCase(w.c), kind, v.Outcome, v.Reason)
				}
			}
			t.Logf("%d trials: %v; called %v", done, outcomes, names)
			if done < trials || right*100 < 95*done {
				t.Errorf("%d trials, %d called %s", done, right, x.kind)
			}
		})
	}
}

func describeCase(c *cases.Case) string {
	batch, m, n, k := c.Sizes()
	return fmt.Sprintf("%s %d×%d×%d×%d %v→%v %s %s", c.Op, batch, m, k, n, c.A.Format, c.Out.Format, c.A.Generator.Kind, strings.Join(c.Kernels, "+")[:40])
}

// drawn is a product of a random size and plan by the kernels of a random golden case.
func drawn(t *testing.T, golden *cases.Golden, random *rand.Rand, x *corruption) *work {
	t.Helper()
	from := golden.Cases[random.IntN(len(golden.Cases))]
	if from.A.Format == format.S8 && x.kind != DifferentElement || x.fits != nil && !x.fits(from) {
		return nil
	}
	size := [4]int{1 + random.IntN(8)/7, 4 + random.IntN(40), 4 + random.IntN(40), 16 + random.IntN(400)}
	if from.A.Format == format.F64 {
		size[3] = 16 + random.IntN(100)
	}
	if from.C != nil || from.ScaleA != nil {
		size[0] = 1
	}
	if x.shape != nil {
		x.shape(random, &size)
	}
	c := resized(from, size, random.Uint64N(1<<30))
	c.A.Generator.Kind = []string{"normal", "cancel"}[random.IntN(2)]
	c.B.Generator.Kind = c.A.Generator.Kind
	chosen := choose(c, Options{})
	if chosen.unknown != "" || len(chosen.candidates) == 0 {
		return nil
	}
	operands, err := c.Materialize()
	if err != nil {
		t.Fatal(err)
	}
	w := &work{c: c, operands: operands, profile: chosen.candidates[random.IntN(len(chosen.candidates))].profile}
	if w.out = w.run(t, w.profile, c.Out.Format, nil); w.out == nil {
		return nil
	}
	return w
}

// resized is a golden case of another size and seed.
func resized(from *cases.Case, size [4]int, seed uint64) *cases.Case {
	c := *from
	batch, m, n, k := size[0], size[1], size[2], size[3]
	operand := func(t cases.Tensor, rows, columns int) cases.Tensor {
		generator := *t.Generator
		generator.Seed, t.Generator = seed, &generator
		t.Shape = []int{batch, rows, columns}
		if t.Strides[2] == 1 {
			t.Strides = []int{rows * columns, columns, 1}
		} else {
			t.Strides = []int{rows * columns, 1, rows}
		}
		return t
	}
	c.A, c.B = operand(c.A, m, k), operand(c.B, k, n)
	c.Out.Shape, c.Out.Samples = []int{batch, m, n}, nil
	if c.C != nil {
		addend := *c.C
		if addend.Shape = c.Out.Shape; addend.Strides[1] != 0 {
			addend.Strides = []int{m * n, n, 1}
		}
		c.C = &addend
	}
	if c.ScaleA != nil {
		a, b := *c.ScaleA, *c.ScaleB
		a.Shape, b.Shape = []int{m}, []int{n}
		c.ScaleA, c.ScaleB = &a, &b
	}
	c.ID = "drawn"
	return &c
}
