package discover

import "fmt"

// faultError is a panic of an inquiry.
type faultError struct{ value any }

func (e faultError) Error() string { return fmt.Sprintf("internal fault: %v", e.value) }

// inconsistent is what no order of summation explains.
type inconsistent struct{ what string }

func (e inconsistent) Error() string { return e.what }
