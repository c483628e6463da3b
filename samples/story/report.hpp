// What a run prints beside the text: figures on stderr, or one JSON object on stdout.
#pragma once

#include "arguments.hpp"
#include "inspection.hpp"
#include "model/transformer.hpp"

namespace story {

struct Report {
    const Arguments &arguments;
    const Shape &shape;
    std::string device{}, driver{}, fallbackReason{};
    std::string text{}; // the prompt and its continuation
    std::vector<uint32_t> tokens{};
    std::vector<std::string> pieces{}; // the text of each token
    std::vector<float> leads{};        // of each token behind the prompt: the largest logit less the next
    uint32_t promptTokens = 0, steps = 0;
    bool ended = false; // the model ended the text before the last step
    double recordingMilliseconds = 0;
    double prefillMilliseconds = 0; // of the prompt's tokens, with what the driver compiles then
    // Of the tokens behind the prompt but the first, with which a driver may compile.
    uint32_t decodedTokens = 0;
    double decodeMilliseconds = 0;
    std::optional<Verification> verification{};
    uint64_t cacheBytesPerToken = 0;
    CacheError cacheError{}; // of no layers where the cache is of float32
    std::vector<WrittenArray> written{};
};

void printFigures(const Report &report);
[[nodiscard]] std::string jsonOf(const Report &report);

// The worst step in words, for stderr.
[[nodiscard]] std::string worstText(const Verification &verification);

} // namespace story
