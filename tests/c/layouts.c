/* One product in every layout: transposed, padded, reversed, repeated, batched, selected, empty. The same bits as the
 * dense one each time, and no byte outside of the output touched. */
#include "test.h"

enum { M = 37, N = 45, K = 131, POOL = 1 << 18 };

static uint16_t a_dense[M * K], b_dense[K * N], a_pool[POOL], b_pool[POOL];
static float d_dense[M * N], d_pool[POOL];

static void scatter(uint16_t *pool, hawkeye_matrix *m, const uint16_t *dense) {
    memset(pool, 0xFF, POOL * sizeof *pool); /* NaN: one read outside would show */
    m->data = pool;
    for (int64_t x = 0; x < m->batch; x++)
        for (int64_t i = 0; i < m->rows; i++)
            for (int64_t j = 0; j < m->columns; j++)
                pool[m->offset + x * m->batch_stride + i * m->row_stride + j * m->column_stride] = dense[i * m->columns + j];
}

/* Every element of d is that of the dense product, and everything else in the pool is as it was. */
static void check_output(const hawkeye_matrix *d, const int64_t *rows, const int64_t *columns, int line) {
    static unsigned char expected[POOL][sizeof(float)];
    memset(expected, 0xAA, sizeof expected);
    for (int64_t x = 0; x < d->batch; x++)
        for (int64_t i = 0; i < d->rows; i++)
            for (int64_t j = 0; j < d->columns; j++)
                memcpy(expected[d->offset + x * d->batch_stride + i * d->row_stride + j * d->column_stride],
                       &d_dense[(rows ? rows[i] : i) * N + (columns ? columns[j] : j)], sizeof(float));
    if (memcmp(expected, d_pool, sizeof expected) != 0) {
        fprintf(stderr, "%s:%d: another output\n", __FILE__, line);
        test_failures++;
    }
}

int main(void) {
    hawkeye_profile p = test_profile("hopper/bf16");
    test_fill_bf16(a_dense, M * K, 1);
    test_fill_bf16(b_dense, K * N, 2);
    hawkeye_matrix a = test_matrix(a_dense, HAWKEYE_BF16, M, K), b = test_matrix(b_dense, HAWKEYE_BF16, K, N),
                   d = test_matrix(d_dense, HAWKEYE_F32, M, N);
    hawkeye_gemm_args args = test_args(p, &a, &b, &d);
    CHECK_STATUS(HAWKEYE_OK, hawkeye_gemm(&args, M_));
    int distinct = 0;
    for (int i = 1; i < M * N; i++)
        distinct += memcmp(&d_dense[i], &d_dense[i - 1], sizeof(float)) != 0;
    CHECK(distinct > M * N / 2); /* it did compute something */

    /* rows, columns of the operand in memory: offset, row stride, column stride */
    static const int64_t layouts[][5] = {
        /* A: row, column; B: row, column; extra columns of D */
        {K, 1, N, 1, 0},       {1, M, N, 1, 3},      {K, 1, 1, K, 1},      {1, M, 1, K, 0},       {K + 5, 1, N + 11, 1, 7},
        {2 * K, 2, 3, 3 * K, 2}, {-K, 1, N, -1, 5},  {-1, -M, -1, -K, 0},  {K, -1, -N, 1, 13},    {300, 2, 5, 700, 1},
    };
    for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++) {
        const int64_t *s = layouts[l];
        for (int flip = 0; flip < 4; flip++) { /* of the output: rows, columns reversed */
            a = test_matrix(NULL, HAWKEYE_BF16, M, K), b = test_matrix(NULL, HAWKEYE_BF16, K, N);
            d = test_matrix(d_pool, HAWKEYE_F32, M, N);
            a.row_stride = s[0], a.column_stride = s[1], b.row_stride = s[2], b.column_stride = s[3];
            a.offset = (s[0] < 0 ? -s[0] * (M - 1) : 0) + (s[1] < 0 ? -s[1] * (K - 1) : 0) + 17;
            b.offset = (s[2] < 0 ? -s[2] * (K - 1) : 0) + (s[3] < 0 ? -s[3] * (N - 1) : 0) + 31;
            int64_t row = N + s[4], column = 1;
            if (l % 3 == 1) /* a transposed output */
                row = 1, column = M + s[4];
            d.row_stride = flip & 1 ? -row : row;
            d.column_stride = flip & 2 ? -column : column;
            d.offset = (flip & 1 ? row * (M - 1) : 0) + (flip & 2 ? column * (N - 1) : 0) + 5;
            scatter(a_pool, &a, a_dense);
            scatter(b_pool, &b, b_dense);
            memset(d_pool, 0xAA, sizeof d_pool);
            args = test_args(p, &a, &b, &d);
            CHECK_STATUS(HAWKEYE_OK, hawkeye_gemm(&args, M_));
            check_output(&d, NULL, NULL, __LINE__);

            /* the same in a batch of 3 that shares both operands */
            a.batch = b.batch = d.batch = 3;
            d.batch_stride = (row > column ? row * M : column * N) + 9;
            memset(d_pool, 0xAA, sizeof d_pool);
            CHECK_STATUS(HAWKEYE_OK, hawkeye_gemm(&args, M_));
            check_output(&d, NULL, NULL, __LINE__);

            /* and chosen rows and columns of it, out of order and repeated */
            static const int64_t rows[] = {36, 0, 17, 17, 3}, columns[] = {44, 1, 0, 43, 20, 21, 22, 44};
            args.rows = rows, args.row_count = d.rows = 5;
            memset(d_pool, 0xAA, sizeof d_pool);
            d.columns = N;
            CHECK_STATUS(HAWKEYE_OK, hawkeye_gemm(&args, M_));
            check_output(&d, rows, NULL, __LINE__);
            args.columns = columns, args.column_count = d.columns = 8;
            memset(d_pool, 0xAA, sizeof d_pool);
            CHECK_STATUS(HAWKEYE_OK, hawkeye_gemm(&args, M_));
            check_output(&d, rows, columns, __LINE__);
            args.rows = NULL, args.row_count = 0, d.rows = M;
            memset(d_pool, 0xAA, sizeof d_pool);
            CHECK_STATUS(HAWKEYE_OK, hawkeye_gemm(&args, M_));
            check_output(&d, NULL, columns, __LINE__);
        }
    }

    /* nothing to compute: nothing is read or written, wherever the pointers point */
    for (int zero = 0; zero < 3; zero++)
        for (int null = 0; null < 2; null++) {
            int64_t size[3] = {M, N, 2};
            size[zero] = 0;
            a = test_matrix(a_dense, HAWKEYE_BF16, size[0], K), b = test_matrix(b_dense, HAWKEYE_BF16, K, size[1]);
            d = test_matrix(null ? NULL : (void *)d_pool, HAWKEYE_F32, size[0], size[1]);
            a.batch = b.batch = d.batch = size[2];
            d.batch_stride = INT64_MAX, d.row_stride = INT64_MIN, d.column_stride = 0;
            args = test_args(p, &a, &b, &d);
            memset(d_pool, 0xAA, sizeof d_pool);
            CHECK_STATUS(HAWKEYE_OK, hawkeye_gemm(&args, M_));
            d.batch = 0;
            check_output(&d, NULL, NULL, __LINE__);
        }
    static const int64_t none[1] = {0};
    a = test_matrix(a_dense, HAWKEYE_BF16, M, K), b = test_matrix(b_dense, HAWKEYE_BF16, K, N);
    d = test_matrix(NULL, HAWKEYE_F32, 0, N);
    args = test_args(p, &a, &b, &d);
    args.rows = none;
    CHECK_STATUS(HAWKEYE_OK, hawkeye_gemm(&args, M_));

    /* K = 0 without an addend is zero, and may be given as NULL */
    a = test_matrix(NULL, HAWKEYE_BF16, M, 0), b = test_matrix(NULL, HAWKEYE_BF16, 0, N);
    d = test_matrix(d_pool, HAWKEYE_F32, M, N);
    args = test_args(p, &a, &b, &d);
    memset(d_pool, 0xAA, sizeof d_pool);
    CHECK_STATUS(HAWKEYE_OK, hawkeye_gemm(&args, M_));
    memset(d_dense, 0, sizeof d_dense);
    check_output(&d, NULL, NULL, __LINE__);
    return test_result();
}
