/* Replays one multiplication that cuBLAS computed on an H200 (dev-0184 of the golden set: bf16, M 5, N 512, K 2048, B
 * stored transposed, f32 output) and compares every bit. Usage: replay tests/goldens/h200-torch2.11.bin */
#include <hawkeye.h>
#include <stdio.h>

enum { M = 5, N = 512, K = 2048, SEED = 791367, OFFSET = 621006 };

static uint64_t mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Element i of the recorded input of kind "sparse": tests/goldens/inputs.py. */
static uint16_t element(uint64_t seed, uint64_t i) {
    uint64_t r = mix(seed + (i + 1) * 0x9E3779B97F4A7C15u), g = 0;
    while (!((r | 1u << 15) >> g & 1))
        g++;
    return r >> 56 & 1 ? 0 : (uint16_t)(r >> 63 << 15 | (128 - g) << 7 | (r >> 16 & 127));
}

int main(int argc, char **argv) {
    static uint16_t a[M * K], b[N * K];
    static float recorded[M * N], replayed[M * N];
    char message[512] = "cannot read the golden set: replay tests/goldens/h200-torch2.11.bin";
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (!file || fseek(file, OFFSET, SEEK_SET) || fread(recorded, sizeof recorded, 1, file) != 1)
        return puts(message), 1;
    fclose(file);
    for (int i = 0; i < M * K; i++)
        a[i] = element((uint64_t)SEED * 3 << 20, (uint64_t)i);
    for (int k = 0; k < K; k++)
        for (int j = 0; j < N; j++)
            b[j * K + k] = element(((uint64_t)SEED * 3 + 1) << 20, (uint64_t)(k * N + j));

    hawkeye_matrix A = {sizeof A, a, 0, HAWKEYE_BF16, 0, 1, M, K, 0, K, 1};
    hawkeye_matrix B = {sizeof B, b, 0, HAWKEYE_BF16, 0, 1, K, N, 0, 1, K};
    hawkeye_matrix D = {sizeof D, replayed, 0, HAWKEYE_F32, 0, 1, M, N, 0, N, 1}, R = D;
    hawkeye_comparison comparison = {.struct_size = sizeof comparison};
    hawkeye_gemm_args args = {.struct_size = sizeof args, .a = &A, .b = &B, .d = &D, .alpha = 1, .beta = 1};
    R.data = recorded;
    if (hawkeye_profile_load("hopper/bf16", &args.profile, message, sizeof message) ||
        hawkeye_gemm(&args, message, sizeof message) ||
        hawkeye_compare(&R, &D, &comparison, message, sizeof message) ||
        hawkeye_profile_free(args.profile, message, sizeof message))
        return puts(message), 1;
    printf("%lld of %d elements exact (hopper/bf16, %s)\n", (long long)(comparison.count - comparison.differing), M * N,
           hawkeye_instruction_set());
    return comparison.count != M * N || comparison.differing != 0;
}
