package main

/*
#include "boundary.h"
*/
import "C"

import (
	"context"
	"encoding/json"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/verify"
)

var sets = newTable[verify.Set](kindSet)

func findSet(h C.hawkeye_set) (*verify.Set, error) {
	if s := sets.get(handle(h)); s != nil {
		return s, nil
	}
	return nil, fail(statusHandle, "%#x is not the handle of a set, or the set was freed", uint64(h))
}

//export hawkeyeGoSetOpen
func hawkeyeGoSetOpen(path *C.char, out *C.hawkeye_set, count *C.int64_t, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		if out == nil {
			return fail(statusArgument, "set is NULL")
		}
		*out = 0
		name, err := goString("the path of the set", path)
		if err != nil {
			return err
		}
		s, err := verify.OpenSet(name)
		if err != nil {
			return err // a path error is I/O, anything else is about what the file says
		}
		if count != nil {
			*count = C.int64_t(s.Len())
		}
		*out = C.hawkeye_set(sets.put(s))
		return nil
	})
}

//export hawkeyeGoSetAbout
func hawkeyeGoSetAbout(h C.hawkeye_set, buffer *C.char, size C.size_t, needed *C.size_t, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		s, err := findSet(h)
		if err != nil {
			return err
		}
		return returnText(string(s.AboutJSON()), buffer, size, needed)
	})
}

//export hawkeyeGoSetReplay
func hawkeyeGoSetReplay(h C.hawkeye_set, index C.int64_t, threads C.int32_t, progress C.hawkeye_progress, user unsafe.Pointer,
	host C.hawkeye_float_state, buffer *C.char, size C.size_t, needed *C.size_t, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		s, err := findSet(h)
		if err != nil {
			return err
		}
		if index < 0 || int64(index) >= int64(s.Len()) {
			return fail(statusArgument, "case %d of a set with cases 0 to %d", int64(index), s.Len()-1)
		}
		if buffer == nil || size == 0 { // found before minutes of work rather than after
			return fail(statusArgument, "the buffer for the verdict is NULL or empty: 64 KiB always suffices")
		}
		options := verify.Options{Progress: progressFunc(progress, user, host)}
		if options.Threads, err = threadCount(threads); err != nil {
			return err
		}
		verdict, err := s.Replay(context.Background(), int(index), options)
		if err != nil {
			return err
		}
		text, err := json.Marshal(verdict)
		if err != nil {
			return err
		}
		return returnText(string(text), buffer, size, needed)
	})
}

//export hawkeyeGoSetFree
func hawkeyeGoSetFree(h C.hawkeye_set, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		if !sets.remove(handle(h)) {
			_, err := findSet(h)
			return err
		}
		return nil
	})
}
