package main

/*
#include "boundary.h"
*/
import "C"

import (
	"strings"
	"sync"

	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/simd"
)

// version is the release; the build sets it from the file VERSION (capi/build.sh).
var version = "0.0.0+unreleased"

// staticStrings holds the C copies of strings promised to live for ever, each made once. It is an array in the library's
// own data so that leak checkers find the copies: they do not look into the Go heap.
var staticStrings struct {
	sync.Mutex
	made [16]*C.char // the version, the list of instruction sets and their names
}

func staticString(s string) *C.char {
	staticStrings.Lock()
	defer staticStrings.Unlock()
	for i, made := range staticStrings.made {
		if made == nil {
			staticStrings.made[i] = C.CString(s)
			return staticStrings.made[i]
		}
		if C.GoString(made) == s {
			return made
		}
	}
	panic("hawkeye: more static strings than were counted on")
}

//export hawkeyeGoVersion
func hawkeyeGoVersion() *C.char { return staticString(version) }

//export hawkeyeGoInstructionSet
func hawkeyeGoInstructionSet() *C.char { return staticString(simd.Active().String()) }

//export hawkeyeGoInstructionSets
func hawkeyeGoInstructionSets() *C.char {
	var names []string
	for _, l := range simd.Levels() {
		names = append(names, l.String())
	}
	return staticString(strings.Join(names, "\n"))
}

//export hawkeyeGoSetInstructionSet
func hawkeyeGoSetInstructionSet(name, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		wanted, err := goString("the name of the instruction set", name)
		if err != nil {
			return err
		}
		if wanted == "" {
			return fail(statusArgument, `the name of the instruction set is empty: say "auto" for the best one`)
		}
		level, err := simd.ParseLevel(wanted)
		if err != nil {
			return fail(statusUnsupported, "%v", err)
		}
		simd.SetActive(level)
		return nil
	})
}

// mostThreads bounds a thread count; more than this is a mistake, not a machine.
const mostThreads = 1 << 16

//export hawkeyeGoThreads
func hawkeyeGoThreads() C.int32_t { return C.int32_t(gemm.DefaultThreads()) }

//export hawkeyeGoSetThreads
func hawkeyeGoSetThreads(threads C.int32_t, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		if threads < 0 || threads > mostThreads {
			return fail(statusArgument, "%d threads: say 0 for all processors, or 1 to %d", threads, mostThreads)
		}
		gemm.SetDefaultThreads(int(threads))
		return nil
	})
}

// threadCount checks the thread count of one call; 0 is the default to the core too.
func threadCount(threads C.int32_t) (int, error) {
	if threads < 0 || threads > mostThreads {
		return 0, fail(statusArgument, "%d threads: say 0 for the default, or 1 to %d", threads, mostThreads)
	}
	return int(threads), nil
}
