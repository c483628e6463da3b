// The statistics of attention, as the calls for any operation (cpu/operations/) hand them on.
#pragma once

#include "cpu/pool.hpp"
#include "vkattn/cpu.h"
#include "vkattn/statistics.h"

namespace vkattn {

[[nodiscard]] vkattn_result statisticsWorkspace(const vkattn_attention_statistics *description, const Pool &pool, uint64_t &bytes,
                                                vkattn_diagnostic *why);
[[nodiscard]] vkattn_result runStatistics(Pool &pool, const vkattn_attention_statistics *description, const vkattn_operand_memory *memory,
                                          uint32_t count, void *workspace, uint64_t workspaceBytes, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result oracleStatistics(const vkattn_attention_statistics *description, const vkattn_operand_memory *memory,
                                             uint32_t count, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result verifyStatistics(const vkattn_attention_statistics *description, const vkattn_operand_memory *memory,
                                             uint32_t count, const vkattn_verify_options *options, vkattn_verify_report *report,
                                             vkattn_diagnostic *why);

} // namespace vkattn
