//go:build !amd64

package simd

// Other processors keep their default environment: no host is known to change it for threads it does not own.
func readMXCSR() uint32 { return defaultMXCSR }

func writeMXCSR(uint32) {}
