// programs: hooks in GLSL beside what the library has built in: the same results, and what being programmable
// costs. examples.cpp has what each program reads; hooks/ their texts.
#include "examples.hpp"

#include "program/options/device_options.hpp"
#include "program/run_program.hpp"

#include <vkattn/operations.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>

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

double millisecondsOf(vkattn::Runtime &runtime, const vkattn_operation &operation, const std::vector<vkattn_operand_memory> &operands) {
    const vkattn::RunResult result = runtime.run(operation, operands);
    if (result.status != VKATTN_OK) throw Failure(result.message, ExitStatus::deviceUnusable);
    return result.milliseconds;
}

// The lists of the blocks of pairs that a program shows, and the attention that reads them.
class Listed {
  public:
    Listed(const Attention &a, uint32_t blockTokens)
        : attention_(a.problem), lists_(vkattn::visibleBlocks(attention_, blockTokens, blockTokens)) {
        reading_ = a.problem;
        reading_.blocks = lists_.blocks;
        const vkattn_operation making = this->making();
        for (const vkattn_role role : {VKATTN_BLOCK_COUNTS, VKATTN_BLOCK_INDICES, VKATTN_FULL_BLOCK_COUNTS, VKATTN_FULL_BLOCK_INDICES}) {
            std::vector<uint32_t> &words = memory_.emplace_back(vkattnOperationBytes(&making, role) / 4);
            made_.push_back({role, words.data(), 4 * words.size()});
        }
        read_ = a.operands;
        read_.insert(read_.end(), made_.begin(), made_.end());
        for (const vkattn_operand_memory &each : a.operands)
            if (each.role >= VKATTN_PROGRAM_BUFFER_0 && each.role <= VKATTN_PROGRAM_BUFFER_3) made_.push_back(each);
    }
    Listed(const Listed &) = delete;
    Listed &operator=(const Listed &) = delete;

    [[nodiscard]] vkattn_operation making() const { return vkattn::operation(lists_); }
    [[nodiscard]] vkattn_operation reading() const { return vkattn::operation(reading_); }
    [[nodiscard]] const std::vector<vkattn_operand_memory> &made() const { return made_; }
    [[nodiscard]] const std::vector<vkattn_operand_memory> &read() const { return read_; }

  private:
    vkattn_problem attention_, reading_{};
    vkattn_visible_blocks lists_;
    std::deque<std::vector<uint32_t>> memory_;
    std::vector<vkattn_operand_memory> made_, read_;
};

struct Times {
    std::vector<double> program, builtIn, lists, withLists;
};

constexpr uint32_t blockTokens = 64;

int run(const Arguments &arguments) {
    const std::unique_ptr<vkattn::Runtime> runtime = openRuntime(runtimeOptions(arguments), ": choose a device that `vkattn info` lists");
    const vkattn::DeviceInfo *const device = runtime->device();
    if (!device) throw Failure("programs run on Vulkan devices alone: " + runtime->fallbackReason(), ExitStatus::deviceUnusable);
    std::printf("%s, 8 heads, %u x %u tokens of 64 dims; of what a program hides, lists of blocks of %u x %u pairs\n\n",
                device->name.c_str(), arguments.side, arguments.side, blockTokens, blockTokens);
    std::printf("%-14s %-26s %12s %10s %10s %6s %9s %17s %10s\n", "program", "built in", "difference", "program", "built in", "ratio",
                "compiled", "program and lists", "the lists");
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
        const Listed listed(hooked, blockTokens);
        const bool hides = (program->get()->hooks & VKATTN_HOOK_VISIBLE) != 0;
        const auto prepare = [&](const vkattn_operation &operation) {
            vkattn_diagnostic why{};
            if (program->prepare(device->caps, operation, &why) != VKATTN_OK) throw Failure(why.message, ExitStatus::deviceUnusable);
        };
        const vkattn_operation ofProgram = vkattn::operation(hooked.problem), ofBuiltIn = vkattn::operation(plain.problem);
        prepare(ofProgram);
        if (hides) prepare(listed.making()), prepare(listed.reading());
        double difference = 0;
        const auto compare = [&] {
            for (size_t n = 0; n < plain.out.size(); ++n)
                difference = std::max(difference, std::abs(static_cast<double>(hooked.out[n]) - static_cast<double>(plain.out[n])));
        };
        Times times;
        for (uint32_t n = 0; n <= arguments.repeat; ++n) { // in turn, so that all see the same machine
            const auto measure = [&](std::vector<double> &all, const vkattn_operation &operation,
                                     const std::vector<vkattn_operand_memory> &operands) {
                const double milliseconds = millisecondsOf(*runtime, operation, operands);
                if (n > 0) all.push_back(milliseconds); // the first one compiles
            };
            measure(times.builtIn, ofBuiltIn, plain.operands);
            measure(times.program, ofProgram, hooked.operands);
            if (n == arguments.repeat) compare();
            if (!hides) continue;
            measure(times.lists, listed.making(), listed.made());
            measure(times.withLists, listed.reading(), listed.read());
            if (n == arguments.repeat) compare();
        }
        worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
        std::printf("%-14s %-26s %12.2g %7.1f ms %7.1f ms %6.2f %6.0f ms", example.name, example.builtIn, difference, median(times.program),
                    median(times.builtIn), median(times.program) / median(times.builtIn), program->compileMilliseconds());
        if (hides) std::printf(" %14.1f ms %7.1f ms", median(times.withLists), median(times.lists));
        std::printf("\n");
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
    return vkattn::program::runProgram("programs", "choose a smaller --side", [&] { return programs::run(arguments); });
}
