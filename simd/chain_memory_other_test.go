//go:build !linux

package simd

import (
	"testing"
	"unsafe"
)

// guardedMemory has no guards here: see its twin.
type guardedMemory struct{ usable []byte }

func newGuardedMemory(t testing.TB, size int) *guardedMemory {
	return &guardedMemory{make([]byte, size)}
}

func (g *guardedMemory) take(n int, atEnd bool) unsafe.Pointer {
	if atEnd {
		return unsafe.Pointer(unsafe.SliceData(g.usable[len(g.usable)-n:]))
	}
	return unsafe.Pointer(unsafe.SliceData(g.usable[:n]))
}
