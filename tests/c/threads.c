/* Eight threads at once, each with shapes of its own, handles of its own and a shared profile: the bits of a call alone. */
#include "test.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 6, MOST = 96 };

static hawkeye_profile shared;

struct work {
    int number, failures;
    int64_t m, n, k;
    uint16_t a[MOST * MOST], b[MOST * MOST];
    float alone[MOST * MOST], together[MOST * MOST];
};

static int multiply(struct work *w, float *out, int32_t threads, hawkeye_profile p) {
    hawkeye_matrix a = test_matrix(w->a, HAWKEYE_BF16, w->m, w->k), b = test_matrix(w->b, HAWKEYE_BF16, w->k, w->n),
                   d = test_matrix(out, HAWKEYE_F32, w->m, w->n);
    hawkeye_gemm_args args = test_args(p, &a, &b, &d);
    char message[512];
    args.threads = threads;
    if (hawkeye_gemm(&args, message, sizeof message) == HAWKEYE_OK)
        return 0;
    fprintf(stderr, "thread %d: %s\n", w->number, message);
    return 1;
}

static void *run(void *argument) {
    struct work *w = argument;
    for (int round = 0; round < ROUNDS; round++) {
        hawkeye_profile own = 0;
        hawkeye_comparison c = {.struct_size = sizeof c};
        hawkeye_matrix e = test_matrix(w->alone, HAWKEYE_F32, w->m, w->n), a = test_matrix(w->together, HAWKEYE_F32, w->m, w->n);
        memset(w->together, 0xFF, sizeof w->together);
        w->failures += hawkeye_profile_load("hopper/bf16", &own, NULL, 0) != HAWKEYE_OK;
        w->failures += multiply(w, w->together, round % 4, round % 2 ? own : shared);
        w->failures += hawkeye_compare(&e, &a, &c, NULL, 0) != HAWKEYE_OK || c.differing != 0 || c.count != w->m * w->n;
        w->failures += hawkeye_profile_free(own, NULL, 0) != HAWKEYE_OK;
    }
    return NULL;
}

int main(void) {
    static struct work work[THREADS];
    pthread_t threads[THREADS];
    shared = test_profile("hopper/bf16");
    for (int i = 0; i < THREADS; i++) {
        struct work *w = &work[i];
        w->number = i;
        w->m = 1 + 13 * i, w->n = MOST - 7 * i, w->k = 5 + 11 * i;
        test_fill_bf16(w->a, MOST * MOST, (uint64_t)i);
        test_fill_bf16(w->b, MOST * MOST, (uint64_t)(100 + i));
        CHECK(multiply(w, w->alone, 1, shared) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, run, &work[i]) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(work[i].failures == 0);
    }
    return test_result();
}
