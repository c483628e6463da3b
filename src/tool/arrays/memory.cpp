#include "tool/arrays/memory.hpp"

#include "program/byte_text.hpp"
#include "program/failure.hpp"

#include <algorithm>
#include <fstream>
#include <limits>

#if defined(__linux__)
#include <sys/sysinfo.h>
#elif defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
#endif

namespace vkattn::tool {
using namespace program;

uint64_t usableMemoryBytes() {
    uint64_t bytes = 0;
#if defined(__linux__)
    struct sysinfo info {};
    if (sysinfo(&info) != 0) return 0;
    bytes = (uint64_t{info.totalram} + info.totalswap) * info.mem_unit;
    // A container may be given less; the file holds a number or "max", and is absent outside.
    uint64_t limit = 0;
    if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit && limit > 0) bytes = std::min(bytes, limit);
#elif defined(_WIN32)
    MEMORYSTATUSEX status{};
    status.dwLength = sizeof status;
    if (GlobalMemoryStatusEx(&status)) bytes = status.ullTotalPageFile;
#endif
    return bytes;
}

void checkMemory(const std::vector<NamedBytes> &arrays) {
    uint64_t bytes = 0;
    bool overflow = false;
    std::string largest;
    uint64_t largestBytes = 0;
    for (const NamedBytes &array : arrays) {
        overflow = overflow || array.bytes > std::numeric_limits<uint64_t>::max() - bytes;
        bytes += array.bytes;
        if (array.bytes >= largestBytes) largestBytes = array.bytes, largest = array.name;
    }
    const uint64_t usable = usableMemoryBytes();
    if (overflow || bytes > std::numeric_limits<size_t>::max() / 2 || (usable > 0 && bytes > usable))
        throw Failure("not enough memory: the arrays take " + (overflow ? "more than 16 EiB" : byteText(bytes)) + " (the largest is " +
                      largest + " with " + byteText(largestBytes) + "), this machine has " + (usable > 0 ? byteText(usable) : "less") +
                      ": split the work over batch entries, heads or queries");
}

} // namespace vkattn::tool
