package rules

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

// Role is what a kernel does for a multiplication.
type Role string

// The roles.
const (
	RoleMultiply Role = "multiply" // computes products
	RoleMerge    Role = "merge"    // adds partial sums: splitKreduce, reduce_1Block
	RoleEpilogue Role = "epilogue" // adds a bias after the output was rounded: epilogue::impl::globalKernel
	RoleScale    Role = "scale"    // prepares the output, before a largek kernel
	RolePrepare  Role = "prepare"  // writes down where the matrices of each group lie
	RoleCopy     Role = "copy"     // copies an addend into the output
	RoleUnknown  Role = "unknown"  // anything else: what it computes is not known
)

// Kernel is a kernel name taken apart. What a name does not tell is left zero.
type Kernel struct {
	Text    string // the name without return type, parameters and the wrapping cutlass::Kernel2<>; template arguments stay
	Family  string // nvjet, cutlass, xmma, gemvx, gemvNSP, gemv2T, gemv2N, gemmk1, gemmSN_NN, gemmSN_TN, magma, dot, largek, splitKreduce, cutlass grouped, …; "" if unknown
	Role    Role
	Tile    [3]int   // m, n, k of a block's tile, 0 where not in the name
	Op      string   // the instruction: 1688, 16816, 161616, d884, simt_sgemm, i161616, ffma, tensor16x8x8, …
	Letters string   // nvjet's formats of operands, addend or operand, sum, output: hsh, tst, qqtst, …
	Warps   string   // xmma's warps a block, such as 2x2x1
	Threads int      // of a block, where a template argument tells
	Args    []string // template arguments at the top level
	// Of a splitKreduce_kernel: the format partial sums are stored in, and its 9th argument, the addend's format, which tells
	// how a bias is added.
	WorkFormat, Ninth format.Format
	// Of a name's words: nvjet's splitK, algo2 (promoted sums), bias, badd, bx; xmma's split_k.
	SplitK, Promoted, Bias, RoundedAddend, ScaledAddend bool
}

// family recognises one; patterns may have the groups tm, tn, tile (k), op, letters, warps.
type family struct {
	name    string
	role    Role
	pattern *regexp.Regexp
	threads int // 1-based template argument that holds the threads of a block, 0 for none
	log2    bool
}

var families = []family{
	{name: "nvjet", role: RoleMultiply, pattern: regexp.MustCompile(`^nvjet_sm\d+_(?P<letters>[a-z]{3,5})_(?P<tm>\d+)x(?P<tn>\d+)_(?P<tile>\d+)x\d+_`)},
	{name: "cutlass", role: RoleMultiply, pattern: regexp.MustCompile(`^cutlass_\d+_(?:(?:wmma_)?tensorop_(?:bf16_|f16_)?)?(?P<op>simt_[a-z]+gemm|[a-z]\d+)(?:gemm)?_(?:[a-z]\w*?_)?(?P<tm>\d+)x(?P<tn>\d+)(?:_(?P<tile>\d+)x\d+)?`)},
	{name: "xmma", role: RoleMultiply, pattern: regexp.MustCompile(`^sm\d+_xmma_gemm_\w+?_tilesize(?P<tm>\d+)x(?P<tn>\d+)x(?P<tile>\d+)(?:_stage\d+)?_warp(?:group)?size(?P<warps>\d+x\d+x\d+)(?:_(?P<op>ffma|tensor\d+x\d+x\d+))?`)},
	{name: "gemvx", role: RoleMultiply, pattern: regexp.MustCompile(`^internal::gemvx::kernel<`), threads: 11, log2: true},
	{name: "gemvNSP", role: RoleMultiply, pattern: regexp.MustCompile(`^gemvNSP_kernel<`), threads: 8},
	{name: "gemv2T", role: RoleMultiply, pattern: regexp.MustCompile(`^gemv2T_kernel_val<`), threads: 7},
	{name: "gemv2N", role: RoleMultiply, pattern: regexp.MustCompile(`^gemv2N_kernel<`), threads: 7},
	{name: "gemmk1", role: RoleMultiply, pattern: regexp.MustCompile(`^gemmk1_kernel<`), threads: 3},
	{name: "gemmSN_NN", role: RoleMultiply, pattern: regexp.MustCompile(`^gemmSN_NN_kernel<`), threads: 2},
	{name: "gemmSN_TN", role: RoleMultiply, pattern: regexp.MustCompile(`^gemmSN_TN_kernel(?:_half)?<`), threads: 2},
	{name: "magma", role: RoleMultiply, pattern: regexp.MustCompile(`^magma_\w*gemmEx_kernel<`)},
	{name: "dot", role: RoleMultiply, pattern: regexp.MustCompile(`^dot_kernel<`), threads: 2},
	{name: "largek", role: RoleMultiply, pattern: regexp.MustCompile(`^sgemm_largek_lds64<`)},
	{name: "reduce_1Block", role: RoleMerge, pattern: regexp.MustCompile(`^reduce_1Block_kernel<`), threads: 2},
	{name: "splitKreduce", role: RoleMerge, pattern: regexp.MustCompile(`^cublasLt::splitKreduce_kernel<`)},
	{name: "globalKernel", role: RoleEpilogue, pattern: regexp.MustCompile(`^cublasLt::epilogue::impl::globalKernel<`)},
	// torch's grouped products: CUTLASS 3 templates, whose names a profiler leaves as the linker has them.
	{name: "cutlass grouped", role: RoleMultiply, pattern: regexp.MustCompile(`^(?:_ZN7cutlass13device_kernelI|cutlass::device_kernel<).*enable_3x_kernel_for_sm9x.*GroupProblemShape.*MMA_(?P<tm>\d+)x(?P<tn>\d+)x(?P<tile>\d+)_(?P<op>F32\w+)_SS`)},
	{name: "prepare grouped", role: RolePrepare, pattern: regexp.MustCompile(`^at::cuda::detail::prepare_grouped_gemm_data<`)},
	{name: "scal", role: RoleScale, pattern: regexp.MustCompile(`^scal_kernel<`)},
	// Of elementwise kernels only the copy of an addend into the output was seen; any other (an addition, say, or a
	// scaling) computes something no rule knows.
	{name: "copy", role: RoleCopy, pattern: regexp.MustCompile(`elementwise_kernel<.*direct_copy_kernel`)},
}

// Parse takes a kernel name apart as a profiler prints it. A name of no known family is no error: its role is unknown.
func Parse(name string) Kernel {
	k := Kernel{Text: clean(name), Role: RoleUnknown}
	k.Args = arguments(k.Text)
	for _, f := range families {
		m := f.pattern.FindStringSubmatch(k.Text)
		if m == nil {
			continue
		}
		k.Family, k.Role = f.name, f.role
		group := func(name string) string {
			if i := f.pattern.SubexpIndex(name); i >= 0 {
				return m[i]
			}
			return ""
		}
		k.Op, k.Letters, k.Warps = group("op"), group("letters"), group("warps")
		for i, name := range []string{"tm", "tn", "tile"} {
			k.Tile[i] = size(group(name))
		}
		if f.threads > 0 && f.threads <= len(k.Args) {
			if k.Threads = size(k.Args[f.threads-1]); f.log2 && k.Threads > 0 && k.Threads < 16 {
				k.Threads = 1 << k.Threads
			}
		}
		if f.name == "splitKreduce" && len(k.Args) >= 9 {
			k.WorkFormat, k.Ninth = cType(k.Args[3]), cType(k.Args[8])
		}
		break
	}
	words := strings.Split(k.Text, "_")
	has := func(word string) bool {
		for _, w := range words {
			if w == word {
				return true
			}
		}
		return false
	}
	switch k.Family {
	case "nvjet":
		k.SplitK, k.Promoted = has("splitK"), has("algo2")
		k.Bias, k.RoundedAddend, k.ScaledAddend = has("bias"), has("badd"), has("bx")
	case "xmma":
		k.SplitK = strings.Contains(k.Text, "_execute_split_k_kernel")
		k.ScaledAddend = true
	}
	return k
}

// largestSize is far above any tile, and keeps sums of sizes far from overflow.
const largestSize = 1 << 16

// size reads a positive number of a name; 0 where it is none, or one that no kernel has.
func size(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > largestSize {
		return 0
	}
	return n
}

var wrapper = regexp.MustCompile(`^cutlass::Kernel2<(\w+)>`)

// clean leaves out what says nothing: the return type, the parameter list, the template that wraps CUTLASS kernels.
func clean(name string) string {
	name = strings.TrimPrefix(strings.TrimSpace(name), "void ")
	// A return type such as std::enable_if<!(false), void>::type stands before the first space outside brackets.
	if strings.HasPrefix(name, "std::enable_if<") {
		if i := strings.Index(name, ">::type "); i > 0 {
			name = name[i+len(">::type "):]
		}
	}
	depth := 0
	for i, c := range name {
		switch c {
		case '<':
			depth++
		case '>':
			depth--
		case '(':
			if depth == 0 {
				name = name[:i]
			}
		}
		if depth == 0 && c == '(' {
			break
		}
	}
	if m := wrapper.FindStringSubmatch(name); m != nil {
		name = m[1]
	}
	return name
}

// arguments splits the template arguments at the top level.
func arguments(text string) []string {
	open := strings.IndexByte(text, '<')
	if open < 0 {
		return nil
	}
	var list []string
	depth, start := 0, open+1
	for i := open; i < len(text); i++ {
		switch text[i] {
		case '<', '(':
			depth++
		case '>', ')':
			if depth--; depth == 0 {
				return append(list, strings.TrimSpace(text[start:i]))
			}
		case ',':
			if depth == 1 {
				list, start = append(list, strings.TrimSpace(text[start:i])), i+1
			}
		}
	}
	return nil // the name is cut off
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

// short is what of a name tells it from others in a message.
func (k *Kernel) short() string {
	if i := strings.IndexAny(k.Text, "(<>"); i > 0 {
		return k.Text[:i]
	}
	return k.Text
}
