// Lists of visible blocks with their data, drawn: a case of attention, blocks of any size, lists of each batch
// entry and head or shared ones.
#pragma once

#include "conform/cases/case.hpp"
#include "vkattn/cpu.h"
#include "vkattn/operations.hpp"

#include <memory>
#include <string>
#include <vector>

namespace vkattn::conform {

struct VisibleBlocksCase {
    std::unique_ptr<CaseData> data;
    vkattn_problem attention{}; // that of the data, without lists
    vkattn_visible_blocks blocks{};
    // By role from VKATTN_BLOCK_COUNTS on, with canaries at both ends; empty where nothing is written.
    std::vector<uint32_t> lists[4];

    VisibleBlocksCase() { blocks.attention = &attention; }
    VisibleBlocksCase(const VisibleBlocksCase &other) { *this = other; }
    VisibleBlocksCase &operator=(const VisibleBlocksCase &other);

    // Of the case itself, which outlives what is returned.
    [[nodiscard]] vkattn_operation operation() const { return vkattn::operation(blocks); }
    [[nodiscard]] std::vector<vkattn_operand_memory> operands();
    // The attention that reads the lists.
    [[nodiscard]] vkattn_problem listed() const;
    [[nodiscard]] std::vector<vkattn_operand_memory> listedOperands();
    [[nodiscard]] std::string text() const;

    // Empty, or what is wrong with the lists: other than the oracle's, or words that changed and must not.
    [[nodiscard]] std::string wrong(const VisibleBlocksCase &before);
};

// NaN lies wherever nothing may look.
[[nodiscard]] VisibleBlocksCase drawVisibleBlocks(Random &random, const Case &attention);

} // namespace vkattn::conform
