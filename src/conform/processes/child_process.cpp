#include "conform/processes/child_process.hpp"

#include "program/failure.hpp"

#if defined(__unix__) || defined(__APPLE__)

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <iostream>
#include <poll.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

namespace vkattn::conform {
using namespace program;
namespace {

using Clock = std::chrono::steady_clock;

// Bytes of a line, bytes of output that are kept, and lines of output that are shown.
constexpr size_t longestLine = 1 << 20, keptOutput = 4096, shownOutput = 8;
constexpr auto patienceAfterKill = std::chrono::seconds(10);

struct Pipe {
    int ends[2] = {-1, -1}; // the end to read, the end to write
    Pipe() {
        if (pipe(ends) != 0) throw Failure(std::string("cannot start a process: no pipe: ") + std::strerror(errno));
    }
    ~Pipe() {
        for (const int end : ends)
            if (end >= 0) close(end);
    }
    Pipe(const Pipe &) = delete;
    Pipe &operator=(const Pipe &) = delete;
    int take(int which) { return std::exchange(ends[which], -1); }
};

std::string signalText(int number) {
    static constexpr struct {
        int number;
        const char *name;
    } names[] = {{SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGILL, "SIGILL"},
                 {SIGFPE, "SIGFPE"},   {SIGKILL, "SIGKILL"}, {SIGTERM, "SIGTERM"}, {SIGTRAP, "SIGTRAP"},
                 {SIGPIPE, "SIGPIPE"}, {SIGSYS, "SIGSYS"},   {SIGXCPU, "SIGXCPU"}};
    for (const auto &each : names)
        if (each.number == number) return "signal " + std::to_string(number) + " (" + each.name + ")";
    return "signal " + std::to_string(number);
}

std::string endingText(int state) {
    return WIFSIGNALED(state) ? signalText(WTERMSIG(state)) : "exit status " + std::to_string(WEXITSTATUS(state));
}

// Files that the parent writes are out of a driver's reach.
void closeAllBut(int channel, int output) {
    const int limit = static_cast<int>(std::min(sysconf(_SC_OPEN_MAX), 65536L));
    for (int file = STDERR_FILENO + 1; file < limit; file++)
        if (file != channel && file != output) close(file);
}

// Runs the child.
[[noreturn]] void live(const ChildProcess::Body &body, pid_t parent, int channel, int output) {
#if defined(__linux__)
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
#else
    // The parent's end of the channel closes with the parent, and the next line that is sent ends
    // this process.
    static_cast<void>(parent);
#endif
    // Ctrl-C reaches the whole group, and the parent answers it. The parent's other handlers remove
    // files that belong to the parent.
    std::signal(SIGINT, SIG_IGN);
    for (const int number : {SIGTERM, SIGHUP, SIGPIPE}) std::signal(number, SIG_DFL);
    closeAllBut(channel, output);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    close(output);
    int status = 0;
    try {
        body(ChildProcess::Channel(channel));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        status = 1;
    }
    std::fflush(nullptr);
    _exit(status); // destructors and handlers belong to the parent
}

// Returns false where nothing more will come.
bool readWhatIsThere(int file, std::string &into) {
    for (;;) {
        char buffer[65536];
        const ssize_t got = read(file, buffer, sizeof buffer);
        if (got > 0)
            into.append(buffer, static_cast<size_t>(got));
        else if (got == 0)
            return false;
        else if (errno != EINTR)
            return errno == EAGAIN || errno == EWOULDBLOCK;
        if (into.size() > longestLine) return true;
    }
}

} // namespace

void ChildProcess::Channel::send(const std::string &line) const {
    const std::string text = line + "\n";
    for (size_t sent = 0; sent < text.size();) {
        const ssize_t written = write(file_, text.data() + sent, text.size() - sent);
        if (written < 0 && errno != EINTR) _exit(1);
        if (written > 0) sent += static_cast<size_t>(written);
    }
}

ChildProcess::ChildProcess(const Body &body) {
    Pipe channel, output;
    // Otherwise the child would print the buffered output once more.
    std::cout.flush();
    std::fflush(nullptr);
    const pid_t parent = getpid();
    process_ = fork();
    if (process_ < 0) throw Failure(std::string("cannot start a process: ") + std::strerror(errno));
    if (process_ == 0) {
        close(channel.ends[0]);
        close(output.ends[0]);
        live(body, parent, channel.ends[1], output.ends[1]);
    }
    channel_ = channel.take(0);
    output_ = output.take(0);
    for (const int file : {channel_, output_}) {
        fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_NONBLOCK);
        fcntl(file, F_SETFD, FD_CLOEXEC);
    }
}

ChildProcess::~ChildProcess() {
    kill();
    close(channel_);
    if (output_ >= 0) close(output_);
}

bool ChildProcess::takeLine(std::string &line) {
    const size_t end = received_.find('\n');
    if (end == std::string::npos && received_.size() < longestLine) return false;
    line = received_.substr(0, end);
    received_.erase(0, end == std::string::npos ? end : end + 1);
    return true;
}

void ChildProcess::readAll() {
    if (channelOpen_) channelOpen_ = readWhatIsThere(channel_, received_);
    if (output_ >= 0 && !readWhatIsThere(output_, printed_)) {
        close(output_);
        output_ = -1;
    }
    if (printed_.size() > keptOutput) printed_.erase(0, printed_.size() - keptOutput);
}

bool ChildProcess::reap() {
    if (process_ < 0) return true;
    int state = 0;
    const pid_t reaped = waitpid(process_, &state, WNOHANG);
    if (reaped != process_) return false;
    process_ = -1;
    ending_ = endingText(state);
    return true;
}

ChildProcess::Event ChildProcess::next(std::chrono::milliseconds wait, std::string &line) {
    const auto until = Clock::now() + wait;
    for (;;) {
        if (takeLine(line)) return Event::line;
        const bool ended = reap();
        readAll(); // after reap: lines that a process sent before its end are there by now
        if (takeLine(line)) return Event::line;
        if (ended) return Event::ended;
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
        if (left <= 0) return Event::nothing;
        pollfd files[2] = {{channelOpen_ ? channel_ : -1, POLLIN, 0}, {output_, POLLIN, 0}};
        // A process that has closed its ends may live on for a while: the parent looks at it again
        // soon.
        const bool silent = !channelOpen_ && output_ < 0;
        const int ready = poll(files, 2, static_cast<int>(silent ? std::min<long long>(left, 10) : left));
        // The caller may want to answer a signal.
        if (ready < 0 && errno == EINTR) return Event::nothing;
    }
}

bool ChildProcess::kill() {
    if (process_ < 0) return true;
    ::kill(process_, SIGKILL);
    for (const auto until = Clock::now() + patienceAfterKill; Clock::now() < until;
         std::this_thread::sleep_for(std::chrono::milliseconds(2)))
        if (reap()) return true;
    return false;
}

std::string ChildProcess::lastOutput() {
    readAll();
    std::string text;
    size_t lines = 0;
    for (size_t end = printed_.size(); end > 0 && lines < shownOutput;) {
        const size_t newline = printed_.rfind('\n', end - 1);
        const size_t begin = newline == std::string::npos ? 0 : newline + 1;
        if (end > begin) text = printed_.substr(begin, end - begin) + (text.empty() ? "" : " | ") + text, lines++;
        end = newline == std::string::npos ? 0 : newline;
    }
    return text;
}

} // namespace vkattn::conform

#else

namespace vkattn::conform {

ChildProcess::ChildProcess(const Body &) {
    throw Failure("conform runs each driver in a process of its own, made by fork, which this system does not have: run it on Linux, macOS "
                  "or another POSIX system");
}
ChildProcess::~ChildProcess() = default;
void ChildProcess::Channel::send(const std::string &) const {
    static_cast<void>(file_);
}
ChildProcess::Event ChildProcess::next(std::chrono::milliseconds, std::string &) {
    return Event::ended;
}
bool ChildProcess::kill() {
    return true;
}
std::string ChildProcess::lastOutput() {
    return "";
}

} // namespace vkattn::conform

#endif
