/* Instruction probes: what is refused before a GPU is looked for; then, with a GPU, one instruction multiplies whole numbers,
 * and without one every call says what is missing. */
#include "test.h"

enum { TILES = 3, M = 16, N = 8, K = 16 };
static const char instruction[] = "mma.m16n8k16.s32.s8.s8.s32";

int main(void) {
    static char text[1 << 16];
    static int8_t a[TILES][M][K], b[TILES][K][N];
    static int32_t c[TILES][M][N], d[TILES][M][N];
    hawkeye_discovery discovery = 1;
    hawkeye_discover_options options = {.struct_size = sizeof options, .threads = -1};
    size_t needed = 0;
    uint64_t seed = 1;

    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_cuda_run(0, NULL, TILES, a, b, c, d, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_cuda_run(0, instruction, TILES, NULL, b, c, d, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_cuda_run(0, instruction, TILES, a, NULL, c, d, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_cuda_run(0, instruction, TILES, a, b, c, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_cuda_run(0, instruction, 0, a, b, c, d, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_cuda_run(0, instruction, INT64_MAX, a, b, c, d, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_cuda_discover(0, instruction, 0, NULL, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_cuda_discover(0, NULL, 0, NULL, &discovery, M_));
    CHECK(discovery == 0);
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_cuda_discover(0, instruction, -1, NULL, &discovery, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_cuda_discover(0, instruction, 0, &options, &discovery, M_));
    CHECK_STATUS(HAWKEYE_ERROR_DEVICE, hawkeye_cuda_about(-1, text, sizeof text, &needed, M_));

    char said[1024];
    hawkeye_status status = hawkeye_cuda_about(0, text, sizeof text, &needed, said, sizeof said);
    if (status != HAWKEYE_OK) {
        CHECK(status == HAWKEYE_ERROR_DEVICE && strchr(said, ':') != NULL);
        CHECK_STATUS(HAWKEYE_ERROR_DEVICE, hawkeye_cuda_run(0, instruction, TILES, a, b, c, d, M_));
        CHECK_STATUS(HAWKEYE_ERROR_DEVICE, hawkeye_cuda_discover(0, instruction, 0, NULL, &discovery, M_));
        return test_result();
    }
    CHECK(needed == strlen(text) + 1 && strstr(text, "\"capability\":"));
    CHECK_STATUS(HAWKEYE_ERROR_BUFFER, hawkeye_cuda_about(0, text, 16, &needed, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_cuda_run(0, "mma", TILES, a, b, c, d, M_));
    CHECK_STATUS(HAWKEYE_ERROR_DEVICE, hawkeye_cuda_run(1000, instruction, TILES, a, b, c, d, M_));

    for (size_t i = 0; i < sizeof a; i++)
        (&a[0][0][0])[i] = (int8_t)(test_word(&seed) & 255);
    for (size_t i = 0; i < sizeof b; i++)
        (&b[0][0][0])[i] = (int8_t)(test_word(&seed) & 255);
    for (int start = 0; start < 2; start++) {
        for (size_t i = 0; i < TILES * M * N; i++)
            (&c[0][0][0])[i] = start ? (int32_t)(test_word(&seed) & 0xFFFF) : 0;
        CHECK_STATUS(HAWKEYE_OK, hawkeye_cuda_run(0, instruction, TILES, a, b, start ? c : NULL, d, M_));
        for (int tile = 0; tile < TILES; tile++)
            for (int m = 0; m < M; m++)
                for (int n = 0; n < N; n++) {
                    int32_t sum = c[tile][m][n];
                    for (int k = 0; k < K; k++)
                        sum += a[tile][m][k] * b[tile][k][n];
                    CHECK(d[tile][m][n] == sum);
                }
    }
    return test_result();
}
