/* A forked child gets HAWKEYE_ERROR_FORK from every call, at once; the parent goes on; a child of exec is a new process. */
#include "test.h"

#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    uint16_t one = 0x3F80;
    float out = 0;
    hawkeye_profile p = test_profile("hopper/bf16");
    hawkeye_matrix a = test_matrix(&one, HAWKEYE_BF16, 1, 1), b = a, d = test_matrix(&out, HAWKEYE_F32, 1, 1);
    hawkeye_gemm_args args = test_args(p, &a, &b, &d);
    CHECK_STATUS(HAWKEYE_OK, hawkeye_gemm(&args, M_));
    CHECK(out == 1);
    if (argc == 2) /* the child of exec, below */
        return test_result();

    for (int times = 0; times < 3; times++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            char text[16384];
            int64_t count;
            hawkeye_profile_info info = {.struct_size = sizeof info};
            hawkeye_comparison c = {.struct_size = sizeof c};
            alarm(30); /* a hang is a failure too */
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_gemm(&args, M_));
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_set_instruction_set("auto", M_));
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_set_threads(1, M_));
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_profile_load("hopper/bf16", &p, M_));
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_profile_parse("{}", 2, &p, M_));
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_profile_json(p, text, sizeof text, NULL, M_));
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_profile_describe(p, text, sizeof text, NULL, M_));
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_profile_get_info(p, &info, M_));
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_profile_list(text, sizeof text, NULL, M_));
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_compare(&d, &d, &c, M_));
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_set_open("x", &p, &count, M_));
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_set_about(1, text, sizeof text, NULL, M_));
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_set_replay(1, 0, 1, NULL, NULL, text, sizeof text, NULL, M_));
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_set_replay_with(1, 0, NULL, text, sizeof text, NULL, M_));
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_set_why(1, 0, 0, NULL, text, sizeof text, NULL, M_));
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_explain_profile(p, NULL, text, sizeof text, NULL, M_));
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_explain_tree(p, NULL, text, sizeof text, NULL, M_));
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_set_free(1, M_));
            CHECK_STATUS(HAWKEYE_ERROR_FORK, hawkeye_profile_free(p, M_));
            CHECK(hawkeye_gemm(&args, NULL, 0) == HAWKEYE_ERROR_FORK);
            char small[5] = "....";
            CHECK(hawkeye_gemm(&args, small, 4) == HAWKEYE_ERROR_FORK && strcmp(small, "thi") == 0);
            CHECK(hawkeye_abi_version() == HAWKEYE_ABI_VERSION && hawkeye_threads() == 0);
            CHECK(hawkeye_version()[0] == '\0' && hawkeye_instruction_set()[0] == '\0' && hawkeye_instruction_sets()[0] == '\0');
            if (times == 2) {
                execl(argv[0], argv[0], "child", (char *)NULL);
                _exit(2);
            }
            _exit(test_result());
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        out = 0;
        CHECK_STATUS(HAWKEYE_OK, hawkeye_gemm(&args, M_)); /* the parent is not a child */
        CHECK(out == 1);
    }
    CHECK_STATUS(HAWKEYE_OK, hawkeye_profile_free(p, M_));
    return test_result();
}
