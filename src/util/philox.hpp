// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011):
// 128 random bits as a pure function of a counter and a key. shaders/lib/philox.glsl computes the same.
#pragma once

#include <cstdint>

namespace vkattn {

struct PhiloxCounter {
    uint32_t words[4];
};
struct PhiloxKey {
    uint32_t words[2];
};

[[nodiscard]] constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
    auto &c = counter.words;
    auto &k = key.words;
    for (uint32_t round = 0; round < 10; ++round) {
        const uint64_t first = uint64_t{0xd2511f53u} * c[0], second = uint64_t{0xcd9e8d57u} * c[2];
        counter = {static_cast<uint32_t>(second >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(second),
                   static_cast<uint32_t>(first >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(first)};
        k[0] += 0x9e3779b9u;
        k[1] += 0xbb67ae85u;
    }
    return counter;
}

} // namespace vkattn
