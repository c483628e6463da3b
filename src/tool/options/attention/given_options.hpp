// Which options a command was given, and rules between two of them.
#pragma once

#include "program/failure.hpp"

#include <CLI/CLI.hpp>

#include <string>

namespace vkattn::tool {

class GivenOptions {
  public:
    explicit GivenOptions(const CLI::App &app) : app_(app) {}
    // Not every command has every option.
    [[nodiscard]] bool operator()(const char *name) const { return app_.get_option_no_throw(name) != nullptr && app_.count(name) > 0; }
    // Throws Failure where the one is given without the other.
    void needs(const char *name, const char *other, const char *reason) const {
        if ((*this)(name) && !(*this)(other)) throw program::Failure(std::string(name) + " is given without " + other + ": " + reason);
    }
    // Throws Failure where both are given.
    void apart(const char *a, const char *b, const char *reason) const {
        if ((*this)(a) && (*this)(b))
            throw program::Failure(std::string(a) + " and " + b + " are both given, expected one of them: " + reason);
    }

  private:
    const CLI::App &app_;
};

} // namespace vkattn::tool
