package discover

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// The certificate is made of inputs that nothing was chosen by: other seeds than the questions', every kind in turn, elements
// all over the output. One element that differs, and there is none.

const (
	// certificateSide bounds the elements of one output that are compared: so many rows by so many columns.
	certificateSide = 64
	// certificateCalls bounds the calls of small outputs.
	certificateCalls = 256
	// certificateTime is when a certificate takes fewer elements than it was asked for, but not fewer than fewElements.
	certificateTime = 20 * time.Second
	fewElements     = 512
)

func (f *finder) certify(p *profile.Profile) error {
	s := f.q.s
	f.q.phase = "the certificate"
	r := rand.New(rand.NewPCG(f.o.Seed, 0xCE27))
	rows, columns := min(s.M, certificateSide), min(s.N, certificateSide)
	cells := rows * columns
	total := min(f.o.Elements, certificateCalls*cells)
	c := &Certificate{Kinds: map[string]int{}, Seed: f.o.Seed, Date: f.o.Now.Format("2006-01-02"), Box: s.String()}
	f.q.total = total
	began := time.Now()
	for i := 0; c.Elements < total || i < len(kinds); i++ {
		if time.Since(began) > certificateTime && c.Elements >= fewElements && i >= len(kinds) {
			break
		}
		kind := kinds[i%len(kinds)]
		third := addendRandom
		if i%4 == 3 && (s.Addend == AddendBias || s.Addend == AddendFull) {
			third = addendOpposite
		}
		x, err := f.whole(kind, r.Uint64()>>8, rows, columns, third)
		if err != nil {
			return err
		}
		got, err := f.elementsOf(x, p)
		if err != nil {
			return err
		}
		for j, v := range got {
			if !x.same(v, x.want[j]) {
				f.failed, f.r.Best = true, p
				f.r.Broken = fmt.Sprintf("the certificate: inputs of kind %s, after %d elements that agreed: %s instead of %s", kind, c.Elements+j, hex(x, x.want[j]), hex(x, v))
				f.r.Reason = "a profile explains all questions but not all of the fresh inputs of the certificate; " + f.r.Broken
				return nil
			}
		}
		c.Elements += len(got)
		c.Kinds[kind] += len(got)
		c.Calls++
		f.q.done = c.Elements
	}
	f.note("order", p.Plan.Describe())
	f.note("group", groupWords(&p.Step))
	f.r.Reason, f.r.Broken = "", ""
	found := *p
	found.Provenance = profile.Provenance{
		Source: "discovered", Hardware: f.o.Hardware, Library: f.o.Library,
		Certified: fmt.Sprintf("%d output elements of %d calls, all equal; %s; %s", c.Elements, c.Calls, c.Date, c.Box),
	}
	if f.anyNaN {
		found.Provenance.Doubts = "NaN results were compared as NaN, whatever their bits"
	}
	found.Name = "discovered/" + found.ID()[:12]
	f.r.Profile, f.r.Certificate = &found, c
	return nil
}

func hex(x *exchange, bits uint64) string {
	return fmt.Sprintf("%#0*x", x.d.Info().Bytes*2+2, bits)
}

// String says a signature in words.
func (s *Signature) String() string {
	var b strings.Builder
	if s.Batch > 1 {
		fmt.Fprintf(&b, "%d × ", s.Batch)
	}
	fmt.Fprintf(&b, "%d×%d by %d×%d, %v", s.M, s.K, s.K, s.N, s.A)
	if s.B != s.A {
		fmt.Fprintf(&b, " and %v", s.B)
	}
	fmt.Fprintf(&b, " to %v", s.D)
	switch s.Addend {
	case AddendBias:
		fmt.Fprintf(&b, " with a bias in %v", s.C)
	case AddendFull:
		fmt.Fprintf(&b, " with an addend in %v", s.C)
	case AddendStart:
		fmt.Fprintf(&b, ", accumulators starting from %v", s.C)
	}
	if s.Alpha != 1 || s.Addend != AddendNone && s.Beta != 1 {
		fmt.Fprintf(&b, ", alpha %g, beta %g", s.Alpha, s.Beta)
	}
	if s.Scaling != profile.ScalingNone {
		fmt.Fprintf(&b, ", scales by %s", s.Scaling)
	}
	return b.String()
}
