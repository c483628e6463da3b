#include "problem/keys/offsets.hpp"

#include "problem/problem.hpp"
#include "util/diagnostic.hpp"

namespace vkattn {
namespace {

vkattn_result check(const vkattn_offset &given, const char *name, vkattn_diagnostic *why) {
    if (static_cast<uint32_t>(given.kind) > VKATTN_OFFSET_ARRAY)
        return fail(why, invalid, "%s.kind is %d, expected a vkattn_offset_kind, 0 to %d", name, static_cast<int>(given.kind),
                    static_cast<int>(VKATTN_OFFSET_ARRAY));
    if (given.kind == VKATTN_OFFSET_NONE && given.tokens)
        return fail(why, invalid, "%s.tokens is %d with VKATTN_OFFSET_NONE; set %s.kind, or leave it 0", name, given.tokens, name);
    if (given.tokens < -maxOffset || given.tokens > maxOffset)
        return fail(why, invalid, "%s.tokens is %d, expected %d to %d", name, given.tokens, -maxOffset, maxOffset);
    return VKATTN_OK;
}

} // namespace

vkattn_result makeOffsets(const vkattn_problem &p, Problem &out, vkattn_diagnostic *why) {
    if (const auto r = check(p.queryOffset, "queryOffset", why)) return r;
    if (const auto r = check(p.keyOffset, "keyOffset", why)) return r;
    out.queryOffset = p.queryOffset, out.keyOffset = p.keyOffset;
    if (out.hasOffsets() && std::max(out.queryTokens, out.keyTokens) > static_cast<uint32_t>(maxOffset))
        return fail(why, invalid, "%u queries and %u keys with an offset, expected at most %d of each", out.queryTokens, out.keyTokens,
                    maxOffset);
    return VKATTN_OK;
}

} // namespace vkattn
