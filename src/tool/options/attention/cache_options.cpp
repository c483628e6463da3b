// The options of caches: pages, where tokens stand, types of keys and values.
#include "program/options/option_values.hpp"
#include "tool/options/attention/attention_options.hpp"
#include "tool/options/attention/given_options.hpp"
#include "tool/options/names.hpp"

#include <CLI/CLI.hpp>

#include <array>

namespace vkattn::tool {
using namespace program;

void addPages(CLI::App &app, RunArguments &run) {
    addFile(
        app, run, VKATTN_PAGE_TABLE,
        "int32 or int64 [batch, pages]: keys and values are pools of pages, and these are each batch entry's. Where an entry is negative "
        "or no page of the pool, its keys are hidden; --kv-lengths says how many keys there are");
    addFile(app, run, VKATTN_PAGE_INDPTR,
            "In its place, FlashInfer's CSR: int32 or int64 [batch + 1], batch entry b has the pages from entry b up to entry b + 1");
    addFile(app, run, VKATTN_PAGE_INDICES, "int32 or int64: the pages, one entry's after the other's");
    addFile(app, run, VKATTN_LAST_PAGE_LENGTHS, "int32 or int64 [batch]: how many tokens each entry's last page holds");
    constexpr std::array<const char *, 2> names = {"nhd", "hnd"};
    addValue(app, "--page-layout", "nhd|hnd", "Of the pools: [page, token, head, dim] (default) or [page, head, token, dim]",
             [&run, names](const std::string &text) { run.headsFirst = parseWord("--page-layout", text, names) == 1; });
}

void addPast(CLI::App &app, RunArguments &run) {
    addFile(app, run, VKATTN_K_1, "Keys of a cache, which come before those of --k: as many heads and dims, any number of tokens");
    addFile(app, run, VKATTN_V_1, "Their values, likewise before those of --v");
    addFile(app, run, VKATTN_PRIOR_OUT,
            "Go on from attention of the same queries over other keys: its output, of the output's shape. The result is that of all keys "
            "together");
    addFile(app, run, VKATTN_PRIOR_LSE, "Its log-sum-exp, float32 of the output's shape without the dims");
}

void addOffsets(CLI::App &app, RunArguments &run) {
    const auto add = [&](const char *name, vkattn_role role, vkattn_offset RuleArguments::*offset, const std::string &text) {
        addValue(app, name, "N|FILE", text, [&run, name, role, offset](const std::string &given) {
            vkattn_offset &into = run.rules.*offset;
            const bool isNumber = given.find_first_not_of("-+.0123456789") == std::string::npos;
            if (!isNumber) {
                into.kind = VKATTN_OFFSET_ARRAY;
                run.files[role] = given;
                return;
            }
            into.kind = VKATTN_OFFSET_NUMBER;
            if (!parseInteger(given, into.tokens) || std::abs(int64_t{into.tokens}) > VKATTN_MAX_OFFSET)
                badValue(name, "a whole number of tokens from -268435456 to 268435456, or a file of one for each batch entry", given);
        });
    };
    add("--query-offset", VKATTN_QUERY_OFFSETS, &RuleArguments::queryOffset,
        "Query i stands at i + N, for --causal, --window, --alibi and grids, in place of an alignment; or int32 or int64 [batch]");
    add("--key-offset", VKATTN_KEY_OFFSETS, &RuleArguments::keyOffset, "Key j stands at j + N, likewise");
}

void addKvType(CLI::App &app, RunArguments &run) {
    addValue(
        app, "--kv-type", cacheTypes,
        "Keep keys and values in a cache of this type, which attention reads in place, and say how far the result is from that of float32",
        [&run](const std::string &text) { run.kvType = parseCacheType("--kv-type", text); });
}

void checkCache(const CLI::App &app) {
    const GivenOptions given(app);
    given.apart("--align", "--query-offset", "both say where a query stands among the keys");
    given.apart("--align", "--key-offset", "both say where a query stands among the keys");
    for (const char *part : {"--page-indptr", "--page-indices", "--last-page-lengths"})
        for (const char *other : {"--page-indptr", "--page-indices", "--last-page-lengths"})
            given.needs(part, other, "pages in CSR take three files, so add it, or leave them out");
    given.needs("--past-k", "--past-v", "a cache has both, so add it, or leave --past-k out");
    given.needs("--past-v", "--past-k", "a cache has both, so add it, or leave --past-v out");
    given.needs("--state-in-out", "--state-in-lse", "the one says how much the other counts, so add it, or leave --state-in-out out");
    given.needs("--state-in-lse", "--state-in-out", "the one says how much the other counts, so add it, or leave --state-in-lse out");
    given.needs("--past-k", "--k", "the cache comes before the keys of files, so give the arrays");
    for (const char *other :
         {"--page-table", "--page-indptr", "--cu-seqlens-k", "--values-in-keys", "--kv-type", "--project-k", "--q-global"})
        given.apart("--past-k", other, "keys of a cache and new ones lie in two arrays [batch, head, token, dim]");
    given.apart("--state-in-out", "--q-global", "the rows of global tokens are computed apart");
    given.apart("--page-table", "--page-indptr", "both say which pages a batch entry has");
    given.apart("--kv-lengths", "--page-indptr", "both say how many keys a batch entry has");
    if (!given("--page-indptr"))
        given.needs("--page-layout", "--page-table", "the layout is that of pages, so add --page-table, or leave it out");
    given.apart("--kv-type", "--round-to", "both say of which type keys and values are");
    given.apart("--kv-type", "--project-k", "the cache holds the keys of the file, and these are made of them");
    given.apart("--kv-type", "--q-global", "the rows of global tokens are computed apart, of keys as files have them");
}

} // namespace vkattn::tool
