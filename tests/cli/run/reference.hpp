// Attention in double, straight from the formulas of problem.h and docs/numerics.md. Shares nothing
// with the library.
#pragma once

#include "cli/arrays.hpp"

#include <optional>
#include <string>

struct ReferenceOptions {
    bool causal = false, topLeft = false, window = false;
    long left = -1, right = -1;
    std::optional<double> scale;
    double softcap = 0;
    double dropout = 0;
    uint64_t seed = 0;
    uint32_t offset = 0;
    bool weightsDropped = false;
    std::string scoresStage = "raw";             // of ReferenceResult::scores, as --scores-stage
    std::optional<Array> mask, bias;             // 2 to 4 dimensions that broadcast
    std::optional<Array> bits;                   // words of 32 keys
    std::vector<double> alibi, sinks;            // for each head; empty: none
    std::vector<long> keyLengths;                // empty: all; already clamped
    std::vector<long> cuQ, cuK;                  // ragged: offsets; empty: none
    std::optional<Array> documentsQ, documentsK; // [batch, token] or [token]
};

struct ReferenceResult {
    // [batch, head, query, ...]; weights and scores of a ragged batch [sequence, head, query, key]
    Array out, lse, weights, scores;
};

// The random word of key j of query i, or of feature j of token i.
[[nodiscard]] uint64_t randomWord(const ReferenceOptions &options, uint64_t plane, uint64_t i, uint64_t j);

[[nodiscard]] ReferenceResult referenceAttention(const Array &q, const Array &k, const Array &v, const ReferenceOptions &options = {});
