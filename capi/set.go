package main

/*
#include "boundary.h"
*/
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/explain"
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
		count, err := threadCount(threads)
		if err != nil {
			return err
		}
		return replay(h, index, verify.Options{Threads: count, Progress: progressFunc(progress, user, host)}, buffer, size, needed)
	})
}

//export hawkeyeGoSetReplayWith
func hawkeyeGoSetReplayWith(h C.hawkeye_set, index C.int64_t, options *C.hawkeye_replay_options, host C.hawkeye_float_state,
	buffer *C.char, size C.size_t, needed *C.size_t, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		o, err := replayOptions(options, host)
		if err != nil {
			return err
		}
		return replay(h, index, o, buffer, size, needed)
	})
}

// replayOptions converts a caller's options, NULL for none.
func replayOptions(options *C.hawkeye_replay_options, host C.hawkeye_float_state) (o verify.Options, err error) {
	if options == nil {
		return o, nil
	}
	if err := sizedStruct("options", unsafe.Pointer(options), unsafe.Sizeof(*options), false); err != nil {
		return o, err
	}
	if options.profile != 0 {
		if o.Profile, err = findProfile(options.profile); err != nil {
			return o, err
		}
	}
	if o.Blind, err = boolean("options.blind", options.blind); err != nil {
		return o, err
	}
	if options.rows < 0 {
		return o, fail(statusArgument, "options.rows is %d: it cannot be negative", int64(options.rows))
	}
	o.Rows = int(options.rows)
	if o.Suspects, err = findProfiles("options.suspects", options.suspects, options.suspect_count); err != nil {
		return o, err
	}
	o.Progress = progressFunc(options.progress, options.progress_user, host)
	o.Threads, err = threadCount(options.threads)
	return o, err
}

// boolean reads a field that is 0 or 1.
func boolean(what string, v C.int32_t) (bool, error) {
	if v != 0 && v != 1 {
		return false, fail(statusArgument, "%s is %d: it is 0 or 1", what, v)
	}
	return v == 1, nil
}

// chosenCase checks the number of a case.
func chosenCase(s *verify.Set, index C.int64_t) (int, error) {
	if index < 0 || int64(index) >= int64(s.Len()) {
		return 0, fail(statusArgument, "case %d of a set with cases 0 to %d", int64(index), s.Len()-1)
	}
	return int(index), nil
}

// longAnswer refuses a buffer that cannot hold an answer before minutes of work rather than after.
func longAnswer(what string, buffer *C.char, size C.size_t) error {
	if buffer == nil || size == 0 {
		return fail(statusArgument, "the buffer for the %s is NULL or empty: 64 KiB always suffices", what)
	}
	return nil
}

func replay(h C.hawkeye_set, number C.int64_t, o verify.Options, buffer *C.char, size C.size_t, needed *C.size_t) error {
	s, err := findSet(h)
	if err != nil {
		return err
	}
	index, err := chosenCase(s, number)
	if err != nil {
		return err
	}
	if err := longAnswer("verdict", buffer, size); err != nil {
		return err
	}
	stopped := watch(&o)
	verdict, err := s.Replay(context.Background(), index, o)
	if err != nil && (!errors.Is(err, errCancelled) || verdict.Outcome == "") {
		return err
	}
	text, marshalled := json.Marshal(verdict)
	if marshalled != nil {
		return marshalled
	}
	if returned := returnText(string(text), buffer, size, needed); returned != nil {
		return returned
	}
	if err == nil && *stopped && verdict.Outcome == verify.Undecided { // what was found before the call was stopped
		return errCancelled
	}
	return err
}

// watch notes whether the progress function asked to stop.
func watch(o *verify.Options) *bool {
	stopped, progress := new(bool), o.Progress
	if progress != nil {
		o.Progress = func(done, total uint64) error {
			err := progress(done, total)
			*stopped = *stopped || err != nil
			return err
		}
	}
	return stopped
}

//export hawkeyeGoSetWhy
func hawkeyeGoSetWhy(h C.hawkeye_set, a, b C.int64_t, options *C.hawkeye_replay_options, host C.hawkeye_float_state,
	buffer *C.char, size C.size_t, needed *C.size_t, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		s, err := findSet(h)
		if err != nil {
			return err
		}
		first, err := chosenCase(s, a)
		if err != nil {
			return err
		}
		second, err := chosenCase(s, b)
		if err != nil {
			return err
		}
		if err := longAnswer("reasons", buffer, size); err != nil {
			return err
		}
		o, err := replayOptions(options, host)
		if err != nil {
			return err
		}
		if o.Profile != nil {
			return fail(statusArgument, "options.profile is given: two cases are compared by the profiles found for them")
		}
		if o.Rows != 0 {
			return fail(statusArgument, "options.rows is %d: two cases are compared by all of their outputs", o.Rows)
		}
		stopped := watch(&o)
		reasons, err := explain.InSet(context.Background(), s, first, second, o)
		switch {
		case *stopped: // a verdict of a replay that was stopped says nothing
			return errCancelled
		case err != nil:
			return err
		}
		text, err := json.Marshal(reasons)
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
