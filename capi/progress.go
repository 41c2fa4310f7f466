package main

/*
#include "boundary.h"
*/
import "C"

import "unsafe"

// progressFunc makes the core's progress function of a caller's callback. The core calls it on the goroutine that the
// call came in on, which is bound to the calling thread for as long as the call lasts.
func progressFunc(progress C.hawkeye_progress, user unsafe.Pointer, host C.hawkeye_float_state) func(done, total uint64) error {
	if progress == nil {
		return nil
	}
	return func(done, total uint64) error {
		if C.hawkeyeCallProgress(progress, user, C.uint64_t(done), C.uint64_t(total), host) != 0 {
			return errCancelled
		}
		return nil
	}
}
