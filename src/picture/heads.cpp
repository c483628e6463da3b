#include "picture/heads.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn::picture {
namespace {

// Of what does not compress; base64 makes 4 bytes of 3.
constexpr size_t mostPayload = 3'400'000, mostSide = 256;

// As page.cpp packs them: the value of a cell, and where in its block it is.
size_t bytesOfCell(size_t block) {
    return block == 1 ? 2 : block * block <= 256 ? 2 : block * block <= 65536 ? 3 : 5;
}

} // namespace

double ownLargest(const Head &head) {
    double largest = 0;
    for (size_t n = 0; n < head.weights.cells.size(); n++)
        if (head.weights.cells[n] == analysis::PooledWeights::visible) largest = std::max<double>(largest, head.weights.largest[n]);
    return largest;
}

double sharedLargest(const Heads &heads) {
    double largest = 0;
    for (const Head &head : heads.heads) largest = std::max(largest, ownLargest(head));
    return largest;
}

size_t cellsOnASide(size_t heads, size_t queries, size_t keys) {
    const size_t longest = std::max<size_t>({queries, keys, 1});
    for (size_t block = std::max<size_t>(1, (longest + mostSide - 1) / mostSide);; block++) {
        const size_t rows = (queries + block - 1) / block, columns = (keys + block - 1) / block;
        if (heads * rows * columns * bytesOfCell(block) <= mostPayload || block >= longest) return (longest + block - 1) / block;
    }
}

std::string poolingText(const analysis::PooledWeights &weights) {
    if (weights.blockRows == 1 && weights.blockColumns == 1) return "";
    return "maximum of " + std::to_string(weights.blockRows) + " x " + std::to_string(weights.blockColumns) + " cells";
}

} // namespace vkattn::picture
