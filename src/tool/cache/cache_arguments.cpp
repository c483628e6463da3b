#include "tool/cache/cache_arguments.hpp"

#include "program/failure.hpp"
#include "program/options/option_values.hpp"
#include "tool/options/names.hpp"

#include <CLI/CLI.hpp>

#include <array>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr size_t maxParts = 256; // the library's own

// What the commands call their arrays.
constexpr OperandName mergeNames[] = {
    {VKATTN_X, "--out", "out"}, {VKATTN_X_LSE, "--lse", "lse"}, {VKATTN_Y, "--to", "to"}, {VKATTN_LSE, "--to-lse", "toLse"}};
constexpr OperandName appendNames[] = {{VKATTN_CACHE, "--cache", "cache"},
                                       {VKATTN_X, "--new", "new"},
                                       {VKATTN_STARTS, "--positions", "positions"},
                                       {VKATTN_PAGE_TABLE, "--page-table", "pageTable"},
                                       {VKATTN_Y, "--out", "out"}};

constexpr std::array<const char *, 2> pageLayoutNames = {"nhd", "hnd"};

} // namespace

void MergeParser::addOptions(CLI::App &app) {
    typed_.ownNames = mergeNames;
    const auto files = [&](const char *name, std::vector<std::string> &target, const char *text) {
        app.add_option(name, target, text)->type_name("FILE...")->required()->expected(1, -1);
    };
    files("--out", typed_.outs,
          "The result of each part: float32 or float16 .npy, [token, dim], [head, token, dim] or [batch, head, token, dim]");
    files("--lse", typed_.lses,
          "The log-sum-exp of each part, in the order of --out: [token], [head, token] or [batch, head, token], natural logarithms; "
          "-inf: the part saw nothing");
    addFile(app, typed_, VKATTN_Y, "Where to write the merged result, in the shape and dtype of the parts")->required();
    addFile(app, typed_, VKATTN_LSE, "Where to write the merged log-sum-exp, float32");
    addComputeOptions(app, typed_);
    app.footer(std::string("FlashInfer's log-sum-exps are base 2: multiply them by ln 2 first.\n\n") + computeExitStatuses);
}

MergeArguments MergeParser::interpret(const CLI::App &app) const {
    refuseMissingValues(app);
    const size_t outs = typed_.outs.size(), lses = typed_.lses.size();
    if (outs != lses)
        throw Failure("--out has " + std::to_string(outs) + (outs == 1 ? " file" : " files") + " and --lse " + std::to_string(lses) +
                      ", expected as many: one of each for every part");
    if (outs > maxParts)
        throw Failure("--out has " + std::to_string(outs) + " files, expected at most " + std::to_string(maxParts) +
                      ": merge them in several steps");
    return typed_;
}

void AppendParser::addOptions(CLI::App &app) {
    typed_.ownNames = appendNames;
    addFile(app, typed_, VKATTN_CACHE,
            "The keys or values so far: float32 or float16 .npy, [batch, head, capacity, dim]; with --page-table a pool of pages")
        ->required();
    addFile(app, typed_, VKATTN_X, "The new ones, [batch, head, token, dim], converted to the cache's type")->required();
    addFile(app, typed_, VKATTN_STARTS,
            "int32 or int64 [batch]: the position of each batch entry's first new token. What is negative or past the capacity is not "
            "written")
        ->required();
    addFile(app, typed_, VKATTN_Y, "Where to write the cache with the new ones in it")->required();
    app.add_flag("--ring", typed_.ring, "The cache is a ring: a token goes to its position modulo the capacity");
    addFile(app, typed_, VKATTN_PAGE_TABLE,
            "int32 or int64 [batch, pages]: the pages of each batch entry in the pool. Where an entry is negative or no page of the pool, "
            "nothing is written");
    addValue(app, "--page-layout", "nhd|hnd", "Of the pool: [page, token, head, dim] (default) or [page, head, token, dim]",
             [&](const std::string &text) { typed_.headsFirst = parseWord("--page-layout", text, pageLayoutNames) == 1; });
    addComputeOptions(app, typed_);
    app.footer(computeExitStatuses);
}

AppendArguments AppendParser::interpret(const CLI::App &app) const {
    refuseMissingValues(app);
    if (app.count("--page-layout") > 0 && typed_.files[VKATTN_PAGE_TABLE].empty())
        throw Failure("--page-layout says how pages lie, and there is no --page-table: give one, or leave --page-layout out");
    return typed_;
}

} // namespace vkattn::tool
