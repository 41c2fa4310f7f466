package trace

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// dtypes are the names that safetensors files use.
var dtypes = map[string]format.Format{
	"F16": format.F16, "BF16": format.BF16, "F32": format.F32, "F64": format.F64,
	"F8_E4M3": format.E4M3, "F8_E5M2": format.E5M2, "I8": format.S8, "U8": format.U8, "I32": format.S32,
}

// dtypeOf is the name of a format in a file, "" where files hold none.
func dtypeOf(f format.Format) string {
	for name, of := range dtypes {
		if of == f {
			return name
		}
	}
	return ""
}

const (
	// maxHeader bounds the header of a file.
	maxHeader = 1 << 20
	// maxElements bounds a tensor.
	maxElements = 1 << 31
)

// countOf multiplies sizes; false where there are more elements than a tensor may have.
func countOf(shape []int) (int, bool) {
	count, zero := 1, false
	for _, size := range shape {
		switch {
		case size < 0 || size > maxElements:
			return 0, false
		case size == 0:
			zero = true
		case count > maxElements/size:
			count = maxElements + 1
		default:
			count *= size
		}
	}
	if zero {
		return 0, true
	}
	return count, count <= maxElements
}

// tensorHeader is what a file says of its tensor.
type tensorHeader struct {
	DType   string    `json:"dtype"`
	Shape   []int     `json:"shape"`
	Offsets [2]uint64 `json:"data_offsets"`
}

// readTensor reads a safetensors file of size bytes: a length of 8 bytes, a header of JSON, the elements. It must hold one
// tensor named t, of this format and shape, and nothing else. It returns the elements and the hash of the whole file.
//
// The size is compared with what the shape needs before memory is taken for the elements, so that the shape is the bound.
func readTensor(r io.Reader, size int64, f format.Format, shape []int) ([]byte, Hash, error) {
	refuse := func(text string, args ...any) ([]byte, Hash, error) {
		return nil, Hash{}, fmt.Errorf(text, args...)
	}
	elements, ok := countOf(shape)
	if !ok {
		return refuse("%v are more elements than a tensor may have", shape)
	}
	want := int64(elements) * int64(f.Bytes())
	sum := sha256.New()
	r = io.TeeReader(r, sum)
	var length [8]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return refuse("the file is no safetensors file: it has %d bytes", size)
	}
	header := binary.LittleEndian.Uint64(length[:])
	if header > maxHeader || int64(header) > size-8 {
		return refuse("the file is no safetensors file: its header would have %d bytes", header)
	}
	if got := size - 8 - int64(header); got != want {
		return refuse("the file holds %d bytes of elements, %v of %v are %d", got, shape, f, want)
	}
	text := make([]byte, header)
	if _, err := io.ReadFull(r, text); err != nil {
		return refuse("the file was cut while it was read")
	}
	if err := checkHeader(text, f, shape, uint64(want)); err != nil {
		return nil, Hash{}, err
	}
	data := make([]byte, want)
	if _, err := io.ReadFull(r, data); err != nil {
		return refuse("the file was cut while it was read")
	}
	if n, _ := io.ReadFull(r, length[:1]); n != 0 {
		return refuse("the file grew while it was read")
	}
	return data, Hash(sum.Sum(nil)), nil
}

// checkHeader compares a header with what the record says of the tensor.
func checkHeader(text []byte, f format.Format, shape []int, bytesWanted uint64) error {
	fields := map[string]json.RawMessage{}
	if err := strictJSON(text); err != nil {
		return fmt.Errorf("the file's header: %w", err)
	}
	if err := json.Unmarshal(text, &fields); err != nil {
		return errors.New("the file's header is no JSON object")
	}
	delete(fields, "__metadata__") // text for people
	if len(fields) != 1 || fields["t"] == nil {
		return errors.New("the file must hold one tensor, named t")
	}
	var h tensorHeader
	decoder := json.NewDecoder(bytes.NewReader(fields["t"]))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&h); err != nil {
		return fmt.Errorf("the file's header: %w", err)
	}
	switch {
	case dtypes[h.DType] != f || f == format.Invalid:
		return fmt.Errorf("the file holds elements of dtype %q, the record says %v", h.DType, f)
	case !slices.Equal(h.Shape, shape):
		return fmt.Errorf("the file holds a tensor of shape %v, by the record it is %v", h.Shape, shape)
	case h.Offsets != [2]uint64{0, bytesWanted}:
		return fmt.Errorf("the file's header says that the elements lie at %v, they are %d bytes from 0", h.Offsets, bytesWanted)
	}
	return nil
}
