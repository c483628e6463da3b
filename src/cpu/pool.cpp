#include "cpu/pool.hpp"

#include <system_error>

namespace vkattn {
namespace {

// Waking a sleeping thread takes longer than a small problem: threads watch for some microseconds
// before they sleep.
template <class Ready> bool watch(const Ready &ready) {
    for (int turn = 0; turn < 2000; ++turn) {
        if (ready()) return true;
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
    }
    return false;
}

} // namespace

Pool::Pool(uint32_t threads) {
    workers_.reserve(threads ? threads - 1 : 0);
    for (uint32_t thread = 1; thread < threads; ++thread) {
        try {
            workers_.emplace_back([this, thread] { work(thread); });
        } catch (const std::system_error &) {
            break;
        }
    }
}

Pool::~Pool() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
        generation_.fetch_add(1);
    }
    start_.notify_all();
    for (std::thread &worker : workers_) worker.join();
}

void Pool::run(uint32_t threads, Job job, void *context) {
    const uint32_t others = (threads < this->threads() ? threads : this->threads()) - 1;
    if (others) {
        {
            const std::lock_guard lock(mutex_);
            job_ = job;
            context_ = context;
            wanted_ = others;
            busy_.store(static_cast<uint32_t>(workers_.size()));
            generation_.fetch_add(1);
        }
        start_.notify_all();
    }
    job(context, 0);
    if (!others) return;
    const auto finished = [this] { return busy_.load() == 0; };
    if (watch(finished)) return;
    std::unique_lock lock(mutex_);
    done_.wait(lock, finished);
}

void Pool::work(uint32_t thread) {
    for (uint64_t seen = 0;;) {
        const auto called = [&] { return generation_.load() != seen; };
        watch(called);
        Job job;
        void *context;
        {
            std::unique_lock lock(mutex_);
            start_.wait(lock, called);
            if (stop_) return;
            seen = generation_.load();
            job = thread <= wanted_ ? job_ : nullptr;
            context = context_;
        }
        if (job) job(context, thread);
        if (busy_.fetch_sub(1) == 1) {
            // The lock keeps the caller from being between its test and its sleep.
            const std::lock_guard lock(mutex_);
            done_.notify_one();
        }
    }
}

} // namespace vkattn
