package main

import (
	"errors"
	"testing"
	"unsafe"
)

func TestSizedStruct(t *testing.T) {
	type sized struct {
		size uint64
		body [6]uint64
	}
	const known = 24
	check := func(size uint64, output bool, set int) error {
		s := sized{size: size}
		for i := range s.body {
			s.body[i] = 0
		}
		if set >= 0 {
			s.body[set] = 1 << 56
		}
		err := sizedStruct("x", unsafe.Pointer(&s), known, output)
		if output && err == nil {
			for i, v := range s.body {
				inTail := (i+1)*8 >= known && (i+2)*8 <= int(size)
				if want := i == set && !inTail; (v != 0) != want {
					t.Errorf("size %d: body %d is %#x", size, i, v)
				}
			}
		}
		return err
	}
	for _, c := range []struct {
		size   uint64
		output bool
		set    int
		ok     bool
	}{
		{0, false, -1, false}, {23, false, -1, false}, {24, false, -1, true}, {24, false, 2, true}, {56, false, -1, true},
		{56, false, 5, false}, {56, false, 2, false}, {48, false, 5, true}, {56, true, 5, true}, {48, true, 5, true},
		{56, true, 2, true}, {4097, true, -1, false}, {1 << 63, false, -1, false},
	} {
		err := check(c.size, c.output, c.set)
		var f *failure
		if (err == nil) != c.ok || err != nil && (!errors.As(err, &f) || f.status != statusArgument) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if sizedStruct("x", nil, known, false) == nil {
		t.Error("NULL was accepted")
	}
}
