// What the machine could do at best, measured here: fused multiply-adds in registers, and reading
// memory from end to end.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace vkattn::bench {

// Where the peaks are measured. Rates are per second; 0 with `why` where it does not work.
class PeakMeter {
  public:
    virtual ~PeakMeter() = default;
    [[nodiscard]] virtual double flopsPerSecond(std::string &why) = 0;
    [[nodiscard]] virtual double bytesPerSecond(uint64_t bufferBytes, std::string &why) = 0;
    [[nodiscard]] virtual uint64_t largestBuffer() const = 0;
};
// 0 = one thread a core
[[nodiscard]] std::unique_ptr<PeakMeter> cpuPeakMeter(uint32_t threads);
// NULL with the reason.
[[nodiscard]] std::unique_ptr<PeakMeter> vulkanPeakMeter(const DeviceInfo &device, std::string &why);

// How much of the machine a measured time has used: the time that the peak would have needed, over
// the time taken.
struct Share {
    double share = 0;
    // The limit that is nearer: reading the operands, rather than the arithmetic.
    bool byMemory = false;
};

class Peaks {
  public:
    explicit Peaks(std::unique_ptr<PeakMeter> meter) : meter_(std::move(meter)) {}

    [[nodiscard]] double flopsPerSecond();
    // Measured over a buffer as large as the work is, rounded to a power of two: what fits a cache
    // is read from there.
    [[nodiscard]] double bytesPerSecond(uint64_t workingSet);
    [[nodiscard]] std::optional<Share> share(double flops, uint64_t bytes, double milliseconds);

    // Buffer bytes -> bytes per second.
    [[nodiscard]] const std::map<uint64_t, double> &reads() const { return reads_; }
    // Why a peak is missing; empty: none is.
    [[nodiscard]] const std::string &why() const { return why_; }

  private:
    std::unique_ptr<PeakMeter> meter_;
    double flops_ = -1; // not measured yet
    std::map<uint64_t, double> reads_;
    std::string why_;
};

} // namespace vkattn::bench
