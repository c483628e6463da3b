#include "tool/arrays/job.hpp"

#include "program/failure.hpp"
#include "tool/arrays/program_file.hpp"
#include "tool/arrays/shapes.hpp"
#include "tool/cache/past_keys.hpp"
#include "tool/options/names.hpp"

#include <vkattn/operations.hpp>
#include <vkattn/vkattn.hpp>

#include <algorithm>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr uint32_t wordsOf(uint32_t keys) {
    return keys / 32 + (keys % 32 != 0 ? 1 : 0);
}

void checkAgreement(const Operand &q, const Operand &k, const Operand &v, bool paged) {
    for (const Operand *operand : {&q, &k, &v}) requireSomething(*operand, mostDims);
    if (!paged) requireEqual(q, k, batch, "batch (first of 4 dimensions)");
    requireEqual(k, v, batch, paged ? "pages (first dimension)" : "batch (first of 4 dimensions)");
    requireEqual(q, k, dim, "dim (last dimension)");
    requireEqual(k, v, head, "number of heads (third dimension from the end)");
    requireEqual(k, v, token, "number of tokens (second dimension from the end)");
    if (q.layout.extent[head] % k.layout.extent[head] != 0)
        disagree(q, k,
                 "the number of key heads must divide that of the query heads, and " + std::to_string(k.layout.extent[head]) +
                     " does not divide " + std::to_string(q.layout.extent[head]));
}

// `pairs`: [batch, head, query, key], ragged [sequence, head, query, key] of the longest sequences.
void checkBroadcast(const Input &input, const Extents &pairs, bool ragged) {
    const bool words = input.role() == VKATTN_BIT_MASK;
    std::vector<uint64_t> expected(pairs, pairs + 4);
    if (words) expected[3] = wordsOf(pairs[3]);
    for (size_t i = 0; i < 4; i++) {
        const uint32_t extent = input.layout().extent[i];
        if (extent == expected[i] || (extent == 1 && !(words && i == 3))) continue;
        if (i == 3 && !words && !ragged && extent > 1 && extent < expected[i]) continue; // later keys are hidden
        throw Failure(
            input.text() + " does not broadcast to [" + (ragged ? "sequence" : "batch") + ", head, query, " + (words ? "word" : "key") +
            "] = " + npyShapeText(expected) + ": counted from the last, each of its dimensions must be that or 1" +
            (words ? ", and the last one ceil(keys / 32), one bit for each of " + std::to_string(pairs[3]) + " keys" : "") +
            (ragged ? "; the longest sequences have " + std::to_string(pairs[2]) + " queries and " + std::to_string(pairs[3]) + " keys"
                    : ""));
    }
}

// One number for each of something; where that is 1 a scalar will do.
void checkCount(const Input &input, uint32_t count, const std::string &what) {
    const NpyHeader &header = input.header();
    const bool scalar = header.dataBytes == header.type.itemBytes && count == 1;
    if (!scalar && !(header.shape.size() == 1 && header.shape[0] == count))
        throw Failure(input.text() + ": expected one " + what + ", shape (" + std::to_string(count) + ",)");
}

void checkTokens(const Input &input, uint32_t batchEntries, uint32_t tokens, const std::string &each) {
    const std::vector<uint64_t> &shape = input.header().shape;
    const bool fits =
        !shape.empty() && shape.size() <= 2 && shape.back() == tokens && (shape.size() == 1 || shape[0] == batchEntries || shape[0] == 1);
    if (!fits)
        throw Failure(input.text() + ": expected one " + each + " for each token, shape (" + std::to_string(tokens) + ",) or (" +
                      std::to_string(batchEntries) + ", " + std::to_string(tokens) + ")");
}

// A mask of blocks, of one head or of each.
void describeBlockMask(const Input &input, const Extents &pairs, vkattn_blocks &blocks) {
    const std::vector<uint64_t> &shape = input.header().shape;
    const auto count = [](uint64_t tokens, uint32_t size) { return (tokens + size - 1) / size; };
    const uint64_t rows = count(pairs[2], blocks.queries), columns = count(pairs[3], blocks.keys);
    const bool planes = shape.size() == 3;
    if ((shape.size() != 2 && !planes) || shape[shape.size() - 2] != rows || shape.back() != columns ||
        (planes && shape[0] != 1 && shape[0] != pairs[head]))
        throw Failure(input.text() + ": expected a flag for each block of " + std::to_string(blocks.queries) + " queries and " +
                      std::to_string(blocks.keys) + " keys, shape (" + std::to_string(rows) + ", " + std::to_string(columns) +
                      "), or one for " + "each head too, shape (" + std::to_string(pairs[head]) + ", " + std::to_string(rows) + ", " +
                      std::to_string(columns) + ")");
    blocks.kind = VKATTN_BLOCKS_MASK;
    blocks.heads = planes ? static_cast<uint32_t>(shape[0]) : 1;
}

// A grid has as many tokens as there are keys, and BigBird's blocks as many queries.
void checkRuleTokens(const vkattn_problem &problem, const Extents &pairs, const Operand &q, const Operand &k) {
    const vkattn_grid &grid = problem.grid;
    uint64_t tokens = 1;
    std::string extents;
    for (const uint32_t extent : grid.extent) {
        if (extent == 0) continue;
        extents += (extents.empty() ? "" : "x") + std::to_string(extent);
        if (tokens <= pairs[3]) tokens *= extent; // what is too large does not grow: nothing overflows
    }
    if (grid.rule != VKATTN_GRID_NONE && tokens != pairs[3])
        throw Failure(std::string(grid.rule == VKATTN_GRID_WINDOWS ? "--windows" : "--neighbourhood") + ": a grid of " + extents +
                      " tokens, expected as many as the " + std::to_string(pairs[3]) + " keys of " +
                      (problem.sequences > 0 ? "the longest sequence" : k.text));
    if (problem.blocks.kind == VKATTN_BLOCKS_BIGBIRD && pairs[2] != pairs[3])
        throw Failure("--bigbird: " + std::to_string(pairs[2]) + " queries and " + std::to_string(pairs[3]) + " keys of " + q.text +
                      " and " + k.text + ", expected as many queries as keys: its blocks lie about the diagonal");
}

// The offsets of ragged sequences; reads them.
void describeRagged(vkattn_problem &problem, Input &offsetsQ, Input &offsetsK, const Operand &q, const Operand &k) {
    constexpr uint64_t maxSequences = 1u << 30;
    if (q.layout.extent[batch] != 1)
        throw Failure(q.text + ": has " + std::to_string(q.layout.extent[batch]) +
                      " batch entries, expected 1 with --cu-seqlens-q: ragged sequences lie one after the other in the tokens of "
                      "[head, token, dim], or give padded entries with --kv-lengths");
    for (const Input *offsets : {&offsetsQ, &offsetsK}) {
        const std::vector<uint64_t> &shape = offsets->header().shape;
        if (shape.size() != 1 || shape[0] < 2 || shape[0] > maxSequences + 1)
            throw Failure(offsets->text() +
                          ": expected where each sequence begins and the last one ends, shape (sequences + 1,) with 1 to " +
                          std::to_string(maxSequences) + " sequences");
    }
    const uint64_t count = offsetsQ.header().shape[0];
    if (offsetsK.header().shape[0] != count)
        throw Failure("shapes disagree: " + offsetsQ.text() + " and " + offsetsK.text() + ": they need the same number of sequences, not " +
                      std::to_string(count - 1) + " and " + std::to_string(offsetsK.header().shape[0] - 1));
    const uint32_t queries = q.layout.extent[token], keys = k.layout.extent[token];
    problem.sequences = static_cast<uint32_t>(count - 1);
    // 0 would mean the totals: where all sequences are empty a length of 1 is the least that can be
    // said.
    problem.maxSeqQ = std::max(offsetsQ.readOffsets(queries, "query"), std::min(queries, 1u));
    problem.maxSeqK = std::max(offsetsK.readOffsets(keys, "key"), std::min(keys, 1u));
}

// The rows of a page table, or pages in CSR, of which no entry has more than there are.
void describePages(std::vector<Input> &inputs, const Operand &q, vkattn_problem &problem) {
    const uint32_t entries = q.layout.extent[batch];
    for (const Input &input : inputs) {
        if (input.role() == VKATTN_LAST_PAGE_LENGTHS) checkCount(input, entries, "length of the last page of each batch entry");
        if (input.role() != VKATTN_PAGE_INDICES) continue;
        const std::vector<uint64_t> &shape = input.header().shape;
        if (shape.size() != 1 || shape[0] == 0 || shape[0] > 1u << 30)
            throw Failure(input.text() + ": expected the pages of all batch entries, shape (pages,), at least 1 and at most 2^30");
        problem.pageIndices = static_cast<uint32_t>(shape[0]);
    }
    for (Input &input : inputs) {
        if (input.role() != VKATTN_PAGE_INDPTR) continue;
        checkCount(input, entries + 1, "place for each batch entry of q, and one more");
        problem.tablePages = input.readPagePlaces(problem.pageIndices);
    }
    for (const Input &input : inputs) {
        if (input.role() != VKATTN_PAGE_TABLE) continue;
        const std::vector<uint64_t> &shape = input.header().shape;
        if (shape.size() != 2 || shape[0] != entries || shape[1] == 0 || shape[1] * problem.k.extent[token] > 1u << 30)
            throw Failure(input.text() + ": expected a row of pages for each batch entry of " + q.text + ", shape (" +
                          std::to_string(entries) + ", pages), at most 2^30 keys together");
        problem.presentRoles |= VKATTN_PRESENT(VKATTN_PAGE_TABLE);
        problem.tablePages = static_cast<uint32_t>(shape[1]);
    }
}

// The files of a run, in the rank of the queries' file.
void addOutputs(const RunArguments &arguments, Job &job) {
    const vkattn_problem &problem = job.problem;
    const std::vector<uint64_t> &queries = job.inputs[0].header().shape;
    const std::vector<uint64_t> rows(queries.begin(), queries.end() - 1);
    const auto with = [&](uint64_t last) {
        std::vector<uint64_t> shape = rows;
        shape.push_back(last);
        return shape;
    };
    const auto add = [&](vkattn_role role, vkattn_dtype dtype, std::vector<uint64_t> shape) {
        job.outputs.push_back(outputArray(arguments, operation(problem), role, dtype, std::move(shape)));
    };
    add(VKATTN_OUT, problem.out.dtype, with(problem.out.extent[dim]));
    if (!arguments.files[VKATTN_LSE].empty()) add(VKATTN_LSE, VKATTN_F32, arguments.rowStatistics ? with(2) : rows);
    for (const auto &[role, layout] : {std::pair{VKATTN_WEIGHTS, &problem.weights}, {VKATTN_SCORES, &problem.scores}}) {
        if (arguments.files[role].empty()) continue;
        // The rows of a ragged batch are not those of its pairs.
        const uint32_t *extent = layout->extent;
        add(role, VKATTN_F32, problem.sequences > 0 ? std::vector<uint64_t>(extent, extent + 4) : with(extent[3]));
    }
}

// The words of what a program reads: every element, in C order.
uint32_t countOfBuffer(const Input &input) {
    const uint64_t count = input.header().dataBytes / input.header().type.itemBytes;
    if (count == 0 || count > 1u << 30)
        throw Failure(input.text() + ": " + std::to_string(count) + " elements, but " + input.option() + " takes 1 to 2^30");
    return static_cast<uint32_t>(count);
}

// What goes with pairs or with rows, once the extents are known: files of the job, and what is
// assumed to be there.
void describeOptions(const std::vector<Input> &inputs, vkattn_problem &problem, const Extents &pairs, const Assumptions &assumed) {
    const bool ragged = problem.sequences > 0;
    for (const Input &input : inputs) {
        if (isProgramBuffer(input.role())) {
            problem.programBufferWords[input.role() - VKATTN_PROGRAM_BUFFER_0] = countOfBuffer(input);
            continue;
        }
        switch (input.role()) {
        case VKATTN_MASK:
        case VKATTN_BIT_MASK:
        case VKATTN_BIAS:
            checkBroadcast(input, pairs, ragged);
            (input.role() == VKATTN_MASK ? problem.mask : input.role() == VKATTN_BIAS ? problem.bias : problem.bitMask) = input.layout();
            continue;
        case VKATTN_KEY_LENGTHS:
            checkCount(input, pairs[batch], "key length for each batch entry");
            break;
        case VKATTN_PREFIX_LENGTHS:
            checkCount(input, pairs[batch], "prefix length for each batch entry");
            break;
        case VKATTN_QUERY_OFFSETS:
        case VKATTN_KEY_OFFSETS:
            checkCount(input, pairs[batch], "offset for each batch entry");
            continue;
        case VKATTN_GLOBAL_TOKENS:
            checkTokens(input, pairs[batch], pairs[3], "flag");
            break;
        case VKATTN_BLOCK_MASK:
            describeBlockMask(input, pairs, problem.blocks);
            continue;
        case VKATTN_DOC_IDS_Q:
        case VKATTN_DOC_IDS_K:
            checkTokens(input, problem.q.extent[batch], input.role() == VKATTN_DOC_IDS_Q ? problem.q.extent[token] : keysOf(problem),
                        "document id");
            break;
        default:
            if (const char *each = ofEachHead(input.role())) checkCount(input, pairs[head], std::string(each) + " for each query head");
            break;
        }
        if (isSmallArray(input.role()) && !isPageArray(input.role())) problem.presentRoles |= VKATTN_PRESENT(input.role());
    }
    const auto assumes = [&](vkattn_role role) { return assumed.roles.test(role); };
    // Masks and biases broadcast over batch entries and heads, as most do.
    if (assumes(VKATTN_MASK)) problem.mask = packed(VKATTN_BOOL8, 1, 1, pairs[2], pairs[3]);
    if (assumes(VKATTN_BIAS)) problem.bias = packed(assumed.dtype, 1, 1, pairs[2], pairs[3]);
    if (assumes(VKATTN_BIT_MASK)) problem.bitMask = packed(VKATTN_BITS32, 1, 1, pairs[2], wordsOf(pairs[3]));
    for (const OperandName &name : operandNames)
        if (isSmallArray(name.role) && assumes(name.role)) problem.presentRoles |= VKATTN_PRESENT(name.role);
    if (assumed.sequences > 0) problem.presentRoles |= VKATTN_PRESENT(VKATTN_CU_SEQ_Q) | VKATTN_PRESENT(VKATTN_CU_SEQ_K);
}

} // namespace

void describeAttention(const RunArguments &arguments, const Assumptions &assumed, std::vector<Input> &inputs, const Operand &q,
                       const Operand &k, vkattn_problem &problem, Extents &pairs) {
    problem.structSize = sizeof problem;
    problem.flags = arguments.flags;
    problem.kernel = arguments.kernel;
    problem.q = q.layout;
    problem.k = k.layout;
    problem.scale = arguments.scale;
    problem.softcap = arguments.softcap;
    problem.dropout = arguments.dropout;
    if (arguments.dropout > 0) { // nothing is drawn without: one description for each problem
        problem.dropoutSeed = arguments.dropoutSeed;
        problem.dropoutOffset = arguments.dropoutOffset;
    }
    problem.dilation = arguments.rules.dilation;
    problem.grid = arguments.rules.grid;
    problem.queryOffset = arguments.rules.queryOffset, problem.keyOffset = arguments.rules.keyOffset;
    if (arguments.rules.blocks.kind || !arguments.files[VKATTN_BLOCK_MASK].empty()) problem.blocks = arguments.rules.blocks;
    problem.program = programOf(arguments);
    std::copy(arguments.program.words.begin(), arguments.program.words.end(), problem.programWords);
    problem.windowLeft = arguments.windowLeft;
    problem.windowRight = arguments.windowRight;
    problem.sequences = assumed.sequences;
    problem.maxSeqQ = assumed.maxSeqQ;
    problem.maxSeqK = assumed.maxSeqK;
    const auto offsets = std::find_if(inputs.begin(), inputs.end(), [](const Input &i) { return i.role() == VKATTN_CU_SEQ_Q; });
    if (offsets != inputs.end()) {
        checkMemory({{offsets[0].path(), offsets[0].header().dataBytes}, {offsets[1].path(), offsets[1].header().dataBytes}});
        // The table of operands has them one after the other.
        describeRagged(problem, offsets[0], offsets[1], q, k);
    }
    describePages(inputs, q, problem);
    const bool ragged = problem.sequences > 0;
    pairs[batch] = ragged ? problem.sequences : q.layout.extent[batch];
    pairs[head] = q.layout.extent[head];
    pairs[2] = problem.maxSeqQ > 0 ? problem.maxSeqQ : q.layout.extent[token];
    pairs[3] = problem.maxSeqK > 0 ? problem.maxSeqK : keysOf(problem);
    checkRuleTokens(problem, pairs, q, k);
    describeOptions(inputs, problem, pairs, assumed);
}

Job describeProblem(const RunArguments &arguments, const Assumptions &assumed) {
    Job job;
    Operand operands[3];
    job.inputs = openInputs(arguments);
    for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V}) {
        Operand &operand = operands[role];
        if (role == VKATTN_V && arguments.valuesInKeys > 0) {
            // Of the keys' memory, so that extents agree.
            operand = operands[VKATTN_K];
            operand.layout.extent[dim] = arguments.valuesInKeys;
            continue;
        }
        if (!assumed.shapes[role].empty())
            operand = assumedOperand(operandName(role).option, assumed.shapes[role], assumed.dtype);
        else
            operand = {job.inputs[role].text(), job.inputs[role].layout()};
    }
    const vkattn_dtype outDtype = arguments.outDtype.value_or(operands[VKATTN_Q].layout.dtype);
    if (arguments.roundTo) {
        for (Operand &operand : operands) operand.layout.dtype = *arguments.roundTo;
        for (Input &input : job.inputs)
            if (input.role() <= VKATTN_V || input.role() == VKATTN_K_1 || input.role() == VKATTN_V_1) input.roundTo(*arguments.roundTo);
    }
    auto &[q, k, v] = operands;
    const bool paged = !arguments.files[VKATTN_PAGE_TABLE].empty() || !arguments.files[VKATTN_PAGE_INDPTR].empty();
    for (const vkattn_role role : {VKATTN_K, VKATTN_V}) {
        if (!paged) break;
        const std::vector<uint32_t> &shape = assumed.shapes[role];
        const bool ofKeys = role == VKATTN_V && arguments.valuesInKeys > 0;
        const size_t dimensions = !shape.empty() ? shape.size() : job.inputs[ofKeys ? VKATTN_K : role].header().shape.size();
        operands[role].layout = poolOfPages(operands[role].text, dimensions, operands[role].layout, arguments.headsFirst);
    }
    checkAgreement(q, k, v, paged);
    for (const vkattn_role role : {VKATTN_K, VKATTN_V}) {
        if (!arguments.kvType) break;
        vkattn_layout &layout = operands[role].layout;
        layout.dtype = VKATTN_F32;
        job.ofFiles[role - VKATTN_K].layout = layout;
        const Extents extent = {layout.extent[batch], layout.extent[head], layout.extent[token], layout.extent[dim]};
        layout = dense(operands[role].text, *arguments.kvType, extent);
        for (Input &input : job.inputs)
            if (input.role() == role) input.roundTo(VKATTN_F32);
    }
    // The same memory, of rows as long as those of the keys.
    if (arguments.kvType && arguments.valuesInKeys > 0) {
        v.layout = k.layout;
        v.layout.extent[dim] = arguments.valuesInKeys;
    }
    job.projections =
        describeTokenProjections(arguments, !arguments.files[VKATTN_KEY_LENGTHS].empty() || assumed.roles.test(VKATTN_KEY_LENGTHS), k, v);

    vkattn_problem &problem = job.problem;
    Operand firstK = k, firstV = v;
    takePast(job.inputs, firstK, firstV, problem);
    if (arguments.valuesInKeys == 0) problem.v = firstV.layout;
    problem.sliceCount = arguments.slices;
    Extents pairs;
    describeAttention(arguments, assumed, job.inputs, q, firstK, problem, pairs);
    // Attention sees every projected key.
    if (!job.projections.list.empty()) problem.presentRoles &= ~VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
    const uint32_t *extent = q.layout.extent;

    const auto wants = [&](vkattn_role role) { return !arguments.files[role].empty() || assumed.roles.test(role); };
    const auto output = [&](vkattn_role role, vkattn_dtype dtype, const Extents &extents) {
        return dense(std::string(operandName(arguments, role).option) + " " + arguments.files[role], dtype, extents);
    };
    problem.out = output(VKATTN_OUT, outDtype, {extent[batch], extent[head], extent[token], v.layout.extent[dim]});
    takePrior(job.inputs, problem);
    if (wants(VKATTN_LSE))
        problem.lse = output(VKATTN_LSE, VKATTN_F32, {extent[batch], extent[head], extent[token], arguments.rowStatistics ? 2u : 1u});
    if (wants(VKATTN_WEIGHTS)) problem.weights = output(VKATTN_WEIGHTS, VKATTN_F32, pairs);
    if (wants(VKATTN_SCORES)) problem.scores = output(VKATTN_SCORES, VKATTN_F32, pairs), problem.scoresStage = arguments.scoresStage;

    vkattn_diagnostic why{};
    if (vkattnValidateProblem(&problem, &why) != VKATTN_OK) {
        std::vector<std::string> given;
        for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V})
            if (!assumed.shapes[0].empty() && !(role == VKATTN_V && arguments.valuesInKeys > 0)) given.push_back(operands[role].text);
        if (arguments.valuesInKeys > 0) given.push_back("--values-in-keys " + std::to_string(arguments.valuesInKeys));
        failInvalid(why, job, std::move(given));
    }
    return job;
}

Job describeJob(const RunArguments &arguments) {
    Job job = describeProblem(arguments);
    addOutputs(arguments, job);
    for (const std::string &path : arguments.rules.globalProjections)
        if (!path.empty()) job.otherFiles.push_back(path);
    for (const Input &matrix : job.projections.matrices) job.otherFiles.push_back(matrix.path());
    checkMemory(namedBytes(job, operation(job.problem)));
    return job;
}

} // namespace vkattn::tool
