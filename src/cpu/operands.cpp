#include "cpu/operands.hpp"

#include "util/diagnostic.hpp"

namespace vkattn {

vkattn_result bindOperands(const Problem &problem, const vkattn_operand_memory *operands, uint32_t count, Operands &out,
                           vkattn_diagnostic *why) {
    constexpr vkattn_result invalid = VKATTN_ERROR_INVALID_ARGUMENT;
    if (!operands && count) return fail(why, invalid, "operands is NULL with operandCount %u", count);
    bool given[VKATTN_ROLE_LIMIT] = {};
    for (uint32_t i = 0; i < count; ++i) {
        const vkattn_operand_memory &operand = operands[i];
        const char *name = roleName(operand.role);
        if (!problem.uses(operand.role))
            return fail(why, invalid, "operand %u has role %s (%d), which the problem does not use", i, name,
                        static_cast<int>(operand.role));
        if (given[operand.role]) return fail(why, invalid, "%s is given twice", name);
        given[operand.role] = true;
        const uint64_t needed = problem.bytesNeeded(operand.role);
        if (operand.bytes < needed)
            return fail(why, invalid, "%s has %zu bytes, expected at least %llu", name, operand.bytes,
                        static_cast<unsigned long long>(needed));
        if (!operand.data && needed) return fail(why, invalid, "%s has no data", name);
        const uint32_t alignment = isArray(operand.role) ? 4 : elementBytes(problem.tensor(operand.role).dtype);
        if (reinterpret_cast<uintptr_t>(operand.data) % alignment)
            return fail(why, invalid, "%s is not aligned to its elements' %u bytes", name, alignment);
        out.data[operand.role] = static_cast<unsigned char *>(operand.data);
    }
    for (const OperandRule &rule : operandTable)
        if (problem.uses(rule.role) && !given[rule.role]) return fail(why, invalid, "%s is missing: the problem uses it", rule.name);
    return VKATTN_OK;
}

} // namespace vkattn

extern "C" vkattn_result vkattnCpuCheckOperands(const vkattn_problem *description, const vkattn_operand_memory *memory, uint32_t count,
                                                vkattn_diagnostic *why) {
    vkattn::Problem problem;
    vkattn::Operands ignored;
    if (const auto r = vkattn::makeProblem(description, problem, why)) return r;
    return vkattn::bindOperands(problem, memory, count, ignored, why);
}
