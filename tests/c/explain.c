/* Explanations of profiles: the paragraph, the tree in both styles, and what is refused. */
#include "test.h"

int main(void) {
    static char text[1 << 16], other[1 << 16];
    size_t needed = 0;
    hawkeye_profile p = test_profile("hopper/bf16");
    hawkeye_explain_options o = {.struct_size = sizeof o, .m = 5, .n = 512, .k = 2048, .family = "nvjet"};

    CHECK_STATUS(HAWKEYE_OK, hawkeye_explain_profile(p, &o, text, sizeof text, &needed, M_));
    CHECK(needed == strlen(text) + 1 && strstr(text, "nvjet kernel") && strstr(text, "2048 products of bf16"));
    CHECK(strstr(text, "16 products at once") && strstr(text, "rounded 129 times"));
    CHECK_STATUS(HAWKEYE_OK, hawkeye_explain_profile(p, NULL, other, sizeof other, &needed, M_));
    CHECK(strstr(other, "a sum of K products") && strcmp(text, other) != 0);
    CHECK_STATUS(HAWKEYE_ERROR_BUFFER, hawkeye_explain_profile(p, &o, other, 8, &needed, M_));
    CHECK(needed == strlen(text) + 1 && strlen(other) < 8);

    CHECK_STATUS(HAWKEYE_OK, hawkeye_explain_tree(p, &o, text, sizeof text, &needed, M_));
    CHECK(strstr(text, "output: ") == text && strstr(text, "accumulator of 2048 products") && needed == strlen(text) + 1);
    o.style = HAWKEYE_TREE_DOT;
    CHECK_STATUS(HAWKEYE_OK, hawkeye_explain_tree(p, &o, text, sizeof text, NULL, M_));
    CHECK(strncmp(text, "digraph ", 8) == 0 && strstr(text, "n0 -> n1;"));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_explain_tree(p, NULL, text, sizeof text, NULL, M_)); /* which K? */

    static const char split[] =
        "{\"schema_version\":1,\"step\":\"hopper/bf16\",\"plan\":{\"split\":{\"slices\":100,\"grain\":8,\"of\":{\"chain\":{}},"
        "\"merge\":{\"partial\":\"f32\",\"sum\":\"f32\"}}},\"epilogue\":{\"out\":\"bf16\",\"form\":\"add\"},"
        "\"provenance\":{\"source\":\"test\"}}";
    hawkeye_profile many = 0;
    CHECK_STATUS(HAWKEYE_OK, hawkeye_profile_parse(split, sizeof split - 1, &many, M_));
    o = (hawkeye_explain_options){.struct_size = sizeof o, .k = 2400, .width = 40};
    CHECK_STATUS(HAWKEYE_OK, hawkeye_explain_tree(many, &o, text, sizeof text, &needed, M_));
    CHECK(strstr(text, "97 more alike"));
    o.full = 1, o.width = 0;
    CHECK_STATUS(HAWKEYE_OK, hawkeye_explain_tree(many, &o, other, sizeof other, NULL, M_));
    CHECK(strlen(other) > 10 * strlen(text) && strstr(other, "k = 2376\342\200\2462399"));

    static const struct {
        int64_t k;
        int32_t style, full, width, reserved;
    } bad[] = {{-1, 0, 0, 0, 0}, {8, 2, 0, 0, 0}, {8, -1, 0, 0, 0}, {8, 0, 2, 0, 0}, {8, 0, 0, -1, 0}, {8, 0, 0, 0, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o = (hawkeye_explain_options){.struct_size = sizeof o, .k = bad[i].k, .style = bad[i].style, .full = bad[i].full,
                                      .width = bad[i].width, .reserved = bad[i].reserved};
        CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_explain_tree(p, &o, text, sizeof text, NULL, M_));
        CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_explain_profile(p, &o, text, sizeof text, NULL, M_));
    }
    o = (hawkeye_explain_options){.struct_size = sizeof o - 4, .k = 8};
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_explain_profile(p, &o, text, sizeof text, NULL, M_));
    o = (hawkeye_explain_options){.struct_size = sizeof o, .k = 8, .family = "\xff"};
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_explain_profile(p, &o, text, sizeof text, NULL, M_));
    o.family = NULL;
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_explain_profile(p, &o, NULL, 8, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_explain_profile(0, &o, text, sizeof text, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_HANDLE, hawkeye_explain_tree(p + 1000, &o, text, sizeof text, NULL, M_));

    static const char fixed[] = "{\"schema_version\":1,\"step\":\"hopper/bf16\",\"plan\":{\"tree\":{\"k\":4,\"root\":{\"chain\":"
                                "[{\"start\":0,\"stop\":4}]}}},\"epilogue\":{\"out\":\"bf16\",\"form\":\"add\"},"
                                "\"provenance\":{\"source\":\"test\"}}";
    hawkeye_profile four = 0;
    CHECK_STATUS(HAWKEYE_OK, hawkeye_profile_parse(fixed, sizeof fixed - 1, &four, M_));
    CHECK_STATUS(HAWKEYE_ERROR_UNSUPPORTED, hawkeye_explain_tree(four, &o, text, sizeof text, NULL, M_)); /* K = 8 */
    o.k = 4;
    CHECK_STATUS(HAWKEYE_OK, hawkeye_explain_tree(four, &o, text, sizeof text, NULL, M_));
    return test_result();
}
