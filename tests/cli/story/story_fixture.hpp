// Runs the sample `story`, on the models that lie beside the project or on models of the tests' own:
// fresh random weights, and a tokenizer of a few words.
#pragma once

#include "cli/harness.hpp"

#include <nlohmann/json.hpp>

// A model in plain loops and double precision, written from the formulas: what the sample is
// compared with.
struct ReferenceModel {
    uint32_t dims = 24, hidden = 40, layers = 2, heads = 4, kvHeads = 2, vocabulary = 300, positions = 20;
    bool tied = true;
    std::vector<float> embedding, attentionNorm, wq, wk, wv, wo, feedForwardNorm, w1, w2, w3, finalNorm, classifier;

    [[nodiscard]] uint32_t headDim() const { return dims / heads; }
    [[nodiscard]] uint32_t kvDims() const { return kvHeads * headDim(); }
    void draw(std::mt19937_64 &random);
    // As a file.
    [[nodiscard]] std::string bytes() const;

    struct Pass {
        std::vector<double> logits; // behind the last token
        // By layer: [heads or kvHeads, tokens, dims of a head], rotated.
        std::vector<std::vector<double>> queries, keys;
    };
    [[nodiscard]] Pass compute(const std::vector<uint32_t> &tokens) const;
};

// Bytes, then " ", "a", "b", "c", "ab", " a", "abc" and made-up words.
[[nodiscard]] std::string tokenizerBytes(uint32_t vocabulary);

class StoryFixture : public CliTest {
  protected:
    // Whether the models are there; marks the test as skipped where not.
    [[nodiscard]] static bool hasModels();
    // The options that name them.
    [[nodiscard]] static Arguments models();
    // Writes a model and its tokenizer, and returns the options that name them.
    [[nodiscard]] Arguments write(const ReferenceModel &model) const;

    [[nodiscard]] Outcome run(Arguments arguments, const Arguments &more = {}, const std::vector<std::string> &environment = {}) const;
    // Of a run with --json that succeeds.
    [[nodiscard]] nlohmann::json json(Arguments arguments, const Arguments &more) const;

    // Prompts and what greedy decoding of 128 positions makes of them, by the models' README.
    static const std::vector<std::pair<std::string, std::string>> expectedTexts;
    void expectTextsOfTheReference(const Arguments &device) const;
    void expectSmallCaches(const Arguments &device) const;
    // A drawn model, grouped and with a classifier of its own: tokens, queries and keys.
    void expectWhatTheReferenceSays(const Arguments &device) const;
};
