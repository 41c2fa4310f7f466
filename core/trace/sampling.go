package trace

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
)

// sampling is the choice of steps and calls that the manifest's settings name (docs/record.md, "Steps and sampling"). What
// was recorded must be what they choose: else lines were picked, or the settings changed.
type sampling struct {
	key   []byte
	every uint64
	below uint64
	all   bool // every call of a sampled step
}

// readSampling reads the settings; nil where they do not say how was sampled.
func readSampling(settings json.RawMessage) *sampling {
	var said struct {
		Every    *uint64         `json:"every"`
		Fraction *float64        `json:"fraction"`
		Seed     json.RawMessage `json:"seed"`
	}
	if json.Unmarshal(settings, &said) != nil || said.Every == nil || *said.Every == 0 || said.Fraction == nil || len(said.Seed) == 0 {
		return nil
	}
	s := &sampling{every: *said.Every, all: *said.Fraction >= 1}
	if !s.all {
		s.below = uint64(max(*said.Fraction, 0) * (1 << 64)) // exact: a scaling by a power of two
	}
	var text string
	switch {
	case json.Unmarshal(said.Seed, &text) == nil:
		s.key = []byte(text)
	default:
		if _, err := strconv.ParseFloat(string(said.Seed), 64); err != nil {
			return nil
		}
		s.key = said.Seed // a number in decimal
	}
	return s
}

func (s *sampling) number(format string, args ...any) uint64 {
	mac := hmac.New(sha256.New, s.key)
	fmt.Fprintf(mac, format, args...)
	return binary.BigEndian.Uint64(mac.Sum(nil))
}

// refuses says why a line would not have been recorded, "" where it would.
func (s *sampling) refuses(rank, step, call int) (field, why string) {
	switch {
	case s == nil:
		return "", ""
	case s.every > 1 && s.number("step:%d:%d", rank, step)%s.every != 0:
		return "step", fmt.Sprintf("is %d, which the settings in the manifest do not sample: the line or the settings were changed", step)
	case !s.all && s.number("call:%d:%d:%d", rank, step, call) >= s.below:
		return "call", fmt.Sprintf("is %d of step %d, which the settings in the manifest do not sample: the line or the settings were changed", call, step)
	}
	return "", ""
}
