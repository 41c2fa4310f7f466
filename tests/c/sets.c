/* Recorded cases: opening a set, what it says, replaying some, and what is wrong with bad files. Usage: sets SET.jsonl */
#include "test.h"

#include <unistd.h>

static int32_t stop(void *user, uint64_t done, uint64_t total) {
    (void)done, (void)total;
    ++*(int *)user;
    return 1;
}

int main(int argc, char **argv) {
    hawkeye_set set = 0, other = 0;
    int64_t count = -1;
    static char text[1 << 16];
    size_t needed = 0;
    if (argc != 2)
        return 2;
    CHECK_STATUS(HAWKEYE_OK, hawkeye_set_open(argv[1], &set, &count, M_));
    CHECK(set != 0 && count == 517);
    CHECK_STATUS(HAWKEYE_OK, hawkeye_set_about(set, text, sizeof text, &needed, M_));
    CHECK(text[0] == '{' && strstr(text, "\"multiply_adds\"") && strstr(text, "\"cases\"") && strstr(text, "H200"));
    CHECK(needed == strlen(text) + 1);

    /* dev-0184, the case of replay.c; the set skips a number before it */
    CHECK_STATUS(HAWKEYE_OK, hawkeye_set_replay(set, 183, 2, NULL, NULL, text, sizeof text, &needed, M_));
    CHECK(strstr(text, "\"id\":\"dev-0184\"") && strstr(text, "\"verdict\":\"exact\"") && needed == strlen(text) + 1);

    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_replay(set, -1, 0, NULL, NULL, text, sizeof text, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_replay(set, count, 0, NULL, NULL, text, sizeof text, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_replay(set, 0, -1, NULL, NULL, text, sizeof text, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_replay(set, 0, 0, NULL, NULL, NULL, 0, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_BUFFER, hawkeye_set_replay(set, 183, 0, NULL, NULL, text, 4, &needed, M_));
    CHECK(needed > 20 && strlen(text) == 3);

    int calls = 0; /* a big case, stopped at its first report */
    hawkeye_status s = hawkeye_set_replay(set, 155, 1, stop, &calls, text, sizeof text, NULL, NULL, 0);
    CHECK(calls == 0 ? s == HAWKEYE_OK : calls == 1 && s == HAWKEYE_ERROR_CANCELLED);

    /* with options: one profile alone, names unread, and what is refused */
    hawkeye_replay_options o = {.struct_size = sizeof o, .threads = 1, .profile = test_profile("hopper/bf16")};
    CHECK_STATUS(HAWKEYE_OK, hawkeye_set_replay_with(set, 183, &o, text, sizeof text, &needed, M_));
    CHECK(strstr(text, "\"verdict\":\"exact\"") && needed == strlen(text) + 1);
    o.profile = test_profile("ampere/bf16");
    CHECK_STATUS(HAWKEYE_OK, hawkeye_set_replay_with(set, 183, &o, text, sizeof text, NULL, M_));
    CHECK(strstr(text, "\"verdict\":\"wrong\""));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_why(set, 183, 183, &o, text, sizeof text, NULL, M_));
    o = (hawkeye_replay_options){.struct_size = sizeof o, .blind = 1};
    CHECK_STATUS(HAWKEYE_OK, hawkeye_set_replay_with(set, 183, &o, text, sizeof text, NULL, M_));
    CHECK(strstr(text, "\"id\":\"dev-0184\"") && !strstr(text, "\"verdict\":\"wrong\""));
    CHECK_STATUS(HAWKEYE_OK, hawkeye_set_replay_with(set, 183, NULL, text, sizeof text, NULL, M_));
    o.blind = 2;
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_replay_with(set, 183, &o, text, sizeof text, NULL, M_));
    o = (hawkeye_replay_options){.struct_size = sizeof o, .rows = 4};
    CHECK_STATUS(HAWKEYE_OK, hawkeye_set_replay_with(set, 183, &o, text, sizeof text, NULL, M_));
    CHECK(strstr(text, "\"compared\":\"") && strstr(text, " elements, in 4 rows\""));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_why(set, 183, 183, &o, text, sizeof text, NULL, M_));
    o.rows = -1;
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_replay_with(set, 183, &o, text, sizeof text, NULL, M_));
    o = (hawkeye_replay_options){.struct_size = sizeof o, .profile = 77};
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_set_replay_with(set, 183, &o, text, sizeof text, NULL, M_));
    o = (hawkeye_replay_options){.struct_size = 8};
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_replay_with(set, 183, &o, text, sizeof text, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_replay_with(set, 183, NULL, NULL, 0, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_replay_with(set, count, NULL, text, sizeof text, NULL, M_));

    /* why two cases differ, here one and itself */
    CHECK_STATUS(HAWKEYE_OK, hawkeye_set_why(set, 183, 183, NULL, text, sizeof text, &needed, M_));
    CHECK(strstr(text, "\"same_arithmetic\":true") && strstr(text, "\"text\":\"") && needed == strlen(text) + 1);
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_why(set, 183, count, NULL, text, sizeof text, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_why(set, -1, 183, NULL, text, sizeof text, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_why(set, 183, 183, NULL, NULL, 0, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_set_why(0, 183, 183, NULL, text, sizeof text, NULL, M_));
    calls = 0;
    o = (hawkeye_replay_options){.struct_size = sizeof o, .threads = 1, .progress = stop, .progress_user = &calls};
    s = hawkeye_set_why(set, 155, 183, &o, text, sizeof text, NULL, NULL, 0);
    CHECK(calls == 0 ? s == HAWKEYE_OK : s == HAWKEYE_ERROR_CANCELLED);

    CHECK_STATUS(HAWKEYE_OK, hawkeye_set_open(argv[1], &other, NULL, M_));
    CHECK(other != set);
    CHECK_STATUS(HAWKEYE_OK, hawkeye_set_free(set, M_));
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_set_free(set, M_));
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_set_about(set, text, sizeof text, NULL, M_));
    CHECK_STATUS(HAWKEYE_OK, hawkeye_set_free(other, M_));

    char path[] = "hawkeye-set-XXXXXX.jsonl";
    int file = mkstemps(path, 6);
    CHECK(file >= 0 && write(file, "not json\n", 9) == 9);
    close(file);
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_set_open(path, &set, NULL, M_));
    CHECK(set == 0);
    unlink(path);
    CHECK_STATUS(HAWKEYE_ERROR_IO, hawkeye_set_open(".", &set, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_IO, hawkeye_set_open("", &set, NULL, M_));
    return test_result();
}
