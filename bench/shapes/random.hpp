// Random numbers for operands and masks: the same on every machine.
#pragma once

#include <cstdint>

namespace vkattn::bench {

// Splitmix64: fast, and good enough for data. A step adds `randomStep` to the state, so that number
// n of a seed can be had alone.
constexpr uint64_t randomStep = 0x9e3779b97f4a7c15u;
[[nodiscard]] constexpr uint64_t nextRandom(uint64_t &state) {
    uint64_t z = state += randomStep;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

} // namespace vkattn::bench
