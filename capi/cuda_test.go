package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hawkeye-audit/hawkeye/cuda"
)

func TestErrorsOfTheGPUHaveStatuses(t *testing.T) {
	for kind, want := range map[cuda.Kind]status{
		cuda.KindDriver: statusDevice, cuda.KindDevice: statusDevice, cuda.KindCapability: statusDevice,
		cuda.KindMemory: statusDevice, cuda.KindCompile: statusDevice, cuda.KindRun: statusDevice,
		cuda.KindArgument: statusArgument, cuda.KindInstruction: statusArgument,
	} {
		err := fmt.Errorf("around it: %w", errors.Join(&cuda.Error{Kind: kind, Message: "why"}, nil))
		if got, text := statusOf(err); got != want || text != "why" {
			t.Errorf("%s: status %d, %q", kind, got, text)
		}
	}
}
