package cuda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/discover"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// gpu opens the first GPU, or skips.
func gpu(t *testing.T) *Device {
	t.Helper()
	d, err := Open(0)
	var ours *Error
	if errors.As(err, &ours) && (ours.Kind == KindDriver || ours.Kind == KindDevice) {
		t.Skipf("no instruction was run: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Whatever machine this is, Open gives a device or says what to do, again and again.
func TestOpenSaysWhatToDo(t *testing.T) {
	for range 2 {
		d, err := Open(0)
		if err == nil {
			if d.Name() == "" || d.DriverVersion() == "" || !d.Capability().AtLeast(Capability{7, 5}) {
				t.Errorf("%q, driver %q, compute capability %v", d.Name(), d.DriverVersion(), d.Capability())
			}
			for range 2 {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
			if _, err := d.Load(d.Instructions()[0]); err == nil {
				t.Error("a closed device loads kernels")
			}
			continue
		}
		var ours *Error
		if !errors.As(err, &ours) {
			t.Fatalf("%T: %v", err, err)
		}
		if ours.Kind == KindDriver && !strings.Contains(err.Error(), ": ") {
			t.Errorf("says nothing to do: %v", err)
		}
	}
	var ours *Error
	if _, err := Open(-1); !errors.As(err, &ours) {
		t.Errorf("device -1: %v", err)
	}
}

// Small whole numbers tell whether every element comes where it belongs.
func TestInstructionsMultiplyIntegers(t *testing.T) {
	d := gpu(t)
	t.Logf("%s, compute capability %v, driver %s", d.Name(), d.Capability(), d.DriverVersion())
	for _, i := range d.Instructions() {
		t.Run(i.Name, func(t *testing.T) {
			const tiles = 37
			box, signature, closed, err := d.Box(i, tiles)
			if err != nil {
				t.Fatal(err)
			}
			if err := signature.Validate(); err != nil {
				t.Error(err)
			}
			q, want := integers(i, tiles, 1)
			got := make([]byte, len(want))
			if err := box(context.Background(), &discover.Call{A: q.a, B: q.b, C: q.c, D: got}); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				wrong, width := 0, i.Accumulator.Bytes()
				for e := range tiles * i.M * i.N {
					if !bytes.Equal(got[e*width:(e+1)*width], want[e*width:(e+1)*width]) {
						if wrong++; wrong <= 3 {
							t.Logf("element %d: %#x, exactly %#x", e, load(got, i.Accumulator, e), load(want, i.Accumulator, e))
						}
					}
				}
				t.Errorf("%d of %d elements are wrong", wrong, tiles*i.M*i.N)
			}
			if err := closed(); err != nil {
				t.Error(err)
			}
			if err := box(context.Background(), &discover.Call{A: q.a, B: q.b, C: q.c, D: got}); err == nil {
				t.Error("a closed box answers")
			}
		})
	}
}

// tilesOf is how many tiles of an instruction are asked of the catalogue: some 3,600 elements, and every kind of input.
func tilesOf(i *Instruction) int { return len(kinds) * max(1, 512/(i.M*i.N)) }

const seed = 20261130

// The rows of the catalogue give the bits of the instructions that they are named for. HAWKEYE_PROBE_RECORD names a folder
// for the answers.
func TestInstructionsAreThoseOfTheCatalogue(t *testing.T) {
	d := gpu(t)
	type answer struct {
		i Instruction
		d []byte
	}
	var answers []answer
	for _, i := range d.Instructions() {
		p, err := d.Load(i)
		if err != nil {
			t.Errorf("%s: %v", i.Name, err)
			continue
		}
		q := ask(i, tilesOf(&i), seed)
		got := make([]byte, len(q.c))
		if err := p.Run(q.tiles, q.a, q.b, q.c, got); err != nil {
			t.Errorf("%s: %v", i.Name, err)
		} else {
			answers = append(answers, answer{i, got})
		}
		if err := p.Close(); err != nil {
			t.Errorf("%s: %v", i.Name, err)
		}
	}
	if folder := os.Getenv("HAWKEYE_PROBE_RECORD"); folder != "" {
		about := recording{GPU: d.Name(), Capability: d.Capability().String(), Driver: d.DriverVersion(), Date: time.Now().UTC().Format(time.DateOnly), Seed: seed}
		var data []byte
		for _, a := range answers {
			about.Answers = append(about.Answers, recordedAnswer{a.i.Name, tilesOf(&a.i), len(data), len(a.d)})
			data = append(data, a.d...)
		}
		text, err := json.MarshalIndent(about, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{"answers.json": append(text, '\n'), "answers.bin": data} {
			if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	var wait sync.WaitGroup
	places := make(chan struct{}, runtime.NumCPU())
	for _, a := range answers {
		wait.Add(1)
		go func() {
			defer wait.Done()
			places <- struct{}{}
			defer func() { <-places }()
			if said, agrees := against(a.i, seed, a.d); agrees {
				t.Log(said)
			} else {
				t.Error(said)
			}
		}()
	}
	wait.Wait()
}

// Answers recorded on GPUs, compared where there is none.
func TestRecordedAnswersAreThoseOfTheCatalogue(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded answers: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(strings.TrimSuffix(file, ".json") + ".bin")
		if err != nil {
			t.Fatal(err)
		}
		var about recording
		if err := json.Unmarshal(text, &about); err != nil {
			t.Fatal(err)
		}
		var capability Capability
		if _, err := fmt.Sscanf(about.Capability, "%d.%d", &capability.Major, &capability.Minor); err != nil {
			t.Fatal(err)
		}
		for number, answer := range about.Answers {
			if testing.Short() && number%6 != 0 {
				continue
			}
			t.Run(about.GPU+"/"+answer.Instruction, func(t *testing.T) {
				t.Parallel()
				i, err := Find(capability, answer.Instruction)
				if err != nil {
					t.Fatal(err)
				}
				if said, agrees := against(i, about.Seed, data[answer.Offset:answer.Offset+answer.Bytes]); !agrees {
					t.Error(said)
				}
			})
		}
	}
}

// recording is a file of answers of one GPU; the answers themselves lie beside it.
type recording struct {
	GPU        string           `json:"gpu"`
	Capability string           `json:"capability"`
	Driver     string           `json:"driver"`
	Date       string           `json:"date"`
	Seed       uint64           `json:"seed"`
	Answers    []recordedAnswer `json:"answers"`
}

type recordedAnswer struct {
	Instruction string `json:"instruction"`
	Tiles       int    `json:"tiles"`
	Offset      int    `json:"offset"`
	Bytes       int    `json:"bytes"`
}

// against holds answers against the catalogue's row and says how that went.
func against(i Instruction, seed uint64, d []byte) (said string, agrees bool) {
	q := ask(i, len(d)/(i.M*i.N*i.Accumulator.Bytes()), seed)
	elements := q.tiles * i.M * i.N
	if i.Catalogue == "" {
		return fmt.Sprintf("%s: no row, %d elements are not compared", i.Name, elements), true
	}
	entry, found := step.Find(i.Catalogue)
	if !found {
		return fmt.Sprintf("%s: there is no row %s", i.Name, i.Catalogue), false
	}
	count, first := q.differing(entry.Params, d)
	total := 0
	for _, n := range count {
		total += n
	}
	if total == 0 {
		return fmt.Sprintf("%s: %s, %d elements equal", i.Name, i.Catalogue, elements), true
	}
	return fmt.Sprintf("%s: %s, %d of %d elements differ %v; the first: %s", i.Name, i.Catalogue, total, elements, count, first), false
}

func spell(kind string, tile, m, n int, a, b []uint64, c, got, want uint64) string {
	return fmt.Sprintf("%s, tile %d, element (%d, %d), a %#x, b %#x, c %#x: the GPU gives %#x, the row %#x", kind, tile, m, n, a, b, c, got, want)
}
