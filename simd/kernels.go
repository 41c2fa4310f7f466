package simd

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/klauspost/cpuid/v2"
)

// Level is an instruction set to run on.
type Level int32

// The levels. Oracle has no kernels here: package gemm then runs the scalar model of package step for every element.
const (
	Oracle   Level = 0
	Portable Level = 1
	AVX2     Level = 2
	AVX512   Level = 3
)

// Environment is the variable that chooses the initial level by name.
const Environment = "HAWKEYE_ISA"

var levelNames = map[Level]string{Oracle: "oracle", Portable: "portable", AVX2: "avx2", AVX512: "avx512"}

// String is the level's name, as HAWKEYE_ISA takes it.
func (l Level) String() string { return levelNames[l] }

// Levels lists what this processor can run, best first.
func Levels() []Level {
	levels := []Level{Portable, Oracle}
	if assembly {
		if cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3, cpuid.F16C) {
			levels = append([]Level{AVX2}, levels...)
		}
		if cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL, cpuid.AVX2, cpuid.FMA3, cpuid.F16C) {
			levels = append([]Level{AVX512}, levels...)
		}
	}
	return levels
}

// ParseLevel turns a name ("auto", "avx512", "avx2", "portable", "oracle") into a level this processor has.
func ParseLevel(name string) (Level, error) {
	levels := Levels()
	if name == "auto" || name == "" {
		return levels[0], nil
	}
	names := make([]string, len(levels))
	for i, l := range levels {
		if names[i] = l.String(); names[i] == name {
			return l, nil
		}
	}
	return 0, fmt.Errorf("instruction set %q: this processor runs auto, %s", name, strings.Join(names, ", "))
}

var active atomic.Int32

func init() {
	l, err := ParseLevel(os.Getenv(Environment))
	if err != nil { // a wrong name must not go unseen, but a library must not stop its host either
		fmt.Fprintf(os.Stderr, "hawkeye: %s: %v; using %v\n", Environment, err, Levels()[0])
		l = Levels()[0]
	}
	active.Store(int32(l))
}

// Active is the level calls use unless they name one.
func Active() Level { return Level(active.Load()) }

// SetActive changes it for the whole process; the level must be one of Levels.
func SetActive(l Level) { active.Store(int32(l)) }
