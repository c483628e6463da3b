// The hooks of a program on the processor: vkattn_program's functions, and the pairs that they are asked about.
#pragma once

#include "cpu/operands.hpp"
#include "util/diagnostic.hpp"

namespace vkattn {

// UNSUPPORTED where the problem has a program in GLSL alone.
[[nodiscard]] inline vkattn_result checkProgramForCpu(const Problem &p, vkattn_diagnostic *why) {
    const ProgramUse &use = p.program;
    if (use.hooks == 0) return VKATTN_OK;
    const vkattn_program &program = *use.program;
    const bool slope = (use.hooks & VKATTN_HOOK_SCORE_SLOPE) != 0;
    if ((!use.scores() || program.score) && (!use.hides() || program.visible) && (!slope || program.scoreSlope) &&
        (!use.weighs() || program.probability) && (!use.sumless() || program.row))
        return VKATTN_OK;
    return fail(why, VKATTN_ERROR_UNSUPPORTED,
                "the program %s has no form for the processor: set vkattn_program::score, scoreSlope, visible, probability and row "
                "beside its GLSL, or compute on a Vulkan device",
                nameOf(program));
}
[[nodiscard]] inline vkattn_result checkProgramForCpu(const Gradient &g, vkattn_diagnostic *why) {
    return checkProgramForCpu(g.forward, why);
}
[[nodiscard]] inline vkattn_result checkProgramForCpu(const Statistics &s, vkattn_diagnostic *why) {
    return checkProgramForCpu(s.attention, why);
}
[[nodiscard]] inline vkattn_result checkProgramForCpu(const VisibleBlocks &v, vkattn_diagnostic *why) {
    return checkProgramForCpu(v.attention, why);
}
// Other operations have none.
[[nodiscard]] inline vkattn_result checkProgramForCpu(const Operation &, vkattn_diagnostic *) {
    return VKATTN_OK;
}
[[nodiscard]] inline vkattn_result checkProgramForCpu(const LinearAttention &, vkattn_diagnostic *) {
    return VKATTN_OK;
}
[[nodiscard]] inline vkattn_result checkProgramForCpu(const LinearGradient &, vkattn_diagnostic *) {
    return VKATTN_OK;
}

// Of query i of head h in batch entry b, for key 0.
[[nodiscard]] inline vkattn_program_pair programPair(const Problem &p, const Operands &operands, uint32_t b, uint32_t h, uint32_t i,
                                                     int64_t position, uint32_t queryTokens, uint32_t keyTokens) {
    vkattn_program_pair pair{};
    pair.batch = b, pair.head = h, pair.query = i;
    pair.position = position;
    pair.queryTokens = queryTokens, pair.keyTokens = keyTokens;
    pair.words = p.program.words;
    for (uint32_t n = 0; n < programBuffers; ++n) {
        pair.bufferWords[n] = p.program.bufferWords[n];
        // Memory of operands begins at multiples of 4 bytes (bindOperands).
        if (pair.bufferWords[n]) pair.buffers[n] = reinterpret_cast<const uint32_t *>(operands.data[VKATTN_PROGRAM_BUFFER_0 + n]);
    }
    return pair;
}

} // namespace vkattn
