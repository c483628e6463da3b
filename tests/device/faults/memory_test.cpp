// Memory stays flat: random problems, statistics of attention and other operations, one after the other,
// over a few pipelines in one process. VKATTN_TEST_MEMORY_PROBLEMS says how many.
#include "conform/cases/operation_case.hpp"
#include "conform/statistics/statistics_case.hpp"
#include "device/environment.hpp"
#include "support/vulkan/faulty_vulkan.hpp"

#include <cstdlib>
#include <fstream>
#include <functional>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr uint32_t most = 40; // tokens, and pipelines
constexpr uint64_t rssSlack = 4 << 20, heapSlack = 1 << 20;

// VmRSS; 0: this system does not say.
uint64_t residentBytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.rfind("VmRSS:", 0) == 0) return std::strtoull(line.c_str() + 6, nullptr, 10) << 10;
    return 0;
}
// Returns the bytes in use of malloc's memory; 0: unknown.
uint64_t heapBytes() {
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
    const auto info = mallinfo2();
    return info.uordblks + info.hblkhd;
#else
    return 0;
#endif
}
uint64_t grown(uint64_t from, uint64_t to) {
    return to > from ? to - from : 0;
}

// The parts of a problem that choose pipelines.
std::vector<Case> configurations() {
    std::vector<Case> list;
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_STAGED, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE})
        for (const bool lse : {false, true})
            for (const bool causal : {false, true}) {
                Case c;
                c.name = "memory";
                c.kernel = kernel, c.lse = lse, c.causal = causal;
                c.headDim = c.valueDim = 8;
                c.batch = 2, c.heads = c.kvHeads = 4;
                c.queryTokens = kernel == VKATTN_KERNEL_DECODE ? 4 : most, c.keyTokens = most;
                list.push_back(c);
            }
    return list;
}

Case resized(Case c, Random &random) {
    c.batch = between(random, 1, c.batch);
    c.heads = c.kvHeads = between(random, 1, c.heads);
    c.queryTokens = between(random, 1, c.queryTokens);
    c.keyTokens = between(random, 1, c.keyTokens);
    c.slices = random() % 8 == 0 ? 3 : 0;
    return c;
}

// Operations of few pipelines: every kind with all its operands, and without.
std::vector<OperationCase> operationConfigurations() {
    std::vector<OperationCase> list = {plainProjection(1, 8, 8),
                                       plainNorm(VKATTN_LAYER_NORM, 1, 8),
                                       plainRotary(VKATTN_PAIRS_HALF, 1, 8, 8, 5),
                                       plainAppend(1, 60, 8),
                                       plainAdvance(1),
                                       plainMean(1, 1, 8),
                                       plainMerge(3, 1, 1, 8),
                                       plainKeep(1, 1, 40),
                                       plainNormGradient(VKATTN_LAYER_NORM, 1, 8),
                                       plainDrop(1, 1, 8)};
    OperationCase projection = list[0], norm = list[1], rotary = list[2], append = list[3];
    projection.projection.bias = norm.norm.gamma = norm.norm.beta = vector(VKATTN_F32, 8);
    projection.projection.residual = norm.norm.residual = norm.norm.sum = list[0].projection.y;
    rotary.rotary.presentRoles = VKATTN_PRESENT(VKATTN_POSITIONS);
    append.append.presentRoles = VKATTN_PRESENT(VKATTN_STARTS);
    for (const OperationCase &each : {projection, norm, rotary, append}) list.push_back(each);
    return list;
}

OperationCase withRows(OperationCase c, uint32_t rows) {
    if (c.kind == VKATTN_ADVANCE) return plainAdvance(rows);
    if (c.kind == VKATTN_MERGE) return plainMerge(3, 1, rows, 8);
    if (c.kind == VKATTN_KEEP) return plainKeep(1, rows, 40);
    for (const vkattn_role role : {VKATTN_X, VKATTN_RESIDUAL, VKATTN_SUM, VKATTN_Y, VKATTN_D_Y, VKATTN_D_X})
        if (c.layout(role).extent[0] && !(c.kind == VKATTN_APPEND && role == VKATTN_Y)) c.layout(role) = matrix(VKATTN_F32, rows, 8);
    return c;
}

// Statistics of few pipelines: each output alone, and all of them, with gaps between their elements.
struct StatisticsConfiguration {
    Case c;
    StatisticsOptions options;
};
std::vector<StatisticsConfiguration> statisticsConfigurations() {
    constexpr StatisticsOptions outputs[] = {
        {.received = false, .top = 0}, {.columns = false, .top = 0}, {.columns = false, .received = false}, {.densityThreshold = 0.05f}};
    std::vector<StatisticsConfiguration> list;
    for (const StatisticsOptions &each : outputs)
        for (const bool causal : {false, true}) {
            Case c;
            c.name = "memory of statistics";
            c.causal = causal;
            c.headDim = c.valueDim = 8;
            c.batch = 2, c.heads = c.kvHeads = 4;
            c.queryTokens = c.keyTokens = most;
            list.push_back({c, each});
        }
    return list;
}

unsigned long problemCount() {
    const char *given = std::getenv("VKATTN_TEST_MEMORY_PROBLEMS");
    return given ? std::strtoul(given, nullptr, 10) : 1000;
}

std::unique_ptr<Runtime> openCounted(RuntimeOptions options) {
    fault = {};
    ledger.reset();
    options.allowFallback = false;
    options.selfTest = 0;
    options.getInstanceProcAddr = faultyGetInstanceProcAddr;
    std::string message;
    auto runtime = Runtime::open(options, nullptr, &message);
    EXPECT_TRUE(runtime) << message;
    return runtime;
}

// `everything` runs what is largest of every kind, and `one` draws something and runs it.
void expectFlat(Runtime &runtime, unsigned long count, const char *what, const std::function<void()> &everything,
                const std::function<void()> &one) {
    ASSERT_GT(count, 0u);
    // Buffers have their largest size then, and the driver's threads their memory.
    for (int pass = 0; pass < 3; ++pass) everything();
    // The needs of a problem depend on its size too: the test goes on until nothing has been new
    // for long.
    uint32_t pipelines = 0;
    for (int since = 0; since < 300 && !testing::Test::HasFatalFailure(); ++since) {
        one();
        if (runtime.compileStatistics().pipelines != pipelines) pipelines = runtime.compileStatistics().pipelines, since = 0;
    }
    const uint64_t resident = residentBytes(), heap = heapBytes();
    const size_t objects = ledger.live.size();
    for (unsigned long n = 0; n < count && !testing::Test::HasFatalFailure(); ++n) one();
    const uint64_t residentNow = residentBytes(), heapNow = heapBytes();
    std::printf("memory: %lu %s over %u pipelines: resident %.1f MiB before, %.1f MiB after; on the heap %.2f and %.2f MiB; %zu and %zu "
                "Vulkan objects\n",
                count, what, pipelines, static_cast<double>(resident) * 0x1p-20, static_cast<double>(residentNow) * 0x1p-20,
                static_cast<double>(heap) * 0x1p-20, static_cast<double>(heapNow) * 0x1p-20, objects, ledger.live.size());
    EXPECT_LE(runtime.compileStatistics().pipelines, most);
    EXPECT_EQ(runtime.compileStatistics().pipelines, pipelines) << "the first pass did not compile all";
    EXPECT_EQ(ledger.live.size(), objects);
    EXPECT_LE(grown(heap, heapNow), heapSlack);
#if !defined(__SANITIZE_ADDRESS__) // which keeps what was freed
    EXPECT_LE(grown(resident, residentNow), rssSlack);
#endif
}

void expectFlatOverOperations(const RuntimeOptions &options, const char *what) {
    const auto runtime = openCounted(options);
    ASSERT_TRUE(runtime);
    Random random = randomFor(what);
    const std::vector<OperationCase> list = operationConfigurations();
    const auto run = [&](OperationCase c) {
        c.fill(random);
        const RunResult result = runtime->run(c.operation(), c.operands());
        ASSERT_EQ(result.status, VKATTN_OK) << result.message << c.text();
        ASSERT_TRUE(judge(c, c).report.passed) << c.text();
        ledger.calls.clear();
    };
    expectFlat(
        *runtime, std::max(problemCount() / 2, 1ul), what,
        [&] {
            // Few rows have tiles of their own: one row, two, and more.
            for (const OperationCase &c : list)
                for (const uint32_t rows : {most, 1u, 2u, 8u}) run(withRows(c, rows));
        },
        [&] { run(withRows(list[random() % list.size()], between(random, 1, most))); });
}

} // namespace

TEST(Memory, isFlatOverManyProblems) {
    RuntimeOptions options;
    options.tuning = "vkattn-tuning 1\nflash maxDim=512 dimLanes=2 rowLanes=2 rowsPerLane=1 keysPerLane=1\n"
                     "decode maxDim=512 dimLanes=2 keyLanes=2 rowsPerLane=1 keysPerLane=1\n";
    const auto runtime = openCounted(options);
    ASSERT_TRUE(runtime);
    Random random = randomFor("memory");
    const std::vector<Case> list = configurations();
    const auto run = [&](const Case &c) {
        const auto instance = makeCaseData(c, random);
        ASSERT_EQ(runAndCheck(*runtime, *instance), "");
        ledger.calls.clear();
    };
    expectFlat(
        *runtime, problemCount(), "problems",
        [&] {
            for (const Case &c : list) run(c);
        },
        [&] { run(resized(list[random() % list.size()], random)); });
}

// Canaries lie in the gaps of every output and around it, and NaN wherever no row looks.
TEST(Memory, isFlatOverManyStatistics) {
    const auto runtime = openCounted({});
    ASSERT_TRUE(runtime);
    if (runtime->device()->caps.maxStorageBuffersPerStage < 14)
        GTEST_SKIP() << "the device has fewer than the 14 storage buffers a stage that statistics need";
    Random random = randomFor("memory of statistics");
    const std::vector<StatisticsConfiguration> list = statisticsConfigurations();
    const auto run = [&](const Case &c, const StatisticsOptions &options) {
        StatisticsCase s = drawStatistics(random, c, options);
        s.attention.sliceCount = c.slices;
        const StatisticsCase before = s;
        const RunResult result = runtime->run(s.operation(), s.operands());
        ASSERT_EQ(result.status, VKATTN_OK) << result.message << s.text();
        ASSERT_EQ(s.wrong(before), "") << s.text();
        ledger.calls.clear();
    };
    expectFlat(
        *runtime, std::max(problemCount() / 2, 1ul), "statistics of attention",
        [&] {
            // A row alone has a tile of its own.
            for (const StatisticsConfiguration &each : list)
                for (const uint32_t rows : {most, 1u}) {
                    Case c = each.c;
                    c.queryTokens = rows;
                    run(c, each.options);
                }
        },
        [&] {
            const StatisticsConfiguration &each = list[random() % list.size()];
            run(resized(each.c, random), each.options);
        });
}

TEST(Memory, isFlatOverManyOperations) {
    expectFlatOverOperations({}, "operations");
}

TEST(Memory, isFlatOverOperationsInTheFormsOfFourBuffers) {
    RuntimeOptions options;
    vkattn_caps weak{};
    weak.structSize = sizeof weak;
    ASSERT_EQ(vkattnMinimumCaps(&weak, nullptr), VKATTN_OK);
    options.capsLimit = weak; // and without push descriptors
    expectFlatOverOperations(options, "operations with four storage buffers");
}
