package verify

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/trace"
)

// maxFound bounds the profiles kept for later lines.
const maxFound = 1 << 14

// found holds the profiles that a search found, by the signature of the multiplication.
type found struct {
	sync.Mutex
	profiles map[[sha256.Size]byte]candidate
}

func (f *found) get(key [sha256.Size]byte) candidate {
	f.Lock()
	defer f.Unlock()
	return f.profiles[key]
}

func (f *found) put(key [sha256.Size]byte, p candidate) {
	f.Lock()
	defer f.Unlock()
	if f.profiles == nil {
		f.profiles = map[[sha256.Size]byte]candidate{}
	}
	if len(f.profiles) < maxFound {
		f.profiles[key] = p
	}
}

// signature is everything about a multiplication that a library chooses its kernel by, and nothing of its elements: calls of
// one signature on one device ran in the same way.
func signature(c *cases.Case, blind bool) [sha256.Size]byte {
	s := *c
	s.RecordVersion, s.ID, s.Extra, s.Source = cases.RecordVersion, "", nil, nil
	bare := func(t *cases.Tensor) *cases.Tensor {
		if t == nil {
			return nil
		}
		return &cases.Tensor{Format: t.Format, Shape: t.Shape, Strides: t.Strides}
	}
	s.A, s.B, s.C, s.ScaleA, s.ScaleB = *bare(&c.A), *bare(&c.B), bare(c.C), bare(c.ScaleA), bare(c.ScaleB)
	s.Out = cases.Output{Format: c.Out.Format, Shape: c.Out.Shape}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	if blind {
		text = append(text, '!')
	}
	return sha256.Sum256(text)
}

// replayLine replays a line of a trace. A profile that a search found for an earlier line of the same signature is tried by
// itself first. Agreement then says more than in a search, for nothing was chosen to fit; where it does not agree, or on too
// little, the line is searched for like any other.
func (s *Set) replayLine(ctx context.Context, index int, o Options) (Verdict, error) {
	v := Verdict{ID: s.trace.ID(index), Outcome: Undecided, MultiplyAdds: s.trace.MultiplyAdds(index)}
	l, err := s.trace.Line(index)
	if err == nil {
		v.Op, v.Out, v.DType = l.Case.Op, l.Case.Out.Format.String(), formatName(l.Case.A.Format, l.Case.B.Format)
		if p := s.trace.Broken(index); p != nil {
			err = p
		}
	}
	var stored []byte
	if err == nil {
		stored, err = s.trace.Stored(index, l)
	}
	if err == nil && o.Rows > 0 && l.Case.Out.File != "" {
		out := &l.Case.Out
		o.output, err = l.Case.Source.Operand("out", &cases.Tensor{Format: out.Format, Shape: out.Shape, File: out.File, Hash: out.Hash})
	}
	var broken *trace.Problem
	switch {
	case errors.As(err, &broken):
		v.Broken, v.Reason = broken, "the trace is broken: "+broken.Error()
		return v, nil
	case err != nil:
		return v, malformed(err)
	}
	if len(l.Case.Device) == 0 {
		l.Case.Device = s.device()
	}
	o.siblings = sync.OnceValue(func() []sibling { return s.siblings(index, l) })
	key := signature(l.Case, o.Blind)
	if p := s.found.get(key); p.profile != nil && o.Profile == nil {
		first := o
		first.Profile, first.suspect, first.trying = p.profile, p.suspect, true
		v, err := ReplayCase(ctx, l.Case, stored, first)
		if err != nil || v.Broken != nil {
			return s.told(v), err
		}
		if v.Outcome == Exact && v.EvidenceBits >= wantedBits {
			v.Reused = true
			return v, nil
		}
		o.Estimate = nil // it was called
	}
	v, err = ReplayCase(ctx, l.Case, stored, o)
	if err == nil && v.Outcome == Exact && v.PlansTried > 1 && len(v.Others) == 0 && o.Profile == nil {
		if p, parsed := profile.Parse(v.Profile); parsed == nil {
			s.found.put(key, candidate{profile: p, suspect: v.Discovered != ""})
		}
	}
	return s.told(v), err
}

// device is what the trace's manifest says of where it was recorded, as a case has it. It is never empty: a trace that does not
// say it is not taken for one of the GPU that the rules were measured on.
func (s *Set) device() map[string]string {
	device := map[string]string{}
	for name, v := range s.trace.Manifest.Device {
		if text, ok := v.(string); ok {
			device[name] = text
		}
	}
	if len(device) == 0 {
		device["device"] = "not recorded"
	}
	return device
}

// told says in the reason that the trace is broken.
func (s *Set) told(v Verdict) Verdict {
	if v.Broken != nil {
		v.Reason = "the trace is broken: " + v.Broken.Error()
	}
	return v
}
