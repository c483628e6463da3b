// The files that this program writes. Each option's path is tried before anything is measured:
// minutes of work must not end in a typing error.
#pragma once

#include <string>

namespace vkattn::bench {

// Throws Failure where a new file could not be put there.
void checkWritable(const std::string &option, const std::string &path);

// Writes a file beside its target and renames it, so that the file appears whole or not at all.
// Throws Failure.
void writeWhole(const std::string &option, const std::string &path, const std::string &text);

// Writes everything at once at the end of the file. Throws Failure.
void appendText(const std::string &option, const std::string &path, const std::string &text);

// Throws Failure.
[[nodiscard]] std::string readWhole(const std::string &option, const std::string &path);

} // namespace vkattn::bench
