/* The caller's floating-point state (FTZ, DAZ, rounding) changes no bit of any result, at any instruction set and any
 * number of threads, and is left as it was; the progress callback runs under it. */
#include "test.h"

#include "float_state.h"

#include <pthread.h>

enum { M = SUBNORMAL_M, N = SUBNORMAL_N, K = SUBNORMAL_K };

static float a32[M * K], b32[K * N];
static uint16_t a16[M * K], b16[K * N], c16[M * N];

/* The f32 chain, tf32 and bf16 with every step of an epilogue, into one array of results. */
struct result {
    uint32_t chain[M * N], tf32[M * N];
    uint16_t bf16[M * N], scaled[M * N];
};

static int multiply(const char *name, hawkeye_format in, void *x, void *y, hawkeye_format out, void *z, void *addend, int32_t threads) {
    hawkeye_profile p = test_profile(name);
    hawkeye_matrix a = test_matrix(x, in, M, K), b = test_matrix(y, in, K, N), d = test_matrix(z, out, M, N), c = test_matrix(addend, out, M, N);
    hawkeye_gemm_args args = test_args(p, &a, &b, &d);
    char message[512] = "";
    args.threads = threads;
    if (addend)
        args.c = &c;
    hawkeye_status s = hawkeye_gemm(&args, message, sizeof message);
    if (s != HAWKEYE_OK)
        fprintf(stderr, "%s: %s\n", name, message);
    hawkeye_profile_free(p, NULL, 0);
    return s != HAWKEYE_OK;
}

static int compute(struct result *r, int32_t threads) {
    return multiply("cuda-core/f32", HAWKEYE_F32, a32, b32, HAWKEYE_F32, r->chain, NULL, threads) +
           multiply("hopper/tf32", HAWKEYE_F32, a32, b32, HAWKEYE_F32, r->tf32, NULL, threads) +
           multiply("hopper/bf16", HAWKEYE_BF16, a16, b16, HAWKEYE_BF16, r->bf16, NULL, threads) +
           multiply("hopper/bf16", HAWKEYE_BF16, a16, b16, HAWKEYE_BF16, r->scaled, c16, threads);
}

static struct result wanted;

static void *in_thread(void *state) {
    static _Thread_local struct result got;
    intptr_t failures = 0;
    state_set(*(const uint64_t *)state);
    for (int32_t threads = 1; threads <= 3; threads++) {
        memset(&got, 0xFF, sizeof got);
        failures += compute(&got, threads) != 0 || memcmp(&got, &wanted, sizeof got) != 0;
        failures += state_get() != *(const uint64_t *)state;
    }
    hawkeye_threads();
    hawkeye_instruction_set();
    failures += state_get() != *(const uint64_t *)state;
    state_set(states[0]);
    return (void *)failures;
}

static uint64_t seen;
static int32_t watch(void *user, uint64_t done, uint64_t total) {
    (void)user, (void)done, (void)total;
    seen = state_get();
    state_set(states[0]); /* a callback that changes it harms nobody */
    return 1;
}

int main(void) {
    fill_subnormal_f32(a32, M * K, 1, -64);
    fill_subnormal_f32(b32, K * N, 2, -78);
    test_fill_bf16(a16, M * K, 3);
    test_fill_bf16(b16, K * N, 4);
    test_fill_bf16(c16, M * N, 5);
    for (int i = 0; i < M * K; i++) /* down to 2^-64 … */
        a16[i] = (uint16_t)(a16[i] - (64 << 7));
    for (int i = 0; i < K * N; i++) /* … and products about the subnormals of f32 */
        b16[i] = (uint16_t)(b16[i] - (78 << 7));
    for (int i = 0; i < M * N; i++)
        c16[i] &= 0x807F;

    char sets[256], *rest = sets;
    snprintf(sets, sizeof sets, "%s", hawkeye_instruction_sets());
    struct result first;
    for (char *name = strtok_r(sets, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest)) {
        CHECK_STATUS(HAWKEYE_OK, hawkeye_set_instruction_set(name, M_));
        CHECK(compute(&wanted, 1) == 0);
        if (name == sets)
            first = wanted;
        CHECK(memcmp(&first, &wanted, sizeof first) == 0); /* the same at every instruction set */
        int subnormal = 0, subnormal16 = 0;
        for (int i = 0; i < M * N; i++) {
            subnormal += (wanted.chain[i] & 0x7F800000) == 0 && (wanted.chain[i] & 0x7FFFFF) != 0;
            subnormal16 += (wanted.bf16[i] & 0x7F80) == 0 && (wanted.bf16[i] & 0x7F) != 0;
        }
        CHECK(subnormal > M * N / 4 && subnormal16 > M * N / 16); /* flushing would show */
        for (int i = 0; i < STATES; i++) {
            pthread_t thread;
            void *failures = NULL;
            CHECK(pthread_create(&thread, NULL, in_thread, (void *)&states[i]) == 0);
            pthread_join(thread, &failures);
            if (failures != NULL) {
                fprintf(stderr, "%s, state %#llx: ", name, (unsigned long long)states[i]);
                CHECK(failures == NULL);
            }
        }
    }
    CHECK_STATUS(HAWKEYE_OK, hawkeye_set_instruction_set("auto", M_));

    /* a long product, for its progress */
    static float out[64 * 64];
    hawkeye_matrix a = test_matrix(a16, HAWKEYE_BF16, 64, (int64_t)1 << 30), b = test_matrix(b16, HAWKEYE_BF16, (int64_t)1 << 30, 64), d = test_matrix(out, HAWKEYE_F32, 64, 64);
    a.row_stride = 1, a.column_stride = 0, b.row_stride = 0, b.column_stride = 1;
    hawkeye_gemm_args args = test_args(test_profile("hopper/bf16"), &a, &b, &d);
    args.progress = watch;
    state_set(states[STATES - 1]);
    hawkeye_status s = hawkeye_gemm(&args, NULL, 0);
    uint64_t after = state_get();
    state_set(states[0]);
    CHECK(s == HAWKEYE_ERROR_CANCELLED);
    CHECK(seen == states[STATES - 1] && after == states[STATES - 1]);
    return test_result();
}
