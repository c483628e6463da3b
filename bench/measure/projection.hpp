// Projections Y = X W^T, computed, checked and timed.
#pragma once

#include "machine/machine.hpp"
#include "machine/peaks.hpp"
#include "measure/measure.hpp"

#include <span>
#include <string>

namespace vkattn::bench {

struct ProductShape {
    const char *name;
    uint32_t rows, out, in;
    vkattn_dtype x, w; // Y is stored as X

    [[nodiscard]] double flops() const { return 2.0 * rows * out * in; }
    [[nodiscard]] uint64_t bytes() const; // X, W and Y, each once
    [[nodiscard]] std::string sizeText() const;
    [[nodiscard]] std::string typesText() const;
};
[[nodiscard]] std::span<const ProductShape> productTable();

struct ProductTime {
    ProductShape shape;
    std::string failure; // why there are no times; empty where there are
    std::string kernel;
    uint32_t repeats = 0;
    double medianMs = 0, minMs = 0;
    vkattn_verify_report verified{};
    std::optional<Share> share; // not given where there are no peaks

    [[nodiscard]] double gflops() const { return shape.flops() / medianMs * 1e-6; }
};

// `peaks` may be NULL.
[[nodiscard]] ProductTime measureProduct(Runtime &runtime, Peaks *peaks, const ProductShape &shape, const MeasureOptions &options);

void printProductHeading(const Machine &machine);
void printProduct(const ProductTime &time);
[[nodiscard]] std::string productCsvHeader();
[[nodiscard]] std::string productCsvRow(const Machine &machine, const ProductTime &time);

} // namespace vkattn::bench
