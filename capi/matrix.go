package main

/*
#include "boundary.h"
*/
import "C"

import (
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/format"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// The enum of the header and the Go constants are one numbering; this does not compile where they differ.
var _ = [1]struct{}{}[(C.HAWKEYE_F16-int(format.F16))|(C.HAWKEYE_BF16-int(format.BF16))|
	(C.HAWKEYE_TF32-int(format.TF32))|(C.HAWKEYE_F32-int(format.F32))|(C.HAWKEYE_F64-int(format.F64))|
	(C.HAWKEYE_E4M3-int(format.E4M3))|(C.HAWKEYE_E5M2-int(format.E5M2))|(C.HAWKEYE_E4M3FNUZ-int(format.E4M3FNUZ))|
	(C.HAWKEYE_E5M2FNUZ-int(format.E5M2FNUZ))|(C.HAWKEYE_E2M1-int(format.E2M1))|(C.HAWKEYE_E3M2-int(format.E3M2))|
	(C.HAWKEYE_E2M3-int(format.E2M3))|(C.HAWKEYE_E8M0-int(format.E8M0))|(C.HAWKEYE_UE4M3-int(format.UE4M3))|
	(C.HAWKEYE_S8-int(format.S8))|(C.HAWKEYE_U8-int(format.U8))|(C.HAWKEYE_S32-int(format.S32))]

// viewMatrix converts a hawkeye_matrix. Its sizes, strides and data are checked by the core, which reads nothing before.
func viewMatrix(what string, m *C.hawkeye_matrix) (*gemm.Matrix, error) {
	if err := sizedStruct(what, unsafe.Pointer(m), unsafe.Sizeof(*m), false); err != nil {
		return nil, err
	}
	if m.reserved != 0 {
		return nil, fail(statusArgument, "the reserved field of %s is %d: set it to 0", what, m.reserved)
	}
	f := format.Format(m.format)
	if int64(f) != int64(m.format) || f.Info().Bytes == 0 {
		return nil, fail(statusFormat, "%s has format %d, which is no hawkeye_format", what, m.format)
	}
	view := &gemm.Matrix{Data: m.data, Format: f}
	for _, field := range []struct {
		to   *int
		from C.int64_t
	}{{&view.Offset, m.offset}, {&view.Batch, m.batch}, {&view.Rows, m.rows}, {&view.Columns, m.columns},
		{&view.BatchStride, m.batch_stride}, {&view.RowStride, m.row_stride}, {&view.ColumnStride, m.column_stride}} {
		if *field.to = int(field.from); C.int64_t(*field.to) != field.from { // int has 32 bits here
			return nil, fail(statusShape, "%s has a size or a stride of %d, more than this machine addresses", what, int64(field.from))
		}
	}
	return view, nil
}

// copyArray copies a caller's array, nil where the pointer is NULL. A copy, because an array that changed during the call
// would escape the core's checks.
func copyArray[T any](what string, data *T, count int64) ([]T, error) {
	switch {
	case count < 0:
		return nil, fail(statusArgument, "%s has %d elements", what, count)
	case data == nil && count > 0:
		return nil, fail(statusArgument, "%s is NULL but has %d elements", what, count)
	case count > largestArray:
		return nil, fail(statusShape, "%s has %d elements, more than any matrix has rows or columns", what, count)
	case data == nil:
		return nil, nil
	}
	return append([]T{}, unsafe.Slice(data, count)...), nil
}

// largestArray bounds an array in elements; 2^40 rows are no matrix that a machine holds.
const largestArray = 1 << 40
