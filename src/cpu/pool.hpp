// A few threads that stay, and do one job at a time together with the thread that asks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace vkattn {

class Pool {
  public:
    // `threads` in all, the caller's own counted: none are started for 1. Where the system has no
    // more to give there are fewer.
    explicit Pool(uint32_t threads);
    ~Pool();
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;

    [[nodiscard]] uint32_t threads() const { return static_cast<uint32_t>(workers_.size()) + 1; }

    // job(context, thread) on `threads` threads (at most threads()), numbered from 0, the caller's;
    // returns when all are done. One job at a time.
    using Job = void (*)(void *context, uint32_t thread);
    void run(uint32_t threads, Job job, void *context);

  private:
    void work(uint32_t thread);

    std::mutex mutex_;
    std::condition_variable start_, done_;
    // Written under the mutex; atomic so that a thread can watch for a while before it sleeps.
    std::atomic<uint64_t> generation_{0};
    std::atomic<uint32_t> busy_{0};
    bool stop_ = false;
    Job job_ = nullptr;
    void *context_ = nullptr;
    uint32_t wanted_ = 0;
    std::vector<std::thread> workers_;
};

} // namespace vkattn
