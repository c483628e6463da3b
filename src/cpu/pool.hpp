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
    // Makes a pool of `threads` threads, of which the caller's is one: 1 starts none. There are
    // fewer where the system has no more to give.
    explicit Pool(uint32_t threads);
    ~Pool();
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;

    [[nodiscard]] uint32_t threads() const { return static_cast<uint32_t>(workers_.size()) + 1; }

    // Calls job(context, thread) on `threads` threads (at most threads()), and returns when all are
    // done. Threads are numbered from 0, which is the caller's. The pool does one job at a time.
    using Job = void (*)(void *context, uint32_t thread);
    void run(uint32_t threads, Job job, void *context);

  private:
    void work(uint32_t thread);

    std::mutex mutex_;
    std::condition_variable start_, done_;
    // The number is written under the mutex. It is atomic so that a thread can watch for a while
    // before it sleeps.
    std::atomic<uint64_t> generation_{0};
    std::atomic<uint32_t> busy_{0};
    bool stop_ = false;
    Job job_ = nullptr;
    void *context_ = nullptr;
    uint32_t wanted_ = 0;
    std::vector<std::thread> workers_;
};

} // namespace vkattn

// The pool of vkattn/cpu.h.
struct vkattn_cpu_pool_t {
    explicit vkattn_cpu_pool_t(uint32_t threads) : pool(threads) {}
    vkattn::Pool pool;
};
