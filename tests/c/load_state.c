/* The library loaded by a thread that flushes subnormals and rounds toward zero: the threads that the Go runtime makes
 * while loading must not inherit that. Usage: load_state libhawkeye.so */
#include "test.h"

#include "float_state.h"

#include <dlfcn.h>

enum { M = 256, N = 64, K = SUBNORMAL_K };

int main(int argc, char **argv) {
    static float a_data[M * K], b_data[K * N], c_data[M * N], once[M * N], again[M * N];
    if (argc != 2)
        return 2;
    state_set(states[STATES - 1]);
    uint64_t before = state_get();
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    uint64_t after = state_get();
    state_set(states[0]);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    CHECK(before == after);

    hawkeye_status (*load)(const char *, hawkeye_profile *, char *, size_t);
    hawkeye_status (*gemm)(const hawkeye_gemm_args *, char *, size_t);
    hawkeye_status (*choose)(const char *, char *, size_t);
    *(void **)&load = dlsym(library, "hawkeye_profile_load");
    *(void **)&gemm = dlsym(library, "hawkeye_gemm");
    *(void **)&choose = dlsym(library, "hawkeye_set_instruction_set");
    if (load == NULL || gemm == NULL || choose == NULL)
        return 1;

    /* Sums of subnormal and small numbers, for the steps that are compiled Go: the chain, and the addend of a bf16
     * product. The oracle works with integers: it is what is right. */
    fill_subnormal_f32(a_data, M * K, 1, -64);
    fill_subnormal_f32(b_data, K * N, 2, -78);
    fill_subnormal_f32(c_data, M * N, 3, -127);
    for (int product = 0; product < 2; product++) {
        hawkeye_profile p = 0;
        hawkeye_format in = product ? HAWKEYE_BF16 : HAWKEYE_F32;
        CHECK_STATUS(HAWKEYE_OK, load(product ? "hopper/bf16" : "cuda-core/f32", &p, M_));
        if (product) /* the upper halves of a and b */
            for (int i = 0; i < M * K; i++)
                memcpy((uint16_t *)(void *)a_data + i, (char *)&a_data[i] + 2, 2);
        if (product)
            for (int i = 0; i < K * N; i++)
                memcpy((uint16_t *)(void *)b_data + i, (char *)&b_data[i] + 2, 2);
        hawkeye_matrix a = test_matrix(a_data, in, M, K), b = test_matrix(b_data, in, K, N),
                       c = test_matrix(c_data, HAWKEYE_F32, M, N), d = test_matrix(once, HAWKEYE_F32, M, N);
        hawkeye_gemm_args args = test_args(p, &a, &b, &d);
        args.c = &c;
        CHECK_STATUS(HAWKEYE_OK, choose("oracle", M_));
        CHECK_STATUS(HAWKEYE_OK, gemm(&args, M_));
        CHECK_STATUS(HAWKEYE_OK, choose("portable", M_));
        d.data = again;
        for (args.threads = 1; args.threads <= 8; args.threads++) {
            memset(again, 0xFF, sizeof again);
            CHECK_STATUS(HAWKEYE_OK, gemm(&args, M_));
            CHECK(memcmp(once, again, sizeof once) == 0);
        }
    }
    return test_result();
}
