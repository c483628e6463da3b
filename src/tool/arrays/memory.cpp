#include "tool/arrays/memory.hpp"

#include <algorithm>
#include <fstream>

#if defined(__linux__)
#include <sys/sysinfo.h>
#elif defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
#endif

namespace vkattn::tool {

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

} // namespace vkattn::tool
