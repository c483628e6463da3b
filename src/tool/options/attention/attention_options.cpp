#include "tool/options/attention/attention_options.hpp"

#include "program/options/option_values.hpp"
#include "tool/options/names.hpp"

#include <vkattn/vkattn.h>

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <span>

namespace vkattn::tool {
using namespace program;

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

float parseLossScale(const std::string &text) {
    const float scale = parseFloat("--loss-scale", text, false);
    if (scale == 0) badValue("--loss-scale", "a finite number above 0", text);
    return scale;
}

double parseProbability(const std::string &option, const std::string &text) {
    char *end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !(value >= 0 && value <= 1)) badValue(option, "a probability from 0 (none) to 1", text);
    return value;
}

namespace {

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
    if (!run.files[role].empty()) return operandName(run, role).option;
    if (assumed.sequences > 0 && (role == VKATTN_CU_SEQ_Q || role == VKATTN_CU_SEQ_K)) return "--ragged";
    for (const Presence &presence : presences)
        if (assumed.includes(presence) && presence.covers(role)) return std::string("--with ") + presence.word;
    return "";
}

} // namespace

void checkConflicts(const CLI::App &app, const RunArguments &run, const Assumptions &assumed) {
    const auto given = [&](vkattn_role role) { return spelling(run, assumed, role); };
    checkTokenProjections(app, run, given);
    // Of `inspect`, whose distances are from where a query stands.
    const bool measuresDistances = app.get_option_no_throw("--received") != nullptr;
    if (app.count("--align") > 0 && !measuresDistances && (run.flags & (VKATTN_CAUSAL | VKATTN_WINDOW)) == 0 &&
        run.rules.grid.rule == VKATTN_GRID_NONE && given(VKATTN_ALIBI_SLOPES).empty())
        throw Failure(
            "--align says where a query stands among the keys, and nothing asks for that: add --window, --causal, --alibi or a grid, or "
            "leave --align out");
    checkRules(app, run);
    checkCache(app);
    checkProgram(run);
    const auto both = [&](vkattn_role a, vkattn_role b) { return !given(a).empty() && !given(b).empty(); };
    if (both(VKATTN_MASK, VKATTN_BIT_MASK))
        throw Failure(given(VKATTN_MASK) + " and " + given(VKATTN_BIT_MASK) +
                      " are both given, expected one boolean mask: combine them into one of the two with a logical and");
    if (both(VKATTN_KEY_LENGTHS, VKATTN_CU_SEQ_K))
        throw Failure(given(VKATTN_KEY_LENGTHS) + " and " + given(VKATTN_CU_SEQ_K) +
                      " are both given, expected one of them: ragged sequences have their lengths in the offsets, so leave " +
                      given(VKATTN_KEY_LENGTHS) + " out, or give padded [batch, head, token, dim] arrays without offsets");
    const auto counted = [&](const char *name) {
        const CLI::Option *const option = app.get_option_no_throw(name); // not every command writes them
        return option != nullptr && option->count() > 0;
    };
    if (counted("--lse") && counted("--row-statistics"))
        throw Failure("--lse and --row-statistics are both given, expected one of them: the log-sum-exp is the maximum plus the natural "
                      "logarithm of the sum, so leave --lse out");
    const auto pair = [&](vkattn_role a, vkattn_role b, const char *reason) {
        if (given(a).empty() == given(b).empty()) return;
        const vkattn_role missing = given(a).empty() ? a : b, present = given(a).empty() ? b : a;
        throw Failure(given(present) + " is given without " + operandName(missing).option + ", expected both or none: " + reason);
    };
    pair(VKATTN_CU_SEQ_Q, VKATTN_CU_SEQ_K, "queries and keys each have offsets; where they are the same, give the same file twice");
    pair(VKATTN_DOC_IDS_Q, VKATTN_DOC_IDS_K,
         "a query sees the keys of its own document; where the ids are the same, give the same file twice");
    const bool drawsForOutput = app.get_option_no_throw("--output-dropout") != nullptr && counted("--output-dropout");
    for (const char *option : {"--seed", "--offset", "--weights-after-dropout"})
        if (counted(option) && !counted("--dropout") && !(drawsForOutput && option != std::string_view("--weights-after-dropout")))
            throw Failure(option +
                          std::string(" says how weights are dropped, and nothing drops any: add --dropout with a probability, 0 for "
                                      "none, or leave ") +
                          option + " out");
    const bool differentiates = app.get_option_no_throw(operandName(VKATTN_D_WEIGHTS).option) != nullptr;
    if (counted("--weights-after-dropout") && differentiates && given(VKATTN_D_WEIGHTS).empty())
        throw Failure("--weights-after-dropout says of which weights --dweights is the gradient, and there is none: add --dweights with a "
                      "file, or leave --weights-after-dropout out");
    if (app.get_option_no_throw("--scores-stage") != nullptr && counted("--scores-stage") && given(VKATTN_SCORES).empty())
        throw Failure("--scores-stage says which scores are written, and none are: add --scores with a file, or leave --scores-stage out");
    if (counted("--weights-after-dropout") && !differentiates && given(VKATTN_WEIGHTS).empty())
        throw Failure("--weights-after-dropout says which weights are written, and none are: add --weights with a file, or leave "
                      "--weights-after-dropout out");
}

void checkRun(const CLI::App &app, const Alignments &alignments, RunArguments &run) {
    refuseMissingValues(app);
    applyAlignments(alignments, run);
    if (run.tuning && !run.findTuning)
        throw Failure("--tuning names a file and --no-tuning wants the built-in tiles: give one of the two and not both");
}

vkattn_dtype readFloatType(const std::string &option, const std::string &text) {
    return static_cast<vkattn_dtype>(parseWord(option, text, std::span(dtypeNames).first(VKATTN_BF16 + 1)));
}

void addOperandOptions(CLI::App &app, RunArguments &run, bool required) {
    const auto file = [&](vkattn_role role, const char *text) { return addFile(app, run, role, text); };
    file(VKATTN_Q, "Queries: float32 or float16 .npy, [token, dim], [head, token, dim] or [batch, head, token, dim]")->required(required);
    file(VKATTN_K, "Keys, likewise; their number of heads divides that of the queries")->required(required);
    file(VKATTN_V, "Values, likewise; as many heads and tokens as the keys"); // or --values-in-keys
}

void addTypeOptions(CLI::App &app, RunArguments &run, const std::string &roundText, const std::string &typeText) {
    const auto value = [&](const char *name, const char *type, const std::string &text, std::function<void(const std::string &)> read) {
        return addValue(app, name, type, text, std::move(read));
    };
    value("--round-to", "f16|bf16", roundText, [&](const std::string &text) {
        // f32 is what arrays are without it
        const auto narrow = std::span(dtypeNames).subspan(VKATTN_F16, 2);
        run.roundTo = static_cast<vkattn_dtype>(VKATTN_F16 + parseWord("--round-to", text, narrow));
    });
    value("--out-dtype", "f32|f16|bf16", typeText + ". .npy has no bf16: it is written as float32",
          [&](const std::string &text) { run.outDtype = readFloatType("--out-dtype", text); });
}

void addAttentionOptions(CLI::App &app, Alignments &alignments, RunArguments &run) {
    const auto file = [&](vkattn_role role, const char *text) { return addFile(app, run, role, text); };
    const auto value = [&](const char *name, const char *type, const std::string &text, std::function<void(const std::string &)> read) {
        return addValue(app, name, type, text, std::move(read));
    };
    const auto alignment = [&](const char *name, std::optional<bool> &target, const char *text) {
        value(name, "ALIGNMENT", text, [=, &target](const std::string &typed) { target = parseAlignment(name, typed); });
    };
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
    addRuleOptions(app, run);
    value("--scale", "NUMBER", "Factor of the scores; default 1/sqrt(dim)", [&](const std::string &text) {
        run.scale = parseFloat("--scale", text, true);
        run.flags |= VKATTN_SCALE;
    });
    value("--softcap", "NUMBER", "c > 0: scores become c * tanh(score / c); default 0 = none",
          [&](const std::string &text) { run.softcap = parseFloat("--softcap", text, false); });
    value("--dropout", "P", "Probability with which each weight is dropped, after the softmax; default 0 = none",
          [&](const std::string &text) { run.dropout = parseProbability("--dropout", text); });
    value("--seed", "N", "Which weights --dropout drops: another set for each seed; default 0", [&](const std::string &text) {
        if (!parseInteger(text, run.dropoutSeed)) badValue("--seed", "a whole number from 0 to 18446744073709551615", text);
    });
    value("--offset", "N", "Another set for each step with the same seed; default 0", [&](const std::string &text) {
        if (!parseInteger(text, run.dropoutOffset)) badValue("--offset", "a whole number from 0 to 4294967295", text);
    });
    file(VKATTN_KEY_LENGTHS, "int32 or int64 [batch]: how many keys each batch entry has");
    file(VKATTN_CU_SEQ_Q,
         "int32 or int64 [sequence + 1]: sequence n has the queries from entry n up to entry n + 1 (FlashAttention's varlen)");
    file(VKATTN_CU_SEQ_K, "The same for keys and values; masks and biases are then [sequence, head, query, key] of the longest sequences");
    file(VKATTN_DOC_IDS_Q, "int32, int64 or uint32 [token] or [batch, token]: a query sees keys of its own document only");
    file(VKATTN_DOC_IDS_K, "The same for keys");
    app.add_flag_callback(
        "--deterministic", [&run] { run.flags |= VKATTN_DETERMINISTIC; },
        "Bitwise the same result whatever the batch size, on one device and kernel");
    value("--kernel", "NAME", kernelList("auto (default)") + ": which Vulkan kernel computes",
          [&](const std::string &text) { run.kernel = parseKernel("--kernel", text); });
}

void addFurtherOutputs(CLI::App &app, RunArguments &run) {
    addFile(app, run, VKATTN_LSE, "Also write the log-sum-exp of the scores, float32 [..., query]");
    addValue(app, rowStatisticsName.option, "FILE",
             "In its place the maximum of each row's scores and the sum of exp(score - maximum), float32 [..., query, 2]: what a backward "
             "pass needs",
             [&](const std::string &text) {
                 run.files[VKATTN_LSE] = text;
                 run.rowStatistics = true;
                 run.flags |= VKATTN_ROW_STATISTICS;
             });
    addFile(app, run, VKATTN_WEIGHTS,
            "Also write the attention weights, float32 [..., query, key]; with --cu-seqlens-q [sequence, head, query, key]");
    app.add_flag_callback(
        "--weights-after-dropout", [&run] { run.flags |= VKATTN_WEIGHTS_DROPPED; },
        "--weights are those after dropout: 0 where dropped, the others scaled up");
}

void addScoresOptions(CLI::App &app, RunArguments &run) {
    addFile(app, run, VKATTN_SCORES,
            "Also write the scores, float32 [..., query, key]; with --cu-seqlens-q [sequence, head, query, key]; of what stage says");
    addValue(
        app, "--scores-stage", "raw|scaled|capped|final",
        "raw (default): the dots of queries and keys; scaled; capped: after --softcap; these have every pair, hidden ones too, and 0 past "
        "a length. final: after bias and ALiBi, and -inf where hidden",
        [&](const std::string &text) {
            run.scoresStage = static_cast<vkattn_score_stage>(parseWord("--scores-stage", text, scoreStageNames));
        });
}

void addSlicesOption(CLI::App &app, RunArguments &run) {
    constexpr uint32_t maxSlices = 1000000;
    addValue(app, "--slices", "N", "Submit the work to the device in N nearly equal pieces, so that none runs for long; default 1",
             [&](const std::string &text) { run.slices = parseWhole("--slices", text, maxSlices); });
}

void addTuningOptions(CLI::App &app, RunArguments &run) {
    app.add_option("--tuning", run.tuning, "Tiles that `vkattn tune` has measured; default: its file for this device, where there is one")
        ->type_name("FILE");
    app.add_flag_callback(
        "--no-tuning", [&run] { run.findTuning = false; }, "Do not look for that file: the built-in tiles");
    app.add_option("--verdicts", run.verdicts, verdictsText)->type_name(verdictsType);
}

void addDeviceOptions(CLI::App &app, RunArguments &run) {
    addTuningOptions(app, run);
    addComputeOptions(app, run);
}

} // namespace vkattn::tool
