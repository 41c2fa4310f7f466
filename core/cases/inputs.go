package cases

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// Inputs are made from one counter-based random word an element, by integer arithmetic alone, so that any language can
// rebuild them from a seed. tests/goldens/inputs.py states the same recipe in Python.

const gamma = 0x9E3779B97F4A7C15

func mix(z uint64) uint64 {
	z ^= z >> 30
	z *= 0xBF58476D1CE4E5B9
	z ^= z >> 27
	z *= 0x94D049BB133111EB
	return z ^ z>>31
}

// Word is the i-th random word of a seed.
func Word(seed uint64, i int) uint64 { return mix(seed + uint64(i+1)*gamma) }

// Kinds names the kinds of input elements.
var Kinds = []string{"normal", "wide", "tiny", "sparse", "bits", "cancel", "ones"}

// recipe holds what the generator needs to know of a format besides its layout.
type recipe struct {
	low, high int // exponents of the kind wide
	small     int // how far cancel lowers its unpaired columns
	top       int // largest exponent of the kind normal
}

var recipes = map[format.Format]recipe{
	format.F16:  {-12, 12, 7, 1},
	format.BF16: {-40, 40, 7, 1},
	format.F32:  {-40, 40, 10, 1},
	format.F64:  {-200, 200, 25, 1},
	format.E4M3: {-6, 7, 3, 2},
	format.E5M2: {-12, 12, 3, 2},
	format.S8:   {}, // random bits, whatever the kind
}

// Elements makes n bit patterns of f, little endian; lower shifts the exponents of the kind normal down.
func Elements(f format.Format, kind string, seed uint64, n, lower int) ([]byte, error) {
	r, ok := recipes[f]
	if !ok {
		return nil, fmt.Errorf("no inputs are made in %v", f)
	}
	if !slices.Contains(Kinds, kind) {
		return nil, fmt.Errorf("no kind of input is called %q", kind)
	}
	layout := f.Info()
	out := make([]byte, n*layout.Bytes)
	for i := range n {
		Put(out[i*layout.Bytes:], layout.Bytes, r.element(&layout, kind, Word(seed, i), lower))
	}
	return out, nil
}

// Put writes an element of so many bytes, little endian.
func Put(to []byte, size int, v uint64) {
	switch size {
	case 1:
		to[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(to, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(to, uint32(v))
	default:
		binary.LittleEndian.PutUint64(to, v)
	}
}

// element makes the bits of one element; put keeps as many of them as the format has.
func (r recipe) element(layout *format.Info, kind string, word uint64, lower int) uint64 {
	if layout.Integer || kind == "bits" {
		return word
	}
	if kind == "ones" {
		return uint64(layout.Bias) << layout.MantissaBits
	}
	if kind == "sparse" && word>>56&1 == 1 {
		return 0
	}
	mantissa := word >> 16 & (1<<layout.MantissaBits - 1)
	if layout.MantissaBits > 40 { // more than the word has to spare
		mantissa = mix(word) & (1<<layout.MantissaBits - 1)
	}
	selector := int(word >> 40)
	var e int
	switch kind {
	case "wide":
		e = r.low + selector%(r.high-r.low+1)
	case "tiny":
		e = layout.MinExponent - 1 + selector%4
	default:
		e = r.top - bits.TrailingZeros64(word|1<<15) - lower
	}
	biased := uint64(max(e+layout.Bias, 0)) // 0: a subnormal
	return word>>63<<(layout.Bits-1) | biased<<layout.MantissaBits | mantissa
}

// permutation is the stable order of k random words.
func permutation(seed uint64, k int) []int {
	order, words := make([]int, k), make([]uint64, k)
	for i := range order {
		order[i], words[i] = i, Word(seed, i)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case words[a] < words[b]:
			return -1
		case words[a] > words[b]:
			return 1
		}
		return 0
	})
	return order
}

// Operands makes A (batch × m × k) and B (batch × k × n), dense and row-major. In the kind cancel, with h =
// max((k-2)/2, 0), columns h..2h-1 of A repeat columns 0..h-1 and the matching rows of B are negated, so that the exact
// result nearly vanishes; the other k-2h columns are lowered; then the k axis of both is permuted.
func Operands(fa, fb format.Format, kind string, seed uint64, batch, m, n, k int) (a, b []byte, err error) {
	seedA, seedB, seedP := (seed*3)<<20, (seed*3+1)<<20, (seed*3+2)<<20
	if kind != "cancel" || fa == format.S8 {
		if a, err = Elements(fa, kind, seedA, batch*m*k, 0); err != nil {
			return nil, nil, err
		}
		b, err = Elements(fb, kind, seedB, batch*k*n, 0)
		return a, b, err
	}
	h := max((k-2)/2, 0)
	rest := k - 2*h
	x, err := Elements(fa, "normal", seedA, batch*m*h, 0)
	if err != nil {
		return nil, nil, err
	}
	x2, _ := Elements(fa, "normal", seedA+1<<19, batch*m*rest, recipes[fa].small)
	y, err := Elements(fb, "normal", seedB, batch*h*n, 0)
	if err != nil {
		return nil, nil, err
	}
	y2, _ := Elements(fb, "normal", seedB+1<<19, batch*rest*n, recipes[fb].small)
	p := permutation(seedP, k)
	sa, sb := fa.Info().Bytes, fb.Info().Bytes
	a, b = make([]byte, batch*m*k*sa), make([]byte, batch*k*n*sb)
	for row := range batch * m {
		for j, from := range p {
			to := a[(row*k+j)*sa:]
			switch {
			case from < 2*h:
				copy(to[:sa], x[(row*h+from%max(h, 1))*sa:])
			default:
				copy(to[:sa], x2[(row*rest+from-2*h)*sa:])
			}
		}
	}
	for s := range batch {
		for j, from := range p {
			to := b[(s*k+j)*n*sb : (s*k+j+1)*n*sb]
			switch {
			case from < 2*h:
				copy(to, y[(s*h+from%max(h, 1))*n*sb:])
				if from >= h {
					for i := sb - 1; i < len(to); i += sb {
						to[i] ^= 0x80
					}
				}
			default:
				copy(to, y2[(s*rest+from-2*h)*n*sb:])
			}
		}
	}
	return a, b, nil
}

// allSampled is the largest output stored whole, and sampleCount how many elements are drawn from a larger one.
const (
	allSampled  = 8192
	sampleCount = 512
	sampleSeed  = 12345
)

// SampleIndices lists the flat indices of the stored elements of an output of count elements, ascending.
func SampleIndices(count int) []int {
	var list []int
	if count <= allSampled {
		for i := range count {
			list = append(list, i)
		}
		return list
	}
	for i := range sampleCount {
		list = append(list, int(Word(sampleSeed, i)%uint64(count)))
	}
	slices.Sort(list)
	return slices.Compact(list)
}
