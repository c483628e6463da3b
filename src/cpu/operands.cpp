#include "cpu/operands.hpp"

#include "cpu/entry.hpp"
#include "problem/linear/linear_gradient.hpp"

#include <algorithm>
#include <iterator>
#include <span>

namespace vkattn {
namespace {

// Adds those operands of a table that a form uses.
template <class Form, class Rules> void addOperands(const Form &form, const Rules &rules, NeededOperands &needed) {
    for (const auto &rule : rules)
        if (form.uses(rule.role))
            needed.list[needed.count++] = {rule.role, rule.name, form.bytesUsed(rule.role).end,
                                           rule.layout ? elementBytes(form.tensor(rule.role).dtype) : 4};
}
// Of a form that adds operands of its own to those of attention.
template <class Form, class Rules = std::span<const OperandRule>>
NeededOperands neededOperands(const char *user, const Form &form, const Rules &added = {}) {
    NeededOperands needed{user, {}};
    addOperands(form, operandTable, needed);
    addOperands(form, added, needed);
    return needed;
}

} // namespace

namespace {

// Small types are read byte by byte.
uint32_t alignmentOf(vkattn_dtype dtype) {
    return isSmallType(dtype) ? 1 : elementBytes(dtype);
}

} // namespace

NeededOperands neededOperands(const Problem &problem) {
    static_assert(std::size(operandTable) <= NeededOperands::most);
    NeededOperands needed{"problem", {}};
    for (const OperandRule &rule : operandTable)
        if (problem.uses(rule.role))
            needed.list[needed.count++] = {rule.role, rule.name, problem.bytesNeeded(rule.role),
                                           rule.dtypes ? alignmentOf(problem.tensor(rule.role).dtype) : 4};
    return needed;
}

NeededOperands neededOperands(const Operation &operation) {
    NeededOperands needed{"operation", {}};
    for (const OperationOperand &operand : operandsOf(operation.kind))
        if (operation.uses(operand.role))
            needed.list[needed.count++] = {operand.role, operand.name, operation.bytesUsed(operand.role).end,
                                           operand.dtypes ? elementBytes(operation.tensor(operand.role).dtype) : 4};
    return needed;
}

NeededOperands neededOperands(const LinearAttention &linear) {
    NeededOperands needed{"linear attention", {}};
    addOperands(linear, linearOperands(), needed);
    return needed;
}

NeededOperands neededOperands(const LinearGradient &gradient) {
    NeededOperands needed{"linear attention gradient", {}};
    addOperands(gradient, linearOperands(), needed);
    addOperands(gradient, linearGradientOperands(), needed);
    return needed;
}

NeededOperands neededOperands(const Gradient &gradient) {
    return neededOperands("gradient", gradient, gradientOperands());
}

NeededOperands neededOperands(const Statistics &statistics) {
    return neededOperands("statistics operation", statistics, statisticsOperands());
}

NeededOperands neededOperands(const VisibleBlocks &blocks) {
    return neededOperands("visible blocks", blocks);
}

vkattn_result bindOperands(const NeededOperands &needed, const vkattn_operand_memory *operands, uint32_t count, Operands &out,
                           vkattn_diagnostic *why) {
    if (!operands && count) return fail(why, invalid, "operands is NULL with operandCount %u", count);
    bool given[VKATTN_ROLE_LIMIT] = {};
    for (uint32_t i = 0; i < count; ++i) {
        const vkattn_operand_memory &operand = operands[i];
        const auto *const use =
            std::find_if(needed.begin(), needed.end(), [&](const NeededOperand &each) { return each.role == operand.role; });
        if (use == needed.end())
            return fail(why, invalid, "operand %u has role %s (%d), which the %s does not use", i, roleName(operand.role),
                        static_cast<int>(operand.role), needed.user);
        if (given[operand.role]) return fail(why, invalid, "%s is given twice", use->name);
        given[operand.role] = true;
        if (operand.bytes < use->bytes)
            return fail(why, invalid, "%s has %zu bytes, expected at least %llu", use->name, operand.bytes,
                        static_cast<unsigned long long>(use->bytes));
        if (!operand.data && use->bytes) return fail(why, invalid, "%s has no data", use->name);
        if (reinterpret_cast<uintptr_t>(operand.data) % use->alignment)
            return fail(why, invalid, "%s is not aligned to its elements' %u bytes", use->name, use->alignment);
        out.data[operand.role] = static_cast<unsigned char *>(operand.data);
    }
    for (const NeededOperand &each : needed)
        if (!given[each.role]) return fail(why, invalid, "%s is missing: the %s uses it", each.name, needed.user);
    return VKATTN_OK;
}

} // namespace vkattn

extern "C" vkattn_result vkattnCpuCheckOperands(const vkattn_problem *description, const vkattn_operand_memory *memory, uint32_t count,
                                                vkattn_diagnostic *why) {
    return vkattn::checkOperands(vkattn::makeProblem, description, memory, count, why);
}
