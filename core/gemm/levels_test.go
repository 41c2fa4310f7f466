package gemm_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// agreeing is how many random problems TestLevelsAgree runs.
const (
	agreeing      = 12000
	agreeingShort = 2500
)

// TestLevelsAgree: every instruction set gives the bits of the scalar model, on random small problems of every profile
// that runs, every kind of input, layout, plan and epilogue; and the scalar model's whole path agrees with a reference that
// shares no code with it.
func TestLevelsAgree(t *testing.T) {
	count := agreeing
	if testing.Short() {
		count = agreeingShort
	}
	known := runnable()
	var total, elements, multiplyAdds atomic.Uint64
	perLevel := map[simd.Level]*atomic.Uint64{}
	for _, level := range simd.Levels() {
		perLevel[level] = new(atomic.Uint64)
	}
	kinds, formats := map[string]int{}, map[string]int{}
	var lock sync.Mutex
	parallel(t, count, func(i int) error {
		// The multiplier walks all profiles in turn and still draws the rest at random.
		p := newProblem(uint64(i), known, restrict{work: pick(rand.New(rand.NewPCG(uint64(i), 7)), 300, 700, 1500, 3000)})
		want, err := p.run(simd.Oracle)
		if err != nil {
			return fmt.Errorf("%v: oracle: %w", p, err)
		}
		if err := p.againstReference(want); err != nil {
			return fmt.Errorf("%v: oracle against the reference: %w", p, err)
		}
		for _, level := range simd.Levels() {
			if level == simd.Oracle {
				perLevel[level].Add(1)
				continue
			}
			got, err := p.run(level)
			if err != nil {
				return fmt.Errorf("%v: %v: %w", p, level, err)
			}
			if !bytes.Equal(got, want) {
				return fmt.Errorf("%v: %v against the oracle: %s", p, level, p.difference(got, want))
			}
			perLevel[level].Add(1)
			if err := p.elementsAgree(level, want); err != nil {
				return fmt.Errorf("%v: %v: Elements: %w", p, level, err)
			}
		}
		total.Add(1)
		elements.Add(uint64(p.args.D.Batch * p.args.D.Rows * p.args.D.Columns))
		multiplyAdds.Add(uint64(p.args.D.Batch * p.args.D.Rows * p.args.D.Columns * p.args.A.Columns))
		lock.Lock()
		kinds[p.kind]++
		formats[p.args.Profile.Step.A.String()]++
		lock.Unlock()
		return nil
	})
	if t.Failed() {
		return
	}
	t.Logf("%d random problems, %d output elements, %d multiply-adds agree at %v with the reference", total.Load(), elements.Load(), multiplyAdds.Load(), simd.Levels())
	t.Logf("problems by kind of input: %v", kinds)
	t.Logf("problems by format: %v", formats)
	for _, level := range simd.Levels() {
		if perLevel[level].Load() != uint64(count) {
			t.Errorf("%v ran %d problems of %d", level, perLevel[level].Load(), count)
		}
	}
}

// parallel runs f for 0..count-1 on every processor and fails the test with the error of the least index.
func parallel(t *testing.T, count int, f func(i int) error) {
	t.Helper()
	var next atomic.Int64
	var group sync.WaitGroup
	failures := make([]error, count)
	var failed atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		group.Add(1)
		go func() {
			defer group.Done()
			for failed.Load() < 5 {
				i := int(next.Add(1)) - 1
				if i >= count {
					return
				}
				if failures[i] = f(i); failures[i] != nil {
					failed.Add(1)
				}
			}
		}()
	}
	group.Wait()
	for _, err := range failures {
		if err != nil {
			t.Error(err)
		}
	}
}

// difference says where two copies of D's memory differ.
func (p *problem) difference(got, want []byte) string {
	d := p.args.D
	size := d.Format.Bytes()
	at := map[int]string{}
	for b := range d.Batch {
		for r := range d.Rows {
			for c := range d.Columns {
				at[p.d.index(b, r, c)] = fmt.Sprintf("element (%d, %d, %d)", b, r, c)
			}
		}
	}
	count, first := 0, ""
	for i := 0; i < len(got); i += size {
		if !bytes.Equal(got[i:i+size], want[i:i+size]) {
			if count++; first == "" {
				name, inside := at[i/size]
				if !inside {
					name = "memory that is not D's"
				}
				first = fmt.Sprintf("%s is %x, want %x (little endian)", name, got[i:i+size], want[i:i+size])
			}
		}
	}
	return fmt.Sprintf("%d differ, first: %s", count, first)
}

// againstReference compares a few elements with the reference, and looks whether anything beside D was written.
func (p *problem) againstReference(memory []byte) error {
	d := p.args.D
	size := d.Format.Bytes()
	count := d.Batch * d.Rows * d.Columns
	written := make([]bool, len(memory)/size)
	values := patterns(memory, d.Format)
	var r *reference
	random := rand.New(rand.NewPCG(p.seed, 3))
	odds := max(1, count/6)
	for b := range d.Batch {
		for row := range d.Rows {
			for column := range d.Columns {
				index := p.d.index(b, row, column)
				written[index] = true
				if random.IntN(odds) > 0 {
					continue
				}
				if r == nil {
					r = newReference(&p.args)
				}
				want, anyNaN := r.element(b, row, column)
				got := values[index]
				if got == want || anyNaN && d.Format.Decode(got).Class == format.NaN && d.Format.Decode(want).Class == format.NaN {
					continue
				}
				return fmt.Errorf("element (%d, %d, %d) is %#x, want %#x", b, row, column, got, want)
			}
		}
	}
	for i, w := range written {
		if !w && !bytes.Equal(memory[i*size:(i+1)*size], p.canary[i*size:(i+1)*size]) {
			return fmt.Errorf("memory that is not D's was written, at element %d", i)
		}
	}
	return nil
}

// elementsAgree asks gemm.Elements for a few elements of a run.
func (p *problem) elementsAgree(level simd.Level, memory []byte) error {
	d := p.args.D
	if d.Batch*d.Rows*d.Columns == 0 {
		return nil
	}
	random := rand.New(rand.NewPCG(p.seed, uint64(level)))
	at := make([]gemm.Position, 3)
	for i := range at {
		at[i] = gemm.Position{Batch: random.IntN(d.Batch), Row: random.IntN(d.Rows), Column: random.IntN(d.Columns)}
	}
	a := p.args
	untouched := *a.D
	untouched.Data = nil
	a.D = &untouched
	a.Level = &level
	got, err := gemm.Elements(context.Background(), &a, at)
	if err != nil {
		return err
	}
	values := patterns(memory, d.Format)
	for i, x := range at {
		if want := values[p.d.index(x.Batch, x.Row, x.Column)]; got[i] != want {
			return fmt.Errorf("element %+v is %#x, want %#x", x, got[i], want)
		}
	}
	return nil
}
