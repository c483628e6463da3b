#include "conform/cases/case.hpp"

#include "conform/cases/base_case.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace vkattn::conform {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

float normal(Random &random) {
    const double u = (static_cast<double>(random() >> 11) + 1) * 0x1p-53, v = static_cast<double>(random() >> 11) * 0x1p-53;
    return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979323846 * v));
}

void forEach(const HostTensor &tensor, const std::function<void(uint32_t, uint32_t, uint32_t, uint32_t)> &visit) {
    const uint32_t *e = tensor.layout.extent;
    for (uint32_t b = 0; b < e[0]; ++b)
        for (uint32_t h = 0; h < e[1]; ++h)
            for (uint32_t t = 0; t < e[2]; ++t)
                for (uint32_t d = 0; d < e[3]; ++d) visit(b, h, t, d);
}

void fill(HostTensor &tensor, const std::function<float(uint32_t, uint32_t, uint32_t, uint32_t)> &value) {
    forEach(tensor, [&](uint32_t b, uint32_t h, uint32_t t, uint32_t d) { tensor.set(b, h, t, d, value(b, h, t, d)); });
}

} // namespace

uint32_t mostKeys(const vkattn_problem &p) {
    if (p.tablePages || p.pageIndices || p.presentRoles & VKATTN_PRESENT(VKATTN_PAGE_TABLE)) return p.tablePages * p.k.extent[2];
    return p.maxSeqK ? p.maxSeqK : p.k.extent[2] + furtherKeys(p);
}

std::optional<CaseData::KeyPlace> CaseData::placeOf(const Span &s, uint32_t key) const {
    if (pages.empty()) return KeyPlace{s.batch, s.firstKey + key};
    const size_t first = c.csrPages ? pageIndptr[s.batch] : size_t{s.batch} * problem.tablePages;
    const uint32_t page = pages[first + key / problem.k.extent[2]];
    if (page >= problem.k.extent[0]) return std::nullopt;
    return KeyPlace{page, key % problem.k.extent[2]};
}

Span CaseData::spanOf(uint32_t b) const {
    if (!c.ragged) {
        const uint32_t keys = mostKeys(problem);
        if (c.csrPages && c.pageTokens) {
            const auto count = static_cast<uint32_t>(pages.size());
            const uint32_t from = std::min(pageIndptr[b], count), to = std::min(pageIndptr[b + 1], count);
            const uint32_t held = to > from ? std::min(to - from, problem.tablePages) : 0;
            const auto last = static_cast<int32_t>(lastPageLengths[b]), most = static_cast<int32_t>(c.pageTokens);
            return {b, 0, problem.q.extent[2], 0,
                    held ? (held - 1) * c.pageTokens + static_cast<uint32_t>(std::max(1, std::min(last, most))) : 0};
        }
        return {b, 0, problem.q.extent[2], 0, c.lengths ? std::min(lengths[b], keys) : keys};
    }
    // An entry counts as the largest up to it, but never as more than the total.
    const auto entry = [](const std::vector<uint32_t> &cu, uint32_t n, uint32_t total) {
        return std::min(*std::max_element(cu.begin(), cu.begin() + n + 1), total);
    };
    const uint32_t queries = problem.q.extent[2], keys = problem.k.extent[2];
    Span s{};
    s.firstQuery = entry(cuQ, b, queries);
    s.queries = entry(cuQ, b + 1, queries) - s.firstQuery;
    s.firstKey = entry(cuK, b, keys);
    s.keys = entry(cuK, b + 1, keys) - s.firstKey;
    if (problem.maxSeqQ) s.queries = std::min(s.queries, problem.maxSeqQ);
    if (problem.maxSeqK) s.keys = std::min(s.keys, problem.maxSeqK);
    return s;
}

void CaseData::findSpans() {
    spans.clear();
    for (uint32_t b = 0; b < c.batch; ++b) spans.push_back(spanOf(b));
}

bool CaseData::isQuery(uint32_t b, uint32_t token) const {
    if (!c.ragged) return true;
    return std::any_of(spans.begin(), spans.end(),
                       [&](const Span &s) { return s.batch == b && token >= s.firstQuery && token - s.firstQuery < s.queries; });
}

bool CaseData::isKey(uint32_t b, uint32_t token) const {
    if (!c.ragged) return true;
    return std::any_of(spans.begin(), spans.end(),
                       [&](const Span &s) { return s.batch == b && token >= s.firstKey && token - s.firstKey < s.keys; });
}

int64_t CaseData::position(uint32_t b, uint32_t i) const {
    if (c.offsets) {
        const auto limited = [](int64_t tokens) { return std::clamp<int64_t>(tokens, -VKATTN_MAX_OFFSET, VKATTN_MAX_OFFSET); };
        const auto offset = [&](int32_t number, const std::vector<uint32_t> &of) {
            return limited(number + (of.empty() ? 0 : limited(static_cast<int32_t>(of[b]))));
        };
        return i + limited(offset(c.queryOffset.tokens, queryOffsets) - offset(c.keyOffset.tokens, keyOffsets));
    }
    return c.topLeft ? int64_t{i} : int64_t{i} + spans[b].keys - int64_t{spans[b].queries};
}

std::vector<unsigned char> CaseData::visibleKeys(uint32_t b, uint32_t h, uint32_t i) const {
    std::vector<unsigned char> seen(std::max(mostKeys(problem), problem.k.extent[2]));
    // What refuses the problem refuses the run of it too, and says why.
    (void)vkattnCpuVisible(&problem, operands.data(), static_cast<uint32_t>(operands.size()), b, h, i, seen.data(),
                           static_cast<uint32_t>(seen.size()), nullptr);
    return seen;
}

void CaseData::collectOperands() {
    findSpans();
    operands.clear();
    const auto add = [&](vkattn_role role, HostTensor &t) { operands.push_back({role, t.data(), t.bytes()}); };
    const auto addArray = [&](vkattn_role role, auto &array) { operands.push_back({role, array.data(), array.size() * 4}); };
    add(VKATTN_Q, q);
    add(VKATTN_K, k);
    if (!c.keysHoldValues) add(VKATTN_V, c.valuesInKeys ? k : v);
    collectSegments();
    if (c.prior) add(VKATTN_PRIOR_OUT, priorOut), add(VKATTN_PRIOR_LSE, priorLse);
    add(VKATTN_OUT, out);
    if (c.lse) add(VKATTN_LSE, lse);
    if (c.weights) add(VKATTN_WEIGHTS, weights);
    if (c.scores) add(VKATTN_SCORES, scores);
    if (c.maskBroadcast) add(VKATTN_MASK, mask);
    if (c.biasBroadcast) add(VKATTN_BIAS, bias);
    if (c.bitMaskBroadcast) add(VKATTN_BIT_MASK, bitMask);
    if (c.lengths) addArray(VKATTN_KEY_LENGTHS, lengths);
    if (problem.presentRoles & VKATTN_PRESENT(VKATTN_PAGE_TABLE)) addArray(VKATTN_PAGE_TABLE, pages);
    if (problem.pageIndices)
        addArray(VKATTN_PAGE_INDPTR, pageIndptr), addArray(VKATTN_PAGE_INDICES, pages), addArray(VKATTN_LAST_PAGE_LENGTHS, lastPageLengths);
    if (c.ragged) addArray(VKATTN_CU_SEQ_Q, cuQ), addArray(VKATTN_CU_SEQ_K, cuK);
    if (c.documents != Documents::none) addArray(VKATTN_DOC_IDS_Q, docsQ), addArray(VKATTN_DOC_IDS_K, docsK);
    if (c.sinks) addArray(VKATTN_SINKS, sinks);
    if (c.alibi) addArray(VKATTN_ALIBI_SLOPES, slopes);
    if (problem.presentRoles & VKATTN_PRESENT(VKATTN_GLOBAL_TOKENS)) addArray(VKATTN_GLOBAL_TOKENS, globals);
    if (problem.presentRoles & VKATTN_PRESENT(VKATTN_PREFIX_LENGTHS)) addArray(VKATTN_PREFIX_LENGTHS, prefixes);
    if (problem.presentRoles & VKATTN_PRESENT(VKATTN_DILATIONS)) addArray(VKATTN_DILATIONS, dilations);
    if (problem.queryOffset.kind == VKATTN_OFFSET_ARRAY) addArray(VKATTN_QUERY_OFFSETS, queryOffsets);
    if (problem.keyOffset.kind == VKATTN_OFFSET_ARRAY) addArray(VKATTN_KEY_OFFSETS, keyOffsets);
    if (c.blocks == Blocks::mask) operands.push_back({VKATTN_BLOCK_MASK, blockMask.data(), blockMask.size()});
    if (problem.programBufferWords[0]) addArray(VKATTN_PROGRAM_BUFFER_0, hookNumbers);
    if (problem.programBufferWords[1]) addArray(VKATTN_PROGRAM_BUFFER_1, hookBits);
    if (c.blocks == Blocks::lists) addArray(VKATTN_BLOCK_ROWS, blockRows), addArray(VKATTN_BLOCK_COLUMNS, blockColumns);
    if (c.blocks == Blocks::indices) addArray(VKATTN_BLOCK_COUNTS, blockCounts), addArray(VKATTN_BLOCK_INDICES, blockIndices);
    if (c.blocks == Blocks::indices && c.fullBlocks)
        addArray(VKATTN_FULL_BLOCK_COUNTS, fullCounts), addArray(VKATTN_FULL_BLOCK_INDICES, fullIndices);
}

std::vector<CaseData::HeadArray> CaseData::headArrays() {
    std::vector<HeadArray> arrays;
    if (c.sinks) arrays.push_back({"sinks", &sinks});
    if (c.alibi) arrays.push_back({"slopes", &slopes});
    return arrays;
}

std::string CaseData::damage(const Outputs &before) const {
    HostTensor::Elements rows, pairs; // plain batches: every element is written
    if (c.ragged) {
        rows = [&](uint32_t, uint32_t, uint32_t t, uint32_t) {
            return std::any_of(spans.begin(), spans.end(),
                               [&](const Span &s) { return t >= s.firstQuery && t - s.firstQuery < s.queries; });
        };
        pairs = [&](uint32_t b, uint32_t, uint32_t i, uint32_t j) { return i < spans[b].queries && j < spans[b].keys; };
    }
    std::string found = out.damage(before.out, rows);
    if (!found.empty()) return "out: " + found;
    if (c.lse) found = lse.damage(before.lse, rows);
    if (!found.empty()) return "lse: " + found;
    if (c.weights) found = weights.damage(before.weights, pairs);
    if (!found.empty()) return "weights: " + found;
    if (c.scores) found = scores.damage(before.scores, pairs);
    return found.empty() ? found : "scores: " + found;
}

namespace {

// cu_seqlens and the totals of a ragged case; returns {queries, keys} of q and k.
SequenceLength drawSequences(CaseData &in, Random &random) {
    const Case &c = in.c;
    const auto gap = [&] { return c.raggedGaps && random() % 2 ? between(random, 1, 5) : 0; };
    const auto length = [&](uint32_t most) { return random() % 5 ? between(random, 0, most) : 0; };
    SequenceLength end{gap(), gap()}, longest{0, 0};
    in.cuQ = {end.queries}, in.cuK = {end.keys};
    for (uint32_t b = 0; b < c.batch; ++b) {
        const SequenceLength s =
            c.sequenceLengths.empty() ? SequenceLength{length(c.queryTokens), length(c.keyTokens)} : c.sequenceLengths[b];
        in.cuQ.push_back(end.queries += s.queries);
        in.cuK.push_back(end.keys += s.keys);
        longest = {std::max(longest.queries, s.queries), std::max(longest.keys, s.keys)};
    }
    const SequenceLength total{end.queries + gap(), end.keys + gap()};
    if (c.raggedMax) in.problem.maxSeqQ = longest.queries, in.problem.maxSeqK = longest.keys;
    if (c.hostileRagged) {
        const auto spoil = [&](std::vector<uint32_t> &cu, uint32_t most) {
            for (uint32_t &entry : cu) switch (random() % 10) {
                case 0:
                    entry = 0xffffffffu - static_cast<uint32_t>(random() % 3);
                    break;
                case 1:
                    entry = most + between(random, 0, 1000);
                    break;
                case 2:
                case 3:
                    entry = between(random, 0, most);
                    break;
                case 4:
                    entry = 0;
                    break;
                default:
                    break;
                }
            // The last sequence ends past the tokens.
            if (random() % 2) cu.back() = most + between(random, 1, 1000);
        };
        spoil(in.cuQ, total.queries);
        spoil(in.cuK, total.keys);
        if (random() % 2 && total.queries) in.problem.maxSeqQ = between(random, 1, total.queries);
        if (random() % 2 && total.keys) in.problem.maxSeqK = between(random, 1, total.keys);
    }
    return total;
}

// Ids of `rows` rows of `tokens`: the same few documents in queries and keys, so that they meet.
std::vector<uint32_t> drawDocuments(Documents kind, uint32_t rows, uint32_t tokens, Random &random) {
    constexpr uint32_t names[] = {7, 0xffffffffu, 0, 0x80000000u, 0x7fc00000u};
    constexpr uint32_t documents = 5;
    std::vector<uint32_t> ids;
    for (uint32_t b = 0; b < rows; ++b)
        for (uint32_t t = 0; t < tokens; ++t)
            ids.push_back(names[kind == Documents::runs ? static_cast<uint64_t>(t) * documents / tokens : random() % documents]);
    return ids;
}

void drawHeads(CaseData &in, Random &random) {
    const Case &c = in.c;
    for (uint32_t h = 0; h < c.heads; ++h) {
        // The geometric series of the paper, times something, as neither powers of two nor positive
        // slopes are promised.
        const float series = std::exp2(-8 * static_cast<float>(h + 1) / static_cast<float>(c.heads));
        const uint64_t kind = random() % 8;
        in.slopes.push_back(c.alibiSlope.value_or(kind == 0 ? 0 : kind == 1 ? -0.1f * series : kind == 2 ? series : 1.37f * series));
        const float value = normal(random);
        switch (random() % 5) {
        case 0:
            in.sinks.push_back(-infinity);
            break;
        case 1:
            in.sinks.push_back(30 + 10 * value);
            break;
        case 2:
            in.sinks.push_back(-30 + 10 * value);
            break;
        default:
            in.sinks.push_back(value);
        }
        if (c.sink) in.sinks.back() = *c.sink;
    }
}

// NaN and infinity wherever no row may look: keys and values that no query sees, and what belongs
// to no sequence.
void poison(CaseData &in) {
    const Case &c = in.c;
    const uint32_t *q = in.q.layout.extent, *k = in.k.layout.extent;
    const uint32_t group = c.heads / c.kvHeads;
    std::vector<bool> seen(size_t{k[0]} * k[1] * k[2]), asked(size_t{q[0]} * q[2]);
    for (uint32_t b = 0; b < c.batch; ++b) {
        const Span &s = in.spans[b];
        for (uint32_t i = 0; i < s.queries; ++i) asked[size_t{s.batch} * q[2] + s.firstQuery + i] = true;
        for (uint32_t h = 0; h < c.heads; ++h)
            for (uint32_t i = 0; i < s.queries; ++i) {
                const std::vector<unsigned char> keys = in.visibleKeys(b, h, i);
                for (uint32_t j = 0; j < s.keys; ++j)
                    if (const auto at = keys[j] ? in.placeOf(s, j) : std::nullopt)
                        seen[(size_t{at->batch} * k[1] + h / group) * k[2] + at->token] = true;
            }
    }
    for (uint32_t b = 0; b < k[0]; ++b)
        for (uint32_t h = 0; h < k[1]; ++h)
            for (uint32_t t = 0; t < k[2]; ++t) {
                if (seen[(size_t{b} * k[1] + h) * k[2] + t]) continue;
                for (uint32_t d = 0; d < c.headDim; ++d) in.k.set(b, h, t, d, d % 3 ? nan : infinity);
                for (uint32_t d = 0; d < c.valueDim && !c.keysHoldValues; ++d) in.v.set(b, h, t, d, d % 3 ? -infinity : nan);
            }
    for (uint32_t b = 0; b < q[0]; ++b)
        for (uint32_t h = 0; h < q[1]; ++h)
            for (uint32_t t = 0; t < q[2]; ++t)
                if (!asked[size_t{b} * q[2] + t])
                    for (uint32_t d = 0; d < c.headDim; ++d) in.q.set(b, h, t, d, d % 2 ? nan : infinity);
    if (!c.biasBroadcast || !c.ragged) return;
    fill(in.bias, [&, e = in.bias.layout.extent](uint32_t b, uint32_t h, uint32_t i, uint32_t j) {
        bool inside = false;
        for (uint32_t n = 0; n < c.batch && !inside; ++n)
            inside = (e[0] == 1 || n == b) && (e[2] == 1 || i < in.spans[n].queries) && (e[3] == 1 || j < in.spans[n].keys);
        return inside ? in.bias.get(b, h, i, j) : nan;
    });
}

// Whether token t of batch entry or page b of k is this key of a sequence.
bool isKey(const CaseData &in, uint32_t b, uint32_t t, uint32_t key) {
    return std::any_of(in.spans.begin(), in.spans.end(), [&](const Span &s) {
        const auto at = key < s.keys ? in.placeOf(s, key) : std::nullopt;
        return at && t == at->token && (in.pages.empty() || b == at->batch);
    });
}

void fillData(CaseData &in, Random &random) {
    const Case &c = in.c;
    const float scale = c.scale.value_or(1.0f / std::sqrt(static_cast<float>(c.headDim)));
    switch (c.data) {
    case Data::normal:
        fill(in.q, [&](auto...) { return normal(random); });
        fill(in.k, [&](auto...) { return normal(random); });
        fill(in.v, [&](auto...) { return normal(random); });
        break;
    case Data::needle: {
        // q = 1 + noise; the needle's key makes a logit of 30, the others stay near 0.
        const float peak = 30.0f / (scale * static_cast<float>(c.headDim));
        fill(in.q, [&](auto...) { return 1.0f + 0.05f * normal(random); });
        fill(in.k, [&](uint32_t b, uint32_t, uint32_t t, uint32_t) { return isKey(in, b, t, c.needle) ? peak : 0.05f * normal(random); });
        // Numbers that the dtype tells apart: bf16 has 8 bits.
        const uint32_t numbers = c.v == VKATTN_BF16 || c.out == VKATTN_BF16 ? 61 : 1021;
        fill(in.v, [&](uint32_t, uint32_t, uint32_t t, uint32_t d) {
            return static_cast<float>(t % numbers) + 0.25f * static_cast<float>(d % 4);
        });
        break;
    }
    case Data::equal:
        fill(in.q, [&](auto...) { return normal(random); });
        fill(in.k, [&](uint32_t, uint32_t, uint32_t, uint32_t d) { return static_cast<float>(d % 3); });
        fill(in.v, [&](auto...) { return normal(random); });
        break;
    case Data::denormal:
        fill(in.q, [&](auto...) { return normal(random); });
        fill(in.k, [&](auto...) { return normal(random); });
        fill(in.v, [&](auto...) { return (c.v == VKATTN_F16 ? 1e-5f : 1e-39f) * normal(random); });
        break;
    case Data::extreme: {
        const float size = std::sqrt((c.q == VKATTN_F16 || c.k == VKATTN_F16 ? 6e4f : 1e4f) / (scale * static_cast<float>(c.headDim)));
        fill(in.q, [&](auto...) { return random() % 2 ? size : -size; });
        fill(in.k, [&](auto...) { return random() % 2 ? size : -size; });
        fill(in.v, [&](auto...) { return normal(random); });
        break;
    }
    }
}

void describeGrid(const Case &c, uint32_t keys, vkattn_problem &p) {
    if (c.grid == Grid::none || keys == 0) return;
    p.grid.rule = static_cast<vkattn_grid_rule>(c.grid);
    const uint32_t planes = c.gridPlanes && keys % c.gridPlanes == 0 ? c.gridPlanes : 1;
    const uint32_t rows = c.gridRows && keys / planes % c.gridRows == 0 ? c.gridRows : 1;
    const uint32_t extents[] = {planes, rows, keys / planes / rows}, sizes[] = {c.sizePlanes, c.sizeRows, c.sizeColumns};
    for (int axis = 0; axis < 3; ++axis) {
        p.grid.extent[axis] = extents[axis];
        // The largest odd number that a clamped box may have.
        p.grid.size[axis] = c.grid == Grid::clamped ? std::min(sizes[axis], (extents[axis] - 1) | 1u) : sizes[axis];
        if (c.grid == Grid::clamped && p.grid.size[axis] > extents[axis]) p.grid.size[axis] = extents[axis] - 1;
        if (c.grid == Grid::windows) p.grid.shift[axis] = c.gridShift % std::max(sizes[axis], 1u);
    }
}

void describeBlocks(const Case &c, const uint32_t (&extents)[4], vkattn_problem &p) {
    if (c.blocks == Blocks::none || c.blockQueries == 0 || c.blockKeys == 0) return;
    vkattn_blocks &blocks = p.blocks;
    if (c.blocks == Blocks::bigBird && extents[2] != extents[3]) return; // the diagonal is that of a square
    blocks.kind = static_cast<vkattn_block_kind>(c.blocks);
    blocks.queries = c.blockQueries, blocks.keys = c.blockKeys;
    if (c.blocks == Blocks::bigBird) {
        blocks.keys = 0, blocks.random = c.randomBlocks, blocks.seed = uint64_t{c.blockSeed} * 0x100000003u;
        return;
    }
    if (c.blocksOfBatches) blocks.batches = extents[0];
    if (c.blocksOfHeads) blocks.heads = extents[1];
    const uint64_t planes = uint64_t{std::max(blocks.batches, 1u)} * std::max(blocks.heads, 1u);
    const uint64_t rows = planes * ((extents[2] + c.blockQueries - 1) / c.blockQueries),
                   columns = (extents[3] + c.blockKeys - 1) / c.blockKeys;
    if (c.blocks == Blocks::lists) blocks.entries = static_cast<uint32_t>(rows * columns);
    if (c.blocks == Blocks::indices) blocks.full = c.fullBlocks ? 1 : 0;
}

void describeHooks(const Case &c, vkattn_problem &p) {
    p.program = programOf(c.hooks);
    if (!p.program) return;
    p.programWords[0] = 5;
    p.programWords[1] = std::bit_cast<uint32_t>(0.03125f);
    if (changeScores(c.hooks)) p.programBufferWords[0] = hookNumbers;
    if (hidePairs(c.hooks)) p.programBufferWords[1] = hookBits;
}

void describe(CaseData &in, SequenceLength total) {
    const Case &c = in.c;
    vkattn_problem &p = in.problem;
    p.structSize = sizeof p;
    p.flags = (c.causal ? static_cast<uint32_t>(VKATTN_CAUSAL) : 0) | (c.topLeft ? VKATTN_ALIGN_TOP_LEFT : 0) |
              (c.window ? VKATTN_WINDOW : 0) | (c.scale ? VKATTN_SCALE : 0) | (c.deterministic ? VKATTN_DETERMINISTIC : 0) |
              (c.keysHoldValues ? VKATTN_VALUES_IN_KEYS : 0) | (c.rowStatistics && c.lse ? VKATTN_ROW_STATISTICS : 0) |
              (c.weightsDropped && c.weights && c.dropout > 0 ? VKATTN_WEIGHTS_DROPPED : 0);
    const auto present = [&](bool given, vkattn_role role) { p.presentRoles |= given ? VKATTN_PRESENT(role) : 0; };
    present(c.lengths, VKATTN_KEY_LENGTHS);
    present(c.ragged, VKATTN_CU_SEQ_Q);
    present(c.ragged, VKATTN_CU_SEQ_K);
    present(c.documents != Documents::none, VKATTN_DOC_IDS_Q);
    present(c.documents != Documents::none, VKATTN_DOC_IDS_K);
    present(c.sinks, VKATTN_SINKS);
    present(c.alibi, VKATTN_ALIBI_SLOPES);
    present(c.window && c.globalTokens, VKATTN_GLOBAL_TOKENS);
    present(c.causal && c.prefixes, VKATTN_PREFIX_LENGTHS);
    present(c.window && c.dilation && c.headDilations, VKATTN_DILATIONS);
    if (c.window) p.dilation = c.dilation;
    const vkattn_offset_kind kind = c.offsetArrays ? VKATTN_OFFSET_ARRAY : VKATTN_OFFSET_NUMBER;
    if (c.offsets) p.queryOffset = {kind, c.queryOffset.tokens};
    if (c.offsets && c.keyOffset.tokens) p.keyOffset = {kind, c.keyOffset.tokens};
    p.sequences = c.ragged ? c.batch : 0;
    p.kernel = c.kernel;
    p.sliceCount = c.slices;
    p.scale = c.scale.value_or(0);
    p.softcap = c.softcap;
    p.dropout = static_cast<double>(c.dropout);
    if (c.dropout > 0) p.dropoutSeed = uint64_t{c.dropoutSeed} * 0x100000003u, p.dropoutOffset = c.dropoutOffset;
    if (c.window) p.windowLeft = c.left, p.windowRight = c.right;
    const uint32_t batch = c.ragged ? 1 : c.batch;
    p.q = makeLayout(c.q, {batch, c.heads, total.queries, c.headDim}, c.qStyle);
    uint32_t held = batch, tokens = total.keys;
    if (c.pageTokens) {
        p.tablePages = (total.keys + c.pageTokens - 1) / c.pageTokens;
        total.keys = p.tablePages * c.pageTokens;
        held = batch * p.tablePages + 2, tokens = c.pageTokens; // and two that nobody has
        // Fewer than all entries may have together: hostile places lead past them.
        if (c.csrPages) p.pageIndices = std::max(c.batch * p.tablePages * 2 / 3, 1u);
        present(!c.csrPages, VKATTN_PAGE_TABLE);
    }
    p.k = makeLayout(c.k, {held, c.kvHeads, tokens, c.headDim}, c.kStyle);
    p.v = makeLayout(c.v, {held, c.kvHeads, tokens, c.valueDim}, c.vStyle);
    if (c.keysHoldValues) p.v = {};
    p.out = makeLayout(c.out, {batch, c.heads, total.queries, c.valueDim}, c.outStyle);
    if (c.sharedHeads) p.k.strideElems[1] = p.q.strideElems[0] = 0;
    if (c.sharedHeads && !c.keysHoldValues) p.v.strideElems[1] = 0;
    if (c.valuesInKeys) {
        p.v = p.k;
        p.v.extent[3] = c.valueDim;
        p.v.offsetElems += static_cast<uint64_t>(((c.headDim - c.valueDim - 1) | 1) * p.k.strideElems[3]);
    }
    in.kWhole = p.k, in.vWhole = p.v;
    in.describeSegments();
    in.describePrior();
    if (c.lse) p.lse = makeLayout(VKATTN_F32, {batch, c.heads, total.queries, c.rowStatistics ? 2u : 1u}, c.outStyle);
    const uint32_t full[4] = {c.batch, c.heads, p.maxSeqQ ? p.maxSeqQ : total.queries, p.maxSeqK ? p.maxSeqK : total.keys};
    if (c.weights) p.weights = makeLayout(c.weightsType, full, c.weightsStyle);
    if (c.scores) p.scores = makeLayout(c.scoresType, full, c.scoresStyle), p.scoresStage = *c.scores;
    const auto broadcast = [&](vkattn_dtype dtype, uint32_t ones, uint32_t last, Style style) {
        const uint32_t most[4] = {full[0], full[1], full[2], last};
        uint32_t e[4];
        for (uint32_t d = 0; d < 4; ++d) e[d] = ones >> d & 1 ? 1 : most[d];
        return makeLayout(dtype, e, style);
    };
    const uint32_t masked = c.shortMask && full[3] > 4 ? full[3] - full[3] / 3 : full[3];
    if (c.maskBroadcast) p.mask = broadcast(VKATTN_BOOL8, *c.maskBroadcast, masked, c.kStyle);
    if (c.biasBroadcast) p.bias = broadcast(c.biasType, *c.biasBroadcast, masked, c.qStyle);
    describeGrid(c, full[3], p);
    describeBlocks(c, full, p);
    describeHooks(c, p);
    if (c.bitMaskBroadcast) p.bitMask = broadcast(VKATTN_BITS32, *c.bitMaskBroadcast & 7, (full[3] + 31) / 32, c.kStyle);
}

// A third of the columns of each row of blocks; those that are full are others. Hostile: what names no block,
// in any order, and some of it twice.
void drawBlocks(CaseData &in, Random &random) {
    const Case &c = in.c;
    if (c.blocks == Blocks::none) return; // the sizes may then be anything
    const vkattn_problem &p = in.problem;
    const auto words = [&](vkattn_role role) { return vkattnOperandBytes(&p, role) / 4; };
    const uint64_t maskBytes = vkattnOperandBytes(&p, VKATTN_BLOCK_MASK);
    for (uint64_t n = 0; n < maskBytes; ++n) in.blockMask.push_back(random() % 3 ? 0 : static_cast<unsigned char>(1 + random() % 255));
    const uint32_t keys = mostKeys(p), columns = (keys + c.blockKeys - 1) / c.blockKeys;
    const auto garbage = [&] {
        return random() % 2 ? 0xffffffffu - static_cast<uint32_t>(random() % 3) : columns + between(random, 0, 99);
    };
    std::vector<uint32_t> listed, full;
    const auto drawRow = [&] {
        listed.clear(), full.clear();
        for (uint32_t column = 0; column < columns; ++column) {
            const uint64_t kind = random() % 6;
            if (kind < 2) (kind == 0 && c.fullBlocks ? full : listed).push_back(column);
            if (!c.hostileBlocks || listed.size() + 3 > columns) continue;
            if (random() % 8 == 0) listed.push_back(garbage());
            if (random() % 8 == 0 && !listed.empty()) listed.push_back(listed[random() % listed.size()]);
        }
        if (c.hostileBlocks) std::shuffle(listed.begin(), listed.end(), random);
    };
    if (c.blocks == Blocks::lists) {
        const uint64_t planes = uint64_t{std::max(p.blocks.batches, 1u)} * std::max(p.blocks.heads, 1u);
        const uint64_t rows = words(VKATTN_BLOCK_ROWS) / planes - 1;
        for (uint64_t plane = 0; plane < planes; ++plane) {
            in.blockRows.push_back(static_cast<uint32_t>(in.blockColumns.size()));
            for (uint64_t row = 0; row < rows; ++row) {
                drawRow();
                in.blockColumns.insert(in.blockColumns.end(), listed.begin(), listed.end());
                in.blockRows.push_back(static_cast<uint32_t>(in.blockColumns.size()));
                if (c.hostileBlocks && random() % 8 == 0) in.blockRows.back() = random() % 2 ? 0 : 0xfffffffeu;
            }
        }
        in.blockColumns.resize(p.blocks.entries, 0xffffffffu);
    }
    if (c.blocks == Blocks::indices)
        for (uint64_t row = 0; row < words(VKATTN_BLOCK_COUNTS); ++row) {
            drawRow();
            const auto store = [&](std::vector<uint32_t> &from, std::vector<uint32_t> &counts, std::vector<uint32_t> &indices) {
                counts.push_back(static_cast<uint32_t>(from.size()));
                from.resize(columns, garbage()); // entries past the count hold anything
                indices.insert(indices.end(), from.begin(), from.end());
                if (c.hostileBlocks && random() % 8 == 0) counts.back() = 0xffffffffu - static_cast<uint32_t>(random() % 2);
            };
            store(listed, in.blockCounts, in.blockIndices);
            if (c.fullBlocks) store(full, in.fullCounts, in.fullIndices);
        }
}

void drawRules(CaseData &in, Random &random) {
    const Case &c = in.c;
    const vkattn_problem &p = in.problem;
    const auto words = [&](vkattn_role role) { return vkattnOperandBytes(&p, role) / 4; };
    const uint32_t keys = mostKeys(p);
    // Pages in any order; some are those of another place too.
    for (uint64_t n = 0; n < words(VKATTN_PAGE_TABLE) + words(VKATTN_PAGE_INDICES); ++n) in.pages.push_back(static_cast<uint32_t>(n) + 1);
    std::shuffle(in.pages.begin(), in.pages.end(), random);
    for (uint32_t &page : in.pages) {
        if (random() % 8 == 0) page = in.pages[random() % in.pages.size()];
        if (c.hostilePages && random() % 4 == 0)
            page = random() % 2 ? static_cast<uint32_t>(-1 - static_cast<int>(random() % 3)) : p.k.extent[0] + between(random, 0, 9);
    }
    if (p.pageIndices) {
        in.pageIndptr.push_back(0);
        for (uint32_t b = 0; b < c.batch; ++b) {
            const uint32_t end = in.pageIndptr.back() + between(random, 0, p.tablePages);
            in.pageIndptr.push_back(c.hostilePages ? end : std::min(end, p.pageIndices));
            in.lastPageLengths.push_back(between(random, 1, c.pageTokens));
            if (c.hostilePages && random() % 3 == 0)
                in.lastPageLengths.back() = random() % 2 ? 0x80000000u : c.pageTokens + between(random, 1, 99);
        }
        for (uint32_t &end : in.pageIndptr)
            if (c.hostilePages && random() % 4 == 0) end = random() % 2 ? 0xfffffff0u : between(random, 0, p.pageIndices);
    }
    for (uint64_t n = 0; n < words(VKATTN_GLOBAL_TOKENS); ++n)
        in.globals.push_back(random() % 4 == 0 ? 0 : static_cast<uint32_t>(random() & random() & random()));
    for (uint64_t n = 0; n < words(VKATTN_PREFIX_LENGTHS); ++n)
        in.prefixes.push_back(random() % 8 == 0 ? 0xfffffff0u + static_cast<uint32_t>(random() % 16) : between(random, 0, keys));
    const auto drawOffsets = [&](vkattn_role role, std::vector<uint32_t> &into) {
        for (uint64_t n = 0; n < words(role); ++n) {
            const int64_t near = static_cast<int64_t>(between(random, 0, 2 * keys + 2)) - keys - 1;
            into.push_back(c.hostileOffsets && random() % 3 == 0 ? static_cast<uint32_t>(random()) : static_cast<uint32_t>(near));
        }
    };
    drawOffsets(VKATTN_QUERY_OFFSETS, in.queryOffsets), drawOffsets(VKATTN_KEY_OFFSETS, in.keyOffsets);
    for (uint64_t n = 0; n < words(VKATTN_DILATIONS); ++n) in.dilations.push_back(between(random, 0, c.dilation + 2));
    for (uint64_t n = 0; n < words(VKATTN_PROGRAM_BUFFER_0); ++n)
        in.hookNumbers.push_back(std::bit_cast<uint32_t>(static_cast<float>(between(random, 0, 64)) * 0.03125f - 1.0f));
    for (uint64_t n = 0; n < words(VKATTN_PROGRAM_BUFFER_1); ++n) // three of four pairs are seen
        in.hookBits.push_back(static_cast<uint32_t>(random() | random()));
    drawBlocks(in, random);
}

} // namespace

vkattn_problem descriptionOf(const Case &c) {
    CaseData in;
    in.c = c;
    SequenceLength total{c.queryTokens, c.keyTokens};
    if (c.ragged && !c.sequenceLengths.empty()) {
        in.c.batch = static_cast<uint32_t>(c.sequenceLengths.size());
        total = {0, 0};
        for (const SequenceLength &s : c.sequenceLengths) total.queries += s.queries, total.keys += s.keys;
    } else if (c.ragged) {
        total.queries *= c.batch, total.keys *= c.batch;
    }
    describe(in, total);
    return in.problem;
}

std::unique_ptr<CaseData> makeCaseData(const Case &asked, Random &random) {
    auto made = std::make_unique<CaseData>();
    CaseData &in = *made;
    in.c = asked;
    const Case &c = in.c;
    if (c.ragged && !c.sequenceLengths.empty()) in.c.batch = static_cast<uint32_t>(c.sequenceLengths.size());
    describe(in, c.ragged ? drawSequences(in, random) : SequenceLength{c.queryTokens, c.keyTokens});
    vkattn_problem &p = in.problem;
    // Memory of a problem that is none would have no bytes, and be filled nevertheless.
    if (vkattn_diagnostic why{}; vkattnValidateProblem(&p, &why) != VKATTN_OK)
        throw std::logic_error("a case is no problem: " + c.name + ": " + why.message);

    const auto make = [&](HostTensor &t, const vkattn_layout &l, vkattn_role role) { t.make(l, vkattnOperandBytes(&p, role), 0xff); };
    make(in.q, p.q, VKATTN_Q); // gaps of inputs hold NaN
    vkattn_problem whole = p;  // k and v have all keys, whatever segments make of them
    whole.k = in.kWhole, whole.v = in.vWhole, whole.k1 = whole.v1 = whole.k2 = whole.v2 = whole.k3 = whole.v3 = {};
    in.k.make(in.kWhole, vkattnOperandBytes(&whole, VKATTN_K), 0xff);
    in.v.make(in.vWhole, vkattnOperandBytes(&whole, VKATTN_V), 0xff);
    make(in.out, p.out, VKATTN_OUT);
    in.out.fillRandomly(random);
    if (c.lse) make(in.lse, p.lse, VKATTN_LSE), in.lse.fillRandomly(random);
    if (c.weights) make(in.weights, p.weights, VKATTN_WEIGHTS), in.weights.fillRandomly(random);
    if (c.scores) make(in.scores, p.scores, VKATTN_SCORES), in.scores.fillRandomly(random);
    if (c.maskBroadcast) {
        make(in.mask, p.mask, VKATTN_MASK);
        fill(in.mask, [&](auto...) { return random() % 3 ? static_cast<float>(1 + random() % 255) : 0.0f; });
    }
    if (c.bitMaskBroadcast) { // bits past the last key hold anything
        make(in.bitMask, p.bitMask, VKATTN_BIT_MASK);
        forEach(in.bitMask, [&](uint32_t b, uint32_t h, uint32_t t, uint32_t d) {
            const auto one = static_cast<uint32_t>(random()), other = static_cast<uint32_t>(random());
            in.bitMask.setWord(b, h, t, d, random() % 8 ? one | other : 0);
        });
    }
    if (c.biasBroadcast) {
        make(in.bias, p.bias, VKATTN_BIAS);
        fill(in.bias, [&](uint32_t, uint32_t, uint32_t t, uint32_t) {
            if (static_cast<float>(random() % 1000) < c.biasHidden * 1000) return -infinity;
            return c.biasConstant && t % 2 == 0 ? *c.biasConstant : 2 * normal(random);
        });
    }
    if (c.lengths)
        for (uint32_t b = 0; b < c.batch; ++b) {
            in.lengths.push_back(between(random, 0, c.keyTokens));
            if (c.hostileLengths && b % 2 == 0) in.lengths.back() = b % 4 ? 0xffffffffu : c.keyTokens + between(random, 1, 1000);
        }
    if (c.documents != Documents::none) {
        in.docsQ = drawDocuments(c.documents, p.q.extent[0], p.q.extent[2], random);
        in.docsK = drawDocuments(c.documents, p.q.extent[0], c.ragged ? p.k.extent[2] : mostKeys(p), random);
    }
    if (c.sinks || c.alibi) drawHeads(in, random);
    drawRules(in, random);
    in.drawPrior(random);
    in.collectOperands();
    fillData(in, random);
    if (c.poison && !c.sharedHeads && !c.valuesInKeys) poison(in);
    if (c.segments) in.collectOperands(); // segments hold what k and v do
    // For who reads it: the operand is k's memory.
    if (c.valuesInKeys) in.v = in.k, in.v.layout = p.v;
    if (c.keysHoldValues) in.v = in.k, in.v.layout.extent[3] = c.valueDim;
    return made;
}

} // namespace vkattn::conform
