package gemm

import "fmt"

// Kind sorts errors, so that callers in other languages can have a type for each.
type Kind int

// The kinds of error.
const (
	KindArgument Kind = iota + 1
	KindShape
	KindFormat
	KindOverlap
	KindUnsupported
	KindCancelled
)

// Error is a refusal with its reason.
type Error struct {
	Kind    Kind
	Message string
}

// Error is the reason as a sentence.
func (e *Error) Error() string { return e.Message }

func fail(kind Kind, text string, args ...any) error {
	return &Error{Kind: kind, Message: fmt.Sprintf(text, args...)}
}
