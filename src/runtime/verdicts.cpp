#include "runtime/verdicts.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>

namespace vkattn {
namespace {

namespace fs = std::filesystem;

constexpr size_t maxLines = 256, maxFileBytes = 1 << 16; // the oldest lines go first
constexpr const char *verdictNames[] = {"trusted", "slow", "wrong"};

std::string hexText(uint64_t value, int digits) {
    char text[24];
    std::snprintf(text, sizeof text, "%0*llx", digits, static_cast<unsigned long long>(value));
    return text;
}

// Returns the words for device and driver, without spaces.
std::string deviceKey(const DeviceInfo &device) {
    std::string text = hexText(device.vendorId, 4) + ":" + hexText(device.deviceId, 4) + ":";
    for (const uint8_t byte : device.pipelineCacheUuid) text += hexText(byte, 2);
    return text + " " + hexText(device.driverVersion, 8);
}

std::string libraryKey() {
    return hexText(vkattnVersion(), 8) + "-" + hexText(vkattnShaderHash(), 16);
}

// A tuning file with other tiles makes other pipelines, which need a test of their own.
std::string tuningKey(const std::string &tuning) {
    if (tuning.empty()) return "-";
    uint64_t hash = 0xcbf29ce484222325u; // FNV-1a
    for (const char c : tuning) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return hexText(hash, 16);
}

struct Line {
    std::string device, driver, library, tuning, kernel; // or another subject
    vkattn_verdict verdict = VKATTN_VERDICT_TRUSTED;
    [[nodiscard]] std::string key() const { return device + " " + driver + " " + library + " " + tuning; }
    [[nodiscard]] std::string text() const { return key() + " " + kernel + " " + verdictNames[verdict] + "\n"; }
};

// A line has six words; anything else is no line of this library.
std::optional<Line> parseLine(const std::string &text) {
    std::istringstream words(text);
    Line line;
    std::string verdict, more;
    if (!(words >> line.device >> line.driver >> line.library >> line.tuning >> line.kernel >> verdict) || words >> more) return {};
    for (int n = 0; n < 3; ++n)
        if (verdict == verdictNames[n]) {
            line.verdict = static_cast<vkattn_verdict>(n);
            return line;
        }
    return {};
}

std::vector<Line> readLines(const std::string &path) {
    std::error_code error;
    if (path.empty() || !fs::is_regular_file(path, error)) return {};
    const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path.c_str(), "rb"), std::fclose);
    if (!file) return {};
    std::string text(maxFileBytes, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    std::istringstream stream(text);
    std::vector<Line> lines;
    for (std::string line; std::getline(stream, line);)
        if (const auto parsed = parseLine(line)) lines.push_back(*parsed);
    return lines;
}

// Writes the file whole or not at all. Two processes that write at the same time lose one line at
// most; the next self-test finds that verdict again.
std::string writeLines(const std::string &path, const std::vector<Line> &lines) {
    const auto ticks = std::chrono::steady_clock::now().time_since_epoch().count();
    const std::string temporary = path + "." + hexText(static_cast<uint64_t>(ticks) ^ reinterpret_cast<uintptr_t>(&lines), 16) + ".tmp";
    std::error_code error;
    if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) fs::create_directories(folder, error);
    std::FILE *file = std::fopen(temporary.c_str(), "wb");
    if (!file) return "it cannot be opened for writing";
    bool good = true;
    for (const Line &line : lines) {
        const std::string text = line.text();
        good = good && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    }
    good = std::fclose(file) == 0 && good;
    error.clear();
    if (good) fs::rename(temporary, path, error);
    if (good && !error) return {};
    std::string reason = good ? error.message() : "not all bytes could be written";
    fs::remove(temporary, error);
    return reason;
}

struct Memory {
    std::mutex mutex;
    std::map<std::string, vkattn_verdict> verdicts; // by key and kernel
};
Memory &memory() {
    static Memory of;
    return of;
}

} // namespace

Verdicts::Verdicts(const RuntimeOptions &options, const DeviceInfo &device) {
    if (options.capsLimit) return; // the plans are not those of the device itself
    file_ = options.verdictFile;
    inProcess_ = options.getInstanceProcAddr == nullptr;
    key_ = deviceKey(device) + " " + libraryKey() + " " + tuningKey(options.tuning);
}

std::optional<vkattn_verdict> Verdicts::find(const std::string &subject) const {
    if (inProcess_) {
        const std::lock_guard lock(memory().mutex);
        const auto found = memory().verdicts.find(key_ + " " + subject);
        if (found != memory().verdicts.end()) return found->second;
    }
    std::optional<vkattn_verdict> last;
    for (const Line &line : readLines(file_))
        if (line.kernel == subject && line.key() == key_) last = line.verdict;
    return last;
}

void Verdicts::remember(const std::string &subject, vkattn_verdict verdict, const std::function<void(const char *)> &log) const {
    // One thread of this process writes the file at a time.
    const std::lock_guard lock(memory().mutex);
    if (inProcess_) memory().verdicts[key_ + " " + subject] = verdict;
    if (file_.empty()) return;
    std::vector<Line> lines = readLines(file_);
    std::erase_if(lines, [&](const Line &line) { return line.kernel == subject && line.key() == key_; });
    if (const auto own = parseLine(key_ + " " + subject + " " + verdictNames[verdict])) lines.push_back(*own);
    if (lines.size() > maxLines) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(maxLines));
    const std::string reason = writeLines(file_, lines);
    if (!reason.empty() && log)
        log(("the self-test's verdict cannot be kept: " + file_ + ": " + reason + "; the next process tests again").c_str());
}

std::vector<KernelVerdict> rememberedVerdicts(const std::string &file, const DeviceInfo &device) {
    std::vector<KernelVerdict> list;
    const std::string own = deviceKey(device), library = libraryKey();
    for (const Line &line : readLines(file))
        if (line.device + " " + line.driver == own && line.library == library) list.push_back({line.kernel, line.verdict});
    return list;
}

} // namespace vkattn
