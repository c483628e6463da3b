#include "problem/operations/operation.hpp"

#include "problem/dropout.hpp"
#include "problem/gradient.hpp"
#include "problem/linear/linear.hpp"
#include "problem/linear/linear_gradient.hpp"
#include "problem/problem.hpp"
#include "problem/statistics.hpp"
#include "problem/visible_blocks.hpp"
#include "util/diagnostic.hpp"
#include "util/struct_size.hpp"

#include <cmath>
#include <cstring>

namespace vkattn {
namespace {

constexpr uint32_t maxInner = 1u << 20, maxIn = 1u << 19, maxOut = 1u << 24, maxRotaryDims = 1u << 16, maxAveraged = 1u << 20,
                   maxParts = 256, maxMergedDims = 1u << 16, maxRotatedDims = 1u << 16;
constexpr uint64_t maxProducts = 1ull << 60; // of a projection

constexpr uint32_t f32Only = 1u << VKATTN_F32, words = 1u << VKATTN_BITS32;

// Rows of a kind are neighbours.
constexpr OperationOperand operationTable[] = {
    {VKATTN_PROJECTION, VKATTN_X, "x", false, true, floatTypes, offsetof(vkattn_projection, x)},
    {VKATTN_PROJECTION, VKATTN_W, "w", false, true, floatTypes, offsetof(vkattn_projection, w)},
    {VKATTN_PROJECTION, VKATTN_BIAS, "bias", false, false, floatTypes, offsetof(vkattn_projection, bias)},
    {VKATTN_PROJECTION, VKATTN_RESIDUAL, "residual", false, false, floatTypes, offsetof(vkattn_projection, residual)},
    {VKATTN_PROJECTION, VKATTN_Y, "y", true, true, floatTypes, offsetof(vkattn_projection, y)},
    {VKATTN_PROJECTION, VKATTN_KEY_LENGTHS, "key lengths", false, false, 0, 0},
    {VKATTN_NORM, VKATTN_X, "x", false, true, floatTypes, offsetof(vkattn_norm, x)},
    {VKATTN_NORM, VKATTN_RESIDUAL, "residual", false, false, floatTypes, offsetof(vkattn_norm, residual)},
    {VKATTN_NORM, VKATTN_GAMMA, "gamma", false, false, floatTypes, offsetof(vkattn_norm, gamma)},
    {VKATTN_NORM, VKATTN_BETA, "beta", false, false, floatTypes, offsetof(vkattn_norm, beta)},
    {VKATTN_NORM, VKATTN_SUM, "sum", true, false, floatTypes, offsetof(vkattn_norm, sum)},
    {VKATTN_NORM, VKATTN_Y, "y", true, true, floatTypes, offsetof(vkattn_norm, y)},
    {VKATTN_NORM_GRADIENT, VKATTN_X, "x", false, true, floatTypes, offsetof(vkattn_norm_gradient, x)},
    {VKATTN_NORM_GRADIENT, VKATTN_GAMMA, "gamma", false, false, floatTypes, offsetof(vkattn_norm_gradient, gamma)},
    {VKATTN_NORM_GRADIENT, VKATTN_D_Y, "dY", false, true, floatTypes, offsetof(vkattn_norm_gradient, dY)},
    {VKATTN_NORM_GRADIENT, VKATTN_RESIDUAL, "residual", false, false, floatTypes, offsetof(vkattn_norm_gradient, residual)},
    {VKATTN_NORM_GRADIENT, VKATTN_D_X, "dX", true, false, floatTypes, offsetof(vkattn_norm_gradient, dX)},
    {VKATTN_NORM_GRADIENT, VKATTN_D_GAMMA, "dGamma", true, false, floatTypes, offsetof(vkattn_norm_gradient, dGamma)},
    {VKATTN_NORM_GRADIENT, VKATTN_D_BETA, "dBeta", true, false, floatTypes, offsetof(vkattn_norm_gradient, dBeta)},
    {VKATTN_ROTARY, VKATTN_X, "x", false, true, floatTypes, offsetof(vkattn_rotary, x)},
    {VKATTN_ROTARY, VKATTN_COS, "cos", false, true, f32Only, offsetof(vkattn_rotary, cos)},
    {VKATTN_ROTARY, VKATTN_SIN, "sin", false, true, f32Only, offsetof(vkattn_rotary, sin)},
    {VKATTN_ROTARY, VKATTN_Y, "y", true, true, floatTypes, offsetof(vkattn_rotary, y)},
    {VKATTN_ROTARY, VKATTN_POSITIONS, "positions", false, false, 0, 0},
    {VKATTN_ROTARY, VKATTN_STARTS, "starts", false, false, 0, 0},
    {VKATTN_APPEND, VKATTN_X, "x", false, true, floatTypes, offsetof(vkattn_append, x)},
    {VKATTN_APPEND, VKATTN_Y, "y", true, true, cacheTypes, offsetof(vkattn_append, y)},
    {VKATTN_APPEND, VKATTN_STARTS, "starts", false, false, 0, 0},
    {VKATTN_APPEND, VKATTN_PAGE_TABLE, "page table", false, false, 0, 0},
    {VKATTN_ADVANCE, VKATTN_X, "x", false, true, words, offsetof(vkattn_advance, x)},
    {VKATTN_ADVANCE, VKATTN_Y, "y", true, true, words, offsetof(vkattn_advance, y)},
    {VKATTN_MEAN, VKATTN_X, "x", false, true, floatTypes, offsetof(vkattn_mean, x)},
    {VKATTN_MEAN, VKATTN_Y, "y", true, true, floatTypes, offsetof(vkattn_mean, y)},
    {VKATTN_MERGE, VKATTN_X, "x", false, true, floatTypes, offsetof(vkattn_merge, x)},
    {VKATTN_MERGE, VKATTN_X_LSE, "lse of x", false, true, f32Only, offsetof(vkattn_merge, xLse)},
    {VKATTN_MERGE, VKATTN_Y, "y", true, true, floatTypes, offsetof(vkattn_merge, y)},
    {VKATTN_MERGE, VKATTN_LSE, "lse", true, false, f32Only, offsetof(vkattn_merge, lse)},
    {VKATTN_HADAMARD, VKATTN_X, "x", false, true, floatTypes, offsetof(vkattn_hadamard, x)},
    {VKATTN_HADAMARD, VKATTN_Y, "y", true, true, floatTypes, offsetof(vkattn_hadamard, y)},
    {VKATTN_KEEP, VKATTN_Y, "y", true, true, words, offsetof(vkattn_keep, y)},
    {VKATTN_DROP, VKATTN_X, "x", false, true, floatTypes, offsetof(vkattn_drop, x)},
    {VKATTN_DROP, VKATTN_RESIDUAL, "residual", false, false, floatTypes, offsetof(vkattn_drop, residual)},
    {VKATTN_DROP, VKATTN_Y, "y", true, true, floatTypes, offsetof(vkattn_drop, y)},
};

constexpr const char *names[] = {"attention",
                                 "projection",
                                 "norm",
                                 "rotary",
                                 "append",
                                 "advance",
                                 "mean",
                                 "keep",
                                 "attention gradient",
                                 "norm gradient",
                                 "drop",
                                 "attention statistics",
                                 "visible blocks",
                                 "linear attention",
                                 "linear attention gradient",
                                 "merge",
                                 "hadamard"};

// What a description says beside its layouts.
vkattn_result takeOptions(const vkattn_projection &p, Operation &out, vkattn_diagnostic *why) {
    if (p.flags & ~uint32_t{VKATTN_DETERMINISTIC})
        return fail(why, invalid, "projection.flags is 0x%x, expected 0 or VKATTN_DETERMINISTIC", p.flags);
    if (static_cast<uint32_t>(p.kernel) > VKATTN_PROJECTION_COOPMAT)
        return fail(why, invalid, "projection.kernel is %d, expected a vkattn_projection_kernel", static_cast<int>(p.kernel));
    if (p.presentRoles & ~VKATTN_PRESENT(VKATTN_KEY_LENGTHS))
        return fail(why, invalid, "projection.presentRoles has bits 0x%x, expected VKATTN_PRESENT(VKATTN_KEY_LENGTHS)", p.presentRoles);
    out.flags = p.flags;
    out.projection = p.kernel;
    out.presentRoles = p.presentRoles;
    return VKATTN_OK;
}

// Of a norm, and of its gradient.
template <class Norm> vkattn_result takeNorm(const Norm &n, Operation &out, vkattn_diagnostic *why) {
    const char *const name = names[out.kind];
    if (n.flags) return fail(why, invalid, "%s.flags is 0x%x, expected 0", name, n.flags);
    if (n.kind != VKATTN_LAYER_NORM && n.kind != VKATTN_RMS_NORM)
        return fail(why, invalid, "%s.kind is %d, expected VKATTN_LAYER_NORM or VKATTN_RMS_NORM", name, static_cast<int>(n.kind));
    if (!std::isfinite(n.epsilon) || n.epsilon < 0)
        return fail(why, invalid, "%s.epsilon is %g, expected a finite number of at least 0", name, static_cast<double>(n.epsilon));
    out.norm = n.kind;
    out.epsilon = n.epsilon;
    return VKATTN_OK;
}

vkattn_result takeOptions(const vkattn_norm &n, Operation &out, vkattn_diagnostic *why) {
    return takeNorm(n, out, why);
}

vkattn_result takeOptions(const vkattn_norm_gradient &n, Operation &out, vkattn_diagnostic *why) {
    return takeNorm(n, out, why);
}

vkattn_result takeOptions(const vkattn_rotary &r, Operation &out, vkattn_diagnostic *why) {
    if (r.flags & ~uint32_t{VKATTN_ROTARY_APPEND | VKATTN_ROTARY_INVERSE})
        return fail(why, invalid, "rotary.flags is 0x%x, expected bits of VKATTN_ROTARY_APPEND and VKATTN_ROTARY_INVERSE", r.flags);
    if (r.pairs != VKATTN_PAIRS_HALF && r.pairs != VKATTN_PAIRS_INTERLEAVED)
        return fail(why, invalid, "rotary.pairs is %d, expected VKATTN_PAIRS_HALF or VKATTN_PAIRS_INTERLEAVED", static_cast<int>(r.pairs));
    if (r.presentRoles & ~(VKATTN_PRESENT(VKATTN_POSITIONS) | VKATTN_PRESENT(VKATTN_STARTS)))
        return fail(why, invalid, "rotary.presentRoles has bits 0x%x, expected VKATTN_PRESENT of VKATTN_POSITIONS or VKATTN_STARTS",
                    r.presentRoles);
    if (r.reserved) return fail(why, invalid, "rotary.reserved is %u, expected 0", r.reserved);
    out.flags = r.flags;
    out.pairs = r.pairs;
    out.start = r.start;
    out.presentRoles = r.presentRoles;
    return VKATTN_OK;
}

vkattn_result takeOptions(const vkattn_append &a, Operation &out, vkattn_diagnostic *why) {
    if (a.flags & ~uint32_t{VKATTN_APPEND_RING})
        return fail(why, invalid, "append.flags is 0x%x, expected 0 or VKATTN_APPEND_RING", a.flags);
    if (a.presentRoles & ~(VKATTN_PRESENT(VKATTN_STARTS) | VKATTN_PRESENT(VKATTN_PAGE_TABLE)))
        return fail(why, invalid, "append.presentRoles has bits 0x%x, expected VKATTN_PRESENT of VKATTN_STARTS or VKATTN_PAGE_TABLE",
                    a.presentRoles);
    if (a.reserved) return fail(why, invalid, "append.reserved is %u, expected 0", a.reserved);
    const bool pages = a.presentRoles & VKATTN_PRESENT(VKATTN_PAGE_TABLE);
    if (pages != (a.tablePages > 0))
        return fail(why, invalid, "append.tablePages is %u, expected %s", a.tablePages,
                    pages ? "at least 1: VKATTN_PAGE_TABLE is in presentRoles" : "0 without VKATTN_PAGE_TABLE in presentRoles");
    out.flags = a.flags;
    out.tablePages = a.tablePages;
    out.start = a.start;
    out.presentRoles = a.presentRoles;
    return VKATTN_OK;
}

vkattn_result takeOptions(const vkattn_advance &a, Operation &out, vkattn_diagnostic *why) {
    if (a.flags) return fail(why, invalid, "advance.flags is 0x%x, expected 0", a.flags);
    out.by = a.by;
    out.limit = a.limit;
    return VKATTN_OK;
}

vkattn_result takeOptions(const vkattn_mean &m, Operation &, vkattn_diagnostic *why) {
    return m.flags ? fail(why, invalid, "mean.flags is 0x%x, expected 0", m.flags) : VKATTN_OK;
}

vkattn_result takeOptions(const vkattn_merge &m, Operation &out, vkattn_diagnostic *why) {
    if (m.flags) return fail(why, invalid, "merge.flags is 0x%x, expected 0", m.flags);
    if (m.parts < 1 || m.parts > maxParts)
        return fail(why, invalid, "merge.parts is %u, expected 1 to %u; merge what there is more of in several steps", m.parts, maxParts);
    if (m.reserved) return fail(why, invalid, "merge.reserved is %u, expected 0", m.reserved);
    out.parts = m.parts;
    return VKATTN_OK;
}

vkattn_result takeOptions(const vkattn_hadamard &h, Operation &out, vkattn_diagnostic *why) {
    if (h.flags) return fail(why, invalid, "hadamard.flags is 0x%x, expected 0", h.flags);
    if (h.reserved) return fail(why, invalid, "hadamard.reserved is %u, expected 0", h.reserved);
    out.block = h.block;
    return VKATTN_OK;
}

// Of keep and of drop.
template <class Dropout> vkattn_result takeDropout(const Dropout &d, Operation &out, vkattn_diagnostic *why) {
    const char *const name = names[out.kind];
    if (d.flags) return fail(why, invalid, "%s.flags is 0x%x, expected 0", name, d.flags);
    if (!(d.probability >= 0 && d.probability <= 1))
        return fail(why, invalid, "%s.probability is %g, expected a probability from 0 to 1", name, d.probability);
    out.dropoutThreshold = dropoutThreshold(d.probability);
    out.seed = d.seed;
    out.dropoutOffset = d.offset;
    return VKATTN_OK;
}

vkattn_result takeOptions(const vkattn_keep &k, Operation &out, vkattn_diagnostic *why) {
    if (const auto r = takeDropout(k, out, why)) return r;
    if (k.columns > maxTokens) return fail(why, invalid, "keep.columns is %u, expected at most %u", k.columns, maxTokens);
    out.columns = k.columns;
    return VKATTN_OK;
}

vkattn_result takeOptions(const vkattn_drop &d, Operation &out, vkattn_diagnostic *why) {
    if (const auto r = takeDropout(d, out, why)) return r;
    if (d.firstRow > maxTokens) return fail(why, invalid, "drop.firstRow is %u, expected at most %u", d.firstRow, maxTokens);
    if (d.reserved) return fail(why, invalid, "drop.reserved is %u, expected 0", d.reserved);
    out.firstRow = d.firstRow;
    out.firstPlane = d.firstPlane;
    return VKATTN_OK;
}

// A `start` beside an array of starts would be ignored: the caller means one of the two.
vkattn_result checkStart(const Operation &o, vkattn_diagnostic *why) {
    if (o.start && o.has(VKATTN_STARTS))
        return fail(why, invalid, "%s.start is %u with VKATTN_STARTS in presentRoles; the array replaces it, leave it 0", names[o.kind],
                    o.start);
    if (o.start > maxTokens) return fail(why, invalid, "%s.start is %u, expected at most %u", names[o.kind], o.start, maxTokens);
    if (o.kind == VKATTN_ROTARY && o.has(VKATTN_POSITIONS) && !o.appends() && (o.start || o.has(VKATTN_STARTS)))
        return fail(why, invalid, "rotary has positions and a start; with VKATTN_POSITIONS a start only says where tokens are appended");
    return VKATTN_OK;
}

vkattn_result checkProjection(Operation &o, vkattn_diagnostic *why) {
    const Tensor &w = o.tensor(VKATTN_W), &bias = o.tensor(VKATTN_BIAS), &residual = o.tensor(VKATTN_RESIDUAL);
    o.out = o.tensor(VKATTN_Y).extent[3];
    if (o.inner > maxIn || o.out > maxOut)
        return fail(why, invalid, "projection from %u to %u dims: expected at most %u and %u", o.inner, o.out, maxIn, maxOut);
    constexpr uint32_t batchAndGroups = 3;
    if (const auto r = expectExtents(w, "w", {o.batch, o.groups, o.out, o.inner}, batchAndGroups, why)) return r;
    if (bias.present())
        if (const auto r = expectExtents(bias, "bias", {o.batch, o.groups, 1, o.out}, batchAndGroups, why)) return r;
    if (residual.present())
        if (const auto r = expectExtents(residual, "residual", {o.batch, o.groups, o.rows, o.out}, 0, why)) return r;
    uint64_t products = o.batch;
    for (const uint32_t factor : {o.groups, o.rows ? o.rows : 1u, o.inner, o.out}) {
        if (factor > maxProducts / products)
            return fail(why, invalid,
                        "batch %u x groups %u x rows %u x in %u x out %u is over the 2^60 products that 64-bit arithmetic has room for",
                        o.batch, o.groups, o.rows, o.inner, o.out);
        products *= factor;
    }
    return expectExtents(o.tensor(VKATTN_Y), "y", {o.batch, o.groups, o.rows, o.out}, 0, why);
}

// Of a norm, and of its gradient.
vkattn_result checkNorm(const Operation &o, vkattn_diagnostic *why) {
    if (o.inner > maxInner) return fail(why, invalid, "x has %u dims, expected at most %u", o.inner, maxInner);
    for (const OperationOperand &each : operandsOf(o.kind)) {
        const Tensor &tensor = o.tensor(each.role);
        if (!tensor.present()) continue;
        const bool row = each.role == VKATTN_GAMMA || each.role == VKATTN_BETA || each.role == VKATTN_D_GAMMA || each.role == VKATTN_D_BETA;
        const uint32_t whole[4] = {o.batch, o.groups, o.rows, o.inner}, one[4] = {1, 1, 1, o.inner};
        if (const auto r = expectExtents(tensor, each.name, row ? one : whole, 0, why)) return r;
    }
    return VKATTN_OK;
}

vkattn_result checkNormGradient(const Operation &o, vkattn_diagnostic *why) {
    if (!o.uses(VKATTN_D_X) && !o.sumsOverRows()) return fail(why, invalid, "no gradient is asked for: give dX, dGamma or dBeta a layout");
    if (o.uses(VKATTN_RESIDUAL) && !o.uses(VKATTN_D_X))
        return fail(why, invalid,
                    "the norm gradient has a residual and no dX, which it is added to: give dX a layout, or leave the residual out");
    return checkNorm(o, why);
}

// X and Y of rotary and append.
vkattn_result checkTokens(Operation &o, vkattn_diagnostic *why) {
    const Tensor &y = o.tensor(VKATTN_Y);
    o.cacheRows = y.extent[2];
    const uint32_t rows = o.appends() ? y.extent[2] : o.rows;
    return expectExtents(y, "y", {o.batch, o.groups, rows, o.inner}, 0, why);
}

vkattn_result checkAppend(Operation &o, vkattn_diagnostic *why) {
    if (o.inner > maxInner) return fail(why, invalid, "x has %u dims, expected at most %u", o.inner, maxInner);
    if (!o.tablePages) return checkTokens(o, why);
    const Tensor &y = o.tensor(VKATTN_Y);
    o.poolPages = y.extent[0], o.pageTokens = y.extent[2];
    if (uint64_t{o.tablePages} * o.pageTokens > maxTokens)
        return fail(why, invalid, "append.tablePages is %u with %u tokens in a page, expected at most %u tokens in all", o.tablePages,
                    o.pageTokens, maxTokens);
    o.cacheRows = o.tablePages * o.pageTokens;
    return expectExtents(y, "y", {o.poolPages, o.groups, o.pageTokens, o.inner}, 0, why);
}

vkattn_result checkRotary(Operation &o, vkattn_diagnostic *why) {
    const Tensor &cos = o.tensor(VKATTN_COS);
    if (o.inner > maxRotaryDims) return fail(why, invalid, "x has %u dims, expected at most %u", o.inner, maxRotaryDims);
    if (cos.extent[2] == 0) return fail(why, invalid, "cos has no positions; expected at least one");
    if (2ull * cos.extent[3] > o.inner)
        return fail(why, invalid, "cos has %u columns, which rotate %llu dims; x has %u", cos.extent[3],
                    static_cast<unsigned long long>(2ull * cos.extent[3]), o.inner);
    for (const vkattn_role role : {VKATTN_COS, VKATTN_SIN})
        if (const auto r = expectExtents(o.tensor(role), role == VKATTN_COS ? "cos" : "sin", {1, 1, cos.extent[2], cos.extent[3]}, 0, why))
            return r;
    o.rotated = 2 * cos.extent[3];
    return checkTokens(o, why);
}

vkattn_result checkAdvance(Operation &o, vkattn_diagnostic *why) {
    const uint32_t count = o.inner;
    if (count > maxTokens) return fail(why, invalid, "x has %u words, expected at most %u", count, maxTokens);
    for (const OperationOperand &each : operandsOf(VKATTN_ADVANCE))
        if (const auto r = expectExtents(o.tensor(each.role), each.name, {1, 1, 1, count}, 0, why)) return r;
    o.cacheRows = o.rows = count;
    o.out = o.inner = 1;
    return VKATTN_OK;
}

// Without dims there is nothing to write: as without rows.
void emptyWithoutDims(Operation &o) {
    if (o.inner == 0) o.rows = o.cacheRows = 0, o.inner = o.out = 1;
}

vkattn_result checkMean(Operation &o, vkattn_diagnostic *why) {
    if (o.groups > maxAveraged || o.inner > maxInner)
        return fail(why, invalid, "x has %u groups of %u dims, expected at most %u and %u", o.groups, o.inner, maxAveraged, maxInner);
    if (const auto r = expectExtents(o.tensor(VKATTN_Y), "y", {o.batch, 1, o.rows, o.inner}, 0, why)) return r;
    o.averaged = o.groups;
    o.groups = 1;
    emptyWithoutDims(o);
    return VKATTN_OK;
}

vkattn_result checkMerge(Operation &o, vkattn_diagnostic *why) {
    if (o.inner > maxMergedDims) return fail(why, invalid, "x has %u dims, expected at most %u", o.inner, maxMergedDims);
    if (o.batch % o.parts)
        return fail(why, invalid, "x has %u entries, expected a multiple of %u: the batch entries of each part, one part after the other",
                    o.batch, o.parts);
    const uint32_t entries = o.batch;
    o.batch /= o.parts;
    for (const OperationOperand &each : operandsOf(VKATTN_MERGE)) {
        if (!o.tensor(each.role).present()) continue;
        const bool ofParts = each.role == VKATTN_X || each.role == VKATTN_X_LSE,
                   ofRows = each.role == VKATTN_X_LSE || each.role == VKATTN_LSE;
        if (const auto r = expectExtents(o.tensor(each.role), each.name,
                                         {ofParts ? entries : o.batch, o.groups, o.rows, ofRows ? 1 : o.inner}, 0, why))
            return r;
    }
    return VKATTN_OK;
}

vkattn_result checkHadamard(Operation &o, vkattn_diagnostic *why) {
    if (o.inner > maxRotatedDims) return fail(why, invalid, "x has %u dims, expected at most %u", o.inner, maxRotatedDims);
    const uint32_t largest = std::min(o.inner & (0u - o.inner), mostHadamardBlock); // a power of two that divides the dims
    if (largest < 2)
        return fail(why, invalid, "x has %u dims, and a Hadamard matrix takes blocks of 2, 4, 8, ... of them; give an even number",
                    o.inner);
    if (o.block == 0) o.block = largest;
    if (o.block < 2 || o.block > largest || o.block & (o.block - 1))
        return fail(why, invalid, "hadamard.block is %u with %u dims, expected a power of two from 2 to %u, or 0 for the largest", o.block,
                    o.inner, largest);
    return expectExtents(o.tensor(VKATTN_Y), "y", {o.batch, o.groups, o.rows, o.inner}, 0, why);
}

vkattn_result checkPlanes(const Operation &o, vkattn_diagnostic *why) {
    if (uint64_t{o.batch} * o.groups < dropoutRange - o.firstPlane) return VKATTN_OK;
    if (o.firstPlane == 0)
        return fail(why, invalid, "batch %u x groups %u, expected less than 2^32: each has random numbers of its own", o.batch, o.groups);
    return fail(why, invalid, "batch %u x groups %u from plane %u on, expected less than 2^32: each has random numbers of its own", o.batch,
                o.groups, o.firstPlane);
}

vkattn_result checkKeep(Operation &o, vkattn_diagnostic *why) {
    const uint32_t wordsOfRow = o.columns / 32 + (o.columns % 32 != 0);
    if (o.inner != wordsOfRow)
        return fail(why, invalid, "y has %u words a row, expected %u: one bit for each of %u columns", o.inner, wordsOfRow, o.columns);
    if (const auto r = checkPlanes(o, why)) return r;
    emptyWithoutDims(o);
    return VKATTN_OK;
}

vkattn_result checkDrop(Operation &o, vkattn_diagnostic *why) {
    if (o.inner > maxInner) return fail(why, invalid, "x has %u columns, expected at most %u", o.inner, maxInner);
    for (const OperationOperand &each : operandsOf(VKATTN_DROP))
        if (o.tensor(each.role).present())
            if (const auto r = expectExtents(o.tensor(each.role), each.name, {o.batch, o.groups, o.rows, o.inner}, 0, why)) return r;
    if (const auto r = checkPlanes(o, why)) return r;
    emptyWithoutDims(o);
    return VKATTN_OK;
}

// The dimensions of the operands that may be 0.
struct EmptyDimensions {
    uint32_t bits;
    const char *text;
};
EmptyDimensions emptyDimensionsOf(vkattn_operation_kind kind) {
    if (kind == VKATTN_MEAN || kind == VKATTN_KEEP || kind == VKATTN_DROP) return {1u << 2 | 1u << 3, "only dimensions 2 and 3"};
    if (kind == VKATTN_NORM_GRADIENT) return {0, "no dimension"};
    return kind == VKATTN_ADVANCE ? EmptyDimensions{1u << 3, "only dimension 3"} : EmptyDimensions{1u << 2, "only dimension 2"};
}

// Copies what `description` says, and the layouts that the table names.
template <class Description> vkattn_result take(const Description *given, const char *type, Operation &out, vkattn_diagnostic *why) {
    const char *const name = names[out.kind];
    if (!given) return fail(why, invalid, "operation.of.%s is NULL", name);
    if (const auto r = checkStructSize(*given, name, type, why)) return r;
    Description room;
    const Description &description = completed(*given, room);
    if (const auto r = takeOptions(description, out, why)) return r;
    if (const auto r = checkStart(out, why)) return r;
    for (const OperationOperand &each : operandsOf(out.kind)) {
        if (!each.dtypes) continue;
        vkattn_layout layout;
        std::memcpy(&layout, reinterpret_cast<const unsigned char *>(&description) + each.layoutOffset, sizeof layout);
        if (absent(layout)) {
            if (!each.required) continue;
            return fail(why, invalid, "%s of the %s has no layout; it is required", each.name, name);
        }
        const uint32_t *e = layout.extent;
        const EmptyDimensions mayBeEmpty = emptyDimensionsOf(out.kind);
        for (int d = 0; d < 4; ++d)
            if (e[d] == 0 && !(mayBeEmpty.bits >> d & 1u))
                return fail(why, invalid, "%s is [%u, %u, %u, %u]; %s may be 0", each.name, e[0], e[1], e[2], e[3], mayBeEmpty.text);
        if (const auto r = makeTensor(layout, {each.name, each.output, each.dtypes}, out.tensors[Operation::indexOf(each.role)], why))
            return r;
    }
    const Tensor &first = out.tensor(out.kind == VKATTN_KEEP ? VKATTN_Y : VKATTN_X);
    out.batch = first.extent[0];
    out.groups = first.extent[1];
    out.cacheRows = out.rows = first.extent[2];
    out.out = out.inner = first.extent[3];
    return VKATTN_OK;
}

} // namespace

std::span<const OperationOperand> operandsOf(vkattn_operation_kind kind) {
    const OperationOperand *first = std::begin(operationTable);
    while (first != std::end(operationTable) && first->kind != kind) ++first;
    const OperationOperand *last = first;
    while (last != std::end(operationTable) && last->kind == kind) ++last;
    return {first, last};
}

const OperationOperand *findOperand(vkattn_operation_kind kind, vkattn_role role) {
    for (const OperationOperand &each : operandsOf(kind))
        if (each.role == role) return &each;
    return nullptr;
}

const char *nameOfOperationRole(vkattn_role role) {
    for (const OperationOperand &each : operationTable)
        if (each.role == role) return each.name;
    if (const GradientOperand *const each = findGradientOperand(role)) return each->name;
    if (const StatisticsOperand *const each = findStatisticsOperand(role)) return each->name;
    if (const LinearOperand *const each = findLinearOperand(role)) return each->name;
    if (const LinearGradientOperand *const each = findLinearGradientOperand(role)) return each->name;
    return nullptr;
}

bool Operation::uses(vkattn_role role) const {
    const OperationOperand *operand = findOperand(kind, role);
    return operand && (operand->dtypes ? tensor(role).present() : has(role));
}

uint64_t Operation::arrayLength(vkattn_role role) const {
    if (role == VKATTN_POSITIONS) return uint64_t{batch} * rows;
    if (role == VKATTN_PAGE_TABLE) return uint64_t{batch} * tablePages;
    return role == VKATTN_STARTS || role == VKATTN_KEY_LENGTHS ? batch : 0;
}

ByteRange Operation::bytesUsed(vkattn_role role) const {
    if (!uses(role)) return {};
    return findOperand(kind, role)->dtypes ? tensor(role).span() : ByteRange{0, 4 * arrayLength(role)};
}

bool Operation::inPlace(vkattn_role output, vkattn_role input) const {
    if (kind == VKATTN_PROJECTION) return output == VKATTN_Y && input == VKATTN_RESIDUAL;
    if (kind == VKATTN_NORM || kind == VKATTN_DROP) return input == VKATTN_X || input == VKATTN_RESIDUAL;
    if (kind == VKATTN_ADVANCE || kind == VKATTN_HADAMARD) return output == VKATTN_Y && input == VKATTN_X;
    if (kind == VKATTN_MERGE) return (output == VKATTN_Y && input == VKATTN_X) || (output == VKATTN_LSE && input == VKATTN_X_LSE);
    return kind == VKATTN_ROTARY && !appends() && output == VKATTN_Y && input == VKATTN_X;
}

double Operation::flops() const {
    const double rowCount = static_cast<double>(batch) * groups * rows;
    switch (kind) {
    case VKATTN_PROJECTION:
        return 2.0 * rowCount * inner * out + (tensor(VKATTN_BIAS).present() ? rowCount * out : 0.0) +
               (tensor(VKATTN_RESIDUAL).present() ? rowCount * out : 0.0);
    case VKATTN_NORM:
        return rowCount * inner * (norm == VKATTN_LAYER_NORM ? 6.0 : 4.0);
    case VKATTN_NORM_GRADIENT:
        return rowCount * inner * ((norm == VKATTN_LAYER_NORM ? 16.0 : 12.0) + (tensor(VKATTN_RESIDUAL).present() ? 1.0 : 0.0));
    case VKATTN_ROTARY:
        return rowCount * rotated * 3.0;
    case VKATTN_MEAN:
        return rowCount * inner * averaged * 2.0;
    case VKATTN_MERGE:
        return rowCount * inner * parts * 2.0;
    case VKATTN_HADAMARD:
        return rowCount * inner * (std::log2(static_cast<double>(block)) + 1);
    case VKATTN_DROP:
        return rowCount * inner * (tensor(VKATTN_RESIDUAL).present() ? 2.0 : 1.0);
    default:
        return 0;
    }
}

vkattn_result makeOperation(const vkattn_operation *description, Operation &out, vkattn_diagnostic *why) {
    out = Operation{};
    out.kind = description->kind;
    switch (out.kind) {
    case VKATTN_PROJECTION:
        if (const auto r = take(description->of.projection, "vkattn_projection", out, why)) return r;
        return checkProjection(out, why);
    case VKATTN_NORM:
        if (const auto r = take(description->of.norm, "vkattn_norm", out, why)) return r;
        return checkNorm(out, why);
    case VKATTN_NORM_GRADIENT:
        if (const auto r = take(description->of.normGradient, "vkattn_norm_gradient", out, why)) return r;
        return checkNormGradient(out, why);
    case VKATTN_ROTARY:
        if (const auto r = take(description->of.rotary, "vkattn_rotary", out, why)) return r;
        return checkRotary(out, why);
    case VKATTN_APPEND:
        if (const auto r = take(description->of.append, "vkattn_append", out, why)) return r;
        return checkAppend(out, why);
    case VKATTN_ADVANCE:
        if (const auto r = take(description->of.advance, "vkattn_advance", out, why)) return r;
        return checkAdvance(out, why);
    case VKATTN_MEAN:
        if (const auto r = take(description->of.mean, "vkattn_mean", out, why)) return r;
        return checkMean(out, why);
    case VKATTN_KEEP:
        if (const auto r = take(description->of.keep, "vkattn_keep", out, why)) return r;
        return checkKeep(out, why);
    case VKATTN_HADAMARD:
        if (const auto r = take(description->of.hadamard, "vkattn_hadamard", out, why)) return r;
        return checkHadamard(out, why);
    case VKATTN_MERGE:
        if (const auto r = take(description->of.merge, "vkattn_merge", out, why)) return r;
        return checkMerge(out, why);
    case VKATTN_DROP:
        if (const auto r = take(description->of.drop, "vkattn_drop", out, why)) return r;
        return checkDrop(out, why);
    default:
        return fail(why, invalid, "operation.kind is %d, expected a vkattn_operation_kind", static_cast<int>(out.kind));
    }
}

} // namespace vkattn

using namespace vkattn;

extern "C" const char *vkattnOperationName(vkattn_operation_kind kind) {
    const auto n = static_cast<uint32_t>(kind);
    return n < sizeof names / sizeof names[0] ? names[n] : nullptr;
}

namespace {

template <class Form, class Description, class Use>
vkattn_result withForm(vkattn_result (*make)(const Description *, Form &, vkattn_diagnostic *), const Description *description,
                       vkattn_diagnostic *why, const Use &use) {
    Form form;
    if (const auto r = make(description, form, why)) return r;
    use(form);
    return VKATTN_OK;
}
// Makes the canonical form of any operation, and hands the form on: use(form).
template <class Use> vkattn_result withForm(const vkattn_operation &description, vkattn_diagnostic *why, const Use &use) {
    if (description.kind == VKATTN_ATTENTION) return withForm(makeProblem, description.of.attention, why, use);
    if (description.kind == VKATTN_ATTENTION_GRADIENT) return withForm(makeGradient, description.of.attentionGradient, why, use);
    if (description.kind == VKATTN_ATTENTION_STATISTICS) return withForm(makeStatistics, description.of.attentionStatistics, why, use);
    if (description.kind == VKATTN_VISIBLE_BLOCKS) return withForm(makeVisibleBlocks, description.of.visibleBlocks, why, use);
    if (description.kind == VKATTN_LINEAR_ATTENTION) return withForm(makeLinear, description.of.linearAttention, why, use);
    if (description.kind == VKATTN_LINEAR_ATTENTION_GRADIENT) return withForm(makeLinearGradient, description.of.linearGradient, why, use);
    return withForm(makeOperation, &description, why, use);
}

// The uses of an operation, as many as there is room for.
class UseList {
  public:
    UseList(vkattn_operand_use *out, uint32_t capacity) : out_(out), capacity_(out ? capacity : 0) {}

    void add(const Problem &problem) { add(problem, operandTable, true); }
    void add(const Operation &operation) { add(operation, operandsOf(operation.kind), true); }
    // What the forward pass wrote is read.
    void add(const Gradient &gradient) {
        add(gradient, operandTable, false);
        add(gradient, gradientOperands(), true);
    }
    void add(const Statistics &statistics) {
        add(statistics, operandTable, false);
        add(statistics, statisticsOperands(), true);
    }
    void add(const VisibleBlocks &blocks) { add(blocks, operandTable, true); }
    void add(const LinearAttention &linear) { add(linear, linearOperands(), true); }
    // The form uses nothing that the forward pass has written.
    void add(const LinearGradient &gradient) {
        add(gradient, linearOperands(), false);
        add(gradient, linearGradientOperands(), true);
    }
    [[nodiscard]] uint32_t count() const { return count_; }

  private:
    template <class Form, class Rule> static bool isWritten(const Form &, const Rule &rule) { return rule.output; }
    // Lists of blocks are inputs of attention.
    static bool isWritten(const VisibleBlocks &blocks, const OperandRule &rule) { return blocks.writes(rule.role); }
    template <class Form, class Rules> void add(const Form &form, const Rules &rules, bool writes) {
        for (const auto &rule : rules) {
            if (!form.uses(rule.role)) continue;
            const ByteRange bytes = form.bytesUsed(rule.role);
            if (count_ < capacity_) out_[count_] = {rule.role, writes && isWritten(form, rule) ? 1u : 0u, bytes.begin, bytes.end};
            ++count_;
        }
    }

    vkattn_operand_use *out_;
    uint32_t capacity_, count_ = 0;
};

} // namespace

extern "C" vkattn_result vkattnValidateOperation(const vkattn_operation *operation, vkattn_diagnostic *why) {
    if (!operation) return fail(why, invalid, "operation is NULL");
    return withForm(*operation, why, [](const auto &) {});
}

extern "C" uint64_t vkattnOperationBytes(const vkattn_operation *operation, vkattn_role role) {
    uint64_t bytes = 0;
    if (operation) (void)withForm(*operation, nullptr, [&](const auto &form) { bytes = form.bytesUsed(role).end; });
    return bytes;
}

extern "C" uint32_t vkattnOperandUses(const vkattn_operation *operation, vkattn_operand_use *out, uint32_t capacity) {
    UseList uses(out, capacity);
    if (operation) (void)withForm(*operation, nullptr, [&](const auto &form) { uses.add(form); });
    return uses.count();
}
