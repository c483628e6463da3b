#include "measure/passes.hpp"

#include "report/csv.hpp"
#include "shapes/operands.hpp"
#include "text.hpp"

#include <algorithm>
#include <cstdio>

namespace vkattn::bench {

double PassShape::forwardFlops() const {
    const double pairs = causal ? 0.5 * tokens * (tokens + 1.0) : 1.0 * tokens * tokens;
    return 4.0 * heads * pairs * dim;
}
std::string PassShape::sizeText() const {
    return std::to_string(heads) + "x" + std::to_string(tokens) + "x" + std::to_string(dim);
}

bool makeInput(Runtime &runtime, const vkattn_layout &layout, uint64_t seed, DeviceTensor &tensor, std::string &why) {
    tensor = runtime.allocate(layout, &why);
    if (!tensor) return false;
    uint64_t bytes = sizeOf(layout.dtype);
    for (const uint32_t extent : layout.extent) bytes *= extent;
    std::vector<std::byte> values(bytes);
    fillOperand(values.data(), values.size(), layout.dtype, seed);
    return tensor.upload(values.data(), values.size(), &why) == VKATTN_OK;
}
bool makeInputs(Runtime &runtime, const PassShape &shape, uint64_t seed, std::initializer_list<DeviceTensor *> tensors, std::string &why) {
    for (DeviceTensor *each : tensors)
        if (!makeInput(runtime, shape.layout(), seed++, *each, why)) return false;
    return true;
}

std::vector<PassTime> Passes::measure(const MeasureOptions &options, size_t forward) {
    RunOptions run;
    run.cpuThreads = options.threads;
    // Round 0 compiles and is not counted.
    for (uint32_t round = 0; round <= options.repeat; ++round)
        for (Pass &pass : passes_) {
            if (!pass.time.failure.empty()) continue;
            const RunResult result = pass.list.run(run);
            if (result.status != VKATTN_OK)
                pass.time.failure = result.message;
            else if (round > 0)
                pass.samples.push_back(result.milliseconds);
        }
    std::vector<PassTime> times;
    for (Pass &pass : passes_) {
        PassTime &time = pass.time;
        if (time.failure.empty() && options.verify.value_or(false))
            (void)verifySteps(pass.list, 64, options.seed, options.threads, time.verified, time.failure);
        if (time.failure.empty()) {
            time.medianMs = medianOf(pass.samples);
            time.minMs = *std::min_element(pass.samples.begin(), pass.samples.end());
            time.gflops = pass.flops / time.medianMs * 1e-6;
        }
        times.push_back(std::move(time));
    }
    for (PassTime &time : times)
        if (times[forward].medianMs > 0) time.ratio = time.medianMs / times[forward].medianMs;
    return times;
}

void printPassHeading(const Machine &machine) {
    std::printf("device  %s (%s)\n\n%-18s %-14s %-5s %-21s %10s %10s %9s  %s\n", machine.device.c_str(), machine.driver.c_str(), "shape",
                "heads x n x d", "type", "pass", "median ms", "min ms", "GFLOP/s", "over the first");
    std::fflush(stdout);
}

void printPass(const PassShape &shape, const PassTime &time) {
    std::printf("%-18s %-14s %-5s %-21s ", shape.name, shape.sizeText().c_str(), nameOf(shape.dtype), time.pass.c_str());
    if (!time.failure.empty())
        std::printf("none: %s\n", time.failure.c_str());
    else
        std::printf("%10.2f %10.2f %9.1f  %.2f\n", time.medianMs, time.minMs, time.gflops, time.ratio);
    std::fflush(stdout);
}

std::string passCsvHeader() {
    return csvLine({"date", "commit", "processor", "cores", "device", "driver", "shape", "heads", "tokens", "head_dim", "dtype", "causal",
                    "pass", "repeats", "median_ms", "min_ms", "gflops", "over_forward", "verified_error"});
}

std::string passCsvRow(const Machine &machine, const PassShape &shape, uint32_t repeats, const PassTime &time) {
    return csvLine({machine.date, machine.commit, machine.processor, std::to_string(machine.cores), machine.device, machine.driver,
                    shape.name, std::to_string(shape.heads), std::to_string(shape.tokens), std::to_string(shape.dim), nameOf(shape.dtype),
                    shape.causal ? "1" : "0", time.pass, std::to_string(repeats), decimals(time.medianMs, 3), decimals(time.minMs, 3),
                    decimals(time.gflops, 2), decimals(time.ratio, 3), shortNumber(time.verified.worstError)});
}

} // namespace vkattn::bench
