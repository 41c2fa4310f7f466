package gemm

import (
	"context"
	"errors"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// TestVanishingScalars: an alpha that a kernel is given as 0 is 0, though the call's double is not; the least that stays is
// taken.
func TestVanishingScalars(t *testing.T) {
	for _, c := range []struct {
		name        string
		form        profile.Form
		alpha, beta float64
		refused     bool
	}{
		{"hopper/f16", profile.FormFMAAlpha, 1e-60, 1, true},
		{"hopper/f16", profile.FormFMAAlpha, 1, -1e-60, false},
		{"hopper/f16", profile.FormFMAAlpha, 0x1p-150, 1, true}, // a tie, to even
		{"hopper/f16", profile.FormFMAAlpha, 0x1.8p-150, 1, false},
		{"hopper/f64", profile.FormFMAAlpha, 1e-60, 1e-60, false},
	} {
		loaded, err := profile.Load(c.name)
		if err != nil {
			t.Fatal(err)
		}
		p := *loaded
		p.Epilogue.Form = c.form
		matrix := func(f format.Format) *Matrix { return Dense(make([]byte, f.Bytes()), f, 1, 1, 1) }
		err = Run(context.Background(), &Args{Profile: &p, A: matrix(p.Step.A), B: matrix(p.Step.B), C: matrix(p.Epilogue.Out),
			D: matrix(p.Epilogue.Out), Alpha: c.alpha, Beta: c.beta})
		var refusal *Error
		if refused := errors.As(err, &refusal) && refusal.Kind == KindUnsupported; refused != c.refused || err != nil && !refused {
			t.Errorf("%s %s, alpha %g beta %g: %v", c.name, c.form, c.alpha, c.beta, err)
		}
	}
}
