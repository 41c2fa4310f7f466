/* boundary.h - what the C and the Go side of the library share. */
#ifndef HAWKEYE_BOUNDARY_H
#define HAWKEYE_BOUNDARY_H

#include "hawkeye.h"

/* A thread's floating-point control state as the caller had it (MXCSR on x86-64, FPCR on arm64, else 0). */
typedef uint64_t hawkeye_float_state;

/* Calls back into the caller with its own floating-point state, and returns to Go with the default one. */
int32_t hawkeyeCallProgress(hawkeye_progress progress, void *user, uint64_t done, uint64_t total,
                            hawkeye_float_state host);

/* The same for the two callbacks of a discovery. */
int32_t hawkeyeCallMatmul(hawkeye_matmul matmul, void *user, const void *a, const void *b, const void *c, void *d,
                          const float *scale_a, const float *scale_b, uint64_t a_size, uint64_t b_size, uint64_t c_size,
                          uint64_t d_size, int64_t scale_a_count, int64_t scale_b_count, hawkeye_float_state host);
int32_t hawkeyeCallDiscoverProgress(hawkeye_discover_progress progress, void *user, const char *phase, int64_t calls,
                                    int64_t questions, int64_t done, int64_t total, hawkeye_float_state host);

#endif
