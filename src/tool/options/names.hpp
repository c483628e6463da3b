// What the tool calls the library's things: one place, for options, messages and JSON keys.
#pragma once

#include "program/options/option_values.hpp"

#include <vkattn/linear.h>
#include <vkattn/problem.h>

#include <array>

namespace vkattn::tool {

// The most that a head may have.
inline constexpr uint32_t mostDims = 2048;

struct OperandName {
    vkattn_role role;
    const char *option;
    const char *key;       // in JSON
    bool reported = false; // among the options of a run, where the operand takes part
    // The option depends on where a query stands among the keys.
    bool positional = false;
};

// Inputs in the order in which they are read, then outputs in the order in which they are written.
inline constexpr std::array<OperandName, 70> operandNames = {{
    {VKATTN_Q, "--q", "q"},
    {VKATTN_K, "--k", "k"},
    {VKATTN_V, "--v", "v"},
    {VKATTN_K_1, "--past-k", "pastK"},
    {VKATTN_V_1, "--past-v", "pastV"},
    {VKATTN_PRIOR_OUT, "--state-in-out", "stateInOut"},
    {VKATTN_PRIOR_LSE, "--state-in-lse", "stateInLse"},
    {VKATTN_MASK, "--mask", "mask", true},
    {VKATTN_BIT_MASK, "--bitmask", "bitmask", true},
    {VKATTN_BIAS, "--bias", "bias", true},
    {VKATTN_ALIBI_SLOPES, "--alibi", "alibi", true, true},
    {VKATTN_SINKS, "--sinks", "sinks", true},
    {VKATTN_KEY_LENGTHS, "--kv-lengths", "kvLengths", true},
    {VKATTN_PAGE_TABLE, "--page-table", "pageTable"},
    {VKATTN_PAGE_INDPTR, "--page-indptr", "pageIndptr"},
    {VKATTN_PAGE_INDICES, "--page-indices", "pageIndices"},
    {VKATTN_LAST_PAGE_LENGTHS, "--last-page-lengths", "lastPageLengths"},
    {VKATTN_CU_SEQ_Q, "--cu-seqlens-q", "cuSeqlensQ"},
    {VKATTN_CU_SEQ_K, "--cu-seqlens-k", "cuSeqlensK"},
    {VKATTN_DOC_IDS_Q, "--doc-ids-q", "docIdsQ"},
    {VKATTN_DOC_IDS_K, "--doc-ids-k", "docIdsK"},
    {VKATTN_GLOBAL_TOKENS, "--global-tokens", "globalTokens", true},
    {VKATTN_PREFIX_LENGTHS, "--prefix-lengths", "prefixLengths", true},
    {VKATTN_QUERY_OFFSETS, "--query-offset", "queryOffset"},
    {VKATTN_KEY_OFFSETS, "--key-offset", "keyOffset"},
    {VKATTN_BLOCK_MASK, "--block-mask", "blockMask", true},
    {VKATTN_PROGRAM_BUFFER_0, "--program-buffer", "programBuffer0"},
    {VKATTN_PROGRAM_BUFFER_1, "--program-buffer", "programBuffer1"},
    {VKATTN_PROGRAM_BUFFER_2, "--program-buffer", "programBuffer2"},
    {VKATTN_PROGRAM_BUFFER_3, "--program-buffer", "programBuffer3"},
    {VKATTN_X, "--x", "x"},
    {VKATTN_CONTEXT, "--context", "context"},
    {VKATTN_WQ, "--params", "wq"}, // wq.npy in that folder, and so on
    {VKATTN_WK, "--params", "wk"},
    {VKATTN_WV, "--params", "wv"},
    {VKATTN_WO, "--params", "wo"},
    {VKATTN_BQ, "--params", "bq"},
    {VKATTN_BK, "--params", "bk"},
    {VKATTN_BV, "--params", "bv"},
    {VKATTN_BO, "--params", "bo"},
    {VKATTN_GAMMA, "--params", "gamma"},
    {VKATTN_BETA, "--params", "beta"},
    {VKATTN_COS, "--cos", "cos"},
    {VKATTN_SIN, "--sin", "sin"},
    {VKATTN_POSITIONS, "--positions", "positions"},
    {VKATTN_DECAY, "--decay", "decay"},
    {VKATTN_WRITE_STRENGTH, "--beta", "beta"},
    {VKATTN_OMEGA, "--omega", "omega"},
    {VKATTN_STATE_IN, "--state-in", "stateIn"},
    {VKATTN_D_OUT, "--dout", "dout"},
    {VKATTN_D_LSE, "--dlse", "dlse"},
    {VKATTN_D_WEIGHTS, "--dweights", "dweights"},
    {VKATTN_D_STATE_OUT, "--dstate-out", "dstateOut"},
    {VKATTN_OUT, "--out", "out"},
    {VKATTN_LSE, "--lse", "lse"},
    {VKATTN_WEIGHTS, "--weights", "weights"},
    {VKATTN_SCORES, "--scores", "scores"},
    {VKATTN_D_Q, "--dq", "dq"},
    {VKATTN_D_K, "--dk", "dk"},
    {VKATTN_D_V, "--dv", "dv"},
    {VKATTN_D_BIAS, "--dbias", "dbias"},
    {VKATTN_D_SINKS, "--dsinks", "dsinks"},
    {VKATTN_D_SLOPES, "--dslopes", "dslopes"},
    {VKATTN_D_SCALE, "--dscale", "dscale"},
    {VKATTN_D_SOFTCAP, "--dsoftcap", "dsoftcap"},
    {VKATTN_D_DECAY, "--ddecay", "ddecay"},
    {VKATTN_D_WRITE_STRENGTH, "--dbeta", "dbeta"},
    {VKATTN_D_STATE_IN, "--dstate-in", "dstateIn"},
    {VKATTN_STATE_OUT, "--state-out", "stateOut"},
    {VKATTN_Y, "--out", "out"}, // of an operation: no command has both
}};

// Of VKATTN_LSE where it holds the row statistics.
inline constexpr OperandName rowStatisticsName = {VKATTN_LSE, "--row-statistics", "rowStatistics"};

[[nodiscard]] constexpr const OperandName &operandName(vkattn_role role) {
    for (const OperandName &name : operandNames)
        if (name.role == role) return name;
    return operandNames.back();
}

// The gradients that `vkattn grad` writes.
struct GradientName {
    vkattn_role gradient, of; // `of`: VKATTN_ROLE_LIMIT where that is a number and no array
    const char *option;       // which gives what the gradient is of; NULL: that is always there
};
inline constexpr std::array<GradientName, 8> gradientNames = {{
    {VKATTN_D_Q, VKATTN_Q, nullptr},
    {VKATTN_D_K, VKATTN_K, nullptr},
    {VKATTN_D_V, VKATTN_V, nullptr},
    {VKATTN_D_BIAS, VKATTN_BIAS, "--bias"},
    {VKATTN_D_SINKS, VKATTN_SINKS, "--sinks"},
    {VKATTN_D_SLOPES, VKATTN_ALIBI_SLOPES, "--alibi"},
    {VKATTN_D_SCALE, VKATTN_ROLE_LIMIT, nullptr},
    {VKATTN_D_SOFTCAP, VKATTN_ROLE_LIMIT, "--softcap"},
}};
// Those that `vkattn linear` writes.
inline constexpr std::array<GradientName, 6> linearGradientNames = {{
    {VKATTN_D_Q, VKATTN_Q, nullptr},
    {VKATTN_D_K, VKATTN_K, nullptr},
    {VKATTN_D_V, VKATTN_V, nullptr},
    {VKATTN_D_DECAY, VKATTN_DECAY, "--decay"},
    {VKATTN_D_WRITE_STRENGTH, VKATTN_WRITE_STRENGTH, "--beta"},
    {VKATTN_D_STATE_IN, VKATTN_STATE_IN, "--state-in"},
}};
[[nodiscard]] constexpr bool isGradient(vkattn_role role) {
    for (const GradientName &name : gradientNames)
        if (name.gradient == role) return true;
    for (const GradientName &name : linearGradientNames)
        if (name.gradient == role) return true;
    return false;
}

[[nodiscard]] constexpr bool isOutput(vkattn_role role) {
    return isGradient(role) || role == VKATTN_OUT || role == VKATTN_LSE || role == VKATTN_WEIGHTS || role == VKATTN_SCORES ||
           role == VKATTN_STATE_OUT || role == VKATTN_Y;
}

// A word of `explain --with`, and what the word stands for.
struct Presence {
    const char *word;
    vkattn_role role;
    vkattn_role partner = role; // takes part with `role`
    bool rowStatistics = false; // what VKATTN_LSE holds
    [[nodiscard]] constexpr bool covers(vkattn_role r) const { return r == role || r == partner; }
};
inline constexpr Presence presences[] = {{"mask", VKATTN_MASK},
                                         {"bitmask", VKATTN_BIT_MASK},
                                         {"bias", VKATTN_BIAS},
                                         {"alibi", VKATTN_ALIBI_SLOPES},
                                         {"sinks", VKATTN_SINKS},
                                         {"lengths", VKATTN_KEY_LENGTHS},
                                         {"documents", VKATTN_DOC_IDS_Q, VKATTN_DOC_IDS_K},
                                         {"lse", VKATTN_LSE},
                                         {"row-statistics", VKATTN_LSE, VKATTN_LSE, true},
                                         {"weights", VKATTN_WEIGHTS},
                                         {"scores", VKATTN_SCORES}};

// Returns what an array has one of for each query head; NULL for other roles.
[[nodiscard]] constexpr const char *ofEachHead(vkattn_role role) {
    return role == VKATTN_ALIBI_SLOPES ? "slope" : role == VKATTN_SINKS ? "sink" : nullptr;
}

using program::dtypeNames;

// By vkattn_score_stage.
inline constexpr std::array<const char *, 4> scoreStageNames = {"raw", "scaled", "capped", "final"};

// By vkattn_gradient_kernel.
inline constexpr std::array<const char *, 4> gradientKernelNames = {"auto", "staged", "tiles", "coopmat"};

// By vkattn_rotary_pairs.
inline constexpr std::array<const char *, 2> pairsNames = {"half", "interleaved"};

// By vkattn_linear_rule, vkattn_feature_map, vkattn_linear_form and vkattn_head_mapping.
inline constexpr std::array<const char *, 5> linearRuleNames = {"softmax-features", "linear", "gated", "delta", "gated-delta"};
inline constexpr std::array<const char *, 4> featureMapNames = {"elu1", "relu", "favor", "favor2"};
inline constexpr std::array<const char *, 3> linearFormNames = {"auto", "recurrent", "chunked"};
inline constexpr std::array<const char *, 2> headMappingNames = {"divided", "modulo"};

} // namespace vkattn::tool
