// programs: hooks in GLSL beside what the library has built in: the same results, and what being programmable
// costs. examples.cpp has what each program reads; hooks/ their texts.
#include "examples.hpp"

#include "program/failure.hpp"
#include "program/options/device_options.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace programs {
namespace {

using namespace vkattn::program;

struct Arguments : DeviceChoice {
    uint32_t side = 32, repeat = 7;
    std::string folder = PROGRAMS_HOOKS_FOLDER;
    std::vector<std::string> only; // empty: all
    double mostDifference = 0;     // 0: any
};

double median(std::vector<double> times) {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

double secondsOf(vkattn::Runtime &runtime, Attention &a) {
    vkattn::RunOptions options;
    const vkattn::RunResult result = runtime.run(a.problem, a.operands, options);
    if (result.status != VKATTN_OK) throw Failure(result.message, ExitStatus::deviceUnusable);
    return result.milliseconds;
}

int run(const Arguments &arguments) {
    const std::unique_ptr<vkattn::Runtime> runtime = openRuntime(runtimeOptions(arguments), ": choose a device that `vkattn info` lists");
    const vkattn::DeviceInfo *const device = runtime->device();
    if (!device) throw Failure("programs run on Vulkan devices alone: " + runtime->fallbackReason(), ExitStatus::deviceUnusable);
    std::printf("%s, 8 heads, %u x %u tokens of 64 dims\n\n", device->name.c_str(), arguments.side, arguments.side);
    std::printf("%-14s %-26s %12s %10s %10s %6s %9s\n", "program", "built in", "difference", "program", "built in", "ratio", "compiled");
    double worst = 0;
    for (const Example &example : examples()) {
        if (!arguments.only.empty() && std::find(arguments.only.begin(), arguments.only.end(), example.name) == arguments.only.end())
            continue;
        std::string error;
        const std::unique_ptr<vkattn::Program> program =
            vkattn::Program::make(textOf(arguments.folder, example), std::string(example.name) + ".glsl", error);
        if (!program) throw Failure(error);
        Attention hooked(1, 8, arguments.side, 64, VKATTN_F32), plain(1, 8, arguments.side, 64, VKATTN_F32);
        hooked.problem.program = program->get();
        example.program(hooked);
        example.without(plain);
        vkattn_diagnostic why{};
        if (program->prepare(device->caps, hooked.problem, &why) != VKATTN_OK) throw Failure(why.message, ExitStatus::deviceUnusable);
        std::vector<double> times[2];
        for (uint32_t n = 0; n <= arguments.repeat; ++n) { // in turn, so that both see the same machine
            const double both[] = {secondsOf(*runtime, hooked), secondsOf(*runtime, plain)};
            for (int which = 0; n > 0 && which < 2; ++which) times[which].push_back(both[which]);
        }
        double difference = 0;
        for (size_t n = 0; n < plain.out.size(); ++n)
            difference = std::max(difference, std::abs(static_cast<double>(hooked.out[n]) - static_cast<double>(plain.out[n])));
        worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
        std::printf("%-14s %-26s %12.2g %7.1f ms %7.1f ms %6.2f %6.0f ms\n", example.name, example.builtIn, difference, median(times[0]),
                    median(times[1]), median(times[0]) / median(times[1]), program->compileMilliseconds());
    }
    if (arguments.mostDifference > 0 && !(worst <= arguments.mostDifference)) {
        std::printf("\nthe largest difference is %g, expected at most %g\n", worst, arguments.mostDifference);
        return static_cast<int>(ExitStatus::verificationFailed);
    }
    return 0;
}

} // namespace
} // namespace programs

int main(int argc, char **argv) {
    programs::Arguments arguments;
    std::vector<std::string> names;
    for (const programs::Example &example : programs::examples()) names.emplace_back(example.name);
    CLI::App app("Programs of hooks beside what the library has built in: the same results, and what being programmable costs.",
                 "programs");
    vkattn::program::addDeviceChoice(app, arguments);
    app.add_option("--side", arguments.side, "Rows and columns of the grid of tokens; default 32")->check(CLI::Range(2, 256));
    app.add_option("--repeat", arguments.repeat, "How often each is measured; default 7")->check(CLI::Range(1, 1000));
    app.add_option("--hooks", arguments.folder, "Where the programs lie")->type_name("FOLDER");
    app.add_option("--program", arguments.only, "This program alone; may be given again; default all")->check(CLI::IsMember(names));
    app.add_option("--max-difference", arguments.mostDifference, "Fail where results differ by more");
    CLI11_PARSE(app, argc, argv);
    try {
        return programs::run(arguments);
    } catch (const vkattn::program::Failure &failure) {
        std::fprintf(stderr, "programs: error: %s\n", failure.what());
        return static_cast<int>(failure.status);
    }
}
