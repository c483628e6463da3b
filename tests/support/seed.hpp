// Seeds of random tests: printed once per process, taken back from the environment variable
// VKATTN_TEST_SEED.
#pragma once

#include "conform/cases/random.hpp"
#include "vkattn/vkattn.hpp"

#include <cstdio>
#include <cstdlib>

namespace vkattn::test {

using conform::between;
using conform::Random;

// AUTO, or a kernel of the library.
inline vkattn_kernel anyKernel(Random &random) {
    const uint32_t drawn = between(random, 0, vkattnKernels(nullptr, 0));
    return drawn == 0 ? VKATTN_KERNEL_AUTO : KernelList().begin()[drawn - 1];
}

inline uint64_t seed() {
    static const uint64_t value = [] {
        const char *given = std::getenv("VKATTN_TEST_SEED");
        const uint64_t chosen = given ? std::strtoull(given, nullptr, 0) : std::random_device{}() % 1000000000ull;
        std::printf("seed %llu (repeat with VKATTN_TEST_SEED=%llu)\n", static_cast<unsigned long long>(chosen),
                    static_cast<unsigned long long>(chosen));
        std::fflush(stdout); // before a test crashes
        return chosen;
    }();
    return value;
}

// A generator of its own for each name, so that one test's draws do not depend on which others ran.
inline Random randomFor(const std::string &name) {
    return conform::randomFor(seed(), name);
}

} // namespace vkattn::test
