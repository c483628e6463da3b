#include "tool/options/inspect_arguments.hpp"

#include "program/options/option_values.hpp"
#include "tool/options/names.hpp"

#include <CLI/CLI.hpp>
#include <vkattn/statistics.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr uint32_t mostExact = 1024;
// Those that are taken with weights.
constexpr const char *ofWeights[] = {"--weights", "--zeros",  "--tokens", "--stats",    "--received",    "--json",         "--csv",
                                     "--html",    "--png",    "--align",  "--help",     "--thresholds",  "--seed-classes", "--spectrum",
                                     "--causal",  "--window", "--top",    "--top-keys", "--top-weights", "--density",      "--batch-name"};
constexpr const char *zerosWords[] = {"hidden", "visible"};

double readDensity(const std::string &text) {
    char *end = nullptr;
    const double threshold = std::strtod(text.c_str(), &end);
    if (end == text.c_str() || *end != '\0' || !(threshold > 0 && threshold < 1))
        badValue("--density", "a weight above 0 and below 1, like 0.1", text);
    return threshold;
}

void readThresholds(const std::string &text, double (&thresholds)[3]) {
    const char *at = text.c_str();
    for (size_t n = 0; n < 3; n++) {
        char *end = nullptr;
        thresholds[n] = std::strtod(at, &end);
        if (end == at || *end != (n < 2 ? ',' : '\0') || !std::isfinite(thresholds[n]))
            badValue("--thresholds", "three numbers DIAGONAL,LOCAL,GLOBAL like 0.3,0.2,0.8", text);
        at = end + 1;
    }
}

} // namespace

void InspectParser::addOptions(CLI::App &app) {
    const auto file = [&](const char *name, std::string &target, const char *text) {
        app.add_option(name, target, text)->type_name("FILE");
    };
    addFile(app, typed_, VKATTN_Q, "Queries: float32 or float16 .npy, [token, dim], [head, token, dim] or [batch, head, token, dim]");
    addFile(app, typed_, VKATTN_K, "Keys, likewise; their number of heads divides that of the queries");
    file(
        "--weights", typed_.weights,
        "In place of queries and keys the attention weights: float16, float32 or float64 [query, key], [head, query, key] or [batch, head, "
        "query, key]");
    addValue(app, "--zeros", "hidden|visible",
             "Whether weights of exactly 0 count as hidden (default), or only what --causal and --window hide",
             [&](const std::string &text) { typed_.zerosVisible = parseWord("--zeros", text, zerosWords) == 1; });
    file("--tokens", typed_.tokens, "UTF-8 text with one token a line, which names keys from the first on");
    file(
        "--stats", typed_.stats,
        "Write float32 [..., query, 8]: entropy, largest weight, its key, mean distance, diagonal, weight of the first key, sum of squared "
        "weights, visible keys. Zeros with key -1 where a row sees nothing");
    file("--received", typed_.received, "Write float32 [..., key]: the mean weight on each key, over the rows that see something");
    file("--top-keys", typed_.topKeys,
         "Write int32 [..., query, K]: the keys with the largest weights, largest first; -1 where a row sees fewer");
    file("--top-weights", typed_.topWeights, "Write float32 [..., query, K]: the weights of those keys");
    addValue(app, "--top", "K", "Keys of each row in --top-keys and --top-weights: 1 to 16, default 8",
             [&](const std::string &text) { typed_.topCount = parseWhole("--top", text, VKATTN_MAX_TOP_KEYS); });
    addValue(app, "--density", "TAU", "Also the share of visible keys with a weight above TAU; 0.1 in --json and --csv",
             [&](const std::string &text) { typed_.density = readDensity(text); });
    file("--json", typed_.jsonFile, "Write all figures as JSON (docs/analysis.md)");
    file("--csv", typed_.csv, "Write a row of figures for each head");
    file("--html", typed_.html, "Write all heads as one page for browsers, which needs no network");
    app.add_option("--png", typed_.png, "Write heat maps of all heads (heads.png) and of each into this folder; made where it is missing")
        ->type_name("DIR");
    addValue(app, "--thresholds", "D,L,G", "What makes a head diagonal, local or global; default 0.3,0.2,0.8",
             [&](const std::string &text) { readThresholds(text, typed_.thresholds); });
    app.add_flag("--seed-classes", typed_.seedClasses,
                 "Also the classes as notes have them that take no mask into account, of the mean over the batch");
    addValue(app, "--spectrum", "N",
             "Find all singular values and eigenvalues of heads of up to N queries and keys, default 256, at most 1024; of larger ones the "
             "largest 16 singular values",
             [&](const std::string &text) {
                 typed_.exactSpectrum = parseWhole("--spectrum", text, mostExact);
                 typed_.asksForSpectrum = true;
             });
    app.add_option("--batch-name", typed_.batchName, "What a batch entry is, in pictures and on the page, such as layer")
        ->type_name("NAME");
    addValue(app, "--round-to", "f16|bf16", "Round queries and keys to this type and compute with them so", [&](const std::string &text) {
        typed_.roundTo =
            static_cast<vkattn_dtype>(VKATTN_F16 + parseWord("--round-to", text, std::span(dtypeNames).subspan(VKATTN_F16, 2)));
    });
    addAttentionOptions(app, alignments_, typed_);
    addSlicesOption(app, typed_);
    addTuningOptions(app, typed_);
    addDeviceChoice(app, typed_);
    app.footer(
        "Measures are of the weights of a row divided by their sum over the keys, whatever a sink takes; before dropout. From queries and\n"
        "keys most take no weights in memory. --html, --png, --seed-classes and --spectrum do, of one head at a time, and so does the "
        "rest\n"
        "where a head has at most 8192 x 8192 weights (docs/analysis.md).\n\n"
        "Exit status: 0 success, 2 bad usage or input, 3 the device cannot be used and --no-fallback was given.");
}

InspectArguments InspectParser::interpret(const CLI::App &app) {
    checkRun(app, alignments_, typed_);
    const bool q = !typed_.files[VKATTN_Q].empty(), k = !typed_.files[VKATTN_K].empty(), weights = !typed_.weights.empty();
    if (weights && (q || k))
        throw Failure("--weights stands in place of queries and keys, and " + std::string(q ? "--q" : "--k") +
                      " gives some: leave one of the two out");
    if (!weights && !(q && k))
        throw Failure(q || k ? std::string(q ? "--k" : "--q") + " is missing: inspect computes weights from both queries and keys"
                             : "inspect needs attention to look at: give --q and --k, or --weights");
    if (weights)
        for (const CLI::Option *option : app.get_options())
            if (option->count() > 0 &&
                std::none_of(std::begin(ofWeights), std::end(ofWeights), [&](const char *name) { return option->check_name(name); }))
                throw Failure("--weights are there already, and " + option->get_name() +
                              " says how they are computed from queries and keys: leave " + option->get_name() + " out");
    if (!weights && app.count("--zeros") > 0)
        throw Failure("--zeros says which pairs of --weights are visible, and of queries and keys that is known: leave --zeros out");
    if (weights && !typed_.zerosVisible && (typed_.flags & (VKATTN_CAUSAL | VKATTN_WINDOW)) != 0)
        throw Failure("--causal and --window say which pairs of --weights are visible, and now that is every one above 0: add --zeros "
                      "visible, or leave them out");
    if (app.count("--top") > 0 && typed_.topKeys.empty() && typed_.topWeights.empty())
        throw Failure(
            "--top says how many keys of a row --top-keys and --top-weights have, and neither is there: add one, or leave --top out");
    checkConflicts(app, typed_, {});
    typed_.topLeft = (typed_.flags & VKATTN_ALIGN_TOP_LEFT) != 0;
    // The result is of no use: as little of it as there can be.
    typed_.flags |= VKATTN_VALUES_IN_KEYS;
    typed_.valuesInKeys = 1;
    // Weights are those before dropout.
    typed_.dropout = 0;
    return typed_;
}

} // namespace vkattn::tool
