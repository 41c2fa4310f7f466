package cuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// assembler finds ptxas, which is part of CUDA and not needed but here.
func assembler(t *testing.T) string {
	if path := os.Getenv("PTXAS"); path != "" {
		return path
	}
	path, err := exec.LookPath("ptxas")
	if err != nil {
		t.Skip("the kernels are not assembled: ptxas is not on the PATH, and PTXAS does not name one")
	}
	return path
}

// Every text is taken by ptxas for the architecture that it names, and for the later ones that the assembler knows.
func TestKernelsAreAssembled(t *testing.T) {
	ptxas := assembler(t)
	help, err := exec.Command(ptxas, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	later := []string{}
	for _, gpu := range []string{"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121"} {
		if strings.Contains(string(help), "'"+gpu+"'") {
			later = append(later, gpu)
		}
	}
	if testing.Short() {
		later = nil
	}
	for _, i := range Everything() {
		t.Run(i.Name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "probe.ptx")
			if err := os.WriteFile(file, []byte(i.PTX()), 0o600); err != nil {
				t.Fatal(err)
			}
			gpus := []string{i.Target()}
			for _, gpu := range later {
				if c := capabilityOf(gpu); i.On(c) && !i.Only && c != i.Least {
					gpus = append(gpus, gpu)
				}
			}
			for _, gpu := range gpus {
				out, err := exec.Command(ptxas, "--gpu-name", gpu, "--warning-as-error", "-o", file+".cubin", file).CombinedOutput()
				if err != nil {
					t.Errorf("%s: %v\n%s", gpu, err, out)
				}
			}
		})
	}
}

// capabilityOf is that of sm_XY.
func capabilityOf(gpu string) Capability {
	n := 0
	for _, digit := range strings.TrimPrefix(gpu, "sm_") {
		n = 10*n + int(digit-'0')
	}
	return Capability{n / 10, n % 10}
}

// The offline half of a check: what PTX says holds the right instruction, once.
func TestKernelsHoldTheirInstruction(t *testing.T) {
	for _, i := range Everything() {
		text := i.PTX()
		if got := strings.Count(text, "mma.sync.aligned.") + strings.Count(text, "wgmma.mma_async."); got != 1 {
			t.Errorf("%s: %d multiplications in its kernel", i.Name, got)
		}
		parts := strings.SplitN(strings.TrimSuffix(i.Name, "-rs"), ".", 3)
		for _, part := range parts[1:] {
			if !strings.Contains(text, "."+part) {
				t.Errorf("%s: its kernel lacks %s", i.Name, part)
			}
		}
		for at, line := range strings.Split(text, "\n") {
			if strings.Contains(line, "%!") {
				t.Errorf("%s: line %d: %s", i.Name, at+1, line)
			}
		}
	}
}
