// What a run prints when all requests are over: figures, or one JSON object.
#pragma once

#include "arguments.hpp"
#include "schedule/server.hpp"
#include "story/text/tokenizer.hpp"

namespace serve {

struct Report {
    const Arguments &arguments;
    const Capacity &capacity;
    std::string device{}, driver{}, fallbackReason{};
    uint32_t systemTokens = 0;
    double seconds = 0;
    Counts counts{};
    uint32_t pagesHeld = 0; // at the end: lost ones
    // Resident memory of the process behind the first requests and at the end, MiB; 0: not known.
    double memoryBefore = 0, memoryAfter = 0;
    uint32_t checked = 0, different = 0;
};

void printFigures(const Report &report, const std::vector<Request> &requests);
[[nodiscard]] std::string jsonOf(const Report &report, const std::vector<Request> &requests);
// A line of JSON for each request.
[[nodiscard]] std::string textsOf(const std::vector<Request> &requests, const story::Tokenizer &tokenizer);

// Resident memory of this process in MiB; 0 where the system does not say.
[[nodiscard]] double residentMebibytes();

} // namespace serve
