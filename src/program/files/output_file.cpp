#include "program/files/output_file.hpp"

#include "program/failure.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>

#if !defined(_WIN32)
#include <unistd.h>
#endif

namespace vkattn::program {
namespace {

namespace fs = std::filesystem;

#if !defined(_WIN32)
// What a signal must remove. Signal handlers may only touch lock-free atomics; the strings belong
// to OutputFile objects.
std::array<std::atomic<char *>, 64> liveTemporaries;
static_assert(std::atomic<char *>::is_always_lock_free);

extern "C" void removeTemporariesAndDie(int signalNumber) {
    for (std::atomic<char *> &slot : liveTemporaries)
        if (const char *path = slot.load()) unlink(path);
    std::signal(signalNumber, SIG_DFL);
    std::raise(signalNumber);
}

// A signal that is ignored (nohup) stays ignored.
void handle(int signalNumber) {
    if (std::signal(signalNumber, removeTemporariesAndDie) == SIG_IGN) std::signal(signalNumber, SIG_IGN);
}

void remember(const std::string &path) {
    static const bool handled = [] {
        for (const int signalNumber : {SIGINT, SIGTERM, SIGHUP}) handle(signalNumber);
        return true;
    }();
    static_cast<void>(handled);
    for (std::atomic<char *> &slot : liveTemporaries) {
        char *expected = nullptr;
        char *copy = strdup(path.c_str());
        if (copy != nullptr && slot.compare_exchange_strong(expected, copy)) return;
        std::free(copy);
    }
}

void forget(const std::string &path) {
    for (std::atomic<char *> &slot : liveTemporaries) {
        char *held = slot.load();
        if (held == nullptr || path != held) continue;
        slot.store(nullptr);
        std::free(held);
    }
}
#else
void remember(const std::string &) {}
void forget(const std::string &) {}
#endif

std::string reasonOf(int error) {
    return std::strerror(error);
}

bool sameFile(const fs::path &a, const fs::path &b) {
    std::error_code error;
    return a == b || (fs::equivalent(a, b, error) && !error);
}

} // namespace

std::error_code makeFolder(const fs::path &folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (!error && !fs::is_directory(folder, error) && !error) error = std::make_error_code(std::errc::not_a_directory);
    return error;
}

NewFolder::NewFolder(const fs::path &folder) {
    std::error_code unknown;
    for (fs::path each = fs::absolute(folder, unknown); !unknown && each.has_relative_path() && !fs::exists(each, unknown);
         each = each.parent_path())
        if (each.has_filename()) made_.push_back(each);
    error_ = makeFolder(folder);
}

NewFolder::~NewFolder() {
    std::error_code stillUsed; // remove() takes empty folders alone
    for (const fs::path &each : made_) fs::remove(each, stillUsed);
}

OutputTarget checkOutputTarget(const std::string &option, const std::string &path, std::span<const std::string> inputs,
                               std::span<const OutputTarget> otherOutputs) {
    const auto refuse = [&](const std::string &reason) { throw Failure("cannot write " + option + " " + path + ": " + reason); };
    std::error_code error;
    OutputTarget target{option, path, fs::absolute(path, error)};
    if (error) refuse(error.message());
    // Writing through a link is what every other program does; renaming over it would replace the
    // link.
    if (const fs::path real = fs::weakly_canonical(target.resolved, error); !error) target.resolved = real;

    const fs::file_status status = fs::status(target.resolved, error);
    if (fs::is_directory(status) || target.resolved.filename().empty()) refuse("it is a directory, expected a file name");
    if (fs::exists(status) && !fs::is_regular_file(status)) refuse("it exists and is not a regular file: choose another name");
    for (const std::string &input : inputs)
        if (sameFile(target.resolved, input)) refuse("it is the input " + input + ": choose another name");
    for (const OutputTarget &other : otherOutputs)
        if (sameFile(target.resolved, other.resolved))
            refuse("it is the same file as " + other.option + " " + other.path + ": choose another name");
    if (fs::exists(status)) {
        // Renaming would replace a write-protected file without a word.
        std::FILE *existing = std::fopen(target.resolved.string().c_str(), "r+b");
        if (existing == nullptr) refuse(reasonOf(errno) + ": the file exists and may not be written");
        std::fclose(existing);
    }
    return target;
}

OutputFile::OutputFile(OutputTarget target) : target_(std::move(target)) {
    std::random_device random;
    int error = EEXIST;
    for (int attempt = 0; attempt < 16 && error == EEXIST; attempt++) {
        char name[40];
        std::snprintf(name, sizeof name, ".vkattn-%08x.tmp", random());
        temporary_ = (target_.resolved.parent_path() / name).string();
        // Before the file is there: a signal may come as soon as it is.
        remember(temporary_);
        // x: fail where the file exists. Not mkstemp, whose files are private: outputs get the
        // permissions of any new file.
        file_ = std::fopen(temporary_.c_str(), "wbx");
        error = file_ == nullptr ? errno : 0;
        if (error != 0) forget(temporary_);
    }
    if (error == 0) return;
    temporary_.clear();
    fail(reasonOf(error) + ": the directory must exist and be writable");
}

OutputFile::~OutputFile() {
    if (file_ != nullptr) std::fclose(file_);
    if (temporary_.empty()) return;
    std::error_code ignored;
    fs::remove(temporary_, ignored);
    forget(temporary_);
}

OutputFile::OutputFile(OutputFile &&other) noexcept
    : target_(std::move(other.target_)), temporary_(std::exchange(other.temporary_, {})), file_(std::exchange(other.file_, nullptr)) {}

void OutputFile::fail(const std::string &what) const {
    throw Failure("cannot write " + target_.option + " " + target_.path + ": " + what);
}

void OutputFile::write(std::span<const std::byte> bytes) {
    if (!bytes.empty() && std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail(reasonOf(errno));
}

void OutputFile::close() {
    if (std::fclose(std::exchange(file_, nullptr)) != 0) fail(reasonOf(errno));
}

void OutputFile::publish() {
    std::error_code error;
    fs::rename(temporary_, target_.resolved, error);
    if (error) fail(error.message());
    forget(std::exchange(temporary_, {}));
}

} // namespace vkattn::program
