#include "device/gradient/gradient_case.hpp"

#include "conform/cases/case_text.hpp"
#include "conform/cases/operation_case.hpp"
#include "problem/dropout.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <limits>

namespace vkattn::test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

float drawn(Random &random) {
    return static_cast<float>(static_cast<int64_t>(random() % 4001) - 2000) * 0.0007f;
}

template <class Visit> void eachElement(const vkattn_layout &l, const Visit &visit) {
    for (uint32_t b = 0; b < l.extent[0]; ++b)
        for (uint32_t h = 0; h < l.extent[1]; ++h)
            for (uint32_t t = 0; t < l.extent[2]; ++t)
                for (uint32_t d = 0; d < l.extent[3]; ++d) visit(b, h, t, d);
}

} // namespace

GradientOptions drawGradientOptions(Random &random) {
    const auto often = [&] { return random() % 3 != 0; };
    GradientOptions o;
    o.dLse = random() % 2, o.dWeights = random() % 3 == 0, o.weightsDropped = random() % 2;
    o.nonfinite = random() % 2;
    o.dQ = often(), o.dK = often(), o.dV = often() || (!o.dQ && !o.dK);
    o.dBias = often(), o.arrays = often(), o.dScale = random() % 3 == 0;
    o.drawLayouts = random() % 2;
    if (random() % 3 == 0) o.dropout = random() % 5 == 0 ? 1.0 : 0.1 * static_cast<double>(between(random, 1, 9));
    if (random() % 4 == 0) o.lossScale = random() % 2 ? 1024.0f : 0.3f;
    return o;
}

Case asForward(Case c, vkattn_gradient_kernel kernel) {
    c.hooks = kernel == VKATTN_GRADIENT_COOPMAT ? withoutWeighing(c.hooks) : withSums(c.hooks);
    c.lse = true;
    c.writeNoPairs();
    c.keysHoldValues = false;
    dropCacheForms(c);
    c.slices = 0;
    c.kernel = VKATTN_KERNEL_AUTO;
    return c;
}

GradientCase::GradientCase(const Case &given, const GradientOptions &wanted, Random &random)
    : options(wanted), forward(makeCaseData(asForward(given, wanted.kernel), random)) {
    vkattn_problem &p = forward->problem;
    p.flags |= VKATTN_ROW_STATISTICS | (options.weightsDropped ? VKATTN_WEIGHTS_DROPPED : 0);
    if (options.dropout > 0) p.dropout = options.dropout, p.dropoutSeed = random(), p.dropoutOffset = static_cast<uint32_t>(random());
    const uint32_t statistics[4] = {p.out.extent[0], p.out.extent[1], p.out.extent[2], 2};
    p.lse = options.drawLayouts ? drawLayout(random, VKATTN_F32, true, statistics)
                                : packed(VKATTN_F32, statistics[0], statistics[1], statistics[2], 2);

    vkattn_attention_gradient &g = description;
    g.structSize = sizeof g;
    g.forward = &p;
    g.kernel = options.kernel;
    g.lossScale = options.lossScale;
    const auto has = [&](vkattn_role role) { return (p.presentRoles & VKATTN_PRESENT(role)) != 0; };
    const uint32_t lse[4] = {p.out.extent[0], p.out.extent[1], p.out.extent[2], 1};
    const bool ragged = p.sequences != 0;
    const uint32_t pairs[4] = {ragged ? p.sequences : p.q.extent[0], p.q.extent[1],
                               ragged ? (p.maxSeqQ ? p.maxSeqQ : p.q.extent[2]) : p.q.extent[2],
                               ragged ? (p.maxSeqK ? p.maxSeqK : p.k.extent[2]) : p.k.extent[2]};
    // The forward pass has had weights; they are not bound.
    if (options.weightsDropped) p.weights = packed(VKATTN_F32, pairs[0], pairs[1], pairs[2], pairs[3]);
    // A description's layouts are complete before bytes are asked for.
    const auto layOut = [&](bool wants, vkattn_layout &layout, vkattn_dtype dtype, const uint32_t(&e)[4], bool output) {
        if (!wants) return;
        if (options.drawLayouts && dtype != VKATTN_BITS32) dtype = &layout == &g.dLse ? VKATTN_F32 : drawType(random);
        if (options.dOutAsQ && &layout == &g.dOut) dtype = p.q.dtype;
        layout = options.drawLayouts ? drawLayout(random, dtype, output, e) : packed(dtype, e[0], e[1], e[2], e[3]);
    };
    layOut(true, g.dOut, p.out.dtype, p.out.extent, false);
    layOut(options.dLse, g.dLse, VKATTN_F32, lse, false);
    layOut(options.dWeights, g.dWeights, VKATTN_F32, pairs, false);
    layOut(options.dQ, g.dQ, p.q.dtype, p.q.extent, true);
    layOut(options.dK, g.dK, p.k.dtype, p.k.extent, true);
    layOut(options.dV, g.dV, p.v.dtype, p.v.extent, true);
    layOut(options.dBias && p.bias.extent[0], g.dBias, p.bias.dtype, p.bias.extent, true);
    if (options.arrays && has(VKATTN_SINKS)) g.presentRoles |= VKATTN_PRESENT(VKATTN_D_SINKS);
    if (options.arrays && has(VKATTN_ALIBI_SLOPES)) g.presentRoles |= VKATTN_PRESENT(VKATTN_D_SLOPES);
    if (options.arrays && p.softcap > 0) g.presentRoles |= VKATTN_PRESENT(VKATTN_D_SOFTCAP);
    if (options.dScale) g.presentRoles |= VKATTN_PRESENT(VKATTN_D_SCALE);
    if (options.nonfinite) g.presentRoles |= VKATTN_PRESENT(VKATTN_NONFINITE);

    const std::pair<vkattn_role, const vkattn_layout *> all[] = {
        {VKATTN_D_OUT, &g.dOut}, {VKATTN_D_LSE, &g.dLse}, {VKATTN_D_WEIGHTS, &g.dWeights}, {VKATTN_D_Q, &g.dQ},
        {VKATTN_D_K, &g.dK},     {VKATTN_D_V, &g.dV},     {VKATTN_D_BIAS, &g.dBias}};
    const vkattn_operation described = operation();
    vkattn_diagnostic why{};
    if (vkattnValidateOperation(&described, &why) != VKATTN_OK) {
        ADD_FAILURE() << why.message << ": " << text();
        std::abort(); // there is no memory of the right size
    }
    for (const auto &[role, layout] : all) {
        if (!layout->extent[0]) continue;
        tensors.push_back({role, {}});
        HostTensor &t = tensors.back().tensor;
        t.make(*layout, vkattnOperationBytes(&described, role), 0xff);
        if (writes(role))
            t.fillRandomly(random);
        else
            eachElement(*layout, [&](uint32_t b, uint32_t h, uint32_t i, uint32_t d) { t.set(b, h, i, d, drawn(random)); });
    }
    for (const vkattn_role role : {VKATTN_D_SINKS, VKATTN_D_SLOPES, VKATTN_D_SCALE, VKATTN_D_SOFTCAP, VKATTN_NONFINITE}) {
        if (!(g.presentRoles & VKATTN_PRESENT(role))) continue;
        tensors.push_back({role, {}});
        const uint32_t count = role == VKATTN_D_SINKS || role == VKATTN_D_SLOPES ? p.q.extent[1] : 1;
        HostTensor &t = tensors.back().tensor;
        t.make(packed(VKATTN_BITS32, 1, 1, 1, count), 4ull * count, 0xff);
        if (role == VKATTN_NONFINITE) t.setWord(0, 0, 0, 0, 0);
    }
    forward->lse.make(p.lse, vkattnOperationBytes(&described, VKATTN_LSE), 0xff);
    forward->collectOperands();
    poisonHidden();
    computeForward();
}

vkattn_operation GradientCase::operation() const {
    return vkattn::operation(description);
}

bool GradientCase::writes(vkattn_role role) const {
    return role >= VKATTN_D_Q && role != VKATTN_D_WEIGHTS;
}

HostTensor *GradientCase::find(vkattn_role role) {
    for (Given &each : tensors)
        if (each.role == role) return &each.tensor;
    return nullptr;
}

std::vector<vkattn_operand_memory> GradientCase::operands() {
    std::vector<vkattn_operand_memory> all = forward->operands;
    for (Given &each : tensors) all.push_back({each.role, each.tensor.data(), each.tensor.bytes()});
    return all;
}

std::vector<unsigned char> GradientCase::visibleKeys(uint32_t sequence, uint32_t head, uint32_t query) const {
    vkattn_problem p = forward->problem; // without weights, which are not bound
    p.weights = {};
    p.flags &= ~uint32_t{VKATTN_WEIGHTS_DROPPED};
    std::vector<unsigned char> seen(std::max(p.k.extent[2], p.maxSeqK));
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnCpuVisible(&p, forward->operands.data(), static_cast<uint32_t>(forward->operands.size()), sequence, head, query,
                               seen.data(), static_cast<uint32_t>(seen.size()), &why),
              VKATTN_OK)
        << why.message;
    return seen;
}

// Nothing reads dOut of a row that sees nothing, nor dWeights of a pair that is hidden.
void GradientCase::poisonHidden() {
    HostTensor &dOut = *find(VKATTN_D_OUT);
    HostTensor *const dWeights = find(VKATTN_D_WEIGHTS);
    const bool shared =
        description.dOut.strideElems[0] == 0 || description.dOut.strideElems[1] == 0 || description.dOut.strideElems[2] == 0;
    const bool sharedWeights = dWeights && std::any_of(description.dWeights.strideElems, description.dWeights.strideElems + 4,
                                                       [](int64_t stride) { return stride == 0; });
    if (!forward->c.poison) return;
    for (uint32_t s = 0; s < forward->spans.size(); ++s)
        for (uint32_t h = 0; h < forward->c.heads; ++h)
            for (uint32_t i = 0; i < forward->spans[s].queries; ++i) {
                const std::vector<unsigned char> visible = visibleKeys(s, h, i);
                const bool any = std::any_of(visible.begin(), visible.end(), [](unsigned char c) { return c != 0; });
                const Span &span = forward->spans[s];
                for (uint32_t d = 0; !any && !shared && d < description.dOut.extent[3]; ++d)
                    dOut.set(span.batch, h, span.firstQuery + i, d, nan);
                if (!dWeights || sharedWeights) continue;
                for (uint32_t j = 0; j < description.dWeights.extent[3]; ++j)
                    if (j >= visible.size() || !visible[j]) dWeights->set(s, h, i, j, nan);
            }
}

// The formulas of vkattn/problem.h in plain loops.
void GradientCase::computeForward() {
    CaseData &f = *forward;
    const vkattn_problem &p = f.problem;
    const uint32_t heads = p.q.extent[1], group = heads / p.k.extent[1], headDim = p.q.extent[3], valueDim = p.v.extent[3];
    const double scale = p.flags & VKATTN_SCALE ? static_cast<double>(p.scale) : 1 / std::sqrt(static_cast<double>(headDim));
    const uint64_t threshold = dropoutThreshold(p.dropout);
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const bool sinks = p.presentRoles & VKATTN_PRESENT(VKATTN_SINKS), slopes = p.presentRoles & VKATTN_PRESENT(VKATTN_ALIBI_SLOPES);
    for (uint32_t s = 0; s < f.spans.size(); ++s)
        for (uint32_t h = 0; h < heads; ++h)
            for (uint32_t i = 0; i < f.spans[s].queries; ++i) {
                const Span &span = f.spans[s];
                const uint32_t token = span.firstQuery + i, kvHead = h / group;
                const std::vector<unsigned char> visible = visibleKeys(s, h, i);
                const auto pairOf = [&](uint32_t j) {
                    vkattn_program_pair pair{s, h, i, j, f.position(s, i), span.queries, span.keys, p.programWords, {}, {}};
                    const std::vector<uint32_t> *const buffers[] = {&f.hookNumbers, &f.hookBits};
                    for (int n = 0; n < 2; ++n) pair.buffers[n] = buffers[n]->data(), pair.bufferWords[n] = p.programBufferWords[n];
                    return pair;
                };
                std::vector<double> score(visible.size());
                double maximum = sinks ? static_cast<double>(f.sinks[h]) : -infinity, sum = 0;
                const double sink = maximum;
                bool undefined = std::isnan(sink);
                for (uint32_t j = 0; j < visible.size(); ++j) {
                    if (!visible[j]) continue;
                    double x = 0;
                    for (uint32_t d = 0; d < headDim; ++d)
                        x += static_cast<double>(f.q.get(span.batch, h, token, d)) *
                             static_cast<double>(f.k.get(span.batch, kvHead, span.firstKey + j, d));
                    x *= scale;
                    if (p.softcap > 0) x = static_cast<double>(p.softcap) * std::tanh(x / static_cast<double>(p.softcap));
                    const auto at = [](uint32_t extent, uint32_t n) { return extent == 1 ? 0 : n; };
                    const uint32_t *const e = p.bias.extent;
                    if (e[0]) x += static_cast<double>(f.bias.get(at(e[0], s), at(e[1], h), at(e[2], i), at(e[3], j)));
                    if (slopes) x -= static_cast<double>(f.slopes[h]) * std::abs(static_cast<double>(j - f.position(s, i)));
                    if (p.program && (p.program->hooks & VKATTN_HOOK_SCORE)) {
                        const vkattn_program_pair pair = pairOf(j);
                        x = p.program->score(x, &pair);
                    }
                    score[j] = x;
                    undefined = undefined || std::isnan(x) || x == infinity;
                    maximum = std::max(maximum, x);
                }
                if (sink != -infinity) sum += std::exp(sink - maximum);
                std::vector<double> out(valueDim);
                const DropoutPlane plane{p.dropoutSeed, p.dropoutOffset, s * heads + h};
                for (uint32_t j = 0; j < visible.size(); ++j) {
                    if (!visible[j]) continue;
                    double weight = std::exp(score[j] - maximum);
                    sum += weight;
                    if (p.program && (p.program->hooks & VKATTN_HOOK_PROBABILITY)) {
                        const vkattn_program_pair pair = pairOf(j);
                        weight = p.program->probability(weight, &pair);
                    }
                    if (threshold && !plane.keeps(threshold, i, j)) continue;
                    for (uint32_t d = 0; d < valueDim; ++d)
                        out[d] += weight * static_cast<double>(f.v.get(span.batch, kvHead, span.firstKey + j, d)) *
                                  (threshold ? dropoutFactor(threshold) : 1);
                }
                for (uint32_t d = 0; d < valueDim; ++d)
                    f.out.set(span.batch, h, token, d, undefined ? nan : sum > 0 ? static_cast<float>(out[d] / sum) : 0.0f);
                f.lse.set(span.batch, h, token, 0, undefined ? nan : static_cast<float>(maximum));
                f.lse.set(span.batch, h, token, 1, undefined ? nan : static_cast<float>(sum));
            }
}

std::string GradientCase::damage(const std::vector<Given> &before) const {
    const bool ragged = description.forward->sequences != 0;
    for (size_t n = 0; n < tensors.size(); ++n) {
        const vkattn_role role = tensors[n].role;
        HostTensor::Elements written;
        if (!writes(role)) written = [](uint32_t, uint32_t, uint32_t, uint32_t) { return false; };
        if (ragged && (role == VKATTN_D_Q || role == VKATTN_D_K || role == VKATTN_D_V))
            written = [&, role](uint32_t, uint32_t, uint32_t t, uint32_t) {
                for (const Span &span : forward->spans) {
                    const uint32_t first = role == VKATTN_D_Q ? span.firstQuery : span.firstKey;
                    if (t >= first && t - first < (role == VKATTN_D_Q ? span.queries : span.keys)) return true;
                }
                return false;
            };
        if (const std::string what = tensors[n].tensor.damage(before[n].tensor, written); !what.empty())
            return "role " + std::to_string(role) + ": " + what;
    }
    return {};
}

std::string GradientCase::text() const {
    const GradientOptions &o = options;
    std::string text = conform::caseText(forward->c);
    const std::pair<bool, const char *> flags[] = {{o.dLse, " dLse"},
                                                   {o.dWeights, " dWeights"},
                                                   {o.weightsDropped, " weightsDropped"},
                                                   {o.dQ, " dQ"},
                                                   {o.dK, " dK"},
                                                   {o.dV, " dV"},
                                                   {o.dBias, " dBias"},
                                                   {o.arrays, " arrays"},
                                                   {o.dScale, " dScale"},
                                                   {o.nonfinite, " nonfinite"},
                                                   {o.drawLayouts, " layouts"}};
    for (const auto &[on, name] : flags)
        if (on) text += name;
    text += " dropout " + std::to_string(o.dropout) + " lossScale " + std::to_string(static_cast<double>(o.lossScale));
    return text;
}

std::string runAndVerify(Runtime &runtime, GradientCase &c) {
    const std::vector<GradientCase::Given> before = c.tensors;
    const std::vector<vkattn_operand_memory> operands = c.operands();
    const vkattn_operation operation = c.operation();
    const RunResult result = runtime.run(operation, operands);
    if (result.status != VKATTN_OK) return "status " + std::to_string(result.status) + ": " + result.message;
    if (!result.fallbackReason.empty()) return "the CPU computed: " + result.fallbackReason;
    if (std::string damage = c.damage(before); !damage.empty()) return damage;
    vkattn_verify_options options{};
    options.structSize = sizeof options;
    options.allRows = 1;
    options.threads = 1;
    options.probabilityUnit = result.probabilityUnit;
    options.probabilityFloor = result.probabilityFloor;
    vkattn_verify_report report{};
    vkattn_diagnostic why{};
    if (vkattnCpuVerifyOperation(&operation, operands.data(), static_cast<uint32_t>(operands.size()), &options, &report, &why))
        return std::string("verify: ") + why.message;
    if (report.passed) return {};
    std::string at;
    for (const uint32_t index : report.worstIndex) at += " " + std::to_string(index);
    return "role " + std::to_string(report.worstRole) + " at" + at + ": " + std::to_string(report.worstGot) + " instead of " +
           std::to_string(report.worstExpected) + ", error " + std::to_string(report.worstError) + ", bound " +
           std::to_string(report.worstBound);
}

} // namespace vkattn::test
