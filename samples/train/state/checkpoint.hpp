// The file that a run goes on from: what the run is, how far it is, weights, moments and the figures
// of every step, all little endian, with a checksum at the end.
#pragma once

#include "model/network.hpp"

#include <optional>
#include <string>
#include <vector>

namespace train {

// What decides every number of a run. A run with another number of steps is the same run, longer.
struct Configuration {
    Shape shape;
    uint64_t seed = 0;
    double dropout = 0;
};

struct StepFigures {
    float loss = 0, accuracy = 0;
};

struct State {
    Weights weights;
    std::vector<StepFigures> history; // of each step that is done
    std::string device;               // that computed the last one

    [[nodiscard]] uint32_t steps() const { return static_cast<uint32_t>(history.size()); }
};

// Returns nothing where there is no such file. Throws Failure, which names the file, where it is
// damaged, no checkpoint, or one of another configuration.
[[nodiscard]] std::optional<State> readCheckpoint(const std::string &path, const Configuration &configuration);

// The file appears whole or not at all. Throws Failure.
void writeCheckpoint(const std::string &path, const Configuration &configuration, const State &state);

} // namespace train
