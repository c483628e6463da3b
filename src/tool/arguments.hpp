// The command line, checked and turned into the library's terms. No file is touched here.
#pragma once

#include "failure.hpp"

#include <vkattn/problem.h>

#include <cstdint>
#include <optional>
#include <string>

namespace vkattn::tool {

struct VerifyRequest {
    bool allRows = false;
    uint64_t rows = 0; // 0: the library chooses
};

struct RunArguments {
    // Paths; empty where the option was not given.
    std::string q, k, v, mask, bias, keyLengths;
    std::string out, lse, weights;

    uint32_t flags = 0; // vkattn_flag_bits
    int32_t windowLeft = 0, windowRight = 0;
    float scale = 0, softcap = 0;

    std::optional<std::string> device;
    std::string kernel = "auto";
    bool allowFallback = true;
    std::optional<VerifyRequest> verify;
    uint32_t repeat = 1;
    bool json = false;
};

struct InfoArguments {
    bool json = false;
};

// Exactly one of run and info is set, or neither, and then help, version or an error has been printed and `status` is how to end.
struct CommandLine {
    std::optional<RunArguments> run;
    std::optional<InfoArguments> info;
    ExitStatus status = ExitStatus::success;
};

// Throws Failure where an option's value is wrong.
[[nodiscard]] CommandLine parseCommandLine(int argc, const char *const *argv);

// "0.1.0", of the library that is linked.
[[nodiscard]] std::string versionText();

} // namespace vkattn::tool
