// A described operation: validated, and computed on the CPU, in memory of exactly the bytes that were asked
// for, of values that the input chooses.
#pragma once

#include "fuzz.hpp"
#include "vkattn/cpu.h"
#include "vkattn/operations.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace vkattn::test {

// Validates any description of an operation: whoever is refused is told why, and nothing has a size then.
inline vkattn_result validate(const vkattn_operation &operation) {
    vkattn_diagnostic why{};
    const vkattn_result valid = vkattnValidateOperation(&operation, &why);
    require(valid == VKATTN_OK || (valid == VKATTN_ERROR_INVALID_ARGUMENT && why.message[0] != '\0' && terminated(why.message)));
    uint64_t ignored = 0;
    require(vkattnCpuOperationWorkspace(&operation, nullptr, &ignored, nullptr) == valid);
    for (uint32_t role = 0; role < VKATTN_ROLE_LIMIT + 2; ++role)
        require(valid == VKATTN_OK || vkattnOperationBytes(&operation, static_cast<vkattn_role>(role)) == 0);
    return valid;
}

inline void verify(const vkattn_operation &o, const std::vector<vkattn_operand_memory> &operands, const char *by) {
    vkattn_verify_options options{};
    options.structSize = sizeof options;
    options.allRows = options.threads = 1;
    vkattn_verify_report report{};
    require(vkattnCpuVerifyOperation(&o, operands.data(), static_cast<uint32_t>(operands.size()), &options, &report, nullptr) == VKATTN_OK);
    if (!report.passed)
        std::fprintf(stderr, "%s, %s: role %d [%u, %u, %u, %u] is %g, expected %g, bound %g\n", vkattnOperationName(o.kind), by,
                     static_cast<int>(report.worstRole), report.worstIndex[0], report.worstIndex[1], report.worstIndex[2],
                     report.worstIndex[3], report.worstGot, report.worstExpected, report.worstBound);
    require(report.passed);
}

// `verifiesRun`: what the CPU's kernels compute is within the bounds too.
inline void compute(const vkattn_operation &o, Bytes &bytes, bool verifiesRun, uint64_t mostBytes = 1u << 16) {
    std::vector<vkattn_operand_use> uses(vkattnOperandUses(&o, nullptr, 0));
    require(vkattnOperandUses(&o, uses.data(), static_cast<uint32_t>(uses.size())) == uses.size());
    std::vector<std::unique_ptr<unsigned char[]>> blocks;
    std::vector<vkattn_operand_memory> operands;
    // Values of ordinary size, or any bits at all.
    const bool anything = bytes.below(4) == 0;
    uint32_t state = bytes.raw<uint32_t>() | 1;
    for (const vkattn_operand_use &use : uses) {
        require(use.endBytes == vkattnOperationBytes(&o, use.role));
        if (use.endBytes > mostBytes) return; // as slow as it is large
        blocks.push_back(std::make_unique<unsigned char[]>(use.endBytes));
        operands.push_back({use.role, blocks.back().get(), use.endBytes});
        for (uint64_t byte = 0; byte < use.endBytes; ++byte) {
            state ^= state << 13, state ^= state >> 17, state ^= state << 5; // Marsaglia's xorshift32
            blocks.back()[byte] = static_cast<unsigned char>(state);
            // The highest byte of an f32, and of 16-bit types: of ordinary size and either sign.
            if (!anything && byte % 2 == 1) blocks.back()[byte] = static_cast<unsigned char>((state & 0x80) | 0x3c);
        }
    }
    const auto count = static_cast<uint32_t>(operands.size());
    if (vkattnCpuCheckOperation(&o, operands.data(), count, nullptr) != VKATTN_OK) return;
    uint64_t bytesOfWorkspace = 0;
    require(vkattnCpuOperationWorkspace(&o, nullptr, &bytesOfWorkspace, nullptr) == VKATTN_OK);
    if (bytesOfWorkspace > 1u << 26) return;
    const auto workspace = std::make_unique<unsigned char[]>(bytesOfWorkspace);
    require(vkattnCpuRunOperation(nullptr, &o, operands.data(), count, workspace.get(), bytesOfWorkspace, nullptr) == VKATTN_OK);
    if (verifiesRun) verify(o, operands, "kernels");
    require(vkattnCpuOracleOperation(&o, operands.data(), count, nullptr) == VKATTN_OK);
    verify(o, operands, "oracle");
}

} // namespace vkattn::test
