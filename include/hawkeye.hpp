// hawkeye.hpp - Hawkeye for C++17: RAII types over hawkeye.h, header only. Link with libhawkeye (hawkeye::hawkeye in
// CMake).
//
//     auto profile = hawkeye::Profile::load("hopper/bf16");
//     std::vector<hawkeye::bf16> a(m * k), b(k * n);
//     std::vector<float> d(m * n);
//     hawkeye::gemm(profile, {a.data(), m, k}, {b.data(), k, n}, {d.data(), m, n});
//
// Everything throws hawkeye::Error where the C interface returns a status. Matrices are views: they own no memory.
#ifndef HAWKEYE_HPP
#define HAWKEYE_HPP

#include "hawkeye.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace hawkeye {

// ---- errors ---------------------------------------------------------------------------------------------------------

// The statuses of hawkeye.h; the comments are there.
enum class Status : std::int32_t {
    ok = HAWKEYE_OK,
    argument = HAWKEYE_ERROR_ARGUMENT,
    handle = HAWKEYE_ERROR_HANDLE,
    profile = HAWKEYE_ERROR_PROFILE,
    shape = HAWKEYE_ERROR_SHAPE,
    format = HAWKEYE_ERROR_FORMAT,
    overlap = HAWKEYE_ERROR_OVERLAP,
    unsupported = HAWKEYE_ERROR_UNSUPPORTED,
    cancelled = HAWKEYE_ERROR_CANCELLED,
    buffer = HAWKEYE_ERROR_BUFFER,
    io = HAWKEYE_ERROR_IO,
    fork = HAWKEYE_ERROR_FORK,
    internal = HAWKEYE_ERROR_INTERNAL,
    device = HAWKEYE_ERROR_DEVICE
};

// What every call throws: status() says which kind of refusal, what() why.
class Error : public std::runtime_error {
public:
    Error(Status status, const std::string &message) : std::runtime_error(message), status_(status) {}
    Status status() const noexcept { return status_; }

private:
    Status status_;
};

namespace detail {

// Calls f(message, message_size) and throws what it refuses.
template <class F> void call(F &&f) {
    char message[1024] = "";
    const hawkeye_status status = f(message, sizeof message);
    if (status != HAWKEYE_OK)
        throw Error(static_cast<Status>(status), message);
}

// Calls f(buffer, buffer_size, needed, message, message_size) until the whole text fits.
template <class F> std::string text(F &&f) {
    std::string buffer(1024, '\0');
    for (;;) {
        std::size_t needed = 0;
        char message[1024] = "";
        const hawkeye_status status = f(buffer.data(), buffer.size(), &needed, message, sizeof message);
        if (status == HAWKEYE_OK) {
            buffer.resize(needed - 1);
            return buffer;
        }
        if (status != HAWKEYE_ERROR_BUFFER || needed <= buffer.size())
            throw Error(static_cast<Status>(status), message);
        buffer.resize(needed);
    }
}

// A header of another ABI than the library's would pass structs that it misreads.
inline void check_abi() {
    if (hawkeye_abi_version() != HAWKEYE_ABI_VERSION)
        throw Error(Status::argument, "hawkeye.hpp is of ABI version " + std::to_string(HAWKEYE_ABI_VERSION) +
                                          " and the library of " + std::to_string(hawkeye_abi_version()) +
                                          ": build against the header installed with the library");
}

} // namespace detail

// ---- formats --------------------------------------------------------------------------------------------------------

enum class Format : std::int32_t {
    f16 = HAWKEYE_F16,
    bf16 = HAWKEYE_BF16,
    tf32 = HAWKEYE_TF32,
    f32 = HAWKEYE_F32,
    f64 = HAWKEYE_F64,
    e4m3 = HAWKEYE_E4M3,
    e5m2 = HAWKEYE_E5M2,
    e4m3fnuz = HAWKEYE_E4M3FNUZ,
    e5m2fnuz = HAWKEYE_E5M2FNUZ,
    e2m1 = HAWKEYE_E2M1,
    e3m2 = HAWKEYE_E3M2,
    e2m3 = HAWKEYE_E2M3,
    e8m0 = HAWKEYE_E8M0,
    ue4m3 = HAWKEYE_UE4M3,
    s8 = HAWKEYE_S8,
    u8 = HAWKEYE_U8,
    s32 = HAWKEYE_S32
};

// One element of a format that C++17 has no type for: its bits.
template <Format F, class Bits> struct Element {
    Bits bits;
    friend constexpr bool operator==(Element x, Element y) { return x.bits == y.bits; }
    friend constexpr bool operator!=(Element x, Element y) { return x.bits != y.bits; }
};
using f16 = Element<Format::f16, std::uint16_t>;
using bf16 = Element<Format::bf16, std::uint16_t>;
using tf32 = Element<Format::tf32, std::uint32_t>;
using e4m3 = Element<Format::e4m3, std::uint8_t>;
using e5m2 = Element<Format::e5m2, std::uint8_t>;
using e4m3fnuz = Element<Format::e4m3fnuz, std::uint8_t>;
using e5m2fnuz = Element<Format::e5m2fnuz, std::uint8_t>;
using e2m1 = Element<Format::e2m1, std::uint8_t>;
using e3m2 = Element<Format::e3m2, std::uint8_t>;
using e2m3 = Element<Format::e2m3, std::uint8_t>;
using e8m0 = Element<Format::e8m0, std::uint8_t>;
using ue4m3 = Element<Format::ue4m3, std::uint8_t>;

// The format of a C++ type. Specialise it for a half type of your own: `value` is a Format.
template <class T> struct format_of {};
template <Format F, class Bits> struct format_of<Element<F, Bits>> {
    static constexpr Format value = F;
    static_assert(sizeof(Element<F, Bits>) == sizeof(Bits), "elements lie in memory as their bits");
};
template <> struct format_of<float> {
    static constexpr Format value = Format::f32;
};
template <> struct format_of<double> {
    static constexpr Format value = Format::f64;
};
template <> struct format_of<std::int8_t> {
    static constexpr Format value = Format::s8;
};
template <> struct format_of<std::uint8_t> {
    static constexpr Format value = Format::u8;
};
template <> struct format_of<std::int32_t> {
    static constexpr Format value = Format::s32;
};

// ---- the library ----------------------------------------------------------------------------------------------------

inline std::string_view version() { return hawkeye_version(); }
inline std::string_view instruction_set() { return hawkeye_instruction_set(); }

// What this processor can run, best first.
inline std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    std::string_view rest = hawkeye_instruction_sets();
    while (!rest.empty()) {
        const std::size_t end = rest.find('\n');
        names.emplace_back(rest.substr(0, end));
        rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    }
    return names;
}

inline void set_instruction_set(std::string_view name) {
    detail::call([&](char *message, std::size_t size) {
        return hawkeye_set_instruction_set(std::string(name).c_str(), message, size);
    });
}

inline std::int32_t threads() { return hawkeye_threads(); }

inline void set_threads(std::int32_t count) {
    detail::call([&](char *message, std::size_t size) { return hawkeye_set_threads(count, message, size); });
}

// ---- profiles -------------------------------------------------------------------------------------------------------

// The arithmetic of one multiplication. Move only; clone() makes a second one.
class Profile {
public:
    // Of the catalogue, by name: "hopper/bf16", "ampere/f16", ...
    static Profile load(std::string_view name) {
        detail::check_abi();
        Profile p;
        detail::call([&](char *message, std::size_t size) {
            return hawkeye_profile_load(std::string(name).c_str(), &p.handle_, message, size);
        });
        return p;
    }

    static Profile parse(std::string_view json) {
        detail::check_abi();
        Profile p;
        detail::call([&](char *message, std::size_t size) {
            return hawkeye_profile_parse(json.empty() ? "" : json.data(), json.size(), &p.handle_, message, size);
        });
        return p;
    }

    // The catalogue as a JSON array; its fields are in hawkeye.h.
    static std::string list_json() { return detail::text(hawkeye_profile_list); }

    Profile(Profile &&other) noexcept : handle_(std::exchange(other.handle_, 0)) {}
    Profile &operator=(Profile &&other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    Profile(const Profile &) = delete;
    Profile &operator=(const Profile &) = delete;
    ~Profile() {
        if (handle_ != 0)
            hawkeye_profile_free(handle_, nullptr, 0);
    }

    Profile clone() const { return parse(json()); }

    std::string json() const {
        return detail::text([&](char *buffer, std::size_t size, std::size_t *needed, char *message, std::size_t n) {
            return hawkeye_profile_json(handle_, buffer, size, needed, message, n);
        });
    }

    // What it says, in a few sentences for a person.
    std::string describe() const {
        return detail::text([&](char *buffer, std::size_t size, std::size_t *needed, char *message, std::size_t n) {
            return hawkeye_profile_describe(handle_, buffer, size, needed, message, n);
        });
    }

    struct Info {
        Format a, b, accumulator, out;
        bool takes_f32, runnable;
        std::string id, name;
    };
    Info info() const {
        hawkeye_profile_info i{};
        i.struct_size = sizeof i;
        detail::call([&](char *message, std::size_t size) {
            return hawkeye_profile_get_info(handle_, &i, message, size);
        });
        return {static_cast<Format>(i.a), static_cast<Format>(i.b), static_cast<Format>(i.accumulator),
                static_cast<Format>(i.out), i.takes_f32 != 0, i.runnable != 0, i.id, i.name};
    }

    // For calls of hawkeye.h. It lives as long as this object; 0 after a move.
    hawkeye_profile handle() const noexcept { return handle_; }

private:
    friend class Discovery;
    Profile() = default;
    hawkeye_profile handle_ = 0;
};

namespace detail {

// The handles of a list of profiles.
inline std::vector<hawkeye_profile> handles(const std::vector<const Profile *> &profiles) {
    std::vector<hawkeye_profile> list;
    for (const Profile *profile : profiles)
        list.push_back(profile != nullptr ? profile->handle() : 0);
    return list;
}

} // namespace detail

// ---- explanations ---------------------------------------------------------------------------------------------------

// The profiles that may explain the multiplication of a case record, the likely ones first and at most `most` of them, as
// JSON (see hawkeye_rules_choose).
inline std::string choose_rules(std::string_view record, std::int32_t most = 1) {
    return detail::text([&](char *buffer, std::size_t size, std::size_t *needed, char *message, std::size_t n) {
        return hawkeye_rules_choose(record.data(), record.size(), most, buffer, size, needed, message, n);
    });
}

// The multiplication that a profile is explained for; 0 and "" where it is not known.
struct About {
    std::int64_t m = 0, n = 0, k = 0;
    std::string family; // of the kernel, such as "nvjet"
};

enum class TreeStyle : std::int32_t { text = HAWKEYE_TREE_TEXT, dot = HAWKEYE_TREE_DOT };

struct TreeOptions {
    TreeStyle style = TreeStyle::text;
    bool full = false;      // every accumulator, not counted where many are alike
    std::int32_t width = 0; // lines of text are cut there, labels of dot wrapped; 0: not, and at 40
};

// One paragraph for a person: how the profile makes an output element, the order of the sum, and every rounding.
inline std::string explain(const Profile &profile, const About &about = {}) {
    hawkeye_explain_options o{};
    o.struct_size = sizeof o;
    o.m = about.m;
    o.n = about.n;
    o.k = about.k;
    o.family = about.family.empty() ? nullptr : about.family.c_str();
    return detail::text([&](char *buffer, std::size_t size, std::size_t *needed, char *message, std::size_t n) {
        return hawkeye_explain_profile(profile.handle(), &o, buffer, size, needed, message, n);
    });
}

// The profile's summation tree for K = k, 1 or more.
inline std::string explain_tree(const Profile &profile, std::int64_t k, const TreeOptions &options = {}) {
    hawkeye_explain_options o{};
    o.struct_size = sizeof o;
    o.k = k;
    o.style = static_cast<hawkeye_tree_style>(options.style);
    o.full = options.full ? 1 : 0;
    o.width = options.width;
    return detail::text([&](char *buffer, std::size_t size, std::size_t *needed, char *message, std::size_t n) {
        return hawkeye_explain_tree(profile.handle(), &o, buffer, size, needed, message, n);
    });
}

// ---- matrices -------------------------------------------------------------------------------------------------------

// A view of a batch of matrices in the caller's memory. Sizes and strides count elements; strides may be 0 or negative.
// Matrix views memory that may be written, ConstMatrix any; the first converts to the second.
template <bool Mutable> class BasicMatrix {
    template <class T> using pointer = std::conditional_t<Mutable, T *, const T *>;

public:
    // Row-major rows x columns of T, rows `row_stride` elements apart (columns, unless given).
    template <class T, class = std::enable_if_t<Mutable ? !std::is_const_v<T> : true>>
    BasicMatrix(T *data, std::int64_t rows, std::int64_t columns, std::optional<std::int64_t> row_stride = {})
        : BasicMatrix(format_of<std::remove_const_t<T>>::value, static_cast<pointer<void>>(data), rows, columns,
                      row_stride) {}

    // The same where the format is known at run time only.
    BasicMatrix(Format format, pointer<void> data, std::int64_t rows, std::int64_t columns,
                std::optional<std::int64_t> row_stride = {}) {
        raw_.struct_size = sizeof raw_;
        raw_.data = const_cast<void *>(static_cast<const void *>(data)); // the C struct has one type of pointer
        raw_.format = static_cast<hawkeye_format>(format);
        raw_.batch = 1;
        raw_.rows = rows;
        raw_.columns = columns;
        raw_.row_stride = row_stride.value_or(columns);
        raw_.column_stride = 1;
    }

    // A bias: n elements that every one of `rows` rows gets.
    template <class T> static BasicMatrix bias(T *data, std::int64_t rows, std::int64_t n) {
        return BasicMatrix(data, rows, n, 0);
    }

    template <bool M = Mutable, class = std::enable_if_t<!M>>
    BasicMatrix(const BasicMatrix<true> &other) : raw_(other.raw()) {}

    // `count` such matrices, `stride` elements apart; 0 shares one among all.
    BasicMatrix batch(std::int64_t count, std::int64_t stride) const {
        BasicMatrix m = *this;
        m.raw_.batch = count;
        m.raw_.batch_stride = stride;
        return m;
    }

    BasicMatrix strides(std::int64_t row, std::int64_t column) const {
        BasicMatrix m = *this;
        m.raw_.row_stride = row;
        m.raw_.column_stride = column;
        return m;
    }

    // Rows and columns exchanged; no element moves.
    BasicMatrix transposed() const {
        BasicMatrix m = *this;
        std::swap(m.raw_.rows, m.raw_.columns);
        std::swap(m.raw_.row_stride, m.raw_.column_stride);
        return m;
    }

    // The `rows` x `columns` elements from (row, column) on.
    BasicMatrix block(std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns) const {
        if (row < 0 || column < 0 || rows < 0 || columns < 0 || rows > raw_.rows - row ||
            columns > raw_.columns - column)
            throw Error(Status::shape, "a block reaches outside of its matrix");
        BasicMatrix m = *this;
        m.raw_.offset += row * raw_.row_stride + column * raw_.column_stride;
        m.raw_.rows = rows;
        m.raw_.columns = columns;
        return m;
    }

    Format format() const noexcept { return static_cast<Format>(raw_.format); }
    std::int64_t batch() const noexcept { return raw_.batch; }
    std::int64_t rows() const noexcept { return raw_.rows; }
    std::int64_t columns() const noexcept { return raw_.columns; }

    // For calls of hawkeye.h.
    const hawkeye_matrix &raw() const noexcept { return raw_; }

private:
    hawkeye_matrix raw_{};
};
using Matrix = BasicMatrix<true>;
using ConstMatrix = BasicMatrix<false>;

// ---- matrix multiplication ------------------------------------------------------------------------------------------

// Called on the calling thread about ten times a second with the multiply-adds done and to do; false stops the call,
// which then throws Error with Status::cancelled. What it throws itself leaves the call as it is.
using Progress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

struct Options {
    std::optional<ConstMatrix> c;   // the addend
    double alpha = 1.0, beta = 1.0; // beta counts only with c
    std::vector<float> scale_a;     // f8 scales: none, one, or one a row of a
    std::vector<float> scale_b;     // none, one, or one a column of b
    std::optional<std::vector<std::int64_t>> rows, columns; // compute only these
    std::int32_t threads = 0;                               // 0: the default
    Progress progress;
};

namespace detail {

// A Progress on its way through C: exceptions must not pass through the library, so they wait here.
struct Relay {
    const Progress &progress;
    std::exception_ptr thrown;

    static std::int32_t run(void *user, std::uint64_t done, std::uint64_t total) noexcept {
        Relay &relay = *static_cast<Relay *>(user);
        try {
            return relay.progress(done, total) ? 0 : 1;
        } catch (...) {
            relay.thrown = std::current_exception();
            return 1;
        }
    }
    hawkeye_progress function() const noexcept { return progress ? run : nullptr; }
    void rethrow() const {
        if (thrown)
            std::rethrow_exception(thrown);
    }
};

} // namespace detail

// d = a b by the profile's arithmetic, with the addend and scales of the options; the format of d is that of the output.
inline void gemm(const Profile &profile, const ConstMatrix &a, const ConstMatrix &b, const Matrix &d,
                 const Options &options = {}) {
    hawkeye_matrix out = d.raw();
    hawkeye_gemm_args args{};
    args.struct_size = sizeof args;
    args.profile = profile.handle();
    args.a = &a.raw();
    args.b = &b.raw();
    args.c = options.c ? &options.c->raw() : nullptr;
    args.d = &out;
    args.alpha = options.alpha;
    args.beta = options.beta;
    if (!options.scale_a.empty())
        args.scale_a = options.scale_a.data();
    args.scale_a_count = static_cast<std::int64_t>(options.scale_a.size());
    if (!options.scale_b.empty())
        args.scale_b = options.scale_b.data();
    args.scale_b_count = static_cast<std::int64_t>(options.scale_b.size());
    static const std::int64_t nothing = 0; // an empty vector's data may be null, which would select all
    if (options.rows) {
        args.rows = options.rows->empty() ? &nothing : options.rows->data();
        args.row_count = static_cast<std::int64_t>(options.rows->size());
    }
    if (options.columns) {
        args.columns = options.columns->empty() ? &nothing : options.columns->data();
        args.column_count = static_cast<std::int64_t>(options.columns->size());
    }
    args.threads = options.threads;
    detail::Relay relay{options.progress, nullptr};
    args.progress = relay.function();
    args.progress_user = &relay;
    detail::call([&](char *message, std::size_t size) {
        const hawkeye_status status = hawkeye_gemm(&args, message, size);
        relay.rethrow();
        return status;
    });
}

// ---- comparison -----------------------------------------------------------------------------------------------------

// The fields are those of hawkeye_comparison.
struct Comparison {
    std::int64_t count, differing;
    std::int64_t first, worst; // flat row-major indices, -1 for none
    std::uint64_t worst_ulps;
    std::uint64_t first_expected, first_actual, worst_expected, worst_actual; // bit patterns
    bool equal() const noexcept { return differing == 0; }
};

inline Comparison compare(const ConstMatrix &expected, const ConstMatrix &actual) {
    detail::check_abi();
    hawkeye_comparison c{};
    c.struct_size = sizeof c;
    detail::call([&](char *message, std::size_t size) {
        return hawkeye_compare(&expected.raw(), &actual.raw(), &c, message, size);
    });
    return {c.count,          c.differing,    c.first,          c.worst,       c.worst_ulps,
            c.first_expected, c.first_actual, c.worst_expected, c.worst_actual};
}

// ---- recorded cases -------------------------------------------------------------------------------------------------

struct ReplayOptions {
    const Profile *profile = nullptr; // the only one to try; without it plans are searched
    bool blind = false;               // the recorded kernel names and launches are not looked at
    std::int32_t threads = 0;         // 0: the default
    Progress progress;
    std::int64_t rows = 0;            // how many rows of a larger output are looked at; 0: all
    // Discovered profiles of such a multiplication on such a device, tried where the rules' own do not make the case exact.
    std::vector<const Profile *> suspects;
};

// A set of recorded cases: FILE.jsonl with its FILE.bin beside it. Move only.
class Set {
public:
    explicit Set(std::string_view path) {
        detail::check_abi();
        detail::call([&](char *message, std::size_t size) {
            return hawkeye_set_open(std::string(path).c_str(), &handle_, &size_, message, size);
        });
    }
    Set(Set &&other) noexcept : handle_(std::exchange(other.handle_, 0)), size_(std::exchange(other.size_, 0)) {}
    Set &operator=(Set &&other) noexcept {
        std::swap(handle_, other.handle_);
        std::swap(size_, other.size_);
        return *this;
    }
    Set(const Set &) = delete;
    Set &operator=(const Set &) = delete;
    ~Set() {
        if (handle_ != 0)
            hawkeye_set_free(handle_, nullptr, 0);
    }

    std::int64_t size() const noexcept { return size_; }

    std::string about_json() const {
        return detail::text([&](char *buffer, std::size_t size, std::size_t *needed, char *message, std::size_t n) {
            return hawkeye_set_about(handle_, buffer, size, needed, message, n);
        });
    }

    // Replays one case and returns its verdict, a JSON object whose fields are in hawkeye.h.
    std::string replay(std::int64_t index, std::int32_t threads = 0, const Progress &progress = {}) const {
        ReplayOptions options;
        options.threads = threads;
        options.progress = progress;
        return replay(index, options);
    }

    std::string replay(std::int64_t index, const ReplayOptions &options) const {
        return answer(options, [&](const hawkeye_replay_options &o, char *buffer, std::size_t size, std::size_t *needed,
                                   char *message, std::size_t n) {
            return hawkeye_set_replay_with(handle_, index, &o, buffer, size, needed, message, n);
        });
    }

    // Replays two cases and returns why their bits differ, a JSON object whose fields are in hawkeye.h.
    std::string why(std::int64_t a, std::int64_t b, const ReplayOptions &options = {}) const {
        return answer(options, [&](const hawkeye_replay_options &o, char *buffer, std::size_t size, std::size_t *needed,
                                   char *message, std::size_t n) {
            return hawkeye_set_why(handle_, a, b, &o, buffer, size, needed, message, n);
        });
    }

    // For calls of hawkeye.h. It lives as long as this object; 0 after a move.
    hawkeye_set handle() const noexcept { return handle_; }

private:
    // The text that a long call writes: 64 KiB always suffice, and a retry would compute once more.
    template <class F> static std::string answer(const ReplayOptions &options, F &&f) {
        detail::Relay relay{options.progress, nullptr};
        hawkeye_replay_options o{};
        o.struct_size = sizeof o;
        o.profile = options.profile != nullptr ? options.profile->handle() : 0;
        o.progress = relay.function();
        o.progress_user = &relay;
        o.threads = options.threads;
        o.blind = options.blind ? 1 : 0;
        o.rows = options.rows;
        const auto suspects = detail::handles(options.suspects);
        o.suspects = suspects.data();
        o.suspect_count = static_cast<std::int64_t>(suspects.size());
        std::string buffer(std::size_t{1} << 16, '\0');
        std::size_t needed = 0;
        detail::call([&](char *message, std::size_t size) {
            const hawkeye_status status = f(o, buffer.data(), buffer.size(), &needed, message, size);
            relay.rethrow();
            return status;
        });
        buffer.resize(needed - 1);
        return buffer;
    }

    hawkeye_set handle_ = 0;
    std::int64_t size_ = 0;
};

// ---- discovery ------------------------------------------------------------------------------------------------------

enum class Addend : std::int32_t {
    none = HAWKEYE_ADDEND_NONE,
    bias = HAWKEYE_ADDEND_BIAS,
    full = HAWKEYE_ADDEND_FULL,
    start = HAWKEYE_ADDEND_START
};
enum class Scaling : std::int32_t {
    none = HAWKEYE_SCALING_NONE,
    tensor = HAWKEYE_SCALING_TENSOR,
    row = HAWKEYE_SCALING_ROW
};

// What stays the same from one call of a multiplication to the next.
struct Signature {
    Format a, b, d;
    std::int64_t m, n, k;
    std::int64_t batch = 1;
    Addend addend = Addend::none;
    std::optional<Format> c = {}; // of the addend
    double alpha = 1.0, beta = 1.0;
    Scaling scaling = Scaling::none;
};

// One multiplication to carry out; the fields are in hawkeye.h.
using MatmulCall = hawkeye_matmul_call;
// Writes call.d; false stops the discovery, which then throws Error with Status::cancelled. What it throws itself leaves
// discover() as it is.
using Matmul = std::function<bool(const MatmulCall &call)>;

// How far a discovery is: called on the calling thread about ten times a second; false stops it.
using DiscoverState = hawkeye_discover_state;
using DiscoverProgress = std::function<bool(const DiscoverState &state)>;

struct DiscoverOptions {
    std::int64_t elements = 0;  // that must agree before a certificate is given; 0: 65,536
    std::uint64_t seed = 0;     // makes other inputs of the same kinds
    std::int64_t max_calls = 0; // 0: 20,000
    std::string hardware, library;         // for the provenance of the profile
    std::vector<const Profile *> suspects; // tried beside those that the answers suggest
    std::int32_t threads = 0;              // of the replays; 0: the default
    DiscoverProgress progress;
};

class Discovery;

namespace detail {
template <class F> Discovery discovered(const Matmul *matmul, const DiscoverOptions &options, F &&f);
}

// What a discovery found. Move only.
class Discovery {
public:
    Discovery(Discovery &&other) noexcept : handle_(std::exchange(other.handle_, 0)) {}
    Discovery &operator=(Discovery &&other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    Discovery(const Discovery &) = delete;
    Discovery &operator=(const Discovery &) = delete;
    ~Discovery() {
        if (handle_ != 0)
            hawkeye_discovery_free(handle_, nullptr, 0);
    }

    // All of it as one JSON object, whose fields are in docs/discover.md.
    std::string json() const {
        return detail::text([&](char *buffer, std::size_t size, std::size_t *needed, char *message, std::size_t n) {
            return hawkeye_discovery_json(handle_, buffer, size, needed, message, n);
        });
    }

    // The certified profile; none where json() has a reason instead.
    std::optional<Profile> profile() const {
        Profile p;
        char message[1024] = "";
        const hawkeye_status status = hawkeye_discovery_profile(handle_, &p.handle_, message, sizeof message);
        if (status == HAWKEYE_ERROR_PROFILE)
            return std::nullopt;
        if (status != HAWKEYE_OK)
            throw Error(static_cast<Status>(status), message);
        return p;
    }

    // For calls of hawkeye.h. It lives as long as this object; 0 after a move.
    hawkeye_discovery handle() const noexcept { return handle_; }

private:
    template <class F>
    friend Discovery detail::discovered(const Matmul *matmul, const DiscoverOptions &options, F &&f);
    Discovery() = default;
    hawkeye_discovery handle_ = 0;
};

namespace detail {

// The callbacks of a discovery on their way through C: exceptions wait here.
struct DiscoverRelay {
    const Matmul *matmul; // null where the library multiplies itself
    const DiscoverProgress &progress;
    std::exception_ptr thrown;

    template <class F> std::int32_t run(F &&f) noexcept {
        try {
            return f() ? 0 : 1;
        } catch (...) {
            thrown = std::current_exception();
            return 1;
        }
    }
    static std::int32_t multiply(void *user, const hawkeye_matmul_call *call) noexcept {
        DiscoverRelay &relay = *static_cast<DiscoverRelay *>(user);
        return relay.run([&] { return (*relay.matmul)(*call); });
    }
    static std::int32_t report(void *user, const hawkeye_discover_state *state) noexcept {
        DiscoverRelay &relay = *static_cast<DiscoverRelay *>(user);
        return relay.run([&] { return relay.progress(*state); });
    }
};

// Calls f(options, relay, discovery, message, message_size), which is one of the library's functions that discover.
template <class F> Discovery discovered(const Matmul *matmul, const DiscoverOptions &options, F &&f) {
    check_abi();
    DiscoverRelay relay{matmul, options.progress, nullptr};
    const auto suspects = handles(options.suspects);
    hawkeye_discover_options o{};
    o.struct_size = sizeof o;
    o.elements = options.elements;
    o.seed = options.seed;
    o.max_calls = options.max_calls;
    o.hardware = options.hardware.c_str();
    o.library = options.library.c_str();
    o.suspects = suspects.data();
    o.suspect_count = static_cast<std::int64_t>(suspects.size());
    o.progress = options.progress ? DiscoverRelay::report : nullptr;
    o.progress_user = &relay;
    o.threads = options.threads;
    Discovery found;
    call([&](char *message, std::size_t size) {
        const hawkeye_status status = f(o, relay, found.handle_, message, size);
        if (relay.thrown)
            std::rethrow_exception(relay.thrown);
        return status;
    });
    return found;
}

} // namespace detail

// Finds the profile of a matrix multiplication by asking it questions, and certifies it.
inline Discovery discover(const Signature &signature, const Matmul &matmul, const DiscoverOptions &options = {}) {
    hawkeye_signature s{};
    s.struct_size = sizeof s;
    s.a = static_cast<hawkeye_format>(signature.a);
    s.b = static_cast<hawkeye_format>(signature.b);
    s.c = signature.c ? static_cast<hawkeye_format>(*signature.c) : 0;
    s.d = static_cast<hawkeye_format>(signature.d);
    s.batch = signature.batch;
    s.m = signature.m;
    s.n = signature.n;
    s.k = signature.k;
    s.alpha = signature.alpha;
    s.beta = signature.beta;
    s.addend = static_cast<hawkeye_addend>(signature.addend);
    s.scaling = static_cast<hawkeye_scaling>(signature.scaling);
    return detail::discovered(&matmul, options, [&](const hawkeye_discover_options &o, detail::DiscoverRelay &relay,
                                                    hawkeye_discovery &found, char *message, std::size_t size) {
        return hawkeye_discover(&s, matmul ? detail::DiscoverRelay::multiply : nullptr, &relay, &o, &found, message, size);
    });
}

// ---- instruction probes ---------------------------------------------------------------------------------------------

// Single matrix instructions of an NVIDIA GPU of this machine: docs/instructions.md. Error with Status::device says what is
// missing. `device` counts the GPUs that the driver shows.
namespace cuda {

// The GPU and its instructions as one JSON object, whose fields are in hawkeye.h.
inline std::string about(std::int32_t device = 0) {
    detail::check_abi();
    return detail::text([&](char *buffer, std::size_t size, std::size_t *needed, char *message, std::size_t n) {
        return hawkeye_cuda_about(device, buffer, size, needed, message, n);
    });
}

// Runs an instruction on tiles: d = a b + c, dense and row-major, tile after tile; a null c is zeros.
inline void run(const std::string &instruction, std::int64_t tiles, const void *a, const void *b, const void *c, void *d,
                std::int32_t device = 0) {
    detail::check_abi();
    detail::call([&](char *message, std::size_t size) {
        return hawkeye_cuda_run(device, instruction.c_str(), tiles, a, b, c, d, message, size);
    });
}

// Finds the profile of an instruction and holds it against the catalogue's. Of the options, empty names stand for the
// GPU's and the driver's; tiles are run at once, 0 for the default.
inline Discovery discover(const std::string &instruction, const DiscoverOptions &options = {}, std::int32_t device = 0,
                          std::int64_t tiles = 0) {
    return detail::discovered(nullptr, options, [&](const hawkeye_discover_options &o, detail::DiscoverRelay &,
                                                    hawkeye_discovery &found, char *message, std::size_t size) {
        return hawkeye_cuda_discover(device, instruction.c_str(), tiles, &o, &found, message, size);
    });
}

} // namespace cuda

} // namespace hawkeye
#endif // HAWKEYE_HPP
