package cuda

import "fmt"

// Kind sorts what can go wrong.
type Kind string

// The kinds.
const (
	KindDriver      Kind = "driver"      // libcuda is not there, too old, or does not start
	KindDevice      Kind = "device"      // there is no GPU, or none of that number, or it is gone
	KindCapability  Kind = "capability"  // the GPU does not have the instruction
	KindInstruction Kind = "instruction" // no instruction has that name
	KindArgument    Kind = "argument"    // the call makes no sense
	KindMemory      Kind = "memory"      // the GPU has not enough of it
	KindCompile     Kind = "compile"     // the driver did not take the kernel
	KindRun         Kind = "run"         // a kernel or a copy failed
)

// Error is every error of this package but a context's own.
type Error struct {
	Kind    Kind
	Message string
}

func (e *Error) Error() string { return "cuda: " + e.Message }

func fail(kind Kind, form string, arguments ...any) error {
	return &Error{kind, fmt.Sprintf(form, arguments...)}
}
