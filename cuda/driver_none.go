//go:build !cgo

package cuda

// Without cgo there is no driver: instructions and texts are all there is.

type hardware struct{}

type facts struct {
	name            string
	capability      Capability
	version, blocks int
}

type kernel struct{}

func openHardware(int) (hardware, facts, error) {
	return hardware{}, facts{}, fail(KindDriver, "this program was built without cgo, which the GPU is reached by: build it with CGO_ENABLED=1 and a C compiler")
}

func (hardware) close(int) error                                                         { return nil }
func (hardware) load(_, _ string) (kernel, error)                                        { return kernel{}, nil }
func (hardware) unload(kernel) error                                                     { return nil }
func (hardware) allocate(int) (uint64, error)                                            { return 0, nil }
func (hardware) free(uint64) error                                                       { return nil }
func (hardware) run(_ string, _ kernel, _, _ int, _ *[4]uint64, _, _, _, _ []byte) error { return nil }
