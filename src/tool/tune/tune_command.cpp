#include "tool/tune/tune_command.hpp"

#include "program/files/output_file.hpp"
#include "program/json_text.hpp"
#include "tool/device.hpp"
#include "tool/options/names.hpp"
#include "tool/tune/tune_measure.hpp"
#include "tool/version.hpp"

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <iostream>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace vkattn::tool {
using namespace program;
namespace {

// On a terminal only, and gone when it is over.
void showProgress(const std::string &text) {
#if defined(__unix__) || defined(__APPLE__)
    if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K%s", text.c_str());
#else
    static_cast<void>(text);
#endif
}

std::string today() {
    const std::time_t now = std::time(nullptr);
    char text[16] = "";
    if (const std::tm *utc = std::gmtime(&now)) std::strftime(text, sizeof text, "%Y-%m-%d", utc);
    return text;
}

std::string number(const char *format, double value) {
    char text[32];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

std::string outputPath(const TuneArguments &arguments, const DeviceInfo &device) {
    if (!arguments.out.empty()) return arguments.out;
    const std::string path = defaultTuningPath(device.name);
    if (path.empty()) throw Failure("neither XDG_CONFIG_HOME nor HOME says where tuning files belong: give --out FILE");
    std::error_code error;
    const auto folder = std::filesystem::path(path).parent_path();
    std::filesystem::create_directories(folder, error);
    if (error) throw Failure("cannot make the folder " + folder.string() + ": " + error.message() + ": give --out FILE");
    return path;
}

// A dim is measured for those above the one before; for the first there is none, and the built-in
// row of smaller dims stays.
std::vector<TuneCase> cases(const std::vector<uint32_t> &dims) {
    std::vector<TuneCase> list;
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE}) {
        uint32_t before = 0;
        for (const uint32_t dim : dims) {
            list.push_back({kernel, std::max(before, dim / 2) + 1, dim});
            if (list.back().minDim > dim) list.back().minDim = dim; // of 1
            before = dim;
        }
    }
    return list;
}

std::string rowName(const TuneReport &report, const TuneResult &result) {
    return result.tile ? result.tile->text() : "built-in: " + report.builtIn;
}

void printReport(const TuneReport &report) {
    std::cout << "\n" << report.of.text();
    if (!report.skipped.empty()) {
        std::cout << ": not measured: " << report.skipped << "\n" << std::flush;
        return;
    }
    std::cout << ", measured on " << report.problems << "\n";
    std::cout << "  compile s  median ms    GFLOP/s  x built-in   row\n";
    for (const TuneResult &result : report.results) {
        if (!result.discarded.empty()) {
            std::cout << "  discarded: " << rowName(report, result) << ": " << result.discarded << "\n";
            continue;
        }
        char text[96];
        std::snprintf(text, sizeof text, "%c %9.2f %10.3g %10.3g %11.2f   ", result.chosen ? '*' : ' ', result.compileSeconds,
                      result.milliseconds, report.gflops(result), report.speed(result));
        std::cout << text << rowName(report, result) << (result.samples == 1 ? " (once)" : "") << (result.chosen ? ", chosen" : "") << "\n";
    }
    if (report.tooSlow > 0) std::cout << "  " << report.tooSlow << " more were not tried: they would compile for too long\n";
    if (report.untried > 0) std::cout << "  " << report.untried << " more were not tried: time was up\n";
    std::cout << std::flush;
}

Json toJson(const TuneReport &report) {
    Json results = Json::array();
    for (const TuneResult &result : report.results) {
        const bool measured = result.discarded.empty();
        results.push_back({{"row", result.tile ? Json(rowText(report.of, *result.tile)) : Json()},
                           {"discarded", measured ? Json() : Json(result.discarded)},
                           {"chosen", result.chosen},
                           {"compileSeconds", jsonNumber(result.compileSeconds)},
                           {"medianMs", measured ? jsonNumber(result.milliseconds) : Json()},
                           {"samples", result.samples},
                           {"gflops", measured ? jsonNumber(report.gflops(result)) : Json()},
                           {"speed", measured ? jsonNumber(report.speed(result)) : Json()}});
    }
    return {{"kernel", vkattnKernelName(report.of.kernel)},
            {"minDim", report.of.minDim},
            {"maxDim", report.of.maxDim},
            {"skipped", report.skipped.empty() ? Json() : Json(report.skipped)},
            {"problems", report.problems},
            {"builtIn", report.builtIn},
            {"untried", report.untried},
            {"tooSlowToCompile", report.tooSlow},
            {"candidates", std::move(results)}};
}

std::string fileText(const DeviceInfo &device, const std::vector<TuneReport> &reports) {
    std::string text = "vkattn-tuning 1\n" + (deviceComment + oneLine(device.name)) + "\n" + driverComment + oneLine(device.driver) +
                       "\n# date: " + today() + ", by vkattn " + versionText() + "\n";
    for (const TuneReport &report : reports) {
        text += "# " + report.of.text() + ": ";
        if (!report.skipped.empty()) {
            text += "not measured: " + oneLine(report.skipped) + "\n";
            continue;
        }
        const TuneResult &best = report.chosen(), &builtIn = report.results[0];
        text += report.problems + ": built-in " + number("%.3g", builtIn.milliseconds) + " ms, " + number("%.3g", report.gflops(builtIn)) +
                " GFLOP/s";
        if (!best.tile) {
            text += ", kept: nothing was 3 % faster\n" + rateText(report.of, report.gflops(builtIn)) + "\n";
            continue;
        }
        text += "; this row " + number("%.3g", best.milliseconds) + " ms, " + number("%.3g", report.gflops(best)) +
                " GFLOP/s, compiled in " + number("%.2g", best.compileSeconds) + " s\n" + rowText(report.of, *best.tile) + "\n" +
                rateText(report.of, report.gflops(best)) + "\n";
    }
    return text;
}

} // namespace

ExitStatus tuneCommand(const TuneArguments &arguments) {
    if (arguments.device == "cpu")
        throw Failure("--device cpu has no tiles to tune: name a Vulkan device that `vkattn info` lists, or leave --device out");
    const auto start = TuneClock::now();
    RuntimeOptions options;
    options.device = arguments.device;
    options.allowFallback = false;
    const std::unique_ptr<Runtime> runtime = program::openRuntime(options, ": `vkattn info` lists the devices");
    if (runtime->device() == nullptr) throw Failure("there is no Vulkan device to tune", ExitStatus::deviceUnusable);
    const DeviceInfo &device = *runtime->device();
    const std::string path = outputPath(arguments, device);
    // Minutes of measuring are not to end in a typing error.
    OutputFile file(checkOutputTarget("--out", path, {}, {}));

    if (!arguments.json) std::cout << "device    " << device.name << " (" << device.driver << ")\n" << std::flush;
    const std::vector<TuneCase> list = cases(arguments.dims);
    std::vector<TuneReport> reports;
    for (size_t n = 0; n < list.size(); n++) {
        // Time that one leaves over goes to the others.
        const auto left = std::max(start + std::chrono::seconds(arguments.seconds) - TuneClock::now(), TuneClock::duration::zero());
        const auto progress = [&](const std::string &what) {
            const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(TuneClock::now() - start).count();
            showProgress(list[n].text() + ": " + what + " (" + std::to_string(seconds) + " of " + std::to_string(arguments.seconds) +
                         " s)");
        };
        reports.push_back(measureTiles(device, list[n], TuneClock::now() + left / (list.size() - n), progress));
        showProgress("");
        if (!arguments.json) printReport(reports.back());
    }

    const std::string text = fileText(device, reports);
    file.write(std::as_bytes(std::span(text)));
    file.close();
    file.publish();
    if (!arguments.json) {
        std::cout << "\nwrote     " << path << "\n";
        return ExitStatus::success;
    }
    Json measured = Json::array();
    for (const TuneReport &report : reports) measured.push_back(toJson(report));
    std::cout << jsonText({{"device", device.name},
                           {"driver", device.driver},
                           {"out", path},
                           {"seconds", jsonNumber(std::chrono::duration<double>(TuneClock::now() - start).count())},
                           {"cases", std::move(measured)}},
                          -1)
              << "\n";
    return ExitStatus::success;
}

} // namespace vkattn::tool
