/* Every refusal, by its status: NULL in each place, sizes of structs, formats, shapes, extents past the address space.
 * (Handles, fork, cancellation, overlap and text buffers have tests of their own; HAWKEYE_ERROR_INTERNAL is tested in Go,
 * where a fault can be made.) */
#include "test.h"

int main(void) {
    uint16_t a_data[6] = {0}, b_data[12] = {0};
    float d_data[8] = {0}, scales[2] = {1, 1};
    int64_t index[3] = {0, 1, 0};
    hawkeye_profile p = test_profile("hopper/bf16");
    hawkeye_profile_info info = {.struct_size = sizeof info};
    hawkeye_comparison comparison = {.struct_size = sizeof comparison};
    char text[65536];

    /* NULL */
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_instruction_set(NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_profile_load(NULL, &p, M_));
    CHECK(p == 0);
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_profile_load("hopper/bf16", NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_profile_parse(NULL, 0, &p, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_profile_parse("{}", 2, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_profile_parse("{}", SIZE_MAX, &p, M_));
    p = test_profile("hopper/bf16");
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_profile_get_info(p, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_gemm(NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_open(NULL, &p, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_open("x", NULL, NULL, M_));
    hawkeye_set set;
    CHECK_STATUS(HAWKEYE_ERROR_IO, hawkeye_set_open("no/such/file.jsonl", &set, NULL, M_));
    CHECK(set == 0);
    p = test_profile("hopper/bf16");

    const hawkeye_matrix A = test_matrix(a_data, HAWKEYE_BF16, 2, 3), B = test_matrix(b_data, HAWKEYE_BF16, 3, 4),
                         D = test_matrix(d_data, HAWKEYE_F32, 2, 4);
    hawkeye_matrix a, b, d;
    hawkeye_gemm_args args;
/* A good call with one thing changed. */
#define CASE(status, change)                                                                                           \
    do {                                                                                                               \
        a = A, b = B, d = D;                                                                                           \
        args = test_args(p, &a, &b, &d);                                                                               \
        change;                                                                                                        \
        CHECK_STATUS(status, hawkeye_gemm(&args, M_));                                                                 \
    } while (0)
    CASE(HAWKEYE_OK, (void)0);
    CASE(HAWKEYE_ERROR_ARGUMENT, args.a = NULL);
    CASE(HAWKEYE_ERROR_ARGUMENT, args.b = NULL);
    CASE(HAWKEYE_ERROR_ARGUMENT, args.d = NULL);
    CASE(HAWKEYE_ERROR_ARGUMENT, a.data = NULL);
    CASE(HAWKEYE_ERROR_ARGUMENT, b.data = NULL);
    CASE(HAWKEYE_ERROR_ARGUMENT, d.data = NULL);
    CASE(HAWKEYE_ERROR_ARGUMENT, args.scale_a_count = 1);
    CASE(HAWKEYE_ERROR_ARGUMENT, (args.scale_b = scales, args.scale_b_count = -1));
    CASE(HAWKEYE_ERROR_ARGUMENT, args.row_count = 1);
    CASE(HAWKEYE_ERROR_ARGUMENT, (args.columns = index, args.column_count = -3));
    CASE(HAWKEYE_ERROR_ARGUMENT, (char *)a.data + 1 == NULL ? (void)0 : (void)(a.data = (char *)a.data + 1, a.rows = 1));

    /* struct_size and reserved fields */
    CASE(HAWKEYE_ERROR_ARGUMENT, args.struct_size = 0);
    CASE(HAWKEYE_ERROR_ARGUMENT, args.struct_size -= 8);
    CASE(HAWKEYE_ERROR_ARGUMENT, args.struct_size = UINT64_MAX);
    CASE(HAWKEYE_ERROR_ARGUMENT, a.struct_size = 0);
    CASE(HAWKEYE_ERROR_ARGUMENT, b.struct_size--);
    CASE(HAWKEYE_ERROR_ARGUMENT, d.struct_size = 1 << 20);
    CASE(HAWKEYE_ERROR_ARGUMENT, args.reserved = 1);
    CASE(HAWKEYE_ERROR_ARGUMENT, d.reserved = -1);
    info.struct_size = 8;
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_profile_get_info(p, &info, M_));
    comparison.struct_size--;
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_compare(&D, &D, &comparison, M_));
    struct {
        hawkeye_gemm_args known;
        uint64_t unknown;
    } newer = {.unknown = 0};
    a = A, b = B, d = D;
    newer.known = test_args(p, &a, &b, &d);
    newer.known.struct_size = sizeof newer;
    CHECK_STATUS(HAWKEYE_OK, hawkeye_gemm(&newer.known, M_));
    newer.unknown = 1;
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_gemm(&newer.known, M_));

    /* numbers out of range */
    CASE(HAWKEYE_ERROR_ARGUMENT, args.threads = -1);
    CASE(HAWKEYE_ERROR_ARGUMENT, args.threads = INT32_MAX);
    CASE(HAWKEYE_ERROR_HANDLE, args.profile = 0);
    CASE(HAWKEYE_ERROR_HANDLE, args.profile = 12345);

    /* formats */
    CASE(HAWKEYE_ERROR_FORMAT, a.format = 0);
    CASE(HAWKEYE_ERROR_FORMAT, a.format = 18);
    CASE(HAWKEYE_ERROR_FORMAT, a.format = 256 + HAWKEYE_BF16);
    CASE(HAWKEYE_ERROR_FORMAT, a.format = -HAWKEYE_BF16);
    CASE(HAWKEYE_ERROR_FORMAT, a.format = HAWKEYE_F16);
    CASE(HAWKEYE_ERROR_FORMAT, b.format = HAWKEYE_F16);
    CASE(HAWKEYE_ERROR_FORMAT, d.format = HAWKEYE_S32);

    /* shapes */
    CASE(HAWKEYE_ERROR_SHAPE, a.columns = 2);
    CASE(HAWKEYE_ERROR_SHAPE, b.columns = 3);
    CASE(HAWKEYE_ERROR_SHAPE, d.rows = 1);
    CASE(HAWKEYE_ERROR_SHAPE, d.rows = -2);
    CASE(HAWKEYE_ERROR_SHAPE, a.rows = INT64_MIN);
    CASE(HAWKEYE_ERROR_SHAPE, b.batch = 2);
    CASE(HAWKEYE_ERROR_SHAPE, b.batch = -1);
    CASE(HAWKEYE_ERROR_SHAPE, d.batch = 0);
    CASE(HAWKEYE_ERROR_SHAPE, (args.rows = index, args.row_count = 3));
    CASE(HAWKEYE_ERROR_SHAPE, (index[1] = 2, args.rows = index, args.row_count = 2));
    CASE(HAWKEYE_ERROR_SHAPE, (index[1] = -1, args.rows = index, args.row_count = 2));
    CASE(HAWKEYE_ERROR_SHAPE, (index[1] = INT64_MIN, args.rows = index, args.row_count = 2));
    index[1] = 1;
    CASE(HAWKEYE_ERROR_SHAPE, (args.columns = index, args.column_count = 0)); /* an empty selection, not all */
    CASE(HAWKEYE_ERROR_SHAPE, args.c = &a);

    /* extents */
    CASE(HAWKEYE_ERROR_SHAPE, a.row_stride = INT64_MAX);
    CASE(HAWKEYE_ERROR_SHAPE, a.row_stride = INT64_MIN);
    CASE(HAWKEYE_ERROR_SHAPE, a.offset = INT64_MAX);
    CASE(HAWKEYE_ERROR_SHAPE, a.offset = INT64_MIN);
    CASE(HAWKEYE_ERROR_SHAPE, b.column_stride = INT64_MAX / 2);
    CASE(HAWKEYE_ERROR_SHAPE, (a.rows = INT64_MAX, d.rows = INT64_MAX));
    CASE(HAWKEYE_ERROR_SHAPE, (a.rows = (int64_t)1 << 40, d.rows = a.rows, b.columns = a.rows, d.columns = a.rows,
                               a.row_stride = 0, b.column_stride = 0));
    CASE(HAWKEYE_ERROR_SHAPE, (a.batch = b.batch = d.batch = INT64_MAX, d.batch_stride = 8));

    /* unknown arithmetic */
    CASE(HAWKEYE_ERROR_UNSUPPORTED, (args.scale_a = scales, args.scale_a_count = 1));
    {
        float addend[8] = {0};
        const hawkeye_matrix C = test_matrix(addend, HAWKEYE_F32, 2, 4);
        CASE(HAWKEYE_ERROR_UNSUPPORTED, (args.c = &C, args.alpha = 0)); /* a profile says whether a and b are read then */
        CASE(HAWKEYE_ERROR_UNSUPPORTED, (args.c = &C, args.alpha = 2));
        CASE(HAWKEYE_OK, args.alpha = 0); /* without an addend it is +0 */
    }

    /* comparison */
    comparison.struct_size = sizeof comparison;
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_compare(NULL, &D, &comparison, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_compare(&D, NULL, &comparison, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_compare(&D, &D, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_FORMAT, hawkeye_compare(&A, &D, &comparison, M_));
    d = D;
    d.rows = 1;
    CHECK_STATUS(HAWKEYE_ERROR_SHAPE, hawkeye_compare(&d, &D, &comparison, M_));

    /* names without an end are not followed for ever */
    char *endless = malloc(1 << 20);
    memset(endless, 'x', (1 << 20) - 1);
    endless[(1 << 20) - 1] = '\0';
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_profile_load(endless, &p, M_));
    free(endless);
    (void)text;
    return test_result();
}
