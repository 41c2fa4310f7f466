package step

import (
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// mutant is one wrong constant.
type mutant struct {
	name  string
	apply func(*Params)
	// exists says which entries have such a constant; nil: all.
	exists func(Params) bool
	// blind gives the reason where no operands of the entry can show the difference, and the test holds it to that: no
	// vector may. nil: there is none.
	blind func(Params) string
}

var mutants = []mutant{
	{"F + 1", func(p *Params) { p.Fraction++ }, nil, nil},
	{"F - 1", func(p *Params) { p.Fraction-- }, nil, nil},
	{"G halved", func(p *Params) { p.Group /= 2 }, nil, nil},
	{"G doubled", func(p *Params) { p.Group *= 2 }, nil, nil},
	{"alignment down", func(p *Params) { p.Align = format.Down }, nil, nil},
	{"alignment up", func(p *Params) { p.Align = format.Up }, nil, nil},
	{"alignment to nearest even", func(p *Params) { p.Align = format.NearestEven }, nil, nil},
	{"alignment to nearest, ties away", func(p *Params) { p.Align = format.NearestAway }, nil, nil},
	{"floor + 1", func(p *Params) { p.Floor = ptr(*p.Floor + 1) }, hasFloor, coarseProducts},
	{"floor - 1", func(p *Params) { p.Floor = ptr(*p.Floor - 1) }, hasFloor, coarseProducts},
	{"no floor", func(p *Params) { p.Floor = nil }, hasFloor, coarseProducts},
	{"the floor of an accumulator of zero", func(p *Params) { p.Floor = ptr(p.Result.Info().MinExponent) }, nil, coarseProducts},
	{"normalised terms", func(p *Params) { p.NormalisedTerms = true }, nil, nil},
	{"zeros take part in E", func(p *Params) { p.ZerosAlign = true }, nil, func(p Params) string {
		if p.Kind == Fused && p.Result == format.F32 {
			return "" // a zero of A by a large number of B
		}
		return coarseProducts(p)
	}},
	{"result to nearest even", func(p *Params) { p.ResultRounding = format.NearestEven },
		func(p Params) bool { return p.ResultRounding != format.NearestEven }, nil},
	{"result toward zero", func(p *Params) { p.ResultRounding = format.TowardZero },
		func(p Params) bool { return p.ResultRounding != format.TowardZero }, nil},
	{"result to nearest, ties away", func(p *Params) { p.ResultRounding = format.NearestAway }, nil, nil},
	{"result down", func(p *Params) { p.ResultRounding = format.Down }, nil, nil},
	{"result up", func(p *Params) { p.ResultRounding = format.Up }, nil, nil},
	{"one fraction bit fewer", func(p *Params) {
		if p.ResultFraction == 0 {
			p.ResultFraction = p.Result.Info().MantissaBits
		}
		p.ResultFraction--
	}, nil, nil},
	{"one fraction bit more", func(p *Params) { p.ResultFraction++ }, func(p Params) bool { return p.ResultFraction != 0 }, nil},
	{"overflow saturates", func(p *Params) { p.Overflow = format.Saturate }, nil, farFromTop},
	{"overflow as IEEE 754 has it", func(p *Params) { p.Overflow = format.IEEE },
		func(p Params) bool { return p.ResultRounding != format.NearestEven }, farFromTop},
	{"a sum that rounds to zero keeps its sign", func(p *Params) { p.ZeroSign = SumZero }, nil, func(p Params) string {
		if p.Result == format.F32 && !reachesTiny(p) || p.Kind == Converted || p.A == format.E4M3 {
			return "no sum of whole multiples of its least product rounds to zero"
		}
		return ""
	}},
	{"IEEE 754's zeros", func(p *Params) { p.ZeroSign = IEEEZero }, nil, func(p Params) string {
		if p.Kind == Converted {
			return "the sum of the products is never -0"
		}
		return ""
	}},
	{"another NaN", func(p *Params) {
		p.NaN = map[format.Format]Bits{format.F16: 0x7e00, format.F32: 0x7fc00000}[p.Result]
	}, nil, nil},
	{"subnormal operands flushed", func(p *Params) { p.FlushInputs = true }, nil, nil},
	{"subnormal results flushed", func(p *Params) { p.FlushOutputs = true }, nil, nil},
	{"partial sums rounded otherwise", func(p *Params) {
		if p.PartialRounding == format.TowardZero {
			p.PartialRounding = format.NearestEven
		} else {
			p.PartialRounding = format.TowardZero
		}
	}, isConverted, nil},
	{"groups of consecutive k", func(p *Params) { p.Order = Consecutive }, isConverted, nil},
	{"C in the first sum", func(p *Params) { p.Kind = Fused }, isConverted, nil},
}

func hasFloor(p Params) bool    { return p.Floor != nil }
func isConverted(p Params) bool { return p.Kind == Converted }

// reachesTiny: products go below f32's subnormals (and beyond its largest numbers).
func reachesTiny(p Params) bool { return p.A.Info().MinExponent < -100 }

func coarseProducts(p Params) string {
	switch {
	case p.Kind == Converted, p.Result == format.F32 && !reachesTiny(p), p.Result == format.F16 && p.A == format.E4M3:
		return "its products are whole multiples of the last place there"
	}
	return ""
}

func farFromTop(p Params) string {
	if p.Result == format.F32 && !reachesTiny(p) {
		return "its products are far below the last place of the largest numbers"
	}
	return ""
}

// TestMutations changes one constant at a time in every entry with vectors; one of them must notice.
func TestMutations(t *testing.T) {
	vectors := allVectors()
	caught, blind := 0, 0
	for _, entry := range vectorEntries {
		e, _ := Find(entry)
		for _, m := range mutants {
			if m.exists != nil && !m.exists(e.Params) {
				continue
			}
			reason := ""
			if m.blind != nil {
				reason = m.blind(e.Params)
			}
			p := e.Params
			m.apply(&p)
			by := ""
			for _, v := range vectors[entry] {
				if p.Dot(v.a, v.b, v.c) != v.want {
					by = v.name
					break
				}
			}
			switch {
			case by == "" && reason == "":
				t.Errorf("%s: mutant %q survives", entry, m.name)
			case by != "" && reason != "":
				t.Errorf("%s: mutant %q cannot be seen (%s), yet %q sees it", entry, m.name, reason, by)
			case by != "":
				caught++
			default:
				blind++
			}
		}
	}
	t.Logf("%d mutants of %d entries caught, %d invisible to any operands", caught, len(vectorEntries), blind)
}

// TestMeasuredVectorsAlone: the vectors whose answers are an H200's, without those derived from rules, must catch the
// constants they were made for.
func TestMeasuredVectorsAlone(t *testing.T) {
	for entry, names := range map[string][]string{
		"hopper/bf16": {"floor + 1", "floor - 1", "no floor", "zeros take part in E", "a sum that rounds to zero keeps its sign",
			"subnormal results flushed", "result to nearest even", "result up"},
		"hopper/f16-f16": {"F + 1", "F - 1", "floor + 1", "floor - 1", "no floor", "zeros take part in E", "result toward zero", "alignment up"},
		"hopper/tf32":    {"zeros take part in E"},
	} {
		e, _ := Find(entry)
		for _, m := range mutants {
			for _, name := range names {
				if m.name != name {
					continue
				}
				p := e.Params
				m.apply(&p)
				seen := false
				for _, v := range measuredVectors() {
					seen = seen || v.entry == entry && p.Dot(v.a, v.b, v.c) != v.want
				}
				if !seen {
					t.Errorf("%s: mutant %q survives", entry, name)
				}
			}
		}
	}
}
