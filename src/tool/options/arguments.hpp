// The command line, checked and turned into the library's terms. No file is touched here.
#pragma once

#include "program/failure.hpp"
#include "tool/cache/cache_arguments.hpp"
#include "tool/options/compute_arguments.hpp"
#include "tool/options/conform_arguments.hpp"
#include "tool/lab/lab_arguments.hpp"
#include "tool/options/linear_arguments.hpp"
#include "tool/options/names.hpp"
#include "tool/options/rotary_arguments.hpp"

#include <vkattn/gradient.h>
#include <vkattn/layer.h>

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vkattn::tool {

// Rules of visibility that no file holds.
struct RuleArguments {
    uint32_t dilation = 0;
    vkattn_grid grid{};
    vkattn_blocks blocks{}; // of --bigbird, or the sizes of --block-size
    vkattn_blocks lists{};  // of --visible-blocks: a kind, where they are wanted. Of `run`
    // Files of the second projections of q, k and v, for the rows of global tokens; all empty or none. Of `run`.
    std::string globalProjections[3];
    // A number; where it is read from a file, that is in `files`. Of `run`, `grad` and `explain`.
    vkattn_offset queryOffset{}, keyOffset{};
};

// Hooks in GLSL, and the words that they read; their buffers are files.
struct ProgramArguments {
    std::string file; // empty: none
    std::vector<uint32_t> words;
};

struct RunArguments : ComputeArguments {
    RuleArguments rules;
    ProgramArguments program;
    uint32_t flags = 0; // vkattn_flag_bits
    int32_t windowLeft = 0, windowRight = 0;
    float scale = 0, softcap = 0;
    double dropout = 0;
    uint64_t dropoutSeed = 0;
    uint32_t dropoutOffset = 0;
    std::optional<vkattn_dtype> roundTo;  // of q, k and v; otherwise as their files
    std::optional<vkattn_dtype> outDtype; // otherwise as q's file
    std::optional<vkattn_dtype> kvType;   // of a cache that is made of k and v. Of `run` and `explain`
    vkattn_kernel kernel = VKATTN_KERNEL_AUTO;
    uint32_t slices = 1;
    vkattn_score_stage scoresStage = VKATTN_SCORES_RAW;
    std::string projectK, projectV; // files of matrices over the tokens of keys and values; empty: none, and that of the keys
    bool headsFirst = false;        // of pages: [page, head, token, dim]. Of `run` and `explain`
    uint32_t valuesInKeys = 0;      // the value dim, where values are the first dims of the keys

    std::optional<std::string> tuning;   // a file; otherwise
    bool findTuning = true;              // the one in the default place, where there is one
    std::optional<std::string> verdicts; // a file, or empty or "none"; otherwise the default place
};

// Of `grad`: the options of its attention, and what is asked of the backward pass. --out-dtype is the
// type of the gradients.
struct GradientArguments : RunArguments {
    std::optional<float> lossScale;
    vkattn_gradient_kernel gradientKernel = VKATTN_GRADIENT_AUTO;
};

// Of `inspect`: the options of its attention, or weights in place of it, and what is asked.
struct InspectArguments : RunArguments {
    std::string weights; // a file; empty: queries and keys
    std::string tokens, stats, received, topKeys, topWeights, jsonFile, csv, html;
    std::string png;                        // a folder
    double thresholds[3] = {0.3, 0.2, 0.8}; // of the classes diagonal, local and global
    bool seedClasses = false;
    uint32_t exactSpectrum = 256; // queries and keys up to which spectra are exact
    bool asksForSpectrum = false;
    uint32_t topCount = 8;         // of topKeys and topWeights
    std::optional<double> density; // the threshold
    std::string batchName;         // what a batch entry is; empty: "batch" or "sequence"
    bool topLeft = false;
    bool zerosVisible = false; // of `weights`: hidden is what --causal and --window hide, and nothing else
};

// What `explain layer` takes in place of files.
struct LayerAssumptions {
    std::vector<uint32_t> x, context;   // [batch,] tokens, model; x is empty where files are given
    uint32_t headDim = 0, valueDim = 0; // 0: model / heads, and the head dim
    bool biases = false;
    vkattn_dtype dtype = VKATTN_F32;
};

// Of `layer`: the options of its attention, and what surrounds it. --round-to is the type between
// the steps.
struct LayerArguments : RunArguments {
    std::string params;              // a folder
    uint32_t heads = 0, kvHeads = 0; // kvHeads 0: heads
    vkattn_norm_place place = VKATTN_NORM_NONE;
    float epsilon = 1e-5f;
    bool residual = false, averageWeights = false;
    bool rotates = false;
    RotaryChoice rotary{.prefix = "--rotary-"};
    double outputDropout = 0; // drawn with dropoutSeed and outputOffset()
    // Apart from those of weights, whatever offsets the steps of training have: no weight shares its
    // random numbers with an element of the output.
    [[nodiscard]] uint32_t outputOffset() const { return dropoutOffset ^ 0x80000000u; }
    bool explains = false; // nothing is computed or written
    bool table = false;    // of `explain`: stage by stage
    [[nodiscard]] uint32_t headsOfKeys() const { return kvHeads ? kvHeads : heads; }
    LayerAssumptions assumed;
};

// What `explain` takes in place of files.
struct Assumptions {
    // Of q, k and v, 2 to 4 dimensions; all empty where files are given.
    std::vector<uint32_t> shapes[3];
    vkattn_dtype dtype = VKATTN_F32; // of these, and of what `roles` names
    // By role: takes part, in its full shape or as the plainest broadcast (job.cpp).
    std::bitset<VKATTN_ROLE_LIMIT> roles;
    bool rowStatistics = false; // what VKATTN_LSE holds
    uint32_t sequences = 0, maxSeqQ = 0, maxSeqK = 0;
    [[nodiscard]] bool includes(const Presence &presence) const {
        return roles.test(presence.role) && (presence.role != VKATTN_LSE || presence.rowStatistics == rowStatistics);
    }
};

struct ExplainArguments {
    RunArguments run;
    Assumptions assumed;
    bool table = false;                   // stage by stage
    uint64_t memoryBytes = 0;             // what the largest batch and the longest sequence are to fit into; 0: not asked
    std::string maskFile;                 // a picture of the visible pairs; empty: none
    uint32_t maskBatch = 0, maskHead = 0; // which it shows
};

} // namespace vkattn::tool
