/*
 * boundary.c - the C side of the library's boundary.
 *
 * Three things must happen before Go runs or cannot be done by Go:
 *  - fork: a child of fork() has one thread and no Go scheduler; entering Go there can hang. A pthread_atfork handler
 *    sets a flag, and every call looks at it first.
 *  - floating-point state: the caller may have FTZ, DAZ or another rounding set. Go assumes the default everywhere, and
 *    threads inherit the state of the thread that creates them. Each call saves the caller's state, sets the default,
 *    and restores the caller's on the way out, exception flags included.
 *  - the same at load time, for the threads that the Go runtime starts while the library is being loaded.
 */
#include "boundary.h"

#include "_cgo_export.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* ---- floating-point state ---------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#include <xmmintrin.h>
#define DEFAULT_STATE 0x1F80u /* nearest even, every exception masked, no FTZ, no DAZ */
static hawkeye_float_state get_state(void) { return _mm_getcsr(); }
static void set_state(hawkeye_float_state s) { _mm_setcsr((unsigned)s); }
#elif defined(__aarch64__)
#define DEFAULT_STATE 0u /* nearest even, no flush, no traps */
static hawkeye_float_state get_state(void) {
    hawkeye_float_state s;
    __asm__ volatile("mrs %0, fpcr" : "=r"(s));
    return s;
}
static void set_state(hawkeye_float_state s) { __asm__ volatile("msr fpcr, %0" : : "r"(s)); }
#else
#define DEFAULT_STATE 0u
static hawkeye_float_state get_state(void) { return 0; }
static void set_state(hawkeye_float_state s) { (void)s; }
#endif

static hawkeye_float_state enter(void) {
    hawkeye_float_state host = get_state();
    set_state(DEFAULT_STATE);
    return host;
}

int32_t hawkeyeCallProgress(hawkeye_progress progress, void *user, uint64_t done, uint64_t total,
                            hawkeye_float_state host) {
    int32_t stop;
    set_state(host);
    stop = progress(user, done, total);
    set_state(DEFAULT_STATE);
    return stop;
}

int32_t hawkeyeCallMatmul(hawkeye_matmul matmul, void *user, const void *a, const void *b, const void *c, void *d,
                          const float *scale_a, const float *scale_b, uint64_t a_size, uint64_t b_size, uint64_t c_size,
                          uint64_t d_size, int64_t scale_a_count, int64_t scale_b_count, hawkeye_float_state host) {
    hawkeye_matmul_call call = {sizeof call, a,      b,      c,      d,      scale_a,       scale_b,
                                a_size,      b_size, c_size, d_size, scale_a_count, scale_b_count};
    int32_t stop;
    set_state(host);
    stop = matmul(user, &call);
    set_state(DEFAULT_STATE);
    return stop;
}

int32_t hawkeyeCallDiscoverProgress(hawkeye_discover_progress progress, void *user, const char *phase, int64_t calls,
                                    int64_t questions, int64_t done, int64_t total, hawkeye_float_state host) {
    hawkeye_discover_state state = {sizeof state, phase, calls, questions, done, total};
    int32_t stop;
    set_state(host);
    stop = progress(user, &state);
    set_state(DEFAULT_STATE);
    return stop;
}

/* ---- loading and forking ----------------------------------------------------------------------------------------- */

static atomic_int forked;
static hawkeye_float_state loader_state;

static void in_child(void) { atomic_store_explicit(&forked, 1, memory_order_relaxed); }

/* Constructors with a priority run before those without, and the Go runtime starts its first thread in one without.
 * So that thread, and all that descend from it, begin with the default state whatever the loading thread had. */
__attribute__((constructor(101))) static void before_go(void) {
    loader_state = enter();
    pthread_atfork(NULL, NULL, in_child);
}

/* Among those without a priority the order is that of linking, where Go's object comes first. Were it otherwise, the
 * loading thread would still get its own state back here; only the line above would have been in vain. */
__attribute__((constructor)) static void after_go(void) { set_state(loader_state); }

static int is_forked(void) { return atomic_load_explicit(&forked, memory_order_relaxed); }

static hawkeye_status refuse_fork(char *message, size_t message_size) {
    static const char text[] = "this is a forked child of the process that loaded Hawkeye, and its runtime does not "
                               "survive fork(): load the library after forking, or start a fresh process";
    if (message != NULL && message_size > 0) {
        size_t n = sizeof text < message_size ? sizeof text : message_size;
        memcpy(message, text, n);
        message[n - 1] = '\0';
    }
    return HAWKEYE_ERROR_FORK;
}

/* A call into Go between the two states. `host` may be used in the expression. */
#define CALL(expression)                                                                                               \
    do {                                                                                                               \
        hawkeye_float_state host;                                                                                      \
        hawkeye_status status_;                                                                                        \
        if (is_forked())                                                                                               \
            return refuse_fork(message, message_size);                                                                 \
        host = enter();                                                                                                \
        status_ = (expression);                                                                                        \
        set_state(host);                                                                                               \
        return status_;                                                                                                \
    } while (0)

/* The same for a static string, which a forked child does not get. */
#define STRING(expression)                                                                                             \
    do {                                                                                                               \
        hawkeye_float_state host;                                                                                      \
        const char *string_;                                                                                           \
        if (is_forked())                                                                                               \
            return "";                                                                                                 \
        host = enter();                                                                                                \
        string_ = (expression);                                                                                        \
        set_state(host);                                                                                               \
        return string_;                                                                                                \
    } while (0)

/* ---- the functions of hawkeye.h ---------------------------------------------------------------------------------- */

uint32_t hawkeye_abi_version(void) { return HAWKEYE_ABI_VERSION; }

const char *hawkeye_version(void) { STRING(hawkeyeGoVersion()); }

const char *hawkeye_instruction_set(void) { STRING(hawkeyeGoInstructionSet()); }

const char *hawkeye_instruction_sets(void) { STRING(hawkeyeGoInstructionSets()); }

hawkeye_status hawkeye_set_instruction_set(const char *name, char *message, size_t message_size) {
    CALL(hawkeyeGoSetInstructionSet((char *)name, message, message_size));
}

int32_t hawkeye_threads(void) {
    hawkeye_float_state host;
    int32_t threads;
    if (is_forked())
        return 0;
    host = enter();
    threads = hawkeyeGoThreads();
    set_state(host);
    return threads;
}

hawkeye_status hawkeye_set_threads(int32_t threads, char *message, size_t message_size) {
    CALL(hawkeyeGoSetThreads(threads, message, message_size));
}

hawkeye_status hawkeye_profile_load(const char *name, hawkeye_profile *profile, char *message, size_t message_size) {
    CALL(hawkeyeGoProfileLoad((char *)name, profile, message, message_size));
}

hawkeye_status hawkeye_profile_parse(const char *json, size_t json_size, hawkeye_profile *profile, char *message,
                                     size_t message_size) {
    CALL(hawkeyeGoProfileParse((char *)json, json_size, profile, message, message_size));
}

hawkeye_status hawkeye_profile_free(hawkeye_profile profile, char *message, size_t message_size) {
    CALL(hawkeyeGoProfileFree(profile, message, message_size));
}

hawkeye_status hawkeye_profile_json(hawkeye_profile profile, char *buffer, size_t buffer_size, size_t *needed,
                                    char *message, size_t message_size) {
    CALL(hawkeyeGoProfileJSON(profile, buffer, buffer_size, needed, message, message_size));
}

hawkeye_status hawkeye_profile_describe(hawkeye_profile profile, char *buffer, size_t buffer_size, size_t *needed,
                                        char *message, size_t message_size) {
    CALL(hawkeyeGoProfileDescribe(profile, buffer, buffer_size, needed, message, message_size));
}

hawkeye_status hawkeye_profile_get_info(hawkeye_profile profile, hawkeye_profile_info *info, char *message,
                                                size_t message_size) {
    CALL(hawkeyeGoProfileInfo(profile, info, message, message_size));
}

hawkeye_status hawkeye_profile_list(char *buffer, size_t buffer_size, size_t *needed, char *message,
                                    size_t message_size) {
    CALL(hawkeyeGoProfileList(buffer, buffer_size, needed, message, message_size));
}

hawkeye_status hawkeye_explain_profile(hawkeye_profile profile, const hawkeye_explain_options *options, char *buffer,
                                       size_t buffer_size, size_t *needed, char *message, size_t message_size) {
    CALL(hawkeyeGoExplainProfile(profile, (hawkeye_explain_options *)options, buffer, buffer_size, needed, message,
                                 message_size));
}

hawkeye_status hawkeye_explain_tree(hawkeye_profile profile, const hawkeye_explain_options *options, char *buffer,
                                    size_t buffer_size, size_t *needed, char *message, size_t message_size) {
    CALL(hawkeyeGoExplainTree(profile, (hawkeye_explain_options *)options, buffer, buffer_size, needed, message,
                              message_size));
}

hawkeye_status hawkeye_rules_choose(const char *json, size_t json_size, int32_t most, char *buffer, size_t buffer_size,
                                    size_t *needed, char *message, size_t message_size) {
    CALL(hawkeyeGoRulesChoose((char *)json, json_size, most, buffer, buffer_size, needed, message, message_size));
}

hawkeye_status hawkeye_gemm(const hawkeye_gemm_args *args, char *message, size_t message_size) {
    CALL(hawkeyeGoGemm((hawkeye_gemm_args *)args, host, message, message_size));
}

hawkeye_status hawkeye_compare(const hawkeye_matrix *expected, const hawkeye_matrix *actual,
                               hawkeye_comparison *result, char *message, size_t message_size) {
    CALL(hawkeyeGoCompare((hawkeye_matrix *)expected, (hawkeye_matrix *)actual, result, message, message_size));
}

hawkeye_status hawkeye_set_open(const char *path, hawkeye_set *set, int64_t *count, char *message,
                                size_t message_size) {
    CALL(hawkeyeGoSetOpen((char *)path, set, count, message, message_size));
}

hawkeye_status hawkeye_set_about(hawkeye_set set, char *buffer, size_t buffer_size, size_t *needed, char *message,
                                 size_t message_size) {
    CALL(hawkeyeGoSetAbout(set, buffer, buffer_size, needed, message, message_size));
}

hawkeye_status hawkeye_set_replay(hawkeye_set set, int64_t index, int32_t threads, hawkeye_progress progress,
                                  void *progress_user, char *buffer, size_t buffer_size, size_t *needed, char *message,
                                  size_t message_size) {
    CALL(hawkeyeGoSetReplay(set, index, threads, progress, progress_user, host, buffer, buffer_size, needed, message,
                            message_size));
}

hawkeye_status hawkeye_set_replay_with(hawkeye_set set, int64_t index, const hawkeye_replay_options *options, char *buffer,
                                       size_t buffer_size, size_t *needed, char *message, size_t message_size) {
    CALL(hawkeyeGoSetReplayWith(set, index, (hawkeye_replay_options *)options, host, buffer, buffer_size, needed, message,
                                message_size));
}

hawkeye_status hawkeye_set_why(hawkeye_set set, int64_t a, int64_t b, const hawkeye_replay_options *options, char *buffer,
                               size_t buffer_size, size_t *needed, char *message, size_t message_size) {
    CALL(hawkeyeGoSetWhy(set, a, b, (hawkeye_replay_options *)options, host, buffer, buffer_size, needed, message,
                         message_size));
}

hawkeye_status hawkeye_set_free(hawkeye_set set, char *message, size_t message_size) {
    CALL(hawkeyeGoSetFree(set, message, message_size));
}

hawkeye_status hawkeye_discover(const hawkeye_signature *signature, hawkeye_matmul matmul, void *matmul_user,
                                const hawkeye_discover_options *options, hawkeye_discovery *discovery, char *message,
                                size_t message_size) {
    CALL(hawkeyeGoDiscover((hawkeye_signature *)signature, matmul, matmul_user, (hawkeye_discover_options *)options, host,
                           discovery, message, message_size));
}

hawkeye_status hawkeye_discovery_json(hawkeye_discovery discovery, char *buffer, size_t buffer_size, size_t *needed,
                                      char *message, size_t message_size) {
    CALL(hawkeyeGoDiscoveryJSON(discovery, buffer, buffer_size, needed, message, message_size));
}

hawkeye_status hawkeye_discovery_profile(hawkeye_discovery discovery, hawkeye_profile *profile, char *message,
                                         size_t message_size) {
    CALL(hawkeyeGoDiscoveryProfile(discovery, profile, message, message_size));
}

hawkeye_status hawkeye_discovery_free(hawkeye_discovery discovery, char *message, size_t message_size) {
    CALL(hawkeyeGoDiscoveryFree(discovery, message, message_size));
}

hawkeye_status hawkeye_cuda_about(int32_t device, char *buffer, size_t buffer_size, size_t *needed, char *message,
                                  size_t message_size) {
    CALL(hawkeyeGoCudaAbout(device, buffer, buffer_size, needed, message, message_size));
}

hawkeye_status hawkeye_cuda_run(int32_t device, const char *instruction, int64_t tiles, const void *a, const void *b,
                                const void *c, void *d, char *message, size_t message_size) {
    CALL(hawkeyeGoCudaRun(device, (char *)instruction, tiles, (void *)a, (void *)b, (void *)c, d, message, message_size));
}

hawkeye_status hawkeye_cuda_discover(int32_t device, const char *instruction, int64_t tiles,
                                     const hawkeye_discover_options *options, hawkeye_discovery *discovery, char *message,
                                     size_t message_size) {
    CALL(hawkeyeGoCudaDiscover(device, (char *)instruction, tiles, (hawkeye_discover_options *)options, host, discovery,
                               message, message_size));
}
