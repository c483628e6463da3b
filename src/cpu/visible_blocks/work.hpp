// The structures that the parts of the lists of visible blocks on the CPU share. A unit is a row of blocks of
// one head, which one thread goes over column after column.
#pragma once

#include "cpu/attention.hpp"
#include "problem/visible_blocks.hpp"

namespace vkattn {

// Keys that are looked at together.
inline constexpr uint32_t lookedAtKeys = 4096;

struct BlocksCall {
    const VisibleBlocks &blocks;
    Call forward; // what cpu/ has for the forward pass asks for its problem and operands
    const Sequence *sequences = nullptr;
};
struct BlocksUnit {
    uint32_t b, h, row; // row: of blocks
};

// The lists of one row of blocks, in memory that hosts give.
class ListsOfRow {
  public:
    ListsOfRow(const VisibleBlocks &v, const Operands &operands, uint32_t b, uint32_t h, uint32_t row)
        : operands_(operands), item_((uint64_t{b} * v.lists.blocks.heads + h) * v.lists.blockRows + row), entries_(v.lists.blocks.entries),
          full_(v.full()) {}

    // Columns come in ascending order.
    void add(uint32_t column, bool full) {
        const bool apart = full && full_;
        store(apart ? VKATTN_FULL_BLOCK_INDICES : VKATTN_BLOCK_INDICES, item_ * entries_ + (apart ? fullCount_ : count_), column);
        ++(apart ? fullCount_ : count_);
    }
    void end() const {
        store(VKATTN_BLOCK_COUNTS, item_, count_);
        if (full_) store(VKATTN_FULL_BLOCK_COUNTS, item_, fullCount_);
    }

  private:
    void store(vkattn_role role, uint64_t at, uint32_t word) const { std::memcpy(operands_.data[role] + 4 * at, &word, 4); }

    const Operands &operands_;
    uint64_t item_;
    uint32_t entries_, count_ = 0, fullCount_ = 0;
    bool full_;
};

// The kernel of the best target that this processor has. `pairs`: lookedAtKeys floats.
using ListRow = void (*)(const BlocksCall &, const BlocksUnit &, float *pairs);
[[nodiscard]] ListRow listRowKernel();

} // namespace vkattn
