// The options of matrices over tokens.
#include "tool/options/attention/attention_options.hpp"
#include "tool/options/names.hpp"

#include <CLI/CLI.hpp>

namespace vkattn::tool {
using namespace program;

void addTokenProjections(CLI::App &app, RunArguments &run) {
    app.add_option(
           "--project-k", run.projectK,
           "First make keys and values a few by this matrix over tokens (Linformer): float32 or float16 [row, token] or [head, row, "
           "token], with a head for each of the keys, and columns for at least as many tokens as there are")
        ->type_name("FILE");
    app.add_option("--project-v", run.projectV, "Another such matrix for the values; default: that of --project-k")->type_name("FILE");
}

void checkTokenProjections(const CLI::App &app, const RunArguments &run, const std::function<std::string(vkattn_role)> &spelling) {
    if (!run.projectV.empty() && run.projectK.empty())
        throw Failure(
            "--project-v is given without --project-k, which makes the keys that these values belong to: add --project-k, or leave "
            "--project-v out");
    if (run.projectK.empty()) return;
    if (!run.projectV.empty() && run.valuesInKeys > 0)
        throw Failure(
            "--project-v and --values-in-keys are both given: the values are dims of the projected keys, so leave one of the two out");
    const auto refuse = [](const std::string &option) {
        throw Failure("--project-k and " + option +
                      " are both given, expected one of them: each projected key holds all tokens, so that no "
                      "single token can be hidden, weighed or told apart. Leave one of the two out, or cut tokens off with --kv-lengths");
    };
    for (const vkattn_role role : {VKATTN_MASK, VKATTN_BIT_MASK, VKATTN_BIAS, VKATTN_ALIBI_SLOPES, VKATTN_CU_SEQ_Q, VKATTN_CU_SEQ_K,
                                   VKATTN_DOC_IDS_Q, VKATTN_DOC_IDS_K, VKATTN_GLOBAL_TOKENS, VKATTN_PREFIX_LENGTHS, VKATTN_BLOCK_MASK})
        if (const std::string option = spelling(role); !option.empty()) refuse(option);
    for (const char *option :
         {"--causal", "--window", "--align", "--dilation", "--neighbourhood", "--windows", "--bigbird", "--visible-blocks", "--q-global",
          "--k-global", "--v-global", "--query-offset", "--key-offset", "--page-table", "--page-indptr", "--program", "--draw-mask"})
        if (app.get_option_no_throw(option) != nullptr && app.count(option) > 0) refuse(option);
    if (app.get_option_no_throw("--memory") != nullptr && app.count("--memory") > 0)
        throw Failure(
            "--memory looks for the longest sequence, and the matrix of --project-k says how many tokens there are at most: leave one "
            "of the two out");
}

} // namespace vkattn::tool
