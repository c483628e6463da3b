#include "measure/gradient.hpp"

#include "measure/operands.hpp"
#include "report/csv.hpp"
#include "text.hpp"

#include <vkattn/list.hpp>

#include <algorithm>
#include <cstdio>

namespace vkattn::bench {
namespace {

constexpr GradientShape table[] = {
    {"train-d64", 8, 2048, 64, VKATTN_F32, false},
    {"train-d64-causal", 8, 2048, 64, VKATTN_F32, true},
    {"train-d128", 8, 2048, 128, VKATTN_F32, false},
    {"train-d64-f16", 8, 2048, 64, VKATTN_F16, false},
};
constexpr double dropoutProbability = 0.1;

struct Tensors {
    DeviceTensor q, k, v, out, lse, dOut, dQ, dK, dV;
    std::string why;

    Tensors(Runtime &runtime, const GradientShape &shape, uint64_t seed) {
        const vkattn_layout like = packed(shape.dtype, 1, shape.heads, shape.tokens, shape.dim);
        for (DeviceTensor *each : {&q, &k, &v, &dOut}) {
            *each = runtime.allocate(like, &why);
            if (!*each) return;
            std::vector<std::byte> values(size_t{shape.heads} * shape.tokens * shape.dim * sizeOf(shape.dtype));
            fillOperand(values.data(), values.size(), shape.dtype, seed++);
            if (each->upload(values.data(), values.size(), &why) != VKATTN_OK) return;
        }
        for (DeviceTensor *each : {&out, &dQ, &dK, &dV}) {
            *each = runtime.allocate(like, &why);
            if (!*each) return;
        }
        lse = runtime.allocate(packed(VKATTN_F32, 1, shape.heads, shape.tokens, 2), &why);
    }

    [[nodiscard]] AttentionOf attention(const GradientShape &shape, double dropout) const {
        AttentionOf a{q, k, v, out, lse};
        a.options = problem({}, {}, {}, {});
        a.options.flags |= VKATTN_ROW_STATISTICS | (shape.causal ? VKATTN_CAUSAL : 0);
        a.options.dropout = dropout;
        a.options.dropoutSeed = dropout != 0 ? 1 : 0;
        return a;
    }
};

struct Pass {
    PassTime time;
    OperationList list;
    std::vector<double> samples;
    double flops;
};

} // namespace

double GradientShape::forwardFlops() const {
    const double pairs = causal ? 0.5 * tokens * (tokens + 1.0) : 1.0 * tokens * tokens;
    return 4.0 * heads * pairs * dim;
}
std::string GradientShape::sizeText() const {
    return std::to_string(heads) + "x" + std::to_string(tokens) + "x" + std::to_string(dim);
}

std::span<const GradientShape> gradientTable() {
    return table;
}

std::vector<PassTime> measureGradient(Runtime &runtime, const GradientShape &shape, const MeasureOptions &options, std::string &failure) {
    const Tensors tensors(runtime, shape, options.seed);
    failure = tensors.why;
    if (!failure.empty()) return {};
    std::vector<Pass> passes;
    const auto add = [&](const std::string &name, const auto &described, double flops) {
        Pass pass{{.pass = name}, runtime.list(), {}, flops};
        pass.time.refused = pass.list.add(described, &pass.time.failure) == VKATTN_ERROR_UNSUPPORTED;
        passes.push_back(std::move(pass));
    };
    const double flops = shape.forwardFlops();
    // The forward pass is the last of a round: out and lse are its own when the backward passes read them.
    add("forward dropout", tensors.attention(shape, dropoutProbability), flops);
    add("forward", tensors.attention(shape, 0), flops);
    AttentionGradientOf gradient{tensors.attention(shape, 0), tensors.dOut};
    gradient.dQ = tensors.dQ;
    gradient.dK = tensors.dK;
    gradient.dV = tensors.dV;
    struct Choice {
        const char *name;
        vkattn_gradient_kernel kernel;
    };
    constexpr Choice ofDevices[] = {{"backward staged", VKATTN_GRADIENT_STAGED},
                                    {"backward tiles", VKATTN_GRADIENT_TILES},
                                    {"backward coopmat", VKATTN_GRADIENT_COOPMAT}};
    constexpr Choice ofCpu[] = {{"backward", VKATTN_GRADIENT_AUTO}};
    for (const Choice &each : runtime.device() ? std::span<const Choice>(ofDevices) : std::span<const Choice>(ofCpu)) {
        gradient.kernel = each.kernel;
        add(each.name, gradient, 2.5 * flops);
    }
    RunOptions run;
    run.cpuThreads = options.threads;
    // Round 0 compiles and is not counted.
    for (uint32_t round = 0; round <= options.repeat; ++round)
        for (Pass &pass : passes) {
            if (!pass.time.failure.empty()) continue;
            const RunResult result = pass.list.run(run);
            if (result.status != VKATTN_OK)
                pass.time.failure = result.message;
            else if (round > 0)
                pass.samples.push_back(result.milliseconds);
        }
    std::vector<PassTime> times;
    for (Pass &pass : passes) {
        PassTime &time = pass.time;
        if (time.failure.empty() && options.verify.value_or(false))
            (void)verifyStep(pass.list, 64, options.seed, options.threads, time.verified, time.failure);
        if (time.failure.empty()) {
            time.medianMs = medianOf(pass.samples);
            time.minMs = *std::min_element(pass.samples.begin(), pass.samples.end());
            time.gflops = pass.flops / time.medianMs * 1e-6;
        }
        times.push_back(std::move(time));
    }
    std::swap(times[0], times[1]);
    for (PassTime &time : times)
        if (times[0].medianMs > 0) time.ratio = time.medianMs / times[0].medianMs;
    return times;
}

void printGradientHeading(const Machine &machine) {
    std::printf("device  %s (%s)\n\n%-18s %-14s %-5s %-17s %10s %10s %9s  %s\n", machine.device.c_str(), machine.driver.c_str(), "shape",
                "heads x n x d", "type", "pass", "median ms", "min ms", "GFLOP/s", "over forward");
    std::fflush(stdout);
}

void printPass(const GradientShape &shape, const PassTime &time) {
    std::printf("%-18s %-14s %-5s %-17s ", shape.name, shape.sizeText().c_str(), nameOf(shape.dtype), time.pass.c_str());
    if (!time.failure.empty())
        std::printf("none: %s\n", time.failure.c_str());
    else
        std::printf("%10.2f %10.2f %9.1f  %.2f\n", time.medianMs, time.minMs, time.gflops, time.ratio);
    std::fflush(stdout);
}

std::string gradientCsvHeader() {
    return csvLine({"date", "commit", "processor", "cores", "device", "driver", "shape", "heads", "tokens", "head_dim", "dtype", "causal",
                    "pass", "repeats", "median_ms", "min_ms", "gflops", "over_forward", "verified_error"});
}

std::string gradientCsvRow(const Machine &machine, const GradientShape &shape, uint32_t repeats, const PassTime &time) {
    return csvLine({machine.date, machine.commit, machine.processor, std::to_string(machine.cores), machine.device, machine.driver,
                    shape.name, std::to_string(shape.heads), std::to_string(shape.tokens), std::to_string(shape.dim), nameOf(shape.dtype),
                    shape.causal ? "1" : "0", time.pass, std::to_string(repeats), decimals(time.medianMs, 3), decimals(time.minMs, 3),
                    decimals(time.gflops, 2), decimals(time.ratio, 3), shortNumber(time.verified.worstError)});
}

} // namespace vkattn::bench
