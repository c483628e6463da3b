#include "problem/keys/segments.hpp"

#include "problem/problem.hpp"
#include "util/diagnostic.hpp"

namespace vkattn {
namespace {

// `own` is a segment of `first`, and differs from it in the number of keys and in strides.
vkattn_result checkSegment(const Tensor &own, const char *name, const Tensor &first, const char *firstName, uint32_t keys,
                           vkattn_diagnostic *why) {
    const uint32_t expected[4] = {first.extent[0], first.extent[1], keys, first.extent[3]};
    if (const auto r = expectExtents(own, name, expected, 0, why)) return r;
    if (own.dtype != first.dtype)
        return fail(why, invalid, "%s has dtype %d and %s has %d; segments of one problem have one type", name, static_cast<int>(own.dtype),
                    firstName, static_cast<int>(first.dtype));
    if (own.stride[3] != first.stride[3])
        return fail(why, invalid, "the dims of %s lie %lld apart and those of %s %lld; segments have one stride between dims", name,
                    static_cast<long long>(own.stride[3]), firstName, static_cast<long long>(first.stride[3]));
    return VKATTN_OK;
}

// What a problem with segments has beside them that no segment can have; NULL: nothing.
const char *besideSegments(const vkattn_problem &p, const Problem &out) {
    if (p.presentRoles & VKATTN_PRESENT(VKATTN_CU_SEQ_Q)) return "cu_seqlens";
    if (out.paged()) return "pages";
    return out.valuesInKeys ? "VKATTN_VALUES_IN_KEYS" : nullptr;
}

} // namespace

vkattn_result makeSegments(const vkattn_problem &p, Problem &out, vkattn_diagnostic *why) {
    out.segments = {1, {0, out.keyTokens}};
    bool ended = false;
    for (uint32_t n = 1; n < mostSegments; ++n) {
        const vkattn_role kRole = roleOfSegment(VKATTN_K, n), vRole = roleOfSegment(VKATTN_V, n);
        const Tensor &k = out.tensor(kRole), &v = out.tensor(vRole);
        if (k.present() != v.present())
            return fail(why, invalid, "%s has a layout without %s; a segment has both keys and values",
                        roleName(k.present() ? kRole : vRole), roleName(k.present() ? vRole : kRole));
        if (!k.present()) {
            ended = true;
            continue;
        }
        if (ended) return fail(why, invalid, "%s has a layout and k%u has none; segments follow each other", roleName(kRole), n - 1);
        if (const char *const other = besideSegments(p, out))
            return fail(why, invalid, "%s and %s are both given; keys in segments are those of a batch whose keys lie one after the other",
                        roleName(kRole), other);
        if (k.extent[2] == 0) return fail(why, invalid, "%s has no keys; leave a segment without keys out", roleName(kRole));
        if (const auto r = checkSegment(k, roleName(kRole), out.tensor(VKATTN_K), roleName(VKATTN_K), k.extent[2], why)) return r;
        if (const auto r = checkSegment(v, roleName(vRole), out.tensor(VKATTN_V), roleName(VKATTN_V), k.extent[2], why)) return r;
        const uint64_t keys = uint64_t{out.keyTokens} + k.extent[2];
        if (keys > maxTokens)
            return fail(why, invalid, "the segments up to %s have %llu keys, expected at most %u", roleName(kRole),
                        static_cast<unsigned long long>(keys), maxTokens);
        out.keyTokens = static_cast<uint32_t>(keys);
        out.segments.first[++out.segments.count] = out.keyTokens;
    }
    if (out.segmented() && out.tensor(VKATTN_K).extent[2] == 0)
        return fail(why, invalid, "k has no keys and k1 has a layout; the first segment with keys is k");
    return VKATTN_OK;
}

} // namespace vkattn
