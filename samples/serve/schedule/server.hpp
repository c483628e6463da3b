// Requests that arrive, share the device, and leave: which of them a step computes, and which pages they have.
#pragma once

#include "model/computer.hpp"
#include "schedule/pages.hpp"
#include "schedule/request.hpp"

#include <chrono>
#include <functional>

namespace serve {

// What happened, of all requests.
struct Counts {
    uint64_t steps = 0, prefills = 0, decodes = 0; // steps of the server, and lists that ran
    uint64_t promptTokens = 0, generatedTokens = 0;
    uint32_t mostPages = 0, mostSlots = 0; // at once
    uint32_t evictions = 0, finished = 0, cancelled = 0;
};

class Server {
  public:
    // Requests are in the order of their arrival. The computer and the requests outlive the server.
    Server(Computer &computer, const Capacity &capacity, std::vector<Request> &requests);

    // Computes a chunk of a prompt, if there is one, and a token of every request that decodes. Where the device fails, the model
    // moves to the CPU, and whoever has a slot goes there with the tokens so far. Returns false once all requests are over. Throws
    // Failure as Computer::moveToCpu does.
    [[nodiscard]] bool step();

    [[nodiscard]] const Counts &counts() const { return counts_; }
    [[nodiscard]] const FreePages &pages() const { return pages_; }
    // The request of each slot; NULL: none.
    [[nodiscard]] std::span<Request *const> slots() const { return slots_; }
    [[nodiscard]] size_t waiting() const;
    [[nodiscard]] double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

  private:
    void admit();
    void cancel();
    void seat();
    void prefill();
    void decode();
    // Takes the pages that so many tokens need, from requests that came later where none is free. Returns false where
    // the request itself had to leave.
    [[nodiscard]] bool reserve(Request &request, uint32_t tokens);
    [[nodiscard]] Request *latest() const;
    void evict(Request &request);
    void evictAll();
    void leave(Request &request, State state);
    void choose(Request &request, std::span<const float> logits);

    Computer &computer_;
    Capacity capacity_;
    std::vector<Request> &requests_;
    FreePages pages_;
    std::vector<Request *> slots_;
    std::vector<float> logits_;
    std::vector<int32_t> tables_;
    Counts counts_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

} // namespace serve
