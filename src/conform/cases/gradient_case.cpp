#include "conform/cases/gradient_case.hpp"

#include "conform/cases/case_text.hpp"
#include "conform/cases/operation_case.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

namespace vkattn::conform {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr vkattn_role arrayRoles[] = {VKATTN_D_SINKS, VKATTN_D_SLOPES, VKATTN_D_SCALE, VKATTN_D_SOFTCAP};

void forEach(const HostTensor &t, const HostTensor::Elements &visit) {
    const uint32_t *e = t.layout.extent;
    for (uint32_t b = 0; b < e[0]; ++b)
        for (uint32_t h = 0; h < e[1]; ++h)
            for (uint32_t i = 0; i < e[2]; ++i)
                for (uint32_t d = 0; d < e[3]; ++d) (void)visit(b, h, i, d);
}

// NaN in dOut, dLse and dWeights wherever nothing may look.
void poison(GradientCase &g) {
    CaseData &in = *g.data;
    HostTensor &dOut = g.tensors.at(VKATTN_D_OUT);
    const auto spoilRow = [](HostTensor &t, uint32_t b, uint32_t h, uint32_t token) {
        for (uint32_t d = 0; d < t.layout.extent[3]; ++d) t.set(b, h, token, d, nan);
    };
    for (uint32_t b = 0; b < dOut.layout.extent[0]; ++b)
        for (uint32_t h = 0; h < dOut.layout.extent[1]; ++h)
            for (uint32_t token = 0; token < dOut.layout.extent[2]; ++token) {
                if (in.isQuery(b, token)) continue;
                spoilRow(dOut, b, h, token);
                if (g.has(VKATTN_D_LSE)) spoilRow(g.tensors.at(VKATTN_D_LSE), b, h, token);
            }
    if (g.has(VKATTN_D_WEIGHTS))
        forEach(g.tensors.at(VKATTN_D_WEIGHTS), [&](uint32_t b, uint32_t h, uint32_t i, uint32_t j) {
            if (i >= in.spans[b].queries || j >= in.spans[b].keys) g.tensors.at(VKATTN_D_WEIGHTS).set(b, h, i, j, nan);
            return true;
        });
    for (uint32_t b = 0; b < in.c.batch; ++b)
        for (uint32_t h = 0; h < in.c.heads; ++h)
            for (uint32_t i = 0; i < in.spans[b].queries; ++i) {
                const std::vector<unsigned char> keys = in.visibleKeys(b, h, i);
                const uint32_t count = in.spans[b].keys;
                if (std::find(keys.begin(), keys.begin() + count, 1) == keys.begin() + count)
                    spoilRow(dOut, in.spans[b].batch, h, in.spans[b].firstQuery + i);
                for (uint32_t j = 0; g.has(VKATTN_D_WEIGHTS) && j < count; ++j)
                    if (!keys[j]) g.tensors.at(VKATTN_D_WEIGHTS).set(b, h, i, j, nan);
            }
}

const char *roleNameOf(vkattn_role role) {
    constexpr const char *tensors[] = {"dOut", "dLse", "dWeights", "dQ", "dK", "dV", "dBias"};
    constexpr const char *numbers[] = {"dSinks", "dSlopes", "dScale", "dSoftcap", "the word of values that are not finite"};
    if (role >= VKATTN_D_OUT && role <= VKATTN_D_BIAS) return tensors[role - VKATTN_D_OUT];
    return role >= VKATTN_D_SINKS && role <= VKATTN_NONFINITE ? numbers[role - VKATTN_D_SINKS] : "?";
}

} // namespace

GradientCase &GradientCase::operator=(const GradientCase &other) {
    if (this == &other) return *this;
    data = std::make_unique<CaseData>(*other.data);
    data->collectOperands();
    gradient = other.gradient;
    tensors = other.tensors;
    arrays = other.arrays;
    nonfinite = other.nonfinite;
    return *this;
}

vkattn_operation GradientCase::operation() {
    gradient.forward = &data->problem;
    vkattn_operation o{};
    o.kind = VKATTN_ATTENTION_GRADIENT;
    o.of.attentionGradient = &gradient;
    return o;
}

std::vector<vkattn_operand_memory> GradientCase::operands() {
    data->collectOperands();
    std::vector<vkattn_operand_memory> all = data->operands;
    std::erase_if(all, [](const vkattn_operand_memory &each) { return each.role == VKATTN_WEIGHTS; });
    for (auto &[role, t] : tensors) all.push_back({role, t.data(), t.bytes()});
    for (auto &[role, array] : arrays) all.push_back({role, array.data(), 4 * array.size()});
    if (gradient.presentRoles & VKATTN_PRESENT(VKATTN_NONFINITE)) all.push_back({VKATTN_NONFINITE, &nonfinite, 4});
    return all;
}

vkattn_layout &GradientCase::layout(vkattn_role role) {
    vkattn_layout *const all[] = {&gradient.dOut, &gradient.dLse, &gradient.dWeights, &gradient.dQ,
                                  &gradient.dK,   &gradient.dV,   &gradient.dBias};
    return *all[role - VKATTN_D_OUT];
}

std::string GradientCase::damage(const GradientCase &before) const {
    for (const auto &[role, t] : tensors) {
        HostTensor::Elements written; // every element
        if (role == VKATTN_D_Q) written = [this](uint32_t b, uint32_t, uint32_t token, uint32_t) { return data->isQuery(b, token); };
        if (role == VKATTN_D_K || role == VKATTN_D_V)
            written = [this](uint32_t b, uint32_t, uint32_t token, uint32_t) { return data->isKey(b, token); };
        if (isGradientInput(role)) written = [](auto...) { return false; };
        const std::string found = t.damage(before.tensors.at(role), written);
        if (!found.empty()) return std::string(roleNameOf(role)) + ": " + found;
    }
    const HostTensor::Elements none = [](auto...) { return false; };
    const std::pair<const HostTensor *, const HostTensor *> inputs[] = {{&data->q, &before.data->q},
                                                                        {&data->k, &before.data->k},
                                                                        {&data->v, &before.data->v},
                                                                        {&data->out, &before.data->out},
                                                                        {&data->lse, &before.data->lse}};
    for (const auto &[now, then] : inputs)
        if (const std::string found = now->damage(*then, none); !found.empty()) return "an input: " + found;
    return {};
}

std::string GradientCase::text() const {
    std::string all = caseText(data->c) + ";";
    for (const auto &[role, t] : tensors) all += std::string(" ") + roleNameOf(role) + ":" + dtypeNameOf(t.layout.dtype);
    for (const auto &[role, array] : arrays) all += std::string(" ") + roleNameOf(role);
    char numbers[160];
    std::snprintf(numbers, sizeof numbers, " lossScale=%g dropout=%g seed=%llu offset=%u flags=%u", static_cast<double>(gradient.lossScale),
                  data->problem.dropout, static_cast<unsigned long long>(data->problem.dropoutSeed), data->problem.dropoutOffset,
                  data->problem.flags);
    return all + numbers;
}

std::string GradientCase::wrong(GradientCase &before, float probabilityUnit, float probabilityFloor, vkattn_verify_report *given) {
    const OperationOutcome outcome = verifyOutputs(operation(), operands(), roleNameOf, probabilityUnit, probabilityFloor);
    if (given) *given = outcome.report;
    return outcome.wrong.empty() ? damage(before) : outcome.wrong;
}

GradientCase drawGradient(Random &random, const Case &attention, const GradientOptions &options) {
    const auto yes = [&](uint32_t of = 2) { return between(random, 1, of) == 1; };
    GradientCase g;
    Case c = attention;
    c.lse = true;
    c.weights = yes(3);
    c.scores.reset();
    c.keysHoldValues = c.weightsDropped = false;
    c.dropout = 0;                              // drawn below
    if (options.everything) c.out = VKATTN_F32; // D_i is as exact as out
    if (options.matrices) c.q = c.k = c.v = yes(4) ? VKATTN_BF16 : VKATTN_F16;
    dropCacheForms(c);
    c.hooks = options.weighingHooks ? withSums(c.hooks) : withoutWeighing(c.hooks);
    c.slices = 0;
    c.kernel = VKATTN_KERNEL_AUTO;
    g.data = makeCaseData(c, random);
    CaseData &in = *g.data;
    vkattn_problem &p = in.problem;
    p.flags |= VKATTN_ROW_STATISTICS;
    const uint32_t *q = p.q.extent, *k = p.k.extent;
    p.lse = drawLayout(random, VKATTN_F32, true, {q[0], q[1], q[2], 2});
    in.lse.make(p.lse, vkattnOperandBytes(&p, VKATTN_LSE), 0xff);
    in.lse.fillRandomly(random);
    in.collectOperands();
    const uint32_t pairs[4] = {c.ragged ? p.sequences : q[0], q[1], p.maxSeqQ ? p.maxSeqQ : q[2], p.maxSeqK ? p.maxSeqK : k[2]};
    if (options.dropout && yes(3)) {
        p.dropout = yes(8) ? 1 : 0.01 * between(random, 1, 90);
        p.dropoutSeed = random();
        p.dropoutOffset = static_cast<uint32_t>(random());
        if (c.weights && yes()) p.flags |= VKATTN_WEIGHTS_DROPPED;
    }
    g.gradient.structSize = sizeof g.gradient;
    g.gradient.lossScale = options.everything || yes() ? 0.0f : yes() ? 1024.0f : 0.3f;
    const auto type = [&] { return options.everything ? VKATTN_F32 : drawType(random); };
    const auto wanted = [&](uint32_t of) { return options.everything || !yes(of); };
    g.layout(VKATTN_D_OUT) = drawLayout(random, options.matrices ? c.q : type(), true, p.out.extent);
    if (yes()) g.layout(VKATTN_D_LSE) = drawLayout(random, VKATTN_F32, true, {q[0], q[1], q[2], 1});
    if (yes(3) && !options.matrices)
        g.layout(VKATTN_D_WEIGHTS) = drawLayout(random, type(), true, {pairs[0], pairs[1], pairs[2], pairs[3]});
    if (wanted(4)) g.layout(VKATTN_D_Q) = drawLayout(random, type(), true, p.q.extent);
    if (wanted(4)) g.layout(VKATTN_D_K) = drawLayout(random, type(), true, p.k.extent);
    if (wanted(4)) g.layout(VKATTN_D_V) = drawLayout(random, type(), true, p.v.extent);
    if (c.biasBroadcast && !options.matrices && wanted(4)) g.layout(VKATTN_D_BIAS) = drawLayout(random, type(), true, p.bias.extent);
    const bool possible[] = {c.sinks, c.alibi, true, c.softcap > 0};
    for (size_t n = 0; n < 4; ++n)
        if (possible[n] && wanted(3)) g.arrays[arrayRoles[n]].assign(n < 2 ? c.heads : 1, nan);
    const bool any = g.gradient.dQ.extent[0] || g.gradient.dK.extent[0] || g.gradient.dV.extent[0] || g.gradient.dBias.extent[0];
    if (!any && g.arrays.empty()) g.arrays[VKATTN_D_SCALE].assign(1, nan);
    for (const auto &[role, array] : g.arrays) g.gradient.presentRoles |= VKATTN_PRESENT(role);
    if (yes()) g.gradient.presentRoles |= VKATTN_PRESENT(VKATTN_NONFINITE);

    const vkattn_operation o = g.operation();
    std::normal_distribution<float> normal;
    const float scale = g.gradient.lossScale > 0 ? g.gradient.lossScale : 1;
    for (const vkattn_role role : gradientTensorRoles) {
        if (g.layout(role).extent[0] == 0) continue;
        HostTensor &t = g.tensors[role];
        t.make(g.layout(role), vkattnOperationBytes(&o, role), 0xff); // gaps of inputs are NaN
        if (isGradientInput(role))
            forEach(t, [&](uint32_t b, uint32_t h, uint32_t i, uint32_t d) { return t.set(b, h, i, d, scale * normal(random)), true; });
        else
            t.fillRandomly(random);
    }
    poison(g);
    return g;
}

Case drawAttentionOfGradient(Random &random, const GradientOptions &options) {
    Case c = randomCase(random, options.most);
    // Rows whose scores are as large as a type goes have tests of their own.
    if (c.data == Data::extreme) c.data = Data::normal;
    return c;
}

GradientCase drawGradient(Random &random, const GradientOptions &options) {
    return drawGradient(random, drawAttentionOfGradient(random, options), options);
}

} // namespace vkattn::conform
