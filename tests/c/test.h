/* test.h - what the C tests share: checks that say where they failed, and inputs. A test is one program; it prints
 * nothing and returns 0 when all its checks hold. */
#ifndef HAWKEYE_TEST_H
#define HAWKEYE_TEST_H

#include <hawkeye.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int test_failures;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                  \
            test_failures++;                                                                                           \
        }                                                                                                              \
    } while (0)

/* The call, whose last two arguments are message and sizeof message, must return this status and explain itself. */
#define CHECK_STATUS(wanted, call)                                                                                     \
    do {                                                                                                               \
        char message[1024] = "unset";                                                                                  \
        hawkeye_status got_ = (call);                                                                                  \
        if (got_ != (wanted) || (got_ == HAWKEYE_OK) != (message[0] == '\0')) {                                        \
            fprintf(stderr, "%s:%d: status %d, wanted %s: \"%s\"\n", __FILE__, __LINE__, (int)got_, #wanted, message); \
            test_failures++;                                                                                           \
        }                                                                                                              \
    } while (0)

#define M_ message, sizeof message

static inline int test_result(void) {
    if (test_failures != 0)
        fprintf(stderr, "%d checks failed\n", test_failures);
    return test_failures != 0;
}

/* Random words by splitmix64. */
static inline uint64_t test_word(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* bf16 bits of ordinary size: exponents from -8 to 7. */
static inline void test_fill_bf16(uint16_t *x, size_t n, uint64_t seed) {
    for (size_t i = 0; i < n; i++) {
        uint64_t r = test_word(&seed);
        x[i] = (uint16_t)((r >> 63) << 15 | (119 + (r >> 8 & 15)) << 7 | (r >> 16 & 127));
    }
}

static inline hawkeye_matrix test_matrix(void *data, hawkeye_format format, int64_t rows, int64_t columns) {
    hawkeye_matrix m = {.struct_size = sizeof m, .data = data, .format = format, .batch = 1, .rows = rows,
                        .columns = columns, .row_stride = columns, .column_stride = 1};
    return m;
}

static inline hawkeye_profile test_profile(const char *name) {
    hawkeye_profile p = 0;
    char message[1024];
    if (hawkeye_profile_load(name, &p, message, sizeof message) != HAWKEYE_OK) {
        fprintf(stderr, "cannot load %s: %s\n", name, message);
        exit(1);
    }
    return p;
}

static inline hawkeye_gemm_args test_args(hawkeye_profile p, const hawkeye_matrix *a, const hawkeye_matrix *b,
                                          hawkeye_matrix *d) {
    hawkeye_gemm_args args = {.struct_size = sizeof args, .profile = p, .a = a, .b = b, .d = d, .alpha = 1, .beta = 1};
    return args;
}

#endif
