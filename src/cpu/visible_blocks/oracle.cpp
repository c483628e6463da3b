// The oracle of lists of visible blocks, pair by pair, and the comparison with it.
#include "cpu/entry.hpp"
#include "cpu/oracle/comparison.hpp"
#include "cpu/oracle/pair.hpp"
#include "cpu/visible_blocks/visible_blocks.hpp"
#include "problem/visible_blocks.hpp"

#include <vector>

namespace vkattn {
namespace {

// What a row of blocks has of each column.
struct ExpectedRow {
    std::vector<uint32_t> some, full;
};

ExpectedRow expectedRow(const VisibleBlocks &v, const Operands &operands, const Sequence &s, uint32_t b, uint32_t h, uint32_t row) {
    const Problem &p = v.attention;
    const vkattn_blocks &blocks = v.lists.blocks;
    std::vector<uint64_t> visible(v.lists.blockColumns), pairs(v.lists.blockColumns);
    const uint64_t end = std::min<uint64_t>((uint64_t{row} + 1) * blocks.queries, s.queries);
    for (uint64_t n = uint64_t{row} * blocks.queries; n < end; ++n) {
        const auto i = static_cast<uint32_t>(n);
        const OraclePair rule(p, operands, s, b, h, i);
        for (uint32_t j = 0; j < p.keyTokens; ++j) {
            ++pairs[j / blocks.keys];
            visible[j / blocks.keys] += rule.visible(j) ? 1 : 0;
        }
    }
    ExpectedRow expected;
    for (uint32_t column = 0; column < v.lists.blockColumns; ++column)
        if (visible[column]) (blocks.full && visible[column] == pairs[column] ? expected.full : expected.some).push_back(column);
    return expected;
}

// Calls visit(b, h, row, its number among the rows of all lists, what is expected).
template <class Visit> void forRows(const VisibleBlocks &v, const Operands &operands, const Visit &visit) {
    const Problem &p = v.attention;
    if (v.lists.blockRows == 0) return;
    uint64_t item = 0;
    forEverySequence(p, operands, [&](uint32_t b, const Sequence &s) {
        for (uint32_t h = 0; h < p.heads; ++h)
            for (uint32_t row = 0; row < v.lists.blockRows; ++row) visit(b, h, row, item++, expectedRow(v, operands, s, b, h, row));
    });
}

void compute(const VisibleBlocks &v, const Operands &operands) {
    const auto store = [&](vkattn_role counts, vkattn_role indices, uint64_t item, const std::vector<uint32_t> &list) {
        const auto count = static_cast<uint32_t>(list.size());
        std::memcpy(operands.data[counts] + 4 * item, &count, 4);
        if (count) std::memcpy(operands.data[indices] + 4 * item * v.lists.blocks.entries, list.data(), 4 * list.size());
    };
    forRows(v, operands, [&](uint32_t, uint32_t, uint32_t, uint64_t item, const ExpectedRow &expected) {
        store(VKATTN_BLOCK_COUNTS, VKATTN_BLOCK_INDICES, item, expected.some);
        if (v.full()) store(VKATTN_FULL_BLOCK_COUNTS, VKATTN_FULL_BLOCK_INDICES, item, expected.full);
    });
}

// All rows: lists are words, and the options that choose rows are for results that take long to compute.
void verify(const VisibleBlocks &v, const Operands &operands, const vkattn_verify_options &, vkattn_verify_report &report) {
    report = {};
    Tally tally;
    const auto compare = [&](vkattn_role role, const uint32_t(&index)[4], uint64_t at, uint32_t expected) {
        const uint32_t got = operands.word(role, at);
        const double error = got == expected ? 0 : infinite;
        tally.note(role, index, {static_cast<double>(got), static_cast<double>(expected), error, 0, got == expected});
    };
    forRows(v, operands, [&](uint32_t b, uint32_t h, uint32_t row, uint64_t item, const ExpectedRow &expected) {
        const auto compareList = [&](vkattn_role counts, vkattn_role indices, const std::vector<uint32_t> &list) {
            compare(counts, {b, h, row, 0}, item, static_cast<uint32_t>(list.size()));
            for (uint32_t n = 0; n < list.size(); ++n) compare(indices, {b, h, row, n}, item * v.lists.blocks.entries + n, list[n]);
        };
        compareList(VKATTN_BLOCK_COUNTS, VKATTN_BLOCK_INDICES, expected.some);
        if (v.full()) compareList(VKATTN_FULL_BLOCK_COUNTS, VKATTN_FULL_BLOCK_INDICES, expected.full);
        ++report.rowsChecked;
    });
    report.rowsTotal = report.rowsChecked;
    tally.writeTo(report);
}

} // namespace

vkattn_result oracleVisibleBlocks(const vkattn_visible_blocks *description, const vkattn_operand_memory *memory, uint32_t count,
                                  vkattn_diagnostic *why) {
    return computeBound(makeVisibleBlocks, description, memory, count, why, "a row of blocks", compute);
}

vkattn_result verifyVisibleBlocks(const vkattn_visible_blocks *description, const vkattn_operand_memory *memory, uint32_t count,
                                  const vkattn_verify_options *options, vkattn_verify_report *report, vkattn_diagnostic *why) {
    return verifyBound(makeVisibleBlocks, description, memory, count, options, report, why, "the oracle's row of blocks", verify);
}

} // namespace vkattn
