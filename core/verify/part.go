package verify

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// Where only a part of an output is looked at (Options.Rows), that part stands for the whole in everything that follows: the
// elements compared, one behind the other, are what candidates compute, and how far apart plans lie is counted in them. The
// hash of the output is set aside: nothing less than all elements can be compared with it.

// part is what a record keeps of an output in some of its rows.
type part struct {
	rows   int // how many of the output's rows hold the elements
	hashed bool
	index  map[gemm.Position]int
}

// noHash is the note of a verdict on a part, where the record holds a hash too.
const noHash = "the hash of the whole output was not compared"

// fewOfPart is how many elements a part must have for a searched plan to be believed: how far rejected plans lie, seen on a
// handful of elements, is no measure of the chance that a wrong one agrees there.
const fewOfPart = 16

// chunk is how many elements of a part are computed between two looks at whether to go on.
const chunk = 2048

// keep reduces a record to the stored elements in at most so many rows. whole is the whole recorded output, where it is kept,
// else nil. The rows are drawn among those that have stored elements, by a number made from the case: everybody draws the same
// ones, and who wants others in an output must change its hash or its operands.
func (k *recorded) keep(c *cases.Case, rows int, whole []byte) {
	batch, m, n, _ := c.Sizes()
	k.part = &part{hashed: k.hash != "", index: map[gemm.Position]int{}}
	k.hash, k.whole = "", false
	if whole != nil {
		k.samples, k.at, k.indices = nil, nil, nil
		matrix := gemm.Dense(whole, c.Out.Format, batch, m, n)
		for _, line := range drawLines(seedOf(c), batch*m, rows) {
			for j := range n {
				k.at = append(k.at, gemm.Position{Batch: line / m, Row: line % m, Column: j})
				k.indices = append(k.indices, line*n+j)
				k.samples = append(k.samples, matrix.Bits(line/m, line%m, j))
			}
		}
	} else {
		var lines []int // ascending, as the stored elements are
		for _, p := range k.at {
			if line := p.Batch*m + p.Row; len(lines) == 0 || lines[len(lines)-1] != line {
				lines = append(lines, line)
			}
		}
		taken := map[int]bool{}
		for _, i := range drawLines(seedOf(c), len(lines), rows) {
			taken[lines[i]] = true
		}
		kept := recorded{part: k.part}
		for i, p := range k.at {
			if taken[p.Batch*m+p.Row] {
				kept.at, kept.indices, kept.samples = append(kept.at, p), append(kept.indices, k.indices[i]), append(kept.samples, k.samples[i])
			}
		}
		*k = kept
	}
	seen := map[int]bool{}
	for i, p := range k.at {
		k.part.index[p] = i
		seen[p.Batch*m+p.Row] = true
	}
	k.part.rows = len(seen)
}

// seedOf is a number made from what a case multiplied and what came out.
func seedOf(c *cases.Case) uint64 {
	text := fmt.Sprintf("rows %s %s %s %s %v %v", c.Out.Hash, c.A.Hash, c.B.Hash, c.ID, c.A.Generator, c.B.Generator)
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:])
}

// drawLines draws so many of the numbers below n, ascending, each set of them as likely as another (Floyd's method).
func drawLines(seed uint64, n, count int) []int {
	count = min(count, n)
	taken := map[int]bool{}
	for i := n - count; i < n; i++ {
		v := int(cases.Word(seed, i) % uint64(i+1))
		if taken[v] {
			v = i
		}
		taken[v] = true
	}
	list := make([]int, 0, count)
	for v := range taken {
		list = append(list, v)
	}
	slices.Sort(list)
	return list
}

// rivalSlices are the plans that stand for those which a kernel of unknown kind may have: sums of so many slices.
var rivalSlices = []int{2, 3, 5}

// against weighs the elements of a part where no plan tried was seen to differ from the one that agrees, although the kernel may
// have others: by plans that cut K into slices, as if they had been tried and rejected. Sums of integers have one result.
func (r *replay) against(ctx context.Context, t *trial) (float64, error) {
	all := float64(r.count) * float64(r.c.Out.Format.Info().Bits)
	if t.profile.Step.Kind == step.Integer {
		return all, nil
	}
	s := seen{want: r.known.samples, values: make([][]uint64, r.count)}
	ran := 0
	for _, slices := range rivalSlices {
		p := *t.profile
		p.Plan = plan.SplitK(slices, max(min(16, r.k/slices), 1), plan.Plain(), p.Step.Result, p.Step.Result)
		if p.Validate() != nil {
			continue
		}
		out, err := r.compute(ctx, candidate{profile: &p}, r.options.Progress)
		if refused(err) != nil {
			continue
		}
		if err != nil {
			return 0, err
		}
		ran++
		for i, v := range r.bits(out, r.known.at) {
			s.values[i] = append(s.values[i], v)
		}
	}
	return min(max(r.chance(s)-math.Log2(float64(ran+1)), 0), all), nil
}

// said is what a verdict on a part says was compared.
func (r *replay) said() string {
	rows := fmt.Sprintf("%d rows", r.known.part.rows)
	if r.known.part.rows == 1 {
		rows = "1 row"
	}
	return fmt.Sprintf("%d of %d elements, in %s", r.count, r.batch*r.m*r.n, rows)
}

// elementsOfOutput names what r.count counts.
func (r *replay) elementsOfOutput() string {
	if r.known.part != nil {
		return "elements looked at"
	}
	return "elements of the output"
}

// cost is the multiply-adds of computing all that is compared.
func (r *replay) cost() uint64 {
	if r.known.part == nil {
		return r.c.MultiplyAdds()
	}
	return uint64(r.count) * uint64(r.k)
}

// compute runs a candidate on all that is compared: the whole output, or the elements of a part one behind the other.
func (r *replay) compute(ctx context.Context, c candidate, progress func(done, total uint64) error) ([]byte, error) {
	width := r.c.Out.Format.Bytes()
	out := make([]byte, r.count*width)
	if r.known.part == nil {
		a := r.args(c, gemm.Dense(out, r.c.Out.Format, r.batch, r.m, r.n))
		a.Progress = progress
		return out, gemm.Run(ctx, a)
	}
	a := r.args(c, nil)
	for first := 0; first < r.count; first += chunk {
		if err := r.poll(); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		values, err := gemm.Elements(ctx, a, r.known.at[first:min(first+chunk, r.count)])
		if err != nil {
			return nil, err
		}
		for i, v := range values {
			putBits(out[(first+i)*width:], width, v)
		}
	}
	return out, nil
}

// bits gives the bit patterns of some elements in an output as compute made it.
func (r *replay) bits(out []byte, at []gemm.Position) []uint64 {
	values := make([]uint64, len(at))
	if r.known.part != nil {
		flat := gemm.Dense(out, r.c.Out.Format, 1, 1, r.count)
		for i, p := range at {
			values[i] = flat.Bits(0, 0, r.known.part.index[p])
		}
		return values
	}
	d := gemm.Dense(out, r.c.Out.Format, r.batch, r.m, r.n)
	for i, p := range at {
		values[i] = d.Bits(p.Batch, p.Row, p.Column)
	}
	return values
}
