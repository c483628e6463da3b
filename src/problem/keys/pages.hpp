// Keys and values in pages of a pool (vkattn_problem::tablePages): what says which pages a batch entry has.
#pragma once

#include "vkattn/problem.h"

#include <algorithm>
#include <cstdint>

namespace vkattn {

struct Problem;

// Of pages in CSR: FlashInfer's kv_indptr, kv_indices and kv_last_page_len.
[[nodiscard]] constexpr bool isPageArray(vkattn_role role) {
    return role >= VKATTN_PAGE_INDPTR && role <= VKATTN_LAST_PAGE_LENGTHS;
}

// The pages of a batch entry in CSR, and its keys: [first, first + count) of the indices. The arrays are data, never
// trusted: what leads past the indices, or past the most pages that an entry may have, counts as cut off, and a
// last page has at least one token and at most all.
struct PageRun {
    uint32_t first, count, keys;
};
[[nodiscard]] constexpr PageRun pageRunOf(uint32_t begin, uint32_t end, uint32_t lastLength, uint32_t indices, uint32_t mostPages,
                                          uint32_t pageTokens) {
    const uint32_t first = std::min(begin, indices), count = std::min(std::max(std::min(end, indices), first) - first, mostPages);
    const auto last = static_cast<uint32_t>(std::clamp<int64_t>(static_cast<int32_t>(lastLength), 1, pageTokens));
    return {first, count, count ? (count - 1) * pageTokens + last : 0};
}

// Checks the pages of a problem whose K is known, and sets out.pageTokens, out.tablePages, out.pageIndices and
// out.keyTokens. Without pages nothing is set.
[[nodiscard]] vkattn_result makePages(const vkattn_problem &description, Problem &out, vkattn_diagnostic *why);

} // namespace vkattn
