#include "support/pages.hpp"

#include <algorithm>
#include <cstring>

namespace vkattn::test {

ContiguousProblem::ContiguousProblem(const conform::CaseData &data) : problem(data.problem) {
    const vkattn_problem &p = data.problem;
    const uint32_t batch = p.q.extent[0], heads = p.k.extent[1], pool = p.k.extent[0], tokens = p.k.extent[2], keys = p.tablePages * tokens;
    const auto gather = [&](const conform::HostTensor &from, conform::HostTensor &to) {
        const vkattn_layout layout = packed(from.layout.dtype, batch, heads, keys, from.layout.extent[3]);
        to.make(layout, uint64_t{batch} * heads * keys * layout.extent[3] * (layout.dtype == VKATTN_F32 ? 4 : 2), 0);
        for (uint32_t b = 0; b < batch; ++b)
            for (uint32_t j = 0; j < keys; ++j) {
                int32_t page;
                std::memcpy(&page, &data.pages[b * p.tablePages + j / tokens], 4);
                const bool there = page >= 0 && static_cast<uint32_t>(page) < pool;
                if (!there && mask.empty()) mask.assign(size_t{batch} * keys, 1);
                if (!there) mask[b * keys + j] = 0;
                for (uint32_t h = 0; there && h < heads; ++h)
                    for (uint32_t d = 0; d < layout.extent[3]; ++d) to.set(b, h, j, d, from.get(static_cast<uint32_t>(page), h, j % tokens, d));
            }
    };
    gather(data.k, k);
    gather(data.v, v);
    problem.presentRoles &= ~VKATTN_PRESENT(VKATTN_PAGE_TABLE);
    problem.tablePages = 0;
    problem.k = k.layout;
    if (!data.c.keysHoldValues) problem.v = v.layout;
    for (const vkattn_operand_memory &each : data.operands) {
        if (each.role == VKATTN_PAGE_TABLE) continue;
        operands.push_back(each);
        if (each.role == VKATTN_K) operands.back() = {VKATTN_K, k.data(), k.bytes()};
        if (each.role == VKATTN_V) operands.back() = {VKATTN_V, v.data(), v.bytes()};
    }
    if (mask.empty()) return;
    problem.mask = {VKATTN_BOOL8, {batch, 1, 1, keys}, {keys, 0, 0, 1}, 0};
    operands.push_back({VKATTN_MASK, mask.data(), mask.size()});
}

conform::Case drawPages(conform::Random &random, bool hostile) {
    conform::Case c = conform::randomCase(random, 4);
    c.ragged = c.sharedHeads = c.valuesInKeys = false, c.scores.reset();
    c.pageTokens = conform::between(random, 1, 20), c.hostilePages = hostile;
    if (!hostile) return c;
    c.maskBroadcast.reset(), c.bitMaskBroadcast.reset();
    return c;
}

} // namespace vkattn::test
