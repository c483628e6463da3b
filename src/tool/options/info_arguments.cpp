#include "tool/options/info_arguments.hpp"

#include "program/options/option_values.hpp"
#include "tool/options/attention/attention_options.hpp"

#include <CLI/CLI.hpp>

namespace vkattn::tool {
using namespace program;

void InfoParser::addOptions(CLI::App &app) {
    app.add_option("--verdicts", typed_.verdicts, verdictsText)->type_name(verdictsType);
    app.add_flag("--json", typed_.json, "Print one JSON object instead of text");
}

InfoArguments InfoParser::interpret(const CLI::App &app) const {
    refuseMissingValues(app);
    return typed_;
}

} // namespace vkattn::tool
