package main

/*
#include "boundary.h"
*/
import "C"

import (
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/verify"
)

//export hawkeyeGoCompare
func hawkeyeGoCompare(expected, actual *C.hawkeye_matrix, result *C.hawkeye_comparison, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		if err := sizedStruct("result", unsafe.Pointer(result), unsafe.Sizeof(*result), true); err != nil {
			return err
		}
		e, err := viewMatrix("expected", expected)
		if err != nil {
			return err
		}
		a, err := viewMatrix("actual", actual)
		if err != nil {
			return err
		}
		c, err := verify.Compare(e, a)
		if err != nil {
			return err
		}
		result.count, result.differing = C.int64_t(c.Count), C.int64_t(c.Differing)
		result.first, result.worst = C.int64_t(c.First), C.int64_t(c.Worst)
		result.worst_ulps = C.uint64_t(c.WorstUlps)
		result.first_expected, result.first_actual = C.uint64_t(c.FirstExpected), C.uint64_t(c.FirstActual)
		result.worst_expected, result.worst_actual = C.uint64_t(c.WorstExpected), C.uint64_t(c.WorstActual)
		return nil
	})
}
