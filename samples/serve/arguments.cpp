#include "arguments.hpp"

#include "program/failure.hpp"
#include "program/options/option_values.hpp"

#include <CLI/CLI.hpp>

namespace serve {

using namespace vkattn::program;

bool parseArguments(int argc, const char *const *argv, Arguments &out) {
    CLI::App app(
        "Serves many requests at once with a llama2.c checkpoint: keys and values in pages of a pool, a system prompt that all requests\n"
        "share, prompts in chunks beside the requests that decode, eviction and cancellation. What arrives when follows from the seed.",
        "serve");
    app.allow_windows_style_options(false); // /path is a file
    app.footer(
        "Exit status: 0 success, 1 a request alone gave something else, or a page was lost, 2 bad usage or input, 3 the device cannot be "
        "used and --no-fallback was given.\n\nExample:\n  serve --model stories.bin --tokenizer tok.bin --requests 200 --check 20");
    app.add_option("--model", out.model, "A llama2.c checkpoint of version 0")->type_name("FILE")->required();
    app.add_option("--tokenizer", out.tokenizer, "The model's tokenizer, of llama2.c")->type_name("FILE")->required();
    app.add_option("--system", out.system, "The prompt that all requests share")->type_name("TEXT");
    app.add_option("--prompts", out.prompts, "Prompts, a line each, from which requests are drawn; default: some of the program's own")
        ->type_name("FILE");
    app.add_option("--out", out.out, "Where to write what each request was given: a JSON object a line, with its prompt, text and tokens")
        ->type_name("FILE");
    const auto whole = [&](const char *name, uint32_t &into, uint32_t most, const std::string &text) {
        addValue(app, name, "N", text, [&into, name, most](const std::string &given) { into = parseWhole(name, given, most); });
    };
    whole("--requests", out.requests, 1u << 20, "How many requests arrive; default 64");
    whole("--tokens", out.mostTokens, 1u << 16, "The most tokens that a request generates: each draws half to all of it; default 64");
    whole("--slots", out.capacity.slots, 1024, "Requests that are computed together; default 16");
    whole("--chunk", out.capacity.chunk, 4096, "Tokens of a prompt that are computed at once; default 16");
    whole("--page-tokens", out.capacity.pageTokens, 4096, "Tokens of a page; default 16");
    whole("--pages", out.capacity.pages, 1u << 20, "Pages of the pool; default: three quarters of what all slots could fill");
    whole("--gap", out.gap, 1u << 16, "Steps from an arrival to the next, on average; default 2");
    whole("--check", out.check, 1u << 20, "Run so many of the finished requests alone afterwards, and compare them bit by bit; default 0");
    addValue(app, "--cancel", "P", "The share of requests that are cancelled; default 0.1", [&](const std::string &text) {
        char *end = nullptr;
        out.cancels = std::strtod(text.c_str(), &end);
        if (text.empty() || *end != '\0' || !(out.cancels >= 0 && out.cancels <= 1)) badValue("--cancel", "a share from 0 to 1", text);
    });
    addValue(app, "--seed", "N", "Of prompts, arrivals and cancellations; default 1", [&](const std::string &text) {
        if (!parseInteger(text, out.seed)) badValue("--seed", "a whole number", text);
    });
    app.add_flag("--json", out.json, "Print one JSON object instead of text");
    app.add_flag("--quiet", out.quiet, "Show no progress");
    addDeviceChoice(app, out);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        if (error.get_exit_code() != 0) throw Failure(std::string(error.what()) + ": see serve --help");
        app.exit(error);
        return false;
    }
    for (const char *option : {"--model", "--tokenizer", "--prompts", "--out"})
        for (const std::string &value : app.get_option(option)->results()) refuseMissingValue(*app.get_option(option), value);
    for (const auto &[name, value] : {std::pair{"--requests", out.requests},
                                      {"--tokens", out.mostTokens},
                                      {"--slots", out.capacity.slots},
                                      {"--chunk", out.capacity.chunk},
                                      {"--page-tokens", out.capacity.pageTokens}})
        if (value == 0) badValue(name, "a whole number from 1 on", "0");
    return true;
}

} // namespace serve
