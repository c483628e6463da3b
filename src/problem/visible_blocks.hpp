// The validated, canonical form of vkattn_visible_blocks. Planner, shaders and CPU work from this form.
#pragma once

#include "problem/problem.hpp"
#include "vkattn/visible_blocks.h"

namespace vkattn {

struct VisibleBlocks {
    // What decides what is visible, and no more: no tensor but bias and masks is bound. One batch entry, or
    // one head, where its lists stand for all.
    Problem attention;
    Rules lists; // what is written, as the attention that reads the lists has it

    // Returns whether memory is bound to a role other than WORKSPACE.
    [[nodiscard]] bool uses(vkattn_role role) const;
    [[nodiscard]] bool writes(vkattn_role role) const { return isBlockArray(role) && lists.hasBlockArray(role); }
    // Returns the bytes from the first to the last element, in the binding.
    [[nodiscard]] ByteRange bytesUsed(vkattn_role role) const;
    [[nodiscard]] const Tensor &tensor(vkattn_role role) const { return attention.tensor(role); }
    [[nodiscard]] bool full() const { return lists.blocks.full != 0; }
};

[[nodiscard]] vkattn_result makeVisibleBlocks(const vkattn_visible_blocks *description, VisibleBlocks &out, vkattn_diagnostic *why);

} // namespace vkattn
