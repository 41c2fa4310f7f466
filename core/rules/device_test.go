package rules

import (
	"strings"
	"testing"
)

func TestOtherLibrary(t *testing.T) {
	for _, test := range []struct {
		device map[string]string
		want   string
	}{
		{nil, ""},
		{map[string]string{"gpu": "NVIDIA H200"}, ""},
		{map[string]string{"gpu": "NVIDIA H200", "nvidia-cublas": "13.1.0.3"}, ""},
		{map[string]string{"gpu": "NVIDIA H200", "nvidia-cublas": "13.4.1.3"}, "recorded with cuBLAS 13.4.1.3: the rules were measured with cuBLAS 13.1.0.3"},
		{map[string]string{"gpu": "NVIDIA H200", "nvidia-cublas": "13.4.1.3", "emulated": "h200-torch2.11"}, ""},
		{map[string]string{"gpu": "NVIDIA A100", "nvidia-cublas": "13.4.1.3"}, ""},
		{map[string]string{"device": "cpu", "nvidia-cublas": "13.4.1.3"}, ""},
	} {
		if got := OtherLibrary(test.device); got != test.want {
			t.Errorf("%v: %q, want %q", test.device, got, test.want)
		}
	}
}

func TestElsewhere(t *testing.T) {
	for _, test := range []struct {
		device map[string]string
		want   string
	}{
		{nil, ""},
		{map[string]string{}, ""},
		{map[string]string{"gpu": "NVIDIA H200"}, ""},
		{map[string]string{"gpu": "NVIDIA H200", "torch": "2.11.0", "cuda": "13.0"}, ""},
		{map[string]string{"gpu": "NVIDIA H200", "emulated": "h200-torch2.11", "device": "cpu", "cpu": "x86_64"}, ""},
		{map[string]string{"gpu": "NVIDIA H100 80GB HBM3"}, "recorded on an NVIDIA H100 80GB HBM3: the rules were measured on an NVIDIA H200"},
		{map[string]string{"gpu": "NVIDIA H200 MIG 1g.18gb"}, "recorded on an NVIDIA H200 MIG 1g.18gb: the rules were measured on an NVIDIA H200"},
		{map[string]string{"gpu": "Tesla T4"}, "recorded on a Tesla T4: the rules were measured on an NVIDIA H200"},
		{map[string]string{"gpu": "NVIDIA A100", "emulated": "a100"}, "recorded on an NVIDIA A100: the rules were measured on an NVIDIA H200"},
		{map[string]string{"device": "cpu", "cpu": "x86_64, AVX512"}, "recorded on a CPU (x86_64, AVX512): no rule is known for it"},
		{map[string]string{"device": "cpu"}, "recorded on a CPU: no rule is known for it"},
		{map[string]string{"device": "cpu", "gpu": "NVIDIA H200"}, "recorded on a CPU: no rule is known for it"},
		{map[string]string{"emulated": "h200-torch2.11", "device": "cpu"}, "recorded on a CPU: no rule is known for it"},
		{map[string]string{"torch": "2.11"}, "the record does not name the GPU: no rule is known for it"},
		{map[string]string{"gpu": "x\x1b[2J\n"}, "recorded on a x[2J: the rules were measured on an NVIDIA H200"},
	} {
		if got := Elsewhere(test.device); got != test.want {
			t.Errorf("%v: %q, want %q", test.device, got, test.want)
		}
	}
	if got := Elsewhere(map[string]string{"gpu": strings.Repeat("é", 1e6)}); len(got) > 300 {
		t.Errorf("%d bytes", len(got))
	}
}
