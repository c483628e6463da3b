// Linear attention, as the calls for any operation (cpu/operations/) hand it on.
#pragma once

#include "cpu/pool.hpp"
#include "vkattn/cpu.h"
#include "vkattn/linear.h"

namespace vkattn {

[[nodiscard]] vkattn_result checkLinear(const vkattn_linear_attention *description, const vkattn_operand_memory *memory, uint32_t count,
                                        vkattn_diagnostic *why);
[[nodiscard]] vkattn_result linearWorkspace(const vkattn_linear_attention *description, const Pool &pool, uint64_t &bytes,
                                            vkattn_diagnostic *why);
[[nodiscard]] vkattn_result runLinear(Pool &pool, const vkattn_linear_attention *description, const vkattn_operand_memory *memory,
                                      uint32_t count, void *workspace, uint64_t workspaceBytes, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result oracleLinear(const vkattn_linear_attention *description, const vkattn_operand_memory *memory, uint32_t count,
                                         vkattn_diagnostic *why);
[[nodiscard]] vkattn_result verifyLinear(const vkattn_linear_attention *description, const vkattn_operand_memory *memory, uint32_t count,
                                         const vkattn_verify_options *options, vkattn_verify_report *report, vkattn_diagnostic *why);

} // namespace vkattn
