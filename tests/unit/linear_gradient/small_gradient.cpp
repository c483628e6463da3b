#include "small_gradient.hpp"

#include <algorithm>
#include <cstdio>

namespace vkattn::test {

vkattn_role sourceOf(vkattn_role gradient) {
    switch (gradient) {
    case VKATTN_D_OUT:
        return VKATTN_OUT;
    case VKATTN_D_STATE_OUT:
        return VKATTN_STATE_OUT;
    case VKATTN_D_Q:
        return VKATTN_Q;
    case VKATTN_D_K:
        return VKATTN_K;
    case VKATTN_D_V:
        return VKATTN_V;
    case VKATTN_D_DECAY:
        return VKATTN_DECAY;
    case VKATTN_D_WRITE_STRENGTH:
        return VKATTN_WRITE_STRENGTH;
    default:
        return VKATTN_STATE_IN;
    }
}

SmallGradient::SmallGradient(SmallScan of) : forward(std::move(of)) {
    gradient.structSize = sizeof gradient;
    add(VKATTN_D_OUT, forward.linear.out.extent);
    if (forward.linear.stateOut.extent[0]) add(VKATTN_D_STATE_OUT, forward.linear.stateOut.extent);
    for (const vkattn_role role : smallGradients)
        if (forward.layout(sourceOf(role)).extent[0]) add(role, forward.layout(sourceOf(role)).extent);
}

vkattn_operation SmallGradient::operation() {
    gradient.forward = &forward.linear;
    return vkattn::operation(gradient);
}

vkattn_layout &SmallGradient::layout(vkattn_role role) {
    return role == VKATTN_D_OUT              ? gradient.dOut
           : role == VKATTN_D_STATE_OUT      ? gradient.dStateOut
           : role == VKATTN_D_Q              ? gradient.dQ
           : role == VKATTN_D_K              ? gradient.dK
           : role == VKATTN_D_V              ? gradient.dV
           : role == VKATTN_D_DECAY          ? gradient.dDecay
           : role == VKATTN_D_WRITE_STRENGTH ? gradient.dWriteStrength
                                             : gradient.dStateIn;
}

std::vector<float> &SmallGradient::add(vkattn_role role, const uint32_t (&e)[4]) {
    const int64_t rows = int64_t{e[2]} * e[3];
    layout(role) = {VKATTN_F32, {e[0], e[1], e[2], e[3]}, {rows * e[1], rows, e[3], 1}, 0};
    return arrays[role] = std::vector<float>(size_t{e[0]} * e[1] * e[2] * e[3]);
}

void SmallGradient::draw(Random &random) {
    std::normal_distribution<float> normal;
    for (const vkattn_role role : {VKATTN_D_OUT, VKATTN_D_STATE_OUT})
        for (float &each : arrays[role]) each = normal(random);
}

std::vector<vkattn_operand_memory> SmallGradient::memory() {
    std::vector<vkattn_operand_memory> all;
    for (const vkattn_operand_memory &each : forward.memory())
        if (each.role != VKATTN_OUT && each.role != VKATTN_STATE_OUT && each.role != VKATTN_SNAPSHOTS) all.push_back(each);
    for (auto &[role, array] : arrays)
        if (layout(role).extent[0]) all.push_back({role, array.data(), 4 * array.size()});
    if (gradient.presentRoles) all.push_back({VKATTN_NONFINITE, &nonfinite, sizeof nonfinite});
    return all;
}

void SmallGradient::run(uint32_t threads) {
    runOnCpu(operation(), memory(), threads, "small gradient");
}

void SmallGradient::runOracle() {
    runOracleOf(operation(), memory(), "small gradient");
}

std::string SmallGradient::wrong() {
    const vkattn_verify_report report = verifiedOnCpu(operation(), memory(), "small gradient");
    if (report.passed) return {};
    char text[160];
    std::snprintf(text, sizeof text, "role %d at [%u, %u, %u, %u]: got %.9g, expected %.9g, bound %.3g", report.worstRole,
                  report.worstIndex[0], report.worstIndex[1], report.worstIndex[2], report.worstIndex[3], report.worstGot,
                  report.worstExpected, report.worstBound);
    return text;
}

std::vector<SmallScan> everySmallScan(Random &random, uint32_t tokens) {
    std::vector<SmallScan> all;
    for (int kind = 0; kind < 14; ++kind) {
        const bool features = kind < 10;
        SmallScan c(features ? VKATTN_LINEAR_FEATURES : static_cast<vkattn_linear_rule>(std::min(kind - 9, 4)), 2, tokens, 4, 3);
        if (features) {
            c.linear.features = static_cast<vkattn_feature_map>(kind % 5 % 4);
            if (kind < 5) c.linear.flags = VKATTN_CAUSAL;
            if (kind % 5 >= 2) c.add(VKATTN_OMEGA, 1, 2, 6, 4);
            if (kind % 5 == 4) c.linear.features = VKATTN_FEATURES_RELU; // with omega
        }
        if (kind == 13) c.add(VKATTN_DECAY, 1, 2, tokens, 4);
        c.addStates();
        c.draw(random, 0.5f);
        std::normal_distribution<float> normal;
        for (size_t n = 0; n < c[VKATTN_STATE_IN].size(); ++n) {
            const uint32_t column = static_cast<uint32_t>(n % c.stateColumns());
            const float x = normal(random);
            c[VKATTN_STATE_IN][n] = features && column == 3 ? std::abs(x) + 1 : 0.5f * x; // z is a sum of features
        }
        all.push_back(c);
    }
    return all;
}

} // namespace vkattn::test
