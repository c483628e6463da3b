// Linear attention (vkattn/linear.h) in both forms, and the softmax attention of the same tokens,
// timed in turn.
#pragma once

#include "measure/measure.hpp"

#include <map>
#include <string>
#include <vector>

namespace vkattn::bench {

struct LinearShape {
    std::string name;
    vkattn_linear_rule rule;
    vkattn_feature_map features; // of VKATTN_LINEAR_FEATURES
    uint32_t heads, tokens, keyDim, valueDim;
    uint32_t omegaRows = 0; // of FAVOR
    vkattn_dtype dtype = VKATTN_F32;
    std::string family{}; // in a sweep: the name without the tokens; otherwise `name`

    // Products with the state: what a query reads, what a key writes, what a delta rule reads first.
    [[nodiscard]] double flops() const;
    [[nodiscard]] std::string sizeText() const;
};
[[nodiscard]] const std::vector<LinearShape> &linearTable();
// Throws Failure, with the names that there are, where the name is unknown.
[[nodiscard]] LinearShape linearShapeNamed(const std::string &name);
[[nodiscard]] LinearShape withTokens(const LinearShape &shape, uint32_t tokens);

struct LinearTime {
    LinearShape shape;
    std::string pass;     // recurrent, chunked, softmax
    std::string failure;  // why there are no times; empty where there are
    bool leftOut = false; // the time would have been over the budget
    uint32_t repeats = 0;
    double medianMs = 0, minMs = 0;
    vkattn_verify_report verified{};

    [[nodiscard]] double gflops() const { return shape.flops() / medianMs * 1e-6; }
    [[nodiscard]] double microsecondsOfToken() const { return medianMs * 1e3 / shape.tokens / shape.heads; }
};

// Measures the passes over a shape in rounds: what slows the machine down slows all of them. The
// softmax pass, causal and of as many heads, is left out where its last time, by the pairs, says that
// the rounds would take longer than options.budgetSeconds.
class LinearMeter {
  public:
    LinearMeter(Runtime &runtime, const MeasureOptions &options) : runtime_(runtime), options_(options) {}
    [[nodiscard]] std::vector<LinearTime> measure(const LinearShape &shape);

  private:
    Runtime &runtime_;
    MeasureOptions options_;
    std::map<uint32_t, double> secondsOfPair_; // of softmax, by the head dim
};

} // namespace vkattn::bench
