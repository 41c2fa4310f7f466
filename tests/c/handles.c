/* A handle that is not alive is an error, whatever number it is and whatever other threads do. */
#include "test.h"

#include <pthread.h>

static hawkeye_profile shared;

/* Uses a handle that another thread frees meanwhile: every call succeeds or says HAWKEYE_ERROR_HANDLE. */
static void *use(void *failures) {
    for (int i = 0; i < 2000; i++) {
        char json[65536];
        hawkeye_status s = hawkeye_profile_json(shared, json, sizeof json, NULL, NULL, 0);
        if (s != HAWKEYE_OK && s != HAWKEYE_ERROR_HANDLE)
            ++*(int *)failures;
    }
    return NULL;
}

int main(void) {
    hawkeye_profile p = test_profile("hopper/bf16"), q = test_profile("hopper/bf16"), gone = p;
    char json[65536];
    hawkeye_profile_info info = {.struct_size = sizeof info};
    CHECK(p != 0 && q != 0 && p != q);
    CHECK_STATUS(HAWKEYE_OK, hawkeye_profile_free(p, M_));
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_profile_free(p, M_));
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_profile_json(p, json, sizeof json, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_profile_describe(p, json, sizeof json, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_profile_get_info(p, &info, M_));

    p = test_profile("hopper/bf16"); /* takes the slot of the freed one */
    CHECK(p != gone);
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_profile_free(gone, M_));
    CHECK_STATUS(HAWKEYE_OK, hawkeye_profile_json(p, json, sizeof json, NULL, M_));

    uint64_t state = 1;
    uint16_t element = 0;
    hawkeye_matrix a = test_matrix(&element, HAWKEYE_BF16, 0, 0), d = a;
    for (int i = 0; i < 1000; i++) {
        uint64_t r = test_word(&state), h = i == 0 ? 0 : i % 2 ? r : p ^ (uint64_t)1 << (r % 64);
        hawkeye_gemm_args args = test_args(h, &a, &a, &d);
        if (h == q)
            continue;
        CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_gemm(&args, M_));
        CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_profile_free(h, M_));
        CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_set_about(h, json, sizeof json, NULL, M_));
        CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_set_replay(h, 0, 1, NULL, NULL, json, sizeof json, NULL, M_));
        CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_set_free(h, M_));
    }
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_set_about(p, json, sizeof json, NULL, M_)); /* of another kind */
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_set_free(p, M_));

    pthread_t threads[4];
    int failures[4] = {0};
    shared = q;
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, use, &failures[i]) == 0);
    CHECK_STATUS(HAWKEYE_OK, hawkeye_profile_free(q, M_));
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CHECK(failures[i] == 0);
    }
    CHECK_STATUS(HAWKEYE_OK, hawkeye_profile_free(p, M_));
    return test_result();
}
