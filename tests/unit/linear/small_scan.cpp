#include "small_scan.hpp"

#include <algorithm>
#include <gtest/gtest.h>

namespace vkattn::test {
namespace {

constexpr vkattn_role roles[] = {VKATTN_Q,     VKATTN_K,        VKATTN_V,   VKATTN_DECAY,    VKATTN_WRITE_STRENGTH,
                                 VKATTN_OMEGA, VKATTN_STATE_IN, VKATTN_OUT, VKATTN_STATE_OUT};

vkattn_layout dense(uint32_t batch, uint32_t heads, uint32_t tokens, uint32_t dims) {
    const int64_t rows = int64_t{tokens} * dims;
    return {VKATTN_F32, {batch, heads, tokens, dims}, {rows * heads, rows, dims, 1}, 0};
}

} // namespace

SmallScan::SmallScan(vkattn_linear_rule rule, uint32_t heads, uint32_t tokens, uint32_t keyDim, uint32_t valueDim) {
    linear.structSize = sizeof linear;
    linear.rule = rule;
    add(VKATTN_Q, 1, heads, tokens, keyDim);
    add(VKATTN_K, 1, heads, tokens, keyDim);
    add(VKATTN_V, 1, heads, tokens, valueDim);
    add(VKATTN_OUT, 1, heads, tokens, valueDim);
    if (isGated(rule)) add(VKATTN_DECAY, 1, heads, tokens, 1);
    if (isDelta(rule)) add(VKATTN_WRITE_STRENGTH, 1, heads, tokens, 1);
}

vkattn_layout &SmallScan::layout(vkattn_role role) {
    return role == VKATTN_Q                ? linear.q
           : role == VKATTN_K              ? linear.k
           : role == VKATTN_V              ? linear.v
           : role == VKATTN_DECAY          ? linear.decay
           : role == VKATTN_WRITE_STRENGTH ? linear.writeStrength
           : role == VKATTN_OMEGA          ? linear.omega
           : role == VKATTN_STATE_IN       ? linear.stateIn
           : role == VKATTN_OUT            ? linear.out
           : role == VKATTN_STATE_OUT      ? linear.stateOut
                                           : linear.snapshots;
}

std::vector<float> &SmallScan::add(vkattn_role role, uint32_t batch, uint32_t heads, uint32_t tokens, uint32_t dims) {
    layout(role) = dense(batch, heads, tokens, dims);
    return arrays[role] = std::vector<float>(size_t{batch} * heads * tokens * dims);
}

void SmallScan::draw(Random &random, float factor) {
    std::normal_distribution<float> normal;
    for (const vkattn_role role : roles) {
        if (role == VKATTN_OUT || role == VKATTN_STATE_OUT || role == VKATTN_STATE_IN) continue;
        for (float &each : arrays[role]) {
            const float x = normal(random);
            each = role == VKATTN_DECAY ? -0.1f * std::abs(x) : role == VKATTN_WRITE_STRENGTH ? 1 / (1 + std::exp(-x)) : factor * x;
        }
    }
}

uint32_t SmallScan::stateRows() const {
    const uint32_t features = linear.omega.extent[2] ? linear.omega.extent[2] : linear.k.extent[3];
    return linear.features == VKATTN_FEATURES_FAVOR2 ? 2 * features : features;
}

uint32_t SmallScan::stateColumns() const {
    const uint32_t values = linear.v.extent[3];
    return linear.rule != VKATTN_LINEAR_FEATURES ? values : linear.features >= VKATTN_FEATURES_FAVOR ? values + 2 : values + 1;
}

void SmallScan::addStates() {
    const uint32_t heads = std::max({linear.k.extent[1], linear.v.extent[1], linear.omega.extent[1]});
    for (const vkattn_role role : {VKATTN_STATE_IN, VKATTN_STATE_OUT}) add(role, linear.k.extent[0], heads, stateRows(), stateColumns());
}

std::vector<vkattn_operand_memory> SmallScan::memory() {
    std::vector<vkattn_operand_memory> all;
    for (auto &[role, array] : arrays)
        if (layout(role).extent[0]) all.push_back({role, array.data(), 4 * array.size()});
    if (linear.presentRoles) all.push_back({VKATTN_KEY_LENGTHS, lengths.data(), 4 * lengths.size()});
    return all;
}

void SmallScan::run(uint32_t threads) {
    runOnCpu(operation(), memory(), threads, "small scan");
}

void SmallScan::runOracle() {
    runOracleOf(operation(), memory(), "small scan");
}

std::string SmallScan::wrong() {
    const vkattn_verify_report report = verifiedOnCpu(operation(), memory(), "small scan");
    if (report.passed) return {};
    char text[160];
    std::snprintf(text, sizeof text, "role %d at [%u, %u, %u, %u]: got %.9g, expected %.9g, bound %.3g", report.worstRole,
                  report.worstIndex[0], report.worstIndex[1], report.worstIndex[2], report.worstIndex[3], report.worstGot,
                  report.worstExpected, report.worstBound);
    return text;
}

SmallScan SmallScan::part(uint32_t first, uint32_t count, SmallScan *before) {
    SmallScan piece = *this;
    for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_OUT, VKATTN_DECAY, VKATTN_WRITE_STRENGTH}) {
        const vkattn_layout whole = layout(role);
        if (!whole.extent[0]) continue;
        const uint32_t heads = whole.extent[0] * whole.extent[1], dims = whole.extent[3];
        std::vector<float> &to = piece.add(role, whole.extent[0], whole.extent[1], count, dims);
        for (uint32_t h = 0; h < heads; ++h)
            std::copy_n(arrays[role].begin() + static_cast<ptrdiff_t>((size_t{h} * whole.extent[2] + first) * dims), size_t{count} * dims,
                        to.begin() + static_cast<ptrdiff_t>(size_t{h} * count * dims));
    }
    if (before) piece[VKATTN_STATE_IN] = (*before)[VKATTN_STATE_OUT];
    return piece;
}

} // namespace vkattn::test
