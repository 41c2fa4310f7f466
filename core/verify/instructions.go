package verify

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
	"github.com/hawkeye-audit/hawkeye/core/step"
)

// gpuArchitectures says which architecture, as the step catalogue's names begin, a GPU belongs to.
var gpuArchitectures = map[string]string{
	"V100": "volta", "T4": "turing", "A100": "ampere", "A2": "ampere", "L40S": "ada", "H100": "hopper", "H200": "hopper", "B200": "blackwell",
}

// stepFor finds the catalogue's step for a block of instruction results.
func stepFor(s *cases.InstructionSet) (step.Entry, error) {
	architecture, ok := gpuArchitectures[s.GPU]
	if !ok {
		return step.Entry{}, fmt.Errorf("the architecture of GPU %q is not known", s.GPU)
	}
	var best *step.Entry
	for _, entry := range step.Catalogue() {
		p := entry.Params
		if !strings.HasPrefix(entry.Name, architecture+"/") || p.A != s.Format || p.B != s.Format || p.Result != s.Out ||
			!strings.Contains(entry.Instruction, s.Instruction) {
			continue
		}
		// The instruction with the largest group that k still fills: a k4 instruction has a row of its own beside k8.
		if p.Group <= s.K && (best == nil || p.Group > best.Params.Group) {
			best = &entry
		}
	}
	if best == nil {
		return step.Entry{}, fmt.Errorf("the catalogue has no %s instruction of %v with result %v on %s", s.Instruction, s.Format, s.Out, architecture)
	}
	return *best, nil
}

// replayInstructions runs a block's rows as a batch of 1 × k by k × 1 products whose accumulators start at c.
func replayInstructions(ctx context.Context, all *cases.Instructions, index int, o Options) (Verdict, error) {
	s := &all.Sets[index]
	v := Verdict{
		ID: fmt.Sprintf("%s-%v-%v-k%d-%s", s.GPU, s.Format, s.Out, s.K, s.Instruction), Op: s.Instruction, DType: s.Format.String(),
		Out: s.Out.String(), Family: "instruction", MultiplyAdds: uint64(s.Rows) * uint64(s.K),
	}
	entry, err := stepFor(s)
	if err != nil {
		v.Outcome, v.Reason = Undecided, err.Error()
		return v, nil
	}
	if s.Rows == 0 {
		v.Outcome, v.Reason = Undecided, "the set has no rows: nothing was compared"
		return v, nil
	}
	p := &profile.Profile{
		SchemaVersion: profile.SchemaVersion, Name: entry.Name, Step: entry.Params, Plan: plan.Plain(),
		Epilogue: profile.Epilogue{Out: s.Out, Form: profile.FormAdd}, Provenance: profile.Provenance{Source: entry.Source, Doubts: entry.Doubt},
	}
	out := make([]byte, len(s.D))
	d := gemm.Dense(out, s.Out, s.Rows, 1, 1)
	start := time.Now()
	err = gemm.Run(ctx, &gemm.Args{
		Profile: p, A: gemm.Dense(s.A, s.Format, s.Rows, 1, s.K), B: gemm.Dense(s.B, s.Format, s.Rows, s.K, 1), D: d,
		Start: gemm.Dense(s.C, s.Out, s.Rows, 1, 1), Alpha: 1, Beta: 1, Threads: o.Threads, Progress: o.Progress,
	})
	if err != nil {
		return v, err
	}
	comparison, err := Compare(gemm.Dense(s.D, s.Out, s.Rows, 1, 1), d)
	if err != nil {
		return v, err
	}
	v.Seconds, v.Plan, v.ProfileID, v.Profile = time.Since(start).Seconds(), entry.Name, p.ID(), p.JSON()
	v.Outcome, v.Compared, v.Elements, v.PlansTried = Exact, "rows", s.Rows, 1
	v.EvidenceBits = float64(s.Rows * s.Out.Info().Bits)
	if comparison.Differing > 0 {
		v.Outcome, v.Reason, v.Comparison, v.EvidenceBits = Wrong, comparison.String(), &comparison, 0
	}
	return v, nil
}
