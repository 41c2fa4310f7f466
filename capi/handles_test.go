package main

import (
	"sync"
	"testing"
)

func TestHandleLife(t *testing.T) {
	table := newTable[int](kindProfile)
	one, two := 1, 2
	h1, h2 := table.put(&one), table.put(&two)
	if h1 == 0 || h2 == 0 || h1 == h2 {
		t.Fatalf("handles %x and %x", h1, h2)
	}
	if table.get(h1) != &one || table.get(h2) != &two {
		t.Fatal("a handle names another object than it was given for")
	}
	if !table.remove(h1) || table.get(h1) != nil || table.remove(h1) {
		t.Fatal("a freed handle is still alive")
	}
	h3 := table.put(&one)
	if h3 == h1 || table.get(h1) != nil || table.get(h3) != &one {
		t.Fatal("a reused slot answers to its old handle")
	}
}

func TestHandleInvented(t *testing.T) {
	profiles, sets := newTable[int](kindProfile), newTable[int](kindSet)
	one := 1
	h, s := profiles.put(&one), sets.put(&one)
	for _, bad := range []handle{0, 1, ^handle(0), h + 1, h - 1, h + 1<<slotBits, h ^ 1<<63, s, handle(kindProfile) << 56} {
		if profiles.get(bad) != nil || profiles.remove(bad) {
			t.Errorf("%#x was taken for a profile", bad)
		}
	}
	if profiles.get(h) == nil {
		t.Error("the true handle died")
	}
}

func TestHandleGenerationsEnd(t *testing.T) {
	table := newTable[int](kindSet)
	one := 1
	h := table.put(&one)
	table.slots[0].generation = lastGeneration
	h = handle(kindSet)<<56 | lastGeneration<<slotBits | h&(1<<slotBits-1)
	if !table.remove(h) {
		t.Fatal("the last generation is not a handle")
	}
	if again := table.put(&one); again&(1<<slotBits-1) == h&(1<<slotBits-1) {
		t.Fatal("a slot was reused past its last generation")
	}
}

func TestHandleConcurrent(t *testing.T) {
	table := newTable[int](kindSet)
	var wait sync.WaitGroup
	for g := 0; g < 8; g++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := 0; i < 1000; i++ {
				value := g*1000 + i
				h := table.put(&value)
				if table.get(h) != &value || !table.remove(h) || table.get(h) != nil {
					t.Errorf("handle %#x", h)
				}
			}
		}()
	}
	wait.Wait()
}
