/* float_state.h - the floating-point control state of a thread, and states that a host may have set. */
#ifndef HAWKEYE_FLOAT_STATE_H
#define HAWKEYE_FLOAT_STATE_H

#include <fenv.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
static inline uint64_t state_get(void) { return _mm_getcsr(); }
static inline void state_set(uint64_t s) { _mm_setcsr((unsigned)s); }
/* default; FTZ and DAZ; each other rounding; all at once; with exception flags raised */
static const uint64_t states[] = {0x1F80, 0x9FC0, 0x3F80, 0x5F80, 0x7F80, 0xFFC0, 0x9FC0 | 0x3F};
#elif defined(__aarch64__)
static inline uint64_t state_get(void) {
    uint64_t s;
    __asm__ volatile("mrs %0, fpcr" : "=r"(s));
    return s;
}
static inline void state_set(uint64_t s) { __asm__ volatile("msr fpcr, %0" : : "r"(s)); }
static const uint64_t states[] = {0, 1u << 24, 1u << 22, 2u << 22, 3u << 22, 7u << 22};
#else
static inline uint64_t state_get(void) { return 0; }
static inline void state_set(uint64_t s) { (void)s; }
static const uint64_t states[] = {0};
#endif
enum { STATES = sizeof states / sizeof states[0] };

/* Inputs whose products, sums and results are subnormal or round: bits that FTZ, DAZ or another rounding would change. */
enum { SUBNORMAL_M = 33, SUBNORMAL_N = 35, SUBNORMAL_K = 65 };

static inline void fill_subnormal_f32(float *x, size_t n, uint64_t seed, int exponent) {
    for (size_t i = 0; i < n; i++) {
        uint64_t r = test_word(&seed);
        uint32_t bits = (uint32_t)(r >> 63) << 31 | (uint32_t)(exponent + 127 + (int)(r >> 40 & 3)) << 23 | (uint32_t)(r & 0x7FFFFF);
        memcpy(&x[i], &bits, sizeof bits);
    }
}
#endif
