#include "machine/bandwidth.hpp"

#include "device/vulkan_device.hpp"
#include "failure.hpp"
#include "machine/peaks.hpp"
#include "report/csv.hpp"
#include "text.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>

namespace vkattn::bench {
namespace {

// Copies a buffer to another, each many times as large as a GPU's caches, and returns the best of
// several rates.
Ceiling measureCopy(const DeviceInfo &device) {
    constexpr int attempts = 10;
    VulkanDevice vulkan(device);
    VulkanDevice::Buffer from, to;
    uint64_t bytes = device.type == DeviceType::cpu ? 256u << 20 : 2ull << 30;
    bytes = std::min(bytes, std::max<uint64_t>(device.maxAllocationBytes / 2, 1u << 20));
    for (;; bytes /= 2) { // other programs may have left less memory
        try {
            vulkan.reserve(from, bytes);
            vulkan.reserve(to, bytes);
            break;
        } catch (const VulkanError &) {
            vulkan.release(from);
            vulkan.release(to);
            if (bytes < 32u << 20) throw;
        }
    }
    double least = vulkan.secondsToCopy(from, to);
    for (int attempt = 0; attempt < attempts; ++attempt) least = std::min(least, vulkan.secondsToCopy(from, to));
    vulkan.release(from);
    vulkan.release(to);
    if (!(least > 0)) throw VulkanError("the device's clock shows no time");
    return {"copy", bytes, 2 * static_cast<double>(bytes) / least};
}

} // namespace

std::vector<Ceiling> measureCeilings(const DeviceInfo &device) {
    try {
        std::vector<Ceiling> ceilings = {measureCopy(device)};
        std::string why;
        const std::unique_ptr<PeakMeter> meter = vulkanPeakMeter(device, why);
        if (!meter) throw VulkanError(why);
        const uint64_t bytes = std::bit_floor(meter->largestBuffer());
        if (const double rate = meter->bytesPerSecond(bytes, why); rate > 0) ceilings.push_back({"read", bytes, rate});
        if (const double rate = meter->flopsPerSecond(why); rate > 0) ceilings.push_back({"fma", 0, rate});
        return ceilings;
    } catch (const VulkanError &error) {
        throw Failure(std::string("--ceilings: ") + error.what(), ExitStatus::noDevice);
    }
}

void printCeilings(const Machine &machine, const std::vector<Ceiling> &ceilings) {
    std::printf("device  %s (%s)\n", machine.device.c_str(), machine.driver.c_str());
    for (const Ceiling &ceiling : ceilings)
        std::printf("%-7s %10s %s%s%s\n", ceiling.what.c_str(), shortNumber(ceiling.perSecond * 1e-9).c_str(),
                    ceiling.bufferBytes ? "GB/s over " : "GFLOP/s, f32 multiply-add",
                    ceiling.bufferBytes ? byteText(ceiling.bufferBytes).c_str() : "",
                    ceiling.what == "copy" ? ", bytes read and bytes written" : "");
    std::fflush(stdout);
}

std::string ceilingCsvHeader() {
    return "date,commit,device,driver,ceiling,buffer_bytes,gigas_per_s\n";
}

std::string ceilingCsvRow(const Machine &machine, const Ceiling &ceiling) {
    return csvLine({machine.date, machine.commit, machine.device, machine.driver, ceiling.what, std::to_string(ceiling.bufferBytes),
                    decimals(ceiling.perSecond * 1e-9, 2)});
}

} // namespace vkattn::bench
