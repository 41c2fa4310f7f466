package main

/*
#include "boundary.h"
*/
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"math/bits"
	"strings"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/discover"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// discovery is what a handle names: the result, and its text, which is made once.
type discovery struct {
	result *discover.Result
	text   string
}

var discoveries = newTable[discovery](kindDiscovery)

func findDiscovery(h C.hawkeye_discovery) (*discovery, error) {
	if d := discoveries.get(handle(h)); d != nil {
		return d, nil
	}
	return nil, fail(statusHandle, "%#x is not the handle of a discovery, or the discovery was freed", uint64(h))
}

//export hawkeyeGoDiscover
func hawkeyeGoDiscover(s *C.hawkeye_signature, matmul C.hawkeye_matmul, user unsafe.Pointer, options *C.hawkeye_discover_options,
	host C.hawkeye_float_state, out *C.hawkeye_discovery, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		if out == nil {
			return fail(statusArgument, "discovery is NULL")
		}
		*out = 0
		if matmul == nil {
			return fail(statusArgument, "matmul is NULL: give the multiplication as a function")
		}
		signature, err := viewSignature(s)
		if err != nil {
			return err
		}
		o, err := discoverOptions(options, host)
		if err != nil {
			return err
		}
		result, err := discover.Run(context.Background(), signature, matmulBox(signature, matmul, user, host), o)
		if err != nil {
			return discoverError(err)
		}
		text, err := json.Marshal(result)
		if err != nil {
			return err
		}
		*out = C.hawkeye_discovery(discoveries.put(&discovery{result, string(text)}))
		return nil
	})
}

// discoverError gives an error of the core its status: one that has none says that the signature makes no sense.
func discoverError(err error) error {
	var own *failure
	var core *gemm.Error
	if errors.As(err, &own) || errors.As(err, &core) {
		return err
	}
	return fail(statusArgument, "%s", strings.TrimPrefix(err.Error(), "discover: "))
}

// largestOperand bounds a matrix of a signature in elements.
const largestOperand = 1 << 31

// viewSignature converts a hawkeye_signature and checks it.
func viewSignature(s *C.hawkeye_signature) (discover.Signature, error) {
	var out discover.Signature
	if err := sizedStruct("signature", unsafe.Pointer(s), unsafe.Sizeof(*s), false); err != nil {
		return out, err
	}
	for _, f := range []struct {
		name string
		from C.hawkeye_format
		to   *format.Format
	}{{"a", s.a, &out.A}, {"b", s.b, &out.B}, {"c", s.c, &out.C}, {"d", s.d, &out.D}} {
		if f.name == "c" && f.from == 0 {
			continue
		}
		if *f.to = format.Format(f.from); int64(*f.to) != int64(f.from) || f.to.Info().Bytes == 0 {
			return out, fail(statusFormat, "signature.%s is %d, which is no hawkeye_format", f.name, f.from)
		}
	}
	for _, size := range []struct {
		name string
		from C.int64_t
		to   *int
	}{{"batch", s.batch, &out.Batch}, {"m", s.m, &out.M}, {"n", s.n, &out.N}, {"k", s.k, &out.K}} {
		if *size.to = int(size.from); size.from < 1 || size.from > largestOperand || C.int64_t(*size.to) != size.from {
			return out, fail(statusShape, "signature.%s is %d: it must be 1 or more, and no matrix may have more than 2^31 elements", size.name, int64(size.from))
		}
	}
	for _, matrix := range []struct {
		name          string
		rows, columns int
	}{{"a", out.M, out.K}, {"b", out.K, out.N}, {"d", out.M, out.N}} {
		// Each size has at most 32 bits, so that two of them cannot overflow, and three may.
		high, low := bits.Mul64(uint64(matrix.rows)*uint64(matrix.columns), uint64(out.Batch))
		if high != 0 || low > largestOperand {
			return out, fail(statusShape, "signature: %s has more than 2^31 elements; discover with smaller sizes", matrix.name)
		}
	}
	if s.addend < 0 || int(s.addend) >= len(addends) {
		return out, fail(statusArgument, "signature.addend is %d, which is no hawkeye_addend", s.addend)
	}
	if s.scaling < 0 || int(s.scaling) >= len(scalings) {
		return out, fail(statusArgument, "signature.scaling is %d, which is no hawkeye_scaling", s.scaling)
	}
	out.Addend, out.Scaling = addends[s.addend], scalings[s.scaling]
	out.Alpha, out.Beta = float64(s.alpha), float64(s.beta)
	if err := out.Validate(); err != nil {
		return out, fail(statusArgument, "signature: %s", strings.TrimPrefix(err.Error(), "discover: "))
	}
	return out, nil
}

// addends and scalings are in the order of the header's enums.
var (
	addends = [...]discover.Addend{
		C.HAWKEYE_ADDEND_NONE: discover.AddendNone, C.HAWKEYE_ADDEND_BIAS: discover.AddendBias,
		C.HAWKEYE_ADDEND_FULL: discover.AddendFull, C.HAWKEYE_ADDEND_START: discover.AddendStart,
	}
	scalings = [...]profile.Scaling{
		C.HAWKEYE_SCALING_NONE: profile.ScalingNone, C.HAWKEYE_SCALING_TENSOR: profile.ScalingTensor,
		C.HAWKEYE_SCALING_ROW: profile.ScalingRow,
	}
)

// discoverOptions converts a caller's options, NULL for none.
func discoverOptions(options *C.hawkeye_discover_options, host C.hawkeye_float_state) (o discover.Options, err error) {
	if options == nil {
		return o, nil
	}
	if err := sizedStruct("options", unsafe.Pointer(options), unsafe.Sizeof(*options), false); err != nil {
		return o, err
	}
	if options.reserved != 0 {
		return o, fail(statusArgument, "the reserved field of options is %d: set it to 0", options.reserved)
	}
	for _, n := range []struct {
		name string
		from C.int64_t
		to   *int
	}{{"elements", options.elements, &o.Elements}, {"max_calls", options.max_calls, &o.MaxCalls}} {
		if *n.to = int(n.from); n.from < 0 || C.int64_t(*n.to) != n.from {
			return o, fail(statusArgument, "options.%s is %d: say 0 for the default, or a number of them", n.name, int64(n.from))
		}
	}
	for _, text := range []struct {
		name string
		from *C.char
		to   *string
	}{{"hardware", options.hardware, &o.Hardware}, {"library", options.library, &o.Library}} {
		if text.from != nil {
			if *text.to, err = goString("options."+text.name, text.from); err != nil {
				return o, err
			}
		}
	}
	if o.Suspects, err = findProfiles("options.suspects", options.suspects, options.suspect_count); err != nil {
		return o, err
	}
	if o.Threads, err = threadCount(options.threads); err != nil {
		return o, err
	}
	o.Seed = uint64(options.seed)
	if progress, user := options.progress, options.progress_user; progress != nil {
		o.Progress = func(p discover.Progress) error {
			phase := append([]byte(p.Phase), 0)
			if C.hawkeyeCallDiscoverProgress(progress, user, (*C.char)(unsafe.Pointer(&phase[0])), C.int64_t(p.Calls),
				C.int64_t(p.Questions), C.int64_t(p.Done), C.int64_t(p.Total), host) != 0 {
				return errCancelled
			}
			return nil
		}
	}
	return o, nil
}

// matmulBox makes the core's black box of a caller's function. The core calls it on the goroutine that the call came in on,
// which is bound to the calling thread for as long as the call lasts.
func matmulBox(s discover.Signature, matmul C.hawkeye_matmul, user unsafe.Pointer, host C.hawkeye_float_state) discover.Box {
	return func(_ context.Context, c *discover.Call) error {
		a, b, d := aligned(c.A, s.A), aligned(c.B, s.B), aligned(c.D, s.D)
		addend := c.C
		if len(addend) > 0 {
			addend = aligned(addend, s.C)
		}
		stop := C.hawkeyeCallMatmul(matmul, user, start(a), start(b), start(addend), start(d),
			(*C.float)(unsafe.Pointer(unsafe.SliceData(c.ScaleA))), (*C.float)(unsafe.Pointer(unsafe.SliceData(c.ScaleB))),
			C.uint64_t(len(a)), C.uint64_t(len(b)), C.uint64_t(len(addend)), C.uint64_t(len(d)),
			C.int64_t(len(c.ScaleA)), C.int64_t(len(c.ScaleB)), host)
		if stop != 0 {
			return fail(statusCancelled, "the matrix multiplication stopped the discovery: it returned %d", stop)
		}
		if unsafe.SliceData(d) != unsafe.SliceData(c.D) {
			copy(c.D, d)
		}
		return nil
	}
}

// start is where a slice's bytes are, NULL where there are none.
func start(x []byte) unsafe.Pointer {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Pointer(unsafe.SliceData(x))
}

// aligned is x where elements of a format may be read in place; a copy of it elsewhere. Memory for bytes alone promises
// nothing.
func aligned(x []byte, f format.Format) []byte {
	if len(x) == 0 || uintptr(unsafe.Pointer(unsafe.SliceData(x)))%uintptr(f.Bytes()) == 0 {
		return x
	}
	words := make([]uint64, (len(x)+7)/8)
	own := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(x))
	copy(own, x)
	return own
}

//export hawkeyeGoDiscoveryJSON
func hawkeyeGoDiscoveryJSON(h C.hawkeye_discovery, buffer *C.char, size C.size_t, needed *C.size_t, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		d, err := findDiscovery(h)
		if err != nil {
			return err
		}
		return returnText(d.text, buffer, size, needed)
	})
}

//export hawkeyeGoDiscoveryProfile
func hawkeyeGoDiscoveryProfile(h C.hawkeye_discovery, out *C.hawkeye_profile, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		if out == nil {
			return fail(statusArgument, "profile is NULL")
		}
		*out = 0
		d, err := findDiscovery(h)
		if err != nil {
			return err
		}
		if d.result.Profile == nil || d.result.Certificate == nil {
			return fail(statusProfile, "no profile was certified: %s", d.result.Reason)
		}
		*out = C.hawkeye_profile(profiles.put(d.result.Profile))
		return nil
	})
}

//export hawkeyeGoDiscoveryFree
func hawkeyeGoDiscoveryFree(h C.hawkeye_discovery, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		if !discoveries.remove(handle(h)) {
			_, err := findDiscovery(h)
			return err
		}
		return nil
	})
}
