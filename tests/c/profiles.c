/* Profiles by name and from JSON, what they say of themselves, and the protocol of calls that return text. */
#include "test.h"

typedef hawkeye_status (*text_call)(hawkeye_profile, char *, size_t, size_t *, char *, size_t);

static hawkeye_status list(hawkeye_profile p, char *buffer, size_t size, size_t *needed, char *message, size_t n) {
    (void)p;
    return hawkeye_profile_list(buffer, size, needed, message, n);
}

/* All buffer sizes near the ends of the text, the byte after the buffer watched. */
static void check_text(text_call call, hawkeye_profile p) {
    size_t needed = 0, again = 0;
    CHECK_STATUS(HAWKEYE_ERROR_BUFFER, call(p, NULL, 0, &needed, M_));
    CHECK_STATUS(HAWKEYE_ERROR_BUFFER, call(p, NULL, 0, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, call(p, NULL, 10, NULL, M_));
    CHECK(needed > 20);
    char *whole = malloc(needed + 1), *part = malloc(needed + 3);
    CHECK_STATUS(HAWKEYE_OK, call(p, whole, needed, &again, M_));
    CHECK(again == needed && strlen(whole) == needed - 1);
    for (size_t size = 0; size <= needed + 1; size += size < 10 || size + 10 > needed ? 1 : needed - size - 9) {
        memset(part, 0x5A, needed + 3);
        again = 0;
        CHECK_STATUS(size < needed ? HAWKEYE_ERROR_BUFFER : HAWKEYE_OK, call(p, part, size, &again, M_));
        CHECK(again == needed && part[size] == 0x5A);
        CHECK(size == 0 || (strlen(part) < size && strncmp(part, whole, strlen(part)) == 0));
        CHECK(size == 0 || strlen(part) + 4 >= (size < needed ? size : needed)); /* cut at most one character short */
    }
    free(whole);
    free(part);
}

int main(void) {
    hawkeye_profile p = test_profile("hopper/bf16"), q = 0;
    check_text(hawkeye_profile_json, p);
    check_text(hawkeye_profile_describe, p);
    check_text(list, p);

    static char json[1 << 20], json2[1 << 20];
    CHECK_STATUS(HAWKEYE_OK, hawkeye_profile_json(p, json, sizeof json, NULL, M_));
    CHECK_STATUS(HAWKEYE_OK, hawkeye_profile_parse(json, strlen(json), &q, M_));
    CHECK_STATUS(HAWKEYE_OK, hawkeye_profile_json(q, json2, sizeof json2, NULL, M_));
    CHECK(strcmp(json, json2) == 0);

    hawkeye_profile_info i = {.struct_size = sizeof i}, j = {.struct_size = sizeof j};
    CHECK_STATUS(HAWKEYE_OK, hawkeye_profile_get_info(p, &i, M_));
    CHECK_STATUS(HAWKEYE_OK, hawkeye_profile_get_info(q, &j, M_));
    CHECK(i.a == HAWKEYE_BF16 && i.b == HAWKEYE_BF16 && i.accumulator == HAWKEYE_F32 && i.out == HAWKEYE_BF16);
    CHECK(i.takes_f32 == 0 && i.runnable == 1 && strcmp(i.name, "hopper/bf16") == 0);
    CHECK(strlen(i.id) == 64 && strspn(i.id, "0123456789abcdef") == 64 && strcmp(i.id, j.id) == 0);
    hawkeye_profile tf32 = test_profile("hopper/tf32");
    CHECK_STATUS(HAWKEYE_OK, hawkeye_profile_get_info(tf32, &j, M_));
    CHECK(j.a == HAWKEYE_TF32 && j.out == HAWKEYE_F32 && j.takes_f32 == 1 && strcmp(i.id, j.id) != 0);

    /* A newer caller's struct: what this library does not know comes back as zero. */
    struct {
        hawkeye_profile_info known;
        uint64_t unknown[2];
    } newer = {.known = {.struct_size = sizeof newer}, .unknown = {1, 2}};
    CHECK_STATUS(HAWKEYE_OK, hawkeye_profile_get_info(p, &newer.known, M_));
    CHECK(newer.known.a == HAWKEYE_BF16 && newer.unknown[0] == 0 && newer.unknown[1] == 0);

    CHECK_STATUS(HAWKEYE_OK, hawkeye_profile_list(json, sizeof json, NULL, M_));
    CHECK(json[0] == '[' && json[strlen(json) - 1] == ']');
    for (const char *const *name = (const char *const[]){"hopper/bf16", "ampere/f16", "hopper/e4m3-fast", NULL}; *name; name++) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "\"name\":\"%s\"", *name);
        CHECK(strstr(json, wanted) != NULL);
    }

    CHECK_STATUS(HAWKEYE_ERROR_PROFILE, hawkeye_profile_load("hopper/nothing", &q, M_));
    CHECK(q == 0);
    CHECK_STATUS(HAWKEYE_ERROR_PROFILE, hawkeye_profile_load("", &q, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_profile_load("\xFF\xFE", &q, M_));
    for (const char *const *bad = (const char *const[]){"", "{", "[]", "null", "{\"no_such_field\": 1}", "{} {}", NULL}; *bad; bad++)
        CHECK_STATUS(HAWKEYE_ERROR_PROFILE, hawkeye_profile_parse(*bad, strlen(*bad), &q, M_));

    /* The message fits the caller's buffer, whatever its size. */
    for (size_t size = 0; size < 40; size++) {
        char message[41];
        memset(message, 0x5A, sizeof message);
        CHECK(hawkeye_profile_load("hopper/nothing", &q, message, size) == HAWKEYE_ERROR_PROFILE);
        CHECK(message[size] == 0x5A && (size == 0 || strlen(message) < size));
    }
    CHECK(hawkeye_profile_load("hopper/nothing", &q, NULL, 100) == HAWKEYE_ERROR_PROFILE);

    /* Instruction sets: each that is listed can be chosen, and the choice is reported. */
    char sets[256], before[32];
    snprintf(sets, sizeof sets, "%s", hawkeye_instruction_sets());
    snprintf(before, sizeof before, "%s", hawkeye_instruction_set());
    int count = 0;
    for (char *name = strtok(sets, "\n"); name; name = strtok(NULL, "\n"), count++) {
        CHECK_STATUS(HAWKEYE_OK, hawkeye_set_instruction_set(name, M_));
        CHECK(strcmp(hawkeye_instruction_set(), name) == 0);
    }
    CHECK(count >= 2);
    CHECK_STATUS(HAWKEYE_ERROR_UNSUPPORTED, hawkeye_set_instruction_set("sse9", M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_instruction_set("", M_));
    CHECK_STATUS(HAWKEYE_OK, hawkeye_set_instruction_set("auto", M_));
    CHECK_STATUS(HAWKEYE_OK, hawkeye_set_instruction_set(before, M_));

    CHECK(hawkeye_threads() >= 1);
    CHECK_STATUS(HAWKEYE_OK, hawkeye_set_threads(3, M_));
    CHECK(hawkeye_threads() == 3);
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_threads(-1, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_threads(INT32_MAX, M_));
    CHECK(hawkeye_threads() == 3);
    CHECK_STATUS(HAWKEYE_OK, hawkeye_set_threads(0, M_));
    CHECK(hawkeye_threads() >= 1);
    return test_result();
}
