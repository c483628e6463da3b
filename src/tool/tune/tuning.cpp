#include "tool/tune/tuning.hpp"

#include "program/failure.hpp"
#include "program/note.hpp"
#include "tool/user_folder.hpp"

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

namespace vkattn::tool {
using namespace program;
namespace {

namespace fs = std::filesystem;

constexpr size_t maxBytes = 1u << 20; // a dozen rows and their comments take a few kilobytes

std::string slug(const std::string &name) {
    std::string text;
    for (const char c : name) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x80 && std::isalnum(byte) != 0)
            text += static_cast<char>(std::tolower(byte));
        else if (!text.empty() && text.back() != '-')
            text += '-';
    }
    while (!text.empty() && text.back() == '-') text.pop_back();
    return text.empty() ? "unnamed" : text;
}

std::string readText(const std::string &path) {
    std::error_code error;
    if (fs::is_directory(path, error)) throw Failure("it is a directory, expected a file of `vkattn tune`");
    const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path.c_str(), "rb"), std::fclose);
    if (!file) throw Failure(std::strerror(errno));
    std::string text(maxBytes + 1, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    if (std::ferror(file.get()) != 0) throw Failure("the file could not be read to its end");
    if (text.size() > maxBytes) throw Failure("it is over 1 MiB, expected a file of `vkattn tune`");
    if (text.empty()) throw Failure("it is empty, expected the line 'vkattn-tuning 1'");
    return text;
}

// By the library's own reader, which looks at the rows and not at the device: any caps (here what
// Vulkan 1.0 guarantees) and any problem will do.
void check(const std::string &text) {
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    vkattnMinimumCaps(&caps, nullptr); // fails for a wrong structSize only
    const vkattn_layout tokens = packed(VKATTN_F32, 1, 1, 1, 1);
    const vkattn_problem any = problem(tokens, tokens, tokens, tokens);
    vkattn_explanation plan{};
    vkattn_diagnostic why{};
    if (vkattn::explain(caps, any, plan, planOptions(0, text), &why) == VKATTN_ERROR_INVALID_ARGUMENT) throw Failure(why.message);
}

Tuning read(const std::string &path) {
    Tuning tuning{path, readText(path)};
    check(tuning.text);
    return tuning;
}

// What follows such a comment's beginning, on the first line that has it.
std::optional<std::string> comment(const std::string &text, const std::string &beginning) {
    const size_t at = text.find("\n" + beginning);
    if (at == std::string::npos) return {};
    const size_t begin = at + 1 + beginning.size();
    std::string line = text.substr(begin, text.find('\n', begin) - begin);
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) line.pop_back();
    return line;
}

} // namespace

std::string oneLine(std::string text) {
    for (char &c : text)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
    while (!text.empty() && text.back() == ' ') text.pop_back();
    return text;
}

std::string defaultTuningPath(const std::string &deviceName) {
    const fs::path folder = userFolder("XDG_CONFIG_HOME", ".config");
    return folder.empty() ? "" : (folder / ("tuning-" + slug(deviceName) + ".txt")).string();
}

Tuning readTuning(const std::string &path) {
    try {
        return read(path);
    } catch (const Failure &failure) {
        throw Failure("cannot use --tuning " + path + ": " + failure.what());
    }
}

Tuning findTuning(const std::string &deviceName) {
    const std::string path = defaultTuningPath(deviceName);
    std::error_code error;
    if (path.empty() || !fs::exists(path, error)) return {};
    try {
        return read(path);
    } catch (const Failure &failure) {
        printWarning("the built-in tuning is used, since " + path + " cannot be: " + failure.what() +
                     ": make a new one with `vkattn tune`, or give --no-tuning");
        return {};
    }
}

void warnOfOtherDevice(const Tuning &tuning, const DeviceInfo &device) {
    const auto compare = [&](const char *what, const char *beginning, const std::string &ours) {
        const std::optional<std::string> theirs = comment(tuning.text, beginning);
        if (theirs && *theirs != oneLine(ours))
            printWarning("the tuning file " + tuning.source + " was measured with the " + what + " " + *theirs + ", and this is " +
                         oneLine(ours) + ": results are right, but may be slow; measure again with `vkattn tune`");
        return !theirs || *theirs == oneLine(ours);
    };
    if (compare("device", deviceComment, device.name)) static_cast<void>(compare("driver", driverComment, device.driver));
}

} // namespace vkattn::tool
