// The time that an exported cache saves. The pipelines of many shapes are created on a new device
// three times: for the first time, again, and again with the cache of the first time imported.
#pragma once

#include "machine/machine.hpp"
#include "measure/measure.hpp"

#include <span>
#include <string>

namespace vkattn::bench {

struct CacheStart {
    uint32_t problems = 0, pipelines = 0;
    uint64_t cacheBytes = 0;
    double firstMs = 0; // vkattnPrewarm of all problems, wall clock
    // The same on a new device: the time that a cache of the driver's own, on disk or in memory,
    // saves.
    double againMs = 0;
    double importMs = 0;   // vkattnImportCache on another new device
    double importedMs = 0; // vkattnPrewarm after the import
    std::string rejected;  // why the import was rejected; empty: the import was taken
    [[nodiscard]] double ratio() const { return firstMs / (importMs + importedMs); }
};

// Measures the problems of the shapes that the kernels can take. Throws Failure.
[[nodiscard]] CacheStart measureCacheStart(const DeviceInfo &device, std::span<const Shape> shapes, std::span<const Kernel> kernels,
                                           const std::string &tuning);

void printCacheStart(const Machine &machine, const CacheStart &start);
[[nodiscard]] std::string cacheCsvHeader();
[[nodiscard]] std::string cacheCsvRow(const Machine &machine, const CacheStart &start);

} // namespace vkattn::bench
