package simd

// chainProbe holds operands the compiler cannot fold.
var chainProbe = struct {
	tiny64, least64, huge64, half, one, most float64
	tiny32, half32                           float32
}{0x1.fffffffffffffp-1022, 0x1p-1074, 0x1p1000, 0.5, 1, 0x1.8p-53, 0x1.fffffep-126, 0.5}

// defaultEnvironment says whether this thread rounds to nearest even and keeps subnormals, in both precisions. A host of
// the library may have set its threads otherwise, so the portable kernels ask before they use the floating-point unit.
// The caller holds the thread.
func defaultEnvironment() bool {
	p := &chainProbe
	return p.tiny64*p.half != 0 && p.least64*p.huge64 != 0 && p.tiny32*p.half32 != 0 &&
		p.one+p.most > p.one && // three quarters of a unit in the last place: down and toward zero lose it
		p.one+p.most*p.half == p.one // three eighths: up keeps it
}
