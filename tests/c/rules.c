/* The rule table: the likeliest profile of a case record, which hawkeye_gemm takes, and what is refused. */
#include "test.h"

int main(void) {
    static char text[1 << 16], name[1 << 16];
    static const char record[] =
        "{\"record_version\":\"1.0\",\"id\":\"\",\"op\":\"mm\",\"a\":{\"format\":\"bf16\",\"shape\":[1,1,4096],\"strides\":"
        "[4096,4096,1]},\"b\":{\"format\":\"bf16\",\"shape\":[1,4096,8],\"strides\":[32768,8,1]},\"out\":{\"format\":\"bf16\","
        "\"shape\":[1,1,8]}";
    size_t needed = 0, n = 0;

    snprintf(name, sizeof name, "%s}", record);
    CHECK_STATUS(HAWKEYE_OK, hawkeye_rules_choose(name, strlen(name), 1, text, sizeof text, &needed, M_));
    CHECK(needed == strlen(text) + 1 && strstr(text, "\"determined\":false") && strstr(text, "\"rule\":\"nvjet\""));
    char *json = strstr(text, "\"profile\":");
    CHECK(json != NULL);
    json += strlen("\"profile\":");
    n = strlen(json) - strlen("}]}"); /* the end of the candidate, of the list and of the answer */
    hawkeye_profile p = 0;
    CHECK_STATUS(HAWKEYE_OK, hawkeye_profile_parse(json, n, &p, M_));
    CHECK_STATUS(HAWKEYE_OK, hawkeye_profile_free(p, M_));

    CHECK_STATUS(HAWKEYE_OK, hawkeye_rules_choose(name, strlen(name), 0, text, sizeof text, NULL, M_));
    CHECK(strstr(text, "\"candidates\":[]"));
    CHECK_STATUS(HAWKEYE_ERROR_BUFFER, hawkeye_rules_choose(name, strlen(name), 5, text, 16, &needed, M_));
    CHECK(needed > 16 && strlen(text) == 15);

    n = (size_t)snprintf(name, sizeof name, "%s,\"kernels\":[\"nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT\"]}", record);
    CHECK_STATUS(HAWKEYE_OK, hawkeye_rules_choose(name, n, 1, text, sizeof text, NULL, M_));
    CHECK(strstr(text, "\"determined\":true") && strstr(text, "\"count\":1"));

    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_rules_choose(NULL, n, 1, text, sizeof text, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_rules_choose(name, n, -1, text, sizeof text, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_rules_choose(name, n - 1, 1, text, sizeof text, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_rules_choose(name, 0, 1, text, sizeof text, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_rules_choose(name, SIZE_MAX, 1, text, sizeof text, NULL, M_));
    CHECK_STATUS(HAWKEYE_ERROR_ARGUMENT, hawkeye_rules_choose(name, n, 1, NULL, 8, NULL, M_));
    return test_result();
}
