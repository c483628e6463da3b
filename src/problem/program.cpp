#include "problem/program.hpp"

#include "problem/tensor.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>

namespace vkattn {

vkattn_result makeProgramUse(const vkattn_problem &description, ProgramUse &out, vkattn_diagnostic *why) {
    const vkattn_program *const program = description.program;
    if (!program) {
        const auto isSet = [](uint32_t word) { return word != 0; };
        if (std::any_of(description.programWords, description.programWords + programWords, isSet) ||
            std::any_of(description.programBufferWords, description.programBufferWords + programBuffers, isSet))
            return fail(why, invalid, "programWords or programBufferWords are set without a program; set program, or leave them 0");
        return VKATTN_OK;
    }
    if (program->structSize != sizeof *program)
        return fail(why, invalid,
                    "program: structSize is %u, expected sizeof(vkattn_program) = %zu: the program was made by another version",
                    program->structSize, sizeof *program);
    const char *const name = nameOf(*program);
    constexpr uint32_t alone = VKATTN_HOOK_SCORE | VKATTN_HOOK_VISIBLE | VKATTN_HOOK_PROBABILITY | VKATTN_HOOK_ROW;
    constexpr uint32_t known = alone | VKATTN_HOOK_SCORE_SLOPE;
    if (program->hooks & ~known || !(program->hooks & alone))
        return fail(why, invalid, "the program %s has the hooks 0x%x, expected vkattn_hook_bits with SCORE, VISIBLE, PROBABILITY or ROW",
                    name, program->hooks);
    if (program->hooks & VKATTN_HOOK_SCORE_SLOPE && !(program->hooks & VKATTN_HOOK_SCORE))
        return fail(why, invalid, "the program %s has vkattnScoreSlope without vkattnScore, whose derivative it is", name);
    if (program->hash == 0 || (program->moduleCount && !program->modules))
        return fail(why, invalid, "the program %s has %s; take a vkattn_program as vkattn::Program or vkattn_compile_program made it", name,
                    program->hash == 0 ? "a hash of 0" : "no modules");
    for (const uint32_t words : description.programBufferWords)
        if (words > maxTokens)
            return fail(why, invalid, "a buffer of the program %s has %u words, expected at most %u", name, words, maxTokens);
    out.program = program;
    out.hooks = program->hooks;
    std::copy_n(description.programWords, programWords, out.words);
    std::copy_n(description.programBufferWords, programBuffers, out.bufferWords);
    return VKATTN_OK;
}

} // namespace vkattn
