// An experiment of the notes on attention, and what it finds.
#pragma once

#include "program/random.hpp"
#include "tool/report/table.hpp"

#include <vkattn/runtime.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vkattn::tool::lab {

// What an experiment works with.
struct Setting {
    Runtime &runtime;
    uint64_t seed;
    uint32_t number; // of the experiment: each has random numbers of its own

    [[nodiscard]] program::Random random(uint32_t stream = 0) const { return {seed, number, stream}; }
};

struct Findings {
    std::string sizes; // what was drawn, and how often
    Table table;
    std::vector<std::string> theory;   // a line each
    std::vector<std::string> mistakes; // what the notes say, and what is so
    std::string picture;               // SVG
    std::vector<Table> more{};         // Experiment::moreTables
};

struct Experiment {
    const char *name, *question;
    Findings (*run)(const Setting &setting);
    uint32_t number;   // never another's, and never changed: seeds would give other numbers
    uint64_t seed = 1; // where none is given
    // Tables that are too long to print: what the names of their files end with.
    std::span<const char *const> moreTables{};
};

// In the order in which they are listed.
[[nodiscard]] std::span<const Experiment> experiments();

Findings scalingFactor(const Setting &setting);
Findings scalingEffect(const Setting &setting);
Findings stability(const Setting &setting);
Findings scales(const Setting &setting);
Findings temperature(const Setting &setting);
Findings convergence(const Setting &setting);
Findings gradientFlow(const Setting &setting);
Findings backward(const Setting &setting);
Findings masks(const Setting &setting);
Findings causalEntropy(const Setting &setting);

} // namespace vkattn::tool::lab
