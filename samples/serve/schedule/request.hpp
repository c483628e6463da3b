// A request, from its arrival to its end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace serve {

enum class State {
    coming,    // its step has not come
    waiting,   // for a slot, or again for one after an eviction
    prefill,   // has a slot; tokens of its prompt are still to be computed
    decoding,  // a token a step
    finished,  // the model has ended the text, or it is as long as was asked for
    cancelled, // whoever asked has gone
};

struct Request {
    uint32_t number = 0;
    std::string promptText;
    std::vector<uint32_t> prompt; // its tokens behind the system prompt
    uint32_t mostTokens = 0;      // to generate
    uint64_t arrivalStep = 0;
    uint64_t cancelAfterSteps = 0; // of the server, behind the arrival; 0: never

    State state = State::coming;
    uint32_t slot = 0;
    std::vector<int32_t> pages;
    uint32_t computed = 0;                     // tokens in the cache
    std::vector<uint32_t> tokens;              // generated
    uint64_t logitsHash = 0xcbf29ce484222325u; // FNV-1a of the bits of the logits that tokens were chosen from
    uint32_t evictions = 0;
    uint32_t chosenAt = 0;       // where its tokens were chosen: how often the model had moved before
    bool choseElsewhere = false; // some of them: their bits are of two places

    double arrived = 0, first = 0, last = 0; // seconds: the arrival, the first token and the last
    std::vector<float> gaps;                 // seconds from a token to the next

    // The token at a place of the request: of the prompt, then of what was generated.
    [[nodiscard]] uint32_t tokenAt(uint32_t place) const { return place < prompt.size() ? prompt[place] : tokens[place - prompt.size()]; }
    [[nodiscard]] uint32_t promptTokens() const { return static_cast<uint32_t>(prompt.size()); }
    [[nodiscard]] uint32_t known() const { return static_cast<uint32_t>(prompt.size() + tokens.size()); }
    [[nodiscard]] bool over() const { return state == State::finished || state == State::cancelled; }
};

} // namespace serve
