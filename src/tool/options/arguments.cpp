#include "tool/options/arguments.hpp"

#include "program/options/option_values.hpp"
#include "tool/options/attention/attention_options.hpp"
#include "tool/options/gradient_arguments.hpp"
#include "tool/options/inspect_arguments.hpp"
#include "tool/options/layer_arguments.hpp"
#include "tool/options/names.hpp"

#include <vkattn/vkattn.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <span>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr uint32_t maxDim = 2048, maxTuneSeconds = 86400, maxTuneDims = 12; // rows of a tuning file

void checkValues(const RunArguments &run, bool valuesGiven, bool required) {
    if (run.valuesInKeys && valuesGiven)
        throw Failure("--values-in-keys says that the values are dims of the keys, and an array of values is given too: leave one of the "
                      "two out");
    if (required && !run.valuesInKeys && !valuesGiven)
        throw Failure("--v is required, or --values-in-keys N where the values are the first N dims of the keys: see vkattn run --help");
}

void checkShapes(const CLI::App &app, ExplainArguments &explain) {
    Assumptions &assumed = explain.assumed;
    const std::string *files = explain.run.files;
    const bool anyFile = !files[VKATTN_Q].empty() || !files[VKATTN_K].empty() || !files[VKATTN_V].empty();
    const bool anyShape =
        std::any_of(std::begin(assumed.shapes), std::end(assumed.shapes), [](const auto &shape) { return !shape.empty(); });
    if (anyShape && anyFile)
        throw Failure("--shape-q, --shape-k and --shape-v stand in place of the files --q, --k and --v: give one kind and not both");
    const bool inKeys = explain.run.valuesInKeys > 0;
    checkValues(explain.run, !files[VKATTN_V].empty() || !assumed.shapes[2].empty(), false);
    if (anyShape ? assumed.shapes[0].empty() || assumed.shapes[1].empty()
                 : files[VKATTN_Q].empty() || files[VKATTN_K].empty() || (files[VKATTN_V].empty() && !inKeys))
        throw Failure("explain needs arrays or their shapes: give --q, --k and --v, or --shape-q, --shape-k and where it differs from the "
                      "keys' --shape-v");
    if (anyShape && assumed.shapes[2].empty() && !inKeys) assumed.shapes[2] = assumed.shapes[1];
    if (app.count("--dtype") > 0 && !anyShape)
        throw Failure("--dtype is the type of --shape-q, --shape-k and --shape-v; files have their own, so leave it out");
}

// The picture shows what the data of masks, lengths and ids hides.
void checkDrawing(const CLI::App &app, const ExplainArguments &explain) {
    const bool draws = app.count("--draw-mask") > 0;
    for (const char *option : {"--draw-head", "--draw-batch"})
        if (app.count(option) > 0 && !draws)
            throw Failure(std::string(option) +
                          " says what --draw-mask draws, and nothing is drawn: add --draw-mask with a file, or leave " + option + " out");
    if (!draws) return;
    if (explain.assumed.sequences > 0)
        throw Failure("--draw-mask draws one sequence, and --ragged does not say where each begins: give --cu-seqlens-q and "
                      "--cu-seqlens-k with files, or leave --ragged out");
    for (const Presence &presence : presences)
        for (const vkattn_role role : {VKATTN_MASK, VKATTN_BIT_MASK, VKATTN_BIAS, VKATTN_KEY_LENGTHS, VKATTN_DOC_IDS_Q})
            if (explain.assumed.includes(presence) && presence.covers(role))
                throw Failure(std::string("--draw-mask draws which pairs are visible, and --with ") + presence.word +
                              " does not say which it hides: give " + operandName(role).option + " with a file, or leave " + presence.word +
                              " out");
}

void checkExplain(const CLI::App &app, ExplainArguments &explain) {
    const Assumptions &assumed = explain.assumed;
    checkShapes(app, explain);
    for (const Presence &presence : presences)
        for (const OperandName &name : operandNames)
            if (assumed.includes(presence) && presence.covers(name.role) && !explain.run.files[name.role].empty())
                throw Failure(std::string("--with ") + presence.word + " stands in place of a file, and " +
                              operandName(explain.run, name.role).option + " gives one: leave one of the two out");
    for (const vkattn_role role : {VKATTN_CU_SEQ_Q, VKATTN_CU_SEQ_K})
        if (assumed.sequences > 0 && !explain.run.files[role].empty())
            throw Failure(std::string("--ragged stands in place of files, and ") + operandName(role).option +
                          " gives one: leave one of the two out");
    if (explain.memoryBytes > 0 && (assumed.sequences > 0 || !explain.run.files[VKATTN_CU_SEQ_Q].empty()))
        throw Failure("--memory looks for the size of a dense batch, and this one is ragged: leave --memory or the ragged batch out");
    checkDrawing(app, explain);
    if (assumed.rowStatistics) explain.run.rowStatistics = true, explain.run.flags |= VKATTN_ROW_STATISTICS;
}

std::string presenceWords() {
    std::string words;
    for (const Presence &presence : presences) words += (words.empty() ? "" : ", ") + std::string(presence.word);
    return words;
}

void readPresences(const std::string &text, Assumptions &assumed) {
    for (const std::string &word : partsOfList(text)) {
        const Presence *found = nullptr;
        for (const Presence &presence : presences)
            if (word == presence.word) found = &presence;
        if (found == nullptr) badValue("--with", "a list like mask,sinks of " + presenceWords(), word);
        if (found->role == VKATTN_LSE && assumed.roles.test(VKATTN_LSE) && assumed.rowStatistics != found->rowStatistics)
            throw Failure("--with " + text + " names lse and row-statistics, expected one of them: leave lse out");
        assumed.roles.set(found->role).set(found->partner);
        assumed.rowStatistics = assumed.rowStatistics || found->rowStatistics;
    }
}

void readRagged(const std::string &text, Assumptions &assumed) {
    std::vector<uint32_t> numbers;
    if (!parseList(text, numbers) || (numbers.size() != 1 && numbers.size() != 3) || numbers[0] == 0)
        badValue("--ragged", "SEQUENCES or SEQUENCES,QUERIES,KEYS like 8,1024,1024 (the most that one sequence has)", text);
    assumed.sequences = numbers[0];
    if (numbers.size() == 3) assumed.maxSeqQ = numbers[1], assumed.maxSeqK = numbers[2];
}

void addExplainOptions(CLI::App &app, ExplainArguments &explain) {
    Assumptions &assumed = explain.assumed;
    addShape(app, "--shape-q", assumed.shapes[0], "Shape of the queries, in place of --q; 2 to 4 numbers");
    addShape(app, "--shape-k", assumed.shapes[1], "Shape of the keys, in place of --k");
    addShape(app, "--shape-v", assumed.shapes[2], "Shape of the values, in place of --v; default: that of the keys");
    addValue(app, "--dtype", "f32|f16|bf16", "Type of these, and of a bias in --with; default f32",
             [&](const std::string &text) { assumed.dtype = readFloatType("--dtype", text); });
    addValue(app, "--with", "LIST",
             "What takes part without a file, as mask,sinks: " + presenceWords() + "; masks and biases are [query, key] and broadcast",
             [&](const std::string &text) { readPresences(text, assumed); });
    addValue(app, "--ragged", "S[,Q,K]", "As with --cu-seqlens-q and -k: S sequences, of at most Q queries and K keys",
             [&](const std::string &text) { readRagged(text, assumed); });
    app.add_flag("--table", explain.table, "Stage by stage: operations, bytes and workspace with their formulas, beside a recurrent net");
    addValue(app, "--memory", "BYTES", "Tell the largest batch, and the longest sequence, that fit into so much, as 512MiB or 8GiB",
             [&](const std::string &text) { explain.memoryBytes = parseBytes("--memory", text); });
    app.add_option("--draw-mask", explain.maskFile,
                   "Draw which pairs are visible, queries downwards and keys to the right, and tell how many; reads the files of masks, "
                   "lengths and other rules")
        ->type_name("FILE.png");
    const auto place = [&](const char *name, uint32_t &target, const char *text) {
        addValue(app, name, "N", text, [name, &target](const std::string &typed) {
            if (!parseInteger(typed, target)) badValue(name, "a whole number, 0 for the first one", typed);
        });
    };
    place("--draw-head", explain.maskHead, "The query head of that picture; default 0");
    place("--draw-batch", explain.maskBatch, "The batch entry of that picture, or the sequence of a ragged batch; default 0");
    app.footer(
        "Every option of `vkattn run` is taken, so that a run is explained by changing that word. Of files only headers are read (and "
        "--cu-seqlens-q and -k); nothing is computed or written but what --draw-mask asks for, and --out, --verify and --repeat do "
        "nothing.");
}

// Of a command within `explain`.
void refuseOptionsBefore(const CLI::App &command) {
    if (command.get_parent()->count_all() > 1 + command.count_all())
        throw Failure("options before `" + command.get_name() + "` are those of another problem: write vkattn explain " +
                      command.get_name() + ", then all options");
}

void addRunOptions(CLI::App &app, Alignments &alignments, RunArguments &run, bool arraysRequired) {
    addOperandOptions(app, run, arraysRequired);
    addValue(app, "--values-in-keys", "N", "The values are the first N dims of the keys, in place of --v (latent attention)",
             [&](const std::string &text) {
                 run.valuesInKeys = parseWhole("--values-in-keys", text, maxDim);
                 run.flags |= VKATTN_VALUES_IN_KEYS;
             });
    addFile(app, run, VKATTN_OUT, "Where to write the result, in the rank of the queries")->required(arraysRequired);
    addTypeOptions(app, run, "Round queries, keys and values to this type and compute with them so",
                   "Type of the result; default: that of the queries' file");
    addAttentionOptions(app, alignments, run);
    addPages(app, run);
    addPast(app, run);
    addOffsets(app, run);
    addVisibleBlocks(app, run);
    addGlobalProjections(app, run);
    addTokenProjections(app, run);
    addKvType(app, run);
    addProgramOptions(app, run);
    addFurtherOutputs(app, run);
    addScoresOptions(app, run);
    addSlicesOption(app, run);
    addDeviceOptions(app, run);
    app.footer(computeExitStatuses);
}

void readDims(const std::string &text, std::vector<uint32_t> &dims) {
    const bool good = parseList(text, dims) && std::all_of(dims.begin(), dims.end(), [](uint32_t dim) { return dim > 0 && dim <= maxDim; });
    if (!good || dims.size() > maxTuneDims)
        badValue("--dims", "1 to " + std::to_string(maxTuneDims) + " head dims from 1 to " + std::to_string(maxDim) + " like 64,128", text);
    std::sort(dims.begin(), dims.end());
    dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
}

void addTuneOptions(CLI::App &app, TuneArguments &tune) {
    app.add_option("--device", tune.device, "A device that `vkattn info` lists; default: the best device")->type_name("INDEX|NAME");
    app.add_option("--out", tune.out, "Where to write; default: where `vkattn run` looks, ~/.config/vkattn/tuning-DEVICE.txt")
        ->type_name("FILE");
    addValue(app, "--seconds", "N", "Stop measuring after about so long; default 120",
             [&](const std::string &text) { tune.seconds = parseWhole("--seconds", text, maxTuneSeconds); });
    addValue(app, "--dims", "N,N...", "The head dims to measure, each for those from the one before (or half) up to it; default 64,128",
             [&](const std::string &text) { readDims(text, tune.dims); });
    app.add_flag("--json", tune.json, "Print one JSON object instead of text");
    app.footer(
        "Exit status: 0 success, whether or not anything was faster than the built-in tiles; 1 these compute wrongly on this device; "
        "2 bad usage or output; 3 the device cannot be used.");
}

} // namespace

std::string versionText() {
    const uint32_t version = vkattnVersion();
    return std::to_string(version >> 22) + "." + std::to_string(version >> 12 & 0x3ff) + "." + std::to_string(version & 0xfff);
}

CommandLine parseCommandLine(int argc, const char *const *argv) {
    CommandLine line;
    Alignments alignments, explainAlignments;
    RunArguments run;
    ExplainArguments explain;
    InfoArguments info;
    CLI::App app("Attention for Vulkan: softmax(Q K^T) V on any Vulkan device, or the CPU.", "vkattn");
    app.allow_windows_style_options(false); // /path is a file
    app.set_version_flag("--version", "vkattn " + versionText());
    CLI::App *runCommand = app.add_subcommand("run", "Compute attention over .npy arrays");
    runCommand->allow_windows_style_options(false);
    addRunOptions(*runCommand, alignments, run, true);
    RotaryParser rotary;
    CLI::App *rotaryCommand =
        app.add_subcommand("rotary", "Rotate pairs of dims of a .npy array by each token's position: rotary position embedding");
    rotaryCommand->allow_windows_style_options(false);
    rotary.addOptions(*rotaryCommand);
    LinearParser linear(false), explainLinear(true);
    CLI::App *linearCommand = app.add_subcommand(
        "linear", "Compute linear attention over .npy arrays: by feature maps, or by a state that tokens decay, write and read");
    linearCommand->allow_windows_style_options(false);
    linear.addOptions(*linearCommand);
    MergeParser merge;
    CLI::App *mergeCommand =
        app.add_subcommand("merge", "Put attention over parts of the keys together, from results and log-sum-exps in .npy arrays");
    mergeCommand->allow_windows_style_options(false);
    merge.addOptions(*mergeCommand);
    AppendParser append;
    CLI::App *appendCommand =
        app.add_subcommand("append", "Write new keys or values into a cache in a .npy array: contiguous, a ring, or pages");
    appendCommand->allow_windows_style_options(false);
    append.addOptions(*appendCommand);
    GradientParser gradient;
    CLI::App *gradientCommand =
        app.add_subcommand("grad", "Compute the gradients of attention over .npy arrays: the backward pass, from the result's gradient");
    gradientCommand->allow_windows_style_options(false);
    gradient.addOptions(*gradientCommand);
    InspectParser inspect;
    CLI::App *inspectCommand =
        app.add_subcommand("inspect", "Look into attention: what each head does, in figures, from queries and keys or from weights");
    inspectCommand->allow_windows_style_options(false);
    inspect.addOptions(*inspectCommand);
    LayerParser layer(false), explainLayer(true);
    CLI::App *layerCommand = app.add_subcommand("layer", "Compute multi-head attention whole: projections, heads, output, residual, norm");
    layerCommand->allow_windows_style_options(false);
    layer.addOptions(*layerCommand);
    CLI::App *explainCommand = app.add_subcommand(
        "explain", "Tell which kernel would compute a problem on a device, why, and what that costs, without running it");
    explainCommand->allow_windows_style_options(false);
    addRunOptions(*explainCommand, explainAlignments, explain.run, false);
    addExplainOptions(*explainCommand, explain);
    CLI::App *explainLayerCommand = explainCommand->add_subcommand(
        "layer", "Tell the steps of `vkattn layer`: the shapes, operations and bytes of each, and what computes it");
    explainLayerCommand->allow_windows_style_options(false);
    explainLayer.addOptions(*explainLayerCommand);
    CLI::App *explainLinearCommand = explainCommand->add_subcommand(
        "linear", "Tell how `vkattn linear` would be computed: in chunks or token by token, why, and what that costs");
    explainLinearCommand->allow_windows_style_options(false);
    explainLinear.addOptions(*explainLinearCommand);
    CLI::App *infoCommand =
        app.add_subcommand("info", "List every device: limits, features, what kernels it can run and why not the others");
    infoCommand->allow_windows_style_options(false);
    infoCommand->add_option("--verdicts", info.verdicts, verdictsText)->type_name(verdictsType);
    infoCommand->add_flag("--json", info.json, "Print one JSON object instead of text");
    TuneArguments tune;
    CLI::App *tuneCommand = app.add_subcommand(
        "tune", "Measure which tiles of the flash and decode kernels are fastest on a device, and write them to a file that run uses");
    tuneCommand->allow_windows_style_options(false);
    addTuneOptions(*tuneCommand, tune);
    ConformParser conform;
    CLI::App *conformCommand = app.add_subcommand(
        "conform", "Test devices and their drivers: every kernel, every option, hostile input; with reports for people and for CI");
    conformCommand->allow_windows_style_options(false);
    conform.addOptions(*conformCommand);
    LabParser lab;
    CLI::App *labCommand = app.add_subcommand(
        "lab", "Run an experiment of the notes on attention: a table, a CSV and a picture, with the theory and the notes' mistakes");
    labCommand->allow_windows_style_options(false);
    lab.addOptions(*labCommand);

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        if (error.get_exit_code() != 0)
            throw Failure(std::string(error.what()) + ": see vkattn " +
                          (runCommand->parsed()             ? "run --help"
                           : gradientCommand->parsed()      ? "grad --help"
                           : rotaryCommand->parsed()        ? "rotary --help"
                           : linearCommand->parsed()        ? "linear --help"
                           : mergeCommand->parsed()         ? "merge --help"
                           : appendCommand->parsed()        ? "append --help"
                           : inspectCommand->parsed()       ? "inspect --help"
                           : layerCommand->parsed()         ? "layer --help"
                           : explainLayerCommand->parsed()  ? "explain layer --help"
                           : explainLinearCommand->parsed() ? "explain linear --help"
                           : explainCommand->parsed()       ? "explain --help"
                           : tuneCommand->parsed()          ? "tune --help"
                           : conformCommand->parsed()       ? "conform --help"
                           : labCommand->parsed()           ? "lab --help"
                                                            : "--help"));
        app.exit(error); // help or version, on stdout
        return line;
    }
    if (runCommand->parsed()) {
        checkRun(*runCommand, alignments, run);
        checkValues(run, !run.files[VKATTN_V].empty(), true);
        checkConflicts(*runCommand, run, {});
        line.run = run;
    } else if (gradientCommand->parsed()) {
        line.gradient = gradient.interpret(*gradientCommand);
    } else if (rotaryCommand->parsed()) {
        line.rotary = rotary.interpret(*rotaryCommand);
    } else if (linearCommand->parsed()) {
        line.linear = linear.interpret(*linearCommand);
    } else if (mergeCommand->parsed()) {
        line.merge = merge.interpret(*mergeCommand);
    } else if (appendCommand->parsed()) {
        line.append = append.interpret(*appendCommand);
    } else if (inspectCommand->parsed()) {
        line.inspect = inspect.interpret(*inspectCommand);
    } else if (layerCommand->parsed()) {
        line.layer = layer.interpret(*layerCommand);
    } else if (explainLayerCommand->parsed()) {
        refuseOptionsBefore(*explainLayerCommand);
        line.explainLayer = explainLayer.interpret(*explainLayerCommand);
    } else if (explainLinearCommand->parsed()) {
        refuseOptionsBefore(*explainLinearCommand);
        line.explainLinear = explainLinear.interpret(*explainLinearCommand);
    } else if (explainCommand->parsed()) {
        checkRun(*explainCommand, explainAlignments, explain.run);
        checkExplain(*explainCommand, explain);
        checkConflicts(*explainCommand, explain.run, explain.assumed);
        line.explain = explain;
    } else if (infoCommand->parsed()) {
        refuseMissingValues(*infoCommand);
        line.info = info;
    } else if (tuneCommand->parsed()) {
        refuseMissingValues(*tuneCommand);
        line.tune = tune;
    } else if (conformCommand->parsed()) {
        line.conform = conform.interpret(*conformCommand);
        line.conform->commandLine.assign(argv + 1, argv + argc);
    } else if (labCommand->parsed()) {
        line.lab = lab.interpret(*labCommand);
    } else {
        std::cerr << app.help();
        line.status = ExitStatus::badInput;
    }
    return line;
}

} // namespace vkattn::tool
