// What the tests of linear attention and of its gradients do alike on the device.
#pragma once

#include "conform/linear/linear_case.hpp"
#include "device/environment.hpp"
#include "support/extent.hpp"

#include <cstdio>
#include <string>

namespace vkattn::test {

inline bool hasBuffersPerStage(uint32_t buffers) {
    const DeviceInfo *device = bench().device();
    return device && device->caps.maxStorageBuffersPerStage >= buffers;
}

// Returns what is wrong; the results are in the case.
template <class AnyCase> std::string runAndVerify(Runtime &runtime, AnyCase &c) {
    AnyCase before = c;
    const RunResult result = runtime.run(c.operation(), c.operands());
    if (result.status != VKATTN_OK) return "status " + std::to_string(result.status) + ": " + result.message;
    if (!result.fallbackReason.empty()) return "the CPU computed: " + result.fallbackReason;
    return c.wrong(before);
}

// `run` returns what is wrong with a case. Of tight limits at most `mostRefused` cases, of so many, may be over them.
template <class Draw, class Run, class Most>
void expectDrawnCasesPass(const char *name, const Draws &draws, bool tight, const Draw &draw, const Run &run, const Most &mostRefused) {
    Random random = randomFor(name);
    int refused = 0, all = 0;
    for (int n = 0; draws.take(n); ++n) {
        auto c = draw(random);
        const std::string wrong = run(c);
        ++all;
        if (tight && wrong.rfind("status -2", 0) == 0)
            ++refused;
        else
            ASSERT_EQ(wrong, "") << "case " << n << ": " << c.text();
    }
    EXPECT_LT(refused, mostRefused(all));
    std::printf("%d drawn cases, %d over the limits\n", all, refused);
}

struct Sizes {
    uint32_t batch, heads, tokens, keyDim, valueDim;
};

// A packed case in f32 with a state in.
inline LinearCase packedCase(vkattn_linear_rule rule, const Sizes &s, Random &random, bool storesState) {
    LinearCase c;
    vkattn_linear_attention &l = c.linear;
    l.structSize = sizeof l;
    l.rule = rule;
    const auto rows = [&](uint32_t dims) { return packed(VKATTN_F32, s.batch, s.heads, s.tokens, dims); };
    l.q = l.k = rows(s.keyDim);
    l.v = l.out = rows(s.valueDim);
    if (isGated(rule)) l.decay = rows(1);
    if (isDelta(rule)) l.writeStrength = rows(1);
    const bool features = rule == VKATTN_LINEAR_FEATURES;
    if (features) l.flags = VKATTN_CAUSAL;
    l.stateIn = packed(VKATTN_F32, s.batch, s.heads, s.keyDim, s.valueDim + (features ? 1 : 0));
    if (storesState) l.stateOut = l.stateIn;
    c.fill(random);
    return c;
}

inline constexpr vkattn_linear_rule linearRules[] = {VKATTN_LINEAR_FEATURES, VKATTN_LINEAR_PLAIN, VKATTN_LINEAR_GATED, VKATTN_LINEAR_DELTA,
                                                     VKATTN_LINEAR_GATED_DELTA};

} // namespace vkattn::test
