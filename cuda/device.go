package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"

	"github.com/hawkeye-audit/hawkeye/core/discover"
)

// Device is an opened GPU. Its methods may be called from any goroutine, and run one after another.
type Device struct {
	number  int
	facts   facts
	release string

	mu       sync.Mutex
	hardware hardware
	probes   map[*Probe]struct{} // nil: closed
}

// Open opens a GPU by its number, which counts those that CUDA_VISIBLE_DEVICES leaves, from 0. An error is an *Error and says
// what to do.
func Open(device int) (*Device, error) {
	h, f, err := openHardware(device)
	if err != nil {
		return nil, err
	}
	d := &Device{number: device, facts: f, release: driverRelease(), hardware: h, probes: map[*Probe]struct{}{}}
	if least := (Capability{7, 5}); !f.capability.AtLeast(least) {
		return nil, errors.Join(fail(KindCapability, "%s has compute capability %v, and there are kernels from %v (Turing) on", f.name, f.capability, least), d.Close())
	}
	return d, nil
}

// Name is as the driver gives it: "NVIDIA H200".
func (d *Device) Name() string { return d.facts.name }

// Capability is the GPU's compute capability.
func (d *Device) Capability() Capability { return d.facts.capability }

// DriverVersion is the driver's release, where the system tells it, and the CUDA version that it brings: "580.159.04 (CUDA
// 13.0)". The driver translates the kernels, and with it may change what instructions a GPU without a unit for them runs.
func (d *Device) DriverVersion() string {
	version := fmt.Sprintf("CUDA %d.%d", d.facts.version/1000, d.facts.version%1000/10)
	if d.release == "" {
		return version
	}
	return fmt.Sprintf("%s (%s)", d.release, version)
}

var releaseNumber = regexp.MustCompile(`\s(\d+\.\d+(?:\.\d+)?)\s`)

// driverRelease is the release number of the kernel's part of the driver, "" where it cannot be read.
func driverRelease() string {
	text, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return ""
	}
	if found := releaseNumber.FindSubmatch(text); found != nil {
		return string(found[1])
	}
	return ""
}

// Instructions lists what the GPU has.
func (d *Device) Instructions() []Instruction { return Instructions(d.facts.capability) }

// Find is the GPU's instruction of a name.
func (d *Device) Find(name string) (Instruction, error) { return Find(d.facts.capability, name) }

// Close frees everything, probes too. A second call does nothing.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.probes == nil {
		return nil
	}
	var failures []error
	for p := range d.probes {
		failures = append(failures, p.release())
	}
	d.probes = nil
	return errors.Join(append(failures, d.hardware.close(d.number))...)
}

// Probe is an instruction's kernel, loaded.
type Probe struct {
	device      *Device
	instruction Instruction
	kernel      kernel
	tiles       int       // that there is memory for
	memory      [4]uint64 // of the device, for a, b, c and d; 0 for none
}

// MostTiles bounds a call: so many tiles of the largest shape take a gibibyte of the device's memory.
const MostTiles = 1 << 18

// Load translates an instruction's kernel.
func (d *Device) Load(i Instruction) (*Probe, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.probes == nil:
		return nil, fail(KindArgument, "the device was closed")
	case !i.On(d.facts.capability):
		_, err := Find(d.facts.capability, i.Name)
		return nil, err
	}
	k, err := d.hardware.load(i.Name, i.PTX())
	if err != nil {
		return nil, err
	}
	p := &Probe{device: d, instruction: i, kernel: k}
	d.probes[p] = struct{}{}
	return p, nil
}

// Close gives back what the probe holds of the device. A second call does nothing, nor does one after the device's.
func (p *Probe) Close() error {
	p.device.mu.Lock()
	defer p.device.mu.Unlock()
	if _, alive := p.device.probes[p]; !alive {
		return nil
	}
	delete(p.device.probes, p)
	return p.release()
}

// release frees what is held. The caller has the lock.
func (p *Probe) release() error {
	return errors.Join(p.forget(), p.device.hardware.unload(p.kernel))
}

// forget gives the memory back.
func (p *Probe) forget() error {
	var failures []error
	for i, m := range p.memory {
		if m != 0 {
			failures = append(failures, p.device.hardware.free(m))
		}
		p.memory[i] = 0
	}
	p.tiles = 0
	return errors.Join(failures...)
}

// reserve sees that there is memory for so many tiles.
func (p *Probe) reserve(tiles int) error {
	if tiles <= p.tiles {
		return nil
	}
	if err := p.forget(); err != nil {
		return err
	}
	a, b, c := p.instruction.Sizes()
	for i, size := range []int{a, b, c, c} {
		m, err := p.device.hardware.allocate(tiles * size)
		if err != nil {
			return errors.Join(err, p.forget())
		}
		p.memory[i] = m
	}
	p.tiles = tiles
	return nil
}

// Run answers tiles at once: a, b and c hold their operands one after another, dense, row-major and little-endian, and d gets
// the results, in C's format.
func (p *Probe) Run(tiles int, a, b, c, d []byte) error {
	if tiles < 1 || tiles > MostTiles {
		return fail(KindArgument, "%d tiles: ask for 1 to %d at once", tiles, MostTiles)
	}
	sizeA, sizeB, sizeC := p.instruction.Sizes()
	for _, operand := range []struct {
		name       string
		have, want int
	}{{"a", len(a), tiles * sizeA}, {"b", len(b), tiles * sizeB}, {"c", len(c), tiles * sizeC}, {"d", len(d), tiles * sizeC}} {
		if operand.have != operand.want {
			return fail(KindArgument, "%s has %d bytes, and %d tiles of %s take %d", operand.name, operand.have, tiles, p.instruction.Name, operand.want)
		}
	}
	p.device.mu.Lock()
	defer p.device.mu.Unlock()
	if _, alive := p.device.probes[p]; !alive {
		return fail(KindArgument, "the probe of %s was closed", p.instruction.Name)
	}
	if tiles > p.device.facts.blocks {
		return fail(KindArgument, "%d tiles: the device runs at most %d at once", tiles, p.device.facts.blocks)
	}
	if err := p.reserve(tiles); err != nil {
		return err
	}
	return p.device.hardware.run(p.instruction.Name, p.kernel, tiles, p.instruction.Threads(), &p.memory, a, b, c, d)
}

// Box gives an instruction as a black box that answers so many independent tiles a call; Instruction.Signature describes it.
// closed frees what the box holds of the device; the box must not be called after it.
func (d *Device) Box(i Instruction, tiles int) (box discover.Box, signature discover.Signature, closed func() error, err error) {
	if tiles < 1 || tiles > MostTiles {
		return nil, discover.Signature{}, nil, fail(KindArgument, "%d tiles: ask for 1 to %d at once", tiles, MostTiles)
	}
	p, err := d.Load(i)
	if err != nil {
		return nil, discover.Signature{}, nil, err
	}
	box = func(ctx context.Context, c *discover.Call) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return p.Run(tiles, c.A, c.B, c.C, c.D)
	}
	return box, i.Signature(tiles), p.Close, nil
}
