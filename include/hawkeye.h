/*
 * hawkeye.h - the C interface of Hawkeye: re-execute GPU matrix multiplications on a CPU, bit for bit.
 *
 * Every call may be made from any thread at any time. No pointer is kept after a call returns. Every call that can fail
 * returns a hawkeye_status and, where it takes `message` and `message_size`, writes one NUL-terminated sentence there
 * (truncated to fit) that says what is wrong and what to do, empty on success; both may be 0. Strings are UTF-8.
 *
 * A call that returns text takes (buffer, buffer_size, needed): it writes at most buffer_size bytes including the final
 * NUL, stores in *needed (when not NULL) the size the whole text needs including its NUL, and returns
 * HAWKEYE_ERROR_BUFFER when it did not fit; call again with a larger buffer.
 *
 * Structs begin with struct_size, their sizeof in the caller's version of this header. A size that no version had is
 * refused. A larger one is a newer caller's: in structs that the library reads, the fields it does not know must be
 * zero; in structs that it writes, it sets them to zero. Reserved fields must be 0.
 *
 * The floating-point environment of the calling thread (rounding, flush to zero, exception flags) changes no result and
 * is left as it was. No C++ exception and no longjmp may pass through the library out of a callback.
 *
 * The library holds the Go runtime, which does not survive fork(): a forked child gets HAWKEYE_ERROR_FORK from every
 * call with a status, "" from those that return a string, and 0 threads. Load the library after forking, or start a
 * fresh process. There is one Go runtime a program: do not link two static archives made by Go into one; a Go program
 * imports the core packages instead.
 */
#ifndef HAWKEYE_H
#define HAWKEYE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HAWKEYE_ABI_VERSION 1

#if defined(_WIN32)
#define HAWKEYE_API
#else
#define HAWKEYE_API __attribute__((visibility("default")))
#endif

typedef int32_t hawkeye_status;
enum {
    HAWKEYE_OK = 0,
    HAWKEYE_ERROR_ARGUMENT = 1,    /* a pointer is NULL, a struct_size unknown, a number out of range */
    HAWKEYE_ERROR_HANDLE = 2,      /* the handle was never given out, is of another kind, or was freed */
    HAWKEYE_ERROR_PROFILE = 3,     /* no profile of that name, or the JSON is not a profile; the message names the field */
    HAWKEYE_ERROR_SHAPE = 4,       /* the shapes or strides do not fit together */
    HAWKEYE_ERROR_FORMAT = 5,      /* an operand's format is not one the profile takes */
    HAWKEYE_ERROR_OVERLAP = 6,     /* the output overlaps an operand or itself */
    HAWKEYE_ERROR_UNSUPPORTED = 7, /* a case whose arithmetic is not known: declined, never guessed */
    HAWKEYE_ERROR_CANCELLED = 8,   /* a callback asked to stop */
    HAWKEYE_ERROR_BUFFER = 9,      /* the text buffer is too small; *needed says how large it must be */
    HAWKEYE_ERROR_IO = 10,         /* a file could not be read */
    HAWKEYE_ERROR_FORK = 11,       /* called in a forked child of the process that loaded the library */
    HAWKEYE_ERROR_INTERNAL = 12,   /* a fault of Hawkeye itself; please report the message */
    HAWKEYE_ERROR_DEVICE = 13      /* no driver, no GPU of that number, one without the instruction, or one that failed */
};

/* Number formats. Sub-byte formats hold one element a byte, in its low bits. */
typedef int32_t hawkeye_format;
enum {
    HAWKEYE_F16 = 1,
    HAWKEYE_BF16 = 2,
    HAWKEYE_TF32 = 3, /* in 32-bit words; the low 13 bits are ignored */
    HAWKEYE_F32 = 4,
    HAWKEYE_F64 = 5,
    HAWKEYE_E4M3 = 6, /* e4m3fn, no infinities */
    HAWKEYE_E5M2 = 7,
    HAWKEYE_E4M3FNUZ = 8,
    HAWKEYE_E5M2FNUZ = 9,
    HAWKEYE_E2M1 = 10,
    HAWKEYE_E3M2 = 11,
    HAWKEYE_E2M3 = 12,
    HAWKEYE_E8M0 = 13,
    HAWKEYE_UE4M3 = 14,
    HAWKEYE_S8 = 15,
    HAWKEYE_U8 = 16,
    HAWKEYE_S32 = 17
};

/* ---- the library ------------------------------------------------------------------------------------------------ */

/* The ABI version the library was built with; refuse to go on when it is not HAWKEYE_ABI_VERSION. */
HAWKEYE_API uint32_t hawkeye_abi_version(void);

/* The release, such as "0.1.0". The string is static. */
HAWKEYE_API const char *hawkeye_version(void);

/* The instruction set in use: "avx512", "avx2", "portable" or "oracle". The string is static. */
HAWKEYE_API const char *hawkeye_instruction_set(void);

/* Choose it by name ("auto" for the best this processor has); HAWKEYE_ERROR_UNSUPPORTED where the processor lacks it.
 * The environment variable HAWKEYE_ISA sets the initial choice. */
HAWKEYE_API hawkeye_status hawkeye_set_instruction_set(const char *name, char *message, size_t message_size);

/* A newline-separated list of the instruction sets this processor can run, best first. The string is static. */
HAWKEYE_API const char *hawkeye_instruction_sets(void);

/* Default number of threads of a call; 0 in hawkeye_set_threads means all processors. */
HAWKEYE_API int32_t hawkeye_threads(void);
HAWKEYE_API hawkeye_status hawkeye_set_threads(int32_t threads, char *message, size_t message_size);

/* ---- profiles --------------------------------------------------------------------------------------------------- */

/* A profile says everything about one multiplication's arithmetic. A handle is a checked number: a stale one is an
 * error, never a crash. 0 is never a handle. */
typedef uint64_t hawkeye_profile;

/* By name: "hopper/bf16", "ampere/f16", "hopper/e4m3-fast", ... */
HAWKEYE_API hawkeye_status hawkeye_profile_load(const char *name, hawkeye_profile *profile,
                                                char *message, size_t message_size);
/* From JSON (docs/profile.md). */
HAWKEYE_API hawkeye_status hawkeye_profile_parse(const char *json, size_t json_size, hawkeye_profile *profile,
                                                 char *message, size_t message_size);
HAWKEYE_API hawkeye_status hawkeye_profile_free(hawkeye_profile profile, char *message, size_t message_size);

/* The profile's canonical JSON, the form that hawkeye_profile_parse takes. The profile's identity, `id` in
 * hawkeye_profile_info, is the sha256 of the canonical JSON of its arithmetic alone: without name and provenance, so
 * that two profiles with one id compute the same bits. */
HAWKEYE_API hawkeye_status hawkeye_profile_json(hawkeye_profile profile, char *buffer, size_t buffer_size,
                                                size_t *needed, char *message, size_t message_size);
/* What it says, in a few sentences for a person. */
HAWKEYE_API hawkeye_status hawkeye_profile_describe(hawkeye_profile profile, char *buffer, size_t buffer_size,
                                                    size_t *needed, char *message, size_t message_size);

typedef struct hawkeye_profile_info {
    uint64_t struct_size; /* in: sizeof(hawkeye_profile_info) */
    hawkeye_format a;     /* operand format of A as the step takes it; f32 operands are also taken where
                             takes_f32 is 1 (they are rounded to tf32 first) */
    hawkeye_format b;
    hawkeye_format accumulator; /* f32, f16, f64 or s32 */
    hawkeye_format out;         /* the output format unless the call names another */
    int32_t takes_f32;
    int32_t runnable;     /* 0: hawkeye_gemm declines it but at the instruction set "oracle" */
    char id[72];          /* identity: a sha256, hexadecimal, NUL-terminated */
    char name[128];       /* catalogue name, or "" */
} hawkeye_profile_info;
HAWKEYE_API hawkeye_status hawkeye_profile_get_info(hawkeye_profile profile, hawkeye_profile_info *info,
                                                    char *message, size_t message_size);

/* The catalogue as a JSON array of {"name","id","a","b","accumulator","out","takes_f32","runnable","summary","source",
 * "doubts"}. */
HAWKEYE_API hawkeye_status hawkeye_profile_list(char *buffer, size_t buffer_size, size_t *needed,
                                                char *message, size_t message_size);

/* ---- the rule table --------------------------------------------------------------------------------------------- */

/* The profiles that may explain a multiplication, the likely ones first, as the rule table has them (docs/rules.md).
 * `json` is a case record (docs/cases.md), of which the operands' formats, shapes and strides, the addend, alpha and
 * beta, the scales, the flags and, where given, kernel names and launches are looked at, and no operand's bits. One
 * JSON object is written: {"family","determined","uncertain","unknown","count","candidates"}; determined: the names
 * leave one profile only; unknown: why there is none, else ""; count: of all candidates, of which the first `most` are
 * in `candidates`, each {"family","rule","slices","profile_id","profile"}. */
HAWKEYE_API hawkeye_status hawkeye_rules_choose(const char *json, size_t json_size, int32_t most,
                                                char *buffer, size_t buffer_size, size_t *needed,
                                                char *message, size_t message_size);

/* ---- explanations ----------------------------------------------------------------------------------------------- */

typedef int32_t hawkeye_tree_style;
enum {
    HAWKEYE_TREE_TEXT = 0, /* lines with box-drawing characters */
    HAWKEYE_TREE_DOT = 1   /* the language of Graphviz' dot */
};

typedef struct hawkeye_explain_options {
    uint64_t struct_size;     /* sizeof(hawkeye_explain_options) */
    int64_t m, n, k;          /* sizes of the multiplication; 0 where they are not known */
    const char *family;       /* of the kernel, such as "nvjet", NULL where it is not known */
    hawkeye_tree_style style; /* how a tree is drawn */
    int32_t full;             /* 1: every accumulator of a tree is drawn; 0: long lists of alike parts are counted */
    int32_t width;            /* of a tree: lines of text are cut there, labels of dot wrapped; 0: not, and at 40 */
    int32_t reserved;         /* 0 */
} hawkeye_explain_options;

/* One paragraph for a person: how the profile makes an output element of such a multiplication, the order of the sum, and
 * every rounding. options may be NULL. */
HAWKEYE_API hawkeye_status hawkeye_explain_profile(hawkeye_profile profile, const hawkeye_explain_options *options,
                                                   char *buffer, size_t buffer_size, size_t *needed,
                                                   char *message, size_t message_size);
/* The summation tree for K = options->k, which must be 1 or more. */
HAWKEYE_API hawkeye_status hawkeye_explain_tree(hawkeye_profile profile, const hawkeye_explain_options *options,
                                                char *buffer, size_t buffer_size, size_t *needed,
                                                char *message, size_t message_size);

/* ---- matrix multiplication -------------------------------------------------------------------------------------- */

/* A batch of matrices in the caller's memory: element (x, i, j) lies offset + x*batch_stride + i*row_stride +
 * j*column_stride elements from `data`, which is aligned to the size of an element. Strides may be 0 or negative; a
 * batch_stride of 0 shares one matrix across the batch. A batch without elements may have any strides and a NULL
 * `data`. */
typedef struct hawkeye_matrix {
    uint64_t struct_size; /* sizeof(hawkeye_matrix) */
    void *data;
    int64_t offset; /* elements from data to element (0, 0, 0) */
    hawkeye_format format;
    int32_t reserved; /* 0 */
    int64_t batch, rows, columns;
    int64_t batch_stride, row_stride, column_stride;
} hawkeye_matrix;

/* Called on the calling thread only, about ten times a second; done and total count multiply-adds. A return other than
 * 0 stops the call, which then returns HAWKEYE_ERROR_CANCELLED; the output is then unspecified. It may call the
 * library. */
typedef int32_t (*hawkeye_progress)(void *user, uint64_t done, uint64_t total);

typedef struct hawkeye_gemm_args {
    uint64_t struct_size; /* sizeof(hawkeye_gemm_args) */
    hawkeye_profile profile;
    const hawkeye_matrix *a; /* batch x m x k */
    const hawkeye_matrix *b; /* batch x k x n */
    const hawkeye_matrix *c; /* the addend, batch x m x n, NULL for none; a row_stride of 0 makes it a bias */
    hawkeye_matrix *d;       /* the output; its format overrides the profile's; batch x m x n, or
                                batch x row_count x column_count where a selection is given; its elements share no
                                memory with each other nor with a, b or c */
    double alpha, beta;      /* 1.0 and 1.0 unless the call scales; beta counts only with c */
    const float *scale_a;    /* f8 scales: NULL, one element (per tensor) or m elements (per row) */
    int64_t scale_a_count;
    const float *scale_b; /* NULL, one element or n elements */
    int64_t scale_b_count;
    const int64_t *rows; /* compute only these rows, in this order, NULL for all */
    int64_t row_count;
    const int64_t *columns; /* only these columns, NULL for all */
    int64_t column_count;
    int32_t threads; /* 0: the default */
    int32_t reserved;
    hawkeye_progress progress; /* NULL for none */
    void *progress_user;
} hawkeye_gemm_args;

HAWKEYE_API hawkeye_status hawkeye_gemm(const hawkeye_gemm_args *args, char *message, size_t message_size);

/* ---- comparison ------------------------------------------------------------------------------------------------- */

typedef struct hawkeye_comparison {
    uint64_t struct_size;   /* in: sizeof(hawkeye_comparison) */
    int64_t count;          /* elements compared */
    int64_t differing;      /* elements whose bits differ (every NaN pattern counts as its own) */
    int64_t first;          /* flat row-major index of the first difference, -1 for none */
    int64_t worst;          /* flat index of the largest distance, -1 for none */
    uint64_t worst_ulps;    /* that distance in units in the last place; UINT64_MAX against a NaN */
    uint64_t first_expected, first_actual; /* bit patterns at `first` */
    uint64_t worst_expected, worst_actual; /* bit patterns at `worst` */
} hawkeye_comparison;

/* Compares bits of two batches of equal shape and format. */
HAWKEYE_API hawkeye_status hawkeye_compare(const hawkeye_matrix *expected, const hawkeye_matrix *actual,
                                           hawkeye_comparison *result, char *message, size_t message_size);

/* ---- recorded cases --------------------------------------------------------------------------------------------- */

/* A set of recorded cases: FILE.jsonl with its FILE.bin beside it (a golden set, or single-instruction results), or the
 * folder of a trace (docs/trace.md). */
typedef uint64_t hawkeye_set;

HAWKEYE_API hawkeye_status hawkeye_set_open(const char *path, hawkeye_set *set, int64_t *count,
                                            char *message, size_t message_size);
/* {"kind","about","multiply_adds","cases"} of the set, as JSON; of a trace also {"trace"}, which says what is broken. */
HAWKEYE_API hawkeye_status hawkeye_set_about(hawkeye_set set, char *buffer, size_t buffer_size, size_t *needed,
                                             char *message, size_t message_size);
/* Replays case `index` and writes its verdict as one JSON object: {"id","verdict","plan","reason","op","dtype","out",
 * "family","multiply_adds","seconds","evidence_bits","plans_tried","profile_id",...}. Verdicts: "exact", "wrong",
 * "undecided"; docs/verdicts.md lists every field. A buffer of 64 KiB always suffices; a too small one loses the verdict,
 * and NULL is refused at once. A call that the progress callback stopped writes what is known so far and returns
 * HAWKEYE_ERROR_CANCELLED. */
HAWKEYE_API hawkeye_status hawkeye_set_replay(hawkeye_set set, int64_t index, int32_t threads,
                                              hawkeye_progress progress, void *progress_user,
                                              char *buffer, size_t buffer_size, size_t *needed,
                                              char *message, size_t message_size);

typedef struct hawkeye_replay_options {
    uint64_t struct_size;    /* sizeof(hawkeye_replay_options) */
    hawkeye_profile profile; /* the only one to try; 0: those that kernel names and launches, or sizes, allow */
    hawkeye_progress progress; /* NULL for none */
    void *progress_user;
    int32_t threads; /* 0: the default */
    int32_t blind;   /* 1: the recorded kernel names and launches are not looked at */
    int64_t rows;    /* of a larger output only so many rows are computed, and compared where elements of them are
                        stored, never the hash; 0: all of it */
    const hawkeye_profile *suspects; /* discovered profiles of such a multiplication on such a device, tried where the rules'
                                        own do not make the case exact; NULL for none */
    int64_t suspect_count;
} hawkeye_replay_options;

/* hawkeye_set_replay with options; NULL for none. */
HAWKEYE_API hawkeye_status hawkeye_set_replay_with(hawkeye_set set, int64_t index,
                                                   const hawkeye_replay_options *options,
                                                   char *buffer, size_t buffer_size, size_t *needed,
                                                   char *message, size_t message_size);

/* Replays cases a and b and writes why their bits differ as one JSON object: {"a","b","differences","same_arithmetic",
 * "element","unshown","text"}; `text` is all of it for a person. Of the options, NULL for none, profile and rows must be 0. A
 * buffer of 64 KiB always suffices, as for hawkeye_set_replay. */
HAWKEYE_API hawkeye_status hawkeye_set_why(hawkeye_set set, int64_t a, int64_t b,
                                           const hawkeye_replay_options *options,
                                           char *buffer, size_t buffer_size, size_t *needed,
                                           char *message, size_t message_size);
HAWKEYE_API hawkeye_status hawkeye_set_free(hawkeye_set set, char *message, size_t message_size);

/* ---- discovery -------------------------------------------------------------------------------------------------- */

/* Finds the profile of a matrix multiplication that is given as a function, by asking it questions (docs/discover.md), and
 * holds what it found against fresh inputs. */

typedef int32_t hawkeye_addend;
enum {
    HAWKEYE_ADDEND_NONE = 0,
    HAWKEYE_ADDEND_BIAS = 1, /* n elements, one for each column */
    HAWKEYE_ADDEND_FULL = 2, /* batch x m x n elements, added to the sum */
    HAWKEYE_ADDEND_START = 3 /* batch x m x n elements that the accumulators start from: the C of an instruction */
};

typedef int32_t hawkeye_scaling;
enum {
    HAWKEYE_SCALING_NONE = 0,
    HAWKEYE_SCALING_TENSOR = 1, /* one scale of a and one of b */
    HAWKEYE_SCALING_ROW = 2     /* one a row of a (m) and one a column of b (n) */
};

/* What stays the same from one call of a multiplication to the next. */
typedef struct hawkeye_signature {
    uint64_t struct_size; /* sizeof(hawkeye_signature) */
    hawkeye_format a, b;  /* of the operands as they are handed over */
    hawkeye_format c;     /* of the addend; 0 where there is none */
    hawkeye_format d;     /* of the output */
    int64_t batch, m, n, k;
    double alpha, beta; /* d = alpha a b + beta c; 1 and 1 where nothing is scaled */
    hawkeye_addend addend;
    hawkeye_scaling scaling;
} hawkeye_signature;

/* One multiplication to carry out. Matrices are dense and row-major, each aligned to the size of its elements; nothing of it
 * may be kept after the callback returns. */
typedef struct hawkeye_matmul_call {
    uint64_t struct_size; /* sizeof(hawkeye_matmul_call) in the library's version of this header */
    const void *a;        /* batch x m x k */
    const void *b;        /* batch x k x n */
    const void *c;        /* NULL, n elements (bias) or batch x m x n */
    void *d;              /* batch x m x n, to be written */
    const float *scale_a; /* NULL, 1 element (tensor) or m (row) */
    const float *scale_b; /* NULL, 1 element (tensor) or n (row) */
    uint64_t a_size, b_size, c_size, d_size; /* in bytes */
    int64_t scale_a_count, scale_b_count;    /* in elements */
} hawkeye_matmul_call;

/* The multiplication. It is called on the thread that called hawkeye_discover only, one call after another; it may call the
 * library. A return other than 0 stops the discovery, which then returns HAWKEYE_ERROR_CANCELLED. */
typedef int32_t (*hawkeye_matmul)(void *user, const hawkeye_matmul_call *call);

typedef struct hawkeye_discover_state {
    uint64_t struct_size;     /* sizeof(hawkeye_discover_state) in the library's version of this header */
    const char *phase;        /* what is being found out, in a few words; valid during the call */
    int64_t calls, questions; /* calls of the multiplication so far, and questions that they answered */
    int64_t done, total;      /* elements of the certificate; 0 before it is begun */
} hawkeye_discover_state;

/* Called on the calling thread, before every multiplication and about ten times a second between them. A return other than 0
 * stops the discovery, which then returns HAWKEYE_ERROR_CANCELLED. */
typedef int32_t (*hawkeye_discover_progress)(void *user, const hawkeye_discover_state *state);

typedef struct hawkeye_discover_options {
    uint64_t struct_size; /* sizeof(hawkeye_discover_options) */
    int64_t elements;     /* output elements that must agree before a certificate is given; 0: 65,536 */
    uint64_t seed;        /* makes other inputs of the same kinds */
    int64_t max_calls;    /* of the multiplication, certificate included; 0: 20,000 */
    const char *hardware; /* for the provenance of the profile: such as "NVIDIA H200"; NULL for none */
    const char *library;  /* such as "cuBLAS 13.1.0.3"; NULL for none */
    const hawkeye_profile *suspects; /* profiles to try beside those that the answers suggest; NULL for none */
    int64_t suspect_count;
    hawkeye_discover_progress progress; /* NULL for none */
    void *progress_user;
    int32_t threads; /* of the replays; 0: the default */
    int32_t reserved;
} hawkeye_discover_options;

/* What a discovery found. Its text stays in the library until it is freed, so that no buffer is too small for it. */
typedef uint64_t hawkeye_discovery;

/* options may be NULL. HAWKEYE_OK says that the discovery came to its end, not that a profile was found: that is in its text,
 * with the reason where there is none. */
HAWKEYE_API hawkeye_status hawkeye_discover(const hawkeye_signature *signature, hawkeye_matmul matmul, void *matmul_user,
                                            const hawkeye_discover_options *options, hawkeye_discovery *discovery,
                                            char *message, size_t message_size);
/* All of it as one JSON object: {"profile","certificate","best","broken","reason","findings","calls","questions","tried",
 * "seconds"}; docs/discover.md lists every field. */
HAWKEYE_API hawkeye_status hawkeye_discovery_json(hawkeye_discovery discovery, char *buffer, size_t buffer_size,
                                                  size_t *needed, char *message, size_t message_size);
/* The certified profile, a new handle to be freed like any other; HAWKEYE_ERROR_PROFILE with the reason where none was
 * certified. */
HAWKEYE_API hawkeye_status hawkeye_discovery_profile(hawkeye_discovery discovery, hawkeye_profile *profile,
                                                     char *message, size_t message_size);
HAWKEYE_API hawkeye_status hawkeye_discovery_free(hawkeye_discovery discovery, char *message, size_t message_size);

/* ---- instruction probes ----------------------------------------------------------------------------------------- */

/* Single matrix instructions of an NVIDIA GPU of this machine (docs/instructions.md). The driver's library is opened by the
 * first of these calls; HAWKEYE_ERROR_DEVICE says what is missing. `device` counts the GPUs that the driver shows, from 0. A
 * call keeps nothing on the GPU after it returns. */

/* The GPU and its instructions, as JSON: {"device","name","capability","driver","instructions"}, each instruction
 * {"name","a","b","accumulator","m","n","k","catalogue"}; catalogue: the profile that describes it, "" where none does. */
HAWKEYE_API hawkeye_status hawkeye_cuda_about(int32_t device, char *buffer, size_t buffer_size, size_t *needed,
                                              char *message, size_t message_size);

/* Runs an instruction, named as hawkeye_cuda_about has it ("mma.m16n8k16.f32.bf16.bf16.f32"), on so many independent tiles:
 * d = a b + c. Matrices are dense and row-major and follow one another tile by tile: a m x k, b k x n, c (NULL: zeros) and d
 * m x n in the accumulator's format. tf32 operands are 32-bit words, all bits of which are handed over. */
HAWKEYE_API hawkeye_status hawkeye_cuda_run(int32_t device, const char *instruction, int64_t tiles, const void *a,
                                            const void *b, const void *c, void *d, char *message, size_t message_size);

/* hawkeye_discover with an instruction as the multiplication. `tiles` are run at once, 0 for some 8,192 output elements;
 * options may be NULL, and without its hardware and library the GPU's and the driver's names stand there. The discovery's
 * text has in addition {"device","name","capability","driver","instruction","tiles","comparison"}; instruction is as above,
 * and comparison, absent where no profile was found, {"found","catalogue","equal","differences"} holds the profile against
 * the catalogue's. Operands of a tf32 instruction are asked as f32. */
HAWKEYE_API hawkeye_status hawkeye_cuda_discover(int32_t device, const char *instruction, int64_t tiles,
                                                 const hawkeye_discover_options *options, hawkeye_discovery *discovery,
                                                 char *message, size_t message_size);

#ifdef __cplusplus
}
#endif
#endif /* HAWKEYE_H */
