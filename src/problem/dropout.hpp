// Which elements dropout keeps: the rule of problem.h, as a pure function of the element's logical
// place, so that every kernel, device, chunk and pass agrees bit for bit.
#pragma once

#include "util/philox.hpp"

#include <cmath>
#include <cstdint>

namespace vkattn {

constexpr uint64_t dropoutRange = 1ull << 32;

// T = round(p 2^32), from 0 to 2^32. An element whose random word is below T is dropped.
[[nodiscard]] inline uint64_t dropoutThreshold(double probability) {
    return static_cast<uint64_t>(std::nearbyint(probability * static_cast<double>(dropoutRange)));
}
// r = 2^32 / (2^32 - T), which kept elements are multiplied by; 0 where nothing is kept.
[[nodiscard]] constexpr double dropoutFactor(uint64_t threshold) {
    return threshold >= dropoutRange ? 0.0 : static_cast<double>(dropoutRange) / static_cast<double>(dropoutRange - threshold);
}

// The random words of one plane of elements: of a batch entry and a query head, or of a batch entry
// of a layer's output. Columns are keys there and features here.
struct DropoutPlane {
    uint64_t seed;
    uint32_t offset; // of the call site and step
    uint32_t plane;  // batch * heads + head

    // Returns the words of columns 4 * block to 4 * block + 3.
    [[nodiscard]] constexpr PhiloxCounter words(uint32_t row, uint32_t block) const {
        return philox({{block, row, plane, offset}}, {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}});
    }
    // Returns a bit for each of the 32 columns from 32 * word on: set where the element is kept. The
    // four words of a block are written out: GCC 12 with sanitizers took a loop over them wrongly in
    // a function that is inlined into code for other processors.
    [[nodiscard]] constexpr uint32_t keptBits(uint64_t threshold, uint32_t row, uint32_t word) const {
        uint32_t bits = 0;
        for (uint32_t block = 0; block < 8; ++block) {
            const PhiloxCounter random = words(row, 8 * word + block);
            const uint32_t four = (random.words[0] >= threshold ? 1u : 0u) | (random.words[1] >= threshold ? 2u : 0u) |
                                  (random.words[2] >= threshold ? 4u : 0u) | (random.words[3] >= threshold ? 8u : 0u);
            bits |= four << (4 * block);
        }
        return bits;
    }
    [[nodiscard]] constexpr bool keeps(uint64_t threshold, uint32_t row, uint32_t column) const {
        return words(row, column / 4).words[column % 4] >= threshold;
    }
};

} // namespace vkattn
