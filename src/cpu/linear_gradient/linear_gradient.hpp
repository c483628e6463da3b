// Gradients of linear attention, as the calls for any operation (cpu/operations/) hand them on.
#pragma once

#include "cpu/pool.hpp"
#include "problem/linear/linear_gradient.hpp"
#include "vkattn/cpu.h"

namespace vkattn {

[[nodiscard]] vkattn_result linearGradientWorkspace(const vkattn_linear_gradient *description, const Pool &pool, uint64_t &bytes,
                                                    vkattn_diagnostic *why);
[[nodiscard]] vkattn_result runLinearGradient(Pool &pool, const vkattn_linear_gradient *description, const vkattn_operand_memory *memory,
                                              uint32_t count, void *workspace, uint64_t workspaceBytes, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result oracleLinearGradient(const vkattn_linear_gradient *description, const vkattn_operand_memory *memory,
                                                 uint32_t count, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result verifyLinearGradient(const vkattn_linear_gradient *description, const vkattn_operand_memory *memory,
                                                 uint32_t count, const vkattn_verify_options *options, vkattn_verify_report *report,
                                                 vkattn_diagnostic *why);

} // namespace vkattn
