// A progress bar on standard error. On a terminal it redraws itself; elsewhere it prints a line at
// each quarter, so that logs stay short.
#pragma once

#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>

#ifdef _WIN32
#include <io.h>
#else
#include <unistd.h>
#endif

namespace denoise {

class Progress {
  public:
    explicit Progress(const char *label) : label_(label) {
#ifdef _WIN32
        terminal_ = _isatty(_fileno(stderr)) != 0;
#else
        terminal_ = isatty(fileno(stderr)) != 0;
#endif
    }

    // Sets the share that is done, from 0 to 1, on any thread.
    void set(double share) {
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
        if (!terminal_ || done) std::fputc('\n', stderr);
        std::fflush(stderr);
    }

  private:
    const char *label_;
    bool terminal_ = false, finished_ = false;
    double drawn_ = -1, nextQuarter_ = 0.25;
    std::mutex mutex_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

} // namespace denoise
