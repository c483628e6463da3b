#include "tool/run/global_rows.hpp"

#include "tool/arrays/convert.hpp"

#include <vkattn/operations.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr const char *options[] = {"--q-global", "--k-global", "--v-global"};
constexpr vkattn_role roles[] = {VKATTN_Q, VKATTN_K, VKATTN_V};

// The place of an element in its array.
uint64_t placeOf(const vkattn_layout &l, uint32_t b, uint32_t h, uint32_t t, uint32_t d) {
    const uint32_t at[4] = {b, h, t, d};
    uint64_t place = l.offsetElems;
    for (int n = 0; n < 4; ++n)
        if (l.extent[n] > 1) place += static_cast<uint64_t>(int64_t{at[n]} * l.strideElems[n]);
    return place;
}

const vkattn_operand_memory &operandOf(const HostArrays &arrays, vkattn_role role) {
    return *std::find_if(arrays.operands().begin(), arrays.operands().end(), [&](const auto &operand) { return operand.role == role; });
}

// A word of a small array.
uint32_t wordOf(const HostArrays &arrays, vkattn_role role, uint64_t n) {
    uint32_t word = 0;
    std::memcpy(&word, arrays.of(role).data() + 4 * n, sizeof word);
    return word;
}

bool present(const vkattn_problem &p, vkattn_role role) {
    return (p.presentRoles & VKATTN_PRESENT(role)) != 0;
}

// The keys of batch entry b.
uint32_t keyLength(const vkattn_problem &p, const HostArrays &arrays, uint32_t b) {
    const uint32_t keys = p.k.extent[token];
    return present(p, VKATTN_KEY_LENGTHS) ? std::min(wordOf(arrays, VKATTN_KEY_LENGTHS, b), keys) : keys;
}

// Where query i stands among so many keys.
int64_t positionOf(const vkattn_problem &p, uint32_t i, uint32_t length) {
    return p.flags & VKATTN_ALIGN_TOP_LEFT ? int64_t{i} : int64_t{i} + length - p.q.extent[token];
}

} // namespace

GlobalRows::GlobalRows(const RunArguments &arguments, const Job &job) : arguments_(arguments), job_(job) {
    const vkattn_problem &p = job.problem;
    const vkattn_layout *const like[] = {&p.q, &p.k, &p.v};
    for (int n = 0; n < 3; ++n) {
        const std::string &path = arguments.rules.globalProjections[n];
        if (path.empty()) return; // checkRules: all or none
        inputs_.emplace_back(roles[n], options[n], path);
        Input &input = inputs_.back();
        if (arguments.roundTo) input.roundTo(*arguments.roundTo);
        if (!std::equal(input.layout().extent, input.layout().extent + 4, like[n]->extent))
            throw Failure("shapes disagree: " + input.text() + " of " + options[n] + " has another shape than the array of " +
                          std::string(options[n]).substr(0, 3) + ", expected the same");
    }
}

void GlobalRows::findRows(const HostArrays &arrays) {
    const vkattn_problem &p = job_.problem;
    const uint32_t queries = p.q.extent[token], keys = p.k.extent[token], words = keys / 32 + (keys % 32 != 0);
    rows_.resize(p.q.extent[batch]);
    for (uint32_t b = 0; b < rows_.size(); ++b) {
        const uint32_t length = keyLength(p, arrays, b);
        for (uint32_t i = 0; i < queries; ++i) {
            const int64_t position = positionOf(p, i, length);
            if (position < 0 || position >= length) continue;
            const auto at = static_cast<uint32_t>(position);
            if (wordOf(arrays, VKATTN_GLOBAL_TOKENS, uint64_t{b} * words + at / 32) >> at % 32 & 1) rows_[b].push_back(i);
        }
        most_ = std::max(most_, static_cast<uint32_t>(rows_[b].size()));
    }
}

// What hides keys from these rows, whatever it is, as a mask; what is added to their scores, as a bias.
void GlobalRows::addPairs(const HostArrays &arrays, vkattn_problem &problem, HostArrays &own) const {
    const vkattn_problem &p = job_.problem;
    const uint32_t heads = p.q.extent[head], keys = p.k.extent[token];
    const std::vector<vkattn_operand_memory> operands = arrays.operandsOf(operation(p));
    const bool adds = p.bias.extent[0] > 0 || present(p, VKATTN_ALIBI_SLOPES);
    const Extents pairs = {p.q.extent[batch], heads, most_, keys};
    problem.mask = dense("what global tokens see", VKATTN_BOOL8, pairs);
    if (adds) problem.bias = dense("the bias of global tokens", VKATTN_F32, pairs);
    const uint64_t all = uint64_t{pairs[0]} * heads * most_ * keys;
    checkMemory({{"what global tokens see", all}, {"their bias", adds ? 4 * all : 0}});
    HostBuffer mask(static_cast<size_t>(all)), bias(adds ? static_cast<size_t>(4 * all) : 0);
    for (uint32_t b = 0; b < rows_.size(); ++b)
        for (uint32_t h = 0; h < heads; ++h)
            for (uint32_t r = 0; r < rows_[b].size(); ++r) {
                const uint32_t i = rows_[b][r];
                const uint64_t at = ((uint64_t{b} * heads + h) * most_ + r) * keys;
                auto *const visible = reinterpret_cast<unsigned char *>(mask.data()) + at;
                vkattn_diagnostic why{};
                if (vkattnCpuVisible(&p, operands.data(), static_cast<uint32_t>(operands.size()), b, h, i, visible, keys, &why) !=
                    VKATTN_OK)
                    throw Failure(why.message);
                if (!adds) continue;
                auto *const added = reinterpret_cast<float *>(bias.data()) + at;
                const int64_t position = positionOf(p, i, keyLength(p, arrays, b));
                for (uint32_t j = 0; j < keys; ++j) {
                    if (!visible[j]) continue; // a bias of minus infinity too
                    if (p.bias.extent[0] > 0) {
                        const std::byte *const from = arrays.of(VKATTN_BIAS).data() + placeOf(p.bias, b, h, i, j) * itemBytes(p.bias.dtype);
                        if (p.bias.dtype == VKATTN_F32)
                            std::memcpy(&added[j], from, sizeof(float));
                        else
                            convert(p.bias.dtype, from, VKATTN_F32, &added[j], 1);
                    }
                    if (present(p, VKATTN_ALIBI_SLOPES))
                        added[j] -= std::bit_cast<float>(wordOf(arrays, VKATTN_ALIBI_SLOPES, h)) *
                                    static_cast<float>(std::abs(int64_t{j} - position));
                }
            }
    own.add(VKATTN_MASK, std::move(mask));
    if (adds) own.add(VKATTN_BIAS, std::move(bias));
}

std::optional<Verification> GlobalRows::compute(const OpenedRuntime &opened, const HostArrays &arrays, RunResult &result) {
    findRows(arrays);
    if (most_ == 0) return std::nullopt;
    const vkattn_problem &p = job_.problem;
    const uint32_t batches = p.q.extent[batch], heads = p.q.extent[head];
    vkattn_problem problem{};
    problem.structSize = sizeof problem;
    problem.flags = p.flags & (VKATTN_SCALE | VKATTN_DETERMINISTIC | VKATTN_ROW_STATISTICS);
    problem.scale = p.scale;
    problem.softcap = p.softcap;
    problem.kernel = p.kernel;
    problem.presentRoles = p.presentRoles & VKATTN_PRESENT(VKATTN_SINKS);
    problem.q = dense("the queries of global tokens", inputs_[0].layout().dtype, {batches, heads, most_, p.q.extent[dim]});
    problem.k = inputs_[1].layout();
    problem.v = inputs_[2].layout();
    problem.out = dense("the result of global tokens", p.out.dtype, {batches, heads, most_, p.out.extent[dim]});
    if (p.lse.extent[0] > 0) problem.lse = dense("their log-sum-exp", VKATTN_F32, {batches, heads, most_, p.lse.extent[dim]});

    HostArrays own;
    addPairs(arrays, problem, own);
    // Rows one after the other, from or to where they lie among all tokens.
    const auto move = [&](const vkattn_layout &whole, std::byte *tokens, const vkattn_layout &few, std::byte *gathered, bool gather) {
        const size_t bytes = itemBytes(whole.dtype);
        for (uint32_t b = 0; b < batches; ++b)
            for (uint32_t h = 0; h < heads; ++h)
                for (uint32_t r = 0; r < rows_[b].size(); ++r)
                    for (uint32_t d = 0; d < whole.extent[dim]; ++d) {
                        std::byte *const one = tokens + placeOf(whole, b, h, rows_[b][r], d) * bytes;
                        std::byte *const other = gathered + placeOf(few, b, h, r, d) * bytes;
                        gather ? std::memcpy(other, one, bytes) : std::memcpy(one, other, bytes);
                    }
    };
    const vkattn_operation few = operation(problem);
    HostBuffer queries(static_cast<size_t>(vkattnOperationBytes(&few, VKATTN_Q)));
    const HostBuffer all = inputs_[0].load();
    move(inputs_[0].layout(), all.data(), problem.q, queries.data(), true);
    own.add(VKATTN_Q, std::move(queries));
    own.add(VKATTN_K, inputs_[1].load());
    own.add(VKATTN_V, inputs_[2].load());
    for (const vkattn_role role : {VKATTN_OUT, VKATTN_LSE})
        if (const uint64_t bytes = vkattnOperationBytes(&few, role)) own.add(role, HostBuffer(static_cast<size_t>(bytes)));
    if (problem.presentRoles) {
        HostBuffer sinks(arrays.of(VKATTN_SINKS).size());
        std::memcpy(sinks.data(), arrays.of(VKATTN_SINKS).data(), sinks.bytes());
        own.add(VKATTN_SINKS, std::move(sinks));
    }
    const RunResult ran = tool::compute(arguments_, *opened.runtime, few, own);
    result.milliseconds += ran.milliseconds;
    result.dispatchCount += ran.dispatchCount;
    std::optional<Verification> verification;
    if (arguments_.verify) verification = verify(*arguments_.verify, few, own, ran, "global rows");
    for (const auto &[role, whole, part] : {std::tuple{VKATTN_OUT, &p.out, &problem.out}, {VKATTN_LSE, &p.lse, &problem.lse}})
        if (part->extent[0] > 0)
            move(*whole, static_cast<std::byte *>(operandOf(arrays, role).data), *part, static_cast<std::byte *>(operandOf(own, role).data),
                 false);
    return verification;
}

} // namespace vkattn::tool
