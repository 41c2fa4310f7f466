package verify

import "github.com/hawkeye-audit/hawkeye/core/cases/casestest"

type call = casestest.Call

// slicings counts how many ways there are to cut K into at most 400 slices of whole units: every number of slices that
// gives another width.
func slicings(k, grain int) int {
	units := (k + grain - 1) / grain
	widths := map[int]bool{}
	for s := 1; s <= 400 && s <= units; s++ {
		widths[(units+s-1)/s] = true
	}
	return len(widths)
}
