#include "machine/machine.hpp"

#include "commit.h"

#include <algorithm>
#include <ctime>
#include <fstream>
#include <thread>

namespace vkattn::bench {
namespace {

std::string today() {
    const std::time_t now = std::time(nullptr);
    char text[16] = "";
    if (const std::tm *utc = std::gmtime(&now)) std::strftime(text, sizeof text, "%Y-%m-%d", utc);
    return text;
}

std::string processorName() {
    std::ifstream info("/proc/cpuinfo"); // Linux only; elsewhere the name stays empty
    for (std::string line; std::getline(info, line);) {
        const size_t colon = line.find(": ");
        if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
    }
    return {};
}

} // namespace

Machine thisMachine() {
    return {today(), VKATTN_BENCH_COMMIT, processorName(), std::max(1u, std::thread::hardware_concurrency()), {}, {}};
}

} // namespace vkattn::bench
