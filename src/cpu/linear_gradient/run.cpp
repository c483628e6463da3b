// The gradients of linear attention on the threads of a pool: how a call is cut, and what its workspace holds.
#include "cpu/entry.hpp"
#include "cpu/linear_gradient/linear_gradient.hpp"
#include "cpu/linear_gradient/work.hpp"

#include <algorithm>

namespace vkattn {
namespace {

// The facts that follow from the description, the processor and the number of threads alone.
struct Cut {
    static constexpr size_t roles = std::size(linearGradients);

    const LinearGradientKernels &own = linearGradientKernels();
    uint32_t threads;
    uint64_t units, scratchBytes, partBytes[roles], sumUnits[roles];

    Cut(const LinearGradient &g, const Pool &pool) {
        const LinearAttention &a = g.forward;
        units = g.hasWork() ? uint64_t{a.batch} * a.stateHeads : 0;
        threads = static_cast<uint32_t>(std::clamp<uint64_t>(units, 1, pool.threadsFor(g.flops() / 2)));
        scratchBytes = aligned(4 * LinearGradientScratch(a).total);
        for (size_t n = 0; n < roles; ++n) {
            const vkattn_role role = linearGradients[n];
            const uint32_t *e = g.tensor(role).extent;
            const bool shared = g.isShared(role);
            partBytes[n] = shared ? aligned(4 * uint64_t{a.batch} * g.headsOf(role) * e[2] * e[3]) : 0;
            sumUnits[n] = shared ? uint64_t{e[0]} * e[1] * ceilDivide(e[2], linearSumRows) : 0;
        }
    }
    [[nodiscard]] uint64_t bytes() const {
        if (units == 0) return 0;
        uint64_t all = threads * scratchBytes + workspaceAlignment;
        for (const uint64_t each : partBytes) all += each;
        return all;
    }
};

// Adds up what heads, and batch entries, have left of some rows of a gradient, in ascending order.
void sumParts(const LinearGradientCall &call, size_t n, uint64_t unit) {
    const LinearGradient &g = call.g;
    const LinearAttention &a = g.forward;
    const vkattn_role role = linearGradients[n];
    const uint32_t *e = g.tensor(role).extent, heads = g.headsOf(role);
    const uint64_t blocks = ceilDivide(e[2], linearSumRows), head = unit / blocks % e[1], b = unit / blocks / e[1];
    const uint32_t begin = static_cast<uint32_t>(unit % blocks) * linearSumRows, end = std::min(begin + linearSumRows, e[2]);
    for (uint32_t row = begin; row < end; ++row)
        for (uint32_t d = 0; d < e[3]; ++d) {
            double sum = 0;
            for (uint32_t entry = 0; entry < a.batch; ++entry)
                for (uint32_t h = 0; h < heads && (e[0] == 1 || entry == b); ++h)
                    if (a.mappedHead(h, heads, e[1]) == head)
                        sum += static_cast<double>(call.parts[n][((uint64_t{entry} * heads + h) * e[2] + row) * e[3] + d]);
            const Tensor &t = g.tensor(role);
            const uint64_t at = t.index(b, head, row, d);
            storeElement(call.operands.data[role], t.dtype, at, static_cast<float>(sum / static_cast<double>(g.lossScale)));
            if (!std::isfinite(loadElement(call.operands.data[role], t.dtype, at))) call.nonfinite->store(1, std::memory_order_relaxed);
        }
}

void run(Pool &pool, const Cut &cut, const LinearGradient &g, const Operands &operands, WorkspaceParts parts) {
    if (cut.units == 0) return;
    std::atomic<uint32_t> nonfinite{0};
    LinearGradientCall call{g, operands, {}, &nonfinite};
    for (size_t n = 0; n < Cut::roles; ++n)
        if (cut.partBytes[n]) call.parts[n] = parts.take<float>(cut.partBytes[n]);
    unsigned char *const scratch = parts.rest();
    forUnits(pool, cut.threads, cut.units, [&](uint64_t unit, uint32_t thread) {
        cut.own.head(call, static_cast<uint32_t>(unit / g.forward.stateHeads), static_cast<uint32_t>(unit % g.forward.stateHeads),
                     reinterpret_cast<float *>(scratch + thread * cut.scratchBytes));
    });
    for (size_t n = 0; n < Cut::roles; ++n)
        forUnits(pool, cut.threads, cut.sumUnits[n], [&](uint64_t unit, uint32_t) { sumParts(call, n, unit); });
    if (g.has(VKATTN_NONFINITE) && nonfinite.load()) {
        const uint32_t found = 1;
        std::memcpy(operands.data[VKATTN_NONFINITE], &found, 4);
    }
}

} // namespace

vkattn_result linearGradientWorkspace(const vkattn_linear_gradient *description, const Pool &pool, uint64_t &bytes,
                                      vkattn_diagnostic *why) {
    return workspaceOf<Cut>(makeLinearGradient, description, pool, bytes, why);
}

vkattn_result runLinearGradient(Pool &pool, const vkattn_linear_gradient *description, const vkattn_operand_memory *memory, uint32_t count,
                                void *workspace, uint64_t workspaceBytes, vkattn_diagnostic *why) {
    return runBound<Cut>(pool, makeLinearGradient, description, memory, count, workspace, workspaceBytes, why,
                         [&](const Cut &cut, const LinearGradient &g, const Operands &operands, WorkspaceParts parts) {
                             run(pool, cut, g, operands, parts);
                         });
}

} // namespace vkattn
