// Statistics and weights that the runtime computes from queries and keys, a head at a time.
#include "program/byte_text.hpp"
#include "program/failure.hpp"
#include "tool/arrays/convert.hpp"
#include "tool/arrays/job.hpp"
#include "tool/device.hpp"
#include "tool/execution.hpp"
#include "tool/inspect/head_source.hpp"

#include <vkattn/operations.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr uint64_t mostGeometryProducts = uint64_t{1} << 26; // of one head: a second
// Of a head whose weights no option asks for by name: 8192 x 8192, 1.6 GiB. The same on every machine, so that
// the same command writes the same figures.
constexpr uint64_t mostPairs = uint64_t{1} << 26;
constexpr uint64_t bytesOfPair = 2 * sizeof(float) + 2 * sizeof(double) + 1;

// The option that needs weights by its name; NULL: there is none.
const char *optionOfWeights(const InspectArguments &arguments) {
    if (!arguments.html.empty()) return "--html";
    if (!arguments.png.empty()) return "--png";
    if (arguments.seedClasses) return "--seed-classes";
    return arguments.asksForSpectrum ? "--spectrum" : nullptr;
}

// As `bytesOfPair` a pair; no more than the largest number.
uint64_t weightBytes(uint64_t pairs) {
    return pairs > std::numeric_limits<uint64_t>::max() / bytesOfPair ? std::numeric_limits<uint64_t>::max() : pairs * bytesOfPair;
}

class AttentionSource : public HeadSource {
  public:
    explicit AttentionSource(const InspectArguments &arguments) : arguments_(arguments), job_(describeProblem(arguments)) {
        const vkattn_problem &p = job_.problem;
        const bool ragged = p.sequences > 0;
        facts_.text = job_.inputs[0].path() + " and " + job_.inputs[1].path();
        for (const Input &input : job_.inputs) facts_.inputs.push_back(input.path());
        facts_.ragged = ragged;
        facts_.batch = ragged ? p.sequences : p.q.extent[batch];
        facts_.heads = p.q.extent[1];
        facts_.queries = ragged ? p.maxSeqQ : p.q.extent[token];
        facts_.keys = ragged ? p.maxSeqK : p.k.extent[token];
        if (facts_.queries == 0) throw Failure(job_.inputs[0].text() + ": there are no queries, expected at least one to look at");
        // Heads are looked at one by one, and sequences as problems of their own.
        if (p.blocks.kind == VKATTN_BLOCKS_BIGBIRD && facts_.heads > 1)
            throw Failure("--bigbird draws blocks for each of the " + std::to_string(facts_.heads) +
                          " heads, and inspect computes one head at a time: give the blocks as --block-mask, or one head");
        if (p.blocks.kind == VKATTN_BLOCKS_MASK && ragged)
            throw Failure("--block-mask has blocks of the longest sequence, and inspect computes one sequence at a time: leave out "
                          "--cu-seqlens-q and --cu-seqlens-k, or the mask");
        for (const Input &input : job_.inputs)
            if (const uint32_t keys = input.layout().extent[3];
                (input.role() == VKATTN_MASK || input.role() == VKATTN_BIAS) && keys > 1 && keys < facts_.keys)
                throw Failure(input.text() + " has " + std::to_string(keys) + " keys of " + std::to_string(facts_.keys) +
                              ", and inspect takes every key or 1: give the mask of all keys");
        const std::vector<uint64_t> &queries = job_.inputs[0].header().shape;
        facts_.rowShape.assign(queries.begin(), queries.end() - 1);
        facts_.keyShape.assign(queries.begin(), queries.end() - 2);
        facts_.keyShape.push_back(p.k.extent[token]);
        const uint64_t pairs = uint64_t{facts_.queries} * facts_.keys;
        withholdLarge(pairs);
        std::vector<NamedBytes> bytes = namedBytes(job_, operation(p));
        bytes.push_back({"the statistics of one head", uint64_t{facts_.queries} * statisticBytes});
        if (facts_.withheld.empty()) bytes.push_back({"the weights of one head", weightBytes(pairs)});
        checkMemory(bytes);
    }
    [[nodiscard]] const SourceFacts &facts() const override { return facts_; }

    void start() override {
        opened_ = openRuntime(arguments_);
        for (Input &input : job_.inputs) arrays_.add(input.role(), input.load(operation(job_.problem)));
        noteUnusedKernel(arguments_, *opened_.runtime);
    }

    [[nodiscard]] std::optional<HeadStatistics> statistics(uint32_t b, uint32_t h, const StatisticsRequest &request) override {
        place(b, h);
        HeadStatistics found;
        found.queries = queries_, found.keys = keys_, found.shift = shift();
        found.rows.resize(size_t{queries_} * VKATTN_STATISTIC_COUNT);
        found.sums.resize(queries_, 1.0);
        found.received.resize(keys_);
        found.topWeights.resize(size_t{queries_} * request.topKeys);
        found.topKeys.resize(found.topWeights.size(), -1);
        if (queries_ == 0 || keys_ == 0) return found;
        computeStatistics(request, found);
        if (has(VKATTN_SINKS)) computeSums(word(VKATTN_SINKS, h), found.sums);
        if (hideNotFinite(found.rows)) computeReceived(found.received);
        return found;
    }

    [[nodiscard]] analysis::HeadWeights head(uint32_t b, uint32_t h) override {
        place(b, h);
        const size_t queries = queries_, keys = keys_;
        analysis::HeadWeights found;
        found.weights = analysis::Matrix(queries, keys);
        found.visible.resize(queries * keys);
        found.sums.resize(queries);
        found.shift = shift();
        if (queries == 0 || keys == 0) return found;
        computeWeights();
        for (size_t i = 0; i < queries; i++) takeRow(i, found);
        return found;
    }

    [[nodiscard]] std::optional<analysis::Geometry> geometry(const analysis::HeadWeights &weights) const override {
        if (queries_ == 0 || keys_ == 0) return {};
        const uint64_t products = uint64_t{queries_} * keys_ * one_.q.extent[dim];
        return analysis::geometry(vectors(one_.q, memory_[0]), vectors(one_.k, memory_[1]), weights.visible,
                                  static_cast<size_t>((products + mostGeometryProducts - 1) / mostGeometryProducts));
    }

    [[nodiscard]] SourceDevice device() const override { return device_; }
    [[nodiscard]] uint64_t firstRow(uint32_t b, uint32_t h) const override {
        return first(b, h, VKATTN_CU_SEQ_Q, job_.problem.q.extent[token]);
    }
    [[nodiscard]] uint64_t firstKey(uint32_t b, uint32_t h) const override {
        return first(b, h, VKATTN_CU_SEQ_K, job_.problem.k.extent[token]);
    }

  private:
    // Bytes of a row: its statistics and sum, and what --top keeps.
    static constexpr uint64_t statisticBytes =
        VKATTN_STATISTIC_COUNT * sizeof(float) + sizeof(double) + VKATTN_MAX_TOP_KEYS * (sizeof(float) + sizeof(int32_t));

    // Decides whether weights are taken. Throws Failure where an option needs them and half of the memory does not
    // hold them.
    void withholdLarge(uint64_t pairs) {
        const uint64_t half = usableMemoryBytes() / 2, bytes = weightBytes(pairs);
        const bool fits = half == 0 || bytes <= half;
        const char *const option = optionOfWeights(arguments_);
        if (fits && (option != nullptr || pairs <= mostPairs)) return;
        const std::string size = "a head's weights, " + std::to_string(facts_.queries) + " x " + std::to_string(facts_.keys) +
                                 (facts_.ragged ? " in the longest sequences" : "") + ", take " + byteText(bytes);
        if (option != nullptr)
            throw Failure(
                std::string(option) + " needs weights in memory, and " + size + ", more than half of the memory (" + byteText(half) +
                "): leave " + option +
                " out (the summary, --stats, --received, --top-keys, --json and --csv need none), or give fewer queries at a time");
        facts_.withheld = size + (fits ? ": --spectrum asks for what needs them" : "");
    }

    [[nodiscard]] int64_t shift() const {
        return arguments_.topLeft ? 0 : static_cast<int64_t>(visibleKeys_) - static_cast<int64_t>(queries_);
    }
    [[nodiscard]] uint64_t first(uint32_t b, uint32_t h, vkattn_role offsets, uint64_t tokens) const {
        return facts_.ragged ? h * tokens + word(offsets, b) : (uint64_t{b} * facts_.heads + h) * tokens;
    }
    [[nodiscard]] bool has(vkattn_role role) const { return (job_.problem.presentRoles & VKATTN_PRESENT(role)) != 0; }
    [[nodiscard]] uint32_t word(vkattn_role role, size_t at) const {
        uint32_t value = 0;
        std::memcpy(&value, arrays_.of(role).data() + at * sizeof value, sizeof value);
        return value;
    }

    // The operand begins at an element of its array.
    void bind(vkattn_role role, vkattn_dtype dtype, uint64_t at, const vkattn_problem &problem) {
        // The runtime reads what it is given and writes none of it.
        auto *data = const_cast<std::byte *>(arrays_.of(role).data()) + at * itemBytes(dtype);
        memory_.push_back({role, data, vkattnOperandBytes(&problem, role)});
    }

    // Makes the problem of one head, which is never ragged: a sequence is a whole problem.
    void place(uint32_t b, uint32_t h) {
        const vkattn_problem &p = job_.problem;
        const uint32_t firstQuery = facts_.ragged ? word(VKATTN_CU_SEQ_Q, b) : 0,
                       firstKeyToken = facts_.ragged ? word(VKATTN_CU_SEQ_K, b) : 0;
        queries_ = facts_.ragged ? word(VKATTN_CU_SEQ_Q, b + 1) - firstQuery : p.q.extent[token];
        keys_ = facts_.ragged ? word(VKATTN_CU_SEQ_K, b + 1) - firstKeyToken : p.k.extent[token];
        visibleKeys_ = has(VKATTN_KEY_LENGTHS) ? word(VKATTN_KEY_LENGTHS, b) : keys_;
        const uint32_t batchEntry = facts_.ragged ? 0 : b, keyHead = h / (p.q.extent[1] / p.k.extent[1]);
        one_ = p;
        one_.sequences = one_.maxSeqQ = one_.maxSeqK = 0;
        one_.presentRoles &= ~(VKATTN_PRESENT(VKATTN_CU_SEQ_Q) | VKATTN_PRESENT(VKATTN_CU_SEQ_K));
        one_.out = packed(VKATTN_F32, 1, 1, queries_, 1);
        // Cuts a layout down, and returns where it begins.
        const auto cut = [](vkattn_layout &layout, const Extents &at, const Extents &extents) {
            if (layout.extent[0] == 0) return uint64_t{0}; // absent
            uint64_t element = layout.offsetElems;
            for (size_t n = 0; n < 4; n++) {
                if (layout.extent[n] == 1) continue;
                element += at[n] * static_cast<uint64_t>(layout.strideElems[n]);
                layout.extent[n] = extents[n];
            }
            layout.offsetElems = 0;
            return element;
        };
        const uint64_t atQ = cut(one_.q, {batchEntry, h, firstQuery, 0}, {1, 1, queries_, p.q.extent[dim]});
        const uint64_t atK = cut(one_.k, {batchEntry, keyHead, firstKeyToken, 0}, {1, 1, keys_, p.k.extent[dim]});
        // A mask of blocks is cut down to one head.
        one_.blocks.heads = std::min(p.blocks.heads, 1u);
        const uint64_t blockMaskBytes = p.blocks.heads > 1 ? vkattnOperandBytes(&p, VKATTN_BLOCK_MASK) / p.blocks.heads : 0;
        const Extents pair = {b, h, 0, 0};
        const uint64_t atMask = cut(one_.mask, pair, {1, 1, queries_, keys_}), atBias = cut(one_.bias, pair, {1, 1, queries_, keys_});
        const uint64_t atBits = cut(one_.bitMask, pair, {1, 1, queries_, keys_ / 32 + (keys_ % 32 != 0 ? 1 : 0)});
        memory_.clear();
        bind(VKATTN_Q, one_.q.dtype, atQ, one_);
        bind(VKATTN_K, one_.k.dtype, atK, one_);
        for (const Input &input : job_.inputs) {
            const vkattn_role role = input.role();
            switch (role) {
            case VKATTN_MASK:
                bind(role, VKATTN_BOOL8, atMask, one_);
                break;
            case VKATTN_BIT_MASK:
                bind(role, VKATTN_BITS32, atBits, one_);
                break;
            case VKATTN_BIAS:
                bind(role, one_.bias.dtype, atBias, one_);
                break;
            case VKATTN_KEY_LENGTHS:
            case VKATTN_PREFIX_LENGTHS:
                bind(role, VKATTN_F32, b, one_);
                break;
            case VKATTN_SINKS:
            case VKATTN_ALIBI_SLOPES:
                bind(role, VKATTN_F32, h, one_);
                break;
            case VKATTN_GLOBAL_TOKENS:
                bind(role, VKATTN_F32, b * ((uint64_t{facts_.ragged ? p.maxSeqK : p.k.extent[token]} + 31) / 32), one_);
                break;
            case VKATTN_BLOCK_MASK:
                bind(role, VKATTN_BOOL8, h * blockMaskBytes, one_);
                break;
            case VKATTN_DOC_IDS_Q:
                bind(role, VKATTN_F32, uint64_t{batchEntry} * p.q.extent[token] + firstQuery, one_);
                break;
            case VKATTN_DOC_IDS_K:
                bind(role, VKATTN_F32, uint64_t{batchEntry} * p.k.extent[token] + firstKeyToken, one_);
                break;
            default: // bound above, or of ragged batches
                break;
            }
        }
    }

    // Runs on the operands of the head and on outputs, on those of them that the operation uses.
    void run(const vkattn_operation &operation, std::initializer_list<vkattn_operand_memory> outputs) {
        vkattn_operand_use uses[VKATTN_ROLE_LIMIT];
        const std::span<const vkattn_operand_use> used(uses, vkattnOperandUses(&operation, uses, VKATTN_ROLE_LIMIT));
        std::vector<vkattn_operand_memory> memory = memory_;
        memory.insert(memory.end(), outputs);
        std::erase_if(memory, [&](const vkattn_operand_memory &operand) {
            return std::none_of(used.begin(), used.end(), [&](const vkattn_operand_use &use) { return use.role == operand.role; });
        });
        const RunResult result = opened_.runtime->run(operation, memory);
        throwWhereFailed(arguments_, *opened_.runtime, result);
        // Statistics come first, and most figures from them; a run that fell back is told in any case.
        if (device_.device.empty() || (device_.fallbackReason.empty() && !result.fallbackReason.empty()))
            device_ = {result.device, result.kernel, result.fallbackReason};
    }

    void computeWeights() {
        const size_t pairs = size_t{queries_} * keys_;
        out_.resize(queries_), weights_.resize(pairs), scores_.resize(pairs);
        vkattn_problem problem = one_;
        problem.weights = problem.scores = packed(VKATTN_F32, 1, 1, queries_, keys_);
        problem.scoresStage = VKATTN_SCORES_FINAL;
        run(operation(problem), {{VKATTN_OUT, out_.data(), out_.size() * sizeof(float)},
                                 {VKATTN_WEIGHTS, weights_.data(), pairs * sizeof(float)},
                                 {VKATTN_SCORES, scores_.data(), pairs * sizeof(float)}});
    }

    void computeStatistics(const StatisticsRequest &request, HeadStatistics &head) {
        vkattn_attention_statistics statistics = attentionStatistics(one_);
        statistics.statistics = packed(VKATTN_F32, 1, 1, queries_, VKATTN_STATISTIC_COUNT);
        statistics.received = packed(VKATTN_F32, 1, 1, keys_, 1);
        statistics.densityThreshold = static_cast<float>(request.density);
        if (request.topKeys > 0) {
            statistics.topWeights = packed(VKATTN_F32, 1, 1, queries_, request.topKeys);
            statistics.topKeys = packed(VKATTN_BITS32, 1, 1, queries_, request.topKeys);
        }
        run(operation(statistics), {{VKATTN_STATISTICS, head.rows.data(), head.rows.size() * sizeof(float)},
                                    {VKATTN_RECEIVED, head.received.data(), head.received.size() * sizeof(float)},
                                    {VKATTN_TOP_WEIGHTS, head.topWeights.data(), head.topWeights.size() * sizeof(float)},
                                    {VKATTN_TOP_KEYS, head.topKeys.data(), head.topKeys.size() * sizeof(int32_t)}});
    }

    // Statistics know nothing of the sink; its share of a row is told by the log-sum-exp.
    void computeSums(uint32_t sinkBits, std::vector<double> &sums) {
        const auto sink = static_cast<double>(std::bit_cast<float>(sinkBits));
        std::vector<float> lse(queries_);
        out_.resize(queries_);
        vkattn_problem problem = one_;
        problem.lse = packed(VKATTN_F32, 1, 1, queries_, 1);
        run(operation(problem),
            {{VKATTN_OUT, out_.data(), out_.size() * sizeof(float)}, {VKATTN_LSE, lse.data(), lse.size() * sizeof(float)}});
        for (size_t i = 0; i < sums.size(); i++) {
            const double kept = -std::expm1(sink - static_cast<double>(lse[i]));
            sums[i] = kept > 0 ? kept : 0; // also where nothing is visible
        }
    }

    // Rows that are not finite spoil what keys receive: such rows become a document that no key belongs to.
    // Returns whether there are any.
    bool hideNotFinite(const std::vector<float> &rows) {
        std::vector<size_t> notFinite;
        for (size_t i = 0; i < queries_; i++)
            if (std::isnan(rows[i * VKATTN_STATISTIC_COUNT])) notFinite.push_back(i);
        if (notFinite.empty()) return false;
        documentsQ_.assign(queries_, 0);
        documentsK_.assign(keys_, 0);
        for (const vkattn_operand_memory &operand : memory_) {
            if (operand.role == VKATTN_DOC_IDS_Q) std::memcpy(documentsQ_.data(), operand.data, queries_ * sizeof(uint32_t));
            if (operand.role == VKATTN_DOC_IDS_K) std::memcpy(documentsK_.data(), operand.data, keys_ * sizeof(uint32_t));
        }
        std::vector<uint32_t> taken = documentsK_;
        std::sort(taken.begin(), taken.end());
        uint32_t free = 0;
        for (const uint32_t id : taken)
            if (id == free) free++;
        for (const size_t i : notFinite) documentsQ_[i] = free;
        std::erase_if(memory_, [](const vkattn_operand_memory &operand) {
            return operand.role == VKATTN_DOC_IDS_Q || operand.role == VKATTN_DOC_IDS_K;
        });
        one_.presentRoles |= VKATTN_PRESENT(VKATTN_DOC_IDS_Q) | VKATTN_PRESENT(VKATTN_DOC_IDS_K);
        memory_.push_back({VKATTN_DOC_IDS_Q, documentsQ_.data(), documentsQ_.size() * sizeof(uint32_t)});
        memory_.push_back({VKATTN_DOC_IDS_K, documentsK_.data(), documentsK_.size() * sizeof(uint32_t)});
        return true;
    }

    void computeReceived(std::vector<float> &received) {
        vkattn_attention_statistics statistics = attentionStatistics(one_);
        statistics.received = packed(VKATTN_F32, 1, 1, keys_, 1);
        run(operation(statistics), {{VKATTN_RECEIVED, received.data(), received.size() * sizeof(float)}});
    }

    // p is the softmax of the visible scores: where a sink takes nearly all, weights are too small for
    // float32 and their ratios are lost.
    void takeRow(size_t i, analysis::HeadWeights &head) const {
        const float *const scores = scores_.data() + i * keys_, *const weights = weights_.data() + i * keys_;
        float largest = -std::numeric_limits<float>::infinity();
        bool finite = true;
        for (size_t j = 0; j < keys_; j++) {
            const bool visible = scores[j] != -std::numeric_limits<float>::infinity(); // NaN too
            head.visible[i * keys_ + j] = visible ? 1 : 0;
            if (!visible) continue;
            largest = std::max(largest, scores[j]);
            finite = finite && std::isfinite(scores[j]) && std::isfinite(weights[j]);
            head.sums[i] += static_cast<double>(weights[j]);
        }
        for (size_t j = 0; j < keys_; j++) {
            if (head.visible[i * keys_ + j] == 0) continue;
            head.weights(i, j) =
                finite ? std::exp(static_cast<double>(scores[j]) - static_cast<double>(largest)) : std::numeric_limits<double>::quiet_NaN();
        }
    }

    [[nodiscard]] static analysis::Matrix vectors(const vkattn_layout &layout, const vkattn_operand_memory &memory) {
        analysis::Matrix found(layout.extent[token], layout.extent[dim]);
        const size_t bytes = itemBytes(layout.dtype);
        for (size_t t = 0; t < found.rows; t++)
            for (size_t d = 0; d < found.columns; d++) {
                const int64_t at = static_cast<int64_t>(t) * layout.strideElems[token] + static_cast<int64_t>(d) * layout.strideElems[dim];
                const std::byte *const element = static_cast<const std::byte *>(memory.data) + static_cast<size_t>(at) * bytes;
                float value = 0;
                if (layout.dtype == VKATTN_F32)
                    std::memcpy(&value, element, sizeof value);
                else
                    convert(layout.dtype, element, VKATTN_F32, &value, 1);
                found(t, d) = static_cast<double>(value);
            }
        return found;
    }

    const InspectArguments &arguments_;
    Job job_;
    SourceFacts facts_;
    OpenedRuntime opened_;
    HostArrays arrays_;
    SourceDevice device_;
    // Of the head that was asked for last.
    vkattn_problem one_{};
    std::vector<vkattn_operand_memory> memory_; // queries, keys, then the others
    uint32_t queries_ = 0, keys_ = 0, visibleKeys_ = 0;
    std::vector<float> out_, weights_, scores_;
    std::vector<uint32_t> documentsQ_, documentsK_; // where rows are hidden
};

} // namespace

std::unique_ptr<HeadSource> attentionSource(const InspectArguments &arguments) {
    return std::make_unique<AttentionSource>(arguments);
}

} // namespace vkattn::tool
