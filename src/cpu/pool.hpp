// A few threads that stay, and do one job at a time together with the thread that asks.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace vkattn {

// Some 10 microseconds: handing less over takes longer than computing it.
inline constexpr double leastWorkOfThread = 1 << 17;
// Returns how many threads of at most `most` a job is worth. Work is counted in multiply-adds, and
// four of them for an element that is moved.
[[nodiscard]] inline uint32_t threadsFor(double work, uint32_t most, double leastWork = leastWorkOfThread) {
    return work >= most * leastWork ? most : std::max(static_cast<uint32_t>(work / leastWork), 1u);
}

// Waits until another thread of a job stores the value.
inline void waitFor(const std::atomic<uint32_t> &word, uint32_t value) {
    for (uint32_t tries = 0; word.load(std::memory_order_acquire) != value; ++tries) {
        if (tries > 1000) {
            std::this_thread::yield();
            continue;
        }
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
    }
}

class Pool {
  public:
    // Makes a pool of `threads` threads, of which the caller's is one: 1 starts none. There are
    // fewer where the system has no more to give.
    explicit Pool(uint32_t threads);
    ~Pool();
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;

    [[nodiscard]] uint32_t threads() const { return static_cast<uint32_t>(workers_.size()) + 1; }
    [[nodiscard]] uint32_t threadsFor(double work) const { return vkattn::threadsFor(work, threads(), leastWork_); }
    // Makes every job worth all threads, so that small problems test what threads do.
    void shareAnyWork() { leastWork_ = 0; }

    // Calls job(context, thread) on `threads` threads (at most threads()), and returns when all are
    // done. Threads are numbered from 0, which is the caller's. The pool does one job at a time.
    using Job = void (*)(void *context, uint32_t thread);
    void run(uint32_t threads, Job job, void *context);

  private:
    void work(uint32_t thread);

    double leastWork_ = leastWorkOfThread;
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

// Calls compute(unit, thread) once for each of the units [0, units), in whatever thread is next; units begin in
// their order.
template <class Compute> void forUnits(Pool &pool, uint32_t threads, uint64_t units, const Compute &compute) {
    struct Job {
        const Compute &compute;
        const uint64_t units;
        std::atomic<uint64_t> next{0};
    } all{compute, units};
    const auto job = [](void *context, uint32_t thread) {
        Job &own = *static_cast<Job *>(context);
        for (uint64_t n; (n = own.next.fetch_add(1, std::memory_order_relaxed)) < own.units;) own.compute(n, thread);
    };
    if (units) pool.run(threads, job, &all);
}

} // namespace vkattn

// The pool of vkattn/cpu.h.
struct vkattn_cpu_pool_t {
    explicit vkattn_cpu_pool_t(uint32_t threads) : pool(threads) {}
    vkattn::Pool pool;
};
