// An output that appears whole or not at all: written to a temporary file beside its target,
// renamed when everything has succeeded. Temporaries go away with the object, and on SIGINT,
// SIGTERM and SIGHUP.
#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <vector>

namespace vkattn::program {

// A path as given by an option, and the file it leads to (symbolic links followed where the target
// exists).
struct OutputTarget {
    std::string option, path;
    std::filesystem::path resolved;
};

// Refuses targets that are not regular files, may not be written, name each other's file or that of
// an input. Throws Failure.
[[nodiscard]] OutputTarget checkOutputTarget(const std::string &option, const std::string &path, std::span<const std::string> inputs,
                                             std::span<const OutputTarget> otherOutputs);

// Makes a folder, and those above it, where they are missing. Returns why there is none afterwards; no
// error: there is one.
[[nodiscard]] std::error_code makeFolder(const std::filesystem::path &folder);

// Makes a folder as makeFolder does. What was made for it goes away with the object where it is empty then, as
// after a failure before the first file.
class NewFolder {
  public:
    explicit NewFolder(const std::filesystem::path &folder);
    ~NewFolder();
    NewFolder(const NewFolder &) = delete;
    NewFolder &operator=(const NewFolder &) = delete;
    [[nodiscard]] const std::error_code &error() const { return error_; } // why there is no folder

  private:
    std::vector<std::filesystem::path> made_; // the deepest first
    std::error_code error_;
};

class OutputFile {
  public:
    // Creates the temporary; throws Failure where that fails.
    explicit OutputFile(OutputTarget target);
    ~OutputFile();
    OutputFile(OutputFile &&other) noexcept;
    OutputFile(const OutputFile &) = delete;
    OutputFile &operator=(const OutputFile &) = delete;
    OutputFile &operator=(OutputFile &&) = delete;

    void write(std::span<const std::byte> bytes); // throws Failure
    // The bytes have reached the file system; throws Failure.
    void close();
    void publish(); // after close(); throws Failure

  private:
    [[noreturn]] void fail(const std::string &what) const;

    OutputTarget target_;
    std::string temporary_; // empty: published or moved from
    std::FILE *file_ = nullptr;
};

} // namespace vkattn::program
