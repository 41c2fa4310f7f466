package verify

import (
	"fmt"

	"github.com/hawkeye-audit/hawkeye/core/cases"
	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

// Case gives the record of one case of a golden set. Single instructions have none.
func (s *Set) Case(index int) (*cases.Case, error) {
	switch {
	case index < 0 || index >= s.Len():
		return nil, &gemm.Error{Kind: gemm.KindArgument, Message: fmt.Sprintf("case %d: the set has %d", index, s.Len())}
	case s.instructions != nil:
		return nil, &gemm.Error{Kind: gemm.KindArgument, Message: "the set holds results of single instructions, not of multiplications"}
	}
	return s.golden.Cases[index], nil
}
