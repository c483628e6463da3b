#include "tool/options/arguments.hpp"

#include "tool/options/names.hpp"
#include "tool/options/option_values.hpp"

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

constexpr uint32_t maxSlices = 1000000;
constexpr uint32_t maxDim = 2048, maxTuneSeconds = 86400, maxTuneDims = 12; // rows of a tuning file

// What --causal and --align say: true for top-left.
struct Alignments {
    std::optional<bool> causal, align;
};

// The words of `explain --with`, and the roles that each stands for.
struct Presence {
    const char *word;
    uint64_t roles;
};
constexpr uint64_t bitOf(vkattn_role role) {
    return uint64_t{1} << role;
}
constexpr Presence presences[] = {{"mask", bitOf(VKATTN_MASK)},
                                  {"bitmask", bitOf(VKATTN_BIT_MASK)},
                                  {"bias", bitOf(VKATTN_BIAS)},
                                  {"alibi", bitOf(VKATTN_ALIBI_SLOPES)},
                                  {"sinks", bitOf(VKATTN_SINKS)},
                                  {"lengths", bitOf(VKATTN_KEY_LENGTHS)},
                                  {"documents", bitOf(VKATTN_DOC_IDS_Q) | bitOf(VKATTN_DOC_IDS_K)},
                                  {"lse", bitOf(VKATTN_LSE)},
                                  {"weights", bitOf(VKATTN_WEIGHTS)}};

float parseFloat(const std::string &option, const std::string &text, bool allowNegative) {
    const std::string expected = allowNegative ? "a finite number" : "a finite number of 0 or more (0 = none)";
    char *end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0') badValue(option, expected, text);
    const auto rounded = static_cast<float>(value);
    if (!std::isfinite(rounded) || (!allowNegative && value < 0)) badValue(option, expected, text);
    if (value != 0 && rounded == 0)
        throw Failure(option + " " + text + " is too small for float32, where it would be 0: give 0 or a larger number");
    return rounded;
}

// True for top-left.
bool parseAlignment(const std::string &option, const std::string &text) {
    if (text != "top-left" && text != "bottom-right") badValue(option, "top-left or bottom-right", text);
    return text == "top-left";
}

void readWindow(const std::string &text, RunArguments &run) {
    const size_t comma = text.find(',');
    if (comma == std::string::npos || !parseInteger(std::string_view(text).substr(0, comma), run.windowLeft) ||
        !parseInteger(std::string_view(text).substr(comma + 1), run.windowRight))
        badValue("--window", "two integers LEFT,RIGHT like 127,0 (-1 = open on that side)", text);
    if (run.windowLeft < -1 || run.windowRight < -1)
        throw Failure("negative window '" + text +
                      "': each side of --window is the number of keys seen there, 0 or more, or -1 for all of them");
    run.flags |= VKATTN_WINDOW;
}

void applyAlignments(const Alignments &given, RunArguments &run) {
    const auto name = [](bool topLeft) { return std::string(topLeft ? "top-left" : "bottom-right"); };
    if (given.causal && given.align && *given.causal != *given.align)
        throw Failure("--causal " + name(*given.causal) + " and --align " + name(*given.align) +
                      " disagree: --causal names the alignment of the window too, leave --align out");
    if (given.causal) run.flags |= VKATTN_CAUSAL;
    if (given.causal.value_or(false) || given.align.value_or(false)) run.flags |= VKATTN_ALIGN_TOP_LEFT;
}

// How the user has said that an operand takes part; empty where it does not. `assumed`: what
// `explain` was told without files.
std::string spelling(const RunArguments &run, const Assumptions &assumed, vkattn_role role) {
    if (!run.files[role].empty()) return operandName(role).option;
    if (assumed.sequences > 0 && (role == VKATTN_CU_SEQ_Q || role == VKATTN_CU_SEQ_K)) return "--ragged";
    for (const Presence &presence : presences)
        if ((assumed.roles & presence.roles) != 0 && (presence.roles >> role & 1) != 0) return std::string("--with ") + presence.word;
    return "";
}

void checkConflicts(const CLI::App &app, const RunArguments &run, const Assumptions &assumed) {
    const auto given = [&](vkattn_role role) { return spelling(run, assumed, role); };
    if (app.count("--align") > 0 && (run.flags & (VKATTN_CAUSAL | VKATTN_WINDOW)) == 0 && given(VKATTN_ALIBI_SLOPES).empty())
        throw Failure("--align says where a query stands among the keys, and nothing asks for that: add --window, --causal or --alibi, or "
                      "leave --align out");
    const auto both = [&](vkattn_role a, vkattn_role b) { return !given(a).empty() && !given(b).empty(); };
    if (both(VKATTN_MASK, VKATTN_BIT_MASK))
        throw Failure(given(VKATTN_MASK) + " and " + given(VKATTN_BIT_MASK) +
                      " are both given, expected one boolean mask: combine them into one of the two with a logical and");
    if (both(VKATTN_KEY_LENGTHS, VKATTN_CU_SEQ_K))
        throw Failure(given(VKATTN_KEY_LENGTHS) + " and " + given(VKATTN_CU_SEQ_K) +
                      " are both given, expected one of them: ragged sequences have their lengths in the offsets, so leave " +
                      given(VKATTN_KEY_LENGTHS) + " out, or give padded [batch, head, token, dim] arrays without offsets");
    const auto pair = [&](vkattn_role a, vkattn_role b, const char *reason) {
        if (given(a).empty() == given(b).empty()) return;
        const vkattn_role missing = given(a).empty() ? a : b, present = given(a).empty() ? b : a;
        throw Failure(given(present) + " is given without " + operandName(missing).option + ", expected both or none: " + reason);
    };
    pair(VKATTN_CU_SEQ_Q, VKATTN_CU_SEQ_K, "queries and keys each have offsets; where they are the same, give the same file twice");
    pair(VKATTN_DOC_IDS_Q, VKATTN_DOC_IDS_K,
         "a query sees the keys of its own document; where the ids are the same, give the same file twice");
}

void checkRun(const CLI::App &app, const Alignments &alignments, RunArguments &run) {
    refuseMissingValues(app);
    applyAlignments(alignments, run);
    if (run.tuning && !run.findTuning)
        throw Failure("--tuning names a file and --no-tuning wants the built-in tiles: give one of the two and not both");
}

void checkShapes(const CLI::App &app, ExplainArguments &explain) {
    Assumptions &assumed = explain.assumed;
    const std::string *files = explain.run.files;
    const bool anyFile = !files[VKATTN_Q].empty() || !files[VKATTN_K].empty() || !files[VKATTN_V].empty();
    const bool anyShape =
        std::any_of(std::begin(assumed.shapes), std::end(assumed.shapes), [](const auto &shape) { return !shape.empty(); });
    if (anyShape && anyFile)
        throw Failure("--shape-q, --shape-k and --shape-v stand in place of the files --q, --k and --v: give one kind and not both");
    if (anyShape ? assumed.shapes[0].empty() || assumed.shapes[1].empty()
                 : files[VKATTN_Q].empty() || files[VKATTN_K].empty() || files[VKATTN_V].empty())
        throw Failure("explain needs arrays or their shapes: give --q, --k and --v, or --shape-q, --shape-k and where it differs from the "
                      "keys' --shape-v");
    if (anyShape && assumed.shapes[2].empty()) assumed.shapes[2] = assumed.shapes[1];
    if (app.count("--dtype") > 0 && !anyShape)
        throw Failure("--dtype is the type of --shape-q, --shape-k and --shape-v; files have their own, so leave it out");
}

void checkExplain(const CLI::App &app, ExplainArguments &explain) {
    const Assumptions &assumed = explain.assumed;
    checkShapes(app, explain);
    for (const Presence &presence : presences)
        for (const OperandName &name : operandNames)
            if ((assumed.roles & presence.roles & bitOf(name.role)) != 0 && !explain.run.files[name.role].empty())
                throw Failure(std::string("--with ") + presence.word + " stands in place of a file, and " + name.option +
                              " gives one: leave one of the two out");
    for (const vkattn_role role : {VKATTN_CU_SEQ_Q, VKATTN_CU_SEQ_K})
        if (assumed.sequences > 0 && !explain.run.files[role].empty())
            throw Failure(std::string("--ragged stands in place of files, and ") + operandName(role).option +
                          " gives one: leave one of the two out");
}

void readPresences(const std::string &text, Assumptions &assumed) {
    for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
        end = text.find(',', begin);
        const std::string word = text.substr(begin, end - begin);
        std::string words;
        const Presence *found = nullptr;
        for (const Presence &presence : presences) {
            words += (words.empty() ? "" : ", ") + std::string(presence.word);
            if (word == presence.word) found = &presence;
        }
        if (found == nullptr) badValue("--with", "a list like mask,sinks of " + words, word);
        assumed.roles |= found->roles;
    }
}

void readRagged(const std::string &text, Assumptions &assumed) {
    std::vector<uint32_t> numbers;
    if (!parseList(text, numbers) || (numbers.size() != 1 && numbers.size() != 3) || numbers[0] == 0)
        badValue("--ragged", "SEQUENCES or SEQUENCES,QUERIES,KEYS like 8,1024,1024 (the most that one sequence has)", text);
    assumed.sequences = numbers[0];
    if (numbers.size() == 3) assumed.maxSeqQ = numbers[1], assumed.maxSeqK = numbers[2];
}

vkattn_dtype readFloatType(const std::string &option, const std::string &text) {
    return static_cast<vkattn_dtype>(parseWord(option, text, std::span(dtypeNames).first(VKATTN_BF16 + 1)));
}

void addExplainOptions(CLI::App &app, Assumptions &assumed) {
    const auto shape = [&](const char *name, std::vector<uint32_t> &target, const char *text) {
        addValue(app, name, "B,H,N,D", text, [name, &target](const std::string &typed) {
            if (!parseList(typed, target) || target.size() < 2 || target.size() > 4)
                badValue(name, "2 to 4 whole numbers [BATCH,[HEADS,]]TOKENS,DIM like 1,8,4096,64", typed);
        });
    };
    shape("--shape-q", assumed.shapes[0], "Shape of the queries, in place of --q; 2 to 4 numbers");
    shape("--shape-k", assumed.shapes[1], "Shape of the keys, in place of --k");
    shape("--shape-v", assumed.shapes[2], "Shape of the values, in place of --v; default: that of the keys");
    addValue(app, "--dtype", "f32|f16|bf16", "Type of these, and of a bias in --with; default f32",
             [&](const std::string &text) { assumed.dtype = readFloatType("--dtype", text); });
    addValue(app, "--with", "LIST",
             "What takes part without a file, as mask,sinks: mask, bitmask, bias (these [query, key], broadcast), alibi, sinks, lengths, "
             "documents, lse, weights",
             [&](const std::string &text) { readPresences(text, assumed); });
    addValue(app, "--ragged", "S[,Q,K]", "As with --cu-seqlens-q and -k: S sequences, of at most Q queries and K keys",
             [&](const std::string &text) { readRagged(text, assumed); });
    app.footer(
        "Every option of `vkattn run` is taken, so that a run is explained by changing that word. Of files only headers are read (and "
        "--cu-seqlens-q and -k); nothing is computed or written, and --out, --verify and --repeat do nothing.");
}

constexpr const char *verdictsType = "FILE|none", *verdictsText = "Where to keep which kernels' self-tests have passed or failed on a "
                                                                  "device; default ~/.cache/vkattn/verdicts";

void addRunOptions(CLI::App &app, Alignments &alignments, RunArguments &run, bool arraysRequired) {
    const auto file = [&](vkattn_role role, const char *text) { return addFile(app, run, role, text); };
    const auto value = [&](const char *name, const char *type, const std::string &text, std::function<void(const std::string &)> read) {
        return addValue(app, name, type, text, std::move(read));
    };
    const auto alignment = [&](const char *name, std::optional<bool> &target, const char *text) {
        value(name, "ALIGNMENT", text, [=, &target](const std::string &typed) { target = parseAlignment(name, typed); });
    };
    file(VKATTN_Q, "Queries: float32 or float16 .npy, [token, dim], [head, token, dim] or [batch, head, token, dim]")
        ->required(arraysRequired);
    file(VKATTN_K, "Keys, likewise; their number of heads divides that of the queries")->required(arraysRequired);
    file(VKATTN_V, "Values, likewise; as many heads and tokens as the keys")->required(arraysRequired);
    file(VKATTN_OUT, "Where to write the result, in the rank of the queries")->required(arraysRequired);
    value("--round-to", "f16|bf16", "Round queries, keys and values to this type and compute with them so", [&](const std::string &text) {
        // f32 is what arrays are without it
        const auto narrow = std::span(dtypeNames).subspan(VKATTN_F16, 2);
        run.roundTo = static_cast<vkattn_dtype>(VKATTN_F16 + parseWord("--round-to", text, narrow));
    });
    value("--out-dtype", "f32|f16|bf16",
          "Type of the result; default: that of the queries' file. .npy has no bf16: it is written as float32",
          [&](const std::string &text) { run.outDtype = readFloatType("--out-dtype", text); });
    file(VKATTN_MASK, "bool or uint8 [query, key], [head, query, key] or [batch, head, query, key], 1 where it broadcasts; 0 hides");
    file(VKATTN_BIT_MASK,
         "uint32 of such a shape, 32 keys in a word, the first in its lowest bit, and so ceil(keys / 32) words in a row; 0 hides");
    file(VKATTN_BIAS, "float32 or float16 of a mask's shape, added to the scores; -inf hides");
    file(VKATTN_ALIBI_SLOPES, "float32 or float16 [head]: the slope times the key's distance from the query's position is subtracted");
    file(VKATTN_SINKS, "float32 or float16 [head]: a score that takes part in the softmax and has no value; -inf is none");
    alignment("--causal", alignments.causal, "top-left or bottom-right: hide keys after the query's own position");
    alignment("--align", alignments.align,
              "top-left or bottom-right (default): where queries stand among the keys, for --window and --alibi without --causal");
    value("--window", "L,R", "How many keys a query sees on the left and right of its position; -1 = all",
          [&](const std::string &text) { readWindow(text, run); });
    value("--scale", "NUMBER", "Factor of the scores; default 1/sqrt(dim)", [&](const std::string &text) {
        run.scale = parseFloat("--scale", text, true);
        run.flags |= VKATTN_SCALE;
    });
    value("--softcap", "NUMBER", "c > 0: scores become c * tanh(score / c); default 0 = none",
          [&](const std::string &text) { run.softcap = parseFloat("--softcap", text, false); });
    file(VKATTN_KEY_LENGTHS, "int32 or int64 [batch]: how many keys each batch entry has");
    file(VKATTN_CU_SEQ_Q,
         "int32 or int64 [sequence + 1]: sequence n has the queries from entry n up to entry n + 1 (FlashAttention's varlen)");
    file(VKATTN_CU_SEQ_K, "The same for keys and values; masks and biases are then [sequence, head, query, key] of the longest sequences");
    file(VKATTN_DOC_IDS_Q, "int32, int64 or uint32 [token] or [batch, token]: a query sees keys of its own document only");
    file(VKATTN_DOC_IDS_K, "The same for keys");
    file(VKATTN_LSE, "Also write the log-sum-exp of the scores, float32 [..., query]");
    file(VKATTN_WEIGHTS, "Also write the attention weights, float32 [..., query, key]; with --cu-seqlens-q [sequence, head, query, key]");
    app.add_flag_callback(
        "--deterministic", [&run] { run.flags |= VKATTN_DETERMINISTIC; },
        "Bitwise the same result whatever the batch size, on one device and kernel");
    value("--kernel", "NAME", kernelList("auto (default)") + ": which Vulkan kernel computes",
          [&](const std::string &text) { run.kernel = parseKernel("--kernel", text); });
    value("--slices", "N", "Submit the work to the device in N nearly equal pieces, so that none runs for long; default 1",
          [&](const std::string &text) { run.slices = parseWhole("--slices", text, maxSlices); });
    app.add_option("--tuning", run.tuning, "Tiles that `vkattn tune` has measured; default: its file for this device, where there is one")
        ->type_name("FILE");
    app.add_flag_callback(
        "--no-tuning", [&run] { run.findTuning = false; }, "Do not look for that file: the built-in tiles");
    app.add_option("--verdicts", run.verdicts, verdictsText)->type_name(verdictsType);
    addComputeOptions(app, run);
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
    CLI::App *explainCommand = app.add_subcommand(
        "explain", "Tell which kernel would compute a problem on a device, why, and what that costs, without running it");
    explainCommand->allow_windows_style_options(false);
    addRunOptions(*explainCommand, explainAlignments, explain.run, false);
    addExplainOptions(*explainCommand, explain.assumed);
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

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        if (error.get_exit_code() != 0)
            throw Failure(std::string(error.what()) + ": see vkattn " +
                          (runCommand->parsed()       ? "run --help"
                           : rotaryCommand->parsed()  ? "rotary --help"
                           : explainCommand->parsed() ? "explain --help"
                           : tuneCommand->parsed()    ? "tune --help"
                           : conformCommand->parsed() ? "conform --help"
                                                      : "--help"));
        app.exit(error); // help or version, on stdout
        return line;
    }
    if (runCommand->parsed()) {
        checkRun(*runCommand, alignments, run);
        checkConflicts(*runCommand, run, {});
        line.run = run;
    } else if (rotaryCommand->parsed()) {
        line.rotary = rotary.interpret(*rotaryCommand);
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
    } else {
        std::cerr << app.help();
        line.status = ExitStatus::badInput;
    }
    return line;
}

} // namespace vkattn::tool
