// The machine's best rates, measured here: fused multiply-adds in registers, and reading memory
// from end to end.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace vkattn::bench {

// Measures the peaks. Rates are per second; a rate is 0, with `why`, where measuring does not work.
class PeakMeter {
  public:
    virtual ~PeakMeter() = default;
    [[nodiscard]] virtual double flopsPerSecond(std::string &why) = 0;
    [[nodiscard]] virtual double bytesPerSecond(uint64_t bufferBytes, std::string &why) = 0;
    [[nodiscard]] virtual uint64_t largestBuffer() const = 0;
};
// Returns the meter of the CPU. threads 0: one thread a core.
[[nodiscard]] std::unique_ptr<PeakMeter> cpuPeakMeter(uint32_t threads);
// Returns the meter of a device, or NULL with the reason.
[[nodiscard]] std::unique_ptr<PeakMeter> vulkanPeakMeter(const DeviceInfo &device, std::string &why);

// The share of the machine that a measured time has used: the time that the peak would have needed,
// over the time taken.
struct Share {
    double share = 0;
    // true: reading the operands is the nearer limit; false: the arithmetic is.
    bool byMemory = false;
};

class Peaks {
  public:
    explicit Peaks(std::unique_ptr<PeakMeter> meter) : meter_(std::move(meter)) {}

    [[nodiscard]] double flopsPerSecond();
    // Returns the rate of reading a buffer as large as the work is, rounded to a power of two. A
    // buffer that fits a cache is read from the cache.
    [[nodiscard]] double bytesPerSecond(uint64_t workingSet);
    [[nodiscard]] std::optional<Share> share(double flops, uint64_t bytes, double milliseconds);

    // Maps bytes of the buffer to bytes per second.
    [[nodiscard]] const std::map<uint64_t, double> &reads() const { return reads_; }
    // Returns why a peak is missing; empty where none is.
    [[nodiscard]] const std::string &why() const { return why_; }

  private:
    std::unique_ptr<PeakMeter> meter_;
    double flops_ = -1; // not measured yet
    std::map<uint64_t, double> reads_;
    std::string why_;
};

} // namespace vkattn::bench
