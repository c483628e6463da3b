// The seeds of every fuzz target, once each, with the project's own compiler: bugs that fuzzing has
// found stay found in an ordinary build too. A broken promise ends the process; the last seed that
// it names is the one.
#include "support/extent.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <vector>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

using namespace vkattn::test;

// LLVMFuzzerTestOneInput of NAME_fuzz.cpp: CMakeLists.txt gives each a name of its own.
extern "C" {
int vkattnFuzzBlocks(const uint8_t *data, size_t size);
int vkattnFuzzCache(const uint8_t *data, size_t size);
int vkattnFuzzDevice(const uint8_t *data, size_t size);
int vkattnFuzzLayer(const uint8_t *data, size_t size);
int vkattnFuzzLinear(const uint8_t *data, size_t size);
int vkattnFuzzNpy(const uint8_t *data, size_t size);
int vkattnFuzzGradient(const uint8_t *data, size_t size);
int vkattnFuzzOperation(const uint8_t *data, size_t size);
int vkattnFuzzProblem(const uint8_t *data, size_t size);
int vkattnFuzzReplay(const uint8_t *data, size_t size);
int vkattnFuzzReport(const uint8_t *data, size_t size);
int vkattnFuzzStatistics(const uint8_t *data, size_t size);
int vkattnFuzzText(const uint8_t *data, size_t size);
int vkattnFuzzTokens(const uint8_t *data, size_t size);
int vkattnFuzzTuning(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);
}

// libFuzzer's, which the targets' own mutators call. Seeds are not mutated.
size_t LLVMFuzzerMutate(uint8_t *, size_t size, size_t) {
    ADD_FAILURE() << "a seed was to be mutated";
    return size;
}

namespace {

// `more`: folders of other files that are seeds too.
std::vector<std::filesystem::path> seedsOf(const std::string &target, const std::vector<std::filesystem::path> &more = {}) {
    std::vector<std::filesystem::path> folders = {std::filesystem::path(VKATTN_FUZZ_SEEDS) / target}, seeds;
    folders.insert(folders.end(), more.begin(), more.end());
    for (const std::filesystem::path &folder : folders) {
        const size_t before = seeds.size();
        for (const auto &entry : std::filesystem::directory_iterator(folder)) seeds.push_back(entry.path());
        EXPECT_GT(seeds.size(), before) << folder;
    }
    std::sort(seeds.begin(), seeds.end());
    return seeds;
}

void replay(const std::vector<std::filesystem::path> &seeds, int (*target)(const uint8_t *, size_t)) {
    for (const std::filesystem::path &path : seeds) {
        std::printf("%s\n", path.c_str());
        std::fflush(stdout);
        std::ifstream file(path, std::ios::binary);
        ASSERT_TRUE(file) << path;
        const std::string text((std::istreambuf_iterator<char>(file)), {});
        const std::vector<uint8_t> bytes(text.begin(), text.end()); // no spare byte behind its end
        target(bytes.data(), bytes.size());
    }
}

} // namespace

TEST(FuzzSeeds, blocks) {
    replay(seedsOf("blocks"), vkattnFuzzBlocks);
}
TEST(FuzzSeeds, cache) {
    replay(seedsOf("cache"), vkattnFuzzCache);
}
TEST(FuzzSeeds, layer) {
    replay(seedsOf("layer"), vkattnFuzzLayer);
}
TEST(FuzzSeeds, linear) {
    replay(seedsOf("linear"), vkattnFuzzLinear);
}
TEST(FuzzSeeds, npy) {
    replay(seedsOf("npy"), vkattnFuzzNpy);
}
TEST(FuzzSeeds, gradient) {
    replay(seedsOf("gradient"), vkattnFuzzGradient);
}
TEST(FuzzSeeds, operation) {
    replay(seedsOf("operation"), vkattnFuzzOperation);
}
TEST(FuzzSeeds, problem) {
    replay(seedsOf("problem"), vkattnFuzzProblem);
}
TEST(FuzzSeeds, replay) {
    replay(seedsOf("replay"), vkattnFuzzReplay);
}
TEST(FuzzSeeds, report) {
    replay(seedsOf("report"), vkattnFuzzReport);
}
TEST(FuzzSeeds, statistics) {
    replay(seedsOf("statistics"), vkattnFuzzStatistics);
}
TEST(FuzzSeeds, text) {
    replay(seedsOf("text", {VKATTN_FUZZ_MORE_TEXTS}), vkattnFuzzText);
}
TEST(FuzzSeeds, tokens) {
    replay(seedsOf("tokens"), vkattnFuzzTokens);
}
TEST(FuzzSeeds, tuning) {
    replay(seedsOf("tuning"), vkattnFuzzTuning);
}
// Most of the time goes into compiling pipelines: a part of the seeds, drawn. The target's devices
// are open when the process ends: what their drivers hold is no leak.
TEST(FuzzSeeds, device) {
#if defined(__SANITIZE_ADDRESS__)
    const __lsan::ScopedDisabler driversHold;
#endif
    std::vector<std::filesystem::path> seeds = seedsOf("device");
    Random random = randomFor("device seeds");
    std::shuffle(seeds.begin(), seeds.end(), random);
    if (!fullExtent() && seeds.size() > 25) seeds.resize(25);
    replay(seeds, vkattnFuzzDevice);
}
