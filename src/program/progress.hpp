// A progress bar on standard error. On a terminal it redraws itself; elsewhere it prints a line at
// each quarter, so that logs stay short.
#pragma once

#include "program/terminal.hpp"

#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>

namespace vkattn::program {

class Progress {
  public:
    explicit Progress(const char *label) : label_(label) {}

    // Sets the share that is done, from 0 to 1, on any thread. The note stands behind the bar.
    void set(double share, const std::string &note = "") {
        const std::scoped_lock lock(mutex_);
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
        const bool done = share >= 1;
        const bool due = terminal_ ? seconds - drawn_ > 0.1 : share >= nextQuarter_;
        if (finished_ || (!due && !done)) return;
        finished_ = done;
        drawn_ = seconds;
        while (nextQuarter_ <= share) nextQuarter_ += 0.25;
        const std::string bar = std::string(static_cast<size_t>(share * 30), '#') + std::string(30 - static_cast<size_t>(share * 30), '.');
        const double left = share > 0 ? seconds * (1 - share) / share : 0;
        std::fprintf(stderr, "%s%-9s [%s] %3.0f%%  ", terminal_ ? "\r" : "", label_, bar.c_str(), share * 100);
        std::fprintf(stderr, done ? "%.1f s       " : "%.0f s left  ", done ? seconds : left);
        if (!note.empty()) std::fprintf(stderr, "%s  ", note.c_str());
        if (!terminal_ || done) std::fputc('\n', stderr);
        std::fflush(stderr);
    }
    // Ends the line of a bar that goes no further.
    void stop() {
        const std::scoped_lock lock(mutex_);
        if (terminal_ && !finished_ && drawn_ >= 0) std::fputc('\n', stderr);
        finished_ = true;
    }

  private:
    const char *label_;
    bool terminal_ = stderrIsTerminal(), finished_ = false;
    double drawn_ = -1, nextQuarter_ = 0.25;
    std::mutex mutex_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

} // namespace vkattn::program
