// Runs work units on threads that take them in turn.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace vkattn {

[[nodiscard]] inline uint32_t threadCount(uint32_t asked, uint64_t units) {
    uint64_t threads = asked ? asked : std::thread::hardware_concurrency();
    if (threads < 1) threads = 1;
    return static_cast<uint32_t>(threads < units ? threads : (units ? units : 1));
}

// Calls makeWorker() once on each thread; the callable that it returns takes the number of a unit.
// The first exception of any thread is thrown again here after all threads have stopped. Where the
// system has no more threads to give, fewer threads do the same work.
template <class MakeWorker> void parallelFor(uint32_t threads, uint64_t units, const MakeWorker &makeWorker) {
    std::atomic<uint64_t> next{0};
    std::exception_ptr failure;
    std::mutex failureMutex;
    const auto body = [&] {
        try {
            auto worker = makeWorker();
            for (uint64_t unit; (unit = next.fetch_add(1)) < units;) worker(unit);
        } catch (...) {
            const std::lock_guard lock(failureMutex);
            if (!failure) failure = std::current_exception();
            next.store(units);
        }
    };
    std::vector<std::thread> pool;
    pool.reserve(threads);
    for (uint32_t t = 1; t < threads; ++t) {
        try {
            pool.emplace_back(body);
        } catch (const std::system_error &) {
            break;
        }
    }
    body();
    for (std::thread &thread : pool) thread.join();
    if (failure) std::rethrow_exception(failure);
}

} // namespace vkattn
