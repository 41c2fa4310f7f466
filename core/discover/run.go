package discover

import "context"

// Run finds the profile of a black box. An error is the box's own, the progress callback's or the context's, or says that the
// signature makes no sense; that no profile fits is no error but stands in the result.
func Run(ctx context.Context, s Signature, box Box, o Options) (*Result, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return &Result{Reason: "not written yet"}, nil
}
