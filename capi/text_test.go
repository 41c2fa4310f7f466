package main

import (
	"testing"
	"unsafe"
)

func TestCopyText(t *testing.T) {
	const text = "aé≤z" // 1, 2, 3 and 1 bytes
	want := []string{"", "", "a", "a", "aé", "aé", "aé", "aé≤", "aé≤z", "aé≤z"}
	for size := range want {
		buffer := make([]byte, len(want)+1)
		for i := range buffer {
			buffer[i] = 0xEE
		}
		fits := copyText(unsafe.Pointer(&buffer[0]), uint64(size), text)
		if fits != (size > len(text)) {
			t.Errorf("size %d: fits is %v", size, fits)
		}
		if size > 0 {
			n := len(want[size])
			if got := string(buffer[:n]); got != want[size] || buffer[n] != 0 {
				t.Errorf("size %d: %q, then %#x", size, got, buffer[n])
			}
		}
		for i := size; i < len(buffer); i++ {
			if buffer[i] != 0xEE {
				t.Fatalf("size %d: byte %d was written", size, i)
			}
		}
	}
	if copyText(nil, 8, text) {
		t.Error("text fitted into NULL")
	}
}
