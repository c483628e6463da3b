#include "tool/explain/explain_arguments.hpp"

#include "program/options/option_values.hpp"
#include "tool/options/names.hpp"
#include "tool/options/run_arguments.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <span>

namespace vkattn::tool {
using namespace program;
namespace {

void checkShapes(const CLI::App &app, ExplainArguments &explain) {
    Assumptions &assumed = explain.assumed;
    const std::string *files = explain.run.files;
    const bool anyFile = !files[VKATTN_Q].empty() || !files[VKATTN_K].empty() || !files[VKATTN_V].empty();
    const bool anyShape =
        std::any_of(std::begin(assumed.shapes), std::end(assumed.shapes), [](const auto &shape) { return !shape.empty(); });
    if (anyShape && anyFile)
        throw Failure("--shape-q, --shape-k and --shape-v stand in place of the files --q, --k and --v: give one kind and not both");
    const bool inKeys = explain.run.valuesInKeys > 0;
    checkValuesInKeys(explain.run, !files[VKATTN_V].empty() || !assumed.shapes[2].empty());
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

} // namespace

void ExplainParser::addOptions(CLI::App &app) {
    ExplainArguments &explain = typed_;
    addRunOptions(app, alignments_, explain.run, false);
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

ExplainArguments ExplainParser::interpret(const CLI::App &app) {
    ExplainArguments &explain = typed_;
    checkRun(app, alignments_, explain.run);
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
    checkConflicts(app, explain.run, assumed);
    return explain;
}

} // namespace vkattn::tool
