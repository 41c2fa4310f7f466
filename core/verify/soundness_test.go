package verify

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// soundnessFlips, where it is set, is how many flips a case get, over the whole golden set: 20 take about half an hour.
const soundnessFlips = "HAWKEYE_SOUNDNESS_FLIPS"

// TestSoundness flips one low bit of one element of what a GPU computed, with the recorded hash kept and with it made anew:
// no such output may be called exact, be it that of another plan or not.
func TestSoundness(t *testing.T) {
	golden := openGolden(t)
	flips, limit, most := 3, uint64(3e6), 1<<30
	if testing.Short() {
		flips, limit, most = 1, 2e5, 60
	}
	if text := os.Getenv(soundnessFlips); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		flips, limit = n, 1<<62
	}
	list := smallCases(golden, limit, most)
	var tried, exact atomic.Int64
	start := time.Now()
	eachGolden(t, golden, list, func(i int, c *cases.Case, data []byte) {
		n, whole, err := flipped(c, data, flips, uint64(i))
		if err != nil {
			t.Error(err)
		}
		tried.Add(int64(n))
		if whole {
			exact.Add(1)
		}
	})
	t.Logf("%d cases (%d of them exact before), %d flips, in %.0f s", len(list), exact.Load(), tried.Load(), time.Since(start).Seconds())
	if tried.Load() == 0 {
		t.Error("nothing was tried")
	}
}

// flipped verifies a case with changed outputs. It returns how many were verified, and whether the true one is exact.
func flipped(original *cases.Case, data []byte, flips int, seed uint64) (tried int, exact bool, err error) {
	o := Options{Threads: 1, unexplained: true}
	v, err := ReplayCase(context.Background(), original, data, o)
	if err != nil {
		return 0, false, err
	}
	width := original.Out.Format.Bytes()
	random := rand.New(rand.NewPCG(seed, 99))
	flip := func(out []byte, element int) []byte {
		changed := bytes.Clone(out)
		changed[element*width] ^= 1 << random.IntN(3)
		return changed
	}
	check := func(what string, c *cases.Case, data []byte) error {
		tried++
		v, err := ReplayCase(context.Background(), c, data, o)
		switch {
		case err != nil:
			return err
		case v.Outcome == Exact:
			return fmt.Errorf("%s, %s: exact, by %s (%g bits, %d plans tried): %s", c.ID, what, v.Plan, v.EvidenceBits, v.PlansTried, v.Reason)
		}
		return nil
	}
	var out []byte
	if len(v.Profile) > 0 && v.Outcome != Wrong {
		if out, err = wholeOutput(original, v.Profile); err != nil {
			return tried, false, err
		}
		if hashOf(out) != original.Out.Hash {
			return tried, false, fmt.Errorf("%s: the profile found does not give the recorded hash", original.ID)
		}
	}
	for range flips {
		element := random.IntN(len(data) / width)
		if err := check(fmt.Sprintf("stored element %d flipped, hash kept", element), original, flip(data, element)); err != nil {
			return tried, false, err
		}
		if out == nil {
			continue
		}
		element = random.IntN(len(out) / width)
		changed := flip(out, element)
		c := *original
		c.Out.Hash = hashOf(changed)
		if err := check(fmt.Sprintf("element %d flipped, hash made anew", element), &c, samplesOf(changed, width)); err != nil {
			return tried, false, err
		}
	}
	return tried, v.Outcome == Exact, nil
}

// wholeOutput runs a case under a profile.
func wholeOutput(c *cases.Case, text []byte) ([]byte, error) {
	p, err := profile.Parse(text)
	if err != nil {
		return nil, err
	}
	operands, err := c.Materialize()
	if err != nil {
		return nil, err
	}
	batch, m, n, _ := c.Sizes()
	out := make([]byte, batch*m*n*c.Out.Format.Bytes())
	r := replay{c: c, operands: operands, batch: batch, m: m, n: n, options: Options{Threads: 1}}
	return out, gemm.Run(context.Background(), r.args(candidate{profile: p}, gemm.Dense(out, c.Out.Format, batch, m, n)))
}

// TestNeighboursAreNotIdentified: an output in which two plans tried differ in one element by one unit is undecided, whichever
// of them gave it, though one gives its hash.
func TestNeighboursAreNotIdentified(t *testing.T) {
	found := 0
	for seed := uint64(0); seed < 200 && found < 4; seed++ {
		x := splitCall(6, 8, 300, "normal")
		x.Out, x.Seed = x.A, seed
		c := x.Record()
		outs := map[string]bool{}
		var first, near []byte
		for slices := 1; slices <= 38; slices++ {
			out := compute(t, c, "hopper/bf16-k8", splitPlan(slices), profile.Epilogue{})
			if first == nil {
				first = out
			}
			outs[string(out)] = true
			r := replay{c: c, count: 48}
			if g := r.gapOf(first, out); g.differing == 1 && r.near(g) {
				near = out
			}
		}
		if near == nil {
			continue
		}
		found++
		for _, out := range [][]byte{first, near} {
			c.Out.Hash = hashOf(out)
			for what, data := range map[string][]byte{"samples": out, "the hash": nil} {
				v := replayed(t, c, data)
				if v.Outcome != Undecided || v.EvidenceBits >= wantedBits || v.Plan == "" {
					t.Errorf("seed %d, by %s: %s, %g bits: %s", seed, what, v.Outcome, v.EvidenceBits, v.Reason)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no two plans are neighbours: choose other sizes")
	}
}
