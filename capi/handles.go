package main

import "sync"

// A handle names an object on the Go side by number, so that no Go pointer leaves the library and a stale or invented
// number is an error instead of a crash:
//
//	bits 63…56  kind of object, so that a set is not taken for a profile
//	bits 55…32  generation of the slot, changed at every reuse
//	bits 31…0   slot number + 1, so that 0 is never a handle
type handle uint64

// kind is the type of object a handle names.
type kind uint8

const (
	kindProfile   kind = 1
	kindSet       kind = 2
	kindDiscovery kind = 3
)

const (
	slotBits       = 32
	generationBits = 24
	lastGeneration = 1<<generationBits - 1
)

type slot[T any] struct {
	object     *T
	generation uint32
}

// table holds the objects of one kind. It is safe for use by several goroutines; an object taken from it stays alive
// until its user is done, even when the handle is freed meanwhile.
type table[T any] struct {
	kind  kind
	mu    sync.RWMutex
	slots []slot[T]
	free  []uint32
}

func newTable[T any](k kind) *table[T] { return &table[T]{kind: k} }

func (t *table[T]) put(object *T) handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	var i uint32
	if n := len(t.free); n > 0 {
		i, t.free = t.free[n-1], t.free[:n-1]
	} else {
		i = uint32(len(t.slots))
		t.slots = append(t.slots, slot[T]{generation: 1})
	}
	t.slots[i].object = object
	return handle(t.kind)<<(slotBits+generationBits) | handle(t.slots[i].generation)<<slotBits | handle(i+1)
}

// find returns the slot of a live handle, or nil. The caller holds the lock.
func (t *table[T]) find(h handle) (uint32, *slot[T]) {
	i := uint64(h&(1<<slotBits-1)) - 1
	if kind(h>>(slotBits+generationBits)) != t.kind || i >= uint64(len(t.slots)) {
		return 0, nil
	}
	s := &t.slots[i]
	if s.object == nil || s.generation != uint32(h>>slotBits)&lastGeneration {
		return 0, nil
	}
	return uint32(i), s
}

// get returns the object, or nil for a handle that is not alive.
func (t *table[T]) get(h handle) *T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if _, s := t.find(h); s != nil {
		return s.object
	}
	return nil
}

// remove ends a handle's life and reports whether it was alive.
func (t *table[T]) remove(h handle) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, s := t.find(h)
	if s == nil {
		return false
	}
	s.object = nil
	if s.generation < lastGeneration { // a slot that has used up its generations is never given out again
		s.generation++
		t.free = append(t.free, i)
	}
	return true
}
