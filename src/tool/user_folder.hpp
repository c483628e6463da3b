// Where the tool keeps files of its user (XDG Base Directory Specification).
#pragma once

#include <cstdlib>
#include <filesystem>

namespace vkattn::tool {

// vkattn's folder in the one that the variable names, else in $HOME/fallback; empty where neither
// says.
inline std::filesystem::path userFolder(const char *variable, const char *fallback) {
    const char *named = std::getenv(variable), *home = std::getenv("HOME");
    // Relative ones are to be ignored, says the specification.
    if (named != nullptr && std::filesystem::path(named).is_absolute()) return std::filesystem::path(named) / "vkattn";
    if (home != nullptr && *home != '\0') return std::filesystem::path(home) / fallback / "vkattn";
    return {};
}

} // namespace vkattn::tool
