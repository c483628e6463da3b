#include "measure/projection.hpp"

#include "measure/passes.hpp"
#include "report/csv.hpp"
#include "shapes/operands.hpp"
#include "text.hpp"

#include <vkattn/list.hpp>
#include <vkattn/operations.hpp>

#include <algorithm>
#include <cstdio>

namespace vkattn::bench {
namespace {

// Those of the issue that asked for them, and a token of a large model.
constexpr ProductShape table[] = {
    {"square-small-f32", 512, 512, 1024, VKATTN_F32, VKATTN_F32}, {"square-small-f16w", 512, 512, 1024, VKATTN_F32, VKATTN_F16},
    {"square-small-f16", 512, 512, 1024, VKATTN_F16, VKATTN_F16}, {"prompt-f32", 4096, 1024, 1024, VKATTN_F32, VKATTN_F32},
    {"prompt-f16w", 4096, 1024, 1024, VKATTN_F32, VKATTN_F16},    {"prompt-f16", 4096, 1024, 1024, VKATTN_F16, VKATTN_F16},
    {"token-f32", 1, 4096, 4096, VKATTN_F32, VKATTN_F32},         {"token-f16w", 1, 4096, 4096, VKATTN_F32, VKATTN_F16},
};

} // namespace

uint64_t ProductShape::bytes() const {
    return (uint64_t{rows} * in + uint64_t{rows} * out) * sizeOf(x) + uint64_t{out} * in * sizeOf(w);
}
std::string ProductShape::sizeText() const {
    return std::to_string(rows) + "x" + std::to_string(out) + "x" + std::to_string(in);
}
std::string ProductShape::typesText() const {
    return x == w ? nameOf(x) : std::string(nameOf(x)) + " by " + nameOf(w);
}

std::span<const ProductShape> productTable() {
    return table;
}

ProductTime measureProduct(Runtime &runtime, Peaks *peaks, const ProductShape &shape, const MeasureOptions &options) {
    ProductTime time{.shape = shape};
    std::string &why = time.failure;
    ProjectionOf projection{};
    if (!makeInput(runtime, matrix(shape.x, shape.rows, shape.in), options.seed, projection.x, why) ||
        !makeInput(runtime, matrix(shape.w, shape.out, shape.in), options.seed + 1, projection.w, why))
        return time;
    projection.y = runtime.allocate(matrix(shape.x, shape.rows, shape.out), &why);
    if (!projection.y) return time;
    OperationList list = runtime.list();
    if (list.add(projection, &why) != VKATTN_OK) return time;
    if (options.verify.value_or(true) &&
        !verifySteps(list, options.verify.value_or(false) ? 0 : 64, options.seed, options.threads, time.verified, why))
        return time;
    RunOptions run;
    run.repeat = options.repeat;
    run.warmUp = options.warmUp > 0;
    run.cpuThreads = options.threads;
    const RunResult result = list.run(run);
    if (result.status != VKATTN_OK) {
        why = result.message;
        return time;
    }
    time.kernel = result.kernel;
    time.repeats = static_cast<uint32_t>(result.samplesMilliseconds.size());
    time.medianMs = result.milliseconds;
    time.minMs = *std::min_element(result.samplesMilliseconds.begin(), result.samplesMilliseconds.end());
    if (peaks && time.medianMs > 0) time.share = peaks->share(shape.flops(), shape.bytes(), time.medianMs);
    return time;
}

void printProductHeading(const Machine &machine) {
    std::printf("device  %s (%s)\n\n%-20s %-16s %-12s %10s %10s %9s  %s\n", machine.device.c_str(), machine.driver.c_str(), "product",
                "rows x out x in", "types", "median ms", "min ms", "GFLOP/s", "of the peak");
    std::fflush(stdout);
}

void printProduct(const ProductTime &time) {
    const ProductShape &shape = time.shape;
    std::printf("%-20s %-16s %-12s ", shape.name, shape.sizeText().c_str(), shape.typesText().c_str());
    if (!time.failure.empty())
        std::printf("failed: %s\n", time.failure.c_str());
    else
        std::printf("%10.3f %10.3f %9.1f  %s\n", time.medianMs, time.minMs, time.gflops(),
                    time.share ? (decimals(100 * time.share->share, 0) + "% of " + (time.share->byMemory ? "memory" : "arithmetic")).c_str()
                               : "-");
    std::fflush(stdout);
}

std::string productCsvHeader() {
    return csvLine({"date", "commit", "processor", "cores", "device", "driver", "product", "rows", "out", "in", "x", "w", "repeats",
                    "median_ms", "min_ms", "gflops", "share_of_peak", "bound", "verified_error"});
}

std::string productCsvRow(const Machine &machine, const ProductTime &time) {
    const ProductShape &s = time.shape;
    return csvLine({machine.date, machine.commit, machine.processor, std::to_string(machine.cores), machine.device, machine.driver, s.name,
                    std::to_string(s.rows), std::to_string(s.out), std::to_string(s.in), nameOf(s.x), nameOf(s.w),
                    std::to_string(time.repeats), decimals(time.medianMs, 4), decimals(time.minMs, 4), decimals(time.gflops(), 2),
                    time.share ? decimals(time.share->share, 3) : "", time.share ? time.share->byMemory ? "memory" : "arithmetic" : "",
                    shortNumber(time.verified.worstError)});
}

} // namespace vkattn::bench
