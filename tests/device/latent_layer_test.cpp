// Latent layers (vkattn/latent_layer.h) on lists, in both forms, beside their formulas: the naive
// ones, in double precision, whichever form computes.
#include "environment.hpp"
#include "support/extent.hpp"
#include "vkattn/list.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

using namespace vkattn;
using namespace vkattn::test;

namespace {

using Matrix = std::vector<std::vector<double>>;

struct Drawn {
    uint32_t batch = 1, tokens = 1, model = 1, queryLatent = 0, latent = 1, out = 1, cacheTokens = 0, past = 0;
    uint32_t heads = 1, nope = 1, rope = 2, value = 1;
    vkattn_rotary_pairs pairs = VKATTN_PAIRS_INTERLEAVED;
    bool residual = false, causal = true;
    std::vector<float> x, wdq, gammaQ, wuq, wdkv, gamma, wukv, wo, cache, cos, sin;

    static std::vector<float> normal(Random &random, uint64_t count, float scale) {
        std::normal_distribution<float> distribution;
        std::vector<float> values(count);
        for (float &each : values) each = distribution(random) * scale;
        return values;
    }
    static std::vector<float> weights(Random &random, uint32_t rows, uint32_t in) {
        return normal(random, uint64_t{rows} * in, 1 / std::sqrt(static_cast<float>(in)));
    }
    // With sizes set.
    void fill(Random &random) {
        x = normal(random, uint64_t{batch} * tokens * model, 1);
        if (queryLatent) wdq = weights(random, queryLatent, model), gammaQ = normal(random, queryLatent, 1);
        wuq = weights(random, heads * (nope + rope), queryLatent ? queryLatent : model);
        wdkv = weights(random, latent + rope, model);
        gamma = normal(random, latent, 1);
        wukv = weights(random, heads * (nope + value), latent);
        wo = weights(random, out, heads * value);
        cache = normal(random, uint64_t{batch} * cacheTokens * (latent + rope), 1);
        const uint32_t positions = past + tokens;
        cos.resize(uint64_t{positions} * rope / 2);
        sin = cos;
        EXPECT_EQ(vkattnRotaryTable(positions, rope, 10000, cos.data(), sin.data(), nullptr), VKATTN_OK);
    }
};

Drawn draw(Random &random) {
    Drawn d;
    const auto yes = [&] { return between(random, 0, 1) == 1; };
    d.batch = between(random, 1, 2), d.tokens = between(random, 1, 9), d.model = between(random, 1, 30);
    if (yes()) d.queryLatent = between(random, 1, 20);
    d.latent = between(random, 1, 20), d.heads = between(random, 1, 5);
    d.nope = between(random, 1, 9), d.rope = 2 * between(random, 1, 4), d.value = between(random, 1, 9);
    if (yes()) d.past = between(random, 0, 12), d.cacheTokens = d.past + d.tokens + between(random, 0, 5);
    d.residual = yes(), d.causal = yes();
    d.pairs = yes() ? VKATTN_PAIRS_INTERLEAVED : VKATTN_PAIRS_HALF;
    d.out = d.residual ? d.model : between(random, 1, 30);
    d.fill(random);
    return d;
}

// The formulas of the header, for one batch entry.
class Formulas {
  public:
    Formulas(const Drawn &d, uint32_t batch) : d_(d), batch_(batch) {}

    [[nodiscard]] Matrix output() {
        const Matrix x = rows(d_.x, batch_, d_.tokens, d_.model);
        const Matrix q = product(d_.queryLatent ? rms(product(x, d_.wdq), d_.gammaQ) : x, d_.wuq), down = product(x, d_.wdkv);
        Matrix kept = cached();
        for (uint32_t t = 0; t < d_.tokens; ++t) {
            std::vector<double> c(down[t].begin(), down[t].begin() + d_.latent), k(down[t].begin() + d_.latent, down[t].end());
            c = rms({c}, d_.gamma)[0];
            rotate(k, d_.past + t);
            c.insert(c.end(), k.begin(), k.end());
            kept.push_back(c);
        }
        Matrix heads(d_.tokens);
        for (uint32_t t = 0; t < d_.tokens; ++t)
            for (uint32_t h = 0; h < d_.heads; ++h) attend(q[t], t, h, kept, heads[t]);
        Matrix y = product(heads, d_.wo);
        for (uint32_t t = 0; t < d_.tokens && d_.residual; ++t)
            for (uint32_t n = 0; n < d_.out; ++n) y[t][n] += x[t][n];
        return y;
    }

  private:
    static Matrix rows(const std::vector<float> &all, uint64_t first, uint32_t count, uint32_t dims) {
        Matrix out;
        for (uint32_t n = 0; n < count; ++n)
            out.emplace_back(all.begin() + static_cast<int64_t>((first * count + n) * dims),
                             all.begin() + static_cast<int64_t>((first * count + n + 1) * dims));
        return out;
    }
    [[nodiscard]] Matrix cached() const {
        if (!d_.cacheTokens) return {};
        Matrix all = rows(d_.cache, batch_, d_.cacheTokens, d_.latent + d_.rope);
        all.resize(d_.past);
        return all;
    }
    static Matrix product(const Matrix &x, const std::vector<float> &w) {
        Matrix y;
        for (const std::vector<double> &row : x) {
            std::vector<double> &sums = y.emplace_back(w.size() / row.size());
            for (size_t o = 0; o < sums.size(); ++o)
                for (size_t n = 0; n < row.size(); ++n) sums[o] += row[n] * static_cast<double>(w[o * row.size() + n]);
        }
        return y;
    }
    static Matrix rms(Matrix x, const std::vector<float> &gamma) {
        for (std::vector<double> &row : x) {
            double squares = 0;
            for (const double each : row) squares += each * each;
            const double scale = 1 / std::sqrt(squares / static_cast<double>(row.size()) + 1e-6);
            for (size_t n = 0; n < row.size(); ++n) row[n] *= scale * static_cast<double>(gamma[n]);
        }
        return x;
    }
    void rotate(std::vector<double> &values, uint32_t position) const {
        for (uint32_t t = 0; t < d_.rope / 2; ++t) {
            const bool half = d_.pairs == VKATTN_PAIRS_HALF;
            double &a = values[half ? t : 2 * t], &b = values[half ? t + d_.rope / 2 : 2 * t + 1];
            const double angle = position * std::pow(10000.0, -2.0 * t / d_.rope), x = a, y = b;
            a = x * std::cos(angle) - y * std::sin(angle);
            b = x * std::sin(angle) + y * std::cos(angle);
        }
    }
    void attend(const std::vector<double> &queries, uint32_t token, uint32_t head, const Matrix &kept, std::vector<double> &out) const {
        const auto first = queries.begin() + head * (d_.nope + d_.rope);
        const std::vector<double> q(first, first + d_.nope);
        std::vector<double> turned(first + d_.nope, first + d_.nope + d_.rope);
        rotate(turned, d_.past + token);
        const Matrix up = rows(d_.wukv, head, d_.nope + d_.value, d_.latent);
        const size_t seen = d_.causal ? d_.past + token + 1 : kept.size();
        std::vector<double> sums(d_.value), scores;
        double most = -INFINITY, total = 0;
        for (size_t j = 0; j < seen; ++j) {
            double score = 0;
            for (uint32_t n = 0; n < d_.nope; ++n)
                for (uint32_t c = 0; c < d_.latent; ++c) score += q[n] * up[n][c] * kept[j][c];
            for (uint32_t r = 0; r < d_.rope; ++r) score += turned[r] * kept[j][d_.latent + r];
            scores.push_back(score / std::sqrt(static_cast<double>(d_.nope + d_.rope)));
            most = std::max(most, scores.back());
        }
        for (size_t j = 0; j < seen; ++j) {
            const double weight = std::exp(scores[j] - most);
            total += weight;
            for (uint32_t v = 0; v < d_.value; ++v)
                for (uint32_t c = 0; c < d_.latent; ++c) sums[v] += weight * up[d_.nope + v][c] * kept[j][c];
        }
        for (const double each : sums) out.push_back(each / total);
    }

    const Drawn &d_;
    uint32_t batch_;
};

DeviceTensor tensor(Runtime &runtime, const vkattn_layout &layout, const std::vector<float> &values) {
    DeviceTensor made = runtime.allocate(layout);
    EXPECT_EQ(made.upload(values.data(), 4 * values.size()), VKATTN_OK);
    return made;
}
DeviceTensor wordsOf(Runtime &runtime, uint32_t count, uint32_t value) {
    DeviceTensor made = runtime.allocate(words(count));
    const std::vector<uint32_t> values(count, value);
    EXPECT_EQ(made.upload(values.data(), 4 * values.size()), VKATTN_OK);
    return made;
}

LatentLayerOf layerOn(Runtime &runtime, const Drawn &d, vkattn_latent_form form) {
    LatentLayerOf l{};
    l.heads = d.heads, l.nope = d.nope, l.rope = d.rope, l.value = d.value;
    l.form = form, l.pairs = d.pairs, l.residual = d.residual;
    l.x = tensor(runtime, packed(VKATTN_F32, d.batch, 1, d.tokens, d.model), d.x);
    if (d.queryLatent) {
        l.wdq = tensor(runtime, matrix(VKATTN_F32, d.queryLatent, d.model), d.wdq);
        l.gammaQ = tensor(runtime, vector(VKATTN_F32, d.queryLatent), d.gammaQ);
    }
    l.wuq = tensor(runtime, matrix(VKATTN_F32, d.heads * (d.nope + d.rope), d.queryLatent ? d.queryLatent : d.model), d.wuq);
    l.wdkv = tensor(runtime, matrix(VKATTN_F32, d.latent + d.rope, d.model), d.wdkv);
    l.gamma = tensor(runtime, vector(VKATTN_F32, d.latent), d.gamma);
    l.wukv = tensor(runtime, matrix(VKATTN_F32, d.heads * (d.nope + d.value), d.latent), d.wukv);
    l.wo = tensor(runtime, matrix(VKATTN_F32, d.out, d.heads * d.value), d.wo);
    l.cos = tensor(runtime, matrix(VKATTN_F32, d.past + d.tokens, d.rope / 2), d.cos);
    l.sin = tensor(runtime, matrix(VKATTN_F32, d.past + d.tokens, d.rope / 2), d.sin);
    l.y = runtime.allocate(packed(VKATTN_F32, d.batch, 1, d.tokens, d.out));
    if (d.causal) l.attention.options.flags = VKATTN_CAUSAL;
    if (d.cacheTokens) {
        l.cache = tensor(runtime, packed(VKATTN_F32, d.batch, 1, d.cacheTokens, d.latent + d.rope), d.cache);
        l.starts = wordsOf(runtime, d.batch, d.past);
        l.attention.keyLengths = wordsOf(runtime, d.batch, d.past + d.tokens);
    }
    return l;
}

void expectLayer(Runtime &runtime, const Drawn &d, vkattn_latent_form form, double tolerance, vkattn_dtype stored = VKATTN_F32) {
    LatentLayerOf layer = layerOn(runtime, d, form);
    layer.stored = stored;
    OperationList list = runtime.list();
    std::string why;
    ASSERT_EQ(list.add(layer, &why), VKATTN_OK) << why;
    std::vector<StepCheck> checks;
    ASSERT_EQ(list.verify(checks, nullptr, &why), VKATTN_OK) << why;
    for (const StepCheck &check : checks) EXPECT_TRUE(check.report.passed) << check.operation;
    std::vector<float> y(uint64_t{d.batch} * d.tokens * d.out), again(y.size());
    ASSERT_EQ(layer.y.download(y.data(), 4 * y.size()), VKATTN_OK);
    size_t at = 0;
    for (uint32_t b = 0; b < d.batch; ++b)
        for (const auto &row : Formulas(d, b).output())
            for (const double expected : row) {
                ASSERT_NEAR(static_cast<double>(y[at]), expected, tolerance * std::max(1.0, std::abs(expected))) << "element " << at;
                ++at;
            }
    const RunResult result = list.run(); // appends the same tokens at the same place
    ASSERT_EQ(result.status, VKATTN_OK) << result.message;
    ASSERT_EQ(layer.y.download(again.data(), 4 * again.size()), VKATTN_OK);
    EXPECT_EQ(again, y) << "the list leaves what its steps leave";
}

} // namespace

TEST(LatentLayer, bothFormsAreTheFormulas) {
    RuntimeOptions onCpu;
    onCpu.device = "cpu";
    const auto cpu = Runtime::open(onCpu, nullptr, nullptr);
    Random random = randomFor("latent layers");
    for (int n = 0; n < (fullExtent() ? 100 : 2); ++n) {
        const Drawn d = draw(random);
        for (const vkattn_latent_form form : {VKATTN_LATENT_ABSORBED, VKATTN_LATENT_NAIVE})
            for (Runtime *runtime : {runtimeFor(Limits::full), fullExtent() ? runtimeFor(Limits::weak) : nullptr, cpu.get()}) {
                if (!runtime) continue;
                SCOPED_TRACE("layer " + std::to_string(n) + ", form " + std::to_string(form));
                expectLayer(*runtime, d, form, 5e-4);
                if (HasFailure()) return;
            }
    }
}

// The sizes of DeepSeek-V3 but for the number of heads and the model: head dim 576, value dim 512.
TEST(LatentLayer, hasTheDimsOfDeepSeek) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("DeepSeek");
    Drawn d;
    d.tokens = 2, d.model = 24, d.queryLatent = 40, d.latent = 512, d.out = 24, d.past = 30, d.cacheTokens = 40;
    d.heads = 4, d.nope = 128, d.rope = 64, d.value = 128;
    d.fill(random);
    expectLayer(*runtime, d, VKATTN_LATENT_AUTO, 1e-3);
    if (!fullExtent()) return;
    expectLayer(*runtime, d, VKATTN_LATENT_NAIVE, 1e-3);
    expectLayer(*runtime, d, VKATTN_LATENT_ABSORBED, 0.1, VKATTN_BF16);
}

// Tokens one at a time through the cache give what they give at once.
TEST(LatentLayer, decodesFromItsCache) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("latent decode");
    Drawn d;
    d.tokens = 6, d.model = 20, d.latent = 16, d.out = 20, d.cacheTokens = 6, d.heads = 3, d.nope = 8, d.rope = 4, d.value = 8;
    d.fill(random);
    LatentLayerOf whole = layerOn(*runtime, d, VKATTN_LATENT_AUTO);
    OperationList prefill = runtime->list();
    std::string why;
    ASSERT_EQ(prefill.add(whole, &why), VKATTN_OK) << why;
    ASSERT_EQ(prefill.run().status, VKATTN_OK);
    std::vector<float> expected(uint64_t{d.tokens} * d.out);
    ASSERT_EQ(whole.y.download(expected.data(), 4 * expected.size()), VKATTN_OK);

    LatentLayerOf one = layerOn(*runtime, d, VKATTN_LATENT_AUTO);
    const DeviceTensor all = one.x;
    one.x = runtime->allocate(packed(VKATTN_F32, 1, 1, 1, d.model));
    one.y = runtime->allocate(packed(VKATTN_F32, 1, 1, 1, d.out));
    one.starts = wordsOf(*runtime, 1, 0);
    one.attention.keyLengths = wordsOf(*runtime, 1, 1);
    OperationList decode = runtime->list();
    ASSERT_EQ(decode.add(one, &why), VKATTN_OK) << why;
    ASSERT_EQ(decode.add(AdvanceOf{one.starts, one.starts}, &why), VKATTN_OK) << why;
    ASSERT_EQ(decode.add(AdvanceOf{one.attention.keyLengths, one.attention.keyLengths}, &why), VKATTN_OK) << why;
    for (uint32_t t = 0; t < d.tokens; ++t) {
        ASSERT_EQ(one.x.upload(d.x.data() + t * d.model, 4 * d.model), VKATTN_OK);
        ASSERT_EQ(decode.run().status, VKATTN_OK);
        std::vector<float> y(d.out);
        ASSERT_EQ(one.y.download(y.data(), 4 * y.size()), VKATTN_OK);
        for (uint32_t n = 0; n < d.out; ++n) ASSERT_NEAR(y[n], expected[t * d.out + n], 1e-4f * (1 + std::abs(y[n]))) << "token " << t;
    }
}
