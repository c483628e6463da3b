#include "machine/peaks.hpp"

#include <algorithm>
#include <bit>

namespace vkattn::bench {

double Peaks::flopsPerSecond() {
    if (flops_ < 0) flops_ = meter_->flopsPerSecond(why_);
    return flops_;
}

double Peaks::bytesPerSecond(uint64_t workingSet) {
    constexpr uint64_t least = 1u << 20; // smaller reads are over before they have begun
    const uint64_t nearest = std::bit_ceil(workingSet - workingSet / 4);
    const uint64_t bytes = std::min(std::max(nearest, least), std::bit_floor(meter_->largestBuffer()));
    const auto [entry, isNew] = reads_.try_emplace(bytes, 0);
    if (isNew) entry->second = meter_->bytesPerSecond(bytes, why_);
    return entry->second;
}

std::optional<Share> Peaks::share(double flops, uint64_t bytes, double milliseconds) {
    const double flopRate = flopsPerSecond(), byteRate = bytesPerSecond(bytes);
    if (!(flopRate > 0) || !(byteRate > 0)) return {};
    const double arithmetic = flops / flopRate, memory = static_cast<double>(bytes) / byteRate;
    return Share{std::max(arithmetic, memory) / (milliseconds * 1e-3), memory > arithmetic};
}

} // namespace vkattn::bench
