/* boundary.h - what the C and the Go side of the library share. */
#ifndef HAWKEYE_BOUNDARY_H
#define HAWKEYE_BOUNDARY_H

#include "hawkeye.h"

/* A thread's floating-point control state as the caller had it (MXCSR on x86-64, FPCR on arm64, else 0). */
typedef uint64_t hawkeye_float_state;

/* Calls back into the caller with its own floating-point state, and returns to Go with the default one. */
int32_t hawkeyeCallProgress(hawkeye_progress progress, void *user, uint64_t done, uint64_t total,
                            hawkeye_float_state host);

#endif
