// Passes over attention's tensors, timed in turn: what one of them costs over the forward pass.
#pragma once

#include "machine/machine.hpp"
#include "measure/measure.hpp"

#include <vkattn/list.hpp>

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vkattn::bench {

struct PassShape {
    const char *name;
    uint32_t heads, tokens, dim; // as many keys as queries
    vkattn_dtype dtype;
    bool causal;
    uint32_t kvHeads = 0; // 0: as many as heads

    [[nodiscard]] uint32_t keyHeads() const { return kvHeads ? kvHeads : heads; }
    // Of the forward pass: two products.
    [[nodiscard]] double forwardFlops() const;
    [[nodiscard]] std::string sizeText() const;
    [[nodiscard]] vkattn_layout layout() const { return packed(dtype, 1, heads, tokens, dim); }
};

// One of the passes over a shape. The first is the forward pass, over which the others are reckoned.
struct PassTime {
    std::string pass;     // forward, forward with dropout, backward staged, ...
    std::string failure;  // why there are no times; empty where there are
    bool refused = false; // the device does not take the kernel
    double medianMs = 0, minMs = 0, gflops = 0;
    double ratio = 0; // median time over that of the forward pass
    vkattn_verify_report verified{};
};

// Passes on tensors that stay on the device. Each pass runs once in every round: what slows the machine
// down slows all of them.
class Passes {
  public:
    explicit Passes(Runtime &runtime) : runtime_(runtime) {}

    // Appends a pass. `flops`: what the pass is counted as, whatever a kernel computes anew.
    template <class Described> void add(const char *name, const Described &described, double flops) {
        Pass pass{{}, runtime_.list(), {}, flops};
        pass.time.pass = name;
        pass.time.refused = pass.list.add(described, &pass.time.failure) == VKATTN_ERROR_UNSUPPORTED;
        passes_.push_back(std::move(pass));
    }
    // Returns the times, in the order in which passes were added; `forward`: the number of the pass over
    // which the others are reckoned. `options.verify` other than true checks nothing.
    [[nodiscard]] std::vector<PassTime> measure(const MeasureOptions &options, size_t forward);

  private:
    struct Pass {
        PassTime time;
        OperationList list;
        std::vector<double> samples;
        double flops;
    };
    Runtime &runtime_;
    std::vector<Pass> passes_;
};

// Fills a tensor with random numbers; returns false with the reason where it cannot be had.
[[nodiscard]] bool makeInput(Runtime &runtime, const vkattn_layout &layout, uint64_t seed, DeviceTensor &tensor, std::string &why);
// Fills tensors of the shape with random numbers; returns false with the reason where one cannot be had.
[[nodiscard]] bool makeInputs(Runtime &runtime, const PassShape &shape, uint64_t seed, std::initializer_list<DeviceTensor *> tensors,
                              std::string &why);

void printPassHeading(const Machine &machine);
void printPass(const PassShape &shape, const PassTime &time);
[[nodiscard]] std::string passCsvHeader();
[[nodiscard]] std::string passCsvRow(const Machine &machine, const PassShape &shape, uint32_t repeats, const PassTime &time);

// What one option of the bench measures: shapes, and the passes over a shape. `failure`: why there are
// none.
struct PassTable {
    std::span<const PassShape> shapes;
    std::vector<PassTime> (*measure)(Runtime &runtime, const PassShape &shape, const MeasureOptions &options, std::string &failure);
};

} // namespace vkattn::bench
