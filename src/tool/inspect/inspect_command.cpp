#include "tool/inspect/inspect_command.hpp"

#include "picture/page.hpp"
#include "program/files/npy.hpp"
#include "program/files/output_file.hpp"
#include "tool/inspect/head_source.hpp"
#include "tool/inspect/pictures.hpp"
#include "tool/inspect/report.hpp"
#include "tool/inspect/statistics.hpp"
#include "tool/inspect/tokens.hpp"

#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>

namespace vkattn::tool {
using namespace program;
namespace {

// What outputs are made of.
struct Found {
    const Inspection &inspection;
    const HeadSource &source;
    const picture::Heads &heads; // where something shows them
};

// An output, and what makes its bytes once everything is known.
struct Output {
    const char *option;
    std::string path;
    std::function<std::string(const Found &)> bytes;
};

std::vector<uint64_t> withColumns(std::vector<uint64_t> shape, uint64_t columns) {
    shape.push_back(columns);
    return shape;
}

std::vector<Output> outputsOf(const InspectArguments &arguments) {
    return {{"--stats", arguments.stats,
             [](const Found &found) {
                 return npyBytes(withColumns(found.source.facts().rowShape, statisticsOfRow),
                                 rowStatistics(found.inspection, found.source));
             }},
            {"--received", arguments.received,
             [](const Found &found) { return npyBytes(found.source.facts().keyShape, receivedMass(found.inspection, found.source)); }},
            {"--top-keys", arguments.topKeys,
             [](const Found &found) {
                 const std::vector<uint64_t> shape = withColumns(found.source.facts().rowShape, found.inspection.measured.topKeys);
                 const std::vector<int32_t> keys = largestKeysOfRows(found.inspection, found.source);
                 std::string bytes = npyHeaderBytes(npyInt32, shape);
                 bytes.append(reinterpret_cast<const char *>(keys.data()), keys.size() * sizeof(int32_t));
                 return bytes;
             }},
            {"--top-weights", arguments.topWeights,
             [](const Found &found) {
                 return npyBytes(withColumns(found.source.facts().rowShape, found.inspection.measured.topKeys),
                                 largestWeightsOfRows(found.inspection, found.source));
             }},
            {"--json", arguments.jsonFile, [](const Found &found) { return inspectionJson(found.inspection); }},
            {"--csv", arguments.csv, [](const Found &found) { return inspectionCsv(found.inspection); }},
            {"--html", arguments.html, [](const Found &found) { return picture::pageOf(found.heads); }}};
}

// A file for each picture of --png.
std::vector<Output> picturesOf(const std::string &folder, const SourceFacts &facts) {
    std::vector<Output> outputs;
    for (const std::string &name : pictureNames(facts.batch, facts.heads))
        outputs.push_back({"--png", (std::filesystem::path(folder) / name).string(),
                           [place = outputs.size()](const Found &found) { return pictureBytes(found.heads, place); }});
    return outputs;
}

} // namespace

ExitStatus inspectCommand(const InspectArguments &arguments) {
    const std::unique_ptr<HeadSource> source = arguments.weights.empty() ? attentionSource(arguments) : weightsSource(arguments);
    std::vector<std::string> inputs = source->facts().inputs, tokens;
    if (!arguments.tokens.empty()) {
        inputs.push_back(arguments.tokens);
        tokens = readTokens(arguments.tokens, source->facts().keys);
    }
    // Before anything is computed it is known that the outputs can be written.
    std::vector<Output> outputs = outputsOf(arguments);
    std::erase_if(outputs, [](const Output &output) { return output.path.empty(); });
    std::optional<NewFolder> folder; // outlives the files in it
    if (!arguments.png.empty()) {
        folder.emplace(arguments.png);
        if (folder->error())
            throw Failure("--png " + arguments.png + ": it cannot be made a folder (" + folder->error().message() + "): name another");
        for (Output &output : picturesOf(arguments.png, source->facts())) outputs.push_back(std::move(output));
    }
    std::vector<OutputTarget> targets;
    for (const Output &output : outputs) targets.push_back(checkOutputTarget(output.option, output.path, inputs, targets));
    std::vector<OutputFile> files;
    files.reserve(targets.size());
    for (OutputTarget &target : targets) files.emplace_back(std::move(target));

    const SourceFacts &facts = source->facts();
    const bool shown = !arguments.html.empty() || !arguments.png.empty();
    const size_t cells = shown ? picture::cellsOnASide(size_t{facts.batch} * facts.heads, facts.queries, facts.keys) : 0;
    source->start();
    const Inspection inspection = inspect(*source, arguments, std::move(tokens), cells);
    const picture::Heads heads = shown ? headsOf(inspection) : picture::Heads{};
    for (size_t n = 0; n < outputs.size(); n++) {
        const std::string bytes = outputs[n].bytes({inspection, *source, heads});
        files[n].write(std::as_bytes(std::span(bytes)));
        files[n].close();
    }
    for (OutputFile &file : files) file.publish();
    std::cout << inspectionText(inspection, arguments.density.has_value());
    return ExitStatus::success;
}

} // namespace vkattn::tool
