package trace

import "fmt"

// Problem is something in a trace that is not as it was written, or not as a trace is written, and where it is. It is an
// error, so that a reader of operands can return it.
type Problem struct {
	File  string `json:"file"`            // of the trace's folder
	Line  int    `json:"line,omitempty"`  // in an index, the first being 1; 0: none
	ID    string `json:"id,omitempty"`    // of the multiplication that this line holds
	Field string `json:"field,omitempty"` // of the line or the manifest, such as "a.file"
	Text  string `json:"text"`            // what is wrong, in a clause
}

// Error names the place and says what is wrong there.
func (p *Problem) Error() string {
	where := p.File
	if p.Line > 0 {
		where += fmt.Sprintf(", line %d", p.Line)
	}
	if p.ID != "" {
		where += " (" + p.ID + ")"
	}
	if p.Field != "" {
		where += ", " + p.Field
	}
	return where + ": " + p.Text
}
