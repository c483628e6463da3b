#include "tool/tune/tune_arguments.hpp"

#include "program/options/option_values.hpp"
#include "tool/options/names.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr uint32_t maxTuneSeconds = 86400, maxTuneDims = 12; // rows of a tuning file

void readDims(const std::string &text, std::vector<uint32_t> &dims) {
    const bool good =
        parseList(text, dims) && std::all_of(dims.begin(), dims.end(), [](uint32_t dim) { return dim > 0 && dim <= mostDims; });
    if (!good || dims.size() > maxTuneDims)
        badValue("--dims", "1 to " + std::to_string(maxTuneDims) + " head dims from 1 to " + std::to_string(mostDims) + " like 64,128",
                 text);
    std::sort(dims.begin(), dims.end());
    dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
}

} // namespace

void TuneParser::addOptions(CLI::App &app) {
    TuneArguments &tune = typed_;
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

TuneArguments TuneParser::interpret(const CLI::App &app) const {
    refuseMissingValues(app);
    return typed_;
}

} // namespace vkattn::tool
