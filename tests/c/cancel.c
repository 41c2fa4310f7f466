/* Progress: on the calling thread, growing, and a wish to stop is obeyed soon. */
#include "test.h"

#include <pthread.h>
#include <time.h>

struct watch {
    pthread_t caller;
    uint64_t done, total;
    int calls, stop_after, foreign, backwards, nested;
};

static int32_t progress(void *user, uint64_t done, uint64_t total) {
    struct watch *w = user;
    hawkeye_profile p = 0;
    w->calls++;
    w->foreign += !pthread_equal(pthread_self(), w->caller);
    w->backwards += done < w->done || done > total || (w->total != 0 && total != w->total);
    w->done = done;
    w->total = total;
    /* the library may be called from here */
    w->nested += hawkeye_profile_load("hopper/bf16", &p, NULL, 0) == HAWKEYE_OK && hawkeye_profile_free(p, NULL, 0) == HAWKEYE_OK;
    return w->stop_after != 0 && w->calls >= w->stop_after;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(void) {
    hawkeye_profile p = test_profile("hopper/bf16");
    enum { SIDE = 256 };
    static uint16_t column[SIDE];
    static float out[SIDE * SIDE];
    test_fill_bf16(column, SIDE, 3);
    if (strcmp(hawkeye_instruction_set(), "oracle") == 0) /* looks up between elements only, and these are long */
        CHECK_STATUS(HAWKEYE_OK, hawkeye_set_instruction_set("auto", M_));
    /* 2^44 multiply-adds out of 256 numbers: hours of work, stopped at the second call */
    hawkeye_matrix a = test_matrix(column, HAWKEYE_BF16, SIDE, (int64_t)1 << 28), b = test_matrix(column, HAWKEYE_BF16, (int64_t)1 << 28, SIDE),
                   d = test_matrix(out, HAWKEYE_F32, SIDE, SIDE);
    a.row_stride = 1, a.column_stride = 0, b.row_stride = 0, b.column_stride = 1;
    for (int threads = 1; threads <= 2; threads++) {
        struct watch w = {.caller = pthread_self(), .stop_after = 2};
        hawkeye_gemm_args args = test_args(p, &a, &b, &d);
        args.threads = threads;
        args.progress = progress;
        args.progress_user = &w;
        double start = now();
        CHECK_STATUS(HAWKEYE_ERROR_CANCELLED, hawkeye_gemm(&args, M_));
        double took = now() - start;
        CHECK(w.calls == 2 && w.foreign == 0 && w.backwards == 0 && w.nested == 2);
        CHECK(w.total == (uint64_t)1 << 44);
        CHECK(took < 10); /* about 0.2 s; generous, for a loaded machine */
    }

    /* one that is let finish: the right result, and done never past total */
    struct watch w = {.caller = pthread_self()};
    a.columns = b.rows = 64;
    hawkeye_gemm_args args = test_args(p, &a, &b, &d);
    args.progress = progress;
    args.progress_user = &w;
    CHECK_STATUS(HAWKEYE_OK, hawkeye_gemm(&args, M_));
    CHECK(w.foreign == 0 && w.backwards == 0 && w.nested == w.calls);
    return test_result();
}
