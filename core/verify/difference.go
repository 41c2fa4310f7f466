package verify

import (
	"fmt"
	"math"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// DifferenceKind names what makes a recorded output differ from its replay.
type DifferenceKind string

// The kinds of difference. The first four say where the differing elements lie, the others which change of the arithmetic
// or of the operands gives the recorded bits.
const (
	DifferentElement  DifferenceKind = "element"          // one element
	DifferentRow      DifferenceKind = "row"              // elements of one row of one matrix
	DifferentColumn   DifferenceKind = "column"           // elements of one column
	DifferentTile     DifferenceKind = "tile"             // most of a rectangle
	MissingProducts   DifferenceKind = "missing-products" // the last products of every sum are left out
	DifferentRounding DifferenceKind = "rounding"         // of the output
	DifferentTF32     DifferenceKind = "tf32"             // tf32 for f32, or the reverse
	DifferentAddend   DifferenceKind = "bias"             // rounded twice for once, or the reverse
	DifferentOperands DifferenceKind = "operands"         // swapped, transposed, or read in another layout
	DifferentType     DifferenceKind = "dtype"            // operands or output went through another format
	Scattered         DifferenceKind = "scattered"        // no pattern and no known fault
	NotLocated        DifferenceKind = "not-located"      // only the hash of the output tells that it differs
)

// Difference says how a recorded output differs from the replay under the plan that is nearest to it.
type Difference struct {
	Kind DifferenceKind `json:"kind"`
	Text string         `json:"text"`           // for a person
	Plan string         `json:"plan,omitempty"` // the plan compared with
	// MissingProducts is how many products at the end of K are left out, where the kind says so.
	MissingProducts int `json:"missing_products,omitempty"`
	// Reproduced: the changed arithmetic gives every compared bit ("sha256 of the whole output", "stored elements", …).
	Reproduced string `json:"reproduced,omitempty"`
	// Also are other changes that give the same bits.
	Also []string `json:"also,omitempty"`
	// Compared and Differing count stored elements.
	Compared  int      `json:"compared"`
	Differing int      `json:"differing"`
	First     *Spot    `json:"first,omitempty"`
	Worst     *Spot    `json:"worst,omitempty"`
	Pattern   *Pattern `json:"pattern,omitempty"`
}

// Spot is one differing element.
type Spot struct {
	Batch    int    `json:"batch"`
	Row      int    `json:"row"`
	Column   int    `json:"column"`
	Recorded string `json:"recorded"` // bit patterns, hexadecimal
	Replayed string `json:"replayed"`
	Ulps     uint64 `json:"ulps"` // distance in units in the last place; the largest uint64 against a NaN
}

// Pattern is where the differing elements lie: first and last matrix of the batch, row and column, how many of each have
// any, and the share of the stored elements in that box that differ.
type Pattern struct {
	Batches     [2]int  `json:"batches"`
	Rows        [2]int  `json:"rows"`
	Columns     [2]int  `json:"columns"`
	InBatches   int     `json:"in_batches"`
	InRows      int     `json:"in_rows"`
	InColumns   int     `json:"in_columns"`
	ShareOfBox  float64 `json:"share_of_box"`
	StoredInBox int     `json:"stored_in_box"`
}

// compared is a trial beside the stored elements: which of them differ.
type compared struct {
	trial     *trial
	at        []gemm.Position // of the stored elements looked at
	want, got []uint64
	differing []int   // of them
	distance  float64 // what it takes to name the whole difference: how many, which, and by how much
	// evident is the distance less zeros that differ in their sign alone: a start from +0, or padding, tells two plans apart
	// there, and they say nothing of what was multiplied.
	evident float64
}

// compare makes that of the values of a trial.
func (r *replay) compare(t *trial, at []gemm.Position, want, got []uint64) *compared {
	c := &compared{trial: t, at: at, want: want, got: got}
	signs := 0
	for i := range want {
		if want[i] != got[i] {
			c.differing = append(c.differing, i)
			c.distance += r.damage(want[i], got[i])
			if r.zeros(want[i], got[i]) {
				signs++
			} else {
				c.evident += r.damage(want[i], got[i])
			}
		}
	}
	c.distance += choose2(len(want), len(c.differing))
	c.evident += choose2(len(want), len(c.differing)-signs)
	return c
}

// zeros tells whether two elements of the output are both zero.
func (r *replay) zeros(x, y uint64) bool {
	f := r.c.Out.Format
	return f.Decode(x).Class == format.Zero && f.Decode(y).Class == format.Zero
}

// choose2 is the base-2 logarithm of n over k.
func choose2(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return (a - b - c) / math.Ln2
}

// locate describes where the differing elements lie and by how much they differ.
func (r *replay) locate(c *compared) *Difference {
	d := &Difference{Kind: Scattered, Compared: len(c.want), Differing: len(c.differing), Plan: r.describe(c.trial.candidate)}
	if len(c.differing) == 0 {
		d.Kind = NotLocated
		d.Text = "the stored elements agree with this plan, the hash of the whole output does not"
		return d
	}
	f := r.c.Out.Format
	spot := func(i int) *Spot {
		p, digits := c.at[i], 2*f.Bytes()
		return &Spot{Batch: p.Batch, Row: p.Row, Column: p.Column, Recorded: fmt.Sprintf("0x%0*x", digits, c.want[i]),
			Replayed: fmt.Sprintf("0x%0*x", digits, c.got[i]), Ulps: f.Ulps(c.want[i], c.got[i])}
	}
	flat := func(p gemm.Position) int { return (p.Batch*r.m+p.Row)*r.n + p.Column }
	batches, rows, columns := map[int]bool{}, map[int]bool{}, map[int]bool{}
	box := Pattern{Batches: [2]int{math.MaxInt, -1}, Rows: [2]int{math.MaxInt, -1}, Columns: [2]int{math.MaxInt, -1}}
	extend := func(limits *[2]int, v int) { limits[0], limits[1] = min(limits[0], v), max(limits[1], v) }
	first := c.differing[0]
	for _, i := range c.differing {
		p := c.at[i]
		if flat(p) < flat(c.at[first]) {
			first = i
		}
		if s := spot(i); d.Worst == nil || s.Ulps > d.Worst.Ulps {
			d.Worst = s
		}
		batches[p.Batch], rows[p.Row], columns[p.Column] = true, true, true
		extend(&box.Batches, p.Batch)
		extend(&box.Rows, p.Row)
		extend(&box.Columns, p.Column)
	}
	d.First = spot(first)
	box.InBatches, box.InRows, box.InColumns = len(batches), len(rows), len(columns)
	inside := func(p gemm.Position) bool {
		return p.Batch >= box.Batches[0] && p.Batch <= box.Batches[1] && p.Row >= box.Rows[0] && p.Row <= box.Rows[1] &&
			p.Column >= box.Columns[0] && p.Column <= box.Columns[1]
	}
	storedRows, storedColumns := map[int]bool{}, map[int]bool{}
	for _, p := range c.at {
		if inside(p) {
			box.StoredInBox++
			storedRows[p.Row], storedColumns[p.Column] = true, true
		}
	}
	box.ShareOfBox = float64(len(c.differing)) / float64(box.StoredInBox)
	d.Pattern = &box
	// Rows or columns that differ with untouched ones between them, or neighbours in one line, are no tile.
	tile := len(storedRows) == len(rows) && len(storedColumns) == len(columns) && len(rows) > 1 && len(columns) > 1
	// That all lie in one row is only to be said where other rows were looked at.
	several := slices.ContainsFunc(c.at, func(p gemm.Position) bool { return p.Row != c.at[0].Row || p.Batch != c.at[0].Batch })
	d.Kind, d.Text = r.shapeOf(d, tile, several)
	return d
}

// fullShare is how much of a rectangle must differ for it to be called changed: a changed element may by chance have kept
// its bits, and in most patterns that come from another order of sums far fewer differ.
const fullShare = 0.4

// shapeOf names the pattern; tile: the box has no row or column that agrees throughout; several rows were compared.
func (r *replay) shapeOf(d *Difference, tile, several bool) (DifferenceKind, string) {
	b := d.Pattern
	all := fmt.Sprintf("%d of %d stored elements", d.Differing, d.Compared)
	if d.Compared == r.count && r.known.part == nil {
		all = fmt.Sprintf("%d of %d elements", d.Differing, d.Compared)
	}
	where := ""
	if r.batch > 1 {
		where = fmt.Sprintf(" of matrix %d", b.Batches[0])
	}
	switch {
	case d.Differing == 1:
		return DifferentElement, fmt.Sprintf("one element changed: %s, recorded as %s for %s%s; the other %d agree",
			r.place(gemm.Position{Batch: d.First.Batch, Row: d.First.Row, Column: d.First.Column}), d.First.Recorded, d.First.Replayed, apart(d.First.Ulps), d.Compared-1)
	case b.InBatches > 1:
		return Scattered, all + " differ, in several matrices of the batch"
	case b.InRows == 1 && several && (b.InColumns > 2 || b.InColumns == r.n):
		return DifferentRow, fmt.Sprintf("row %d%s changed: %s differ, all of them in it (columns %d to %d)", b.Rows[0], where, all, b.Columns[0], b.Columns[1])
	case b.InColumns == 1 && (r.n > 1 || r.batch > 1) && (b.InRows > 2 || b.InRows == r.m):
		return DifferentColumn, fmt.Sprintf("column %d%s changed: %s differ, all of them in it (rows %d to %d)", b.Columns[0], where, all, b.Rows[0], b.Rows[1])
	case tile && b.ShareOfBox >= fullShare && b.StoredInBox < d.Compared:
		return DifferentTile, fmt.Sprintf("a tile%s changed: %s differ, all of them in rows %d to %d and columns %d to %d", where, all, b.Rows[0], b.Rows[1],
			b.Columns[0], b.Columns[1])
	}
	return Scattered, fmt.Sprintf("%s differ, in %d rows and %d columns, and no known fault gives these bits; the worst is off%s", all, b.InRows, b.InColumns, apart(d.Worst.Ulps))
}

func apart(ulps uint64) string {
	switch ulps {
	case math.MaxUint64:
		return " (a NaN against a number)"
	case 1:
		return " by 1 unit in the last place"
	}
	return fmt.Sprintf(" by %d units in the last place", ulps)
}

// patternBits is how unlikely it is that the elements in which an unknown plan differs from a known one lie like this.
func (r *replay) patternBits(d *Difference) float64 {
	n := float64(d.Differing)
	total := math.Log2(float64(r.count))
	switch d.Kind {
	case DifferentRow:
		return (n - 1) * math.Log2(float64(r.m*r.batch))
	case DifferentColumn:
		return (n - 1) * math.Log2(float64(r.n*r.batch))
	case DifferentTile:
		b := d.Pattern
		area := float64(b.Rows[1]-b.Rows[0]+1) * float64(b.Columns[1]-b.Columns[0]+1)
		return n*(total-math.Log2(area)) - total - math.Log2(area) // less what it takes to name the tile
	}
	return 0
}
