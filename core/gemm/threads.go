package gemm

import (
	"runtime"
	"sync/atomic"
)

var defaultThreads atomic.Int32

// DefaultThreads is how many threads a call uses unless it says otherwise.
func DefaultThreads() int {
	if n := defaultThreads.Load(); n > 0 {
		return int(n)
	}
	return runtime.GOMAXPROCS(0)
}

// SetDefaultThreads changes it for the process; 0 means all processors.
func SetDefaultThreads(n int) { defaultThreads.Store(int32(n)) }
