package step

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// instructionSet is one set of recorded single instructions: rows dot products of k elements on one GPU, with byte offsets
// of their operands, accumulators and results.
type instructionSet struct {
	GPU, Format, Out, Instruction string
	Rows, K                       int
	A, B, C, D                    int
}

// entry names the step the instruction must follow.
func (s instructionSet) entry() string {
	architecture := map[string]string{"V100": "volta", "A100": "ampere", "A2": "ampere", "L40S": "ada", "H100": "hopper", "H200": "hopper", "B200": "blackwell"}[s.GPU]
	name := architecture + "/" + s.Format
	newer := architecture == "hopper" || architecture == "blackwell"
	switch eight := s.Format == "e4m3" || s.Format == "e5m2"; {
	case newer && eight && s.Instruction == "mma.sync":
		name += "-mma"
	case newer && s.Format == "tf32" && s.K == 4:
		name += "-k4"
	}
	if s.Out == "f16" {
		name += "-f16"
	}
	return name
}

// readInstructions finds the recorded instructions, which are not part of the project: HAWKEYE_INSTRUCTIONS names the
// .jsonl or the folder it is in.
func readInstructions(t testing.TB) (sets []instructionSet, data []byte) {
	path := os.Getenv("HAWKEYE_INSTRUCTIONS")
	named := path != ""
	if !named {
		path = filepath.Join("..", "..", "..", "shared", "goldens")
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "instructions.jsonl")
	}
	index, err := os.ReadFile(path)
	if err == nil {
		data, err = os.ReadFile(strings.TrimSuffix(path, ".jsonl") + ".bin")
	}
	if err != nil {
		if named {
			t.Fatalf("HAWKEYE_INSTRUCTIONS: %v", err)
		}
		t.Skip("recorded instructions are no part of the repository: set HAWKEYE_INSTRUCTIONS to instructions.jsonl, its .bin beside it")
	}
	for lines := bufio.NewScanner(bytes.NewReader(index)); lines.Scan(); {
		var s instructionSet
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		sets = append(sets, s)
	}
	return sets, data
}

// patterns reads n bit patterns of a format.
func patterns(data []byte, offset, n int, f format.Format) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		for b := range f.Bytes() {
			out[i] |= uint64(data[offset+i*f.Bytes()+b]) << (8 * b)
		}
	}
	return out
}

// run compares every row of a set with a step, on all processors; wrong is the number of rows that differ.
func (s instructionSet) run(p Params, data []byte) (wrong int64, first string) {
	a, b := patterns(data, s.A, s.Rows*s.K, p.A), patterns(data, s.B, s.Rows*s.K, p.B)
	c, d := patterns(data, s.C, s.Rows, p.Result), patterns(data, s.D, s.Rows, p.Result)
	var differing atomic.Int64
	var once sync.Once
	var workers sync.WaitGroup
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for {
				r := int(next.Add(1)) - 1
				if r >= s.Rows {
					return
				}
				x, y := a[r*s.K:(r+1)*s.K], b[r*s.K:(r+1)*s.K]
				if got := p.Dot(x, y, c[r]); got != d[r] {
					differing.Add(1)
					once.Do(func() {
						first = fmt.Sprintf("row %d: a %#x, b %#x, c %#x: %#x, recorded %#x", r, x, y, c[r], got, d[r])
					})
				}
			}
		}()
	}
	workers.Wait()
	return differing.Load(), first
}

func TestInstructions(t *testing.T) {
	sets, data := readInstructions(t)
	total, exact := 0, 0
	for _, s := range sets {
		t.Run(fmt.Sprintf("%s/%s/%s/%s", s.GPU, s.Format, s.Out, s.Instruction), func(t *testing.T) {
			e, found := Find(s.entry())
			if !found {
				t.Fatalf("no entry %s in the catalogue", s.entry())
			}
			wrong, first := s.run(e.Params, data)
			total, exact = total+s.Rows, exact+s.Rows-int(wrong)
			if wrong != 0 {
				t.Errorf("%s: %d of %d rows differ; %s", e.Name, wrong, s.Rows, first)
			}
		})
	}
	t.Logf("%d sets, %d of %d rows exact", len(sets), exact, total)
	if len(sets) == 26 && total != 130000 {
		t.Errorf("%d rows were compared, want 130000", total)
	}
}
