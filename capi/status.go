package main

/*
#cgo CFLAGS: -I${SRCDIR}/../include
#include "boundary.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/cuda"
)

// status is a hawkeye_status; the names are those of hawkeye.h.
type status int32

const (
	statusOK          = status(C.HAWKEYE_OK)
	statusArgument    = status(C.HAWKEYE_ERROR_ARGUMENT)
	statusHandle      = status(C.HAWKEYE_ERROR_HANDLE)
	statusProfile     = status(C.HAWKEYE_ERROR_PROFILE)
	statusShape       = status(C.HAWKEYE_ERROR_SHAPE)
	statusFormat      = status(C.HAWKEYE_ERROR_FORMAT)
	statusOverlap     = status(C.HAWKEYE_ERROR_OVERLAP)
	statusUnsupported = status(C.HAWKEYE_ERROR_UNSUPPORTED)
	statusCancelled   = status(C.HAWKEYE_ERROR_CANCELLED)
	statusBuffer      = status(C.HAWKEYE_ERROR_BUFFER)
	statusIO          = status(C.HAWKEYE_ERROR_IO)
	statusInternal    = status(C.HAWKEYE_ERROR_INTERNAL)
	statusDevice      = status(C.HAWKEYE_ERROR_DEVICE)
)

// failure is an error that already knows its status.
type failure struct {
	status  status
	message string
}

func (f *failure) Error() string { return f.message }

func fail(s status, format string, args ...any) error {
	return &failure{s, fmt.Sprintf(format, args...)}
}

// errCancelled is what a progress callback's wish to stop becomes on its way through the core.
var errCancelled = &failure{statusCancelled, "the progress callback stopped the call"}

var kindStatus = map[gemm.Kind]status{
	gemm.KindArgument:    statusArgument,
	gemm.KindShape:       statusShape,
	gemm.KindFormat:      statusFormat,
	gemm.KindOverlap:     statusOverlap,
	gemm.KindUnsupported: statusUnsupported,
	gemm.KindCancelled:   statusCancelled,
}

// gpuStatus has the kinds of errors of a GPU that are the caller's own fault.
var gpuStatus = map[cuda.Kind]status{cuda.KindArgument: statusArgument, cuda.KindInstruction: statusArgument}

// statusOf finds the status of any error of the core. One that has none is a fault of ours, and says so.
func statusOf(err error) (status, string) {
	var own *failure
	var core *gemm.Error
	var gpu *cuda.Error
	var path *fs.PathError
	switch {
	case err == nil:
		return statusOK, ""
	case errors.Is(err, errCancelled): // before core errors, which may wrap it
		return statusCancelled, errCancelled.message
	case errors.As(err, &own):
		return own.status, err.Error()
	case errors.As(err, &core):
		if s, known := kindStatus[core.Kind]; known {
			return s, err.Error()
		}
	case errors.As(err, &gpu):
		if s, known := gpuStatus[gpu.Kind]; known {
			return s, gpu.Message
		}
		return statusDevice, gpu.Message
	case errors.As(err, &path):
		return statusIO, err.Error()
	}
	return statusInternal, "an unexpected error, please report it: " + err.Error()
}

// guard runs one call: no panic leaves it, and its error becomes a status and a message.
func guard(message *C.char, messageSize C.size_t, call func() error) C.hawkeye_status {
	s, text := statusOf(protect(call))
	if s != statusOK || message != nil && messageSize > 0 {
		copyText(unsafe.Pointer(message), uint64(messageSize), text)
	}
	return C.hawkeye_status(s)
}

// protect turns a panic into an error that names the place.
func protect(call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fail(statusInternal, "a fault inside Hawkeye, please report it: %v (%s)", r, panicPlace())
		}
	}()
	return call()
}

// panicPlace is the innermost function of this module on the panicking stack, other than the recovery itself.
func panicPlace() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		f, more := frames.Next()
		if f.Function != "" && !strings.HasPrefix(f.Function, "runtime.") {
			return fmt.Sprintf("%s, line %d", f.Function, f.Line)
		}
		if !more {
			return "place unknown"
		}
	}
}
