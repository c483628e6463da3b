#include "transformer.hpp"

#include "shader_steps.hpp"

#include <algorithm>
#include <chrono>

namespace story {

using namespace vkattn;

namespace {

constexpr double rotaryBase = 10000;
constexpr float epsilon = 1e-5f;

void check(vkattn_result result, const std::string &why) {
    if (result != VKATTN_OK) throw ComputeError(result, why);
}

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
    Builder(const Transformer &model, Pass &pass, uint32_t tokens) : m_(model), s_(model.shape_), pass_(pass), tokens_(tokens) {
        x_ = rows(s_.dims), normed_ = rows(s_.dims), q_ = rows(s_.dims), attended_ = rows(s_.dims);
        k_ = rows(s_.kvDims()), v_ = rows(s_.kvDims()), gate_ = rows(s_.hidden), up_ = rows(s_.hidden);
        pass_.tokens = m_.allocate(words(tokens));
        pass_.logits = m_.allocate(matrix(VKATTN_F32, 1, s_.vocabulary));
    }

    void build() {
        where_ = "";
        note("embedding", addEmbedding(pass_.list, pass_.tokens, m_.embedding_, x_, &why_));
        for (uint32_t n = 0; n < s_.layers; ++n) {
            where_ = "layer " + std::to_string(n) + ": ";
            addAttention(m_.layers_[n]);
            addFeedForward(m_.layers_[n]);
        }
        where_ = "";
        // Only the last token's logits are wanted.
        const DeviceTensor last = normed_.part(2, tokens_ - 1, 1);
        add("final norm", norm(x_.part(2, tokens_ - 1, 1), last, m_.finalNorm_));
        add("logits", ProjectionOf{last, m_.classifier_, pass_.logits});
        add("next start", AdvanceOf{m_.start_, m_.start_, tokens_, s_.positions});
        add("next key count", AdvanceOf{m_.keyCount_, m_.keyCount_, 1, s_.positions});
    }

  private:
    [[nodiscard]] DeviceTensor rows(uint32_t dims) const { return m_.allocate(matrix(VKATTN_F32, tokens_, dims)); }
    [[nodiscard]] static NormOf norm(const DeviceTensor &x, const DeviceTensor &y, const DeviceTensor &gamma) {
        NormOf description{VKATTN_RMS_NORM, x, y, gamma};
        description.epsilon = epsilon;
        return description;
    }
    // Heads of a row, by strides.
    [[nodiscard]] DeviceTensor headsOf(const DeviceTensor &all, uint32_t heads) const {
        return all.view(packedTokenMajor(VKATTN_F32, 1, heads, tokens_, s_.headDim()));
    }
    void note(const char *name, vkattn_result result) {
        check(result, where_ + name + ": " + why_);
        pass_.names.push_back(where_ + name);
    }
    template <class Operation> void add(const char *name, const Operation &operation) { note(name, pass_.list.add(operation, &why_)); }

    void addAttention(const Layer &layer) {
        add("attention norm", norm(x_, normed_, layer.attentionNorm));
        add("queries", ProjectionOf{normed_, layer.wq, q_});
        add("keys", ProjectionOf{normed_, layer.wk, k_});
        add("values", ProjectionOf{normed_, layer.wv, v_});
        const DeviceTensor q = headsOf(q_, s_.heads);
        RotaryOf turnQueries{q, m_.cosines_, m_.sines_, q, {}, m_.start_, VKATTN_PAIRS_INTERLEAVED};
        add("rotary of queries", turnQueries);
        RotaryOf turnKeys{headsOf(k_, s_.kvHeads), m_.cosines_, m_.sines_, layer.keys, {}, m_.start_, VKATTN_PAIRS_INTERLEAVED};
        turnKeys.flags = VKATTN_ROTARY_APPEND;
        add("rotary of keys", turnKeys);
        add("append values", AppendOf{headsOf(v_, s_.kvHeads), layer.values, m_.start_});
        if (layer.queries) add("keep queries", AppendOf{q, layer.queries, m_.start_});
        AttentionOf attention{q, layer.keys, layer.values, headsOf(attended_, s_.heads)};
        attention.keyLengths = m_.keyCount_;
        attention.options.flags = VKATTN_CAUSAL;
        add("attention", attention);
        ProjectionOf out{attended_, layer.wo, x_};
        out.residual = x_;
        add("attention output", out);
    }
    void addFeedForward(const Layer &layer) {
        add("feed-forward norm", norm(x_, normed_, layer.feedForwardNorm));
        add("gate", ProjectionOf{normed_, layer.w1, gate_});
        add("up", ProjectionOf{normed_, layer.w3, up_});
        note("swiglu", addSwiGlu(pass_.list, gate_, up_, &why_));
        ProjectionOf down{gate_, layer.w2, x_};
        down.residual = x_;
        add("down", down);
    }

    const Transformer &m_;
    const Shape &s_;
    Pass &pass_;
    uint32_t tokens_;
    DeviceTensor x_, normed_, q_, k_, v_, attended_, gate_, up_;
    std::string where_, why_;
};

DeviceTensor Transformer::allocate(const vkattn_layout &layout) const {
    std::string why;
    const DeviceTensor tensor = runtime_.allocate(layout, &why);
    if (!tensor) throw ComputeError(runtime_.device() ? VKATTN_ERROR_OUT_OF_DEVICE_MEMORY : VKATTN_ERROR_OUT_OF_HOST_MEMORY, why);
    return tensor;
}

DeviceTensor Transformer::upload(const vkattn_layout &layout, std::span<const float> numbers) const {
    const DeviceTensor tensor = allocate(layout);
    std::string why;
    check(tensor.upload(numbers.data(), numbers.size_bytes(), &why), why);
    return tensor;
}

Transformer::Transformer(Runtime &runtime, const Checkpoint &checkpoint, const std::vector<uint32_t> &kept,
                         const std::optional<vkattn_verify_options> &verify)
    : runtime_(runtime), shape_(checkpoint.shape), kept_(kept), verify_(verify) {
    const Shape &s = shape_;
    const auto weights = [&](std::span<const float> all, uint32_t layer, uint32_t out, uint32_t in) {
        return upload(matrix(VKATTN_F32, out, in), checkpoint.of(all, layer));
    };
    for (uint32_t n = 0; n < s.layers; ++n) {
        Layer &layer = layers_.emplace_back();
        layer.attentionNorm = weights(checkpoint.attentionNorm, n, 1, s.dims);
        layer.wq = weights(checkpoint.wq, n, s.dims, s.dims);
        layer.wk = weights(checkpoint.wk, n, s.kvDims(), s.dims);
        layer.wv = weights(checkpoint.wv, n, s.kvDims(), s.dims);
        layer.wo = weights(checkpoint.wo, n, s.dims, s.dims);
        layer.feedForwardNorm = weights(checkpoint.feedForwardNorm, n, 1, s.dims);
        layer.w1 = weights(checkpoint.w1, n, s.hidden, s.dims);
        layer.w2 = weights(checkpoint.w2, n, s.dims, s.hidden);
        layer.w3 = weights(checkpoint.w3, n, s.hidden, s.dims);
        layer.keys = allocate(packed(VKATTN_F32, 1, s.kvHeads, s.positions, s.headDim()));
        layer.values = allocate(layer.keys.layout());
        if (std::find(kept_.begin(), kept_.end(), n) != kept_.end())
            layer.queries = allocate(packed(VKATTN_F32, 1, s.heads, s.positions, s.headDim()));
    }
    embedding_ = upload(matrix(VKATTN_F32, s.vocabulary, s.dims), checkpoint.embedding);
    classifier_ = s.tied ? embedding_ : upload(embedding_.layout(), checkpoint.classifier);
    finalNorm_ = upload(matrix(VKATTN_F32, 1, s.dims), checkpoint.finalNorm);
    const uint32_t columns = s.headDim() / 2;
    std::vector<float> cosines(size_t{s.positions} * columns), sines(cosines.size());
    vkattn_diagnostic why{};
    check(vkattnRotaryTable(s.positions, s.headDim(), rotaryBase, cosines.data(), sines.data(), &why), why.message);
    cosines_ = upload(matrix(VKATTN_F32, s.positions, columns), cosines);
    sines_ = upload(cosines_.layout(), sines);
    start_ = allocate(words(1)), keyCount_ = allocate(words(1));
}

Transformer::Pass Transformer::build(uint32_t tokens) const {
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
    if (verify_)
        verify(pass);
    else
        replay(pass);
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
    check(pass.list.verify(checks, &*verify_, &why), why);
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

std::vector<float> Transformer::firstTokens(const DeviceTensor &cache) const {
    const DeviceTensor part = cache.part(2, 0, computed_);
    std::vector<float> numbers(size_t{part.layout().extent[1]} * computed_ * shape_.headDim());
    std::string why;
    check(part.download(numbers.data(), numbers.size() * sizeof(float), &why), why);
    return numbers;
}

std::vector<float> Transformer::queries(size_t n) const {
    return firstTokens(layers_[kept_[n]].queries);
}
std::vector<float> Transformer::keys(size_t n) const {
    return firstTokens(layers_[kept_[n]].keys);
}

} // namespace story
