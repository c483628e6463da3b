// A file that is read from front to back, whose length is known before anything is read.
#pragma once

#include "program/failure.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

namespace story {

class BinaryFile {
  public:
    // Throws Failure, which begins with the option and the path, as all others here do.
    BinaryFile(const char *option, const std::string &path) : option_(option), path_(path) {
        std::error_code error;
        const std::filesystem::file_status status = std::filesystem::status(path, error);
        if (!std::filesystem::exists(status)) fail("there is no such file");
        if (!std::filesystem::is_regular_file(status)) fail("it is no file, expected one that can be read from front to back");
        bytes_ = std::filesystem::file_size(path, error);
        if (error) fail(error.message());
        file_.reset(std::fopen(path.c_str(), "rb"));
        if (!file_) fail(std::strerror(errno));
    }
    [[nodiscard]] uint64_t bytes() const { return bytes_; }
    void read(void *into, size_t bytes) {
        if (std::fread(into, 1, bytes, file_.get()) != bytes) fail("it could not be read to its end: it has changed, or the disk fails");
    }
    [[noreturn]] void fail(const std::string &reason) const {
        throw vkattn::program::Failure(std::string(option_) + " " + path_ + ": " + reason);
    }

  private:
    struct Close {
        void operator()(std::FILE *file) const { std::fclose(file); }
    };
    const char *option_;
    std::string path_;
    uint64_t bytes_ = 0;
    std::unique_ptr<std::FILE, Close> file_;
};

} // namespace story
