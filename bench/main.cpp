// vkattn-bench: times named attention shapes on one device, beside what that device could do at
// best. Results go to stdout, messages to stderr.
#include "arguments.hpp"
#include "compile/operations.hpp"
#include "compile/report.hpp"
#include "compile/times.hpp"
#include "failure.hpp"
#include "machine/bandwidth.hpp"
#include "measure/cache_start.hpp"
#include "measure/cascade.hpp"
#include "measure/gradient.hpp"
#include "measure/linear.hpp"
#include "measure/projection.hpp"
#include "measure/record_cost.hpp"
#include "measure/statistics.hpp"
#include "report/linear_report.hpp"
#include "report/output_file.hpp"
#include "report/report.hpp"

#include <algorithm>
#include <cstdio>
#include <new>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace {

using namespace vkattn;
using namespace vkattn::bench;

// Shows which shape is being measured, on a terminal only.
void showProgress(const std::string &text) {
#if defined(__unix__) || defined(__APPLE__)
    if (isatty(STDERR_FILENO)) std::fprintf(stderr, "\r\033[K%s", text.c_str());
#else
    static_cast<void>(text);
#endif
}

std::unique_ptr<Runtime> openRuntime(const Arguments &arguments) {
    RuntimeOptions options;
    options.device = arguments.device;
    options.tuning = arguments.tuning;
    options.allowFallback = false; // the CPU's time under a GPU's name would be a lie
    OpenStatus status = OpenStatus::ok;
    std::string message;
    std::unique_ptr<Runtime> runtime = Runtime::open(options, &status, &message);
    if (status == OpenStatus::unknownDevice) throw Failure("--device: " + message);
    if (!runtime) throw Failure("no usable Vulkan device: " + message + ": --device cpu measures the CPU", ExitStatus::noDevice);
    return runtime;
}

std::optional<Peaks> openPeaks(const Arguments &arguments, const Runtime &runtime) {
    if (!arguments.measure.peaks) return {};
    std::string why;
    std::unique_ptr<PeakMeter> meter = runtime.device() ? vulkanPeakMeter(*runtime.device(), why) : cpuPeakMeter(arguments.measure.threads);
    if (!meter) {
        std::fprintf(stderr, "vkattn-bench: note: the peaks cannot be measured: %s\n", why.c_str());
        return {};
    }
    return Peaks(std::move(meter));
}

// A shape that fails says nothing about the next one.
Measurement measureOrSayWhy(Runtime &runtime, Peaks *peaks, const Shape &shape, const Kernel &kernel, const MeasureOptions &options) {
    Measurement failed{.shape = shape, .askedKernel = kernel.name};
    try {
        return measure(runtime, peaks, shape, kernel, options);
    } catch (const Failure &failure) {
        failed.failure = failure.what();
    } catch (const std::bad_alloc &) {
        failed.failure = "out of memory: choose a smaller shape";
    }
    return failed;
}

Machine machineWith(const Arguments &arguments, const DeviceInfo *device) {
    Machine machine = thisMachine();
    machine.device = device ? device->name : "cpu";
    machine.driver = device ? device->driver : "vkattn cpu fallback";
    machine.tuning = arguments.tuningFile.empty() ? "built-in" : arguments.tuningFile;
    return machine;
}

RecordCost costOrWhyNot(RecordMeter &meter, const Shape &shape, const Kernel &kernel, const std::string &tuning) {
    RecordCost failed{.shape = shape};
    try {
        return meter.measure(shape, kernel, tuning);
    } catch (const std::exception &error) {
        failed.failure = error.what();
    }
    return failed;
}

ExitStatus benchRecording(const Arguments &arguments) {
    std::optional<CsvFile> csv;
    if (!arguments.csv.empty()) csv.emplace(arguments.csv, recordCsvHeader());
    const std::unique_ptr<Runtime> runtime = openRuntime(arguments);
    if (!runtime->device()) throw Failure("--record measures Vulkan command buffers, and --device cpu has none: choose another device");
    const Machine machine = machineWith(arguments, runtime->device());
    RecordMeter meter(*runtime->device());
    printRecordHeading(machine);
    ExitStatus status = ExitStatus::success;
    for (const Shape &shape : arguments.shapes)
        for (const Kernel &kernel : arguments.kernels) {
            const RecordCost cost = costOrWhyNot(meter, shape, kernel, arguments.tuning);
            printRecordRow(cost);
            if (!cost.failure.empty())
                status = ExitStatus::failed;
            else if (csv)
                csv->append(recordCsvRow(machine, cost));
        }
    return status;
}

ExitStatus benchCache(const Arguments &arguments) {
    std::optional<CsvFile> csv;
    if (!arguments.csv.empty()) csv.emplace(arguments.csv, cacheCsvHeader());
    DeviceInfo device;
    {
        const std::unique_ptr<Runtime> runtime = openRuntime(arguments);
        if (!runtime->device()) throw Failure("--cache measures Vulkan pipelines, and --device cpu has none: choose another device");
        device = *runtime->device();
    }
    const Machine machine = machineWith(arguments, &device);
    const CacheStart start = measureCacheStart(device, arguments.shapes, arguments.kernels, arguments.tuning);
    printCacheStart(machine, start);
    if (!start.rejected.empty()) return ExitStatus::failed;
    if (csv) csv->append(cacheCsvRow(machine, start));
    return ExitStatus::success;
}

ExitStatus benchCeilings(const Arguments &arguments) {
    std::optional<CsvFile> csv;
    if (!arguments.csv.empty()) csv.emplace(arguments.csv, ceilingCsvHeader());
    const std::unique_ptr<Runtime> runtime = openRuntime(arguments);
    if (!runtime->device()) throw Failure("--ceilings are of a Vulkan device: choose another than cpu");
    const Machine machine = machineWith(arguments, runtime->device());
    const std::vector<Ceiling> ceilings = measureCeilings(*runtime->device());
    printCeilings(machine, ceilings);
    for (const Ceiling &ceiling : ceilings)
        if (csv) csv->append(ceilingCsvRow(machine, ceiling));
    return ExitStatus::success;
}

ExitStatus benchProducts(const Arguments &arguments) {
    std::optional<CsvFile> csv;
    if (!arguments.csv.empty()) csv.emplace(arguments.csv, productCsvHeader());
    const std::unique_ptr<Runtime> runtime = openRuntime(arguments);
    std::optional<Peaks> peaks = openPeaks(arguments, *runtime);
    const Machine machine = machineWith(arguments, runtime->device());
    printProductHeading(machine);
    ExitStatus status = ExitStatus::success;
    for (const ProductShape &shape : productTable()) {
        const ProductTime time = measureProduct(*runtime, peaks ? &*peaks : nullptr, shape, arguments.measure);
        printProduct(time);
        if (!time.failure.empty())
            status = ExitStatus::failed;
        else if (csv)
            csv->append(productCsvRow(machine, time));
    }
    return status;
}

ExitStatus benchPasses(const Arguments &arguments, const PassTable &table) {
    std::optional<CsvFile> csv;
    if (!arguments.csv.empty()) csv.emplace(arguments.csv, passCsvHeader());
    const std::unique_ptr<Runtime> runtime = openRuntime(arguments);
    const Machine machine = machineWith(arguments, runtime->device());
    printPassHeading(machine);
    ExitStatus status = ExitStatus::success;
    for (const PassShape &shape : table.shapes) {
        std::string failure;
        const std::vector<PassTime> times = table.measure(*runtime, shape, arguments.measure, failure);
        if (times.empty()) {
            std::fprintf(stderr, "vkattn-bench: %s: %s\n", shape.name, failure.c_str());
            status = ExitStatus::failed;
        }
        for (const PassTime &time : times) {
            printPass(shape, time);
            // A kernel that a device does not take is no failure.
            if (!time.failure.empty())
                status = time.refused ? status : ExitStatus::failed;
            else if (csv)
                csv->append(passCsvRow(machine, shape, arguments.measure.repeat, time));
        }
    }
    return status;
}

ExitStatus benchLinear(const Arguments &arguments) {
    std::optional<CsvFile> csv;
    if (!arguments.csv.empty()) csv.emplace(arguments.csv, linearCsvHeader());
    const std::unique_ptr<Runtime> runtime = openRuntime(arguments);
    const Machine machine = machineWith(arguments, runtime->device());
    printLinearHeading(machine);
    LinearMeter meter(*runtime, arguments.measure);
    std::vector<LinearTime> all;
    ExitStatus status = ExitStatus::success;
    for (const LinearShape &shape : arguments.linear) {
        showProgress("measuring " + shape.name + " ...");
        const std::vector<LinearTime> times = meter.measure(shape);
        showProgress("");
        printLinear(times);
        for (const LinearTime &time : times) {
            if (!time.failure.empty())
                status = time.leftOut ? status : ExitStatus::failed;
            else if (csv)
                csv->append(linearCsvRow(machine, time));
            all.push_back(time);
        }
    }
    if (!arguments.sweep) return status;
    const std::vector<LinearSeries> series = linearSeries(all);
    printLinearSweep(series);
    if (!arguments.plot.empty()) writeWhole("--plot", arguments.plot, program::svgText(linearChart(machine, series)));
    return status;
}

ExitStatus benchCompiler(const Arguments &arguments) {
    std::optional<CsvFile> csv;
    if (!arguments.csv.empty()) csv.emplace(arguments.csv, compileCsvHeader());
    DeviceInfo device;
    {
        const std::unique_ptr<Runtime> runtime = openRuntime(arguments);
        if (!runtime->device())
            throw Failure("--compile-report is about Vulkan pipelines, and --device cpu has none: choose another device");
        device = *runtime->device();
    }
    const Machine machine = machineWith(arguments, &device);
    const CompileReport report = compileReport(device, arguments.kernels, arguments.operations, arguments.tuning, showProgress);
    showProgress("");
    printCompileReport(machine, report, arguments.rawStatistics);
    const std::vector<CompileRow> rows = report.rows();
    for (const CompileRow &row : rows)
        if (csv) csv->append(compileCsvRow(machine, row));
    if (!arguments.representations.empty()) writeRepresentations(report, arguments.representations);
    bool worse = false;
    if (!arguments.compileTable.empty()) {
        std::vector<std::string> kernels;
        for (const Kernel &kernel : arguments.kernels) kernels.emplace_back(kernel.name);
        if (arguments.operations)
            for (std::string &name : namesOfOperations()) kernels.push_back(std::move(name));
        const CompileComparison comparison = compareCompiled(arguments.expected, rows, kernels);
        printComparison(comparison, arguments.compileTable);
        worse = !comparison.failures.empty();
    }
    return report.failed() || worse ? ExitStatus::failed : ExitStatus::success;
}

ExitStatus benchCompileTimes(const Arguments &arguments) {
    std::optional<CsvFile> csv;
    if (!arguments.csv.empty()) csv.emplace(arguments.csv, compileTimesCsvHeader());
    leaveOutDriverCaches();
    DeviceInfo device;
    {
        const std::unique_ptr<Runtime> runtime = openRuntime(arguments);
        if (!runtime->device())
            throw Failure("--compile-times is about Vulkan pipelines, and --device cpu has none: choose another device");
        device = *runtime->device();
    }
    const Machine machine = machineWith(arguments, &device);
    printCompileTimesHeading(machine);
    std::vector<CompileTime> times;
    measureCompileTimes(device, {arguments.kernels, arguments.headDims, arguments.tuning, [&](const CompileTime &time) {
                                     printCompileTime(time);
                                     if (csv) csv->append(compileTimesCsvRow(machine, time));
                                     times.push_back(time);
                                 }});
    printCompileTimesEnd(times);
    return ExitStatus::success;
}

ExitStatus bench(const Arguments &arguments) {
    std::optional<CsvFile> csv;
    if (!arguments.csv.empty()) csv.emplace(arguments.csv, csvHeader());
    const std::unique_ptr<Runtime> runtime = openRuntime(arguments);
    const DeviceInfo *device = runtime->device();
    const Machine machine = machineWith(arguments, device);
    std::optional<Peaks> openedPeaks = openPeaks(arguments, *runtime);
    Peaks *peaks = openedPeaks ? &*openedPeaks : nullptr;
    std::vector<Kernel> kernels = arguments.kernels;
    if (!device) kernels = {kernelNamed("auto")}; // the CPU has one kernel

    printHeading(machine, device, arguments.measure.threads);
    std::vector<Measurement> measurements;
    for (const Shape &shape : arguments.shapes)
        for (const Kernel &kernel : kernels) {
            showProgress("measuring " + shape.name + ", " + kernel.name + " ...");
            measurements.push_back(measureOrSayWhy(*runtime, peaks, shape, kernel, arguments.measure));
            showProgress("");
            printRow(measurements.back());
            if (csv && measurements.back().failure.empty()) csv->append(csvRow(machine, measurements.back()));
        }
    printConventions(peaks);

    const std::vector<SweepSeries> series = arguments.sweep ? sweepSeries(measurements) : std::vector<SweepSeries>();
    if (arguments.sweep) printSweep(series);
    if (!arguments.compare.empty()) printComparison(measurements, arguments.compare);
    if (!arguments.json.empty()) writeWhole("--json", arguments.json, jsonReport(machine, peaks, measurements, series));
    if (!arguments.plot.empty() && !series.empty())
        writeWhole("--plot", arguments.plot,
                   program::svgText(sweepChart(machine, arguments.plotValue, series, arguments.bases, arguments.rivals)));

    const auto failures = std::count_if(measurements.begin(), measurements.end(), [](const Measurement &m) { return !m.failure.empty(); });
    if (failures == 0) return ExitStatus::success;
    std::fprintf(stderr, "vkattn-bench: %d of %d measurements failed; their rows say why\n", static_cast<int>(failures),
                 static_cast<int>(measurements.size()));
    return ExitStatus::failed;
}

ExitStatus execute(int argc, const char *const *argv) {
    try {
        const std::optional<Arguments> arguments = parseArguments(argc, argv);
        ExitStatus status = ExitStatus::success;
        if (arguments && arguments->list)
            printShapeTable();
        else if (arguments)
            status = arguments->ceilings          ? benchCeilings(*arguments)
                     : !arguments->linear.empty() ? benchLinear(*arguments)
                     : arguments->products        ? benchProducts(*arguments)
                     : arguments->gradients       ? benchPasses(*arguments, gradientPasses())
                     : arguments->statistics      ? benchPasses(*arguments, statisticsPasses())
                     : arguments->cascade         ? benchPasses(*arguments, cascadePasses())
                     : arguments->record          ? benchRecording(*arguments)
                     : arguments->cache           ? benchCache(*arguments)
                     : arguments->compileReport   ? benchCompiler(*arguments)
                     : arguments->compileTimes    ? benchCompileTimes(*arguments)
                                                  : bench(*arguments);
        if (std::fflush(stdout) != 0) throw Failure("the result could not be printed: standard output is closed or full");
        return status;
    } catch (const Failure &failure) {
        std::fprintf(stderr, "vkattn-bench: error: %s\n", failure.what());
        return failure.status;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "vkattn-bench: error: %s\n", error.what());
        return ExitStatus::failed;
    }
}

} // namespace

int main(int argc, char **argv) {
    return static_cast<int>(execute(argc, argv));
}
