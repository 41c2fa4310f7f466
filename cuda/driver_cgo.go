//go:build cgo

package cuda

/*
#cgo CFLAGS: -std=c11 -D_DEFAULT_SOURCE -Wall -Wextra
#cgo linux LDFLAGS: -ldl
#include <stdlib.h>
#include "driver.h"
*/
import "C"

import (
	"strings"
	"sync"
	"unsafe"
)

// loading is whether the driver was started. A failure is tried again by the next call: a driver may be installed, and a
// device node made, while a process lives.
var loading struct {
	sync.Mutex
	done bool
}

// Numbers of the driver's errors, of those that mean something of their own here.
const (
	outOfMemory      = 2
	stubLibrary      = 34
	noDevice         = 100
	invalidDevice    = 101
	noBinary         = 209
	invalidPTX       = 218
	noTranslator     = 221
	unsupportedPTX   = 222
	systemNotReady   = 802
	driverMismatch   = 803
	deviceNotAllowed = 46 // all GPUs are busy or not available
)

const textSize = 512

// startDriver opens libcuda and starts the driver.
func startDriver() error {
	loading.Lock()
	defer loading.Unlock()
	if loading.done {
		return nil
	}
	var message [textSize]C.char
	code := C.hawkeyeCudaLoad(&message[0], textSize)
	what := C.GoString(&message[0])
	switch code {
	case 0:
		loading.done = true
		return nil
	case C.hawkeyeCudaNoLibrary:
		return fail(KindDriver, "NVIDIA's driver is not installed here, or its library is not where the dynamic linker looks (%s): run this on "+
			"a machine with an NVIDIA GPU and its driver; in a container, start it with the GPU (docker run --gpus all)", what)
	case C.hawkeyeCudaNoFunction:
		return fail(KindDriver, "NVIDIA's driver is too old, its libcuda.so.1 lacks %s: install a newer driver", what)
	case noDevice:
		return fail(KindDevice, "NVIDIA's driver is installed and sees no GPU (%s): look at nvidia-smi and at CUDA_VISIBLE_DEVICES", errorText(code))
	case stubLibrary:
		return fail(KindDriver, "libcuda.so.1 is the CUDA toolkit's stub and not a driver: take the toolkit's stubs folder out of LD_LIBRARY_PATH")
	case driverMismatch:
		return fail(KindDriver, "libcuda.so.1 and the kernel's driver are of different versions (%s): restart the machine after an update of the "+
			"driver, and keep CUDA's compat folder out of LD_LIBRARY_PATH", errorText(code))
	case systemNotReady:
		return fail(KindDriver, "NVIDIA's driver is not ready (%s): start its services, such as nvidia-fabricmanager, and try again", errorText(code))
	}
	return fail(KindDriver, "NVIDIA's driver does not start (%s): see whether nvidia-smi works", errorText(code))
}

func errorText(code C.int) string {
	var text [textSize]C.char
	C.hawkeyeCudaErrorText(code, &text[0], textSize)
	return C.GoString(&text[0])
}

// failed makes an error of a driver's.
func failed(kind Kind, what string, code C.int) error {
	if code == 0 {
		return nil
	}
	advice := ""
	switch code {
	case outOfMemory:
		kind, advice = KindMemory, ": ask for fewer tiles, or end what else runs on the GPU"
	case noDevice, invalidDevice, deviceNotAllowed:
		kind, advice = KindDevice, ": look at nvidia-smi whether the GPU is there, and free for use"
	case unsupportedPTX, noTranslator:
		kind, advice = KindDriver, ": the driver is older than the instruction, install a newer one"
	}
	return fail(kind, "%s failed (%s)%s", what, errorText(code), advice)
}

// hardware is an opened device as the driver knows it.
type hardware struct{ context unsafe.Pointer }

// facts are what the driver says of a device.
type facts struct {
	name       string
	capability Capability
	version    int // 1000·major + 10·minor of the CUDA that the driver can run
	blocks     int // the most of one launch
}

func openHardware(device int) (hardware, facts, error) {
	if err := startDriver(); err != nil {
		return hardware{}, facts{}, err
	}
	var count, version, major, minor, grid C.int
	if code := C.hawkeyeCudaDevices(&count, &version); code != 0 {
		return hardware{}, facts{}, failed(KindDriver, "asking the driver for its devices", code)
	}
	switch {
	case count == 0:
		return hardware{}, facts{}, fail(KindDevice, "NVIDIA's driver is installed and sees no GPU: look at nvidia-smi and at CUDA_VISIBLE_DEVICES")
	case device < 0 || device >= int(count):
		return hardware{}, facts{}, fail(KindDevice, "there is no device %d: the driver sees %d, numbered from 0", device, int(count))
	}
	var name [256]C.char
	if code := C.hawkeyeCudaAbout(C.int(device), &name[0], C.size_t(len(name)), &major, &minor, &grid); code != 0 {
		return hardware{}, facts{}, failed(KindDevice, "asking the driver about the device", code)
	}
	var h hardware
	if code := C.hawkeyeCudaRetain(C.int(device), &h.context); code != 0 {
		return hardware{}, facts{}, failed(KindDevice, "opening the device", code)
	}
	return h, facts{C.GoString(&name[0]), Capability{int(major), int(minor)}, int(version), int(grid)}, nil
}

func (h hardware) close(device int) error {
	return failed(KindDevice, "closing the device", C.hawkeyeCudaRelease(C.int(device)))
}

// kernel is a translated text.
type kernel struct{ module, function unsafe.Pointer }

func (h hardware) load(name, text string) (kernel, error) {
	source, start := C.CString(text), C.CString(entry)
	defer C.free(unsafe.Pointer(source))
	defer C.free(unsafe.Pointer(start))
	const logSize = 16 << 10
	log := (*C.char)(C.calloc(logSize, 1)) // the driver keeps its address for the length of the call
	defer C.free(unsafe.Pointer(log))
	var k kernel
	code := C.hawkeyeCudaLoadKernel(h.context, source, start, &k.module, &k.function, log, logSize)
	if code == 0 {
		return k, nil
	}
	what := "translating the kernel of " + name
	if said := strings.TrimSpace(C.GoString(log)); said != "" {
		what += ", of which the driver says \"" + strings.Join(strings.Fields(said), " ") + "\","
	}
	return kernel{}, failed(KindCompile, what, code)
}

func (h hardware) unload(k kernel) error {
	return failed(KindRun, "unloading a kernel", C.hawkeyeCudaUnload(h.context, k.module))
}

func (h hardware) allocate(size int) (uint64, error) {
	var memory C.uint64_t
	code := C.hawkeyeCudaAllocate(h.context, C.size_t(size), &memory)
	return uint64(memory), failed(KindMemory, "taking memory of the device", code)
}

func (h hardware) free(memory uint64) error {
	return failed(KindRun, "giving memory back", C.hawkeyeCudaFree(h.context, C.uint64_t(memory)))
}

// run answers one call. The slices are of the sizes that the kernel reads and writes, none of them empty.
func (h hardware) run(name string, k kernel, blocks, threads int, memory *[4]uint64, a, b, c, d []byte) error {
	var at [4]C.uint64_t
	for i, m := range memory {
		at[i] = C.uint64_t(m)
	}
	var stage C.int
	code := C.hawkeyeCudaRun(h.context, k.function, C.uint32_t(blocks), C.uint32_t(threads), &at[0],
		unsafe.Pointer(&a[0]), unsafe.Pointer(&b[0]), unsafe.Pointer(&c[0]), unsafe.Pointer(&d[0]),
		C.size_t(len(a)), C.size_t(len(b)), C.size_t(len(c)), &stage)
	what := [...]string{"copying the operands of ", "running ", "copying the answers of "}[stage] + name
	return failed(KindRun, what, code)
}
