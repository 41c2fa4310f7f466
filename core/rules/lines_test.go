package rules

import (
	"bufio"
	"encoding/json"
	"iter"
	"os"
	"testing"
)

// readLines reads a set of observations: after a head that names the kernels, lines with their numbers.
func readLines[Line any](t *testing.T, path string, kernels *[]string) iter.Seq2[int, *Line] {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(int, *Line) bool) {
		defer file.Close()
		scanner := bufio.NewScanner(file)
		scanner.Buffer(nil, 1<<20)
		for number := 1; scanner.Scan(); number++ {
			var head struct{ Kernels []string }
			line := new(Line)
			into := any(line)
			if number == 1 {
				into = &head
			}
			if err := json.Unmarshal(scanner.Bytes(), into); err != nil {
				t.Fatalf("%s, line %d: %v", path, number, err)
			}
			if number == 1 {
				*kernels = head.Kernels
			} else if !yield(number, line) {
				return
			}
		}
		if err := scanner.Err(); err != nil {
			t.Fatal(err)
		}
	}
}
