package simd

import (
	"syscall"
	"testing"
	"unsafe"
)

// guardedMemory is memory between two pages that fault, so that a packing routine which reads before or past a caller's
// matrix cannot pass.
type guardedMemory struct{ usable []byte }

func newGuardedMemory(t testing.TB, size int) *guardedMemory {
	page := syscall.Getpagesize()
	size = (size + page - 1) / page * page
	m, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	for _, guard := range [][]byte{m[:page], m[page+size:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { syscall.Munmap(m) })
	return &guardedMemory{m[page : page+size]}
}

// take gives n bytes that end (or begin) at a guard.
func (g *guardedMemory) take(n int, atEnd bool) unsafe.Pointer {
	if atEnd {
		return unsafe.Pointer(unsafe.SliceData(g.usable[len(g.usable)-n:]))
	}
	return unsafe.Pointer(unsafe.SliceData(g.usable[:n]))
}
