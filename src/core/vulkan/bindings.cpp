#include "core/vulkan/bindings.hpp"

#include "problem/problem.hpp"
#include "util/diagnostic.hpp"

namespace vkattn {
namespace {

using Wide = unsigned long long; // for messages

// The operands of a call: those that its schedule uses, and the workspace.
struct Expected {
    BoundOperand operands[maxBoundOperands + 1];
    uint32_t count;
    uint8_t numberOf[VKATTN_ROLE_LIMIT] = {}; // of an operand, counted from 1

    explicit Expected(const Schedule &schedule) : count(schedule.type->operands(schedule, operands)) {
        operands[count++] = {VKATTN_WORKSPACE, "workspace", nullptr, {0, schedule.workspaceBytes}, true};
        for (uint32_t n = 0; n < count; ++n) numberOf[operands[n].role] = static_cast<uint8_t>(n + 1);
    }
    [[nodiscard]] const BoundOperand *find(vkattn_role role) const {
        const uint32_t number = static_cast<uint32_t>(role) < VKATTN_ROLE_LIMIT ? numberOf[role] : 0;
        return number ? &operands[number - 1] : nullptr;
    }
};

uint64_t alignmentOf(const Schedule &schedule, const BoundOperand &operand) {
    if (operand.role == VKATTN_WORKSPACE) return schedule.workspaceAlignment;
    return operand.tensor && !bytesBeforeRow(operand.tensor->dtype) ? elementBytes(operand.tensor->dtype) : 4;
}

// The bytes of a buffer that a role takes, from its first element to its last.
struct Region {
    uint64_t begin, end;
    const Tensor *tensor; // NULL: the role takes every byte, as arrays and the workspace do

    Region(const vkattn_binding &binding, const BoundOperand &operand)
        : begin(binding.offset + operand.bytes.begin), end(binding.offset + operand.bytes.end), tensor(operand.tensor) {}

    [[nodiscard]] uint64_t size() const { return end - begin; }
    // Returns the bytes between neighbours in a dimension; 0 where there are no neighbours.
    [[nodiscard]] uint64_t step(int dimension) const {
        if (!tensor) return 0;
        const int64_t stride = tensor->stride[dimension];
        // Blocks lie one after the other, and count as if each of their elements were one.
        return bytesBefore(tensor->dtype, stride < 0 ? 0 - static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride));
    }
    // Returns n, where all of the region's bytes lie in the n bytes from begin % period on, modulo
    // the period.
    [[nodiscard]] uint64_t bytesOfPeriod(uint64_t period) const {
        if (!tensor) return size();
        uint64_t bytes = elementBytes(tensor->dtype);
        if (isBlockType(tensor->dtype)) bytes = (tensor->extent[3] + 31ull) / 32 * bytesOfBlock(tensor->dtype); // one row
        bytes += bytesBeforeRow(tensor->dtype);
        for (int d = 0; d < 4; ++d)
            if (step(d) % period) bytes += (tensor->extent[d] - 1) * step(d);
        return bytes;
    }
};

// Regions whose spans overlap may still have no byte in common: heads or tokens of one fused tensor
// take turns. They take turns where some period separates them, and the period of such a tensor is
// one of its strides.
bool takeTurns(const Region &a, const Region &b) {
    for (int n = 0; n < 8; ++n) {
        const uint64_t period = n < 4 ? a.step(n) : b.step(n - 4);
        if (period == 0) continue;
        const uint64_t fromA = (b.begin % period + period - a.begin % period) % period, fromB = (period - fromA) % period;
        if (a.bytesOfPeriod(period) <= fromA && b.bytesOfPeriod(period) <= fromB) return true;
    }
    return false;
}

// Of one type, with elements in the same places as far as both have them: an output may have fewer batch entries than
// the input that it replaces.
bool sameLayout(const Tensor &a, const Tensor &b) {
    for (int d = 0; d < 4; ++d)
        if ((d > 0 && a.extent[d] != b.extent[d]) || (a.extent[d] > 1 && b.extent[d] > 1 && a.stride[d] != b.stride[d])) return false;
    return a.dtype == b.dtype;
}

// Outputs and the workspace overlap nothing but the input that they replace: a dispatch would read
// what another invocation has written.
vkattn_result checkOverlap(const Schedule &schedule, const vkattn_record &record, const Expected &expected, vkattn_diagnostic *why) {
    for (uint32_t n = 0; n < record.bindingCount; ++n) {
        const BoundOperand &written = *expected.find(record.bindings[n].role);
        if (!written.output) continue;
        const Region a(record.bindings[n], written);
        if (a.size() == 0) continue;
        for (uint32_t m = 0; m < record.bindingCount; ++m) {
            if (m == n || record.bindings[m].buffer != record.bindings[n].buffer) continue;
            const BoundOperand &other = *expected.find(record.bindings[m].role);
            const Region b(record.bindings[m], other);
            if (b.size() == 0 || a.begin >= b.end || b.begin >= a.end || takeTurns(a, b)) continue;
            if (a.begin == b.begin && a.tensor && b.tensor && sameLayout(*a.tensor, *b.tensor) && schedule.type->inPlace &&
                (schedule.type->inPlace(schedule, written.role, other.role) || schedule.type->inPlace(schedule, other.role, written.role)))
                continue;
            return fail(why, invalid,
                        "%s takes bytes %llu to %llu of its buffer and %s bytes %llu to %llu of the same: outputs and the workspace must "
                        "not overlap anything else; bind them elsewhere",
                        written.name, static_cast<Wide>(a.begin), static_cast<Wide>(a.end - 1), other.name, static_cast<Wide>(b.begin),
                        static_cast<Wide>(b.end - 1));
        }
    }
    return VKATTN_OK;
}

} // namespace

vkattn_result collectBindings(const Schedule &schedule, const vkattn_record &record, Bindings &out, vkattn_diagnostic *why) {
    if (!record.bindings && record.bindingCount)
        return fail(why, invalid, "record.bindings is NULL with bindingCount %u", record.bindingCount);
    const Expected expected(schedule);
    bool given[VKATTN_ROLE_LIMIT] = {};
    for (uint32_t n = 0; n < record.bindingCount; ++n) {
        const vkattn_binding &binding = record.bindings[n];
        const BoundOperand *const operand = expected.find(binding.role);
        if (!operand)
            return fail(why, invalid, "binding %u has role %s (%d), which the %s does not use", n, roleName(binding.role),
                        static_cast<int>(binding.role), schedule.type->what);
        const char *const name = operand->name;
        if (given[binding.role]) return fail(why, invalid, "%s is bound twice", name);
        given[binding.role] = true;
        const uint64_t needed = operand->bytes.end;
        if (needed && !binding.buffer) return fail(why, invalid, "%s is bound to VK_NULL_HANDLE", name);
        if (binding.size < needed)
            return fail(why, invalid, "%s is bound with %llu bytes, expected at least %llu", name, static_cast<Wide>(binding.size),
                        static_cast<Wide>(needed));
        const uint64_t alignment = alignmentOf(schedule, *operand);
        if (binding.offset % alignment)
            return fail(why, invalid, "%s is bound at offset %llu, expected a multiple of %llu", name, static_cast<Wide>(binding.offset),
                        static_cast<Wide>(alignment));
        out.byRole[binding.role] = binding;
    }
    for (uint32_t n = 0; n < expected.count; ++n) {
        const BoundOperand &operand = expected.operands[n];
        if (given[operand.role]) continue;
        out.byRole[operand.role] = {};
        if (operand.bytes.end)
            return fail(why, invalid, "%s is not bound; it needs %llu bytes", operand.name, static_cast<Wide>(operand.bytes.end));
    }
    return checkOverlap(schedule, record, expected, why);
}

} // namespace vkattn
