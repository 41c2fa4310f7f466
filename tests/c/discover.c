/* Discovery: a multiplication written here is asked for its profile. What is refused, and who is called, is checked whatever
 * the discovery finds; what it finds, in the functions found_* below. */
#include "test.h"

#include <fenv.h>
#include <math.h>
#include <pthread.h>

enum { M = 12, N = 10, K = 40 };

struct box {
    pthread_t caller;
    int calls, foreign, wrong, reports, stop_calls, stop_reports;
    uint64_t noise; /* 0 for none */
};

static hawkeye_signature plain(void) {
    hawkeye_signature s = {.struct_size = sizeof s, .a = HAWKEYE_F32, .b = HAWKEYE_F32, .d = HAWKEYE_F32, .batch = 1,
                           .m = M, .n = N, .k = K, .alpha = 1, .beta = 1};
    return s;
}

static hawkeye_discover_options few(void) {
    hawkeye_discover_options o = {.struct_size = sizeof o, .elements = 2000, .hardware = "this processor", .library = "libm"};
    return o;
}

/* Counts a call, looks at what it says of the operands, and tells whether to stop. */
static int begin(struct box *b, const hawkeye_matmul_call *c) {
    b->calls++;
    b->foreign += !pthread_equal(pthread_self(), b->caller);
    b->wrong += c->struct_size != sizeof *c || c->a_size != 4 * M * K || c->b_size != 4 * K * N || c->c != NULL ||
                c->c_size != 0 || c->d_size != 4 * M * N || c->scale_a != NULL || c->scale_b != NULL ||
                c->scale_a_count != 0 || c->scale_b_count != 0 || (uintptr_t)c->a % 4 != 0 || (uintptr_t)c->b % 4 != 0 ||
                (uintptr_t)c->d % 4 != 0;
    return b->stop_calls != 0 && b->calls >= b->stop_calls;
}

/* One f32 accumulator an element, k ascending, a fused multiply-add a product. */
static int32_t chain(void *user, const hawkeye_matmul_call *c) {
    struct box *box = user;
    const float *a = c->a, *b = c->b;
    float *d = c->d;
    if (begin(box, c))
        return 7;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0;
            for (int k = 0; k < K; k++)
                sum = fmaf(a[i * K + k], b[k * N + j], sum);
            d[i * N + j] = sum;
        }
    if (box->noise != 0) { /* now and then the lowest bit of an element flips */
        uint64_t word = test_word(&box->noise);
        uint32_t bits;
        memcpy(&bits, &d[word % (M * N)], 4);
        bits ^= (uint32_t)(word >> 32 & 1);
        memcpy(&d[word % (M * N)], &bits, 4);
    }
    return 0;
}

/* The same for the same operands, and no matrix multiplication: squares of the sums. */
static int32_t liar(void *user, const hawkeye_matmul_call *c) {
    int32_t stop = chain(user, c);
    float *d = c->d;
    for (int i = 0; i < M * N; i++)
        d[i] *= d[i];
    return stop;
}

static int32_t report(void *user, const hawkeye_discover_state *s) {
    struct box *b = user;
    b->reports++;
    b->foreign += !pthread_equal(pthread_self(), b->caller);
    b->wrong += s->struct_size != sizeof *s || s->phase == NULL || s->phase[0] == '\0' || s->calls < 0 || s->done < 0 || s->done > s->total;
    return b->stop_reports != 0 && b->reports >= b->stop_reports;
}

static char *json_of(hawkeye_discovery found) {
    size_t needed = 0;
    CHECK_STATUS(HAWKEYE_ERROR_BUFFER, hawkeye_discovery_json(found, NULL, 0, &needed, M_));
    char *text = malloc(needed);
    CHECK_STATUS(HAWKEYE_OK, hawkeye_discovery_json(found, text, needed, NULL, M_));
    return text;
}

/* The chain's profile is found, and gives the chain's bits on operands that the discovery never saw. */
static void found_chain(void) {
    static float a[M * K], b[K * N], want[M * N], got[M * N];
    struct box box = {.caller = pthread_self()};
    hawkeye_signature s = plain();
    hawkeye_discover_options o = few();
    o.progress = report, o.progress_user = &box;
    hawkeye_discovery found = 0;
    CHECK_STATUS(HAWKEYE_OK, hawkeye_discover(&s, chain, &box, &o, &found, M_));
    CHECK(found != 0 && box.calls > 0 && box.reports > 0 && box.foreign == 0 && box.wrong == 0);
    char *text = json_of(found);
    CHECK(strstr(text, "\"certificate\":{") != NULL && strstr(text, "\"hardware\":\"this processor\"") != NULL);
    hawkeye_profile p = 0;
    CHECK_STATUS(HAWKEYE_OK, hawkeye_discovery_profile(found, &p, M_));
    CHECK_STATUS(HAWKEYE_OK, hawkeye_discovery_free(found, M_));
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_discovery_free(found, M_));
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_discovery_json(found, NULL, 0, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_discovery_profile(found, &p, M_));
    CHECK(p == 0);
    free(text);
    hawkeye_discover(&s, chain, &box, &o, &found, NULL, 0);
    CHECK_STATUS(HAWKEYE_OK, hawkeye_discovery_profile(found, &p, M_)); /* outlives the discovery */
    CHECK_STATUS(HAWKEYE_OK, hawkeye_discovery_free(found, M_));
    uint64_t seed = 99;
    for (int i = 0; i < M * K; i++)
        a[i] = (float)(int64_t)test_word(&seed);
    for (int i = 0; i < K * N; i++)
        b[i] = 1.0f / (float)(int64_t)test_word(&seed);
    hawkeye_matrix ma = test_matrix(a, HAWKEYE_F32, M, K), mb = test_matrix(b, HAWKEYE_F32, K, N), md = test_matrix(got, HAWKEYE_F32, M, N);
    hawkeye_gemm_args args = test_args(p, &ma, &mb, &md);
    CHECK_STATUS(HAWKEYE_OK, hawkeye_gemm(&args, M_));
    hawkeye_matmul_call call = {.struct_size = sizeof call, .a = a, .b = b, .d = want};
    chain(&box, &call);
    CHECK(memcmp(got, want, sizeof got) == 0);
    CHECK_STATUS(HAWKEYE_OK, hawkeye_profile_free(p, M_));
}

/* What gives other bits for the same operands, or is no multiplication, gets a reason and no profile. */
static void found_nothing(void) {
    struct box noisy = {.caller = pthread_self(), .noise = 5}, lying = {.caller = pthread_self()};
    hawkeye_signature s = plain();
    hawkeye_discover_options o = few();
    for (int i = 0; i < 2; i++) {
        hawkeye_discovery found = 0;
        hawkeye_profile p = 1;
        CHECK_STATUS(HAWKEYE_OK, hawkeye_discover(&s, i ? liar : chain, i ? &lying : &noisy, &o, &found, M_));
        CHECK_STATUS(HAWKEYE_ERROR_PROFILE, hawkeye_discovery_profile(found, &p, M_));
        char *text = json_of(found);
        CHECK(p == 0 && strstr(text, "\"certificate\":") == NULL && strstr(text, "\"reason\":\"") != NULL);
        CHECK_STATUS(HAWKEYE_OK, hawkeye_discovery_free(found, M_));
        free(text);
    }
    CHECK(noisy.foreign + noisy.wrong + lying.foreign + lying.wrong == 0);
}

/* Either callback may stop it, at its first call too. */
static void stopped(void) {
    hawkeye_signature s = plain();
    for (int i = 1; i <= 4; i++) {
        struct box box = {.caller = pthread_self()};
        hawkeye_discover_options o = few();
        hawkeye_discovery found = 1;
        if (i % 2)
            box.stop_calls = (i + 1) / 2;
        else
            box.stop_reports = i / 2, o.progress = report, o.progress_user = &box;
        char text[1024];
        hawkeye_status status = hawkeye_discover(&s, chain, &box, &o, &found, text, sizeof text);
        CHECK(status == HAWKEYE_ERROR_CANCELLED && found == 0 && box.foreign == 0);
        CHECK(i % 2 == 0 || (box.calls == box.stop_calls && strstr(text, "it returned 7") != NULL));
        CHECK(i % 2 != 0 || box.reports == box.stop_reports);
    }
}

static int32_t upward(void *user, const hawkeye_matmul_call *c) {
    (void)c;
    *(int *)user += fegetround() == FE_UPWARD;
    return 1;
}

/* The multiplication runs with the caller's floating-point state, which is the caller's afterwards too. */
static void state_of_the_caller(void) {
    hawkeye_signature s = plain();
    hawkeye_discovery found;
    int seen = 0;
    fesetround(FE_UPWARD);
    hawkeye_status status = hawkeye_discover(&s, upward, &seen, NULL, &found, NULL, 0);
    int after = fegetround();
    fesetround(FE_TONEAREST);
    CHECK(status == HAWKEYE_ERROR_CANCELLED && seen == 1 && after == FE_UPWARD);
}

static void refused(void) {
    struct box box = {.caller = pthread_self()};
    hawkeye_discovery found = 1;
    hawkeye_profile gone = 12345, p = 1;
    hawkeye_signature s = plain();
    hawkeye_discover_options o = few();
/* One change of the signature or the options, and what it comes to. */
#define REFUSED(status, change)                                                                                        \
    do {                                                                                                               \
        change;                                                                                                        \
        CHECK_STATUS(status, hawkeye_discover(&s, chain, &box, &o, &found, M_));                                       \
        CHECK(found == 0);                                                                                             \
        s = plain(), o = few();                                                                                        \
    } while (0)
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_discover(NULL, chain, &box, &o, &found, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_discover(&s, NULL, &box, &o, &found, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_discover(&s, chain, &box, &o, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_discovery_json(0, NULL, 0, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_discovery_profile(0, &p, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_discovery_profile(0, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_discovery_free(0, M_));
    REFUSED(HAWKEYE_ERROR_ARGUMENT, s.struct_size = 8);
    REFUSED(HAWKEYE_ERROR_ARGUMENT, o.struct_size = 8);
    REFUSED(HAWKEYE_ERROR_ARGUMENT, o.reserved = 1);
    REFUSED(HAWKEYE_ERROR_FORMAT, s.a = 0);
    REFUSED(HAWKEYE_ERROR_FORMAT, s.b = 99);
    REFUSED(HAWKEYE_ERROR_FORMAT, s.d = -1);
    REFUSED(HAWKEYE_ERROR_FORMAT, s.d = 256 + HAWKEYE_F32);
    REFUSED(HAWKEYE_ERROR_ARGUMENT, s.c = HAWKEYE_F32);
    REFUSED(HAWKEYE_ERROR_ARGUMENT, s.addend = HAWKEYE_ADDEND_BIAS);
    REFUSED(HAWKEYE_ERROR_ARGUMENT, s.addend = 4);
    REFUSED(HAWKEYE_ERROR_ARGUMENT, s.addend = -1);
    REFUSED(HAWKEYE_ERROR_ARGUMENT, s.scaling = 3);
    REFUSED(HAWKEYE_ERROR_ARGUMENT, s.alpha = 0);
    REFUSED(HAWKEYE_ERROR_SHAPE, s.m = 0);
    REFUSED(HAWKEYE_ERROR_SHAPE, s.k = -5);
    REFUSED(HAWKEYE_ERROR_SHAPE, s.batch = (int64_t)1 << 40);
    REFUSED(HAWKEYE_ERROR_SHAPE, s.m = s.k = (int64_t)1 << 20);
    REFUSED(HAWKEYE_ERROR_SHAPE, s.batch = s.m = s.n = (int64_t)1 << 30);
    REFUSED(HAWKEYE_ERROR_ARGUMENT, o.elements = -1);
    REFUSED(HAWKEYE_ERROR_ARGUMENT, o.max_calls = -1);
    REFUSED(HAWKEYE_ERROR_ARGUMENT, o.threads = -1);
    REFUSED(HAWKEYE_ERROR_ARGUMENT, o.suspect_count = 1);
    REFUSED(HAWKEYE_ERROR_ARGUMENT, o.suspect_count = -1);
    REFUSED(HAWKEYE_ERROR_HANDLE, o.suspects = &gone; o.suspect_count = 1);
    REFUSED(HAWKEYE_ERROR_ARGUMENT, o.suspects = &gone; o.suspect_count = (int64_t)1 << 30);
    REFUSED(HAWKEYE_ERROR_ARGUMENT, o.hardware = "\xff");
    CHECK(box.calls == 0);
}

int main(void) {
    refused();
    stopped();
    state_of_the_caller();
    found_chain();
    found_nothing();
    return test_result();
}
