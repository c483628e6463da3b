#include "core/plan/tuning/table.hpp"

#include "core/plan/chunks.hpp"
#include "core/plan/operands.hpp"

#include <algorithm>

namespace vkattn {
namespace {

// Lanes of a workgroup that gathers rules.
constexpr uint32_t ruleLanes = 64;
// Of a shader that goes over rows of blocks: see maxKeysPerDispatch.
constexpr uint64_t maxRoundsOfBlocks = 60000;
static_assert(mostOffset == maxOffset);
static_assert(programWordCount == programWords && programBufferCount == programBuffers);

// What a dispatch of the set-up does.
enum class Part {
    sequences,
    entries,
    offsets,
    pages,
    runs,
    dilations,
    globals,
    summary,
    blocks,
    fullBlocks,
    program,
    buffer0,
    buffer1,
    buffer2,
    buffer3
};
struct Parts {
    Part list[15];
    uint32_t count = 0;

    explicit Parts(const Problem &p) {
        const auto add = [&](bool wanted, Part part) {
            if (wanted) list[count++] = part;
        };
        const vkattn_block_kind kind = p.rules.blocks.kind;
        add(p.ragged(), Part::sequences);
        add(p.hasRules(), Part::entries);
        add(p.hasOffsets(), Part::offsets);
        add(p.paged(), Part::pages);
        add(p.paged(), Part::runs);
        add(p.has(VKATTN_DILATIONS), Part::dilations);
        add(p.rules.global && p.keyTokens > 0, Part::globals);
        add(p.rules.global && p.keyTokens > 0, Part::summary);
        const bool anyBlock = p.rules.blockRows > 0 && p.rules.blockColumns > 0;
        add(kind != VKATTN_BLOCKS_NONE && anyBlock, Part::blocks);
        add(kind == VKATTN_BLOCKS_INDICES && p.rules.blocks.full && anyBlock, Part::fullBlocks);
        add(p.program.hooks != 0, Part::program);
        for (uint32_t n = 0; n < programBuffers; ++n)
            add(p.program.bufferWords[n] != 0, static_cast<Part>(static_cast<uint32_t>(Part::buffer0) + n));
    }
};

vkattn_role pagesOf(const Problem &p) {
    return p.pageIndices ? VKATTN_PAGE_INDICES : VKATTN_PAGE_TABLE;
}

Operand wholeTable(const Plan &plan) {
    return {VKATTN_WORKSPACE, 0, plan.tableBytes, 0, noPushWord, 4, true};
}
Operand wholeArray(const Problem &p, vkattn_role role, size_t basePushByte) {
    Operand operand = arrayOperand(role, 0, arrayLength(p, role), 0, basePushByte);
    operand.elementSize = arrayElementBytes(role);
    operand.endBytes = p.bytesUsed(role).end;
    return operand;
}
// Two arrays, each of which may be absent.
void bindArrays(const Problem &p, vkattn_role first, vkattn_role second, size_t firstBase, size_t secondBase, Dispatch &d) {
    const auto bind = [&](vkattn_role role, size_t base) {
        return role != VKATTN_ROLE_LIMIT && p.has(role) && p.bytesUsed(role).size() ? wholeArray(p, role, base)
                                                                                    : standIn(d.operands[slotWorkspace]);
    };
    d.operands[slotFirst] = bind(first, firstBase);
    d.operands[slotSecond] = bind(second, secondBase);
    d.operands[slotStagedLengths] = standIn(d.operands[slotFirst]);
}

void makeSequences(const Plan &plan, Dispatch &d) {
    const Problem &p = plan.problem;
    SequencesPush push{};
    push.sequences = p.batch;
    push.totalQueries = p.tensor(VKATTN_Q).extent[2];
    push.totalKeys = p.tensor(VKATTN_K).extent[2];
    push.maxQueries = p.queryTokens;
    push.maxKeys = p.keyTokens;
    setPush(d, push);
    bindArrays(p, VKATTN_CU_SEQ_Q, VKATTN_CU_SEQ_K, offsetof(SequencesPush, cuQBase), offsetof(SequencesPush, cuKBase), d);
    d.key = pipelineKey(Module::sequences, plan.tuning.sequenceLanes, {}, {plan.tuning.sequenceLanes});
}

void finishRules(const RulesPush &push, Dispatch &d) {
    setPush(d, push);
    d.key = pipelineKey(Module::rules, ruleLanes, {});
    d.groups[0] = std::max(divideUp(push.count, ruleLanes), 1u);
}

// Looking for what a tile may skip takes at most so many rounds, of rows of blocks above all: software
// devices leave a shader after 65,535 (maxKeysPerDispatch).
constexpr uint64_t mostSkipRounds = 16384, mostShortStretches = 1024;
constexpr uint32_t widestTile = 256;

// Of a tile of so many tokens, without a limit of short stretches.
SkipRounds lookingRounds(const Problem &p, uint32_t tileTokens) {
    const vkattn_blocks &blocks = p.rules.blocks;
    const TableLayout at = tableLayout(p);
    SkipRounds rounds;
    // The loop over stretches, the loop over the steps of one, and one through the summary.
    rounds.perStretch = 6;
    rounds.through = at.summaryWords;
    if (blocks.kind == VKATTN_BLOCKS_NONE) return rounds;
    const uint64_t heads = blocks.heads > 1 ? std::min(p.groupSize(), 16u) : 1, rows = tileTokens / blocks.queries + 2;
    const uint64_t columns = tileTokens / blocks.keys / 32 + 2;
    rounds.perStretch += std::max(heads * (rows + 2), columns + 1) + 2;
    rounds.through += std::max(heads * (rows + 2) * at.blockWords, (columns + 1) * p.rules.blockRows);
    return rounds;
}

void makeEntries(const Plan &plan, const TableLayout &at, Dispatch &d) {
    const Problem &p = plan.problem;
    const Rules &rules = p.rules;
    RulesPush push{};
    push.what = ruleStepEntries;
    push.count = p.batch;
    push.flags = (p.ragged() ? ruleRagged : 0) | (p.has(VKATTN_KEY_LENGTHS) ? ruleKeyLengths : 0) |
                 (p.has(VKATTN_PREFIX_LENGTHS) ? rulePrefixLengths : 0);
    push.queryTokens = p.queryTokens;
    push.keyTokens = p.keyTokens;
    uint32_t *const header = push.given;
    header[ruleDilations] = static_cast<uint32_t>(at.dilations);
    header[ruleDilation] = rules.dilation;
    header[ruleLeft] = static_cast<uint32_t>(rules.windowLeft);
    header[ruleRight] = static_cast<uint32_t>(rules.windowRight);
    header[ruleGlobals] = static_cast<uint32_t>(at.globals);
    header[ruleGlobalWords] = at.globalWords;
    header[ruleSummary] = static_cast<uint32_t>(at.summary);
    header[ruleSummaryWords] = at.summaryWords;
    header[ruleGrid] =
        static_cast<uint32_t>(rules.grid.rule) | plan.flash.patchRows << gridPatchRows | plan.flash.patchColumns << gridPatchColumns;
    for (uint32_t axis = 0; axis < 3; ++axis) {
        header[ruleExtents + axis] = rules.grid.extent[axis];
        header[ruleSizes + axis] = rules.grid.size[axis];
        header[ruleShifts + axis] = rules.grid.shift[axis];
    }
    header[ruleBlocks] = static_cast<uint32_t>(at.blocks);
    header[ruleBlockQueries] = rules.blocks.queries;
    header[ruleBlockKeys] = rules.blocks.keys;
    header[ruleBlockEntry] = rules.blocks.batches > 1 ? static_cast<uint32_t>(at.blockPlane * rules.blocks.heads) : 0;
    header[ruleBlockHead] = rules.blocks.heads > 1 ? static_cast<uint32_t>(at.blockPlane) : 0;
    header[ruleBlockRow] = at.blockWords;
    header[ruleSkips] = shortStretches(p);
    bindArrays(p, VKATTN_KEY_LENGTHS, VKATTN_PREFIX_LENGTHS, offsetof(RulesPush, firstBase), offsetof(RulesPush, secondBase), d);
    finishRules(push, d);
}

void makeOffsetsOfEntries(const Problem &p, Dispatch &d) {
    RulesPush push{};
    push.what = ruleStepOffsets;
    push.count = p.batch;
    push.flags = (p.has(VKATTN_QUERY_OFFSETS) ? ruleQueryOffsets : 0) | (p.has(VKATTN_KEY_OFFSETS) ? ruleKeyOffsets : 0);
    push.given[0] = static_cast<uint32_t>(p.queryOffset.tokens);
    push.given[1] = static_cast<uint32_t>(p.keyOffset.tokens);
    bindArrays(p, VKATTN_QUERY_OFFSETS, VKATTN_KEY_OFFSETS, offsetof(RulesPush, firstBase), offsetof(RulesPush, secondBase), d);
    finishRules(push, d);
}

void makeCopy(const Problem &p, vkattn_role role, uint64_t place, uint32_t least, uint32_t most, uint32_t mostGroups, Dispatch &d) {
    RulesPush push{};
    push.what = ruleStepCopy;
    push.count = static_cast<uint32_t>(arrayLength(p, role));
    push.given[0] = static_cast<uint32_t>(place);
    push.given[1] = least;
    push.given[2] = most;
    bindArrays(p, role, VKATTN_ROLE_LIMIT, offsetof(RulesPush, firstBase), offsetof(RulesPush, secondBase), d);
    finishRules(push, d);
    d.groups[0] = std::min(d.groups[0], mostGroups); // each lane copies more where there are not as many
}

void makePages(const Problem &p, const TableLayout &at, uint32_t mostGroups, Dispatch &d) {
    RulesPush push{};
    push.what = ruleStepPages;
    const vkattn_role role = pagesOf(p);
    push.count = static_cast<uint32_t>(arrayLength(p, role));
    push.given[0] = static_cast<uint32_t>(at.pages);
    push.given[2] = ~0u;
    const auto header = [&](uint32_t word) -> uint32_t & { return push.given[3 + word - rulePages]; };
    header(rulePages) = static_cast<uint32_t>(at.pages);
    header(rulePageTokens) = p.pageTokens;
    header(rulePoolPages) = p.poolPages();
    header(rulePages + rulePageWords) = p.pageIndices ? 0 : p.tablePages;
    bindArrays(p, role, VKATTN_ROLE_LIMIT, offsetof(RulesPush, firstBase), offsetof(RulesPush, secondBase), d);
    finishRules(push, d);
    d.groups[0] = std::min(d.groups[0], mostGroups);
}

void makePageRuns(const Problem &p, Dispatch &d) {
    RulesPush push{};
    push.what = ruleStepRuns;
    push.count = p.batch;
    const bool csr = p.pageIndices != 0;
    if (!csr) push.given[0] = std::max(p.tablePages, 1u);
    push.given[1] = p.pageIndices;
    push.given[2] = p.tablePages;
    push.given[3] = p.pageTokens;
    bindArrays(p, csr ? VKATTN_PAGE_INDPTR : VKATTN_ROLE_LIMIT, csr ? VKATTN_LAST_PAGE_LENGTHS : VKATTN_ROLE_LIMIT,
               offsetof(RulesPush, firstBase), offsetof(RulesPush, secondBase), d);
    finishRules(push, d);
}

void makeProgram(const Problem &p, const TableLayout &at, Dispatch &d) {
    RulesPush push{};
    push.what = ruleStepProgram;
    push.count = 1;
    std::copy_n(p.program.words, programWords, push.given);
    for (uint32_t n = 0; n < programBuffers; ++n) {
        push.given[ruleProgramPlaces - ruleProgram + n] = static_cast<uint32_t>(at.programBuffers[n]);
        push.given[ruleProgramLengths - ruleProgram + n] = p.program.bufferWords[n];
    }
    bindArrays(p, VKATTN_ROLE_LIMIT, VKATTN_ROLE_LIMIT, offsetof(RulesPush, firstBase), offsetof(RulesPush, secondBase), d);
    finishRules(push, d);
}

void makeSummary(const Problem &p, const TableLayout &at, Dispatch &d) {
    RulesPush push{};
    push.what = ruleStepSummary;
    push.count = at.summaryWords * p.batch;
    push.given[0] = static_cast<uint32_t>(at.summary);
    push.given[1] = at.globalWords;
    push.given[2] = at.summaryWords;
    bindArrays(p, VKATTN_GLOBAL_TOKENS, VKATTN_ROLE_LIMIT, offsetof(RulesPush, firstBase), offsetof(RulesPush, secondBase), d);
    finishRules(push, d);
}

void makeBlocks(const Problem &p, const TableLayout &at, bool full, uint32_t mostGroups, Dispatch &d) {
    const Rules &rules = p.rules;
    const vkattn_blocks &blocks = rules.blocks;
    BlocksPush push{};
    push.kind = static_cast<uint32_t>(blocks.kind);
    push.add = full ? 1 : 0;
    push.rows = rules.blockRows;
    push.columns = rules.blockColumns;
    push.planes = static_cast<uint32_t>(rules.blockPlanes());
    push.rowWords = at.blockWords;
    push.place = static_cast<uint32_t>(at.blocks);
    push.entries = blocks.entries;
    push.random = blocks.random;
    push.seedLow = static_cast<uint32_t>(blocks.seed), push.seedHigh = static_cast<uint32_t>(blocks.seed >> 32);
    setPush(d, push);
    vkattn_role roles[2] = {VKATTN_ROLE_LIMIT, VKATTN_ROLE_LIMIT};
    if (blocks.kind == VKATTN_BLOCKS_MASK) roles[0] = VKATTN_BLOCK_MASK;
    if (blocks.kind == VKATTN_BLOCKS_LISTS) roles[0] = VKATTN_BLOCK_ROWS, roles[1] = VKATTN_BLOCK_COLUMNS;
    if (blocks.kind == VKATTN_BLOCKS_INDICES) {
        roles[0] = full ? VKATTN_FULL_BLOCK_COUNTS : VKATTN_BLOCK_COUNTS;
        roles[1] = full ? VKATTN_FULL_BLOCK_INDICES : VKATTN_BLOCK_INDICES;
    }
    bindArrays(p, roles[0], roles[1], offsetof(BlocksPush, firstBase), offsetof(BlocksPush, secondBase), d);
    d.key = pipelineKey(Module::blocks, ruleLanes, {}, {ruleLanes});
    d.groups[0] = static_cast<uint32_t>(std::min<uint64_t>(at.blockRows, mostGroups));
}

// Workgroups that go over rows of blocks or copy numbers, each over several where there are more.
uint32_t copyGroups(const Caps &caps) {
    return std::min(caps.maxWorkgroupCount[0], 65535u);
}

vkattn_result checkBlocks(const Problem &p, const TableLayout &at, const Caps &caps, vkattn_diagnostic *why) {
    const vkattn_blocks &blocks = p.rules.blocks;
    if (blocks.kind == VKATTN_BLOCKS_NONE) return VKATTN_OK;
    const uint64_t rows = ceilDiv(at.blockRows, copyGroups(caps)), draws = uint64_t{blocks.random} * (blocks.random + 3) / 2 + 3;
    const uint64_t rounds = rows * (1 + ceilDiv(at.blockWords, ruleLanes) * 33 + ceilDiv(blocks.entries, ruleLanes) + draws);
    if (rounds <= maxRoundsOfBlocks) return VKATTN_OK;
    return fail(why, VKATTN_ERROR_UNSUPPORTED,
                "%llu rows of %u blocks are more than one dispatch may read on this device; make blocks larger",
                static_cast<unsigned long long>(at.blockRows), p.rules.blockColumns);
}

} // namespace

TableLayout tableLayout(const Problem &p) {
    TableLayout at;
    if (!hasTable(p)) return at;
    uint64_t next = ruleHeaderWords;
    const auto place = [&](uint64_t words) {
        const uint64_t begin = next;
        next += words;
        return begin;
    };
    at.entries = place(uint64_t{sequenceWords} * p.batch);
    if (p.has(VKATTN_DILATIONS)) at.dilations = place(p.heads);
    if (p.rules.global) {
        at.globalWords = bitWords(p.keyTokens);
        at.globals = place(uint64_t{at.globalWords} * p.batch);
        at.summaryWords = bitWords(at.globalWords);
        at.summary = place(uint64_t{at.summaryWords} * p.batch);
    }
    const vkattn_blocks &blocks = p.rules.blocks;
    if (blocks.kind != VKATTN_BLOCKS_NONE) {
        at.blockWords = bitWords(p.rules.blockColumns);
        at.blockPlane = uint64_t{at.blockWords} * p.rules.blockRows;
        at.blockRows = p.rules.blockPlanes() * p.rules.blockRows;
        at.blocks = place(uint64_t{at.blockWords} * at.blockRows);
    }
    // A word for each entry where there is no page: keys past the last one repeat it.
    if (p.paged()) at.pages = place(std::max<uint64_t>(arrayLength(p, pagesOf(p)), p.batch));
    for (uint32_t n = 0; n < programBuffers; ++n)
        if (p.program.bufferWords[n]) at.programBuffers[n] = place(p.program.bufferWords[n]);
    at.end = next;
    return at;
}

uint32_t shortStretches(const Problem &p) {
    if (!p.rules.showRuns()) return 0;
    const SkipRounds widest = lookingRounds(p, widestTile);
    if (widest.through > mostSkipRounds) return 0;
    return static_cast<uint32_t>(std::min(mostSkipRounds / widest.perStretch, mostShortStretches));
}

SkipRounds skipRounds(const Problem &p, uint32_t tileTokens) {
    if (!p.rules.showRuns()) return {};
    SkipRounds rounds = lookingRounds(p, tileTokens);
    rounds.shortStretches = shortStretches(p);
    if (!rounds.shortStretches) rounds.through = 0;
    return rounds;
}

vkattn_result setTable(Plan &plan, const PlanLimits &limits, vkattn_diagnostic *why) {
    const Problem &p = plan.problem;
    const Caps &caps = limits.caps;
    plan.workspaceAlignment = workspaceAlignmentOf(caps);
    if (!hasTable(p)) return VKATTN_OK;
    const TableLayout at = tableLayout(p);
    plan.setUpDispatches = tableDispatches(p);
    plan.tableBytes = plan.setUpBytes = roundUpTo(4 * at.end, plan.workspaceAlignment);
    plan.copyGroups = copyGroups(caps);
    if (const uint32_t most = maxSequencesPerLane * stagedTuning(caps).sequenceLanes; p.ragged() && p.batch > most)
        return fail(why, VKATTN_ERROR_UNSUPPORTED, "%u sequences; a ragged batch may have at most %u on this device", p.batch, most);
    if (!bindable(caps, plan.tableBytes))
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "the table of %u sequences and what rules need takes %llu bytes, over the device's maxStorageBufferRange of %u%s",
                    p.batch, static_cast<unsigned long long>(plan.tableBytes), caps.maxStorageBufferRange,
                    at.blocks ? "; make blocks larger" : "");
    for (const OperandRule &rule : operandTable)
        if (rule.span == Span::ruleArray && !bindable(caps, p.bytesUsed(rule.role).size()))
            return fail(why, VKATTN_ERROR_UNSUPPORTED, "the array of %s spans %llu bytes, over the device's maxStorageBufferRange of %u",
                        rule.name, static_cast<unsigned long long>(p.bytesUsed(rule.role).size()), caps.maxStorageBufferRange);
    // The entries, and the words of the summary.
    const uint64_t gathered = std::max<uint64_t>(p.hasRules() ? p.batch : 0u, uint64_t{at.summaryWords} * p.batch);
    if (ceilDiv(gathered, ruleLanes) > caps.maxWorkgroupCount[0])
        return fail(why, VKATTN_ERROR_UNSUPPORTED, "rules of %u batch entries are more than one dispatch may gather on this device",
                    p.batch);
    return checkBlocks(p, at, caps, why);
}

uint32_t tableDispatches(const Problem &p) {
    return Parts(p).count;
}

void makeTable(const Plan &plan, uint32_t index, Dispatch &d) {
    const Problem &p = plan.problem;
    const TableLayout at = tableLayout(p);
    d.operands[slotWorkspace] = wholeTable(plan);
    d.groups[0] = d.groups[1] = d.groups[2] = 1;
    d.barrierBefore = index > 0;
    const Part part = Parts(p).list[index];
    switch (part) {
    case Part::sequences:
        makeSequences(plan, d);
        break;
    case Part::entries:
        makeEntries(plan, at, d);
        break;
    case Part::offsets:
        makeOffsetsOfEntries(p, d);
        break;
    case Part::pages:
        makePages(p, at, plan.copyGroups, d);
        break;
    case Part::runs:
        makePageRuns(p, d);
        break;
    case Part::dilations:
        makeCopy(p, VKATTN_DILATIONS, at.dilations, 1, p.rules.dilation, plan.copyGroups, d);
        break;
    case Part::globals:
        makeCopy(p, VKATTN_GLOBAL_TOKENS, at.globals, 0, ~0u, plan.copyGroups, d);
        break;
    case Part::summary:
        makeSummary(p, at, d);
        break;
    case Part::blocks:
        makeBlocks(p, at, false, plan.copyGroups, d);
        break;
    case Part::fullBlocks:
        makeBlocks(p, at, true, plan.copyGroups, d);
        break;
    case Part::program:
        makeProgram(p, at, d);
        break;
    case Part::buffer0:
    case Part::buffer1:
    case Part::buffer2:
    case Part::buffer3: {
        const uint32_t n = static_cast<uint32_t>(part) - static_cast<uint32_t>(Part::buffer0);
        makeCopy(p, static_cast<vkattn_role>(VKATTN_PROGRAM_BUFFER_0 + n), at.programBuffers[n], 0, ~0u, plan.copyGroups, d);
        break;
    }
    }
}

} // namespace vkattn
