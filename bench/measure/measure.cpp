#include "measure/measure.hpp"

#include "failure.hpp"
#include "shapes/operands.hpp"
#include "text.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn::bench {
namespace {

// The oracle computes about 1 GFLOP/s a thread. Larger shapes are checked at the edges and at rows
// drawn at random.
vkattn_verify_options verifyOptions(const Shape &shape, const MeasureOptions &options) {
    constexpr double allRowsBelow = 2.5e8;
    vkattn_verify_options verify{};
    verify.structSize = sizeof verify;
    verify.rows = options.verify || shape.flops() < allRowsBelow ? 0 : 64;
    verify.seed = options.seed;
    verify.threads = options.threads;
    return verify;
}

std::string checkText(const vkattn_verify_report &report) {
    return "verification failed: error " + shortNumber(report.worstError) + " where " + decimals(report.worstBound, 9) +
           " is allowed, at batch " + std::to_string(report.worstIndex[0]) + ", head " + std::to_string(report.worstIndex[1]) + ", query " +
           std::to_string(report.worstIndex[2]) + ", dim " + std::to_string(report.worstIndex[3]);
}

// Computes the shape. Where that does not work, `m.failure` says why.
bool run(Runtime &runtime, const vkattn_problem &problem, const Operands &operands, uint32_t runs, const MeasureOptions &options,
         Measurement &m, RunResult &result) {
    RunOptions runOptions;
    runOptions.repeat = runs;
    runOptions.cpuThreads = options.threads;
    result = runtime.run(problem, operands.list(), runOptions);
    if (result.status != VKATTN_OK) {
        m.failure = result.message;
        return false;
    }
    m.device = result.device;
    m.driver = result.driver;
    m.kernel = result.kernel;
    if (const vkattn_cpu_plan &plan = result.cpuPlan; plan.structSize != 0)
        m.driver += std::string(", ") + plan.target + ", " + plan.kernel + " " + std::to_string(plan.rowsPerTile) + "x" +
                    std::to_string(plan.keysPerTile) + ", " + std::to_string(plan.threads) + (plan.threads == 1 ? " thread" : " threads");
    m.deviceTimestamps = result.deviceTimestamps;
    m.workspaceBytes = result.workspaceBytes;
    // A row must not have the name of a kernel that has not computed it.
    if (runtime.device() && problem.kernel != VKATTN_KERNEL_AUTO && m.kernel != m.askedKernel) {
        m.failure = "the " + m.askedKernel + " kernel was asked for and " + m.kernel + " has computed";
        return false;
    }
    return true;
}

} // namespace

double medianOf(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t middle = values.size() / 2;
    return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Kernel kernelNamed(const std::string &name) {
    for (const Kernel &kernel : kernelTable())
        if (name == kernel.name) return kernel;
    std::vector<std::string> names;
    for (const Kernel &kernel : kernelTable()) names.emplace_back(kernel.name);
    throw Failure("--kernel: there is no kernel '" + name + "', expected " + join(names, ", ") + ", or several with commas");
}

std::span<const Kernel> kernelTable() {
    static const std::vector<Kernel> table = [] {
        std::vector<Kernel> all = {{vkattnKernelName(VKATTN_KERNEL_AUTO), VKATTN_KERNEL_AUTO}};
        for (const vkattn_kernel kernel : KernelList()) all.push_back({vkattnKernelName(kernel), kernel});
        return all;
    }();
    return table;
}

Measurement measure(Runtime &runtime, Peaks *peaks, const Shape &shape, const Kernel &kernel, const MeasureOptions &options) {
    Measurement m{.shape = shape, .askedKernel = kernel.name};
    const vkattn_problem problem = shape.problem(kernel.kernel);
    const Operands operands(shape, options.seed);
    const double compiledBefore = runtime.compileStatistics().seconds;

    // The first run compiles, gives the result that the oracle checks, and says how long the other
    // runs will take.
    RunResult result;
    if (!run(runtime, problem, operands, 1, options, m, result)) return m;
    m.compileSeconds = runtime.compileStatistics().seconds - compiledBefore;
    if (options.verify.value_or(true)) {
        vkattn_verify_options verify = verifyOptions(shape, options);
        verify.probabilityUnit = result.probabilityUnit;
        verify.probabilityFloor = result.probabilityFloor;
        vkattn_verify_report report{};
        vkattn_diagnostic why{};
        const auto count = static_cast<uint32_t>(operands.list().size());
        if (vkattnCpuVerify(&problem, operands.list().data(), count, &verify, &report, &why) != VKATTN_OK)
            throw Failure(std::string("cannot verify shape ") + shape.name + ": " + why.message);
        m.verified = report;
        if (!report.passed) {
            m.failure = checkText(report);
            return m;
        }
    }

    constexpr uint32_t fewest = 3; // the median of fewer repeats says little
    const double affordable = options.budgetSeconds * 1e3 / std::max(result.milliseconds, 1e-6) - options.warmUp;
    m.repeats = options.repeat;
    if (affordable < m.repeats) m.repeats = std::min(m.repeats, std::max(fewest, static_cast<uint32_t>(std::max(affordable, 0.0))));
    if (!run(runtime, problem, operands, options.warmUp + m.repeats, options, m, result)) return m;
    const std::vector<double> samples(result.samplesMilliseconds.begin() + options.warmUp, result.samplesMilliseconds.end());
    m.medianMs = medianOf(samples);
    m.minMs = *std::min_element(samples.begin(), samples.end());
    if (!(m.medianMs > 0)) {
        // The device does nothing, or its clock is coarser than the work.
        m.failure = "the device's clock shows no time: repeat with a larger shape";
        return m;
    }
    if (peaks) m.share = peaks->share(shape.flops(), shape.bytes(), m.medianMs);
    return m;
}

} // namespace vkattn::bench
