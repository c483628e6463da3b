#include "arguments.hpp"

#include "compile/times.hpp"
#include "failure.hpp"
#include "report/output_file.hpp"
#include "text.hpp"

#include <vkattn/vkattn.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>

namespace vkattn::bench {
namespace {

constexpr uint32_t maxRepeat = 100000, maxThreads = 4096, maxTokens = 1u << 24, maxDim = 2048;

// The command line as it was typed, before its meaning is checked.
struct Raw {
    std::vector<std::string> shapes, groups, customs;
    std::vector<std::string> linear;
    std::string kernel = "auto", repeat, warmUp, threads, budget, seed, sweep, plotValue = "gflops", rival, compare, headDims;
    bool list = false, record = false, cache = false, compileReport = false, compileTimes = false, verify = false, noVerify = false,
         noPeaks = false;
};

template <class Number> void parseWhole(const char *option, const std::string &text, uint64_t least, uint64_t most, Number &value) {
    if (text.empty()) return; // the option was not given
    uint64_t number = 0;
    if (!parseNumber(text, number) || number < least || number > most)
        throw Failure(std::string(option) + " takes a whole number from " + std::to_string(least) + " to " + std::to_string(most) +
                      ", not '" + text + "'");
    value = static_cast<Number>(number);
}

void addOnce(std::vector<Shape> &shapes, const Shape &shape) {
    const auto isSame = [&](const Shape &other) { return other.name == shape.name; };
    if (std::none_of(shapes.begin(), shapes.end(), isSame)) shapes.push_back(shape);
}

std::vector<Shape> chooseShapes(const Raw &raw) {
    std::vector<Shape> shapes;
    for (const std::string &names : raw.shapes)
        for (const std::string &name : split(names, ',')) addOnce(shapes, shapeNamed(name));
    for (const std::string &groups : raw.groups)
        for (const std::string &group : split(groups, ','))
            for (const Shape &shape : shapesOfGroup(group)) addOnce(shapes, shape);
    for (const std::string &text : raw.customs) addOnce(shapes, customShape(text));
    return shapes.empty() ? shapesOfGroup("quick") : shapes;
}

std::vector<uint32_t> parseSweep(const std::string &text) {
    std::vector<uint32_t> tokens;
    for (const std::string &part : split(text, ',')) {
        uint32_t count = 0;
        if (!parseNumber(part, count) || count == 0 || count > maxTokens)
            throw Failure("--sweep takes numbers of tokens from 1 to " + std::to_string(maxTokens) +
                          " with commas, like 1024,2048,4096, not '" + text + "'");
        tokens.push_back(count);
    }
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    if (tokens.size() < 2) throw Failure("--sweep " + text + " has one length; a line needs two or more, like 1024,2048,4096");
    return tokens;
}

void sweepOver(Arguments &arguments, const std::vector<uint32_t> &tokens) {
    arguments.sweep = true;
    std::vector<Shape> swept;
    for (const Shape &shape : arguments.bases) {
        if (shape.swept)
            throw Failure("--sweep sets the tokens, and the shape " + shape.name + " has them in its name: name it " + shape.family);
        for (const uint32_t count : tokens) swept.push_back(withTokens(shape, count));
    }
    arguments.shapes = std::move(swept);
}

// With a sweep, each shape at each length; shapes of single tokens are none of that.
std::vector<LinearShape> chooseLinear(const Raw &raw, const std::vector<uint32_t> &tokens) {
    std::vector<LinearShape> shapes, swept;
    for (const std::string &names : raw.linear)
        for (const std::string &name : split(names, ',')) {
            if (name != "all") {
                shapes.push_back(linearShapeNamed(name));
                continue;
            }
            for (const LinearShape &each : linearTable()) shapes.push_back(linearShapeNamed(each.name));
        }
    if (tokens.empty()) return shapes;
    for (const LinearShape &shape : shapes)
        for (const uint32_t count : tokens) swept.push_back(withTokens(shape, count));
    return swept;
}

PlotValue parsePlotValue(const std::string &text) {
    if (text == "gflops") return PlotValue::gflops;
    if (text == "gbs") return PlotValue::gbs;
    if (text == "ms") return PlotValue::milliseconds;
    throw Failure("--plot-value takes gflops, gbs or ms, not '" + text + "'");
}

// The library's own reader says what is wrong with a row. It looks at neither device nor problem.
std::string readTuning(const std::string &path) {
    std::string text = readWhole("--tuning", path);
    if (text.empty()) throw Failure("cannot use --tuning " + path + ": it is empty, expected a file of `vkattn tune`");
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    vkattnMinimumCaps(&caps, nullptr); // this call fails only for a wrong structSize
    const vkattn_problem any = customShape("heads=1,q=1,d=1").problem(VKATTN_KERNEL_AUTO);
    vkattn_explanation plan{};
    vkattn_diagnostic why{};
    if (explain(caps, any, plan, planOptions(0, text), &why) == VKATTN_ERROR_INVALID_ARGUMENT)
        throw Failure("cannot use --tuning " + path + ": " + why.message);
    return text;
}

// CLI11 takes the next word as the value, whatever the word is: `--csv --json` would write a file
// named --json.
void refuseMissingValues(const CLI::App &app) {
    for (const CLI::Option *option : app.get_options()) {
        if (option->get_expected_max() == 0) continue; // flags have no value
        for (const std::string &value : option->results()) {
            if (value.rfind("--", 0) == 0) throw Failure(option->get_name() + " needs a value, and '" + value + "' follows it");
            if (value.empty()) throw Failure(option->get_name() + " needs a value, not an empty one");
        }
    }
}

// "auto" stands for every kernel in modes that look at each kernel by itself. Returns whether
// "auto" was there.
bool takeAllKernels(std::vector<Kernel> &kernels) {
    const bool all = std::any_of(kernels.begin(), kernels.end(), [](const Kernel &kernel) { return kernel.kernel == VKATTN_KERNEL_AUTO; });
    if (all) kernels.assign(kernelTable().begin() + 1, kernelTable().end());
    return all;
}

void interpretCompileReport(const Raw &raw, Arguments &arguments) {
    if (!arguments.compileReport) {
        if (arguments.rawStatistics || !arguments.representations.empty() || !arguments.compileTable.empty())
            throw Failure("--raw, --representations and --check belong to --compile-report: add it");
        return;
    }
    if (arguments.record || arguments.cache || arguments.sweep || !arguments.json.empty() || !raw.compare.empty() || raw.verify ||
        !raw.shapes.empty() || !raw.groups.empty() || !raw.customs.empty())
        throw Failure("--compile-report has problems of its own, and computes nothing: it goes with --kernel, --tuning, --csv, --raw, "
                      "--representations and --check alone");
    arguments.operations = takeAllKernels(arguments.kernels);
    if (!arguments.compileTable.empty())
        arguments.expected = parseCompileTable("--check " + arguments.compileTable, readWhole("--check", arguments.compileTable));
}

// What times passes in turn.
struct PassMode {
    const char *option;
    bool Arguments::*given;
};
constexpr PassMode passModes[] = {
    {"--gradients", &Arguments::gradients}, {"--statistics", &Arguments::statistics}, {"--cascade", &Arguments::cascade}};

// What measures a list of its own takes few of the other options.
bool choosesShapes(const Raw &raw, const Arguments &arguments) {
    return arguments.record || arguments.cache || arguments.ceilings || arguments.compileReport || arguments.compileTimes ||
           arguments.sweep || !arguments.json.empty() || !arguments.plot.empty() || !raw.rival.empty() || !raw.compare.empty() ||
           !raw.shapes.empty() || !raw.groups.empty() || !raw.customs.empty() || raw.kernel != "auto" || !raw.budget.empty();
}
void checkOwnLists(const Raw &raw, const Arguments &arguments) {
    if (arguments.products && choosesShapes(raw, arguments))
        throw Failure("--products has sizes of its own: it goes with --device, --tuning, --repeat, --warm-up, --threads, --verify, "
                      "--no-verify, --no-peaks, --seed and --csv alone");
    const auto given =
        std::count_if(std::begin(passModes), std::end(passModes), [&](const PassMode &mode) { return arguments.*mode.given; });
    for (const PassMode &mode : passModes)
        if (arguments.*mode.given &&
            (choosesShapes(raw, arguments) || arguments.products || given > 1 || !raw.warmUp.empty() || raw.noPeaks || raw.noVerify))
            throw Failure(std::string(mode.option) +
                          " has shapes of its own, and kernels: it goes with --device, --tuning, --repeat, --threads, --verify, "
                          "--seed and --csv alone");
}

void interpretLinear(const Raw &raw, Arguments &arguments) {
    if (raw.linear.empty()) return;
    if (arguments.record || arguments.cache || arguments.ceilings || arguments.compileReport || arguments.compileTimes ||
        arguments.products ||
        std::any_of(std::begin(passModes), std::end(passModes), [&](const PassMode &mode) { return arguments.*mode.given; }) ||
        !arguments.json.empty() || !raw.rival.empty() || !raw.compare.empty() || !raw.shapes.empty() || !raw.groups.empty() ||
        !raw.customs.empty() || raw.kernel != "auto" || !raw.warmUp.empty() || raw.noPeaks || raw.plotValue != "gflops")
        throw Failure("--linear has shapes of its own: it goes with --device, --tuning, --repeat, --budget, --threads, --verify, "
                      "--no-verify, --seed, --sweep, --plot and --csv alone");
    arguments.linear = chooseLinear(raw, raw.sweep.empty() ? std::vector<uint32_t>() : parseSweep(raw.sweep));
}

void interpretCompileTimes(const Raw &raw, Arguments &arguments) {
    if (!arguments.compileTimes) {
        if (!raw.headDims.empty()) throw Failure("--head-dims belongs to --compile-times: add it");
        return;
    }
    if (arguments.record || arguments.cache || arguments.compileReport || arguments.sweep || !arguments.json.empty() ||
        !raw.compare.empty() || raw.verify || !raw.shapes.empty() || !raw.groups.empty() || !raw.customs.empty())
        throw Failure("--compile-times has problems of its own, and computes nothing: it goes with --kernel, --tuning, --csv and "
                      "--head-dims alone");
    takeAllKernels(arguments.kernels);
    arguments.headDims = compileTimeDims();
    if (raw.headDims.empty()) return;
    arguments.headDims.clear();
    for (const std::string &part : split(raw.headDims, ',')) {
        uint32_t dim = 0;
        if (!parseNumber(part, dim) || dim == 0 || dim > maxDim)
            throw Failure("--head-dims takes dims from 1 to " + std::to_string(maxDim) + " with commas, like 64,128,256, not '" +
                          raw.headDims + "'");
        arguments.headDims.push_back(dim);
    }
}

Arguments interpret(const Raw &raw, Arguments arguments) {
    arguments.list = raw.list;
    arguments.record = raw.record;
    arguments.cache = raw.cache;
    arguments.compileReport = raw.compileReport;
    arguments.compileTimes = raw.compileTimes;
    arguments.bases = arguments.shapes = chooseShapes(raw);
    for (const std::string &name : split(raw.kernel, ',')) arguments.kernels.push_back(kernelNamed(name));
    MeasureOptions &measure = arguments.measure;
    parseWhole("--repeat", raw.repeat, 1, maxRepeat, measure.repeat);
    parseWhole("--warm-up", raw.warmUp, 0, maxRepeat, measure.warmUp);
    parseWhole("--threads", raw.threads, 0, maxThreads, measure.threads);
    parseWhole("--budget", raw.budget, 1, 1000000, measure.budgetSeconds);
    parseWhole("--seed", raw.seed, 0, UINT64_MAX, measure.seed);
    if (raw.verify && raw.noVerify) throw Failure("--verify and --no-verify contradict each other: give one of them");
    if (raw.verify || raw.noVerify) measure.verify = raw.verify;
    measure.peaks = !raw.noPeaks;
    if (raw.linear.empty() && !raw.sweep.empty()) sweepOver(arguments, parseSweep(raw.sweep));
    arguments.sweep = !raw.sweep.empty();
    arguments.plotValue = parsePlotValue(raw.plotValue);
    if (!arguments.plot.empty() && !arguments.sweep)
        throw Failure("--plot draws a sweep over sequence lengths, and there is none: add --sweep 1024,2048,4096");
    if (!raw.rival.empty() && arguments.plot.empty())
        throw Failure("--rival adds a line to the picture, and there is none: add --plot FILE.svg, or use --compare");
    if (arguments.record && (!arguments.plot.empty() || !arguments.json.empty() || !raw.compare.empty() || raw.verify))
        throw Failure(
            "--record measures what recording costs, and computes nothing: it goes with --csv, not with --plot, --json, --compare "
            "or --verify");
    if (arguments.cache && (arguments.record || arguments.sweep || !arguments.json.empty() || !raw.compare.empty() || raw.verify))
        throw Failure("--cache measures how long pipelines take, and computes nothing: it goes with --csv, not with --record, --sweep, "
                      "--json, --compare or --verify");
    interpretCompileReport(raw, arguments);
    interpretCompileTimes(raw, arguments);
    checkOwnLists(raw, arguments);
    interpretLinear(raw, arguments);
    if (!raw.rival.empty()) arguments.rivals = readRivals("--rival", raw.rival);
    if (!raw.compare.empty()) arguments.compare = readRivals("--compare", raw.compare);
    if (!arguments.tuningFile.empty()) arguments.tuning = readTuning(arguments.tuningFile);
    if (!arguments.json.empty()) checkWritable("--json", arguments.json);
    if (!arguments.plot.empty()) checkWritable("--plot", arguments.plot);
    return arguments;
}

void addOptions(CLI::App &app, Raw &raw, Arguments &arguments) {
    const auto many = [&](const char *name, std::vector<std::string> &target, const char *type, const std::string &text) {
        app.add_option(name, target, text)->type_name(type)->allow_extra_args(false);
    };
    const auto value = [&](const char *name, std::string &target, const char *type, const std::string &text) {
        app.add_option(name, target, text)->type_name(type);
    };
    many("--shape", raw.shapes, "NAME[,NAME...]", "Shapes of the table, see --list; NAME@TOKENS for another length");
    many("--group", raw.groups, "NAME[,NAME...]", "Groups of shapes: " + join(groupNames(), ", ") + "; default: quick");
    many("--custom", raw.customs, "KEY=N,...",
         "A shape of your own: heads=8,kv=8,q=4096,k=4096,d=64,type=f16kv,causal; also batch=, window=, pages=, name=");
    app.add_flag("--list", raw.list, "Print the table of shapes");
    value("--device", arguments.device, "INDEX|NAME|cpu", "A device that `vkattn info` lists, or the CPU; default: the best device");
    std::vector<std::string> kernels;
    for (const Kernel &kernel : kernelTable()) kernels.push_back(kernel.kernel == VKATTN_KERNEL_AUTO ? "auto (default)" : kernel.name);
    value("--kernel", raw.kernel, "NAME[,NAME...]", join(kernels, ", "));
    value("--tuning", arguments.tuningFile, "FILE",
          "Tiles that `vkattn tune` has written; default: the built-in ones, whatever `vkattn` uses");
    value("--repeat", raw.repeat, "N", "Timed runs of each shape; default 7");
    value("--warm-up", raw.warmUp, "N", "Untimed runs before them; default 1");
    value("--budget", raw.budget, "SECONDS", "Repeat a shape less often, though 3 times, where it would take longer; default 60");
    value("--threads", raw.threads, "N", "Threads of CPU computation, CPU peaks and verification; default: one per core");
    app.add_flag("--record", raw.record, "Measure the CPU time of recording a shape into a command buffer, and compute nothing");
    app.add_flag("--cache", raw.cache,
                 "Measure how long the shapes' pipelines take to create, with and without an imported cache, and compute nothing");
    app.add_flag("--gradients", arguments.gradients,
                 "Measure attention, with dropout and its backward pass in turn, for shapes of training, in place of attention alone");
    app.add_flag("--statistics", arguments.statistics, "Measure attention and its statistics in turn, in place of attention alone");
    app.add_flag("--cascade", arguments.cascade,
                 "Measure a token each of 32 sequences that share 4,096 keys, with keys of their own and as a cascade in turn");
    std::vector<std::string> linear = {"all"};
    for (const LinearShape &each : linearTable()) linear.push_back(each.name);
    many("--linear", raw.linear, "NAME[,NAME...]",
         "Measure linear attention in both forms, and causal softmax attention of the same tokens, in place of attention alone: " +
             join(linear, ", "));
    app.add_flag("--products", arguments.products, "Measure projections Y = X W^T of a list of sizes, in place of attention");
    app.add_flag("--ceilings", arguments.ceilings, "Measure what copying, reading and multiply-adding do at best, and compute nothing");
    app.add_flag("--compile-report", raw.compileReport,
                 "Print what the device's compiler makes of every kernel as the planner lays it out (registers, spills, occupancy, matrix "
                 "instructions), and compute nothing");
    app.add_flag("--raw", arguments.rawStatistics, "With --compile-report: every statistic, under the driver's own name");
    value("--representations", arguments.representations, "FOLDER",
          "With --compile-report: write the driver's intermediate code and assembly");
    value("--check", arguments.compileTable, "FILE",
          "With --compile-report: compare with rows of --csv; spills, lost matrix instructions and grown registers fail");
    app.add_flag("--compile-times", raw.compileTimes,
                 "Measure how many CPU seconds the driver takes to compile every pipeline of every kernel, and compute nothing");
    value("--head-dims", raw.headDims, "N[,N...]", "With --compile-times: of these head dims");
    app.add_flag("--verify", raw.verify, "Check more: every row up to 2 GFLOP, else 276; default: as much as takes a second");
    app.add_flag("--no-verify", raw.noVerify, "Check nothing");
    value("--seed", raw.seed, "N", "Of the random operands and the rows that are checked; default 1");
    app.add_flag("--no-peaks", raw.noPeaks, "Do not measure the machine's peaks");
    value("--sweep", raw.sweep, "N,N,...", "Measure each shape at these sequence lengths and fit time ~ tokens^x");
    value("--csv", arguments.csv, "FILE", "Append rows to this file");
    value("--json", arguments.json, "FILE", "Write everything to this file");
    value("--plot", arguments.plot, "FILE", "Draw the sweep as SVG");
    value("--plot-value", raw.plotValue, "gflops|gbs|ms", "What to draw; default gflops");
    value("--rival", raw.rival, "FILE", "Another library's times to draw: CSV with shape,rival,median_ms[,device]");
    value("--compare", raw.compare, "FILE", "Print our time over another library's, from such a CSV");
    app.footer("Exit status: 0 success, 1 a shape could not be computed or was computed wrongly, 2 bad usage, 3 no usable device.");
}

} // namespace

std::optional<Arguments> parseArguments(int argc, const char *const *argv) {
    Raw raw;
    Arguments arguments;
    CLI::App app("Times attention: named shapes, against the machine's own measured peaks.", "vkattn-bench");
    app.allow_windows_style_options(false); // /path is a file, no option
    const uint32_t version = vkattnVersion();
    app.set_version_flag("--version", "vkattn-bench " + std::to_string(version >> 22) + "." + std::to_string(version >> 12 & 0x3ff) + "." +
                                          std::to_string(version & 0xfff));
    addOptions(app, raw, arguments);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        if (error.get_exit_code() != 0) throw Failure(std::string(error.what()) + ": see vkattn-bench --help");
        app.exit(error); // help or version, on stdout
        return {};
    }
    refuseMissingValues(app);
    return interpret(raw, std::move(arguments));
}

} // namespace vkattn::bench
