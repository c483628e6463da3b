// VKATTN_DETERMINISTIC (docs/numerics.md 7): bitwise the same rows whatever else is in the batch and however the work is cut, into slices
// too. Whole problems against the same rows asked for one batch entry, or one sequence of a ragged batch, at a time; each with the device's
// limits and cut into chunks of rows, heads and keys.
#include "forms.hpp"

#include <algorithm>
#include <cstring>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// One batch entry or sequence of an instance as a problem of its own, over the same memory but for the weights: those of a batch of one lie
// elsewhere, and where their rows begin within words is what a softmax might go by.
struct Piece {
    vkattn_problem problem{};
    std::vector<vkattn_operand_memory> operands;
    HostTensor weights;
};

void slice(vkattn_layout &layout, int dimension, uint32_t first, uint32_t count) {
    if (layout.extent[dimension] > 1) layout.offsetElems += static_cast<uint64_t>(first * layout.strideElems[dimension]);
    layout.extent[dimension] = count;
}

Piece pieceOf(test::Instance &in, uint32_t b) {
    const Case &c = in.c;
    const Span &s = in.spans[b];
    Piece piece{in.problem, in.operands, {}};
    vkattn_problem &p = piece.problem;
    const uint32_t qTokens = p.q.extent[2], kTokens = p.k.extent[2];
    for (vkattn_layout *layout : {&p.q, &p.k, &p.v, &p.out, &p.lse}) {
        if (!layout->extent[0]) continue;
        const bool keys = layout == &p.k || layout == &p.v;
        slice(*layout, 0, s.batch, 1);
        slice(*layout, 2, keys ? s.firstKey : s.firstQuery, keys && !c.ragged ? kTokens : keys ? s.keys : s.queries);
    }
    for (vkattn_layout *layout : {&p.weights, &p.bias, &p.mask, &p.bitMask}) {
        if (!layout->extent[0]) continue;
        if (layout->extent[0] > 1) slice(*layout, 0, b, 1);
        if (!c.ragged) continue;
        const bool weights = layout == &p.weights, bits = layout == &p.bitMask;
        if (weights || layout->extent[2] > 1) slice(*layout, 2, 0, s.queries);
        if (weights || bits || layout->extent[3] > 1) slice(*layout, 3, 0, bits ? (s.keys + 31) / 32 : s.keys);
    }
    p.sequences = p.maxSeqQ = p.maxSeqK = 0;
    p.presentRoles &= ~(1u << VKATTN_CU_SEQ_Q | 1u << VKATTN_CU_SEQ_K);
    const auto moveArray = [&](vkattn_role role, size_t elements) {
        for (vkattn_operand_memory &operand : piece.operands)
            if (operand.role == role) operand.data = static_cast<char *>(operand.data) + 4 * elements, operand.bytes -= 4 * elements;
    };
    moveArray(VKATTN_KEY_LENGTHS, b);
    moveArray(VKATTN_DOC_IDS_Q, size_t{s.batch} * qTokens + s.firstQuery);
    moveArray(VKATTN_DOC_IDS_K, size_t{s.batch} * kTokens + s.firstKey);
    if (c.weights) {
        const int64_t rows = s.queries, keys = c.ragged ? s.keys : kTokens;
        const int64_t strides[4] = {c.heads * rows * keys, rows * keys, keys, 1};
        std::copy_n(strides, 4, p.weights.strideElems);
        p.weights.offsetElems = 0;
        piece.weights.make(p.weights, vkattnOperandBytes(&p, VKATTN_WEIGHTS), 0);
        for (vkattn_operand_memory &operand : piece.operands)
            if (operand.role == VKATTN_WEIGHTS) operand = {VKATTN_WEIGHTS, piece.weights.data(), piece.weights.bytes()};
    }
    std::erase_if(piece.operands, [](const vkattn_operand_memory &o) { return o.role == VKATTN_CU_SEQ_Q || o.role == VKATTN_CU_SEQ_K; });
    return piece;
}

// Whether the weights of a piece are those of the whole.
bool sameWeights(const Piece &piece, const HostTensor &whole, uint32_t b) {
    const uint32_t *e = piece.weights.layout.extent;
    for (uint32_t h = 0; h < e[1]; ++h)
        for (uint32_t i = 0; i < e[2]; ++i)
            for (uint32_t j = 0; j < e[3]; ++j)
                if (piece.weights.get(0, h, i, j) != whole.get(b, h, i, j)) return false;
    return true;
}

bool same(const HostTensor &a, const HostTensor &b) {
    return a.layout.extent[0] == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

void checkCase(Case c, Runtime *full, Runtime *tight) {
    c.deterministic = true;
    Random random = randomFor(c.name);
    const auto in = makeInstance(c, random);
    in->collectOperands();
    const Outputs before = in->outputs();
    const auto reset = [&] { in->out = before.out, in->lse = before.lse, in->weights = before.weights, in->collectOperands(); };
    Runtime *runtimes[] = {full, tight};

    ASSERT_EQ(runAndCheck(*runtimes[0], *in), "") << c.name;
    const Outputs whole = in->outputs();
    for (Runtime *runtime : runtimes) {
        const char *limits = runtime == runtimes[0] ? " alone" : " alone, cut into chunks";
        reset();
        const RunResult cut = runtime->run(in->problem, in->operands);
        if (cut.status == VKATTN_ERROR_UNSUPPORTED) continue; // one head of a ragged batch is larger than the tight limit
        ASSERT_EQ(cut.status, VKATTN_OK) << c.name << ": " << cut.message;
        EXPECT_TRUE(same(whole.out, in->out) && same(whole.lse, in->lse) && same(whole.weights, in->weights)) << c.name << " cut";
        for (const uint32_t slices : {3u, 64u}) {
            if (runtime == tight) continue;
            reset();
            vkattn_problem sliced = in->problem;
            sliced.sliceCount = slices;
            const RunResult result = runtime->run(sliced, in->operands);
            ASSERT_EQ(result.status, VKATTN_OK) << c.name << ": " << result.message;
            EXPECT_TRUE(same(whole.out, in->out) && same(whole.lse, in->lse) && same(whole.weights, in->weights))
                << c.name << " in " << slices << " slices";
        }
        reset();
        for (uint32_t b = 0; b < c.batch; ++b) {
            if (in->spans[b].queries == 0) continue;
            Piece piece = pieceOf(*in, b);
            const RunResult result = runtime->run(piece.problem, piece.operands);
            ASSERT_EQ(result.status, VKATTN_OK) << c.name << limits << ": " << result.message;
            EXPECT_TRUE(sameWeights(piece, whole.weights, b)) << c.name << limits << ", entry " << b;
        }
        EXPECT_TRUE(same(whole.out, in->out)) << c.name << limits;
        EXPECT_TRUE(same(whole.lse, in->lse)) << c.name << limits;
    }
}

// Splits of 1024 keys, which chunks of keys must not cut; K of one head is above 64 KiB. Dims that other tests have pipelines for.
void checkFused(Case base, Runtime *full, Runtime *tight) {
    base.headDim = base.valueDim = 8, base.lse = true, base.poison = false, base.keyTokens = 2100;
    for (const uint32_t queries : {1u, 3u, 19u})
        for (const bool causal : {false, true}) {
            Case c = base;
            c.name = "deterministicFused" + std::to_string(queries) + (causal ? "Causal" : "");
            c.queryTokens = queries, c.causal = causal, c.heads = causal ? 6 : 2, c.batch = 3;
            c.window = queries == 19 && causal, c.left = 700;
            checkCase(c, full, tight);
        }
    Case lengths = base;
    lengths.name = "deterministicFusedLengths", lengths.lengths = lengths.sinks = true, lengths.batch = 4;
    checkCase(lengths, full, tight);
    Case mask = base;
    mask.name = "deterministicFusedMask", mask.maskBroadcast = 0, mask.batch = 2, mask.heads = 4;
    checkCase(mask, full, tight);
    Case ragged = base;
    ragged.name = "deterministicFusedRagged", ragged.ragged = ragged.causal = ragged.raggedMax = true, ragged.batch = 4;
    ragged.sequenceLengths = {{5, 1100}, {2, 300}, {9, 9}, {1, 1024}};
    checkCase(ragged, full, tight);
}

} // namespace

class Deterministic : public EveryForm {};
VKATTN_FORMS(Deterministic);

TEST_P(Deterministic, rowsDependOnNothingElse) {
    Runtime *full = runtime(), *tight = full ? runtime(Room::tight) : nullptr;
    if (!tight) return;
    if (form().kernel != VKATTN_KERNEL_STAGED) return checkFused(taken({}), full, tight);
    Case base;
    base.kernel = VKATTN_KERNEL_STAGED;
    base.lse = true, base.batch = 3, base.poison = false;
    std::vector<Case> cases;
    const auto add = [&](const char *name) -> Case & {
        cases.push_back(base);
        cases.back().name = name;
        return cases.back();
    };
    // Keys of one head above 64 KiB, so that keys are cut as well; few rows and many.
    for (const uint32_t queries : {1u, 3u, 9u, 40u})
        for (const bool causal : {false, true}) {
            Case &c = add("deterministicLong");
            c.name += std::to_string(queries) + (causal ? "Causal" : "");
            c.queryTokens = queries, c.keyTokens = 701, c.headDim = c.valueDim = 64, c.causal = causal;
        }
    Case &narrow = add("deterministicNarrow");
    narrow.valueDim = 5, narrow.keyTokens = 333;
    Case &weights = add("deterministicWeights"); // rows of weights begin at odd and even halves
    weights.weights = true, weights.weightsType = VKATTN_F16, weights.keyTokens = 321, weights.batch = 4,
    weights.heads = weights.kvHeads = 1;
    Case &options = add("deterministicOptions");
    options.keyTokens = 701, options.headDim = options.valueDim = 64, options.alibi = options.sinks = options.lengths = true,
    options.documents = Documents::random, options.bitMaskBroadcast = 0, options.biasBroadcast = 0, options.softcap = 3,
    options.window = true, options.left = 300, options.right = 100;
    Case &bfloat = add("deterministicBf16");
    bfloat.q = bfloat.k = bfloat.v = bfloat.out = VKATTN_BF16, bfloat.weights = true, bfloat.weightsType = VKATTN_BF16,
    bfloat.keyTokens = 77;
    for (const bool max : {false, true}) {
        Case &ragged = add(max ? "deterministicRaggedMax" : "deterministicRagged");
        ragged.ragged = true, ragged.raggedMax = max, ragged.batch = 6, ragged.queryTokens = 30, ragged.keyTokens = 90,
        ragged.causal = true;
        ragged.sinks = ragged.alibi = true, ragged.bitMaskBroadcast = 0, ragged.documents = Documents::runs;
        ragged.weights = true, ragged.weightsType = VKATTN_F16, ragged.weightsStyle = Style::padded;
    }
    for (const Case &c : cases) checkCase(c, full, tight);
}
