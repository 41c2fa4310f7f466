package cases

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// InstructionSet is one block of single-instruction results: Rows dot products of K elements, d = c + a·b.
type InstructionSet struct {
	GPU         string
	Format      format.Format // of a and b
	Out         format.Format // of c and d
	Rows, K     int
	Instruction string
	A, B, C, D  []byte // little endian; a and b rows × k, c and d one a row
}

// Instructions is a file of such blocks.
type Instructions struct{ Sets []InstructionSet }

// ReadInstructions reads FILE.jsonl with its data in FILE.bin beside it.
func ReadInstructions(path string) (*Instructions, error) {
	bin := strings.TrimSuffix(path, filepath.Ext(path)) + ".bin"
	data, err := os.ReadFile(bin)
	if err != nil {
		return nil, err
	}
	all := &Instructions{}
	err = lines(path, func(_ int, text []byte) error {
		var line struct {
			GPU, Format, Out, Instruction string
			Rows, K                       int
			A, B, C, D                    int
		}
		if err := json.Unmarshal(text, &line); err != nil {
			return err
		}
		in, err := goldenFormat(line.Format)
		if err != nil {
			return fmt.Errorf("format: %w", err)
		}
		out, err := goldenFormat(line.Out)
		if err != nil {
			return fmt.Errorf("out: %w", err)
		}
		s := InstructionSet{GPU: line.GPU, Format: in, Out: out, Rows: line.Rows, K: line.K, Instruction: line.Instruction}
		if s.Rows < 0 || s.K < 0 || s.Rows > maxElements || s.K > maxElements {
			return fmt.Errorf("rows and k: %d and %d are out of range", s.Rows, s.K)
		}
		for _, part := range []struct {
			name   string
			offset int
			size   int
			width  int
			to     *[]byte
		}{
			{"a", line.A, s.Rows * s.K * in.Bytes(), in.Bytes(), &s.A}, {"b", line.B, s.Rows * s.K * in.Bytes(), in.Bytes(), &s.B},
			{"c", line.C, s.Rows * out.Bytes(), out.Bytes(), &s.C}, {"d", line.D, s.Rows * out.Bytes(), out.Bytes(), &s.D},
		} {
			if part.offset < 0 || part.size < 0 || part.offset > len(data)-part.size {
				return fmt.Errorf("%s: bytes %d to %d are not in %s", part.name, part.offset, part.offset+part.size, filepath.Base(bin))
			}
			if part.offset%part.width != 0 {
				return fmt.Errorf("%s: offset %d is not a multiple of the %d bytes of an element", part.name, part.offset, part.width)
			}
			*part.to = data[part.offset : part.offset+part.size : part.offset+part.size]
		}
		all.Sets = append(all.Sets, s)
		return nil
	})
	return all, err
}
