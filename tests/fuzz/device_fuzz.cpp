// Structure-aware: descriptions that mostly pass the validator. A description that passes runs on
// the device, under whole and cut limits. Its outputs equal the oracle within the bounds of
// docs/numerics.md, on the CPU's fast kernels too, are bitwise the same in a second run, and every
// other byte is left alone. A description that does not pass says why. With VKATTN_FUZZ_VALIDATION
// set the validation layer looks on and must have nothing to say.
#include "conform/checks/check.hpp"
#include "fuzz/shared/description.hpp"
#include "fuzz/shared/fuzz.hpp"

#include <algorithm>
#include <array>

using namespace vkattn;
using namespace vkattn::test;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

std::string messages; // of the validation layer

[[noreturn]] void broken(const Description &d, const char *what, const std::string &more) {
    std::fprintf(stderr, "broken: %s: %s\n%s", what, more.c_str(), d.text().c_str());
    std::abort();
}

struct Limits {
    const char *flash, *decode; // tiles so small that their pipelines compile fast
    conform::Limits limits;
};
constexpr Limits limits[] = {{"rowLanes=8 keysPerLane=2", "keyLanes=8", conform::Limits::full},
                             {"dimLanes=2 rowLanes=4", "dimLanes=2 keyLanes=4", conform::Limits::tiny},
                             {"rowLanes=8 source=1 tileKeys=8 rolledEdges=1", "keyLanes=8", conform::Limits::tight}};

std::unique_ptr<Runtime> open(const Limits &chosen, const vkattn_caps &ofDevice) {
    RuntimeOptions options;
    options.validation = std::getenv("VKATTN_FUZZ_VALIDATION") != nullptr;
    options.log = [](const char *message) { messages += std::string(message) + "\n"; };
    options = conform::optionsFor(options, conform::testLayouts()[0], chosen.limits, ofDevice);
    options.tuning = std::string("vkattn-tuning 1\nflash maxDim=512 ") + chosen.flash + "\ndecode maxDim=512 " + chosen.decode + "\n";
    std::string message;
    std::unique_ptr<Runtime> runtime = Runtime::open(options, nullptr, &message);
    if (!runtime) {
        std::fprintf(stderr, "no device to run on: %s\n", message.c_str());
        std::exit(1);
    }
    return runtime;
}

// A device is opened anew before what its pipelines hold fills the memory.
Runtime &runtimeFor(uint8_t gene) {
    constexpr uint32_t mostPipelines = 600;
    // Never destroyed: at exit the layer is gone before them.
    static auto &runtimes = *new std::array<std::unique_ptr<Runtime>, std::size(limits)>;
    const size_t n = gene % std::size(limits);
    if (!runtimes[0]) runtimes[0] = open(limits[0], {});
    if (!runtimes[n] || runtimes[n]->compileStatistics().pipelines > mostPipelines)
        runtimes[n] = open(limits[n], runtimes[0]->device()->caps);
    return *runtimes[n];
}

void verify(const Description &d, const char *who, float probabilityUnit, float probabilityFloor) {
    vkattn_verify_options options{};
    options.structSize = sizeof options;
    options.allRows = options.threads = 1;
    options.probabilityUnit = probabilityUnit;
    options.probabilityFloor = probabilityFloor;
    vkattn_verify_report report{};
    vkattn_diagnostic why{};
    const auto count = static_cast<uint32_t>(d.operands().size());
    if (vkattnCpuVerify(&d.problem, d.operands().data(), count, &options, &report, &why)) broken(d, "vkattnCpuVerify", why.message);
    if (!report.passed) {
        char text[256];
        std::snprintf(text, sizeof text, "role %d at [%u, %u, %u, %u]: got %.9g, expected %.9g, bound %.3g",
                      static_cast<int>(report.worstRole), report.worstIndex[0], report.worstIndex[1], report.worstIndex[2],
                      report.worstIndex[3], report.worstGot, report.worstExpected, report.worstBound);
        broken(d, who, text);
    }
    if (const std::string damage = d.damage(); !damage.empty()) broken(d, who, damage);
}

void checkOnCpu(Description &d) {
    vkattn_diagnostic why{};
    if (vkattnCpuRun(&d.problem, d.operands().data(), static_cast<uint32_t>(d.operands().size()), 1, &why))
        broken(d, "vkattnCpuRun", why.message);
    verify(d, "the CPU", 0, 0);
    d.restoreOutputs();
}

void checkOnDevice(Description &d) {
    Runtime &runtime = runtimeFor(d.genes.room);
    messages.clear();
    const RunResult result = runtime.run(d.problem, d.operands());
    if (!messages.empty()) broken(d, "the validation layer", messages);
    if (result.status == VKATTN_ERROR_UNSUPPORTED && !result.message.empty()) return;
    if (result.status != VKATTN_OK) broken(d, "Runtime::run", std::to_string(result.status) + ": " + result.message);
    verify(d, result.kernel.c_str(), result.probabilityUnit, result.probabilityFloor);
    const auto first = d.outputs();
    d.restoreOutputs();
    if (const RunResult again = runtime.run(d.problem, d.operands()); again.status != VKATTN_OK) broken(d, "a second run", again.message);
    if (d.outputs() != first) broken(d, result.kernel.c_str(), "a second run gives other bits");
}

} // namespace

// The driver's compiler allocates a lot: the caller is looked up only where the allocation may be
// ours.
extern "C" const char *__asan_default_options() {
    return "malloc_context_size=4:quarantine_size_mb=32";
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Description d(data, size);
    vkattn_diagnostic why{};
    if (const vkattn_result r = vkattnValidateProblem(&d.problem, &why)) {
        require(r == VKATTN_ERROR_INVALID_ARGUMENT && why.message[0] != '\0' && terminated(why.message));
        return 0;
    }
    if (!d.small()) return 0;
    d.allocate();
    checkOnCpu(d);
    checkOnDevice(d);
    return 0;
}

// Libfuzzer's own mutations move bytes: here each has its place.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
    if (seed % 4 == 0) return LLVMFuzzerMutate(data, size, maxSize);
    const size_t whole = std::min(maxSize, sizeof(Genes) + 16);
    if (size < whole) std::memset(data + size, 0, whole - size);
    size = std::max(size, whole);
    for (uint32_t count = 1 + (seed >> 2) % 3; count > 0; --count) {
        seed = seed * 1664525u + 1013904223u;
        const size_t at = (seed >> 8) % size;
        seed = seed * 1664525u + 1013904223u;
        data[at] =
            seed >> 12 & 3 ? static_cast<uint8_t>(seed >> 16) : static_cast<uint8_t>(seed >> 28 ? data[at] ^ 1u << (seed >> 16 & 7) : 0);
    }
    return size;
}

// Takes each byte from either parent.
extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t sizeA, const uint8_t *b, size_t sizeB, uint8_t *out, size_t maxSize,
                                            unsigned seed) {
    const size_t size = std::min(std::max(sizeA, sizeB), maxSize);
    for (size_t n = 0; n < size; ++n) {
        seed = seed * 1664525u + 1013904223u;
        const bool first = n >= sizeB || (n < sizeA && seed >> 31);
        out[n] = first ? a[n] : b[n];
    }
    return size;
}
