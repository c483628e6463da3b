// A device without a driver, for vkattnExportCache and vkattnImportCache: pipeline caches that hold
// hashes of what was compiled, counted objects, and calls that fail on demand. One for the process;
// any thread.
#pragma once

#include "vkattn/vkattn.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace vkattn::test {

struct CacheDevice {
    uint32_t vendor = 0x1234, device = 0x5678, driverVersion = 0x00400001;
    uint8_t uuid[VK_UUID_SIZE] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    bool headerless = false; // vkGetPipelineCacheData gives 20 bytes that no driver would take back
    // This many answers to the question for a size are 8 bytes less than the next call gives.
    uint32_t grows = 0;

    // Each call whose number is `failAt` (counted from 1 through failing calls of all kinds)
    // returns failWith; 0: no call.
    uint32_t failAt = 0;
    VkResult failWith = VK_ERROR_OUT_OF_HOST_MEMORY;
    std::atomic<uint32_t> calls{0};
    // The allocation of this number answers NULL; 0: none.
    uint32_t failAllocationAt = 0;
    std::atomic<uint32_t> allocations{0};

    std::atomic<int> liveObjects{0}, liveCaches{0}, liveAllocations{0};
    std::atomic<uint32_t> hits{0}, misses{0};
    // Initial data without a valid header, or not aligned to 16 bytes.
    std::atomic<uint32_t> badInitialData{0};
    std::atomic<uint32_t> initialDataSeen{0};

    void reset(); // as at the start; nothing may be alive
};
extern CacheDevice cacheDevice;

// Returns the host for vkattnCreateContext on that device.
[[nodiscard]] vkattn_host cacheDeviceHost(bool countAllocations = true);

// Writes the checksums of a blob anew, so that a changed blob gets past them.
void fixChecksums(std::vector<unsigned char> &blob);

} // namespace vkattn::test
