// Which tiles `vkattn tune` tries. From what a class of devices has in common (CPU or not,
// subgroups, shared memory); no device's name.
#pragma once

#include <vkattn/vkattn.h>

#include <string>
#include <vector>

namespace vkattn::tool {

// A kernel and the dims that a row is for; measured at the largest.
struct TuneCase {
    vkattn_kernel kernel = VKATTN_KERNEL_FLASH;
    uint32_t minDim = 1, maxDim = 64;
    [[nodiscard]] std::string text() const; // "flash, dims 33 to 64"
};

// A row of a tuning file (docs/tuning.md).
struct TuneTile {
    uint32_t dimLanes = 1, keyLanes = 1, rowLanes = 1, rowsPerLane = 1, keysPerLane = 1;
    uint32_t source = 0, tileKeys = 1, subgroups = 0, rolledEdges = 0;
    [[nodiscard]] uint32_t invocations() const { return dimLanes * keyLanes * rowLanes; }
    // How much a compiler has to unroll and hold, among tiles of one source.
    [[nodiscard]] uint32_t weight(uint32_t dim) const { return rowsPerLane * (keysPerLane + 1) * dim / dimLanes; }
    [[nodiscard]] std::string text() const; // "rowLanes=32 rowsPerLane=4 keysPerLane=2"
};

// "flash minDim=33 maxDim=64 rowLanes=..."
[[nodiscard]] std::string rowText(const TuneCase &of, const TuneTile &tile);
// "rate flash minDim=33 maxDim=64 mflops=25100"
[[nodiscard]] std::string rateText(const TuneCase &of, double gflops);

// Those that the device can run, the likeliest first: time may run out.
[[nodiscard]] std::vector<TuneTile> tuneCandidates(const vkattn_caps &caps, const TuneCase &of);

} // namespace vkattn::tool
