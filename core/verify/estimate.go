package verify

import (
	"math"
	"sync"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// Estimate is what a verdict is expected to cost, before the work begins.
type Estimate struct {
	Candidates   int     // plans to try
	MultiplyAdds uint64  // of one whole replay
	Seconds      float64 // of the search and one whole replay, at the rate measured so far in this process
}

// speeds are multiply-adds a second and thread, by the kind of arithmetic, learnt from whole replays of this process.
var speeds = struct {
	sync.Mutex
	rate map[speedKey]float64
}{rate: map[speedKey]float64{}}

type speedKey struct {
	kind      step.Kind
	a, result format.Format
}

func speedKeyOf(p *profile.Profile) speedKey { return speedKey{p.Step.Kind, p.Step.A, p.Step.Result} }

// firstRate is assumed until something was measured: about what one core without AVX-512 does.
const firstRate = 4e9

// learn notes the speed of a whole replay that was long enough to tell.
func learn(p *profile.Profile, multiplyAdds uint64, took time.Duration, threads int) {
	if took < 5*time.Millisecond {
		return
	}
	rate := float64(multiplyAdds) / took.Seconds() / float64(threads)
	speeds.Lock()
	defer speeds.Unlock()
	key := speedKeyOf(p)
	if old := speeds.rate[key]; old > 0 {
		rate = math.Sqrt(old * rate) // one odd replay is not to carry all the weight
	}
	speeds.rate[key] = rate
}

func rateOf(p *profile.Profile) float64 {
	speeds.Lock()
	defer speeds.Unlock()
	if rate := speeds.rate[speedKeyOf(p)]; rate > 0 {
		return rate
	}
	return firstRate
}

// threads is how many goroutines a whole replay uses.
func (o Options) threads() int {
	if o.Threads > 0 {
		return o.Threads
	}
	return gemm.DefaultThreads()
}

// estimate is the work of a search among candidates and one whole replay. The search computes a few elements of each
// candidate on one thread, in kernel tiles that are larger than the elements asked for.
func (r *replay) estimate(candidates []candidate) Estimate {
	e := Estimate{Candidates: len(candidates), MultiplyAdds: r.cost()}
	if len(candidates) == 0 {
		return e
	}
	rate := rateOf(candidates[0].profile)
	e.Seconds = float64(e.MultiplyAdds) / (rate * float64(r.options.threads()))
	if len(candidates) > 1 {
		const searched = 128 // multiply-adds of so many elements a candidate, unused places of kernel tiles included
		e.Seconds += float64(len(candidates)) * float64(min(searched, 4*r.count)) * float64(r.k) / rate
	}
	return e
}
