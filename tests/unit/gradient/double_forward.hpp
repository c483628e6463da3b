// The forward pass of a case in double precision, as a function of all that has a gradient: written for
// tests, apart from the library's oracles.
#pragma once

#include "conform/cases/gradient_case.hpp"
#include "unit/cpu/cpu_runs.hpp"

namespace vkattn::test {

using namespace conform;

class DoubleForward {
  public:
    // What has a gradient, in C order.
    struct Inputs {
        std::vector<double> q, k, v, bias, sinks, slopes;
        double scale = 0, softcap = 0;
    };

    explicit DoubleForward(GradientCase &g);
    // The sum of dOut * out, dLse * lse and dWeights * weights.
    [[nodiscard]] double loss(const Inputs &inputs) const;
    // Writes out and the statistics of the rows as the forward pass stores them.
    void store();

    Inputs inputs;

  private:
    struct Row {
        uint32_t b, h, i;
        std::vector<uint32_t> keys; // that the row sees
    };
    struct Result {
        double maximum, sum;
        std::vector<double> weights, kept, out;
    };
    [[nodiscard]] Result compute(const Inputs &inputs, const Row &row) const;

    GradientCase &g_;
    const CaseData &data_;
    std::vector<Row> rows_;
};

// A drawn case whose forward pass has run.
[[nodiscard]] GradientCase drawWhole(Random &random, const GradientOptions &options = {});
[[nodiscard]] GradientCase drawWhole(Random &random, const Case &attention, const GradientOptions &options = {});

} // namespace vkattn::test
