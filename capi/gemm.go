package main

/*
#include "boundary.h"
*/
import "C"

import (
	"context"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

//export hawkeyeGoGemm
func hawkeyeGoGemm(args *C.hawkeye_gemm_args, host C.hawkeye_float_state, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		if err := sizedStruct("args", unsafe.Pointer(args), unsafe.Sizeof(*args), false); err != nil {
			return err
		}
		converted, err := gemmArgs(args)
		if err != nil {
			return err
		}
		converted.Progress = progressFunc(args.progress, args.progress_user, host)
		return gemm.Run(context.Background(), converted)
	})
}

// gemmArgs converts everything but the callback. What fits together, and what shares memory, is for the core to say.
func gemmArgs(args *C.hawkeye_gemm_args) (*gemm.Args, error) {
	if args.reserved != 0 {
		return nil, fail(statusArgument, "the reserved field of args is %d: set it to 0", args.reserved)
	}
	p, err := findProfile(args.profile)
	if err != nil {
		return nil, err
	}
	out := &gemm.Args{Profile: p, Alpha: float64(args.alpha), Beta: float64(args.beta)}
	if out.Threads, err = threadCount(args.threads); err != nil {
		return nil, err
	}
	for _, m := range []struct {
		what string
		from *C.hawkeye_matrix
		to   **gemm.Matrix
	}{{"a", args.a, &out.A}, {"b", args.b, &out.B}, {"c", args.c, &out.C}, {"d", args.d, &out.D}} {
		if m.from == nil && m.what == "c" {
			continue
		}
		if *m.to, err = viewMatrix(m.what, m.from); err != nil {
			return nil, err
		}
	}
	if out.ScaleA, err = copyArray("scale_a", (*float32)(args.scale_a), int64(args.scale_a_count)); err != nil {
		return nil, err
	}
	if out.ScaleB, err = copyArray("scale_b", (*float32)(args.scale_b), int64(args.scale_b_count)); err != nil {
		return nil, err
	}
	if out.Rows, err = selection("rows", args.rows, args.row_count); err != nil {
		return nil, err
	}
	if out.Columns, err = selection("columns", args.columns, args.column_count); err != nil {
		return nil, err
	}
	return out, nil
}

// selection converts chosen rows or columns: nil for all, which an empty choice is not.
func selection(what string, from *C.int64_t, count C.int64_t) ([]int, error) {
	values, err := copyArray(what, (*int64)(from), int64(count))
	if values == nil {
		return nil, err
	}
	chosen := make([]int, len(values))
	for i, v := range values {
		if chosen[i] = int(v); int64(chosen[i]) != v { // int has 32 bits here
			return nil, fail(statusShape, "%s[%d] is %d, more than any matrix has", what, i, v)
		}
	}
	return chosen, nil
}
