// vkattn/operations.hpp: C++17 face of vkattn/operations.h. Header only, without exceptions, RTTI and
// allocation.
#pragma once

#include "vkattn/gradient.h"
#include "vkattn/linear.h"
#include "vkattn/linear_gradient.h"
#include "vkattn/statistics.h"
#include "vkattn/visible_blocks.h"

namespace vkattn {

// Returns the layout of a matrix [rows, columns], densely packed: a tensor [1, 1, rows, columns].
[[nodiscard]] constexpr vkattn_layout matrix(vkattn_dtype dtype, uint32_t rows, uint32_t columns) {
    const int64_t all = int64_t{rows} * columns;
    return {dtype, {1, 1, rows, columns}, {all, all, columns, 1}, 0};
}
// Returns the layout of a vector: a matrix of one row.
[[nodiscard]] constexpr vkattn_layout vector(vkattn_dtype dtype, uint32_t size) {
    return matrix(dtype, 1, size);
}

// Descriptions with all defaults. Options are set in their fields.
[[nodiscard]] constexpr vkattn_projection projection(const vkattn_layout &x, const vkattn_layout &w, const vkattn_layout &y) {
    vkattn_projection p{};
    p.structSize = sizeof p;
    p.x = x;
    p.w = w;
    p.y = y;
    return p;
}
// A matrix over tokens, as Linformer has them: projected = E tokens in every head. `tokens` is [batch, heads,
// token, dim], `e` [1, 1 or heads, r, at least as many tokens], of which the first columns are used, and
// `projected` [batch, heads, r, dim]. VKATTN_KEY_LENGTHS of the description are lengths of the tokens.
[[nodiscard]] constexpr vkattn_projection tokenProjection(const vkattn_layout &e, const vkattn_layout &tokens,
                                                          const vkattn_layout &projected) {
    vkattn_layout rows = e, columns = tokens;
    rows.extent[3] = tokens.extent[2];
    for (int d = 0; d < 2; ++d) { // E is shared
        if (rows.extent[d] == 1) rows.strideElems[d] = 0;
        rows.extent[d] = tokens.extent[d];
    }
    columns.extent[2] = tokens.extent[3], columns.extent[3] = tokens.extent[2];
    columns.strideElems[2] = tokens.strideElems[3], columns.strideElems[3] = tokens.strideElems[2];
    return projection(rows, columns, projected);
}
[[nodiscard]] constexpr vkattn_norm layerNorm(const vkattn_layout &x, const vkattn_layout &y, float epsilon = 1e-5f) {
    vkattn_norm n{};
    n.structSize = sizeof n;
    n.kind = VKATTN_LAYER_NORM;
    n.epsilon = epsilon;
    n.x = x;
    n.y = y;
    return n;
}
[[nodiscard]] constexpr vkattn_norm rmsNorm(const vkattn_layout &x, const vkattn_layout &y, float epsilon = 1e-6f) {
    vkattn_norm n = layerNorm(x, y, epsilon);
    n.kind = VKATTN_RMS_NORM;
    return n;
}
[[nodiscard]] constexpr vkattn_rotary rotary(const vkattn_layout &x, const vkattn_layout &cos, const vkattn_layout &sin,
                                             const vkattn_layout &y) {
    vkattn_rotary r{};
    r.structSize = sizeof r;
    r.x = x;
    r.cos = cos;
    r.sin = sin;
    r.y = y;
    return r;
}
[[nodiscard]] constexpr vkattn_append append(const vkattn_layout &x, const vkattn_layout &cache) {
    vkattn_append a{};
    a.structSize = sizeof a;
    a.x = x;
    a.y = cache;
    return a;
}
// Into a pool of pages [page, head, token, dim], of which each batch entry has so many in its row of the page table.
[[nodiscard]] constexpr vkattn_append appendToPages(const vkattn_layout &x, const vkattn_layout &pool, uint32_t tablePages) {
    vkattn_append a = append(x, pool);
    a.presentRoles = 1u << (VKATTN_PAGE_TABLE - VKATTN_KEY_LENGTHS); // VKATTN_PRESENT, whose casts are those of C
    a.tablePages = tablePages;
    return a;
}
// The words move on by `by`, and stay at `limit`.
[[nodiscard]] constexpr vkattn_advance advance(const vkattn_layout &x, const vkattn_layout &y, uint32_t by = 1,
                                               uint32_t limit = 0xffffffffu) {
    vkattn_advance a{};
    a.structSize = sizeof a;
    a.by = by;
    a.limit = limit;
    a.x = x;
    a.y = y;
    return a;
}
// Of parts that lie in x and xLse one after the other, as batch entries do. lse is set in its field.
[[nodiscard]] constexpr vkattn_merge merge(uint32_t parts, const vkattn_layout &x, const vkattn_layout &xLse, const vkattn_layout &y) {
    vkattn_merge m{};
    m.structSize = sizeof m;
    m.parts = parts;
    m.x = x;
    m.xLse = xLse;
    m.y = y;
    return m;
}
// Rotates rows of x, in the largest blocks that there are; y may be x. Another block is set in its field.
[[nodiscard]] constexpr vkattn_hadamard hadamard(const vkattn_layout &x, const vkattn_layout &y) {
    vkattn_hadamard h{};
    h.structSize = sizeof h;
    h.x = x;
    h.y = y;
    return h;
}
// Over the groups of x; y has one.
[[nodiscard]] constexpr vkattn_mean mean(const vkattn_layout &x, const vkattn_layout &y) {
    vkattn_mean m{};
    m.structSize = sizeof m;
    m.x = x;
    m.y = y;
    return m;
}
// Which elements of y's rows of `columns` dropout keeps.
[[nodiscard]] constexpr vkattn_keep keep(double probability, uint64_t seed, uint32_t offset, uint32_t columns, const vkattn_layout &y) {
    vkattn_keep k{};
    k.structSize = sizeof k;
    k.probability = probability;
    k.seed = seed;
    k.offset = offset;
    k.columns = columns;
    k.y = y;
    return k;
}
// Dropout of x; y may be x. A residual is set in its field.
[[nodiscard]] constexpr vkattn_drop drop(double probability, uint64_t seed, uint32_t offset, const vkattn_layout &x,
                                         const vkattn_layout &y) {
    vkattn_drop d{};
    d.structSize = sizeof d;
    d.probability = probability;
    d.seed = seed;
    d.offset = offset;
    d.x = x;
    d.y = y;
    return d;
}
// The gradients are absent: give dQ, dK, dV and dBias their layouts, and set presentRoles. `forward`
// must outlive the description.
[[nodiscard]] constexpr vkattn_attention_gradient attentionGradient(const vkattn_problem &forward, const vkattn_layout &dOut) {
    vkattn_attention_gradient g{};
    g.structSize = sizeof g;
    g.forward = &forward;
    g.dOut = dOut;
    return g;
}

// The outputs are absent: give statistics, received, topWeights and topKeys their layouts. `attention`
// must outlive the description.
[[nodiscard]] constexpr vkattn_attention_statistics attentionStatistics(const vkattn_problem &attention) {
    vkattn_attention_statistics s{};
    s.structSize = sizeof s;
    s.attention = &attention;
    return s;
}

// Lists of blocks of so many pairs, one for each batch entry and head, with full blocks apart.
// `attention` must outlive the description; the attention that uses the lists has `blocks` for its own.
[[nodiscard]] constexpr vkattn_visible_blocks visibleBlocks(const vkattn_problem &attention, uint32_t queries, uint32_t keys) {
    vkattn_visible_blocks v{};
    v.structSize = sizeof v;
    v.attention = &attention;
    v.blocks.kind = VKATTN_BLOCKS_INDICES;
    v.blocks.queries = queries;
    v.blocks.keys = keys;
    v.blocks.batches = attention.sequences ? attention.sequences : attention.q.extent[0];
    v.blocks.heads = attention.q.extent[1];
    v.blocks.full = 1;
    return v;
}

// Causal features; another rule, and what belongs to it, are set in their fields.
[[nodiscard]] constexpr vkattn_linear_attention linearAttention(const vkattn_layout &q, const vkattn_layout &k, const vkattn_layout &v,
                                                                const vkattn_layout &out) {
    vkattn_linear_attention l{};
    l.structSize = sizeof l;
    l.flags = VKATTN_CAUSAL;
    l.q = q;
    l.k = k;
    l.v = v;
    l.out = out;
    return l;
}

// Without gradients: give those that are wanted a layout. `forward` outlives what is returned.
[[nodiscard]] constexpr vkattn_linear_gradient linearGradient(const vkattn_linear_attention &forward, const vkattn_layout &dOut) {
    vkattn_linear_gradient g{};
    g.structSize = sizeof g;
    g.forward = &forward;
    g.dOut = dOut;
    return g;
}

// `gamma` may be absent, and so may two of the gradients.
[[nodiscard]] constexpr vkattn_norm_gradient normGradient(vkattn_norm_kind kind, const vkattn_layout &x, const vkattn_layout &gamma,
                                                          const vkattn_layout &dY, const vkattn_layout &dX,
                                                          const vkattn_layout &dGamma = {}, const vkattn_layout &dBeta = {},
                                                          float epsilon = 1e-5f) {
    vkattn_norm_gradient n{};
    n.structSize = sizeof n;
    n.kind = kind;
    n.epsilon = epsilon;
    n.x = x;
    n.gamma = gamma;
    n.dY = dY;
    n.dX = dX;
    n.dGamma = dGamma;
    n.dBeta = dBeta;
    return n;
}

// Names a description for the calls that take any operation. The description must outlive the call.
[[nodiscard]] inline vkattn_operation operation(const vkattn_problem &attention) {
    vkattn_operation o{};
    o.kind = VKATTN_ATTENTION;
    o.of.attention = &attention;
    return o;
}
[[nodiscard]] inline vkattn_operation operation(const vkattn_projection &projection) {
    vkattn_operation o{};
    o.kind = VKATTN_PROJECTION;
    o.of.projection = &projection;
    return o;
}
[[nodiscard]] inline vkattn_operation operation(const vkattn_norm &norm) {
    vkattn_operation o{};
    o.kind = VKATTN_NORM;
    o.of.norm = &norm;
    return o;
}
[[nodiscard]] inline vkattn_operation operation(const vkattn_rotary &rotary) {
    vkattn_operation o{};
    o.kind = VKATTN_ROTARY;
    o.of.rotary = &rotary;
    return o;
}
[[nodiscard]] inline vkattn_operation operation(const vkattn_append &append) {
    vkattn_operation o{};
    o.kind = VKATTN_APPEND;
    o.of.append = &append;
    return o;
}
[[nodiscard]] inline vkattn_operation operation(const vkattn_advance &advance) {
    vkattn_operation o{};
    o.kind = VKATTN_ADVANCE;
    o.of.advance = &advance;
    return o;
}
[[nodiscard]] inline vkattn_operation operation(const vkattn_mean &mean) {
    vkattn_operation o{};
    o.kind = VKATTN_MEAN;
    o.of.mean = &mean;
    return o;
}
[[nodiscard]] inline vkattn_operation operation(const vkattn_hadamard &hadamard) {
    vkattn_operation o{};
    o.kind = VKATTN_HADAMARD;
    o.of.hadamard = &hadamard;
    return o;
}
[[nodiscard]] inline vkattn_operation operation(const vkattn_keep &keep) {
    vkattn_operation o{};
    o.kind = VKATTN_KEEP;
    o.of.keep = &keep;
    return o;
}
[[nodiscard]] inline vkattn_operation operation(const vkattn_attention_gradient &gradient) {
    vkattn_operation o{};
    o.kind = VKATTN_ATTENTION_GRADIENT;
    o.of.attentionGradient = &gradient;
    return o;
}
[[nodiscard]] inline vkattn_operation operation(const vkattn_attention_statistics &statistics) {
    vkattn_operation o{};
    o.kind = VKATTN_ATTENTION_STATISTICS;
    o.of.attentionStatistics = &statistics;
    return o;
}
[[nodiscard]] inline vkattn_operation operation(const vkattn_visible_blocks &blocks) {
    vkattn_operation o{};
    o.kind = VKATTN_VISIBLE_BLOCKS;
    o.of.visibleBlocks = &blocks;
    return o;
}
[[nodiscard]] inline vkattn_operation operation(const vkattn_linear_attention &linear) {
    vkattn_operation o{};
    o.kind = VKATTN_LINEAR_ATTENTION;
    o.of.linearAttention = &linear;
    return o;
}
[[nodiscard]] inline vkattn_operation operation(const vkattn_linear_gradient &gradient) {
    vkattn_operation o{};
    o.kind = VKATTN_LINEAR_ATTENTION_GRADIENT;
    o.of.linearGradient = &gradient;
    return o;
}
[[nodiscard]] inline vkattn_operation operation(const vkattn_norm_gradient &gradient) {
    vkattn_operation o{};
    o.kind = VKATTN_NORM_GRADIENT;
    o.of.normGradient = &gradient;
    return o;
}
[[nodiscard]] inline vkattn_operation operation(const vkattn_drop &drop) {
    vkattn_operation o{};
    o.kind = VKATTN_DROP;
    o.of.drop = &drop;
    return o;
}
[[nodiscard]] inline vkattn_operation operation(const vkattn_merge &merge) {
    vkattn_operation o{};
    o.kind = VKATTN_MERGE;
    o.of.merge = &merge;
    return o;
}

} // namespace vkattn
