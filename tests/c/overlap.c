/* Which outputs are refused for sharing memory, and which are not. The Go tests of core/gemm hold the rule against
 * enumeration; here is what a C caller sees. */
#include "test.h"

enum { M = 6, N = 5, K = 7 };

int main(void) {
    static uint16_t a_data[M * K], b_data[K * N];
    static uint16_t pool[4096];
    hawkeye_profile p = test_profile("hopper/bf16");
    test_fill_bf16(a_data, M * K, 1);
    test_fill_bf16(b_data, K * N, 2);
    const hawkeye_matrix A = test_matrix(a_data, HAWKEYE_BF16, M, K), B = test_matrix(b_data, HAWKEYE_BF16, K, N),
                         D = test_matrix(pool, HAWKEYE_BF16, M, N);
    hawkeye_matrix a, b, d, c;
    hawkeye_gemm_args args;
#define CASE(status, change)                                                                                           \
    do {                                                                                                               \
        a = A, b = B, d = D, c = D;                                                                                    \
        args = test_args(p, &a, &b, &d);                                                                               \
        change;                                                                                                        \
        CHECK_STATUS(status, hawkeye_gemm(&args, M_));                                                                 \
    } while (0)
    CASE(HAWKEYE_OK, (void)0);
    /* d and itself */
    CASE(HAWKEYE_ERROR_OVERLAP, d.row_stride = 0);
    CASE(HAWKEYE_ERROR_OVERLAP, d.row_stride = N - 1);
    CASE(HAWKEYE_ERROR_OVERLAP, d.column_stride = 0);
    CASE(HAWKEYE_ERROR_OVERLAP, (d.row_stride = 2, d.column_stride = 3));
    CASE(HAWKEYE_ERROR_OVERLAP, (a.batch = b.batch = d.batch = 2, d.batch_stride = 0));
    CASE(HAWKEYE_ERROR_OVERLAP, (a.batch = b.batch = d.batch = 2, d.batch_stride = N));
    CASE(HAWKEYE_OK, (a.batch = b.batch = d.batch = 2, d.batch_stride = N, d.row_stride = 2 * N)); /* batches interleaved */
    CASE(HAWKEYE_OK, (a.batch = b.batch = d.batch = 2, d.batch_stride = M * N, d.row_stride = 1, d.column_stride = M));
    CASE(HAWKEYE_OK, (d.offset = M * N - 1, d.row_stride = -N, d.column_stride = -1));
    /* d and what is read */
    CASE(HAWKEYE_ERROR_OVERLAP, d.data = a_data);
    CASE(HAWKEYE_ERROR_OVERLAP, d.data = b_data + K * N - 1);
    CASE(HAWKEYE_OK, (a.data = pool + 100, d.data = pool + 100 - M * N));
    CASE(HAWKEYE_ERROR_OVERLAP, (a.data = pool + 100, d.data = pool + 100 - M * N + 1));
    CASE(HAWKEYE_OK, (a.data = pool + 100, d.data = pool + 100 + M * K));
    CASE(HAWKEYE_ERROR_OVERLAP, (a.data = pool + 100, d.data = pool + 100 + M * K - 1));
    CASE(HAWKEYE_ERROR_OVERLAP, args.c = &c); /* in place */
    CASE(HAWKEYE_OK, (c.data = pool + M * N, args.c = &c));
    CASE(HAWKEYE_ERROR_OVERLAP, (c.data = pool + M * N - 1, c.row_stride = 0, args.c = &c)); /* a bias */
    /* columns side by side in one buffer, even and odd elements, and both with the output in the middle */
    CASE(HAWKEYE_OK, (a.data = pool, a.row_stride = 100, d.data = pool + K, d.row_stride = 100));
    CASE(HAWKEYE_ERROR_OVERLAP, (a.data = pool, a.row_stride = 100, d.data = pool + K - 1, d.row_stride = 100));
    CASE(HAWKEYE_OK, (a.data = pool + N, a.row_stride = 100, b.data = pool + N + K, b.row_stride = 100, d.row_stride = 100));
    CASE(HAWKEYE_OK, (a.data = pool, a.row_stride = 50, a.column_stride = 2, d.data = pool + 1, d.row_stride = 50, d.column_stride = 2));
    CASE(HAWKEYE_ERROR_OVERLAP, (a.data = pool, a.row_stride = 50, a.column_stride = 2, d.data = pool + 2, d.row_stride = 50, d.column_stride = 2));
    CASE(HAWKEYE_OK, (a.batch = b.batch = d.batch = 3, a.data = pool, d.data = pool + M * K, a.batch_stride = d.batch_stride = M * K + M * N));
    /* a selection is read before anything is written */
    int64_t *index = (int64_t *)(void *)pool;
    CASE(HAWKEYE_OK, (index[0] = 0, args.rows = index, args.row_count = 1, d.rows = 1));
    return test_result();
}
