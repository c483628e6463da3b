#include "support/keys/pages.hpp"

#include "conform/cases/base_case.hpp"

#include <algorithm>
#include <cstring>

namespace vkattn::test {
namespace {

// The keys of a batch entry in CSR, by the words of problem.h.
uint32_t keysOf(const conform::CaseData &data, uint32_t b) {
    const auto indices = static_cast<uint64_t>(data.problem.pageIndices), tokens = static_cast<uint64_t>(data.problem.k.extent[2]);
    uint64_t pages = 0;
    for (uint64_t n = data.pageIndptr[b]; n < data.pageIndptr[b + 1] && n < indices && pages < data.problem.tablePages; ++n) ++pages;
    int32_t last;
    std::memcpy(&last, &data.lastPageLengths[b], 4);
    const uint64_t ofLast = last < 1 ? 1 : std::min(static_cast<uint64_t>(last), tokens);
    return static_cast<uint32_t>(pages == 0 ? 0 : pages * tokens - tokens + ofLast);
}

} // namespace

ContiguousProblem::ContiguousProblem(const conform::CaseData &data) : problem(data.problem) {
    const vkattn_problem &p = data.problem;
    const uint32_t batch = p.q.extent[0], heads = p.k.extent[1], pool = p.k.extent[0], tokens = p.k.extent[2], keys = p.tablePages * tokens;
    const auto gather = [&](const conform::HostTensor &from, conform::HostTensor &to) {
        const vkattn_layout layout = packed(from.layout.dtype, batch, heads, keys, from.layout.extent[3]);
        to.make(layout, uint64_t{batch} * heads * keys * static_cast<uint64_t>(rowBytes(layout.dtype, layout.extent[3])), 0);
        for (uint32_t b = 0; b < batch; ++b)
            for (uint32_t j = 0; j < keys; ++j) {
                if (data.c.csrPages && j >= keysOf(data, b)) continue;
                const uint32_t first = data.c.csrPages ? data.pageIndptr[b] : b * p.tablePages;
                int32_t page;
                std::memcpy(&page, &data.pages[first + j / tokens], 4);
                const bool there = page >= 0 && static_cast<uint32_t>(page) < pool;
                if (!there && mask.empty()) mask.assign(size_t{batch} * keys, 1);
                if (!there) mask[b * keys + j] = 0;
                for (uint32_t h = 0; there && h < heads; ++h) to.copyRow({b, h, j}, from, {static_cast<uint32_t>(page), h, j % tokens});
            }
    };
    for (uint32_t b = 0; b < batch && data.c.csrPages; ++b) lengths.push_back(keysOf(data, b));
    gather(data.k, k);
    gather(data.v, v);
    problem.presentRoles &= ~VKATTN_PRESENT(VKATTN_PAGE_TABLE);
    problem.tablePages = problem.pageIndices = 0;
    problem.k = k.layout;
    if (!data.c.keysHoldValues) problem.v = v.layout;
    for (const vkattn_operand_memory &each : data.operands) {
        if (each.role == VKATTN_PAGE_TABLE || (each.role >= VKATTN_PAGE_INDPTR && each.role <= VKATTN_LAST_PAGE_LENGTHS)) continue;
        operands.push_back(each);
        if (each.role == VKATTN_K) operands.back() = {VKATTN_K, k.data(), k.bytes()};
        if (each.role == VKATTN_V) operands.back() = {VKATTN_V, v.data(), v.bytes()};
    }
    if (data.c.csrPages) {
        problem.presentRoles |= VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
        operands.push_back({VKATTN_KEY_LENGTHS, lengths.data(), 4 * lengths.size()});
    }
    if (mask.empty()) return;
    problem.mask = {VKATTN_BOOL8, {batch, 1, 1, keys}, {keys, 0, 0, 1}, 0};
    operands.push_back({VKATTN_MASK, mask.data(), mask.size()});
}

conform::Case drawPages(conform::Random &random, bool hostile) {
    conform::Case c = conform::randomCase(random, 4);
    c.ragged = c.sharedHeads = c.valuesInKeys = false, c.scores.reset();
    // Of few pages some entries have all.
    c.pageTokens = random() % 2 ? conform::between(random, 1, 20) : conform::between(random, 20, 70);
    c.hostilePages = hostile;
    c.csrPages = random() % 2;
    if (hostile) c.maskBroadcast.reset(), c.bitMaskBroadcast.reset();
    conform::makeAgree(c); // nothing that pages refuse
    return c;
}

} // namespace vkattn::test
