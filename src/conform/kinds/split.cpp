// VKATTN_DETERMINISTIC (docs/numerics.md 7): bitwise the same rows whatever else is in the batch
// and however the work is cut, into slices too. Whole problems against the same rows asked for one
// batch entry, or one sequence of a ragged batch, at a time; each with the check's limits and cut
// into chunks of rows, heads and keys.
#include "conform/kinds/kinds.hpp"

#include <algorithm>

namespace vkattn::conform {
namespace {

// One batch entry or sequence of a case as a problem of its own, over the same memory but for the
// weights: those of a batch of one lie elsewhere, and where their rows begin within words is what a
// softmax might go by.
struct Piece {
    vkattn_problem problem{};
    std::vector<vkattn_operand_memory> operands;
    HostTensor weights;
};

void slice(vkattn_layout &layout, int dimension, uint32_t first, uint32_t count) {
    if (layout.extent[dimension] > 1) layout.offsetElems += static_cast<uint64_t>(first * layout.strideElems[dimension]);
    layout.extent[dimension] = count;
}

Piece pieceOf(CaseData &in, uint32_t b) {
    const Case &c = in.c;
    const Span &s = in.spans[b];
    Piece piece{in.problem, in.operands, {}};
    vkattn_problem &p = piece.problem;
    p.scores = {}, p.scoresStage = VKATTN_SCORES_RAW; // each is of its pair alone
    std::erase_if(piece.operands, [](const vkattn_operand_memory &o) { return o.role == VKATTN_SCORES; });
    const bool paged = c.pageTokens != 0;
    const uint32_t qTokens = p.q.extent[2], kTokens = c.ragged ? p.k.extent[2] : mostKeys(p);
    for (vkattn_layout *layout : {&p.k, &p.v, &p.k1, &p.v1, &p.k2, &p.v2, &p.k3, &p.v3}) {
        if (!layout->extent[0] || paged) continue; // of pages every batch entry has the whole pool
        slice(*layout, 0, s.batch, 1);
        if (c.ragged) slice(*layout, 2, s.firstKey, s.keys);
    }
    for (vkattn_layout *layout : {&p.q, &p.out, &p.lse, &p.priorOut, &p.priorLse}) {
        if (!layout->extent[0]) continue;
        slice(*layout, 0, s.batch, 1);
        slice(*layout, 2, s.firstQuery, s.queries);
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
    p.presentRoles &= ~(VKATTN_PRESENT(VKATTN_CU_SEQ_Q) | VKATTN_PRESENT(VKATTN_CU_SEQ_K));
    const auto moveArray = [&](vkattn_role role, size_t elements) {
        for (vkattn_operand_memory &operand : piece.operands)
            if (operand.role == role) operand.data = static_cast<char *>(operand.data) + 4 * elements, operand.bytes -= 4 * elements;
    };
    moveArray(VKATTN_KEY_LENGTHS, b);
    moveArray(VKATTN_PAGE_TABLE, size_t{b} * p.tablePages);
    moveArray(VKATTN_PAGE_INDPTR, b);
    moveArray(VKATTN_LAST_PAGE_LENGTHS, b);
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
    if (kTokens == 0) p.kernel = VKATTN_KERNEL_AUTO; // only staged computes nothing
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

bool compareSlices(Finder &find, CaseData &in, const Outputs &whole, const std::function<void()> &reset) {
    for (const uint32_t slices : {3u, 64u}) {
        reset();
        vkattn_problem sliced = in.problem;
        sliced.sliceCount = slices;
        const std::string what = "in " + std::to_string(slices) + " slices";
        if (!find.compute(sliced, in.operands, in, what) || !find.require(sameBytes(whole, in), what + ": other bits than whole"))
            return false;
    }
    return true;
}

bool comparePieces(Finder &find, CaseData &in, const Outputs &whole, const std::string &limits) {
    for (uint32_t b = 0; b < in.c.batch; ++b) {
        if (in.spans[b].queries == 0) continue;
        Piece piece = pieceOf(in, b);
        const std::string what = "batch entry " + std::to_string(b) + " alone" + limits;
        if (!find.compute(piece.problem, piece.operands, in, what) ||
            !find.require(sameWeights(piece, whole.weights, b), what + ": other bits of weights than in the whole batch"))
            return false;
    }
    return find.require(sameBytes(whole.out, in.out) && (!in.c.lse || sameBytes(whole.lse, in.lse)),
                        "batch entries alone" + limits + ": other bits than the whole batch");
}

} // namespace

Finding checkSplit(DeviceUnderTest &device, const Check &given) {
    Check check = given;
    check.c.deterministic = true;
    Finder find(device, check);
    if (!find.open(check.limits)) return find.finding;
    const auto in = caseDataOf(check);
    const Outputs before = in->outputs();
    const auto reset = [&] {
        in->out = before.out, in->lse = before.lse, in->weights = before.weights, in->scores = before.scores, in->collectOperands();
    };
    if (!find.verify(*in, "")) return find.finding;
    const Outputs whole = in->outputs();
    if (!compareSlices(find, *in, whole, reset)) return find.finding;
    reset();
    if (!comparePieces(find, *in, whole, "") || check.limits != Limits::full || !find.open(Limits::tight)) return find.finding;
    // Where one head is larger than the tight limits there is nothing to compare.
    reset();
    vkattn_problem problem = in->problem;
    const RunResult cut = find.runtime->run(problem, in->operands);
    if (cut.status == VKATTN_ERROR_UNSUPPORTED) return find.finding;
    if (!find.require(cut.status == VKATTN_OK, "cut into chunks: " + cut.message) ||
        !find.require(sameBytes(whole, *in), "cut into chunks: other bits than whole"))
        return find.finding;
    reset();
    (void)comparePieces(find, *in, whole, ", cut into chunks");
    return find.finding;
}

} // namespace vkattn::conform
