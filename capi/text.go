package main

/*
#include "boundary.h"
*/
import "C"

import (
	"unicode/utf8"
	"unsafe"
)

// copyText writes as much of text as fits into size bytes at to, always NUL-terminated and never cutting a UTF-8
// sequence, and reports whether all of it fitted. to may be nil and size 0.
func copyText(to unsafe.Pointer, size uint64, text string) bool {
	if to == nil || size == 0 {
		return false
	}
	n := uint64(len(text))
	fits := n < size
	if !fits {
		n = size - 1
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
	}
	buffer := unsafe.Slice((*byte)(to), n+1)
	copy(buffer, text[:n])
	buffer[n] = 0
	return fits
}

// returnText is the end of every call that returns text in a caller's buffer.
func returnText(text string, buffer *C.char, size C.size_t, needed *C.size_t) error {
	if needed != nil {
		*needed = C.size_t(len(text) + 1)
	}
	if buffer == nil && size > 0 {
		return fail(statusArgument, "the buffer is NULL but its size is %d: pass 0 to ask for the size needed", uint64(size))
	}
	if !copyText(unsafe.Pointer(buffer), uint64(size), text) {
		return fail(statusBuffer, "the text needs %d bytes and the buffer has %d", len(text)+1, uint64(size))
	}
	return nil
}

// longestName bounds names and paths, so that an unterminated one does not run through memory for long.
const longestName = 4096

// goString reads a NUL-terminated UTF-8 argument.
func goString(what string, s *C.char) (string, error) {
	if s == nil {
		return "", fail(statusArgument, "%s is NULL", what)
	}
	p := (*byte)(unsafe.Pointer(s))
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		if n++; n > longestName {
			return "", fail(statusArgument, "%s is longer than %d bytes", what, longestName)
		}
	}
	text := string(unsafe.Slice(p, n))
	if !utf8.ValidString(text) {
		return "", fail(statusArgument, "%s is not UTF-8", what)
	}
	return text, nil
}
