package simd

import "runtime"

//go:generate go run -C _gen ./floats -out ../floats_amd64.s -stubs ../floats_amd64.go -pkg simd

// defaultMXCSR rounds to nearest even, keeps subnormals and masks every exception.
const defaultMXCSR = 0x1F80

// WithDefaultFloats runs f with the default floating-point environment and puts the thread's own back afterwards. A host
// may have set another rounding or flush-to-zero, and threads it starts, the Go runtime's among them, inherit that; f
// stays on this thread, and goroutines it starts are not covered.
func WithDefaultFloats(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if saved := readMXCSR(); saved != defaultMXCSR {
		writeMXCSR(defaultMXCSR)
		defer writeMXCSR(saved)
	}
	f()
}
