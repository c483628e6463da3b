// A function in a process of its own, so that a driver that crashes or hangs in it takes nothing
// else along. Nothing is executed anew: the program may have been started in ways that cannot be
// repeated (through a loader of its own). So before the first child the parent must have loaded no
// driver and started no thread: a child has neither.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace vkattn::conform {

class ChildProcess {
  public:
    // The channel from the child to the parent, beside standard output and standard error, on which
    // drivers print.
    class Channel {
      public:
        explicit Channel(int file) : file_(file) {}
        // Sends a line that has no newline in it. Ends the process where the parent is gone.
        void send(const std::string &line) const;

      private:
        int file_;
    };
    using Body = std::function<void(const Channel &)>;

    // Throws Failure where this system has no such processes, or no more of them.
    explicit ChildProcess(const Body &body);
    ~ChildProcess(); // ends the process
    ChildProcess(const ChildProcess &) = delete;
    ChildProcess &operator=(const ChildProcess &) = delete;

    enum class Event { line, ended, nothing };
    // Waits at most so long for a line, or for the end. An endless line comes in parts.
    [[nodiscard]] Event next(std::chrono::milliseconds wait, std::string &line);
    // Id of the process; -1 once it has ended.
    [[nodiscard]] int process() const { return process_; }
    // Returns false where the process does not end, as where a driver waits in the kernel for a
    // device that is stuck.
    bool kill();
    // Returns a text such as "signal 11 (SIGSEGV)" or "exit status 3".
    [[nodiscard]] const std::string &ending() const { return ending_; }
    // Returns the end of the child's output on one line, its lines parted by " | ". Empty where the
    // child printed nothing.
    [[nodiscard]] std::string lastOutput();

  private:
    bool takeLine(std::string &line);
    void readAll();
    bool reap();

    int process_ = -1, channel_ = -1, output_ = -1;
    std::string received_, printed_, ending_;
    bool channelOpen_ = true;
};

} // namespace vkattn::conform
