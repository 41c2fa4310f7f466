package trace

import (
	"fmt"
	"io"
	"os"
)

// folder is the trace's directory. os.Root refuses every name that would leave it, through ".." or through a link.
type folder struct{ root *os.Root }

// open opens a plain file. Links are not followed even within the folder, and what could block or never end (a pipe, a
// device) is not read.
func (f folder) open(name string) (*os.File, int64, error) {
	before, err := f.root.Lstat(name)
	if err != nil {
		return nil, 0, err
	}
	if !before.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s: is no plain file", name)
	}
	file, err := f.root.Open(name)
	if err != nil {
		return nil, 0, err
	}
	after, err := file.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = fmt.Errorf("%s: was exchanged while it was opened", name)
	}
	if err != nil {
		_ = file.Close()
		return nil, 0, err
	}
	return file, after.Size(), nil
}

// read reads a whole file of at most so many bytes.
func (f folder) read(name string, most int64) ([]byte, error) {
	file, size, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if size > most {
		return nil, fmt.Errorf("%s: has %d bytes, and at most %d are read", name, size, most)
	}
	data := make([]byte, size)
	_, err = io.ReadFull(file, data)
	return data, err
}
