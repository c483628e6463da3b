// Keys in segments, and what a problem goes on from: their description, and their memory beside that of a case.
#include "conform/cases/case.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vkattn::conform {
namespace {

struct SegmentLayouts {
    vkattn_layout vkattn_problem::*k, vkattn_problem::*v;
};
constexpr SegmentLayouts further[] = {
    {&vkattn_problem::k1, &vkattn_problem::v1}, {&vkattn_problem::k2, &vkattn_problem::v2}, {&vkattn_problem::k3, &vkattn_problem::v3}};

// `keys` keys of `whole` from key `first` on. Where dims are neighbours the segment lies in rows of its own; elsewhere
// as the whole does.
vkattn_layout layoutOf(const vkattn_layout &whole, uint32_t keys, Style style) {
    const uint32_t extent[4] = {whole.extent[0], whole.extent[1], keys, whole.extent[3]};
    vkattn_layout own = makeLayout(whole.dtype, extent, style);
    if (own.strideElems[3] == whole.strideElems[3]) return own;
    own = whole;
    own.extent[2] = keys;
    return own;
}

} // namespace

uint32_t furtherKeys(const vkattn_problem &p) {
    uint32_t keys = 0;
    for (const SegmentLayouts &each : further) keys += (p.*each.k).extent[2];
    return keys;
}

void CaseData::describeSegments() {
    const uint32_t keys = problem.k.extent[2];
    const uint32_t count = std::min(c.segments, keys > 1 ? keys - 1 : 0);
    if (c.ragged || c.pageTokens || c.keysHoldValues || c.valuesInKeys || c.sharedHeads || count == 0) return;
    // Of unequal lengths, the last the longest but one: 2, 1, 1 and 3 parts, of a key each at least.
    constexpr uint32_t parts[] = {2, 1, 1, 3};
    uint32_t all = 0, left = keys;
    for (uint32_t n = 0; n <= count; ++n) all += parts[n];
    for (uint32_t n = 0; n < count; ++n) {
        const uint32_t own = std::min(std::max(keys * parts[n] / all, 1u), left - (count - n));
        left -= own;
        if (n == 0) {
            problem.k.extent[2] = problem.v.extent[2] = own;
            continue;
        }
        problem.*further[n - 1].k = layoutOf(kWhole, own, n == 1 ? Style::tokenMajor : c.kStyle);
        problem.*further[n - 1].v = layoutOf(vWhole, own, n == 1 ? c.vStyle : Style::padded);
    }
    problem.*further[count - 1].k = layoutOf(kWhole, left, c.kStyle);
    problem.*further[count - 1].v = layoutOf(vWhole, left, Style::packed);
}

void CaseData::collectSegments() {
    uint32_t first = problem.k.extent[2];
    for (uint32_t n = 0; n < std::size(further); ++n) {
        const auto gather = [&](const vkattn_layout &own, const HostTensor &whole, vkattn_role role, HostTensor &into) {
            into.make(own, vkattnOperandBytes(&problem, role), 0xff);
            for (uint32_t b = 0; b < own.extent[0]; ++b)
                for (uint32_t h = 0; h < own.extent[1]; ++h)
                    for (uint32_t t = 0; t < own.extent[2]; ++t) into.copyRow({b, h, t}, whole, {b, h, first + t});
            operands.push_back({role, into.data(), into.bytes()});
        };
        const vkattn_layout &own = problem.*further[n].k;
        if (own.extent[2] == 0) return;
        gather(own, k, static_cast<vkattn_role>(VKATTN_K_1 + 2 * n), segments[2 * n]);
        gather(problem.*further[n].v, v, static_cast<vkattn_role>(VKATTN_V_1 + 2 * n), segments[2 * n + 1]);
        first += own.extent[2];
    }
}

void CaseData::describePrior() {
    if (!c.prior) return;
    // As the outputs lie or otherwise, and of a type of its own.
    problem.priorOut = makeLayout(c.priorType, problem.out.extent, c.qStyle);
    problem.priorLse = makeLayout(VKATTN_F32, {problem.out.extent[0], problem.out.extent[1], problem.out.extent[2], 1}, c.vStyle);
}

void CaseData::drawPrior(Random &random) {
    if (!c.prior) return;
    priorOut.make(problem.priorOut, vkattnOperandBytes(&problem, VKATTN_PRIOR_OUT), 0xff);
    priorLse.make(problem.priorLse, vkattnOperandBytes(&problem, VKATTN_PRIOR_LSE), 0xff);
    const uint32_t *const extent = problem.out.extent;
    for (uint32_t b = 0; b < extent[0]; ++b)
        for (uint32_t h = 0; h < extent[1]; ++h)
            for (uint32_t t = 0; t < extent[2]; ++t) {
                const uint64_t kind = random() % 8;
                // A row that saw nothing has an output that nobody reads.
                const float own = kind == 0   ? -std::numeric_limits<float>::infinity()
                                  : kind == 1 ? 40
                                  : kind == 2 ? -40
                                              : static_cast<float>(between(random, 0, 800)) / 100 - 3;
                priorLse.set(b, h, t, 0, own);
                for (uint32_t d = 0; d < extent[3]; ++d)
                    priorOut.set(b, h, t, d,
                                 kind == 0 ? std::numeric_limits<float>::quiet_NaN()
                                           : static_cast<float>(between(random, 0, 4000)) / 1000 - 2);
            }
}

} // namespace vkattn::conform
