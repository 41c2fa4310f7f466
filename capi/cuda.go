package main

/*
#include "boundary.h"
*/
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/discover"
	"github.com/hawkeye-audit/hawkeye/cuda"
)

// deviceAnswer is what hawkeye_cuda_about writes.
type deviceAnswer struct {
	Device       int                 `json:"device"`
	Name         string              `json:"name"`
	Capability   string              `json:"capability"`
	Driver       string              `json:"driver"`
	Instructions []instructionAnswer `json:"instructions"`
}

type instructionAnswer struct {
	Name        string `json:"name"`
	A           string `json:"a"`
	B           string `json:"b"`
	Accumulator string `json:"accumulator"`
	M           int    `json:"m"`
	N           int    `json:"n"`
	K           int    `json:"k"`
	Catalogue   string `json:"catalogue"`
}

func answerFor(i *cuda.Instruction) instructionAnswer {
	return instructionAnswer{i.Name, i.A.String(), i.B.String(), i.Accumulator.String(), i.M, i.N, i.K, i.Catalogue}
}

// withDevice opens a GPU for the length of one call.
func withDevice(device C.int32_t, use func(*cuda.Device) error) error {
	d, err := cuda.Open(int(device))
	if err != nil {
		return err
	}
	return errors.Join(use(d), d.Close())
}

//export hawkeyeGoCudaAbout
func hawkeyeGoCudaAbout(device C.int32_t, buffer *C.char, size C.size_t, needed *C.size_t, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		return withDevice(device, func(d *cuda.Device) error {
			about := deviceAnswer{Device: int(device), Name: d.Name(), Capability: d.Capability().String(), Driver: d.DriverVersion()}
			for _, i := range d.Instructions() {
				about.Instructions = append(about.Instructions, answerFor(&i))
			}
			text, err := json.Marshal(about)
			if err != nil {
				return err
			}
			return returnText(string(text), buffer, size, needed)
		})
	})
}

//export hawkeyeGoCudaRun
func hawkeyeGoCudaRun(device C.int32_t, name *C.char, tiles C.int64_t, a, b, c, d unsafe.Pointer, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		wanted, err := goString("the name of the instruction", name)
		if err != nil {
			return err
		}
		for _, p := range []struct {
			name string
			at   unsafe.Pointer
		}{{"a", a}, {"b", b}, {"d", d}} {
			if p.at == nil {
				return fail(statusArgument, "%s is NULL", p.name)
			}
		}
		if err := checkTiles(tiles, false); err != nil {
			return err
		}
		return withDevice(device, func(on *cuda.Device) error {
			i, err := on.Find(wanted)
			if err != nil {
				return err
			}
			probe, err := on.Load(i)
			if err != nil {
				return err
			}
			n := int(tiles)
			sizeA, sizeB, sizeC := i.Sizes()
			start := make([]byte, n*sizeC) // zeros where there is no c
			if c != nil {
				start = unsafe.Slice((*byte)(c), n*sizeC)
			}
			return probe.Run(n, unsafe.Slice((*byte)(a), n*sizeA), unsafe.Slice((*byte)(b), n*sizeB), start, unsafe.Slice((*byte)(d), n*sizeC))
		})
	})
}

// checkTiles checks a number of tiles, which may be 0 where there is a default.
func checkTiles(tiles C.int64_t, byDefault bool) error {
	switch {
	case byDefault && tiles == 0:
		return nil
	case tiles < 1 || tiles > cuda.MostTiles:
		return fail(statusArgument, "%d tiles: say 1 to %d", int64(tiles), cuda.MostTiles)
	}
	return nil
}

// instructionResult is the text of a discovery of an instruction: that of any other, and what was asked.
type instructionResult struct {
	*discover.Result
	Device      int               `json:"device"`
	Name        string            `json:"name"`
	Capability  string            `json:"capability"`
	Driver      string            `json:"driver"`
	Instruction instructionAnswer `json:"instruction"`
	Tiles       int               `json:"tiles"`
	// Comparison holds the profile, or the best one where none was certified, against the catalogue; nil where there is
	// neither.
	Comparison *cuda.Comparison `json:"comparison,omitempty"`
}

// defaultElements is how many output elements a call of an instruction answers unless the caller says otherwise: enough to
// ask many questions at once, and few enough that the replay of one call takes no time.
const defaultElements = 1 << 13

//export hawkeyeGoCudaDiscover
func hawkeyeGoCudaDiscover(device C.int32_t, name *C.char, tiles C.int64_t, options *C.hawkeye_discover_options, host C.hawkeye_float_state,
	out *C.hawkeye_discovery, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		if out == nil {
			return fail(statusArgument, "discovery is NULL")
		}
		*out = 0
		wanted, err := goString("the name of the instruction", name)
		if err != nil {
			return err
		}
		if err := checkTiles(tiles, true); err != nil {
			return err
		}
		o, err := discoverOptions(options, host)
		if err != nil {
			return err
		}
		return withDevice(device, func(d *cuda.Device) error {
			found, err := discoverInstruction(d, wanted, int(tiles), o)
			if err != nil {
				return err
			}
			found.Device = int(device)
			text, err := json.Marshal(found)
			if err != nil {
				return err
			}
			*out = C.hawkeye_discovery(discoveries.put(&discovery{found.Result, string(text)}))
			return nil
		})
	})
}

// discoverInstruction is the call without its pointers.
func discoverInstruction(d *cuda.Device, name string, tiles int, o discover.Options) (*instructionResult, error) {
	i, err := d.Find(name)
	if err != nil {
		return nil, err
	}
	if tiles == 0 {
		tiles = defaultElements / (i.M * i.N)
	}
	if o.Hardware == "" {
		o.Hardware = d.Name()
	}
	if o.Library == "" { // the driver translates the kernel
		o.Library = "driver " + d.DriverVersion()
	}
	box, signature, _, err := d.Box(i, tiles) // closed with the device
	if err != nil {
		return nil, err
	}
	result, err := discover.Run(context.Background(), signature, box, o)
	if err != nil {
		var ours *cuda.Error
		if errors.As(err, &ours) {
			return nil, ours
		}
		return nil, discoverError(err)
	}
	found := &instructionResult{Result: result, Name: d.Name(), Capability: d.Capability().String(), Driver: d.DriverVersion(),
		Instruction: answerFor(&i), Tiles: tiles}
	if p := result.Profile; p != nil || result.Best != nil {
		if p == nil {
			p = result.Best
		}
		comparison := i.Compare(p)
		found.Comparison = &comparison
	}
	return found, nil
}
