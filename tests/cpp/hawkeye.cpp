// The C++ wrapper: ownership, views, options, exceptions. What the library computes is tested elsewhere.
#include <hawkeye.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

bool second_unit_sees_the_library();

static int failures = 0;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::cerr << __FILE__ << ":" << __LINE__ << ": not true: " #condition "\n";                                \
            failures++;                                                                                                \
        }                                                                                                              \
    } while (0)

// The status of the hawkeye::Error that f throws, Status::ok where it throws none.
template <class F> static hawkeye::Status status_of(F &&f) {
    try {
        f();
    } catch (const hawkeye::Error &e) {
        CHECK(std::strlen(e.what()) > 0);
        return e.status();
    }
    return hawkeye::Status::ok;
}

// A type of the caller's own.
struct my_half {
    std::uint16_t bits;
};
template <> struct hawkeye::format_of<my_half> {
    static constexpr hawkeye::Format value = hawkeye::Format::f16;
};

using hawkeye::ConstMatrix;
using hawkeye::Matrix;
using hawkeye::Profile;
using hawkeye::Status;

static_assert(!std::is_copy_constructible_v<Profile> && std::is_nothrow_move_constructible_v<Profile>);
static_assert(!std::is_copy_constructible_v<hawkeye::Set> && std::is_nothrow_move_assignable_v<hawkeye::Set>);
static_assert(std::is_convertible_v<Matrix, ConstMatrix> && !std::is_convertible_v<ConstMatrix, Matrix>);
static_assert(std::is_constructible_v<ConstMatrix, const float *, int, int>);
static_assert(!std::is_constructible_v<Matrix, const float *, int, int>); // the output must be writable

static std::vector<hawkeye::bf16> numbers(std::size_t n, std::uint32_t seed) {
    std::vector<hawkeye::bf16> x(n);
    for (auto &e : x) {
        seed = seed * 1664525u + 1013904223u;
        e.bits = static_cast<std::uint16_t>((seed >> 31) << 15 | (0x3F00u + (seed >> 16 & 0xFFu)));
    }
    return x;
}

static void profiles() {
    auto p = Profile::load("hopper/bf16");
    const auto handle = p.handle();
    CHECK(handle != 0);
    Profile q = std::move(p);
    CHECK(q.handle() == handle);
    {
        Profile r = q.clone();
        CHECK(r.handle() != handle && r.json() == q.json() && r.info().id == q.info().id);
        const auto freed = r.handle();
        r = Profile::load("ampere/f16"); // swaps; the old one dies with the temporary
        CHECK(hawkeye_profile_free(freed, nullptr, 0) == HAWKEYE_ERROR_HANDLE);
    }
    const auto info = q.info();
    CHECK(info.a == hawkeye::Format::bf16 && info.accumulator == hawkeye::Format::f32 && info.name == "hopper/bf16");
    CHECK(info.runnable && !info.takes_f32 && info.id.size() == 64);
    CHECK(!q.describe().empty() && Profile::list_json().find("\"hopper/bf16\"") != std::string::npos);
    const std::string longer = "hopper/bf16-and-more"; // a view without a NUL at its end
    CHECK(Profile::load(std::string_view(longer).substr(0, 11)).info().name == "hopper/bf16");
    CHECK(status_of([] { Profile::load("no/such"); }) == Status::profile);
    CHECK(status_of([] { Profile::parse("{"); }) == Status::profile);
    CHECK(status_of([] { Profile::parse({}); }) == Status::profile);
}

static void explanations() {
    const auto p = Profile::load("hopper/bf16");
    const auto text = hawkeye::explain(p, {5, 512, 2048, "nvjet"});
    CHECK(text.find("nvjet kernel") != std::string::npos && text.find("5\u00d7512") != std::string::npos);
    CHECK(hawkeye::explain(p).find("a sum of K products") != std::string::npos);
    CHECK(hawkeye::explain_tree(p, 2048).find("accumulator of 2048 products") != std::string::npos);
    CHECK(hawkeye::explain_tree(p, 2048, {hawkeye::TreeStyle::dot}).rfind("digraph ", 0) == 0);
    CHECK(status_of([&] { hawkeye::explain_tree(p, 0); }) == Status::argument);
    CHECK(status_of([&] { hawkeye::explain(p, {-1, 0, 0, ""}); }) == Status::argument);

    const std::string record =
        R"({"record_version":"1.0","id":"","op":"mm","a":{"format":"bf16","shape":[1,8,64],"strides":[512,64,1]},)"
        R"("b":{"format":"bf16","shape":[1,64,8],"strides":[512,8,1]},"out":{"format":"bf16","shape":[1,8,8]}})";
    CHECK(hawkeye::choose_rules(record).find("\"rule\":\"nvjet\"") != std::string::npos);
    CHECK(status_of([&] { hawkeye::choose_rules("{}"); }) == Status::argument);
}

static void library() {
    CHECK(!hawkeye::version().empty());
    const auto sets = hawkeye::instruction_sets();
    CHECK(std::find(sets.begin(), sets.end(), "portable") != sets.end());
    CHECK(std::find(sets.begin(), sets.end(), hawkeye::instruction_set()) != sets.end());
    hawkeye::set_instruction_set("portable");
    CHECK(hawkeye::instruction_set() == "portable");
    hawkeye::set_instruction_set("auto");
    CHECK(status_of([] { hawkeye::set_instruction_set("abacus"); }) == Status::unsupported);
    hawkeye::set_threads(2);
    CHECK(hawkeye::threads() == 2);
    hawkeye::set_threads(0);
    CHECK(status_of([] { hawkeye::set_threads(-1); }) == Status::argument);
    CHECK(second_unit_sees_the_library());
}

static void multiplication() {
    constexpr std::int64_t M = 9, N = 14, K = 50;
    const auto p = Profile::load("hopper/bf16");
    const auto a = numbers(M * K, 1), b = numbers(K * N, 2), bt = [&] {
        std::vector<hawkeye::bf16> t(b.size());
        for (std::size_t k = 0; k < K; k++)
            for (std::size_t j = 0; j < N; j++)
                t[j * K + k] = b[k * N + j];
        return t;
    }();
    std::vector<float> d(M * N), e(M * N, -1.0f);
    const Matrix D(d.data(), M, N), E(e.data(), M, N);
    const ConstMatrix A(a.data(), M, K), B(b.data(), K, N);
    hawkeye::gemm(p, A, B, D);
    hawkeye::gemm(p, A, ConstMatrix(bt.data(), N, K).transposed(), E);
    CHECK(hawkeye::compare(D, E).equal() && hawkeye::compare(D, E).count == M * N);
    CHECK(d[0] != d[1]);

    // blocks of the output, by blocks of the operands and by selection
    std::fill(e.begin(), e.end(), -1.0f);
    for (std::int64_t i = 0; i < M; i += 4)
        for (std::int64_t j = 0; j < N; j += 5) {
            const auto m = std::min<std::int64_t>(4, M - i), n = std::min<std::int64_t>(5, N - j);
            hawkeye::gemm(p, A.block(i, 0, m, K), B.block(0, j, K, n), E.block(i, j, m, n));
        }
    CHECK(hawkeye::compare(D, E).equal());
    CHECK(status_of([&] { D.block(1, 0, M, N); }) == Status::shape);
    CHECK(status_of([&] { D.block(-1, 0, 1, 1); }) == Status::shape);
    hawkeye::Options some;
    some.rows = {8, 2};
    some.columns = {13};
    some.threads = 2;
    hawkeye::gemm(p, A, B, Matrix(e.data(), 2, 1), some);
    CHECK(e[0] == d[8 * N + 13] && e[1] == d[2 * N + 13]);
    some.rows = std::vector<std::int64_t>{};
    hawkeye::gemm(p, A, B, Matrix(e.data(), 0, 1), some); // none, not all
    CHECK(status_of([&] { hawkeye::gemm(p, A, B, Matrix(e.data(), M, 1), some); }) == Status::shape);

    // a batch that shares B; formats at run time; a bias
    std::vector<float> twice(2 * M * N);
    hawkeye::gemm(p, A.batch(2, 0), ConstMatrix(hawkeye::Format::bf16, b.data(), K, N).batch(2, 0), Matrix(twice.data(), M, N).batch(2, M * N));
    CHECK(std::equal(d.begin(), d.end(), twice.begin()) && std::equal(d.begin(), d.end(), twice.begin() + M * N));
    std::vector<float> bias(N, 0.0f);
    hawkeye::Options add;
    add.c = ConstMatrix::bias(bias.data(), M, N);
    hawkeye::gemm(p, A, B, E, add);
    CHECK(hawkeye::compare(D, E).equal());
    bias[3] = 1e30f;
    hawkeye::gemm(p, A, B, E, add);
    CHECK(hawkeye::compare(D, E).differing == M && hawkeye::compare(D, E).first == 3);

    CHECK(ConstMatrix(static_cast<const my_half *>(nullptr), 0, 0).format() == hawkeye::Format::f16);
    std::vector<my_half> wrong(M * K);
    CHECK(status_of([&] { hawkeye::gemm(p, {wrong.data(), M, K}, B, E); }) == Status::format);
    CHECK(status_of([&] { hawkeye::gemm(p, A, A, E); }) == Status::shape);
    CHECK(status_of([&] { hawkeye::gemm(p, A, B, E.strides(0, 1)); }) == Status::overlap);
    Profile empty = Profile::load("hopper/bf16"), full = std::move(empty);
    CHECK(status_of([&] { hawkeye::gemm(empty, A, B, E); }) == Status::handle);
    CHECK(status_of([&] { hawkeye::compare(D, E.transposed()); }) == Status::shape);
}

static void progress() {
    const auto p = Profile::load("hopper/bf16");
    const auto x = numbers(64, 3);
    std::vector<float> d(64 * 64);
    const auto a = ConstMatrix(x.data(), 64, std::int64_t{1} << 30).strides(1, 0);
    const auto b = ConstMatrix(x.data(), std::int64_t{1} << 30, 64).strides(0, 1);
    hawkeye::Options options;
    int calls = 0;
    bool here = true;
    const auto caller = std::this_thread::get_id();
    options.progress = [&](std::uint64_t done, std::uint64_t total) {
        here = here && std::this_thread::get_id() == caller && done <= total;
        return ++calls < 2;
    };
    CHECK(status_of([&] { hawkeye::gemm(p, a, b, {d.data(), 64, 64}, options); }) == Status::cancelled);
    CHECK(calls == 2 && here);
    options.progress = [](std::uint64_t, std::uint64_t) -> bool { throw std::logic_error("from the callback"); };
    std::string what;
    try {
        hawkeye::gemm(p, a, b, {d.data(), 64, 64}, options);
    } catch (const std::logic_error &e) {
        what = e.what();
    }
    CHECK(what == "from the callback");
}

static void recorded(const char *path) {
    hawkeye::Set set(path);
    CHECK(set.size() == 517 && set.about_json().find("H200") != std::string::npos);
    CHECK(set.replay(183).find("\"verdict\":\"exact\"") != std::string::npos);
    CHECK(status_of([&] { set.replay(517); }) == Status::argument);
    const auto known = Profile::load("hopper/bf16"), narrow = Profile::load("ampere/bf16");
    hawkeye::ReplayOptions options;
    options.profile = &known;
    CHECK(set.replay(183, options).find("\"verdict\":\"exact\"") != std::string::npos);
    CHECK(status_of([&] { set.why(183, 183, options); }) == Status::argument);
    options.profile = &narrow;
    CHECK(set.replay(183, options).find("\"verdict\":\"exact\"") == std::string::npos);
    options.profile = nullptr;
    options.suspects = {&narrow};
    CHECK(set.replay(183, options).find("\"verdict\":\"exact\"") != std::string::npos);
    options.suspects = {&narrow, nullptr};
    CHECK(status_of([&] { set.replay(183, options); }) == Status::handle);
    options.suspects = {};
    options.blind = true;
    CHECK(set.replay(183, options).find("\"verdict\":\"wrong\"") == std::string::npos);
    CHECK(set.why(183, 183).find("\"same_arithmetic\":true") != std::string::npos);
    CHECK(status_of([&] { set.why(183, 517); }) == Status::argument);
    hawkeye::Set other = std::move(set);
    CHECK(set.handle() == 0 && set.size() == 0 && other.size() == 517);
    CHECK(status_of([&] { set.about_json(); }) == Status::handle);
    CHECK(status_of([] { hawkeye::Set("no/such/set.jsonl"); }) == Status::io);
}

// d = a b in one f32 accumulator an element, k ascending.
static bool chain(const hawkeye::MatmulCall &call, std::size_t m, std::size_t n, std::size_t k) {
    const auto a = static_cast<const float *>(call.a), b = static_cast<const float *>(call.b);
    const auto d = static_cast<float *>(call.d);
    for (std::size_t i = 0; i < m; i++)
        for (std::size_t j = 0; j < n; j++) {
            float sum = 0;
            for (std::size_t l = 0; l < k; l++)
                sum = std::fma(a[i * k + l], b[l * n + j], sum);
            d[i * n + j] = sum;
        }
    return true;
}

// Without a GPU every call says so; with one, an instruction multiplies.
static void instructions() {
    const char *name = "mma.m16n8k8.f32.f16.f16.f32";
    std::vector<std::uint16_t> a(16 * 8, 0x3C00), b(8 * 8, 0x4000); // ones and twos
    std::vector<float> c(16 * 8, 0.5f), d(16 * 8);
    CHECK(status_of([&] { hawkeye::cuda::run(name, 0, a.data(), b.data(), c.data(), d.data()); }) == Status::argument);
    CHECK(status_of([&] { hawkeye::cuda::about(-1); }) == Status::device);
    try {
        CHECK(hawkeye::cuda::about().find("\"capability\"") != std::string::npos);
    } catch (const hawkeye::Error &error) {
        CHECK(error.status() == Status::device);
        CHECK(status_of([&] { hawkeye::cuda::discover(name); }) == Status::device);
        return;
    }
    hawkeye::cuda::run(name, 1, a.data(), b.data(), c.data(), d.data());
    CHECK(d == std::vector<float>(16 * 8, 16.5f));
}

static void discovery() {
    const hawkeye::Signature s{hawkeye::Format::f32, hawkeye::Format::f32, hawkeye::Format::f32, 8, 8, 24};
    hawkeye::DiscoverOptions options;
    options.elements = 1000;
    int calls = 0, reports = 0;
    const hawkeye::Matmul matmul = [&](const hawkeye::MatmulCall &call) { return ++calls, chain(call, 8, 8, 24); };
    options.progress = [&](const hawkeye::DiscoverState &state) { return ++reports, state.phase[0] != 0; };
    auto found = hawkeye::discover(s, matmul, options);
    CHECK(calls > 0 && reports > 0);
    const auto handle = found.handle();
    hawkeye::Discovery kept = std::move(found);
    CHECK(kept.handle() == handle && found.handle() == 0);
    CHECK(status_of([&] { found.json(); }) == Status::handle);
    const auto p = kept.profile();
    CHECK(p && p->info().a == hawkeye::Format::f32 && kept.json().find("\"certificate\":{") != std::string::npos);
    if (p) { // tried beside what the answers suggest, and found again
        options.suspects = {&*p};
        const auto again = hawkeye::discover(s, matmul, options).profile();
        CHECK(again && again->info().id == p->info().id);
        options.suspects = {nullptr};
        CHECK(status_of([&] { hawkeye::discover(s, matmul, options); }) == Status::handle);
        options.suspects = {};
    }

    CHECK(status_of([&] { hawkeye::discover(s, {}); }) == Status::argument);
    CHECK(status_of([&] { hawkeye::discover(s, [](const hawkeye::MatmulCall &) { return false; }); }) == Status::cancelled);
    auto nothing = s;
    nothing.k = 0;
    CHECK(status_of([&] { hawkeye::discover(nothing, matmul); }) == Status::shape);
    std::string what;
    try {
        hawkeye::discover(s, [](const hawkeye::MatmulCall &) -> bool { throw std::logic_error("from the matmul"); });
    } catch (const std::logic_error &e) {
        what = e.what();
    }
    CHECK(what == "from the matmul");
    options.progress = [](const hawkeye::DiscoverState &) { return false; };
    CHECK(status_of([&] { hawkeye::discover(s, matmul, options); }) == Status::cancelled);
}

int main(int argc, char **argv) try {
    if (argc != 2)
        return 2;
    profiles();
    explanations();
    library();
    multiplication();
    progress();
    recorded(argv[1]);
    discovery();
    instructions();
    return failures != 0;
} catch (const std::exception &e) {
    std::cerr << "unexpected: " << e.what() << "\n";
    return 1;
}
