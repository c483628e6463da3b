#include "cpu/rules.hpp"

#include "util/philox.hpp"

namespace vkattn {
namespace {

void show(uint32_t *row, uint32_t column) {
    row[column / 32] |= 1u << column % 32;
}

// The random blocks of row `row`: a shuffle that stops after as many draws as there are random blocks.
void drawBlocks(const Problem &p, uint32_t head, uint32_t row, uint32_t *words) {
    const uint32_t n = p.rules.blockColumns, random = p.rules.blocks.random;
    const uint32_t low = std::max(row - 1, 1u), high = std::min(row + 1, n - 2), skipped = high - low + 1;
    const uint32_t count = n - 2 - skipped;
    const auto columnOf = [&](uint32_t candidate) { return candidate + 1 < low ? candidate + 1 : candidate + 1 + skipped; };
    show(words, 0), show(words, n - 1);
    for (uint32_t column = low; column <= high; ++column) show(words, column);
    if (count <= random) {
        for (uint32_t candidate = 0; candidate < count; ++candidate) show(words, columnOf(candidate));
        return;
    }
    // What lies where something was taken from; the latest entry counts.
    struct Moved {
        uint32_t from, to;
    } moved[maxRandomBlocks];
    for (uint32_t draw = 0; draw < random; ++draw) {
        const auto candidateAt = [&](uint32_t at) {
            for (uint32_t m = draw; m-- > 0;)
                if (moved[m].from == at) return moved[m].to;
            return at;
        };
        const uint64_t seed = p.rules.blocks.seed;
        const uint32_t u = philox({{draw, row, head, 0}}, {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}}).words[0];
        const auto at = static_cast<uint32_t>(draw + (uint64_t{u} * (count - draw) >> 32));
        show(words, columnOf(candidateAt(at)));
        moved[draw] = {at, candidateAt(draw)};
    }
}

void gatherRow(const Problem &p, const Operands &operands, uint64_t plane, uint32_t row, uint32_t *words) {
    const vkattn_blocks &blocks = p.rules.blocks;
    const uint32_t columns = p.rules.blockColumns;
    const uint64_t item = plane * p.rules.blockRows + row;
    const auto list = [&](vkattn_role role, uint64_t begin, uint64_t count) {
        for (uint64_t n = 0; n < count; ++n)
            if (const uint32_t column = operands.word(role, begin + n); column < columns) show(words, column);
    };
    switch (blocks.kind) {
    case VKATTN_BLOCKS_MASK:
        for (uint32_t column = 0; column < columns; ++column)
            if (operands.data[VKATTN_BLOCK_MASK][item * columns + column] != 0) show(words, column);
        break;
    case VKATTN_BLOCKS_LISTS: {
        const uint64_t at = item + plane; // each plane has an entry more than rows
        const uint32_t begin = std::min(operands.word(VKATTN_BLOCK_ROWS, at), blocks.entries);
        const uint32_t end = std::min(operands.word(VKATTN_BLOCK_ROWS, at + 1), blocks.entries);
        if (begin < end) list(VKATTN_BLOCK_COLUMNS, begin, end - begin);
        break;
    }
    case VKATTN_BLOCKS_INDICES:
        list(VKATTN_BLOCK_INDICES, item * blocks.entries, std::min(operands.word(VKATTN_BLOCK_COUNTS, item), blocks.entries));
        if (blocks.full)
            list(VKATTN_FULL_BLOCK_INDICES, item * blocks.entries, std::min(operands.word(VKATTN_FULL_BLOCK_COUNTS, item), blocks.entries));
        break;
    default:
        if (row == 0 || row + 1 == columns)
            for (uint32_t column = 0; column < columns; ++column) show(words, column);
        else
            drawBlocks(p, static_cast<uint32_t>(plane), row, words);
    }
}

} // namespace

BlockBits BlockBits::gather(const Problem &p, const Operands &operands, uint32_t *words) {
    const uint32_t width = rowWords(p);
    std::fill(words, words + rows(p) * width, 0u);
    for (uint64_t item = 0; item < rows(p) && width > 0; ++item)
        gatherRow(p, operands, item / p.rules.blockRows, static_cast<uint32_t>(item % p.rules.blockRows), words + item * width);
    return {p, words};
}

} // namespace vkattn
