// Files that this program writes. Each option's path is tried before anything is measured: minutes
// of work are not to end in a typing error.
#pragma once

#include <string>

namespace vkattn::bench {

// Throws Failure where a new file could not be put there.
void checkWritable(const std::string &option, const std::string &path);

// The file appears whole or not at all: written beside its target and renamed. Throws Failure.
void writeWhole(const std::string &option, const std::string &path, const std::string &text);

// All of it in one write at the end of the file. Throws Failure.
void appendText(const std::string &option, const std::string &path, const std::string &text);

// Throws Failure.
[[nodiscard]] std::string readWhole(const std::string &option, const std::string &path);

} // namespace vkattn::bench
