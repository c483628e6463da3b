// Attention and its backward pass, timed in turn: what training costs over the forward pass, and what
// dropout costs.
#pragma once

#include "machine/machine.hpp"
#include "measure/measure.hpp"

#include <span>
#include <string>
#include <vector>

namespace vkattn::bench {

struct GradientShape {
    const char *name;
    uint32_t heads, tokens, dim; // as many keys as queries
    vkattn_dtype dtype;
    bool causal;

    // Of the forward pass: two products. The backward pass is counted as five, whatever a kernel
    // computes anew.
    [[nodiscard]] double forwardFlops() const;
    [[nodiscard]] std::string sizeText() const;
};
[[nodiscard]] std::span<const GradientShape> gradientTable();

// One of the passes over a shape. The first is the forward pass that keeps its row statistics, over
// which the others are reckoned.
struct PassTime {
    std::string pass;     // forward, forward with dropout, backward staged, ...
    std::string failure;  // why there are no times; empty where there are
    bool refused = false; // the device does not take the kernel
    double medianMs = 0, minMs = 0, gflops = 0;
    double ratio = 0; // median time over that of the forward pass
    vkattn_verify_report verified{};
};

// Times of all passes, each run once in every round: what slows the machine down slows all of them.
// `options.verify` other than true checks nothing: the oracle of a backward pass takes minutes.
// `failure`: why there is none.
[[nodiscard]] std::vector<PassTime> measureGradient(Runtime &runtime, const GradientShape &shape, const MeasureOptions &options,
                                                    std::string &failure);

void printGradientHeading(const Machine &machine);
void printPass(const GradientShape &shape, const PassTime &time);
[[nodiscard]] std::string gradientCsvHeader();
[[nodiscard]] std::string gradientCsvRow(const Machine &machine, const GradientShape &shape, uint32_t repeats, const PassTime &time);

} // namespace vkattn::bench
