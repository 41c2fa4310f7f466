package main

import "unsafe"

// largestStruct bounds what a struct_size may claim: beyond it lies an uninitialised field, not a newer version.
const largestStruct = 4096

// sizedStruct checks the struct_size that every struct of the ABI begins with, given this library's own size of it.
// Smaller: no version had it, so the field was not set. Larger: a newer caller, whose fields this library does not
// know; they must be zero in what it reads (a field that asks for something may not be ignored) and are set to zero
// in what it writes.
func sizedStruct(what string, p unsafe.Pointer, known uintptr, output bool) error {
	if p == nil {
		return fail(statusArgument, "%s is NULL", what)
	}
	size := *(*uint64)(p)
	switch {
	case size < uint64(known):
		return fail(statusArgument, "%s has struct_size %d, and this library knows %d: set it to sizeof the struct", what, size, known)
	case size > largestStruct:
		return fail(statusArgument, "%s has struct_size %d, which no version has: set it to sizeof the struct", what, size)
	}
	tail := unsafe.Slice((*byte)(unsafe.Add(p, known)), size-uint64(known))
	for i := range tail {
		if output {
			tail[i] = 0
		} else if tail[i] != 0 {
			return fail(statusArgument, "%s uses a field at byte %d that this library does not know: it is of a newer version", what, int(known)+i)
		}
	}
	return nil
}
