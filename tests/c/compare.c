/* Comparison of bits: counts, the first and the worst difference, distances, NaN, zeros of both signs, layouts. */
#include "test.h"

int main(void) {
    uint32_t x[12], y[12];
    hawkeye_comparison c = {.struct_size = sizeof c};
    for (uint32_t i = 0; i < 12; i++)
        x[i] = y[i] = 0x3F800000u + i;
    x[11] = y[11] = 0x7FFFFFFF; /* NaN is equal to its own bits */
    hawkeye_matrix e = test_matrix(x, HAWKEYE_F32, 3, 4), a = test_matrix(y, HAWKEYE_F32, 3, 4);
    CHECK_STATUS(HAWKEYE_OK, hawkeye_compare(&e, &a, &c, M_));
    CHECK(c.count == 12 && c.differing == 0 && c.first == -1 && c.worst == -1 && c.worst_ulps == 0);
    CHECK_STATUS(HAWKEYE_OK, hawkeye_compare(&e, &e, &c, M_));
    CHECK(c.differing == 0);

    y[2] += 3;
    y[7] -= 40;
    y[9] ^= 1;
    CHECK_STATUS(HAWKEYE_OK, hawkeye_compare(&e, &a, &c, M_));
    CHECK(c.count == 12 && c.differing == 3 && c.first == 2 && c.worst == 7 && c.worst_ulps == 40);
    CHECK(c.first_expected == x[2] && c.first_actual == y[2] && c.worst_expected == x[7] && c.worst_actual == y[7]);

    y[4] = 0x7FFFFFFF; /* against a number, no distance is larger */
    CHECK_STATUS(HAWKEYE_OK, hawkeye_compare(&e, &a, &c, M_));
    CHECK(c.differing == 4 && c.worst == 4 && c.worst_ulps == UINT64_MAX);

    memcpy(y, x, sizeof y);
    y[11] = 0x7FC00000; /* another NaN is another pattern */
    CHECK_STATUS(HAWKEYE_OK, hawkeye_compare(&e, &a, &c, M_));
    CHECK(c.differing == 1 && c.first == 11);

    x[0] = 0, y[0] = 0x80000000u; /* zeros differ in their sign */
    y[11] = x[11];
    CHECK_STATUS(HAWKEYE_OK, hawkeye_compare(&e, &a, &c, M_));
    CHECK(c.differing == 1 && c.first == 0 && c.first_actual == 0x80000000u);

    /* a transpose of the same memory: the index is that of the shape */
    memcpy(y, x, sizeof y);
    y[1 * 4 + 2] ^= 1; /* row 1, column 2 is row 2, column 1 of the transpose: 2·3 + 1 */
    e.rows = a.rows = 4, e.columns = a.columns = 3, e.row_stride = a.row_stride = 1, e.column_stride = a.column_stride = 4;
    CHECK_STATUS(HAWKEYE_OK, hawkeye_compare(&e, &a, &c, M_));
    CHECK(c.differing == 1 && c.first == 7);

    /* one matrix against a batch that repeats it; and nothing */
    e = test_matrix(x, HAWKEYE_F32, 3, 4), a = test_matrix(y, HAWKEYE_F32, 3, 4);
    e.batch = a.batch = 5;
    CHECK_STATUS(HAWKEYE_OK, hawkeye_compare(&e, &a, &c, M_));
    CHECK(c.count == 60 && c.differing == 5 && c.first == 6);
    e.rows = a.rows = 0, e.data = a.data = NULL;
    CHECK_STATUS(HAWKEYE_OK, hawkeye_compare(&e, &a, &c, M_));
    CHECK(c.count == 0 && c.differing == 0 && c.first == -1);

    /* every width */
    static const struct {
        hawkeye_format format;
        size_t size;
    } formats[] = {{HAWKEYE_F16, 2}, {HAWKEYE_BF16, 2}, {HAWKEYE_F64, 8}, {HAWKEYE_E4M3, 1}, {HAWKEYE_E5M2, 1}, {HAWKEYE_S8, 1}, {HAWKEYE_S32, 4}};
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
        uint64_t u[7], v[7];
        memset(u, 0x31, sizeof u);
        memcpy(v, u, sizeof v);
        ((unsigned char *)v)[5 * formats[f].size]++; /* little endian: one unit in the last place of element 5 */
        e = test_matrix(u, formats[f].format, 1, 7), a = test_matrix(v, formats[f].format, 1, 7);
        CHECK_STATUS(HAWKEYE_OK, hawkeye_compare(&e, &a, &c, M_));
        CHECK(c.count == 7 && c.differing == 1 && c.first == 5 && c.worst == 5 && c.worst_ulps == 1);
    }
    return test_result();
}
