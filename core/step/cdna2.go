package step

// pairwise adds neighbouring products, then neighbouring sums, then the accumulator; every product and every sum is
// rounded to the result's format.
func (p Params) pairwise(products []term, accumulator term) uint64 {
	level := make([]term, p.Group)
	for k := range level { // a short group is padded with +0 * +0
		if k < len(products) {
			level[k] = p.rounded(products[k])
		}
	}
	for len(level) > 1 {
		for i := range len(level) / 2 {
			level[i] = p.rounded(level[2*i], level[2*i+1])
		}
		level = level[:len(level)/2]
	}
	return p.exact([]term{level[0], accumulator})
}

// rounded is the sum of terms as a new term of the result's format.
func (p Params) rounded(terms ...term) term { return p.term(p.Result, p.exact(terms)) }
