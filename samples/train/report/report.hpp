// What a run prints: lines, or one JSON object.
#pragma once

#include "arguments.hpp"
#include "model/network.hpp"

namespace train {

struct Report {
    const Arguments &arguments;
    std::string device{}, driver{}, fallbackReason{};
    uint32_t resumedFrom = 0, steps = 0; // steps that were there, and that are there now
    double seconds = 0;                  // of the steps of this run, recording included
    bool interrupted = false;
    Figures last{};                      // of the last step's batch
    std::optional<Figures> evaluation{}; // of sequences that were never trained
    uint32_t evaluatedSequences = 0;
    std::string example{}, answer{}; // a sequence, and what the model says
    std::optional<Verification> verification{};

    [[nodiscard]] double stepsPerSecond() const { return seconds > 0 ? (steps - resumedFrom) / seconds : 0; }
};

void printReport(const Report &report);
[[nodiscard]] std::string jsonOf(const Report &report);

// The worst step in words, for stderr.
[[nodiscard]] std::string worstText(const Verification &verification);

} // namespace train
