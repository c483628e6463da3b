// How every program of this project ends: what its main function does around the work.
#pragma once

#include "program/failure.hpp"

#include <cstdio>
#include <exception>
#include <new>
#include <string>

namespace vkattn::program {

// Calls run(), which returns an ExitStatus or an int, and returns the program's exit status. Exceptions become one line on
// stderr; what was printed before stands before that line. `smaller` says what to do where memory is short.
template <class Run> [[nodiscard]] int runProgram(const char *name, const char *smaller, Run run) {
    const auto fail = [&](const std::string &message, ExitStatus status) {
        std::fflush(stdout);
        std::fprintf(stderr, "%s: error: %s\n", name, message.c_str());
        return static_cast<int>(status);
    };
    try {
        const auto status = static_cast<int>(run());
        if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
            return fail("the result could not be printed: standard output is closed or full", ExitStatus::badInput);
        return status;
    } catch (const Failure &failure) {
        return fail(failure.what(), failure.status);
    } catch (const std::bad_alloc &) {
        return fail(std::string("out of memory: ") + smaller, ExitStatus::badInput);
    } catch (const std::exception &error) {
        return fail(error.what(), ExitStatus::badInput);
    }
}

} // namespace vkattn::program
