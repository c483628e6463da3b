// What `run` shares with the commands of single operations: arrays in files, beside the options of
// any program that computes. No file is touched here.
#pragma once

#include "program/options/device_options.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace vkattn::tool {

struct OperandName;

struct ComputeArguments : program::DeviceOptions {
    std::string files[VKATTN_ROLE_LIMIT]; // by role: paths, empty where the option was not given
    uint32_t repeat = 1;
    // What the command calls roles that others call otherwise; static storage.
    std::span<const OperandName> ownNames;
    bool rowStatistics = false; // the file of VKATTN_LSE, where there is one, holds the row statistics
};

// What the user calls a role.
[[nodiscard]] const OperandName &operandName(const ComputeArguments &arguments, vkattn_role role);

// The option of a role's file.
CLI::Option *addFile(CLI::App &app, ComputeArguments &arguments, vkattn_role role, const char *text);
// Adds an option of `explain`: 2 to 4 extents of a tensor, in place of its file.
void addShape(CLI::App &app, const char *name, std::vector<uint32_t> &shape, const char *text);

// All but the files; `arguments` outlives the parsing.
void addComputeOptions(CLI::App &app, ComputeArguments &arguments);

} // namespace vkattn::tool
