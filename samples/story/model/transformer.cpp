#include "transformer.hpp"

#include "layer_steps.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace story {

using namespace vkattn;

namespace {

double secondsNow() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double ratioOf(const vkattn_verify_report &report) {
    return report.worstBound > 0 ? report.worstError / report.worstBound : report.worstError;
}

} // namespace

// Appends the steps of a pass, each with a name.
class Transformer::Builder {
  public:
    Builder(Transformer &model, Pass &pass, uint32_t tokens)
        : m_(model), s_(model.shape_), pass_(pass), tokens_(tokens), steps_(model.runtime_, s_, model.weights_, pass.list, 1, tokens) {
        pass_.tokens = allocate(m_.runtime_, words(tokens));
        pass_.logits = allocate(m_.runtime_, matrix(VKATTN_F32, 1, s_.vocabulary));
        attended_ = steps_.rows(s_.dims);
    }

    void build() {
        steps_.addEmbedding(pass_.tokens);
        for (uint32_t n = 0; n < s_.layers; ++n) {
            steps_.addProjections(n);
            steps_.addOutput(n, addAttention(m_.caches_[n]));
        }
        steps_.addLogits(steps_.x().part(2, tokens_ - 1, 1), pass_.logits); // only the last token's are wanted
        steps_.add("next start", AdvanceOf{m_.start_, m_.start_, tokens_, s_.positions});
        steps_.add("next key count", AdvanceOf{m_.keyCount_, m_.keyCount_, 1, s_.positions});
        pass_.names = steps_.names();
    }

  private:
    // Returns what attention gives, a row for each token.
    [[nodiscard]] DeviceTensor addAttention(const Cache &cache) {
        const DeviceTensor q = steps_.queries(), k = steps_.keys(), v = steps_.values();
        steps_.addRotary("rotary of queries", q, q, m_.start_);
        if (!cache.exactKeys) {
            steps_.addRotary("rotary of keys", k, cache.keys, m_.start_, VKATTN_ROTARY_APPEND);
            steps_.add("append values", AppendOf{v, cache.values, m_.start_});
        } else {
            steps_.addRotary("rotary of float32 keys", k, cache.exactKeys, m_.start_, VKATTN_ROTARY_APPEND);
            steps_.add("append float32 values", AppendOf{v, cache.exactValues, m_.start_});
            steps_.addRotary("rotary of keys", k, k, m_.start_);
            if (m_.options_.hadamard) steps_.add("rotate keys", HadamardOf{k, k}), steps_.add("rotate values", HadamardOf{v, v});
            steps_.add("append keys", AppendOf{k, cache.keys, m_.start_});
            steps_.add("append values", AppendOf{v, cache.values, m_.start_});
        }
        if (cache.queries) steps_.add("keep queries", AppendOf{q, cache.queries, m_.start_});
        if (!cache.exactKeys) {
            attend("attention", q, cache.keys, cache.values, attended_);
            return attended_;
        }
        pass_.attended.push_back(steps_.rows(s_.dims)), pass_.exact.push_back(steps_.rows(s_.dims));
        attend("attention of float32", q, cache.exactKeys, cache.exactValues, pass_.exact.back());
        const DeviceTensor attended = pass_.attended.back(), heads = steps_.headsOf(attended, s_.heads, s_.headDim());
        if (m_.options_.hadamard) steps_.add("rotate queries", HadamardOf{q, q});
        attend("attention", q, cache.keys, cache.values, attended);
        if (m_.options_.hadamard) steps_.add("rotate back", HadamardOf{heads, heads});
        return pass_.attended.back();
    }
    void attend(const char *name, const DeviceTensor &q, const DeviceTensor &keys, const DeviceTensor &values, const DeviceTensor &rows) {
        AttentionOf attention{q, keys, values, steps_.headsOf(rows, s_.heads, s_.headDim())};
        attention.keyLengths = m_.keyCount_;
        attention.options.flags = VKATTN_CAUSAL;
        steps_.add(name, attention);
    }

    const Transformer &m_;
    const Shape &s_;
    Pass &pass_;
    uint32_t tokens_;
    LayerSteps steps_;
    DeviceTensor attended_;
};

Transformer::Transformer(Runtime &runtime, const Checkpoint &checkpoint, const TransformerOptions &options)
    : runtime_(runtime), shape_(checkpoint.shape), options_(options), weights_(runtime, checkpoint) {
    const Shape &s = shape_;
    for (uint32_t n = 0; n < s.layers; ++n) {
        Cache &cache = caches_.emplace_back();
        const auto tensor = [&](vkattn_dtype type, uint32_t heads) {
            return allocate(runtime_, packed(type, 1, heads, s.positions, s.headDim()));
        };
        cache.keys = tensor(options_.cacheType, s.kvHeads), cache.values = tensor(options_.cacheType, s.kvHeads);
        if (options_.cacheType != VKATTN_F32)
            cache.exactKeys = tensor(VKATTN_F32, s.kvHeads), cache.exactValues = tensor(VKATTN_F32, s.kvHeads);
        const bool isKept = std::find(options_.kept.begin(), options_.kept.end(), n) != options_.kept.end();
        if (isKept) cache.queries = tensor(VKATTN_F32, s.heads);
    }
    if (options_.cacheType != VKATTN_F32) cacheError_.layers.resize(s.layers);
    start_ = allocate(runtime_, words(1)), keyCount_ = allocate(runtime_, words(1));
}

uint64_t Transformer::bytesPerToken() const {
    return 2ull * shape_.layers * shape_.kvHeads * rowBytes(options_.cacheType, shape_.headDim());
}

Transformer::Pass Transformer::build(uint32_t tokens) {
    Pass pass{{}, {}, runtime_.list()};
    Builder(*this, pass, tokens).build();
    std::string why;
    check(pass.list.record(&why), why);
    return pass;
}

void Transformer::compute(std::span<const uint32_t> tokens, std::span<float> logits) {
    std::string why;
    const auto count = static_cast<uint32_t>(tokens.size());
    const double before = secondsNow();
    const bool fresh = count > 1 || !one_;
    std::optional<Pass> together;
    if (count > 1)
        together.emplace(build(count));
    else if (!one_)
        one_.emplace(build(1));
    recordingSeconds_ = fresh ? secondsNow() - before : 0;
    Pass &pass = together ? *together : *one_;
    if (computed_ == 0 || count > 1) { // otherwise the device has moved them on
        const uint32_t keys = computed_ + count;
        check(start_.upload(&computed_, sizeof computed_, &why), why);
        check(keyCount_.upload(&keys, sizeof keys, &why), why);
    }
    check(pass.tokens.upload(tokens.data(), tokens.size_bytes(), &why), why);
    if (options_.verify)
        verify(pass);
    else
        replay(pass);
    if (!cacheError_.layers.empty()) measureCache(pass);
    check(pass.logits.download(logits.data(), logits.size_bytes(), &why), why);
    computed_ += count;
}

void Transformer::replay(Pass &pass) {
    std::string why;
    check(pass.list.submit(&why), why);
    check(pass.list.wait(&why), why);
}

void Transformer::verify(Pass &pass) {
    std::string why;
    std::vector<StepCheck> checks;
    check(pass.list.verify(checks, &*options_.verify, &why), why);
    for (size_t n = 0; n < checks.size(); ++n) {
        const vkattn_verify_report &report = checks[n].report;
        Verification &all = verification_;
        const bool first = all.passed && !report.passed, larger = all.passed && ratioOf(report) > ratioOf(all.worst);
        if (first || larger || all.steps == 0) {
            all.worst = report, all.worstStep = pass.names[n], all.worstOperation = checks[n].operation;
            all.worstPosition = computed_;
        }
        all.passed = all.passed && report.passed;
        all.rows += report.rowsChecked;
        ++all.steps;
    }
}

void Transformer::measureCache(const Pass &pass) {
    std::string why;
    for (size_t n = 0; n < pass.exact.size(); ++n) {
        std::vector<float> got(size_t{pass.exact[n].layout().extent[2]} * shape_.dims), exact(got.size());
        check(pass.attended[n].download(got.data(), got.size() * sizeof(float), &why), why);
        check(pass.exact[n].download(exact.data(), exact.size() * sizeof(float), &why), why);
        CacheError::Sums &sums = cacheError_.layers[n];
        for (size_t e = 0; e < got.size(); ++e) {
            const double value = static_cast<double>(exact[e]), difference = static_cast<double>(got[e]) - value;
            sums.squares += value * value, sums.ofDifferences += difference * difference;
        }
    }
}

double CacheError::Sums::relative() const {
    return squares > 0 ? std::sqrt(ofDifferences / squares) : 0;
}
double CacheError::relative() const {
    Sums all;
    for (const Sums &each : layers) all.squares += each.squares, all.ofDifferences += each.ofDifferences;
    return all.relative();
}
size_t CacheError::worstLayer() const {
    const auto less = [](const Sums &a, const Sums &b) { return a.relative() < b.relative(); };
    return static_cast<size_t>(std::max_element(layers.begin(), layers.end(), less) - layers.begin());
}

std::vector<float> Transformer::firstTokens(const DeviceTensor &cache) const {
    const DeviceTensor part = cache.part(2, 0, computed_);
    std::vector<float> numbers(size_t{part.layout().extent[1]} * computed_ * shape_.headDim());
    std::string why;
    check(part.download(numbers.data(), numbers.size() * sizeof(float), &why), why);
    return numbers;
}

std::vector<float> Transformer::queries(size_t n) const {
    return firstTokens(caches_[options_.kept[n]].queries);
}
std::vector<float> Transformer::keys(size_t n) const {
    const Cache &cache = caches_[options_.kept[n]];
    return firstTokens(cache.exactKeys ? cache.exactKeys : cache.keys);
}

} // namespace story
