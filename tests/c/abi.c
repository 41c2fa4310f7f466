/* The layout of every struct and number that callers compile in: a change here is a change of HAWKEYE_ABI_VERSION. */
#include "test.h"

#define AT(type, field, offset) CHECK(offsetof(type, field) == (offset))

int main(int argc, char **argv) {
    CHECK(hawkeye_abi_version() == HAWKEYE_ABI_VERSION && HAWKEYE_ABI_VERSION == 1);
    CHECK(argc == 2 && strcmp(hawkeye_version(), argv[1]) == 0);
    CHECK(hawkeye_version() == hawkeye_version()); /* static */

    CHECK(sizeof(hawkeye_status) == 4 && sizeof(hawkeye_format) == 4);
    CHECK(sizeof(hawkeye_profile) == 8 && sizeof(hawkeye_set) == 8);
    CHECK(HAWKEYE_OK == 0 && HAWKEYE_ERROR_ARGUMENT == 1 && HAWKEYE_ERROR_INTERNAL == 12 && HAWKEYE_ERROR_DEVICE == 13);
    CHECK(HAWKEYE_F16 == 1 && HAWKEYE_F32 == 4 && HAWKEYE_E4M3 == 6 && HAWKEYE_S32 == 17);

    CHECK(sizeof(hawkeye_matrix) == 80);
    AT(hawkeye_matrix, data, 8);
    AT(hawkeye_matrix, offset, 16);
    AT(hawkeye_matrix, format, 24);
    AT(hawkeye_matrix, reserved, 28);
    AT(hawkeye_matrix, batch, 32);
    AT(hawkeye_matrix, batch_stride, 56);
    AT(hawkeye_matrix, column_stride, 72);

    CHECK(sizeof(hawkeye_gemm_args) == 152);
    AT(hawkeye_gemm_args, profile, 8);
    AT(hawkeye_gemm_args, a, 16);
    AT(hawkeye_gemm_args, d, 40);
    AT(hawkeye_gemm_args, alpha, 48);
    AT(hawkeye_gemm_args, scale_a, 64);
    AT(hawkeye_gemm_args, scale_b, 80);
    AT(hawkeye_gemm_args, rows, 96);
    AT(hawkeye_gemm_args, columns, 112);
    AT(hawkeye_gemm_args, threads, 128);
    AT(hawkeye_gemm_args, progress, 136);
    AT(hawkeye_gemm_args, progress_user, 144);

    CHECK(sizeof(hawkeye_profile_info) == 232);
    AT(hawkeye_profile_info, a, 8);
    AT(hawkeye_profile_info, out, 20);
    AT(hawkeye_profile_info, runnable, 28);
    AT(hawkeye_profile_info, id, 32);
    AT(hawkeye_profile_info, name, 104);

    CHECK(sizeof(hawkeye_comparison) == 80);
    AT(hawkeye_comparison, worst_ulps, 40);
    AT(hawkeye_comparison, worst_actual, 72);

    CHECK(sizeof(hawkeye_replay_options) == 64);
    AT(hawkeye_replay_options, profile, 8);
    AT(hawkeye_replay_options, progress, 16);
    AT(hawkeye_replay_options, progress_user, 24);
    AT(hawkeye_replay_options, threads, 32);
    AT(hawkeye_replay_options, blind, 36);
    AT(hawkeye_replay_options, rows, 40);
    AT(hawkeye_replay_options, suspects, 48);
    AT(hawkeye_replay_options, suspect_count, 56);

    CHECK(sizeof(hawkeye_explain_options) == 56);
    AT(hawkeye_explain_options, m, 8);
    AT(hawkeye_explain_options, k, 24);
    AT(hawkeye_explain_options, family, 32);
    AT(hawkeye_explain_options, style, 40);
    AT(hawkeye_explain_options, width, 48);
    CHECK(HAWKEYE_TREE_TEXT == 0 && HAWKEYE_TREE_DOT == 1);

    CHECK(sizeof(hawkeye_discovery) == 8 && sizeof(hawkeye_addend) == 4 && sizeof(hawkeye_scaling) == 4);
    CHECK(sizeof(hawkeye_signature) == 80);
    AT(hawkeye_signature, d, 20);
    AT(hawkeye_signature, batch, 24);
    AT(hawkeye_signature, alpha, 56);
    AT(hawkeye_signature, addend, 72);
    AT(hawkeye_signature, scaling, 76);
    CHECK(HAWKEYE_ADDEND_BIAS == 1 && HAWKEYE_ADDEND_START == 3 && HAWKEYE_SCALING_ROW == 2);

    CHECK(sizeof(hawkeye_matmul_call) == 104);
    AT(hawkeye_matmul_call, d, 32);
    AT(hawkeye_matmul_call, scale_b, 48);
    AT(hawkeye_matmul_call, d_size, 80);
    AT(hawkeye_matmul_call, scale_b_count, 96);

    CHECK(sizeof(hawkeye_discover_state) == 48);
    AT(hawkeye_discover_state, phase, 8);
    AT(hawkeye_discover_state, total, 40);

    CHECK(sizeof(hawkeye_discover_options) == 88);
    AT(hawkeye_discover_options, seed, 16);
    AT(hawkeye_discover_options, hardware, 32);
    AT(hawkeye_discover_options, suspects, 48);
    AT(hawkeye_discover_options, progress, 64);
    AT(hawkeye_discover_options, progress_user, 72);
    AT(hawkeye_discover_options, threads, 80);
    return test_result();
}
