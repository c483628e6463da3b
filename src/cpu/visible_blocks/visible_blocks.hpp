// Lists of visible blocks, as the calls for any operation (cpu/operations/) hand them on.
#pragma once

#include "cpu/pool.hpp"
#include "vkattn/cpu.h"
#include "vkattn/visible_blocks.h"

namespace vkattn {

[[nodiscard]] vkattn_result visibleBlocksWorkspace(const vkattn_visible_blocks *description, const Pool &pool, uint64_t &bytes,
                                                   vkattn_diagnostic *why);
[[nodiscard]] vkattn_result runVisibleBlocks(Pool &pool, const vkattn_visible_blocks *description, const vkattn_operand_memory *memory,
                                             uint32_t count, void *workspace, uint64_t workspaceBytes, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result oracleVisibleBlocks(const vkattn_visible_blocks *description, const vkattn_operand_memory *memory,
                                                uint32_t count, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result verifyVisibleBlocks(const vkattn_visible_blocks *description, const vkattn_operand_memory *memory,
                                                uint32_t count, const vkattn_verify_options *options, vkattn_verify_report *report,
                                                vkattn_diagnostic *why);

} // namespace vkattn
