package verify

import (
	"strings"
	"unicode/utf8"
)

// A verdict is to stay short (the C interface promises 64 KiB), and a set of cases may be anybody's: names of a line have no
// limit, nor has a profile that is given.
const (
	longestText    = 1 << 11
	longestProfile = 1 << 14
)

// clip shortens what comes from outside. A given profile that is too long is left to its identity.
func (v *Verdict) clip() {
	texts := []*string{&v.ID, &v.Op, &v.Plan, &v.Reason, &v.Family}
	if d := v.Difference; d != nil {
		texts = append(texts, &d.Text, &d.Plan)
	}
	for _, text := range texts {
		*text = shortened(*text)
	}
	if len(v.Profile) > longestProfile {
		v.Profile = nil
	}
}

// shortened cuts a text where it is too long.
func shortened(text string) string {
	if len(text) <= longestText {
		return text
	}
	at := longestText
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return strings.ToValidUTF8(text[:at], "") + "…"
}
