#include "server.hpp"

#include "story/text/tokenizer.hpp"

#include <algorithm>
#include <bit>

namespace serve {

Server::Server(Computer &computer, const Capacity &capacity, std::vector<Request> &requests)
    : computer_(computer), capacity_(capacity), requests_(requests), pages_(capacity.pages), slots_(capacity.slots, nullptr),
      logits_(size_t{capacity.slots} * computer.model().vocabulary()), tables_(size_t{capacity.slots} * capacity.slotPages) {}

size_t Server::waiting() const {
    return static_cast<size_t>(
        std::count_if(requests_.begin(), requests_.end(), [](const Request &r) { return r.state == State::waiting; }));
}

bool Server::step() {
    if (std::all_of(requests_.begin(), requests_.end(), [](const Request &r) { return r.over(); })) return false;
    admit();
    cancel();
    seat();
    try {
        prefill();
        decode();
    } catch (const story::ComputeError &error) {
        computer_.moveToCpu(error);
        evictAll(); // their keys and values are lost
    }
    ++counts_.steps;
    const auto busy = std::count_if(slots_.begin(), slots_.end(), [](const Request *r) { return r != nullptr; });
    counts_.mostSlots = std::max(counts_.mostSlots, static_cast<uint32_t>(busy));
    counts_.mostPages = std::max(counts_.mostPages, pages_.held());
    return true;
}

void Server::admit() {
    for (Request &r : requests_)
        if (r.state == State::coming && r.arrivalStep <= counts_.steps) r.state = State::waiting, r.arrived = seconds();
}

void Server::cancel() {
    for (Request &r : requests_)
        if (!r.over() && r.state != State::coming && r.cancelAfterSteps && counts_.steps >= r.arrivalStep + r.cancelAfterSteps)
            leave(r, State::cancelled);
}

// Who has waited longest takes a slot, while there is a page for its first token.
void Server::seat() {
    uint32_t spoken = 0; // pages that those who sit down now will want
    for (Request &r : requests_) {
        if (r.state != State::waiting) continue;
        const auto slot = std::find(slots_.begin(), slots_.end(), nullptr);
        const uint32_t wanted = (std::min(r.promptTokens(), capacity_.chunk) + capacity_.pageTokens - 1) / capacity_.pageTokens;
        if (slot == slots_.end() || pages_.free() < spoken + wanted) return;
        spoken += wanted;
        *slot = &r;
        r.slot = static_cast<uint32_t>(slot - slots_.begin());
        r.state = State::prefill, r.computed = 0;
    }
}

Request *Server::latest() const {
    Request *found = nullptr;
    for (Request *r : slots_)
        if (r && !r->pages.empty() && (!found || r->number > found->number)) found = r;
    return found;
}

bool Server::reserve(Request &request, uint32_t tokens) {
    const uint32_t wanted = (tokens + capacity_.pageTokens - 1) / capacity_.pageTokens;
    while (request.pages.size() < wanted) {
        if (pages_.free()) {
            request.pages.push_back(pages_.take());
            continue;
        }
        Request *const other = latest();
        evict(*other);
        if (other == &request) return false;
    }
    return true;
}

// Its tokens are computed again once there is room: those of the prompt in the same chunks, the others one by one as
// before, so that every bit is what it was.
void Server::evict(Request &request) {
    pages_.giveBack(request.pages);
    slots_[request.slot] = nullptr;
    request.state = State::waiting;
    request.computed = 0;
    ++request.evictions, ++counts_.evictions;
}

void Server::evictAll() {
    for (Request *r : std::vector<Request *>(slots_))
        if (r) evict(*r);
}

void Server::leave(Request &request, State state) {
    pages_.giveBack(request.pages);
    if (request.state == State::prefill || request.state == State::decoding) slots_[request.slot] = nullptr;
    request.state = state;
    ++(state == State::finished ? counts_.finished : counts_.cancelled);
}

// The most probable token: the same for everyone who asks the same.
void Server::choose(Request &request, std::span<const float> logits) {
    for (const float logit : logits)
        for (uint32_t bits = std::bit_cast<uint32_t>(logit), n = 0; n < 4; ++n, bits >>= 8)
            request.logitsHash = (request.logitsHash ^ (bits & 0xff)) * 0x100000001b3u;
    if (request.tokens.empty()) request.chosenAt = computer_.moves();
    request.choseElsewhere = request.choseElsewhere || request.chosenAt != computer_.moves();
    const auto token = static_cast<uint32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    const double now = seconds();
    if (request.tokens.empty())
        request.first = now;
    else
        request.gaps.push_back(static_cast<float>(now - request.last));
    request.last = now;
    if (token == story::beginToken) return leave(request, State::finished);
    request.tokens.push_back(token);
    ++counts_.generatedTokens;
    if (request.tokens.size() == request.mostTokens || request.known() == computer_.model().positions()) leave(request, State::finished);
}

// A chunk of the request that sat down first: prompts do not keep those waiting that decode.
void Server::prefill() {
    Request *request = nullptr;
    for (Request *r : slots_)
        if (r && r->state == State::prefill && (!request || r->number < request->number)) request = r;
    if (!request) return;
    const uint32_t first = request->computed, count = std::min(capacity_.chunk, request->promptTokens() - first);
    if (!reserve(*request, first + count)) return;
    std::vector<uint32_t> tokens;
    for (uint32_t n = 0; n < count; ++n) tokens.push_back(request->tokenAt(first + n));
    const std::span logits = std::span(logits_).first(computer_.model().vocabulary());
    computer_.model().prefill(tokens, first, request->pages, logits);
    request->computed += count;
    counts_.promptTokens += count, ++counts_.prefills;
    if (request->computed < request->promptTokens()) return;
    request->state = State::decoding;
    if (request->tokens.empty()) choose(*request, logits);
}

void Server::decode() {
    std::vector<SlotToken> tokens(capacity_.slots);
    std::fill(tables_.begin(), tables_.end(), -1);
    bool any = false;
    // Who came first is served first: pages are taken from those who came later.
    std::vector<Request *> order;
    for (Request *r : slots_)
        if (r && r->state == State::decoding) order.push_back(r);
    std::sort(order.begin(), order.end(), [](const Request *a, const Request *b) { return a->number < b->number; });
    for (Request *r : order)
        if (r->state == State::decoding) (void)reserve(*r, r->computed + 1); // an earlier one may have sent it away
    for (Request *r : order) {
        if (r->state != State::decoding) continue;
        any = true;
        tokens[r->slot] = {r->tokenAt(r->computed), r->computed};
        std::copy(r->pages.begin(), r->pages.end(), tables_.begin() + static_cast<ptrdiff_t>(size_t{r->slot} * capacity_.slotPages));
    }
    if (!any) return;
    computer_.model().decode(tokens, tables_, logits_);
    ++counts_.decodes;
    for (Request *r : order) {
        if (r->state != State::decoding) continue;
        if (++r->computed < r->known()) continue; // once more, of a request that was evicted
        choose(*r,
               std::span<const float>(logits_).subspan(size_t{r->slot} * computer_.model().vocabulary(), computer_.model().vocabulary()));
    }
}

} // namespace serve
