#include "conform/processes/own_time.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>

namespace vkattn::conform {

#if defined(__linux__)
namespace {

// Returns the state of a thread (proc(5)): 'R' for ready to run, 'T' for stopped; 0 where the
// thread is gone.
char stateOf(const std::filesystem::path &thread) {
    std::string stat;
    std::ifstream file(thread / "stat");
    std::getline(file, stat);
    // The line is "17 (name) R ...". The name may hold anything, a parenthesis too.
    const size_t name = stat.rfind(") ");
    return name == std::string::npos || name + 2 >= stat.size() ? '\0' : stat[name + 2];
}

} // namespace
#endif

std::optional<ProcessTime> processTime(int process) {
#if defined(__linux__)
    const std::filesystem::path folder = "/proc/" + std::to_string(process) + "/task";
    ProcessTime time;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        const std::string text = entry->path().filename().string();
        int thread = 0;
        std::from_chars(text.data(), text.data() + text.size(), thread);
        uint64_t running = 0, waiting = 0;
        if (std::ifstream(entry->path() / "schedstat") >> running >> waiting)
            time.threads[thread] = {static_cast<double>(running) * 1e-9, static_cast<double>(waiting) * 1e-9};
        const char state = stateOf(entry->path());
        time.awake = time.awake || state == 'R' || state == 'T' || state == 't';
    }
    // Kernels without CONFIG_SCHED_INFO have no such file.
    return time.threads.empty() ? std::nullopt : std::optional(std::move(time));
#else
    static_cast<void>(process);
    return std::nullopt;
#endif
}

double ownSeconds(const ProcessTime &before, const ProcessTime &after, double wall) {
    double running = 0, waiting = 0;
    for (const auto &[id, now] : after.threads) {
        const auto found = before.threads.find(id);
        const ThreadTime then = found == before.threads.end() ? ThreadTime{} : found->second;
        running += std::max(now.running - then.running, 0.0);
        waiting += std::max(now.waiting - then.waiting, 0.0);
    }
    const double asleep = before.awake || after.awake ? 0 : std::max(wall - running - waiting, 0.0);
    return std::min(asleep + running, wall);
}

OwnTime::OwnTime(int process) : process_(process) {
    restart();
}

void OwnTime::restart() {
    seconds_ = 0;
    asked_ = Clock::now();
    last_ = processTime(process_);
}

double OwnTime::seconds() {
    const auto now = Clock::now();
    const double wall = std::chrono::duration<double>(now - asked_).count();
    std::optional<ProcessTime> time = processTime(process_);
    seconds_ += last_ && time ? ownSeconds(*last_, *time, wall) : wall;
    asked_ = now;
    last_ = std::move(time);
    return seconds_;
}

} // namespace vkattn::conform
