#include "problem/keys/pages.hpp"

#include "problem/problem.hpp"
#include "util/diagnostic.hpp"

namespace vkattn {

vkattn_result makePages(const vkattn_problem &p, Problem &out, vkattn_diagnostic *why) {
    const auto present = [&](vkattn_role role) { return (p.presentRoles & VKATTN_PRESENT(role)) != 0; };
    const bool table = present(VKATTN_PAGE_TABLE), csr = p.pageIndices != 0;
    if (!table && !csr) {
        if (!p.tablePages) return VKATTN_OK;
        return fail(why, invalid,
                    "tablePages is %u without pages; set VKATTN_PAGE_TABLE in presentRoles or pageIndices, or leave tablePages 0",
                    p.tablePages);
    }
    if (table && csr)
        return fail(why, invalid, "pageIndices is %u with VKATTN_PAGE_TABLE in presentRoles; pages lie in a table or in CSR, not in both",
                    p.pageIndices);
    if (present(VKATTN_CU_SEQ_Q))
        return fail(why, invalid, "pages and cu_seqlens are both given; sequences with pages are batch entries with key lengths");
    if (csr && present(VKATTN_KEY_LENGTHS))
        return fail(why, invalid,
                    "key lengths and pageIndices are both given; pages in CSR have their lengths in VKATTN_LAST_PAGE_LENGTHS");
    if (!absent(p.scores))
        return fail(why, invalid, "scores have a layout with pages, and absent pages have no keys to score; leave one of the two out");
    out.pageTokens = out.tensor(VKATTN_K).extent[2], out.tablePages = p.tablePages, out.pageIndices = p.pageIndices;
    out.pagesMayBeAbsent = true;
    if (out.pageTokens == 0) return fail(why, invalid, "k has pages of 0 tokens, expected at least 1");
    const uint64_t keys = uint64_t{out.tablePages} * out.pageTokens;
    if (keys > maxTokens)
        return fail(why, invalid, "tablePages %u of %u tokens are %llu keys, expected at most %u", out.tablePages, out.pageTokens,
                    static_cast<unsigned long long>(keys), maxTokens);
    out.keyTokens = static_cast<uint32_t>(keys);
    return VKATTN_OK;
}

} // namespace vkattn
