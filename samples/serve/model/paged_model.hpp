// The model of samples/story for many requests at once: keys and values in pages of a pool, a system prompt that all
// share, and two lists that are recorded once: one computes a chunk of one request's prompt, one a token of every
// request. Lengths and page tables are data that the commands read when they run.
#pragma once

#include "story/model/weights.hpp"

namespace serve {

// How many requests and tokens the lists and the pool have room for.
struct Capacity {
    uint32_t slots = 16; // requests that are computed together
    uint32_t chunk = 16; // tokens of a prompt that are computed at once
    uint32_t pageTokens = 16;
    uint32_t pages = 0;     // of the pool
    uint32_t slotPages = 0; // most pages of a request
};

// A token of a slot: which one, and how many tokens the slot had before. A slot that does nothing has no place.
struct SlotToken {
    static constexpr uint32_t nothing = 0xffffffffu;
    uint32_t token = 0, place = nothing;
};

class PagedModel {
  public:
    // Computes the system prompt, which is not empty. Throws story::ComputeError, as all calls here do.
    PagedModel(vkattn::Runtime &runtime, const story::Checkpoint &checkpoint, const Capacity &capacity,
               std::span<const uint32_t> systemPrompt);

    // Computes tokens of one request, at most a chunk, from place `first` of its own on, and writes the logits behind
    // the last. `pages`: those of the request, enough for the tokens.
    void prefill(std::span<const uint32_t> tokens, uint32_t first, std::span<const int32_t> pages, std::span<float> logits);
    // Computes a token of every slot that has one. `tables`: [slots][slotPages]. Writes the logits of all slots, which
    // mean nothing of those that do nothing.
    void decode(std::span<const SlotToken> tokens, std::span<const int32_t> tables, std::span<float> logits);

    [[nodiscard]] uint32_t vocabulary() const { return shape_.vocabulary; }
    // Tokens that a request may have behind the system prompt.
    [[nodiscard]] uint32_t positions() const { return shape_.positions - systemTokens_; }

  private:
    struct Cache {
        vkattn::DeviceTensor keyPool, valuePool;       // [pages, kvHeads, pageTokens, dims of a head]
        vkattn::DeviceTensor systemKeys, systemValues; // [1, kvHeads, tokens, dims of a head]
    };
    // A list that computes `batch` requests of `tokens` tokens each, and what goes in and out.
    struct Pass {
        uint32_t batch, tokens;
        vkattn::DeviceTensor ids, places, positions, keyCounts, table, last, logits;
        vkattn::OperationList list;
    };
    class Builder;

    void uploadWords(const vkattn::DeviceTensor &tensor, std::span<const uint32_t> words) const;
    [[nodiscard]] Pass passOf(uint32_t batch, uint32_t tokens);
    void computeSystemPrompt(std::span<const uint32_t> tokens);
    void run(Pass &pass, std::span<float> logits) const;

    vkattn::Runtime &runtime_;
    story::Shape shape_;
    Capacity capacity_;
    uint32_t systemTokens_;
    story::Weights weights_;
    std::vector<Cache> caches_; // by layer
    std::vector<Pass> passes_;  // prefill, decode
};

} // namespace serve
