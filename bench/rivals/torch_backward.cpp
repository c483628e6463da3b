// Times PyTorch's CPU backward of scaled_dot_product_attention, beside its forward: what `vkattn grad`
// on the CPU is compared with (docs/performance.md, "Gradients"). Medians; threads: the first argument,
// 2 without one. The rate of the backward counts 10 flops for each pair and dim, 2.5 forwards, as
// FlashAttention does (Dao 2023). No part of the build: README.md says how to build this file.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

struct Shape {
    int heads, tokens, dim;
    bool causal;
};

template <class Work> double medianMilliseconds(const Work &work) {
    constexpr int warmUp = 2, repeats = 7;
    std::vector<double> all;
    for (int n = 0; n < warmUp + repeats; ++n) {
        const auto start = std::chrono::steady_clock::now();
        work();
        const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
        if (n >= warmUp) all.push_back(time.count());
    }
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
}

} // namespace

int main(int argc, char **argv) {
    at::set_num_threads(argc > 1 ? std::atoi(argv[1]) : 2);
    constexpr Shape shapes[] = {{8, 2048, 64, false}, {8, 2048, 128, false}, {8, 2048, 64, true}, {8, 2048, 128, true}};
    for (const Shape &s : shapes) {
        const auto draw = [&] { return at::randn({1, s.heads, s.tokens, s.dim}); };
        const at::Tensor q = draw(), k = draw(), v = draw(), dOut = draw();
        const auto forward = [&] { return at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, s.causal); };
        const auto [out, logSumExp] = forward();
        const double forwardTime = medianMilliseconds(forward);
        const double backwardTime = medianMilliseconds([&, &out = out, &logSumExp = logSumExp] {
            return at::_scaled_dot_product_flash_attention_for_cpu_backward(dOut, q, k, v, out, logSumExp, 0.0, s.causal);
        });
        const double pairs = 1.0 * s.heads * s.tokens * s.tokens * s.dim * (s.causal ? 0.5 : 1.0);
        std::printf("PyTorch CPU  %d heads %d x %d D%d%s  forward %.1f ms  %.1f GFLOP/s  backward %.1f ms  %.1f GFLOP/s\n", s.heads,
                    s.tokens, s.tokens, s.dim, s.causal ? " causal" : "", forwardTime, 4 * pairs / forwardTime / 1e6, backwardTime,
                    10 * pairs / backwardTime / 1e6);
    }
}
