// The dispatches of the staged path: per chunk of rows, sinks, scores and the pair terms for each
// chunk of keys, softmax, values for each chunk of keys. Order, per chunk of rows with n chunks of
// keys, as far as the problem has the terms:
//     sinks, scores x n | pairs x n for each term | softmax | hooks x n | values | values | ...
// where hooks that make weights of scores stand in place of the softmax, and those that change
// probabilities behind it. With a barrier at every bar; dispatches between bars touch disjoint columns of the workspace. Where
// scores are an output, a copy of them follows the pairs, each chunk of keys behind a bar; and of a
// stage that hides nothing, scores that are made for it come first, with their copy.
// Ragged batches begin with one dispatch that reads where the sequences lie.
#include "core/kernels/staged.hpp"
#include "core/plan/operands.hpp"
#include "core/plan/prior.hpp"
#include "core/plan/tuning/table.hpp"

#include <algorithm>
#include <bit>

namespace vkattn {
namespace {

// How many rows a chunk has depends on limits and batch size; what must not depend on them takes
// one class.
TileClass rowClass(const Plan &plan, const Chunk &c) {
    return !plan.problem.deterministic && c.queries < plan.tuning.fewRowsBelow ? fewRows : manyRows;
}

void makeSinks(const Plan &plan, const Chunk &c, Dispatch &d) {
    Chunk column = c; // behind the scores
    column.keyFirst = plan.rowPitch - 1;
    column.keys = 1;
    SinksPush push{};
    setChunk(push, plan, column);
    setPush(d, push);
    d.operands[0] = scoresOperand(plan, true);
    d.operands[1] = headsOperand(VKATTN_SINKS, c, offsetof(SinksPush, base));
    d.operands[2] = d.operands[3] = standIn(d.operands[1]);
    d.key = pipelineKey(Module::sinks, plan.tuning.pairLanes, {});
    d.groups[0] = divideUp(c.queries, plan.tuning.pairLanes);
    d.groups[1] = 1;
}

} // namespace

void staged::makeScores(const Plan &plan, const Chunk &c, Dispatch &d) {
    const Problem &p = plan.problem;
    const Tensor &q = p.tensor(VKATTN_Q), &k = p.tensor(p.roleAt(VKATTN_K, c.keyFirst));
    ScoresPush push{};
    setPosition(push, plan, c);
    setChunk(push, plan, c);
    push.groupSize = p.groupSize();
    push.headPhase = c.headFirst % p.groupSize();
    push.headFirst = c.headFirst;
    push.headDim = p.headDim;
    push.scale = p.scale;
    push.softcap = p.softcap;
    push.qBatch = stride(q, 0), push.qHead = stride(q, 1), push.qToken = stride(q, 2), push.qDim = stride(q, 3);
    push.kBatch = stride(k, 0), push.kHead = stride(k, 1), push.kToken = stride(k, 2), push.kDim = stride(k, 3);
    setPush(d, push);
    d.operands[0] = scoresOperand(plan, true);
    d.operands[1] = rowsOperand(p, VKATTN_Q, c, offsetof(ScoresPush, qBase));
    d.operands[2] = keysOperand(p, VKATTN_K, c, offsetof(ScoresPush, kBase));
    // Not the scores: validation would see a read of them that the next chunk overwrites.
    d.operands[3] = lengthsOperand(plan, c, offsetof(ScoresPush, lengthsBase), d.operands[1]);
    const TileShape &tile = plan.tuning.scores[rowClass(plan, c)];
    d.key = pipelineKey(Module::scores, tile.invocations(),
                        {.kvFormat = elementType(p, VKATTN_K),
                         .pairTerms = pairTermsOf(p) & (termSoftcap | termPages | termsOfReach | termsOfRules),
                         .elementTypes = elementType(p, VKATTN_Q)},
                        {tile.lanesX, tile.lanesY, tile.perLaneX, tile.perLaneY});
    d.groups[0] = divideUp(c.keys, tile.sizeX());
    d.groups[1] = divideUp(c.queries, tile.sizeY());
}

namespace {

constexpr uint32_t termsBehindSums = termProbabilityHook | termRowHook;

} // namespace

uint32_t staged::termsOfPairs(const Problem &p, uint32_t elsewhere) {
    const uint32_t terms = pairTermsOf(p) & ~elsewhere;
    // Both hooks of a program take one dispatch.
    const uint32_t both = termScoreHook | termVisibleHook, together = (terms & both) == both ? uint32_t{termVisibleHook} : 0;
    return terms & ~(termSoftcap | termDropout | termDilated | termPlanes | termPrefix | termsBehindSums | together);
}

namespace {

// One term of pairs, with what goes with the term, or all termsBehindSums of the problem.
void makeTerm(const Plan &plan, const Chunk &c, uint32_t term, Dispatch &d) {
    const Problem &p = plan.problem;
    vkattn_role roles[2] = {};
    uint32_t count = 0;
    for (const PairTermOperand &each : pairTermOperands)
        if (each.term == term) roles[count++] = each.role;
    PairsPush push{};
    setPosition(push, plan, c);
    setChunk(push, plan, c);
    push.headFirst = c.headFirst;
    const auto place = [&](vkattn_role role, PairStrides &strides, size_t basePushByte) {
        strides = pairStrides(p, role);
        return chunkOperand(p, role, c, basePushByte);
    };
    const auto lengths = [&](const Operand &other) { return lengthsOperand(plan, c, offsetof(PairsPush, lengthsBase), other); };
    d.operands[slotWorkspace] = scoresOperand(plan, true);
    // The scores stand in for nothing: validation would see a read of them beside another chunk's
    // writes.
    if (count == 0) { // a rule has its data in the table
        d.operands[slotStagedLengths] = lengths(d.operands[slotWorkspace]);
        d.operands[slotFirst] = d.operands[slotSecond] = standIn(d.operands[slotStagedLengths]);
    } else {
        d.operands[slotFirst] = place(roles[0], push.firstStrides, offsetof(PairsPush, firstBase));
        d.operands[slotSecond] =
            count > 1 ? place(roles[1], push.secondStrides, offsetof(PairsPush, secondBase)) : standIn(d.operands[slotFirst]);
        d.operands[slotStagedLengths] = lengths(d.operands[slotFirst]);
    }
    setPush(d, push);
    const uint32_t with = term == termLocal ? termDilated : term == termGrid ? termPlanes : term == termScoreHook ? termVisibleHook : 0;
    d.key = pipelineKey(
        Module::pairs, plan.tuning.pairLanes,
        {.pairTerms = term | (pairTermsOf(p) & with), .elementTypes = term == termBias ? elementType(p, VKATTN_BIAS) << typesBias : 0},
        {plan.tuning.pairKeysPerLane});
    d.groups[0] = divideUp(c.keys, plan.tuning.pairLanes * plan.tuning.pairKeysPerLane);
    d.groups[1] = c.queries;
}

} // namespace

void staged::makePairs(const Plan &plan, const Chunk &c, uint32_t terms, uint32_t number, Dispatch &d) {
    for (; number; --number) terms &= terms - 1; // in the order of the formula: lowest bit first
    makeTerm(plan, c, terms & ~(terms - 1), d);
}

void staged::makeValues(const Plan &plan, const Chunk &c, bool firstKeys, bool lastKeys, Dispatch &d) {
    const Problem &p = plan.problem;
    const Tensor &v = p.tensor(p.roleAt(VKATTN_V, c.keyFirst)), &out = p.tensor(VKATTN_OUT);
    ValuesPush push{};
    setPosition(push, plan, c);
    setChunk(push, plan, c);
    push.flags |= (firstKeys ? flagFirstKeys : 0) | (lastKeys ? flagLastKeys : 0);
    push.groupSize = p.groupSize();
    push.headPhase = c.headFirst % p.groupSize();
    push.headFirst = c.headFirst;
    push.valueDim = p.valueDim;
    push.sumsBase = static_cast<uint32_t>(plan.sumsOffset);
    push.factor = 1;
    push.vBatch = stride(v, 0), push.vHead = stride(v, 1), push.vToken = stride(v, 2), push.vDim = stride(v, 3);
    push.oBatch = stride(out, 0), push.oHead = stride(out, 1), push.oToken = stride(out, 2), push.oDim = stride(out, 3);
    setPush(d, push);
    d.operands[0] = scoresOperand(plan, !(firstKeys && lastKeys));
    d.operands[1] = p.keyTokens ? keysOperand(p, VKATTN_V, c, offsetof(ValuesPush, vBase)) : unused(plan);
    d.operands[2] = rowsOperand(p, VKATTN_OUT, c, offsetof(ValuesPush, oBase));
    d.operands[3] = lengthsOperand(plan, c, offsetof(ValuesPush, lengthsBase), d.operands[0]);
    const TileClass rows = rowClass(plan, c);
    const TileShape &tile = plan.tuning.values[rows == manyRows && p.valueDim <= plan.tuning.narrowUpTo ? narrow : rows];
    d.key = pipelineKey(Module::values, tile.invocations(),
                        {.kvFormat = elementType(p, VKATTN_V) << formatVType,
                         .pairTerms = pairTermsOf(p) & (termPages | termsOfReach | termsOfRules),
                         .elementTypes = elementType(p, VKATTN_OUT) << typesOut},
                        {tile.lanesX, tile.lanesY, tile.perLaneX, tile.perLaneY});
    d.groups[0] = divideUp(p.valueDim, tile.sizeX());
    d.groups[1] = divideUp(c.queries, tile.sizeY());
}

namespace {

void makeSoftmax(const Plan &plan, const Chunk &c, Dispatch &d) {
    const Problem &p = plan.problem;
    const Tensor &lse = p.tensor(VKATTN_LSE), &weights = p.tensor(VKATTN_WEIGHTS);
    SoftmaxPush push{};
    setPosition(push, plan, c);
    setChunk(push, plan, c);
    push.flags |= (lse.present() ? flagLse : 0) | (p.rowStatistics ? flagRowStatistics : 0) | (weights.present() ? flagWeights : 0) |
                  (p.has(VKATTN_SINKS) ? flagSinks : 0) | (p.goesOn() ? flagSinks | flagGoesOn : 0) |
                  (p.deterministic ? flagFixedOrder : 0) | (p.weightsDropped ? flagWeightsDropped : 0);
    push.planeFirst = planeFirst(p, c);
    setDropout(push, p);
    push.lseBatch = stride(lse, 0), push.lseHead = stride(lse, 1), push.lseToken = stride(lse, 2), push.lseEntry = stride(lse, 3);
    push.wBatch = stride(weights, 0), push.wHead = stride(weights, 1), push.wToken = stride(weights, 2), push.wKey = stride(weights, 3);
    setPush(d, push);
    const bool writesWeights = weights.present() && p.keyTokens > 0;
    d.operands[0] = scoresOperand(plan, true);
    d.operands[1] = lse.present() ? rowsOperand(p, VKATTN_LSE, c, offsetof(SoftmaxPush, lseBase)) : unused(plan);
    d.operands[2] = writesWeights ? pairsOperand(p, VKATTN_WEIGHTS, c, 0, p.keyTokens, offsetof(SoftmaxPush, wBase)) : unused(plan);
    d.operands[3] = lengthsOperand(plan, c, offsetof(SoftmaxPush, lengthsBase), d.operands[0]);
    const bool longRows = p.keyTokens > maxKeysPerLane * plan.tuning.softmaxLanes[manyRows];
    const uint32_t lanes = plan.tuning.softmaxLanes[longRows ? fewRows : manyRows];
    d.key = pipelineKey(
        Module::softmax, lanes,
        {.pairTerms = pairTermsOf(p) & (termDropout | termsOfReach), .elementTypes = elementType(p, VKATTN_WEIGHTS) << typesWeights},
        {lanes});
    d.groups[0] = c.queries;
    d.groups[1] = 1;
}

// Every pair's score up to the stage that is written, whoever sees it.
void makeOpenScores(const Plan &plan, const Chunk &c, Dispatch &d) {
    Plan open = plan;
    Problem &p = open.problem;
    p.left = p.right = openWindow;
    if (p.scoresStage == VKATTN_SCORES_RAW) p.scale = 1;
    if (p.scoresStage != VKATTN_SCORES_CAPPED) p.softcap = 0;
    staged::makeScores(open, c, d);
    d.key.constants[constantPairTerms] &= ~(termsOfReach | termsOfRules);
}

// Scores of the workspace into the tensor.
void makeScoresOutput(const Plan &plan, const Chunk &c, Dispatch &d) {
    const Problem &p = plan.problem;
    const Tensor &scores = p.tensor(VKATTN_SCORES);
    WriteScoresPush push{};
    setPosition(push, plan, c);
    setChunk(push, plan, c);
    push.oBatch = stride(scores, 0), push.oHead = stride(scores, 1), push.oQuery = stride(scores, 2), push.oKey = stride(scores, 3);
    setPush(d, push);
    d.operands[slotWorkspace] = scoresOperand(plan, false);
    d.operands[slotFirst] = pairsOperand(p, VKATTN_SCORES, c, c.keyFirst, c.keys, offsetof(WriteScoresPush, oBase));
    d.operands[slotSecond] = standIn(d.operands[slotFirst]);
    d.operands[slotStagedLengths] = lengthsOperand(plan, c, offsetof(WriteScoresPush, lengthsBase), d.operands[slotWorkspace]);
    d.key = pipelineKey(Module::writeScores, plan.tuning.pairLanes,
                        {.elementTypes = elementType(p, VKATTN_SCORES) << typesOut,
                         .form = p.scoresStage == VKATTN_SCORES_FINAL ? uint32_t{formFinalScores} : 0},
                        {plan.tuning.pairKeysPerLane});
    d.groups[0] = divideUp(c.keys, plan.tuning.pairLanes * plan.tuning.pairKeysPerLane);
    d.groups[1] = c.queries;
}

// What goes over all chunks of keys before the softmax.
enum class Pass { openScores, output, scores, pairs };
struct Passes {
    uint32_t opening, pairs, closing; // of the output: before the scores, and behind the pairs

    explicit Passes(const Problem &p) : opening(0), pairs(static_cast<uint32_t>(std::popcount(staged::termsOfPairs(p)))), closing(0) {
        if (!p.tensor(VKATTN_SCORES).present()) return;
        if (p.scoresStage == VKATTN_SCORES_FINAL)
            closing = 1;
        else
            opening = 2;
    }
    [[nodiscard]] uint32_t count() const { return opening + 1 + pairs + closing; }
    [[nodiscard]] Pass operator[](uint32_t n) const {
        if (n < opening) return n == 0 ? Pass::openScores : Pass::output;
        if (n == opening) return Pass::scores;
        return n - opening <= pairs ? Pass::pairs : Pass::output;
    }
};

// Dispatches of hooks that make weights of scores, or change probabilities; and of the softmax.
uint32_t hookPasses(const Plan &plan) {
    return pairTermsOf(plan.problem) & termsBehindSums && plan.problem.keyTokens ? plan.keyChunks : 0;
}
// Of what stands behind the scores: sinks, and what rows go on from.
uint32_t columnPasses(const Problem &p) {
    return p.has(VKATTN_SINKS) || p.goesOn() ? 1 : 0;
}
uint32_t softmaxPasses(const Plan &plan) {
    return plan.problem.program.sumless() && plan.problem.keyTokens ? 0 : 1;
}

} // namespace

uint32_t staged::dispatchesPerRowChunk(const Plan &plan) {
    const Problem &problem = plan.problem;
    const uint32_t keyChunks = plan.keyChunks;
    const uint32_t columns = columnPasses(problem), prior = problem.goesOn() ? 1 : 0;
    if (problem.keyTokens == 0) return columns + prior + 2; // without keys only softmax and values run
    // The values go over them once more.
    return columns + keyChunks * (Passes(problem).count() + 1) + softmaxPasses(plan) + hookPasses(plan) + prior;
}

Dispatch staged::dispatch(const Plan &plan, uint32_t index) {
    const Problem &p = plan.problem;
    Dispatch d;
    d.operandCount = plainSlots;
    const uint32_t setUp = plan.setUpDispatches;
    if (index < setUp) {
        makeTable(plan, index, d);
        return d;
    }
    const uint32_t keyedChunks = p.keyTokens ? plan.keyChunks : 0;
    const uint32_t valuesChunks = std::max(keyedChunks, 1u);
    const uint32_t perRowChunk = dispatchesPerRowChunk(plan), valuesAt = perRowChunk - valuesChunks,
                   priorAt = valuesAt - (p.goesOn() ? 1 : 0), hooksAt = priorAt - hookPasses(plan),
                   softmaxAt = hooksAt - softmaxPasses(plan);
    const uint32_t columns = columnPasses(p);
    const uint32_t rowChunk = (index - setUp) / perRowChunk, step = (index - setUp) % perRowChunk;

    Chunk c = rowsOfChunk(plan, rowChunk);
    const auto select = [&](uint32_t n) { selectKeys(plan, n, c); };

    d.groups[2] = c.batches * c.heads;
    if (step < columns) {
        if (p.goesOn())
            makePrior(plan, c, formPriorColumn, scoresOperand(plan, true), d);
        else
            makeSinks(plan, c, d);
        d.barrierBefore = index > 0;
    } else if (step < softmaxAt) {
        const uint32_t pass = (step - columns) / keyedChunks, n = (step - columns) % keyedChunks;
        select(n);
        const Passes passes(p);
        const Pass kind = passes[pass];
        if (kind == Pass::openScores) makeOpenScores(plan, c, d);
        if (kind == Pass::output) makeScoresOutput(plan, c, d);
        if (kind == Pass::scores) makeScores(plan, c, d);
        if (kind == Pass::pairs) makePairs(plan, c, termsOfPairs(p), pass - passes.opening - 1, d);
        // The sinks and the scores touch different columns; what chunks of keys write of an output's rows
        // lies within the ranges of each other.
        d.barrierBefore = index > 0 && (kind == Pass::output || (n == 0 && (pass > 0 || columns == 0)));
    } else if (step < hooksAt) {
        c.keys = p.keyTokens;
        makeSoftmax(plan, c, d);
        d.barrierBefore = index > 0;
    } else if (step < priorAt) {
        const uint32_t n = step - hooksAt;
        select(n);
        makeTerm(plan, c, pairTermsOf(p) & termsBehindSums, d);
        d.barrierBefore = n == 0;
    } else if (step < valuesAt) {
        makePrior(plan, c, formPriorSums, scoresOperand(plan, true), d);
        d.barrierBefore = true;
    } else {
        const uint32_t n = step - valuesAt;
        select(n);
        makeValues(plan, c, n == 0 && !p.goesOn(), n + 1 == valuesChunks, d);
        d.barrierBefore = true;
    }
    return d;
}

} // namespace vkattn
