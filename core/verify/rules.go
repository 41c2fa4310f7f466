package verify

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/plan"
	"github.com/hawkeye-audit/hawkeye/core/profile"
)

// candidate is a profile that may explain a case.
type candidate struct {
	profile *profile.Profile
	slices  int // of a split that was searched for, else 0
}

// choice is what the kernel names say: the family, and the profiles to try in order.
type choice struct {
	family     string
	candidates []candidate
	searched   bool   // several candidates: one that agrees must agree on enough elements
	uncertain  bool   // such kernels are known to walk k in further ways (serial or strided split-K) that have no plan yet
	unknown    string // why no candidate is given
}

// rule maps a kernel name to a family. Every rule was measured on an H200 with cuBLAS 13.1.0.3 (docs/arithmetic.md).
type rule struct {
	family  string
	pattern *regexp.Regexp // of the main kernel; its groups "tile", "op" and "letters" fill the fields of recognized
	// uncertain: the name does not say whether one launch splits K in a way that has no plan yet.
	uncertain bool
	build     func(c *cases.Case, r *recognized) (plans []plan.Plan, stepName string)
}

// recognized is a case's kernel list, taken apart.
type recognized struct {
	main string
	tile int    // k of a tile where the name has it, else 0
	op   string // instruction in the name: 1688, 16816, 161616, …
	// letters are nvjet's formats.
	letters string
	reduce  string        // the splitKreduce_kernel, "" for none
	global  bool          // a separate epilogue kernel
	work    format.Format // workspace format of splitKreduce
	ninth   string        // its 9th template argument
}

var rules = []rule{
	// The letters are the formats (h f16, t bf16, q e4m3, r e5m2, s f32) of f8 operands, of the addend or 16-bit operands,
	// of the sum and of the output. Only the combinations seen are taken: another sum (hhh) would round otherwise.
	{"nvjet", regexp.MustCompile(`^nvjet_sm90_(?P<letters>hsh|hss|tst|tss|sss|(?:qq|qr|rq)(?:hsh|tst|sss))_`), false, buildNvjet},
	{"cutlass integer", regexp.MustCompile(`^cutlass::Kernel2<cutlass_\w+?_(?P<op>i161616)gemm_s8_`), false, buildInteger},
	{"cutlass f64", regexp.MustCompile(`^cutlass::Kernel2<cutlass_80_tensorop_(?P<op>d884)gemm_\d+x\d+_(?P<tile>\d+)x\d+_`), true, buildCutlassChain},
	{"cutlass simt", regexp.MustCompile(`^cutlass::Kernel2<cutlass_\d+_(?P<op>simt_sgemm)_\d+x\d+_(?P<tile>\d+)x\d+_`), true, buildCutlassChain},
	{"cutlass f16 accumulation", regexp.MustCompile(`^cutlass::Kernel2<cutlass_\d+_(?:wmma_)?tensorop_h(?P<op>1688|16816|161616)gemm_\d+x\d+(?:_(?P<tile>\d+)x\d+)?_`), true, buildCutlass},
	{"cutlass", regexp.MustCompile(`^cutlass::Kernel2<cutlass_\d+_(?:wmma_)?tensorop_(?:bf16_|f16_)?s(?P<op>1688|16816|161616)gemm_(?:bf16_|f16_)?\d+x\d+(?:_(?P<tile>\d+)x\d+)?_`), true, buildCutlass},
	{"xmma chain", regexp.MustCompile(`^sm80_xmma_gemm_f(?:16f16|32f32)_f32f32_f32_\w+?_tilesize\d+x\d+x(?P<tile>\d+)_\w+?_ffma_`), true, buildXmmaChain},
	{"xmma f64", regexp.MustCompile(`^sm90_xmma_gemm_f64f64_f64f64_f64_\w+?_tilesize\d+x\d+x(?P<tile>\d+)_`), true, buildXmmaChain},
	{"xmma tf32", regexp.MustCompile(`^sm(?:80|90)_xmma_gemm_f32f32_tf32f32_f32_\w+?_tilesize\d+x\d+x(?P<tile>\d+)_`), true, buildXmmaTensor},
	{"xmma f16 accumulation", regexp.MustCompile(`^sm90_xmma_gemm_f16f16_f16f16_f16_\w+?_tilesize\d+x\d+x(?P<tile>\d+)_`), true, buildXmmaTensor},
	{"gemv2N", regexp.MustCompile(`^gemv2N_kernel<`), false, buildChain},
	{"gemmk1", regexp.MustCompile(`^gemmk1_kernel<`), false, buildChain},
	{"magma", regexp.MustCompile(`^magma_\w*gemmEx_kernel<`), false, buildChain},
}

// unplanned families are recognised but have no plan in this version.
var unplanned = []struct {
	family, why string
	pattern     *regexp.Regexp
}{
	{"gemvx", "lanes and their merging tree", regexp.MustCompile(`gemvx::kernel`)},
	{"gemvNSP", "lanes and their merging tree", regexp.MustCompile(`^gemvNSP_kernel`)},
	{"gemv2T", "lanes and their merging tree", regexp.MustCompile(`^gemv2T_kernel`)},
	{"gemmSN", "chunks and lanes", regexp.MustCompile(`^gemmSN_`)},
	{"dot", "blocks, threads and two reductions", regexp.MustCompile(`^dot_kernel`)},
	{"largek", "slices of a kernel for large K", regexp.MustCompile(`sgemm_largek`)},
}

var (
	splitReduce = regexp.MustCompile(`splitKreduce_kernel<([^>]*)>`)
	// What runs beside a multiplication without changing what its rule says. Of elementwise kernels only the copy of an
	// addend into the output was seen; any other (an addition, say, or a scaling) computes something no rule knows.
	helpers = regexp.MustCompile(`splitKreduce_kernel|epilogue::impl::globalKernel|elementwise_kernel<.*direct_copy_kernel`)
	// CUTLASS kernels that accumulate in f16: h1688, h16816, h161616.
	halfAccumulation = regexp.MustCompile(`tensorop_h(?:1688|16816|161616)gemm`)
)

// choose reads the kernel names of a case.
func choose(c *cases.Case) choice {
	r := &recognized{}
	var mains []string
	for _, name := range c.Kernels {
		name = strings.TrimPrefix(name, "void ")
		if m := splitReduce.FindStringSubmatch(name); m != nil {
			r.reduce = name
			arguments := strings.Split(m[1], ",")
			if len(arguments) > 8 {
				r.work = cType(arguments[3])
				r.ninth = strings.TrimSpace(arguments[8])
			}
		}
		r.global = r.global || strings.Contains(name, "epilogue::impl::globalKernel")
		if !helpers.MatchString(name) {
			mains = append(mains, name)
		}
	}
	for _, u := range unplanned {
		for _, name := range c.Kernels {
			if u.pattern.MatchString(strings.TrimPrefix(name, "void ")) {
				return choice{family: u.family, unknown: fmt.Sprintf("the order of a %s kernel (%s) is not among this version's plans", u.family, u.why)}
			}
		}
	}
	switch {
	case len(c.Kernels) == 0:
		return choice{family: "unnamed", unknown: "no kernel name was recorded, and this version chooses plans by name"}
	case len(mains) == 0:
		return choice{family: "unnamed", unknown: "none of the recorded kernels multiplies"}
	case len(mains) > 1:
		return choice{family: "several launches", unknown: "several kernels share the multiplication (" + shorten(mains[1]) + "), an order that is not among this version's plans"}
	}
	r.main = mains[0]
	for _, rule := range rules {
		m := rule.pattern.FindStringSubmatch(r.main)
		if m == nil {
			continue
		}
		if i := rule.pattern.SubexpIndex("tile"); i >= 0 && m[i] != "" {
			var err error
			if r.tile, err = strconv.Atoi(m[i]); err != nil || r.tile < 1 || r.tile > largestTile {
				return choice{family: rule.family, unknown: "the kernel " + shorten(r.main) + " names a tile of " + m[i] + " k, which no kernel has"}
			}
		}
		if i := rule.pattern.SubexpIndex("op"); i >= 0 {
			r.op = m[i]
		}
		if i := rule.pattern.SubexpIndex("letters"); i >= 0 {
			r.letters = m[i]
		}
		plans, stepName := rule.build(c, r)
		return r.choice(c, rule.family, rule.uncertain, plans, stepName)
	}
	return choice{family: "unknown", unknown: "the kernel " + shorten(r.main) + " is of no known family"}
}

// largestTile is far above any tile's k.
const largestTile = 1 << 16

func shorten(name string) string {
	name = strings.TrimPrefix(name, "cutlass::Kernel2<") // the telling name is its argument
	if i := strings.IndexAny(name, "(<>"); i > 0 {
		name = name[:i]
	}
	return name
}

func cType(name string) format.Format {
	switch strings.TrimSpace(name) {
	case "float":
		return format.F32
	case "double":
		return format.F64
	case "__half":
		return format.F16
	case "__nv_bfloat16":
		return format.BF16
	case "int":
		return format.S32
	}
	return format.Invalid
}

// choice crosses the plans with the epilogues the names allow.
func (r *recognized) choice(c *cases.Case, family string, uncertain bool, plans []plan.Plan, stepName string) choice {
	result := choice{family: family, searched: len(plans) > 1, uncertain: uncertain || r.reduce != ""}
	if r.reduce != "" {
		result.family += " split-K"
	}
	if strings.Contains(r.main, "algo2") {
		result.family += " promoted"
	}
	if len(plans) == 0 || stepName == "" {
		result.unknown = "no plan of this version fits " + shorten(r.main)
		return result
	}
	base, err := profile.Load(stepName)
	if err != nil {
		result.unknown = err.Error()
		return result
	}
	scaling := profile.ScalingNone
	switch {
	case c.ScaleA != nil:
		scaling = profile.ScalingRow
	case c.Scalars["scale_a"].Format != format.Invalid:
		scaling = profile.ScalingTensor
	}
	forms := r.forms(c, base.Step.Result == format.F16)
	result.searched = result.searched || len(forms) > 1
	for _, p := range plans {
		for _, form := range forms {
			candidate := candidate{profile: &profile.Profile{
				SchemaVersion: profile.SchemaVersion, Step: base.Step, Plan: p,
				Epilogue:   profile.Epilogue{Out: c.Out.Format, Form: form, Scaling: scaling},
				Provenance: profile.Provenance{Source: "rule for " + family + " kernels, measured on an H200 with cuBLAS 13.1.0.3"},
			}}
			if err := candidate.profile.Validate(); err != nil { // such as a workspace in a format that the sum never has
				result.candidates, result.unknown = nil, fmt.Sprintf("the names of a %s kernel and its reduction do not go together: %v", family, err)
				return result
			}
			if p.Split != nil {
				candidate.slices = p.Split.Slices
			}
			result.candidates = append(result.candidates, candidate)
		}
	}
	return result
}

// forms lists the epilogues the kernel names allow, most likely first. half: the kernel accumulates in f16. The flag that
// allows it says nothing of a kernel: it is a setting of the whole process, which other dtypes run under too.
func (r *recognized) forms(c *cases.Case, half bool) []profile.Form {
	alpha, beta := c.Number("alpha", 1), c.Number("beta", 1)
	switch {
	case half && (alpha != 1 || beta != 1):
		return []profile.Form{profile.FormHalf}
	case c.C == nil:
		return []profile.Form{profile.FormAdd}
	case c.C.Strides[1] == 0: // a bias
		if !strings.HasPrefix(r.main, "nvjet") && (r.ninth == "__half" || r.ninth == "__nv_bfloat16") || r.global {
			return []profile.Form{profile.FormRoundThenAdd}
		}
		return []profile.Form{profile.FormAdd}
	case strings.Contains(r.main, "_badd"):
		return []profile.Form{profile.FormRoundThenAdd}
	case alpha == 1 && beta == 1:
		return []profile.Form{profile.FormAdd}
	case r.reduce != "":
		return []profile.Form{profile.FormFMABeta}
	case strings.Contains(r.main, "_bx") || strings.Contains(r.main, "_xmma_"):
		return []profile.Form{profile.FormFMAAlpha}
	case c.Op == "baddbmm": // CUTLASS in one launch: no rule was found, both forms were seen
		return []profile.Form{profile.FormFMAAlpha, profile.FormFMABeta}
	}
	return []profile.Form{profile.FormFMABeta, profile.FormFMAAlpha}
}

// maxSlices is the largest number of slices tried (343 is the largest seen).
const maxSlices = 400

// split makes a plan for every number of slices that cuts K differently, where a splitKreduce kernel ran.
func (r *recognized) split(c *cases.Case, grain int, of plan.Plan, half bool) []plan.Plan {
	if r.reduce == "" {
		return []plan.Plan{of}
	}
	_, _, _, k := c.Sizes()
	sum := format.F32
	switch {
	case c.A.Format == format.F64:
		sum = format.F64
	case half:
		sum = format.F16
	}
	workspace := r.work
	if workspace == format.Invalid {
		workspace = sum
	}
	var plans []plan.Plan
	units, last := ceilDiv(k, grain), 0
	for s := 1; s <= min(maxSlices, max(units, 1)); s++ {
		if width := ceilDiv(units, s); width != last {
			plans, last = append(plans, plan.SplitK(s, grain, of, workspace, sum)), width
		}
	}
	return plans
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// tensorSteps are the tensor core's steps with an f32 accumulator, but for f8, whose step depends on both operands.
var tensorSteps = map[format.Format]string{format.F16: "hopper/f16", format.BF16: "hopper/bf16", format.F32: "hopper/tf32"}

func buildNvjet(c *cases.Case, r *recognized) ([]plan.Plan, string) {
	if strings.Contains(r.main, "_splitK_") && r.reduce == "" {
		return nil, "" // the record lacks the kernel that merges, and with it the workspace's format
	}
	f8 := c.A.Format.Bytes() == 1
	of, grain := plan.Plain(), 64
	if f8 {
		grain = 128
	}
	if strings.Contains(r.main, "algo2") {
		of = plan.Promoted(128, of)
	}
	step := tensorSteps[c.A.Format]
	if f8 {
		step = "hopper/" + f8Name(c) + "-fast"
	}
	if letter := map[format.Format]string{format.F16: "h", format.BF16: "t", format.F32: "s"}[c.A.Format]; !strings.HasPrefix(r.letters, letter) {
		return nil, "" // a kernel of other operands than the record's
	}
	return r.split(c, grain, of, false), step
}

func f8Name(c *cases.Case) string {
	if c.A.Format == c.B.Format {
		return c.A.Format.String()
	}
	return c.A.Format.String() + "-" + c.B.Format.String()
}

func buildInteger(*cases.Case, *recognized) ([]plan.Plan, string) {
	return []plan.Plan{plan.Plain()}, "hopper/s8"
}

// defaultTile is CUTLASS' k of a tile where its name has none.
const defaultTile = 32

func buildCutlass(c *cases.Case, r *recognized) ([]plan.Plan, string) {
	tile := r.tile
	if tile == 0 {
		tile = defaultTile
	}
	step := tensorSteps[c.A.Format]
	half := c.A.Format == format.F16 && halfAccumulation.MatchString(r.main)
	switch {
	case half:
		step = "hopper/f16-f16"
	case r.op == "1688" && c.A.Format != format.F32:
		step += "-k8"
	}
	return r.split(c, cutlassGrain(c), plan.Tiled(plan.ResidueFirst, tile), half), step
}

// cutlassGrain is the unit of K that CUTLASS split-K slices are made of: 128 bytes of elements where K is a multiple of
// that and an operand is contiguous along k, else 16 bytes.
func cutlassGrain(c *cases.Case) int {
	_, _, _, k := c.Sizes()
	large := 128 / c.A.Format.Bytes()
	if k%large == 0 && (c.A.Strides[2] == 1 || c.B.Strides[1] == 1) {
		return large
	}
	return 16 / c.A.Format.Bytes()
}

func chainStep(c *cases.Case) string {
	switch c.A.Format {
	case format.F64:
		return "hopper/f64"
	case format.F16:
		return "cuda-core/f16"
	case format.BF16:
		return "cuda-core/bf16"
	}
	return "hopper/f32"
}

func buildCutlassChain(c *cases.Case, r *recognized) ([]plan.Plan, string) {
	return r.split(c, cutlassGrain(c), plan.Tiled(plan.ResidueFirst, r.tile), false), chainStep(c)
}

func buildXmmaChain(c *cases.Case, r *recognized) ([]plan.Plan, string) {
	return []plan.Plan{plan.Tiled(plan.ResidueLast, r.tile)}, chainStep(c)
}

// buildXmmaTensor: one accumulator with the residue at the end; sm80 takes it flat.
func buildXmmaTensor(c *cases.Case, _ *recognized) ([]plan.Plan, string) {
	if c.A.Format == format.F32 {
		return []plan.Plan{plan.Plain()}, "hopper/tf32"
	}
	return []plan.Plan{plan.Plain()}, "hopper/f16-f16"
}

func buildChain(c *cases.Case, _ *recognized) ([]plan.Plan, string) {
	return []plan.Plan{plan.Plain()}, chainStep(c)
}
