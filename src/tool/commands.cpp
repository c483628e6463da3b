#include "tool/commands.hpp"

#include "tool/cache/append_command.hpp"
#include "tool/cache/merge_command.hpp"
#include "tool/conform_command.hpp"
#include "tool/explain/explain_arguments.hpp"
#include "tool/explain/explain_command.hpp"
#include "tool/gradient/gradient_command.hpp"
#include "tool/info_command.hpp"
#include "tool/inspect/inspect_command.hpp"
#include "tool/lab/lab_command.hpp"
#include "tool/layer/explain_layer_command.hpp"
#include "tool/layer/layer_command.hpp"
#include "tool/linear/explain_linear_command.hpp"
#include "tool/linear/linear_command.hpp"
#include "tool/options/gradient_arguments.hpp"
#include "tool/options/inspect_arguments.hpp"
#include "tool/options/layer_arguments.hpp"
#include "tool/options/run_arguments.hpp"
#include "tool/rotary_command.hpp"
#include "tool/run/run_command.hpp"
#include "tool/tune/tune_command.hpp"
#include "tool/version.hpp"

#include <CLI/CLI.hpp>

#include <functional>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vkattn::tool {
using namespace program;
namespace {

using Words = std::span<const char *const>; // of the command line, behind the program's name
// Checks what was typed, and does it.
using Execution = std::function<ExitStatus(const CLI::App &app, Words words)>;

struct Command {
    const char *name, *text;
    Execution (*addOptions)(CLI::App &app);
    std::span<const Command> within; // commands that follow its name
};

// Parser{explains...} has the command's options.
template <class Parser, auto execute, auto... explains> Execution add(CLI::App &app) {
    const auto parser = std::make_shared<Parser>(explains...);
    parser->addOptions(app);
    return [parser](const CLI::App &typed, Words) { return execute(parser->interpret(typed)); };
}

// A report has the command line that made the report.
Execution addConform(CLI::App &app) {
    const auto parser = std::make_shared<ConformParser>();
    parser->addOptions(app);
    return [parser](const CLI::App &typed, Words words) {
        ConformArguments arguments = parser->interpret(typed);
        arguments.commandLine.assign(words.begin(), words.end());
        return conformCommand(arguments);
    };
}

constexpr Command commandsOfExplain[] = {
    {"layer",
     "Tell the steps of `vkattn layer`: the shapes, operations and bytes of each, and what computes it",
     add<LayerParser, explainLayerCommand, true>,
     {}},
    {"linear",
     "Tell how `vkattn linear` would be computed: in chunks or token by token, why, and what that costs",
     add<LinearParser, explainLinearCommand, true>,
     {}},
};

// In the order of the help.
constexpr Command commands[] = {
    {"run", "Compute attention over .npy arrays", add<RunParser, runCommand>, {}},
    {"rotary",
     "Rotate pairs of dims of a .npy array by each token's position: rotary position embedding",
     add<RotaryParser, rotaryCommand>,
     {}},
    {"linear",
     "Compute linear attention over .npy arrays: by feature maps, or by a state that tokens decay, write and read",
     add<LinearParser, linearCommand, false>,
     {}},
    {"merge",
     "Put attention over parts of the keys together, from results and log-sum-exps in .npy arrays",
     add<MergeParser, mergeCommand>,
     {}},
    {"append", "Write new keys or values into a cache in a .npy array: contiguous, a ring, or pages", add<AppendParser, appendCommand>, {}},
    {"grad",
     "Compute the gradients of attention over .npy arrays: the backward pass, from the result's gradient",
     add<GradientParser, gradientCommand>,
     {}},
    {"inspect",
     "Look into attention: what each head does, in figures, from queries and keys or from weights",
     add<InspectParser, inspectCommand>,
     {}},
    {"layer", "Compute multi-head attention whole: projections, heads, output, residual, norm", add<LayerParser, layerCommand, false>, {}},
    {"explain", "Tell which kernel would compute a problem on a device, why, and what that costs, without running it",
     add<ExplainParser, explainCommand>, commandsOfExplain},
    {"info", "List every device: limits, features, what kernels it can run and why not the others", add<InfoParser, infoCommand>, {}},
    {"tune",
     "Measure which tiles of the flash and decode kernels are fastest on a device, and write them to a file that run uses",
     add<TuneParser, tuneCommand>,
     {}},
    {"conform",
     "Test devices and their drivers: every kernel, every option, hostile input; with reports for people and for CI",
     addConform,
     {}},
    {"lab",
     "Run an experiment of the notes on attention: a table, a CSV and a picture, with the theory and the notes' mistakes",
     add<LabParser, labCommand>,
     {}},
};

struct AddedCommand {
    const CLI::App *app = nullptr;
    Execution execute;
};

// Each command before those within it.
void addCommands(CLI::App &parent, std::span<const Command> table, std::vector<AddedCommand> &added) {
    for (const Command &command : table) {
        CLI::App *const app = parent.add_subcommand(command.name, command.text);
        app->allow_windows_style_options(false); // /path is a file
        added.push_back({app, command.addOptions(*app)});
        addCommands(*app, command.within, added);
    }
}

// "vkattn explain layer"
std::string whole(const CLI::App &app) {
    return app.get_parent() != nullptr ? whole(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

void refuseOptionsBefore(const CLI::App &command) {
    const CLI::App &parent = *command.get_parent();
    if (parent.get_parent() != nullptr && parent.count_all() > 1 + command.count_all())
        throw Failure("options before `" + command.get_name() + "` are those of another problem: write " + whole(command) +
                      ", then all options");
}

} // namespace

ExitStatus executeCommandLine(int argc, const char *const *argv) {
    CLI::App app("Attention for Vulkan: softmax(Q K^T) V on any Vulkan device, or the CPU.", "vkattn");
    app.allow_windows_style_options(false);
    app.set_version_flag("--version", "vkattn " + versionText());
    std::vector<AddedCommand> added;
    addCommands(app, commands, added);
    const auto typedCommand = [&] {
        const AddedCommand *found = nullptr; // the last: one within another comes behind the other
        for (const AddedCommand &command : added)
            if (command.app->parsed()) found = &command;
        return found;
    };

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        if (error.get_exit_code() != 0) {
            const AddedCommand *const command = typedCommand();
            throw Failure(std::string(error.what()) + ": see " + whole(command != nullptr ? *command->app : app) + " --help");
        }
        app.exit(error); // help or version, on stdout
        return ExitStatus::success;
    }
    const AddedCommand *const command = typedCommand();
    if (command == nullptr) {
        std::cerr << app.help();
        return ExitStatus::badInput;
    }
    refuseOptionsBefore(*command->app);
    return command->execute(*command->app, Words(argv, static_cast<size_t>(argc)).subspan(1));
}

} // namespace vkattn::tool
