// Replays one multiplication that cuBLAS computed on an H200 (dev-0184 of the golden set: bf16, M 5, N 512, K 2048, B
// stored transposed, f32 output) and compares every bit. Usage: replay tests/goldens/h200-torch2.11.bin
#include <hawkeye.hpp>

#include <exception>
#include <fstream>
#include <iostream>
#include <vector>

constexpr std::int64_t M = 5, N = 512, K = 2048;
constexpr std::uint64_t seed = 791367, offset = 621006;

std::uint64_t mix(std::uint64_t z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

// Element i of the recorded input of kind "sparse": tests/goldens/inputs.py.
hawkeye::bf16 element(std::uint64_t operand, std::int64_t i) {
    const std::uint64_t r = mix(((seed * 3 + operand) << 20) + (static_cast<std::uint64_t>(i) + 1) * 0x9E3779B97F4A7C15u);
    std::uint64_t g = 0;
    while (!((r | 1u << 15) >> g & 1))
        g++;
    return {static_cast<std::uint16_t>(r >> 56 & 1 ? 0 : r >> 63 << 15 | (128 - g) << 7 | (r >> 16 & 127))};
}

int main(int argc, char **argv) try {
    std::vector<hawkeye::bf16> a(M * K), b(N * K);
    std::vector<float> recorded(M * N), replayed(M * N);
    std::ifstream file(argc == 2 ? argv[1] : "", std::ios::binary);
    file.seekg(offset);
    if (!file.read(reinterpret_cast<char *>(recorded.data()), M * N * sizeof(float)))
        throw std::runtime_error("cannot read the golden set: replay tests/goldens/h200-torch2.11.bin");
    for (std::int64_t i = 0; i < M * K; i++)
        a[static_cast<std::size_t>(i)] = element(0, i);
    for (std::int64_t k = 0; k < K; k++)
        for (std::int64_t j = 0; j < N; j++)
            b[static_cast<std::size_t>(j * K + k)] = element(1, k * N + j);

    const auto profile = hawkeye::Profile::load("hopper/bf16");
    const hawkeye::Matrix d(replayed.data(), M, N);
    hawkeye::gemm(profile, {a.data(), M, K}, hawkeye::ConstMatrix(b.data(), N, K).transposed(), d);
    const auto comparison = hawkeye::compare({recorded.data(), M, N}, d);
    std::cout << comparison.count - comparison.differing << " of " << M * N << " elements exact (hopper/bf16, "
              << hawkeye::instruction_set() << ")\n";
    return comparison.count == M * N && comparison.equal() ? 0 : 1;
} catch (const std::exception &e) {
    std::cout << e.what() << "\n";
    return 1;
}
