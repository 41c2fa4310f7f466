package step

// exact sums products and accumulator without error and rounds once. With one product it is the fused multiply-add of CUDA
// cores and of the f64 tensor core; with a group's it is one reading of CDNA1.
func (p Params) exact(terms []term) uint64 {
	if result, found := p.special(terms); found {
		return result
	}
	return p.round(total(terms))
}
