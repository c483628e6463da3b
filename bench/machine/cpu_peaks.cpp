// The processor's peaks: the widest vectors that it has, on all threads.
#include "machine/peaks.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <thread>
#include <vector>

namespace vkattn::bench {
namespace {

// The chains are independent: 2 units of latency 4 or 5 stay busy, and 16 registers suffice.
constexpr uint64_t chains = 12;

// Each function returns something that depends on all of its work, so that the compiler cannot
// leave any of it out.
using FmaLoop = float (*)(uint64_t steps); // chains * lanes multiply-adds a step
using ReadLoop = float (*)(const float *data, uint64_t count);

struct Loops {
    uint64_t lanes;
    FmaLoop fma;
    ReadLoop read;
};

#if defined(__GNUC__)
// The loops are written once and compiled for each instruction set. Multiply and add are contracted
// to one instruction where there is one.
#define VKATTN_BENCH_LOOPS(name, attribute, lanes)                                                                                         \
    attribute float fma##name(uint64_t steps) {                                                                                            \
        typedef float Vector __attribute__((vector_size(4 * (lanes))));                                                                    \
        Vector sum[chains], factor = {}, term = {};                                                                                        \
        for (uint64_t c = 0; c < chains; ++c) sum[c] = factor + static_cast<float>(c);                                                     \
        factor = factor + 0.999f, term = term + 0.001f;                                                                                    \
        for (uint64_t step = 0; step < steps; ++step) {                                                                                    \
            _Pragma("GCC unroll 12") for (uint64_t c = 0; c < chains; ++c) sum[c] = sum[c] * factor + term;                                \
        }                                                                                                                                  \
        float total = 0;                                                                                                                   \
        for (uint64_t c = 0; c < chains; ++c) total += sum[c][0];                                                                          \
        return total;                                                                                                                      \
    }                                                                                                                                      \
    attribute float read##name(const float *data, uint64_t count) {                                                                        \
        typedef float Vector __attribute__((vector_size(4 * (lanes)), aligned(4), may_alias));                                             \
        Vector a = {}, b = {}, c = {}, d = {};                                                                                             \
        constexpr uint64_t step = 4 * uint64_t{lanes};                                                                                     \
        for (uint64_t at = 0; at + step <= count; at += step) {                                                                            \
            const auto *from = reinterpret_cast<const Vector *>(data + at);                                                                \
            a += from[0], b += from[1], c += from[2], d += from[3];                                                                        \
        }                                                                                                                                  \
        a += b + c + d;                                                                                                                    \
        float total = 0;                                                                                                                   \
        for (uint64_t lane = 0; lane < (lanes); ++lane) total += a[lane];                                                                  \
        return total;                                                                                                                      \
    }
#if defined(__x86_64__)
VKATTN_BENCH_LOOPS(Avx512, __attribute__((target("avx512f"))), 16)
VKATTN_BENCH_LOOPS(Avx2, __attribute__((target("avx2,fma"))), 8)
#endif
VKATTN_BENCH_LOOPS(Any, , 4)

Loops loops() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return {16, fmaAvx512, readAvx512};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {8, fmaAvx2, readAvx2};
#endif
    return {4, fmaAny, readAny};
}
#else
constexpr uint64_t plainLanes = 8; // as many lanes as the compiler makes of the loop

float fmaPlain(uint64_t steps) {
    float sum[chains * plainLanes];
    for (uint64_t c = 0; c < chains * plainLanes; ++c) sum[c] = static_cast<float>(c);
    for (uint64_t step = 0; step < steps; ++step)
        for (float &value : sum) value = value * 0.999f + 0.001f;
    float total = 0;
    for (const float value : sum) total += value;
    return total;
}

float readPlain(const float *data, uint64_t count) {
    float sum[32] = {};
    for (uint64_t at = 0; at + 32 <= count; at += 32)
        for (uint64_t lane = 0; lane < 32; ++lane) sum[lane] += data[at + lane];
    float total = 0;
    for (const float value : sum) total += value;
    return total;
}

Loops loops() {
    return {plainLanes, fmaPlain, readPlain};
}
#endif

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class CpuPeakMeter : public PeakMeter {
  public:
    explicit CpuPeakMeter(uint32_t threads) : threads_(threads ? threads : std::max(1u, std::thread::hardware_concurrency())) {}

    double flopsPerSecond(std::string &) override {
        constexpr uint64_t steps = 20000;
        return bestRate(2.0 * chains * static_cast<double>(loops_.lanes * steps), [this](uint32_t) { return loops_.fma(steps); });
    }

    double bytesPerSecond(uint64_t bufferBytes, std::string &) override {
        const uint64_t share = bufferBytes / 4 / threads_;
        if (buffer_.size() < bufferBytes / 4) buffer_.assign(bufferBytes / 4, 1.0f);
        return bestRate(4.0 * static_cast<double>(share),
                        [this, share](uint32_t thread) { return loops_.read(buffer_.data() + thread * share, share); });
    }

    uint64_t largestBuffer() const override { return 256u << 20; }

  private:
    // Returns the best rate of five attempts. All threads work for a while, each on its own. `work`
    // is the work of one call on one thread.
    template <class Body> double bestRate(double work, const Body &body) const {
        double best = 0;
        for (int attempt = 0; attempt < 5; ++attempt) best = std::max(best, rate(work, body));
        return best;
    }

    template <class Body> double rate(double work, const Body &body) const {
        constexpr double seconds = 0.02;
        std::latch start(threads_);
        std::vector<double> rates(threads_);
        std::vector<std::jthread> pool;
        std::atomic<float> sink{0};
        for (uint32_t thread = 0; thread < threads_; ++thread)
            pool.emplace_back([&, thread] {
                sink = sink + body(thread); // warms up caches and clock
                start.arrive_and_wait();
                const double from = now();
                double to = from;
                uint64_t calls = 0;
                for (; to - from < seconds; to = now(), ++calls) sink = sink + body(thread);
                rates[thread] = work * static_cast<double>(calls) / (to - from);
            });
        pool.clear(); // joins
        double sum = 0;
        for (const double value : rates) sum += value;
        return sum;
    }

    uint32_t threads_;
    Loops loops_ = loops();
    std::vector<float> buffer_;
};

} // namespace

std::unique_ptr<PeakMeter> cpuPeakMeter(uint32_t threads) {
    return std::make_unique<CpuPeakMeter>(threads);
}

} // namespace vkattn::bench
