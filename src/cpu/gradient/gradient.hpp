// The backward pass of attention, as the calls for any operation (cpu/operations/) hand it on.
#pragma once

#include "cpu/pool.hpp"
#include "vkattn/cpu.h"
#include "vkattn/gradient.h"

namespace vkattn {

[[nodiscard]] vkattn_result gradientWorkspace(const vkattn_attention_gradient *description, const Pool &pool, uint64_t &bytes,
                                              vkattn_diagnostic *why);
[[nodiscard]] vkattn_result runGradient(Pool &pool, const vkattn_attention_gradient *description, const vkattn_operand_memory *memory,
                                        uint32_t count, void *workspace, uint64_t workspaceBytes, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result oracleGradient(const vkattn_attention_gradient *description, const vkattn_operand_memory *memory,
                                           uint32_t count, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result verifyGradient(const vkattn_attention_gradient *description, const vkattn_operand_memory *memory,
                                           uint32_t count, const vkattn_verify_options *options, vkattn_verify_report *report,
                                           vkattn_diagnostic *why);

} // namespace vkattn
