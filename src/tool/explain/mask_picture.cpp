#include "tool/explain/mask_picture.hpp"

#include "picture/raster.hpp"
#include "program/failure.hpp"
#include "program/files/output_file.hpp"
#include "tool/execution.hpp"

#include <vkattn/cpu.h>
#include <vkattn/operations.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

namespace vkattn::tool {
using namespace program;
namespace {

using picture::ColourMap;
using picture::Rgb;

// What kernels visit or skip as a whole.
constexpr uint32_t blockQueries = 64, blockKeys = 32;
constexpr uint32_t mostPixels = 1024, fewestPixels = 512;
// The pairs up to which every row is looked at.
constexpr uint64_t mostPairs = uint64_t{16384} * 16384;

constexpr uint32_t ceilDivide(uint64_t number, uint64_t by) {
    return static_cast<uint32_t>((number + by - 1) / by);
}

// The data of other inputs hides no pair.
constexpr bool mayHidePairs(vkattn_role role) {
    return role != VKATTN_Q && role != VKATTN_K && role != VKATTN_V && role != VKATTN_SINKS && role != VKATTN_ALIBI_SLOPES;
}

// "head 2", "head 2 of batch entry 1".
std::string headText(const ExplainArguments &arguments, const vkattn_problem &problem) {
    const std::string name = "head " + std::to_string(arguments.maskHead);
    if (problem.sequences > 0) return name + " of sequence " + std::to_string(arguments.maskBatch);
    return problem.q.extent[batch] > 1 ? name + " of batch entry " + std::to_string(arguments.maskBatch) : name;
}

void checkPlace(const ExplainArguments &arguments, const vkattn_problem &problem) {
    const auto check = [](const char *option, uint32_t given, uint32_t count, const char *one, const char *several) {
        if (given >= count)
            throw Failure(std::string(option) + " " + std::to_string(given) + ": the problem has " + std::to_string(count) + " " +
                          (count == 1 ? one : several) + ", expected a number from 0 to " + std::to_string(count - 1));
    };
    check("--draw-head", arguments.maskHead, problem.q.extent[head], "query head", "query heads");
    if (problem.sequences > 0)
        check("--draw-batch", arguments.maskBatch, problem.sequences, "sequence", "sequences");
    else
        check("--draw-batch", arguments.maskBatch, problem.q.extent[batch], "batch entry", "batch entries");
}

// The keys that the queries of one head see.
class VisibleKeys {
  public:
    VisibleKeys(const ExplainArguments &arguments, Job &job)
        : problem_(job.problem), batch_(arguments.maskBatch), head_(arguments.maskHead) {
        const vkattn_operation described = operation(problem_);
        std::vector<NamedBytes> needed;
        for (const Input &input : job.inputs)
            if (mayHidePairs(input.role())) needed.push_back({input.path(), vkattnOperationBytes(&described, input.role())});
        needed.push_back({"the keys of one query", problem_.k.extent[token]});
        checkMemory(needed);
        for (Input &input : job.inputs)
            if (mayHidePairs(input.role())) arrays_.add(input.role(), input.load(described));
        bindOthers(described);
        queries_ = tokensOf(VKATTN_CU_SEQ_Q, problem_.q);
        keys_ = tokensOf(VKATTN_CU_SEQ_K, problem_.k);
        row_.resize(problem_.maxSeqK > 0 ? problem_.maxSeqK : problem_.k.extent[token]);
    }
    VisibleKeys(const VisibleKeys &) = delete;
    VisibleKeys &operator=(const VisibleKeys &) = delete;

    // Of the batch entry, or of the sequence.
    [[nodiscard]] uint32_t queries() const { return queries_; }
    [[nodiscard]] uint32_t keys() const { return keys_; }

    // 1 for each key that the query sees, otherwise 0; until the next call.
    [[nodiscard]] std::span<const unsigned char> of(uint32_t query) {
        vkattn_diagnostic why{};
        if (vkattnCpuVisible(&problem_, operands_.data(), static_cast<uint32_t>(operands_.size()), batch_, head_, query, row_.data(),
                             static_cast<uint32_t>(row_.size()), &why) != VKATTN_OK)
            throw Failure(why.message);
        return std::span(row_).first(keys_);
    }

  private:
    // vkattnCpuVisible reads nothing of tensors and outputs, so that an address stands for their memory.
    void bindOthers(const vkattn_operation &described) {
        operands_ = arrays_.operands();
        vkattn_operand_use uses[VKATTN_ROLE_LIMIT];
        const uint32_t count = vkattnOperandUses(&described, uses, VKATTN_ROLE_LIMIT);
        for (const vkattn_operand_use &use : std::span(uses).first(count))
            if (std::none_of(operands_.begin(), operands_.end(), [&](const auto &bound) { return bound.role == use.role; }))
                operands_.push_back({use.role, unread_, static_cast<size_t>(use.endBytes)});
    }
    // `offsets`: of the sequences of a ragged batch, which are in order.
    [[nodiscard]] uint32_t tokensOf(vkattn_role offsets, const vkattn_layout &layout) const {
        if (problem_.sequences == 0) return layout.extent[token];
        uint32_t ends[2] = {};
        std::memcpy(ends, arrays_.of(offsets).data() + batch_ * sizeof(uint32_t), sizeof ends);
        return ends[1] - ends[0];
    }

    vkattn_problem problem_;
    uint32_t batch_, head_, queries_ = 0, keys_ = 0;
    HostArrays arrays_;
    alignas(8) std::byte unread_[8]{};
    std::vector<vkattn_operand_memory> operands_;
    std::vector<unsigned char> row_;
};

// `step`: of rows that are looked at; a cell has at least one of them.
PictureSide sideOf(uint32_t tokens, uint32_t step) {
    PictureSide side;
    side.tokens = tokens;
    side.box = ceilDivide(ceilDivide(tokens, mostPixels), step) * step;
    side.cells = ceilDivide(tokens, side.box);
    side.scale = ceilDivide(fewestPixels, side.cells);
    return side;
}

class MaskCells {
  public:
    MaskCells(MaskFacts &facts, VisibleKeys &visible)
        : facts_(facts), pairs_(size_t{facts.queries.cells} * facts.keys.cells), visible_(pairs_.size()), visited_(pairs_.size()),
          seenBlocks_(ceilDivide(facts.keys.tokens, blockKeys)) {
        uint32_t blockRow = 0;
        for (uint32_t query = 0; query < facts.queries.tokens; query += facts.step) {
            if (query / blockQueries != blockRow) finishBlocks(blockRow), blockRow = query / blockQueries;
            addRow(query, visible.of(query));
        }
        finishBlocks(blockRow);
    }

    [[nodiscard]] picture::Raster drawn() const {
        const PictureSide &down = facts_.queries, &across = facts_.keys;
        const auto scaleDown = static_cast<int>(down.scale), scaleAcross = static_cast<int>(across.scale);
        picture::Raster raster(static_cast<int>(across.pixels()), static_cast<int>(down.pixels()), Rgb{255, 255, 255});
        for (size_t cell = 0; cell < pairs_.size(); ++cell) {
            if (!visited_[cell]) continue;
            const auto row = static_cast<int>(cell / across.cells), column = static_cast<int>(cell % across.cells);
            raster.fill(column * scaleAcross, row * scaleDown, scaleAcross, scaleDown, colourOf(cell));
        }
        return raster;
    }

  private:
    void addRow(uint32_t query, std::span<const unsigned char> keys) {
        const size_t firstCell = size_t{query / facts_.queries.box} * facts_.keys.cells;
        uint64_t ofRow = 0;
        for (uint32_t column = 0; column < facts_.keys.cells; ++column) {
            const size_t begin = size_t{column} * facts_.keys.box, end = std::min<size_t>(begin + facts_.keys.box, keys.size());
            uint32_t seen = 0;
            for (size_t key = begin; key < end; ++key) seen += keys[key];
            visible_[firstCell + column] += seen;
            pairs_[firstCell + column] += static_cast<uint32_t>(end - begin);
            ofRow += seen;
        }
        facts_.visiblePairs += ofRow;
        if (ofRow == 0) facts_.emptyRows++;
        facts_.rows++;
        for (size_t block = 0; block < seenBlocks_.size(); ++block) {
            const size_t begin = block * blockKeys, end = std::min<size_t>(begin + blockKeys, keys.size());
            for (size_t key = begin; key < end; ++key) seenBlocks_[block] |= keys[key];
        }
    }

    // Of the blocks side by side whose rows have been added.
    void finishBlocks(uint32_t blockRow) {
        facts_.blocks += seenBlocks_.size();
        const uint32_t firstQuery = blockRow * blockQueries;
        const uint32_t lastQuery = std::min(firstQuery + blockQueries, facts_.queries.tokens) - 1;
        for (size_t block = 0; block < seenBlocks_.size(); ++block) {
            if (!seenBlocks_[block]) continue;
            seenBlocks_[block] = 0;
            facts_.visitedBlocks++;
            const auto firstKey = static_cast<uint32_t>(block * blockKeys);
            const uint32_t lastKey = std::min(firstKey + blockKeys, facts_.keys.tokens) - 1;
            for (uint32_t row = firstQuery / facts_.queries.box; row <= lastQuery / facts_.queries.box; ++row)
                for (uint32_t column = firstKey / facts_.keys.box; column <= lastKey / facts_.keys.box; ++column)
                    visited_[size_t{row} * facts_.keys.cells + column] = 1;
        }
    }

    // Of a visited cell: pale where all is hidden, and far darker where even a single pair is visible.
    [[nodiscard]] Rgb colourOf(size_t cell) const {
        constexpr double hidden = 32, fewest = 96, all = picture::mapEntries - 1;
        const double share = static_cast<double>(visible_[cell]) / pairs_[cell];
        const double entry = visible_[cell] == 0 ? hidden : fewest + share * (all - fewest);
        return picture::entryOf(ColourMap::blues, static_cast<size_t>(std::lround(entry)));
    }

    MaskFacts &facts_;
    std::vector<uint32_t> pairs_, visible_; // of each cell, in the rows that were looked at
    std::vector<unsigned char> visited_;    // of each cell
    std::vector<unsigned char> seenBlocks_; // of the blocks side by side that are being added
};

std::string percentText(double share) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g %%", 100 * share);
    return text;
}

} // namespace

double MaskFacts::visibleShare() const {
    return static_cast<double>(visiblePairs) / (static_cast<double>(rows) * keys.tokens);
}

double MaskFacts::visitedShare() const {
    return static_cast<double>(visitedBlocks) / static_cast<double>(blocks);
}

MaskFacts drawMask(const ExplainArguments &arguments, Job &job) {
    checkPlace(arguments, job.problem);
    std::vector<std::string> inputs;
    for (const Input &input : job.inputs) inputs.push_back(input.path());
    OutputFile file(checkOutputTarget("--draw-mask", arguments.maskFile, inputs, {}));

    VisibleKeys visible(arguments, job);
    if (visible.queries() == 0 || visible.keys() == 0)
        throw Failure("--draw-mask " + arguments.maskFile + ": " + headText(arguments, job.problem) + " has " +
                      std::to_string(visible.queries()) + " queries and " + std::to_string(visible.keys()) +
                      " keys, expected at least one of each: there is no pair to draw, so leave --draw-mask out" +
                      (job.problem.sequences > 1 ? ", or choose another sequence with --draw-batch" : ""));
    MaskFacts facts;
    // Odd: rules that repeat after a power of two of rows are seen at all their places.
    facts.step = ceilDivide(uint64_t{visible.queries()} * visible.keys(), mostPairs) | 1;
    facts.queries = sideOf(visible.queries(), facts.step);
    facts.keys = sideOf(visible.keys(), 1);
    const std::string bytes = picture::pngOf(MaskCells(facts, visible).drawn());
    file.write(std::as_bytes(std::span(bytes)));
    file.close();
    file.publish();
    return facts;
}

std::string maskText(const ExplainArguments &arguments, const vkattn_problem &problem, const MaskFacts &facts) {
    const PictureSide &queries = facts.queries, &keys = facts.keys;
    const auto number = [](uint64_t value) { return std::to_string(value); };
    const auto sides = [&](uint64_t first, uint64_t second) { return number(first) + " x " + number(second); };
    const bool sampled = facts.step > 1;
    std::string text =
        "mask      " + arguments.maskFile + ": " + sides(queries.tokens, keys.tokens) + " pairs of " + headText(arguments, problem) + ", ";
    if (sampled) text += "of every " + number(facts.step) + " rows the first was looked at, " + number(facts.rows) + " in all: ";
    text += number(facts.visiblePairs) + " visible (" + percentText(facts.visibleShare()) + "), " + number(facts.emptyRows) +
            (facts.emptyRows == 1 ? " empty row, " : " empty rows, ") + (sampled ? "at least " : "") + percentText(facts.visitedShare()) +
            " of " + sides(blockQueries, blockKeys) + " blocks visited\n";
    text += "  picture " + sides(keys.pixels(), queries.pixels()) + " pixels, " + sides(keys.scale, queries.scale) + " for ";
    if (queries.box == 1 && keys.box == 1)
        text += "each pair: dark where visible";
    else
        text += "each " + number(keys.box) + " keys of " + number(queries.box) + " queries: the darker, the more pairs are visible";
    return text + ", pale where a visited block has hidden ones\n";
}

Json maskJson(const ExplainArguments &arguments, const MaskFacts &facts) {
    return {{"file", arguments.maskFile},
            {"batch", arguments.maskBatch},
            {"head", arguments.maskHead},
            {"queries", facts.queries.tokens},
            {"keys", facts.keys.tokens},
            {"step", facts.step},
            {"rows", facts.rows},
            {"visiblePairs", facts.visiblePairs},
            {"visibleShare", facts.visibleShare()},
            {"emptyRows", facts.emptyRows},
            {"blockSize", {blockQueries, blockKeys}},
            {"blocks", facts.blocks},
            {"visitedBlocks", facts.visitedBlocks},
            {"visitedShare", facts.visitedShare()},
            {"pixels", {facts.keys.pixels(), facts.queries.pixels()}}};
}

} // namespace vkattn::tool
