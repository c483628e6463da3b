#include "description.hpp"

#include "util/half.hpp"
#include "vkattn/cpu.h"
#include "vkattn/vkattn.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

namespace vkattn::test {
namespace {

constexpr uint8_t rare = 248; // genes from here on may break a rule
constexpr vkattn_role outputRoles[] = {VKATTN_OUT, VKATTN_LSE, VKATTN_WEIGHTS, VKATTN_SCORES};
constexpr vkattn_role tensorRoles[] = {VKATTN_Q,    VKATTN_K,    VKATTN_V,        VKATTN_OUT,    VKATTN_LSE,       VKATTN_WEIGHTS,
                                       VKATTN_BIAS, VKATTN_MASK, VKATTN_BIT_MASK, VKATTN_SCORES, VKATTN_K_1,       VKATTN_V_1,
                                       VKATTN_K_2,  VKATTN_V_2,  VKATTN_K_3,      VKATTN_V_3,    VKATTN_PRIOR_OUT, VKATTN_PRIOR_LSE};
constexpr size_t slackBytes = 24; // of an output, after its last element

// Dims, types and what is added to scores or hides keys enter pipelines, which take the driver 50
// to 500 ms each: a handful of each.
struct Shape {
    uint32_t headDim, valueDim;
    vkattn_dtype q, k, v, out;
};
constexpr Shape shapes[] = {
    {8, 8, VKATTN_F32, VKATTN_F32, VKATTN_F32, VKATTN_F32},    {5, 7, VKATTN_F16, VKATTN_F16, VKATTN_F16, VKATTN_F16},
    {8, 8, VKATTN_BF16, VKATTN_BF16, VKATTN_BF16, VKATTN_F32}, {3, 1, VKATTN_F32, VKATTN_F16, VKATTN_BF16, VKATTN_BF16},
    {40, 8, VKATTN_F32, VKATTN_Q8_0, VKATTN_Q4_0, VKATTN_F32}, {5, 7, VKATTN_F16, VKATTN_FP8_E4M3, VKATTN_INT8, VKATTN_F16}};
struct Overlays {
    bool softcap, bias, alibi, mask, bitMask, documents;
};
constexpr Overlays overlayCombinations[] = {{},
                                            {.bias = true, .alibi = true},
                                            {.mask = true},
                                            {.bitMask = true, .documents = true},
                                            {.softcap = true, .bias = true},
                                            {.softcap = true, .bias = true, .alibi = true, .mask = true, .documents = true}};
// Around the edges of tiles, of words of bit masks, and of nothing.
constexpr uint32_t counts[] = {5, 1, 2, 3, 4, 7, 8, 9, 13, 16, 17, 31, 32, 33, 40, 64, 65, 0};

template <class T, size_t size> const T &pick(const T (&list)[size], uint8_t gene) {
    return list[gene % size];
}

uint64_t sizeOf(vkattn_dtype dtype) {
    return dtype == VKATTN_F32 || dtype == VKATTN_BITS32 ? 4 : dtype == VKATTN_F16 || dtype == VKATTN_BF16 ? 2 : 1;
}

bool isOutput(vkattn_role role) {
    return std::find(std::begin(outputRoles), std::end(outputRoles), role) != std::end(outputRoles);
}

vkattn_layout layoutFrom(const LayoutGenes &genes, bool output, vkattn_dtype dtype, const uint32_t (&extents)[4]) {
    vkattn_layout l{dtype, {extents[0], extents[1], extents[2], extents[3]}, {}, 0};
    int order[4] = {3, 2, 1, 0}; // the fastest first
    for (uint8_t n = genes.order % 24; n > 0; --n) std::prev_permutation(order, order + 4);
    if (hasScales(dtype) && genes.order < rare) { // rows whose dims are neighbours
        const vkattn_layout rows = packed(dtype, l.extent[0], l.extent[1], l.extent[2], l.extent[3]);
        std::copy_n(rows.strideElems, 4, l.strideElems);
        for (int d = 0; d < 3; ++d)
            if (genes.zero >> d & 1) l.strideElems[d] = 0;
        l.offsetElems = 32u * (genes.offset % 4u);
        return l;
    }
    int64_t stride = 1;
    for (const int d : order) {
        l.strideElems[d] = stride;
        const uint32_t gap = genes.gap < 240 ? genes.gap >> 2 * d & 3u : 999u * (genes.gap >> d & 1u);
        stride = stride * l.extent[d] + gap;
        if (stride == 0) stride = 1; // an extent of 0
    }
    // No output may overlap itself.
    const uint32_t zero = output && genes.zero < rare ? 0 : genes.zero;
    // Returns how far the first element must lie from the start.
    uint64_t lowest = 0;
    for (int d = 0; d < 4; ++d) {
        if (zero >> d & 1) l.strideElems[d] = 0;
        if (zero >> (4 + d) & 1) l.strideElems[d] = 1;
        if (genes.negative >> d & 1 && l.extent[d] > 1) {
            lowest += static_cast<uint64_t>(l.strideElems[d]) * (l.extent[d] - 1);
            l.strideElems[d] = -l.strideElems[d];
        }
    }
    l.offsetElems = lowest + (genes.offset < 240 ? genes.offset % 8u : 37u * genes.offset);
    return l;
}

void store(unsigned char *at, vkattn_dtype dtype, float value) {
    if (dtype == VKATTN_F32) {
        std::memcpy(at, &value, 4);
        return;
    }
    const uint16_t bits = dtype == VKATTN_F16 ? floatToHalf(value) : floatToBfloat16(value);
    std::memcpy(at, &bits, 2);
}

// Calls visit(byte, index) for each element of the layout.
template <class Visit> void forEach(const vkattn_layout &l, const Visit &visit) {
    for (uint32_t b = 0; b < l.extent[0]; ++b)
        for (uint32_t h = 0; h < l.extent[1]; ++h)
            for (uint32_t t = 0; t < l.extent[2]; ++t)
                for (uint32_t d = 0; d < l.extent[3]; ++d) {
                    const uint32_t index[4] = {b, h, t, d};
                    uint64_t at = l.offsetElems;
                    for (int n = 0; n < 4; ++n)
                        if (l.extent[n] > 1) at += index[n] * static_cast<uint64_t>(l.strideElems[n]);
                    visit(at * sizeOf(l.dtype), index);
                }
}

} // namespace

namespace {
// An array of blocks may be there and have no element.
bool usesBlocks(const vkattn_problem &p, vkattn_role role) {
    switch (p.blocks.kind) {
    case VKATTN_BLOCKS_MASK:
        return role == VKATTN_BLOCK_MASK;
    case VKATTN_BLOCKS_LISTS:
        return role == VKATTN_BLOCK_ROWS || role == VKATTN_BLOCK_COLUMNS;
    case VKATTN_BLOCKS_INDICES:
        return role == VKATTN_BLOCK_COUNTS || role == VKATTN_BLOCK_INDICES ||
               (p.blocks.full && (role == VKATTN_FULL_BLOCK_COUNTS || role == VKATTN_FULL_BLOCK_INDICES));
    default:
        return false;
    }
}
} // namespace

Description::Description(const uint8_t *bytes, size_t size) {
    const size_t used = std::min(size, sizeof genes);
    if (used) std::memcpy(&genes, bytes, used);
    rest_.assign(bytes + used, bytes + size);
    state_ = genes.seed * 0x9e3779b9u + 1;
    describe();
}

void Description::describe() {
    vkattn_problem &p = problem;
    const Shape &shape = pick(shapes, genes.shape);
    p.structSize = sizeof p;
    p.flags = (genes.flags & 31u) | (genes.flags & 32u ? uint32_t{VKATTN_VALUES_IN_KEYS} : 0) |
              (genes.tensors & 4u ? uint32_t{VKATTN_ROW_STATISTICS} : 0) | (genes.tensors & 16u ? uint32_t{VKATTN_WEIGHTS_DROPPED} : 0);
    if (genes.tensors & 8u) {
        p.dropout = genes.seed < rare ? static_cast<double>(genes.seed) / (rare - 1) : 0.1 * (genes.seed - rare) - 0.1;
        p.dropoutSeed = 0x9e3779b97f4a7c15u * genes.seed, p.dropoutOffset = 0x01010101u * genes.data;
    }
    const uint32_t kernels = vkattnKernels(nullptr, 0) + 1; // with AUTO
    p.kernel = genes.kernel % kernels == 0 ? VKATTN_KERNEL_AUTO : KernelList().begin()[genes.kernel % kernels - 1];
    p.sliceCount = genes.slices < 200 ? genes.slices % 4u : genes.slices;
    if (p.flags & VKATTN_SCALE) p.scale = 0.02f * static_cast<float>(static_cast<int8_t>(genes.scale));
    const Overlays overlays = pick(overlayCombinations, genes.overlays);
    if (overlays.softcap)
        // The draw counts from the smallest extent that is allowed.
        p.softcap = std::ldexp(1.0f, static_cast<int>(genes.softcap % 160) - 126);
    if (genes.windowLeft >= rare || p.flags & VKATTN_WINDOW) {
        p.windowLeft = static_cast<int32_t>(genes.windowLeft % 12) - 1;
        p.windowRight = genes.windowRight == 255 ? INT32_MAX : static_cast<int32_t>(genes.windowRight % 12) - 1;
    }
    const bool ragged = (genes.arrays & 2) != 0;
    const auto present = [&](int bit, vkattn_role role) { p.presentRoles |= genes.arrays >> bit & 1u ? VKATTN_PRESENT(role) : 0; };
    if (!ragged || genes.arrays >= rare) present(0, VKATTN_KEY_LENGTHS);
    present(1, VKATTN_CU_SEQ_Q), present(1, VKATTN_CU_SEQ_K), present(2, VKATTN_SINKS);
    if (overlays.documents)
        p.presentRoles |= VKATTN_PRESENT(VKATTN_DOC_IDS_K) | (genes.arrays < rare ? VKATTN_PRESENT(VKATTN_DOC_IDS_Q) : 0);
    if (overlays.alibi) p.presentRoles |= VKATTN_PRESENT(VKATTN_ALIBI_SLOPES);
    const uint32_t kvHeads = 1 + genes.kvHeads % 3u, heads = kvHeads * (1 + genes.group % 3u);
    const uint32_t batch = ragged ? 1 : 1 + genes.batch % 3u, queries = pick(counts, genes.queries);
    uint32_t keys = pick(counts, genes.keys), held = batch, heldTokens = keys;
    // Once in a while a ragged batch has pages too, which is refused.
    if (genes.arrays & 8 && (!ragged || genes.arrays >= rare)) {
        if (genes.arrays & 16)
            p.pageIndices = genes.maxSeqQ % 20u;
        else
            present(3, VKATTN_PAGE_TABLE);
        if (genes.arrays & 16 && genes.arrays < rare) p.presentRoles &= ~VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
        heldTokens = 1 + genes.sequences % 7u, held = 1 + genes.maxSeqK % 9u;
        p.tablePages = (keys + heldTokens - 1) / heldTokens;
        keys = p.tablePages * heldTokens;
    }
    if (ragged) {
        p.sequences = 1 + genes.sequences % 5u;
        p.maxSeqQ = std::min<uint32_t>(genes.maxSeqQ, queries + genes.maxSeqQ / rare);
        p.maxSeqK = std::min<uint32_t>(genes.maxSeqK, keys + genes.maxSeqK / rare);
    }
    const auto make = [&](vkattn_role role, vkattn_dtype dtype, const uint32_t(&extents)[4]) {
        return layoutFrom(genes.layout[role], isOutput(role), dtype, extents);
    };
    p.q = make(VKATTN_Q, shape.q, {batch, heads, queries, shape.headDim});
    p.k = make(VKATTN_K, shape.k, {held, kvHeads, heldTokens, shape.headDim});
    // Once in a while V is described all the same, which is refused.
    if (!(p.flags & VKATTN_VALUES_IN_KEYS) || genes.sharedValues >= rare)
        p.v = make(VKATTN_V, shape.v, {held, kvHeads, heldTokens, shape.valueDim});
    p.out = make(VKATTN_OUT, shape.out, {batch, heads, queries, shape.valueDim});
    keys = describeSegments(keys);
    if (genes.segments & 4) {
        p.priorOut = layoutFrom(genes.layout[VKATTN_Q], false, shape.out, {batch, heads, queries, shape.valueDim});
        p.priorLse = layoutFrom(genes.layout[VKATTN_LSE], false, VKATTN_F32, {batch, heads, queries, 1});
    }
    if (genes.tensors & 1) p.lse = make(VKATTN_LSE, VKATTN_F32, {batch, heads, queries, p.flags & VKATTN_ROW_STATISTICS ? 2u : 1u});
    const uint32_t pairs[4] = {ragged ? p.sequences : batch, heads, p.maxSeqQ ? p.maxSeqQ : queries, p.maxSeqK ? p.maxSeqK : keys};
    constexpr vkattn_dtype floats[] = {VKATTN_F32, VKATTN_F16, VKATTN_BF16};
    if (genes.tensors & 2) p.weights = make(VKATTN_WEIGHTS, pick(floats, genes.types), pairs);
    if (genes.tensors & 32) {
        p.scores = layoutFrom(genes.layout[VKATTN_WEIGHTS], true, pick(floats, genes.types), pairs);
        p.scoresStage = static_cast<vkattn_score_stage>(genes.tensors >> 6);
    }
    const auto broadcast = [&](vkattn_role role, vkattn_dtype dtype, uint8_t ones, uint32_t last) {
        uint32_t extents[4] = {pairs[0], pairs[1], pairs[2], last};
        for (int d = 0; d < 4; ++d)
            if (ones >> d & 1) extents[d] = 1;
        return make(role, dtype, extents);
    };
    describeRules(pairs[0], pairs[2], pairs[3]);
    // The keys that masks have: fewer hide the others.
    const uint32_t masked = genes.segments & 8 ? pairs[3] - std::min(pairs[3], genes.segmentKeys % 8u) : pairs[3];
    if (overlays.bias) p.bias = broadcast(VKATTN_BIAS, overlays.softcap ? VKATTN_F32 : VKATTN_F16, genes.biasOnes, masked);
    if (overlays.mask) p.mask = broadcast(VKATTN_MASK, VKATTN_BOOL8, genes.maskOnes, masked);
    if (overlays.bitMask || genes.overlays >= rare)
        p.bitMask = broadcast(VKATTN_BIT_MASK, VKATTN_BITS32, genes.maskOnes & 7, (masked + 31) / 32);
}

uint32_t Description::describeSegments(uint32_t keys) {
    vkattn_problem &p = problem;
    // Once in a while with an option that refuses segments.
    if ((p.sequences || p.tablePages || p.flags & VKATTN_VALUES_IN_KEYS) && genes.segments < rare) return keys;
    vkattn_layout *const segments[3][2] = {{&p.k1, &p.v1}, {&p.k2, &p.v2}, {&p.k3, &p.v3}};
    for (uint32_t n = 0; n < (genes.segments & 3u); ++n) {
        const uint32_t own = (genes.segmentKeys >> n) % 24u;
        const auto make = [&](const vkattn_layout &first, LayoutGenes like) {
            like.gap = static_cast<uint8_t>(like.gap + n), like.negative = static_cast<uint8_t>(like.negative >> n & 7);
            return layoutFrom(like, false, first.dtype, {first.extent[0], first.extent[1], own, first.extent[3]});
        };
        *segments[n][0] = make(p.k, genes.layout[VKATTN_K]), *segments[n][1] = make(p.v, genes.layout[VKATTN_V]);
        keys += own;
    }
    return keys;
}

void Description::describeRules(uint32_t batch, uint32_t queries, uint32_t keys) {
    vkattn_problem &p = problem;
    const RuleGenes &g = genes.rules;
    // Once in a while a rule lacks the option that it goes with, which is refused.
    const bool wrong = g.arrays >= rare;
    const auto present = [&](int bit, bool fits, vkattn_role role) {
        p.presentRoles |= (g.arrays >> bit & 1u) && (fits || wrong) ? VKATTN_PRESENT(role) : 0;
    };
    const bool window = p.flags & VKATTN_WINDOW;
    present(0, window, VKATTN_GLOBAL_TOKENS), present(1, p.flags & VKATTN_CAUSAL, VKATTN_PREFIX_LENGTHS);
    const auto offset = [&](int bit, uint8_t tokens) {
        const auto kind = static_cast<vkattn_offset_kind>(g.arrays >> bit & 3u);
        return vkattn_offset{kind, kind || wrong ? int32_t{tokens} - 100 : 0};
    };
    p.queryOffset = offset(3, g.shift), p.keyOffset = offset(5, g.sizes);
    if (window && g.dilation >= 64) p.dilation = g.dilation == 255 ? UINT32_MAX : g.dilation % 6u;
    present(2, window && p.dilation > 0, VKATTN_DILATIONS);
    if (g.grid % 8u && keys) {
        p.grid.rule = static_cast<vkattn_grid_rule>(g.grid % 8u > 4 ? 0 : g.grid % 8u);
        const uint32_t planes = keys % (1 + g.planes % 3u) == 0 ? 1 + g.planes % 3u : 1;
        const uint32_t rows = keys / planes % (1 + g.rows % 8u) == 0 ? 1 + g.rows % 8u : 1;
        const uint32_t extents[] = {planes, rows, keys / planes / rows + (g.rows >= rare ? 1 : 0)};
        for (int axis = 0; axis < 3 && p.grid.rule; ++axis) {
            const uint32_t size = g.sizes >> (2 * axis) & 3u;
            p.grid.extent[axis] = extents[axis];
            p.grid.size[axis] = p.grid.rule == VKATTN_GRID_WINDOWS ? size + 1 : 2 * size + 1;
            if (p.grid.rule == VKATTN_GRID_CLAMPED) p.grid.size[axis] = std::min(p.grid.size[axis], (extents[axis] - 1) | 1u);
            p.grid.shift[axis] = p.grid.rule == VKATTN_GRID_WINDOWS ? g.shift % (size + 1) : g.shift >= rare ? 1 : 0;
        }
    }
    if (g.blocks % 8u == 0 || g.blocks % 8u > 5) return;
    vkattn_blocks &blocks = p.blocks;
    blocks.kind = static_cast<vkattn_block_kind>(g.blocks % 8u);
    blocks.queries = 1 + g.blockQueries % 20u, blocks.keys = 1 + g.blockKeys % 20u;
    const uint32_t more = g.blockOptions >> 3;
    if (blocks.kind == VKATTN_BLOCKS_BIGBIRD) {
        blocks.keys = 0, blocks.random = more % 5u, blocks.seed = 0x9e3779b97f4a7c15u * g.blockKeys;
        return;
    }
    blocks.batches = g.blockOptions & 1u ? batch : 0, blocks.heads = g.blockOptions & 2u ? p.q.extent[1] : 0;
    if (blocks.kind == VKATTN_BLOCKS_LISTS) blocks.entries = more * 9;
    if (blocks.kind == VKATTN_BLOCKS_INDICES) blocks.full = g.blockOptions >> 2 & 1u, blocks.entries = more % 3u ? 0 : more % (queries + 1);
}

bool Description::small() const {
    for (uint32_t role = 0; role < VKATTN_ROLE_LIMIT; ++role)
        if (vkattnOperandBytes(&problem, static_cast<vkattn_role>(role)) > 1u << 19) return false;
    const uint64_t batch = std::max(problem.q.extent[0], problem.sequences);
    const uint64_t keys = (uint64_t{problem.k.extent[2]} + problem.k1.extent[2] + problem.k2.extent[2] + problem.k3.extent[2]) *
                          std::max(problem.tablePages, 1u);
    return batch * problem.q.extent[1] * problem.q.extent[2] * keys <= 20000;
}

const vkattn_layout &Description::layout(vkattn_role role) const {
    const vkattn_layout *const layouts[] = {&problem.q,       &problem.k,    &problem.v,    &problem.out,    &problem.lse,
                                            &problem.weights, &problem.bias, &problem.mask, &problem.bitMask};
    const vkattn_layout *const later[] = {&problem.k1, &problem.v1, &problem.k2,       &problem.v2,
                                          &problem.k3, &problem.v3, &problem.priorOut, &problem.priorLse};
    return role == VKATTN_SCORES ? problem.scores : role >= VKATTN_K_1 ? *later[role - VKATTN_K_1] : *layouts[role];
}

uint32_t Description::random() { // Marsaglia's xorshift32
    state_ ^= state_ << 13, state_ ^= state_ >> 17, state_ ^= state_ << 5;
    return state_;
}

unsigned char *Description::memoryOf(vkattn_role role, size_t bytes, size_t slack) {
    // The memory has exactly this size: AddressSanitizer sees what the CPU reads past it.
    bytes_[role] = bytes + slack;
    memory_[role] = std::make_unique<unsigned char[]>(bytes_[role]);
    operands_.push_back({role, memory_[role].get(), bytes_[role]});
    return memory_[role].get();
}

void Description::allocate() {
    operands_.clear();
    const bool shared = genes.sharedValues & 1 && problem.k.dtype == problem.v.dtype;
    for (const vkattn_role role : tensorRoles) {
        if (layout(role).extent[0] == 0) continue; // absent
        const size_t bytes = vkattnOperandBytes(&problem, role);
        if (isOutput(role)) {
            unsigned char *const memory = memoryOf(role, bytes, slackBytes);
            for (size_t at = 0; at < bytes_[role]; ++at) memory[at] = static_cast<unsigned char>(random());
            before_[role].assign(memory, memory + bytes_[role]);
            continue;
        }
        if (role == VKATTN_V && shared) { // both as long as the longer one
            operands_.push_back({role, memory_[VKATTN_K].get(), bytes_[VKATTN_K]});
        } else {
            const size_t other = role == VKATTN_K && shared ? vkattnOperandBytes(&problem, VKATTN_V) : 0;
            // Gaps hold NaN.
            std::memset(memoryOf(role, std::max(bytes, other), 0), 0xff, bytes_[role]);
        }
        fillTensor(role, layout(role));
    }
    for (uint32_t n = VKATTN_KEY_LENGTHS; n < VKATTN_WORKSPACE; ++n)
        if (problem.presentRoles & VKATTN_PRESENT(n)) fillArray(static_cast<vkattn_role>(n));
    for (uint32_t n = VKATTN_BLOCK_MASK; n <= VKATTN_FULL_BLOCK_INDICES; ++n)
        if (usesBlocks(problem, static_cast<vkattn_role>(n))) fillArray(static_cast<vkattn_role>(n));
    for (const vkattn_role role : {VKATTN_PAGE_INDPTR, VKATTN_PAGE_INDICES, VKATTN_LAST_PAGE_LENGTHS})
        if (problem.pageIndices) fillArray(role);
    if (problem.queryOffset.kind == VKATTN_OFFSET_ARRAY) fillArray(VKATTN_QUERY_OFFSETS);
    if (problem.keyOffset.kind == VKATTN_OFFSET_ARRAY) fillArray(VKATTN_KEY_OFFSETS);
}

float Description::nonFinite() {
    constexpr float values[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                                -std::numeric_limits<float>::infinity()};
    return values[random() % 3];
}

float Description::value(vkattn_role role, uint32_t token) {
    const float plain = static_cast<float>(static_cast<int32_t>(random() % 4096) - 2048) / 1024;
    if (role == VKATTN_PRIOR_LSE) return random() % 8 ? 4 * plain : nonFinite();
    if (role >= VKATTN_K_1 && role <= VKATTN_V_3) role = (role - VKATTN_K_1) % 2 ? VKATTN_V : VKATTN_K;
    switch (genes.data % 6) {
    case 1: // a needle
        if (role == VKATTN_K) return token == genes.seed % 16u ? 12.0f : 0.05f * plain;
        if (role == VKATTN_V) return static_cast<float>(token);
        return role == VKATTN_Q ? 1.0f + 0.05f * plain : plain;
    case 2: // large scores
        return role == VKATTN_Q || role == VKATTN_K ? plain * 30 : plain;
    case 3: // some values are not finite; where they are hidden they must not count
        return random() % 32 ? plain : nonFinite();
    case 4: // all scores are equal
        return role == VKATTN_K ? 1.0f : plain;
    case 5: // as small as they get
        return std::ldexp(plain, -static_cast<int>(random() % 160));
    default:
        return plain;
    }
}

// A row at a time: its elements share scales.
void Description::fillRows(vkattn_role role, const vkattn_layout &l, unsigned char *memory) {
    std::vector<float> row(l.extent[3]);
    for (uint32_t b = 0; b < l.extent[0]; ++b)
        for (uint32_t h = 0; h < l.extent[1]; ++h)
            for (uint32_t t = 0; t < l.extent[2]; ++t) {
                uint64_t at = l.offsetElems;
                const uint32_t index[3] = {b, h, t};
                for (int n = 0; n < 3; ++n)
                    if (l.extent[n] > 1) at += index[n] * static_cast<uint64_t>(l.strideElems[n]);
                for (float &x : row) x = value(role, t);
                const bool blocks = isBlockType(l.dtype);
                if (hasScales(l.dtype)) {
                    (void)vkattnConvert(VKATTN_F32, row.data(), l.dtype,
                                        memory + (blocks ? at / 32 * static_cast<uint64_t>(rowBytes(l.dtype, 32)) : at), row.size(),
                                        nullptr);
                    continue;
                }
                for (uint32_t d = 0; d < l.extent[3]; ++d)
                    (void)vkattnConvert(VKATTN_F32, &row[d], l.dtype,
                                        memory + at + (l.extent[3] > 1 ? d * static_cast<uint64_t>(l.strideElems[3]) : 0), 1, nullptr);
            }
}

void Description::fillTensor(vkattn_role role, const vkattn_layout &l) {
    unsigned char *const memory = memory_[role] ? memory_[role].get() : memory_[VKATTN_K].get();
    if (isSmallType(l.dtype)) return fillRows(role, l, memory);
    forEach(l, [&](uint64_t byte, const uint32_t(&index)[4]) {
        if (role == VKATTN_MASK) {
            memory[byte] = random() % 3 ? static_cast<unsigned char>(1 + random() % 255) : 0;
        } else if (role == VKATTN_BIT_MASK) {
            const uint32_t word = random() | random();
            std::memcpy(memory + byte, &word, 4);
        } else {
            const bool hides = role == VKATTN_BIAS && random() % 5 == 0;
            store(memory + byte, l.dtype, hides ? -std::numeric_limits<float>::infinity() : value(role, index[2]));
        }
    });
}

// Lengths and the like: what the bytes say, up to 0xffffffff.
void Description::fillArray(vkattn_role role) {
    const size_t bytes = vkattnOperandBytes(&problem, role);
    unsigned char *const memory = memoryOf(role, bytes, 0);
    const bool numbers = role == VKATTN_SINKS || role == VKATTN_ALIBI_SLOPES;
    for (size_t at = 0; at < bytes; at += 4) {
        const uint32_t byte = at_ < rest_.size() ? rest_[at_++] : random() % 64;
        uint32_t word = byte < 200 ? byte : byte < 240 ? random() : 0xffffffffu - (byte & 3);
        if (role == VKATTN_PAGE_TABLE || role == VKATTN_PAGE_INDICES) word = byte < 200 ? byte % 10 : word;
        if (role == VKATTN_DOC_IDS_Q || role == VKATTN_DOC_IDS_K) word = byte < 200 ? byte % 3 : word;
        if (numbers) {
            const float value = byte == 255 ? nonFinite() : 0.25f * static_cast<float>(static_cast<int32_t>(byte) - 100);
            std::memcpy(&word, &value, 4);
        }
        // Columns of blocks lie near each other; a mask of blocks ends anywhere.
        if (role >= VKATTN_BLOCK_ROWS && role != VKATTN_PAGE_INDICES && byte < 160) word = byte % 24;
        std::memcpy(memory + at, &word, std::min<size_t>(bytes - at, 4));
    }
}

std::vector<std::vector<unsigned char>> Description::outputs() const {
    std::vector<std::vector<unsigned char>> all;
    for (const vkattn_role role : outputRoles) all.emplace_back(memory_[role].get(), memory_[role].get() + bytes_[role]);
    return all;
}

void Description::restoreOutputs() {
    for (const vkattn_role role : outputRoles) std::copy(before_[role].begin(), before_[role].end(), memory_[role].get());
}

Description::Span Description::spanOf(vkattn_role role, uint32_t sequence, uint32_t total, uint32_t most) const {
    const auto entry = [&](uint32_t n) { // the largest up to it, but never more than the total
        uint32_t largest = 0, word = 0;
        for (uint32_t k = 0; k <= n; ++k) {
            std::memcpy(&word, memory_[role].get() + size_t{4} * k, 4);
            largest = std::max(largest, word);
        }
        return std::min(largest, total);
    };
    const uint32_t first = entry(sequence), count = entry(sequence + 1) - first;
    return {first, most ? std::min(count, most) : count};
}

bool Description::written(vkattn_role role, const uint32_t (&index)[4]) const {
    if (!problem.sequences) return true;
    const auto queries = [&](uint32_t n) { return spanOf(VKATTN_CU_SEQ_Q, n, problem.q.extent[2], problem.maxSeqQ); };
    if (role == VKATTN_WEIGHTS || role == VKATTN_SCORES)
        return index[2] < queries(index[0]).count &&
               index[3] < spanOf(VKATTN_CU_SEQ_K, index[0], problem.k.extent[2], problem.maxSeqK).count;
    for (uint32_t n = 0; n < problem.sequences; ++n)
        if (const Span s = queries(n); index[2] >= s.first && index[2] - s.first < s.count) return true;
    return false;
}

std::string Description::damage() const {
    for (const vkattn_role role : outputRoles) {
        if (!memory_[role]) continue;
        std::vector<bool> element(bytes_[role]);
        forEach(layout(role), [&](uint64_t byte, const uint32_t(&index)[4]) {
            if (!written(role, index)) return;
            for (uint64_t n = 0; n < sizeOf(layout(role).dtype); ++n) element[byte + n] = true;
        });
        for (size_t n = 0; n < bytes_[role]; ++n)
            if (!element[n] && memory_[role][n] != before_[role][n])
                return "byte " + std::to_string(n) + " of role " + std::to_string(role) +
                       " is part of no element to be written, and was changed";
    }
    return {};
}

std::string Description::text() const {
    std::string s;
    char line[256];
    const auto add = [&](const char *format, auto... values) {
        std::snprintf(line, sizeof line, format, values...);
        s += line;
    };
    add("flags %u kernel %d slices %u scale %g softcap %g window %d %d roles 0x%x sequences %u max %u %u room %u data %u seed %u\n",
        problem.flags, static_cast<int>(problem.kernel), problem.sliceCount, static_cast<double>(problem.scale),
        static_cast<double>(problem.softcap), problem.windowLeft, problem.windowRight, problem.presentRoles, problem.sequences,
        problem.maxSeqQ, problem.maxSeqK, genes.room, genes.data % 6u, genes.seed);
    add("dilation %u grid %d [%u, %u, %u] sizes %u %u %u shift %u %u %u blocks %d %u x %u of %u, %u entries %u full %u random %u\n",
        problem.dilation, static_cast<int>(problem.grid.rule), problem.grid.extent[0], problem.grid.extent[1], problem.grid.extent[2],
        problem.grid.size[0], problem.grid.size[1], problem.grid.size[2], problem.grid.shift[0], problem.grid.shift[1],
        problem.grid.shift[2], static_cast<int>(problem.blocks.kind), problem.blocks.queries, problem.blocks.keys, problem.blocks.batches,
        problem.blocks.heads, problem.blocks.entries, problem.blocks.full, problem.blocks.random);
    for (const vkattn_role role : tensorRoles) {
        const vkattn_layout &l = layout(role);
        if (l.extent[0] == 0) continue;
        add("role %u type %d [%u, %u, %u, %u] strides %lld %lld %lld %lld offset %llu\n", static_cast<uint32_t>(role),
            static_cast<int>(l.dtype), l.extent[0], l.extent[1], l.extent[2], l.extent[3], static_cast<long long>(l.strideElems[0]),
            static_cast<long long>(l.strideElems[1]), static_cast<long long>(l.strideElems[2]), static_cast<long long>(l.strideElems[3]),
            static_cast<unsigned long long>(l.offsetElems));
    }
    return s;
}

} // namespace vkattn::test
