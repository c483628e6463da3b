#include "core/vulkan/bindings.hpp"

#include "util/diagnostic.hpp"

namespace vkattn {
namespace {

constexpr vkattn_result invalid = VKATTN_ERROR_INVALID_ARGUMENT;
using Wide = unsigned long long; // for messages

uint64_t alignmentOf(const Plan &plan, vkattn_role role) {
    if (role == VKATTN_WORKSPACE) return plan.workspaceAlignment;
    return isArray(role) ? 4 : elementBytes(plan.problem.tensor(role).dtype);
}

// The bytes of a buffer that a role takes, from its first element to its last.
struct Region {
    uint64_t begin, end;
    const Tensor *tensor; // NULL: the role takes every byte, as arrays and the workspace do

    [[nodiscard]] uint64_t size() const { return end - begin; }
    // Returns the bytes between neighbours in a dimension; 0 where there are no neighbours.
    [[nodiscard]] uint64_t step(int dimension) const {
        if (!tensor) return 0;
        const int64_t stride = tensor->stride[dimension];
        return (stride < 0 ? 0 - static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride)) * elementBytes(tensor->dtype);
    }
    // Returns n, where all of the region's bytes lie in the n bytes from begin % period on, modulo
    // the period.
    [[nodiscard]] uint64_t bytesOfPeriod(uint64_t period) const {
        if (!tensor) return size();
        uint64_t bytes = elementBytes(tensor->dtype);
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

// The bytes that each role takes, from the start of the memory that is bound to the role.
struct Used {
    ByteRange byRole[VKATTN_ROLE_LIMIT];
};

// Outputs and the workspace overlap nothing: a dispatch would read what another invocation has
// written.
vkattn_result checkOverlap(const Plan &plan, const vkattn_record &record, const Used &used, vkattn_diagnostic *why) {
    const auto regionOf = [&](const vkattn_binding &binding) {
        const ByteRange &bytes = used.byRole[binding.role];
        return Region{binding.offset + bytes.begin, binding.offset + bytes.end,
                      isTensor(binding.role) ? &plan.problem.tensor(binding.role) : nullptr};
    };
    for (uint32_t n = 0; n < record.bindingCount; ++n) {
        const vkattn_binding &written = record.bindings[n];
        if (!isOutput(written.role) && written.role != VKATTN_WORKSPACE) continue;
        const Region a = regionOf(written);
        if (a.size() == 0) continue;
        for (uint32_t m = 0; m < record.bindingCount; ++m) {
            const vkattn_binding &other = record.bindings[m];
            if (m == n || other.buffer != written.buffer) continue;
            const Region b = regionOf(other);
            if (b.size() == 0 || a.begin >= b.end || b.begin >= a.end || takeTurns(a, b)) continue;
            return fail(why, invalid,
                        "%s takes bytes %llu to %llu of its buffer and %s bytes %llu to %llu of the same: outputs and the workspace must "
                        "not overlap anything else; bind them elsewhere",
                        roleName(written.role), static_cast<Wide>(a.begin), static_cast<Wide>(a.end - 1), roleName(other.role),
                        static_cast<Wide>(b.begin), static_cast<Wide>(b.end - 1));
        }
    }
    return VKATTN_OK;
}

} // namespace

vkattn_result collectBindings(const Plan &plan, const vkattn_record &record, Bindings &out, vkattn_diagnostic *why) {
    if (!record.bindings && record.bindingCount)
        return fail(why, invalid, "record.bindings is NULL with bindingCount %u", record.bindingCount);
    Used used;
    for (const OperandRule &rule : operandTable) used.byRole[rule.role] = plan.problem.bytesUsed(rule.role);
    used.byRole[VKATTN_WORKSPACE] = {0, plan.workspaceBytes};
    bool given[VKATTN_ROLE_LIMIT] = {};
    for (uint32_t n = 0; n < record.bindingCount; ++n) {
        const vkattn_binding &binding = record.bindings[n];
        const char *name = roleName(binding.role);
        if (binding.role != VKATTN_WORKSPACE && !plan.problem.uses(binding.role))
            return fail(why, invalid, "binding %u has role %s (%d), which the problem does not use", n, name,
                        static_cast<int>(binding.role));
        if (given[binding.role]) return fail(why, invalid, "%s is bound twice", name);
        given[binding.role] = true;
        const uint64_t needed = used.byRole[binding.role].end;
        if (needed && !binding.buffer) return fail(why, invalid, "%s is bound to VK_NULL_HANDLE", name);
        if (binding.size < needed)
            return fail(why, invalid, "%s is bound with %llu bytes, expected at least %llu", name, static_cast<Wide>(binding.size),
                        static_cast<Wide>(needed));
        const uint64_t alignment = alignmentOf(plan, binding.role);
        if (binding.offset % alignment)
            return fail(why, invalid, "%s is bound at offset %llu, expected a multiple of %llu", name, static_cast<Wide>(binding.offset),
                        static_cast<Wide>(alignment));
        out.byRole[binding.role] = binding;
    }
    const auto complete = [&](vkattn_role role) {
        if (given[role]) return VKATTN_OK;
        out.byRole[role] = {};
        if (used.byRole[role].end == 0) return VKATTN_OK;
        return fail(why, invalid, "%s is not bound; it needs %llu bytes", roleName(role), static_cast<Wide>(used.byRole[role].end));
    };
    for (const OperandRule &rule : operandTable)
        if (const auto r = complete(rule.role)) return r;
    if (const auto r = complete(VKATTN_WORKSPACE)) return r;
    return checkOverlap(plan, record, used, why);
}

} // namespace vkattn
