#include "measure/projection.hpp"

#include "report/csv.hpp"
#include "shapes/operands.hpp"
#include "text.hpp"

#include <vkattn/cpu.h>
#include <vkattn/list.hpp>
#include <vkattn/operations.hpp>

#include <algorithm>
#include <cstdio>
#include <random>

namespace vkattn::bench {
namespace {

// Those of the issue that asked for them, and a token of a large model.
constexpr ProductShape table[] = {
    {"square-small-f32", 512, 512, 1024, VKATTN_F32, VKATTN_F32}, {"square-small-f16w", 512, 512, 1024, VKATTN_F32, VKATTN_F16},
    {"square-small-f16", 512, 512, 1024, VKATTN_F16, VKATTN_F16}, {"prompt-f32", 4096, 1024, 1024, VKATTN_F32, VKATTN_F32},
    {"prompt-f16w", 4096, 1024, 1024, VKATTN_F32, VKATTN_F16},    {"prompt-f16", 4096, 1024, 1024, VKATTN_F16, VKATTN_F16},
    {"token-f32", 1, 4096, 4096, VKATTN_F32, VKATTN_F32},         {"token-f16w", 1, 4096, 4096, VKATTN_F32, VKATTN_F16},
};

// Evenly from -1.73 to 1.73, as the operands of attention.
DeviceTensor drawn(Runtime &runtime, const vkattn_layout &layout, std::mt19937_64 &random, std::string &why) {
    std::uniform_real_distribution<float> even(-1.73f, 1.73f);
    const size_t count = size_t{layout.extent[2]} * layout.extent[3];
    std::vector<float> values(count);
    for (float &each : values) each = even(random);
    const DeviceTensor tensor = runtime.allocate(layout, &why);
    if (!tensor) return {};
    std::vector<uint16_t> narrow(layout.dtype == VKATTN_F32 ? 0 : count);
    if (!narrow.empty()) (void)vkattnConvert(VKATTN_F32, values.data(), layout.dtype, narrow.data(), count, nullptr);
    const void *const data = narrow.empty() ? static_cast<const void *>(values.data()) : narrow.data();
    return tensor.upload(data, count * sizeOf(layout.dtype), &why) == VKATTN_OK ? tensor : DeviceTensor{};
}

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
    std::mt19937_64 random(options.seed);
    std::string &why = time.failure;
    ProjectionOf projection{};
    projection.x = drawn(runtime, matrix(shape.x, shape.rows, shape.in), random, why);
    projection.w = drawn(runtime, matrix(shape.w, shape.out, shape.in), random, why);
    projection.y = runtime.allocate(matrix(shape.x, shape.rows, shape.out), &why);
    if (!projection.x || !projection.w || !projection.y) return time;
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
