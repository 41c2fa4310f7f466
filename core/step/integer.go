package step

// integer sums products of 8-bit integers in s32; a sum beyond it wraps, so that grouping does not matter.
func (p Params) integer(a, b []uint64, c uint64) uint64 {
	sum := uint32(c)
	for k := range a {
		x, y := p.A.Decode(a[k]), p.B.Decode(b[k])
		product := uint32(x.Sig * y.Sig)
		if x.Neg != y.Neg {
			product = -product
		}
		sum += product
	}
	return uint64(sum)
}
