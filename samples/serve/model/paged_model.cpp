#include "paged_model.hpp"

#include "story/model/layer_steps.hpp"
#include "story/model/shader_steps.hpp"

#include <algorithm>

namespace serve {

using namespace vkattn;
using story::allocate;
using story::check;
using story::LayerSteps;

// Appends the steps of a pass. Rows are tokens: those of a request one after the other, or one of each request.
class PagedModel::Builder {
  public:
    // `system`: the pass computes the system prompt itself, whose keys lie in no pages.
    Builder(PagedModel &model, Pass &pass, bool system)
        : m_(model), s_(model.shape_), pass_(pass), system_(system),
          steps_(model.runtime_, s_, model.weights_, pass.list, pass.batch, pass.tokens) {
        attended_ = steps_.rows(s_.dims), lse_ = steps_.rows(s_.heads);
    }

    void build() {
        steps_.addEmbedding(pass_.ids);
        for (uint32_t n = 0; n < s_.layers; ++n) {
            steps_.addProjections(n);
            addAttention(m_.caches_[n]);
            steps_.addOutput(n, attended_);
        }
        if (system_) return; // its logits are nobody's
        DeviceTensor rows = steps_.x();
        if (pass_.batch == 1) { // of a prompt only the last token's, whose row is a number on the device
            rows = allocate(m_.runtime_, matrix(VKATTN_F32, 1, s_.dims));
            std::string why;
            steps_.note("last row", story::addEmbedding(pass_.list, pass_.last, steps_.x(), rows, &why), why);
        }
        steps_.addLogits(rows, pass_.logits);
    }

  private:
    void addAttention(const Cache &cache) {
        const DeviceTensor q = steps_.queries(), k = steps_.keys(), v = steps_.values();
        steps_.addRotary("rotary of queries", q, q, pass_.positions);
        steps_.addRotary("rotary of keys", k, k, pass_.positions);
        const DeviceTensor out = steps_.headsOf(attended_, s_.heads, s_.headDim());
        if (system_) {
            steps_.add("append keys", AppendOf{k, cache.systemKeys, pass_.places});
            steps_.add("append values", AppendOf{v, cache.systemValues, pass_.places});
            AttentionOf attention{q, k, v, out};
            attention.options.flags = VKATTN_CAUSAL | VKATTN_DETERMINISTIC;
            return steps_.add("attention", attention);
        }
        AppendOf keys{k, cache.keyPool, pass_.places}, values{v, cache.valuePool, pass_.places};
        keys.pageTable = values.pageTable = pass_.table;
        steps_.add("append keys", keys), steps_.add("append values", values);
        AttentionOf own{q, cache.keyPool, cache.valuePool, out, steps_.headsOf(lse_, s_.heads, 1)};
        own.keyLengths = pass_.keyCounts, own.pageTable = pass_.table;
        own.options.flags = VKATTN_DETERMINISTIC | VKATTN_CAUSAL;
        own.queryOffsets = pass_.places; // a token sees those of its request up to its own place
        // The system prompt comes before all tokens of a request: its keys are read once for all rows.
        const CascadeLevel shared{cache.systemKeys, cache.systemValues};
        steps_.add("attention", CascadeOf{own, {&shared, 1}});
    }

    const PagedModel &m_;
    const story::Shape &s_;
    Pass &pass_;
    bool system_;
    LayerSteps steps_;
    DeviceTensor attended_, lse_;
};

void PagedModel::uploadWords(const DeviceTensor &tensor, std::span<const uint32_t> words) const {
    std::string why;
    check(tensor.upload(words.data(), words.size_bytes(), &why), why);
}

PagedModel::PagedModel(Runtime &runtime, const story::Checkpoint &checkpoint, const Capacity &capacity,
                       std::span<const uint32_t> systemPrompt)
    : runtime_(runtime), shape_(checkpoint.shape), capacity_(capacity), systemTokens_(static_cast<uint32_t>(systemPrompt.size())),
      weights_(runtime, checkpoint) {
    const auto tensor = [&](uint32_t batch, uint32_t tokens) {
        return allocate(runtime_, packed(VKATTN_F32, batch, shape_.kvHeads, tokens, shape_.headDim()));
    };
    for (uint32_t n = 0; n < shape_.layers; ++n)
        caches_.push_back({tensor(capacity_.pages, capacity_.pageTokens), tensor(capacity_.pages, capacity_.pageTokens),
                           tensor(1, systemTokens_), tensor(1, systemTokens_)});
    computeSystemPrompt(systemPrompt);
    for (const auto &[batch, tokens] : {std::pair{1u, capacity_.chunk}, {capacity_.slots, 1u}}) {
        Pass &pass = passes_.emplace_back(passOf(batch, tokens));
        Builder(*this, pass, false).build();
        std::string reason;
        check(pass.list.record(&reason), reason);
    }
}

PagedModel::Pass PagedModel::passOf(uint32_t batch, uint32_t tokens) {
    Pass pass{batch, tokens, {}, {}, {}, {}, {}, {}, {}, runtime_.list()};
    const auto array = [&](uint32_t count) { return allocate(runtime_, words(count)); };
    pass.ids = array(batch * tokens), pass.table = array(batch * capacity_.slotPages), pass.last = array(1);
    pass.places = array(batch), pass.positions = array(batch), pass.keyCounts = array(batch);
    pass.logits = allocate(runtime_, matrix(VKATTN_F32, batch, shape_.vocabulary));
    return pass;
}

void PagedModel::computeSystemPrompt(std::span<const uint32_t> tokens) {
    Pass pass = passOf(1, systemTokens_);
    Builder(*this, pass, true).build();
    uploadWords(pass.ids, tokens);
    const uint32_t zero = 0;
    uploadWords(pass.places, {&zero, 1}), uploadWords(pass.positions, {&zero, 1});
    const RunResult result = pass.list.run();
    check(result.status, result.message);
}

void PagedModel::run(Pass &pass, std::span<float> logits) const {
    std::string why;
    check(pass.list.submit(&why), why);
    check(pass.list.wait(&why), why);
    check(pass.logits.download(logits.data(), logits.size_bytes(), &why), why);
}

void PagedModel::prefill(std::span<const uint32_t> tokens, uint32_t first, std::span<const int32_t> pages, std::span<float> logits) {
    Pass &pass = passes_[0];
    std::vector<uint32_t> ids(capacity_.chunk, 0), table(capacity_.slotPages, 0xffffffffu);
    std::copy(tokens.begin(), tokens.end(), ids.begin());
    std::copy(pages.begin(), pages.end(), table.begin());
    // Tokens behind the last are computed for nothing, and where they go later ones come: nobody sees them before.
    const auto count = static_cast<uint32_t>(tokens.size());
    const uint32_t position = systemTokens_ + first, keys = first + count, last = count - 1;
    uploadWords(pass.ids, ids), uploadWords(pass.table, table);
    uploadWords(pass.places, {&first, 1}), uploadWords(pass.positions, {&position, 1});
    uploadWords(pass.keyCounts, {&keys, 1}), uploadWords(pass.last, {&last, 1});
    run(pass, logits);
}

void PagedModel::decode(std::span<const SlotToken> tokens, std::span<const int32_t> tables, std::span<float> logits) {
    Pass &pass = passes_[1];
    std::vector<uint32_t> ids, places, positions, keys, table(tables.begin(), tables.end());
    for (const SlotToken &each : tokens) {
        const bool idle = each.place == SlotToken::nothing;
        ids.push_back(each.token);
        places.push_back(each.place); // of nothing: past every cache, where append writes nothing
        positions.push_back(idle ? 0 : systemTokens_ + each.place);
        keys.push_back(idle ? 0 : each.place + 1);
    }
    uploadWords(pass.ids, ids), uploadWords(pass.table, table);
    uploadWords(pass.places, places), uploadWords(pass.positions, positions), uploadWords(pass.keyCounts, keys);
    run(pass, logits);
}

} // namespace serve
