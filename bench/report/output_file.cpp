#include "report/output_file.hpp"

#include "failure.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

namespace vkattn::bench {
namespace {

namespace fs = std::filesystem;

// The temporary file lies beside the target, so that renaming stays within one file system. A link
// is followed, as other programs follow links.
struct Temporary {
    fs::path target, path;
    std::FILE *file = nullptr;
    int error = 0;

    explicit Temporary(const std::string &name) {
        std::error_code ignored;
        target = fs::weakly_canonical(fs::absolute(name, ignored), ignored);
        std::random_device random;
        for (int attempt = 0; attempt < 16 && !file; ++attempt) {
            char own[40];
            std::snprintf(own, sizeof own, ".vkattn-bench-%08x.tmp", random());
            path = target.parent_path() / own;
            file = std::fopen(path.string().c_str(), "wbx");
            error = errno;
            if (!file && error != EEXIST) break;
        }
    }
    ~Temporary() {
        if (file) std::fclose(file);
        std::error_code ignored;
        if (!path.empty()) fs::remove(path, ignored);
    }
    Temporary(const Temporary &) = delete;
    Temporary &operator=(const Temporary &) = delete;
};

[[noreturn]] void cannot(const char *verb, const std::string &option, const std::string &path, const std::string &why) {
    throw Failure(std::string("cannot ") + verb + " " + option + " " + path + ": " + why);
}

} // namespace

void checkWritable(const std::string &option, const std::string &path) {
    std::error_code error;
    if (path.empty()) throw Failure(option + " needs a file name, not an empty one");
    const fs::file_status status = fs::status(path, error);
    if (fs::is_directory(status)) cannot("write", option, path, "it is a directory, expected a file name");
    if (fs::exists(status) && !fs::is_regular_file(status)) cannot("write", option, path, "it is not a regular file: choose another name");
    if (fs::exists(status)) {
        std::FILE *existing = std::fopen(path.c_str(), "r+b");
        if (!existing) cannot("write", option, path, std::strerror(errno));
        std::fclose(existing);
    }
    const Temporary temporary(path);
    if (!temporary.file)
        cannot("write", option, path, std::string(std::strerror(temporary.error)) + ": the directory must exist and be writable");
}

void writeWhole(const std::string &option, const std::string &path, const std::string &text) {
    Temporary temporary(path);
    if (!temporary.file) cannot("write", option, path, std::strerror(temporary.error));
    bool good = std::fwrite(text.data(), 1, text.size(), temporary.file) == text.size();
    good = std::fclose(temporary.file) == 0 && good;
    temporary.file = nullptr;
    if (!good) cannot("write", option, path, std::strerror(errno));
    std::error_code error;
    fs::rename(temporary.path, temporary.target, error);
    if (error) cannot("write", option, path, error.message());
}

void appendText(const std::string &option, const std::string &path, const std::string &text) {
    std::FILE *file = std::fopen(path.c_str(), "ab");
    if (!file) cannot("write", option, path, std::strerror(errno));
    bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    good = std::fclose(file) == 0 && good;
    if (!good) cannot("write", option, path, std::strerror(errno));
}

std::string readWhole(const std::string &option, const std::string &path) {
    std::error_code error;
    if (fs::is_directory(path, error)) cannot("read", option, path, "it is a directory, expected a file");
    std::FILE *file = std::fopen(path.c_str(), "rb");
    if (!file) cannot("read", option, path, std::strerror(errno));
    std::string text;
    char part[16384];
    for (size_t count; (count = std::fread(part, 1, sizeof part, file)) > 0;) text.append(part, count);
    const bool bad = std::ferror(file) != 0;
    std::fclose(file);
    if (bad) cannot("read", option, path, "the file could not be read to its end");
    return text;
}

} // namespace vkattn::bench
