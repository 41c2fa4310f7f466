// The header in a second translation unit: what it defines must be inline.
#include <hawkeye.hpp>

bool second_unit_sees_the_library() { return hawkeye::threads() >= 1 && hawkeye::bf16{1} != hawkeye::bf16{2}; }
