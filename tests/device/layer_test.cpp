// A layer whole, on the device and on the CPU: drawn layers against a double-precision oracle of
// their own and step by step, recorded into a host's command buffer, and the identities of
// multi-head attention.
#include "environment.hpp"
#include "host.hpp"
#include "support/extent.hpp"
#include "vkattn/list.hpp"

#include <cmath>
#include <map>

using namespace vkattn;
using namespace vkattn::test;

namespace {

using Matrix = std::vector<std::vector<double>>;

// A layer with its arrays, densely packed; every element is a number that its type has.
struct DrawnLayer {
    vkattn_layer layer{};
    vkattn_problem options{};
    std::map<vkattn_role, std::vector<float>> arrays; // inputs
    uint32_t kvHeads = 1, dim = 1, valueDim = 1;

    DrawnLayer() = default;
    DrawnLayer(const DrawnLayer &) = delete;
    DrawnLayer &operator=(const DrawnLayer &) = delete;

    [[nodiscard]] vkattn_layout &layout(vkattn_role role) {
        switch (role) {
        case VKATTN_X:
            return layer.x;
        case VKATTN_CONTEXT:
            return layer.context;
        case VKATTN_WQ:
            return layer.wq;
        case VKATTN_WK:
            return layer.wk;
        case VKATTN_WV:
            return layer.wv;
        case VKATTN_WO:
            return layer.wo;
        case VKATTN_BQ:
            return layer.bq;
        case VKATTN_BK:
            return layer.bk;
        case VKATTN_BV:
            return layer.bv;
        case VKATTN_BO:
            return layer.bo;
        case VKATTN_GAMMA:
            return layer.gamma;
        case VKATTN_BETA:
            return layer.beta;
        case VKATTN_WEIGHTS:
            return options.weights;
        default:
            return layer.y;
        }
    }
    void draw(Random &random, vkattn_role role, const vkattn_layout &l, float scale = 1) {
        layout(role) = l;
        std::normal_distribution<float> normal;
        std::vector<float> &values = arrays[role];
        values.resize(uint64_t{l.extent[0]} * l.extent[1] * l.extent[2] * l.extent[3]);
        for (float &each : values) each = normal(random) * scale;
    }
};

// `everything`: every bias, a post-norm with gamma and beta, and the residual.
std::unique_ptr<DrawnLayer> drawLayer(Random &random, bool everything = false) {
    auto made = std::make_unique<DrawnLayer>();
    DrawnLayer &d = *made;
    const auto yes = [&] { return between(random, 0, 1) == 1; };
    const auto has = [&] { return yes() || everything; };
    const uint32_t heads = between(random, 1, 6), batch = between(random, 1, 2), tokens = between(random, 1, 20);
    do d.kvHeads = between(random, 1, heads);
    while (heads % d.kvHeads);
    const bool packedQkv = between(random, 0, 3) == 0, cross = !packedQkv && yes();
    d.dim = between(random, 1, 12), d.valueDim = packedQkv ? d.dim : between(random, 1, 12);
    const uint32_t model = between(random, 1, 40), keyTokens = cross ? between(random, 1, 20) : tokens,
                   keyModel = cross ? between(random, 1, 40) : model;
    vkattn_layer &l = d.layer;
    l.structSize = sizeof l;
    l.heads = heads, l.kvHeads = d.kvHeads;
    l.place = everything ? VKATTN_NORM_POST : static_cast<vkattn_norm_place>(between(random, 0, 2));
    l.norm = yes() ? VKATTN_LAYER_NORM : VKATTN_RMS_NORM;
    l.epsilon = 1e-5f;
    l.flags = has() ? uint32_t{VKATTN_LAYER_RESIDUAL} : 0;
    l.stored = VKATTN_F32;
    const uint32_t out = l.flags ? model : between(random, 1, 40);
    const auto small = [](uint32_t in) { return 1 / std::sqrt(static_cast<float>(in)); };
    d.draw(random, VKATTN_X, packed(VKATTN_F32, batch, 1, tokens, model));
    if (cross) d.draw(random, VKATTN_CONTEXT, packed(VKATTN_F32, batch, 1, keyTokens, keyModel));
    const uint32_t qRows = heads * d.dim, kRows = d.kvHeads * d.dim, vRows = d.kvHeads * d.valueDim;
    if (packedQkv) {
        d.draw(random, VKATTN_WQ, matrix(VKATTN_F32, qRows + kRows + vRows, model), small(model));
        if (has()) d.draw(random, VKATTN_BQ, vector(VKATTN_F32, qRows + kRows + vRows));
    } else {
        d.draw(random, VKATTN_WQ, matrix(VKATTN_F32, qRows, model), small(model));
        d.draw(random, VKATTN_WK, matrix(VKATTN_F32, kRows, keyModel), small(keyModel));
        d.draw(random, VKATTN_WV, matrix(VKATTN_F32, vRows, keyModel), small(keyModel));
        if (has()) d.draw(random, VKATTN_BQ, vector(VKATTN_F32, qRows));
        if (has()) d.draw(random, VKATTN_BK, vector(VKATTN_F32, kRows));
        if (has()) d.draw(random, VKATTN_BV, vector(VKATTN_F32, vRows));
    }
    d.draw(random, VKATTN_WO, matrix(VKATTN_F32, out, heads * d.valueDim), small(heads * d.valueDim));
    if (has()) d.draw(random, VKATTN_BO, vector(VKATTN_F32, out));
    const uint32_t normed = l.place == VKATTN_NORM_PRE ? model : out;
    if (l.place != VKATTN_NORM_NONE && has()) d.draw(random, VKATTN_GAMMA, vector(VKATTN_F32, normed));
    if (l.place != VKATTN_NORM_NONE && has()) d.draw(random, VKATTN_BETA, vector(VKATTN_F32, normed));
    l.y = packed(VKATTN_F32, batch, 1, tokens, out);
    d.options.structSize = sizeof d.options;
    if (yes()) d.options.flags = VKATTN_CAUSAL;
    if (yes()) d.options.weights = packed(VKATTN_F32, batch, heads, tokens, keyTokens);
    if (between(random, 0, 3)) l.options = &d.options;
    return made;
}

// The formulas of vkattn/layer.h in double precision and plain loops, apart from every operation of
// the library.
class LayerOracle {
  public:
    explicit LayerOracle(DrawnLayer &d) : d_(d) {}

    // Rows of one batch entry.
    [[nodiscard]] Matrix entry(uint32_t b) {
        const vkattn_layer &l = d_.layer;
        const Matrix x = rows(VKATTN_X, b), n = l.place == VKATTN_NORM_PRE ? norm(x) : x,
                     c = d_.arrays.count(VKATTN_CONTEXT) ? rows(VKATTN_CONTEXT, b) : n;
        const uint32_t qRows = l.heads * d_.dim, kRows = d_.kvHeads * d_.dim, vRows = d_.kvHeads * d_.valueDim;
        const bool one = d_.arrays.count(VKATTN_WK) == 0;
        const Matrix q = product(n, VKATTN_WQ, VKATTN_BQ, 0, qRows),
                     k = one ? product(n, VKATTN_WQ, VKATTN_BQ, qRows, kRows) : product(c, VKATTN_WK, VKATTN_BK, 0, kRows),
                     v = one ? product(n, VKATTN_WQ, VKATTN_BQ, qRows + kRows, vRows) : product(c, VKATTN_WV, VKATTN_BV, 0, vRows);
        Matrix y = product(attention(q, k, v), VKATTN_WO, VKATTN_BO, 0, l.wo.extent[2]);
        if (l.flags & VKATTN_LAYER_RESIDUAL)
            for (size_t i = 0; i < y.size(); ++i)
                for (size_t o = 0; o < y[i].size(); ++o) y[i][o] += x[i][o];
        return l.place == VKATTN_NORM_POST ? norm(y) : y;
    }

  private:
    [[nodiscard]] Matrix rows(vkattn_role role, uint32_t b) {
        const vkattn_layout &l = d_.layout(role);
        const float *at = d_.arrays[role].data() + uint64_t{b} * l.extent[2] * l.extent[3];
        Matrix all(l.extent[2], std::vector<double>(l.extent[3]));
        for (auto &row : all)
            for (double &each : row) each = static_cast<double>(*at++);
        return all;
    }
    [[nodiscard]] Matrix product(const Matrix &x, vkattn_role w, vkattn_role bias, uint32_t first, uint32_t count) {
        const std::vector<float> &values = d_.arrays[w];
        const bool biased = d_.arrays.count(bias) != 0;
        Matrix y(x.size(), std::vector<double>(count));
        for (size_t i = 0; i < x.size(); ++i)
            for (uint32_t o = 0; o < count; ++o) {
                double sum = biased ? static_cast<double>(d_.arrays[bias][first + o]) : 0.0;
                for (size_t n = 0; n < x[i].size(); ++n) sum += x[i][n] * static_cast<double>(values[(first + o) * x[i].size() + n]);
                y[i][o] = sum;
            }
        return y;
    }
    [[nodiscard]] Matrix norm(const Matrix &x) {
        const bool centred = d_.layer.norm == VKATTN_LAYER_NORM;
        Matrix y = x;
        for (auto &row : y) {
            double mean = 0, variance = 0;
            for (const double each : row) mean += centred ? each / static_cast<double>(row.size()) : 0.0;
            for (const double each : row) variance += (each - mean) * (each - mean) / static_cast<double>(row.size());
            for (size_t n = 0; n < row.size(); ++n) {
                const double gamma = d_.arrays.count(VKATTN_GAMMA) ? static_cast<double>(d_.arrays[VKATTN_GAMMA][n]) : 1.0,
                             beta = d_.arrays.count(VKATTN_BETA) ? static_cast<double>(d_.arrays[VKATTN_BETA][n]) : 0.0;
                row[n] = (row[n] - mean) / std::sqrt(variance + static_cast<double>(d_.layer.epsilon)) * gamma + beta;
            }
        }
        return y;
    }
    [[nodiscard]] Matrix attention(const Matrix &q, const Matrix &k, const Matrix &v) {
        const vkattn_layer &l = d_.layer;
        const bool causal = l.options && l.options->flags & VKATTN_CAUSAL;
        Matrix a(q.size(), std::vector<double>(l.heads * d_.valueDim));
        for (uint32_t h = 0; h < l.heads; ++h)
            for (size_t i = 0; i < q.size(); ++i) {
                const size_t keyHead = h / (l.heads / d_.kvHeads);
                const auto seen =
                    causal ? static_cast<int64_t>(i + k.size()) - static_cast<int64_t>(q.size()) + 1 : static_cast<int64_t>(k.size());
                std::vector<double> scores;
                for (int64_t j = 0; j < std::min(seen, static_cast<int64_t>(k.size())); ++j) {
                    double score = 0;
                    for (uint32_t n = 0; n < d_.dim; ++n) score += q[i][h * d_.dim + n] * k[static_cast<size_t>(j)][keyHead * d_.dim + n];
                    scores.push_back(score / std::sqrt(static_cast<double>(d_.dim)));
                }
                if (scores.empty()) continue;
                const double most = *std::max_element(scores.begin(), scores.end());
                double sum = 0;
                for (double &each : scores) sum += each = std::exp(each - most);
                for (size_t j = 0; j < scores.size(); ++j)
                    for (uint32_t n = 0; n < d_.valueDim; ++n)
                        a[i][h * d_.valueDim + n] += scores[j] / sum * v[j][keyHead * d_.valueDim + n];
            }
        return a;
    }

    DrawnLayer &d_;
};

// The layer on a Runtime.
struct LayerOn {
    std::vector<ListOperand> operands;
    OperationList list;

    LayerOn(Runtime &runtime, DrawnLayer &d) : list(runtime.list()) {
        for (auto &[role, values] : d.arrays) {
            operands.push_back({role, runtime.allocate(d.layout(role))});
            EXPECT_EQ(operands.back().tensor.upload(values.data(), 4 * values.size()), VKATTN_OK);
        }
        operands.push_back({VKATTN_Y, runtime.allocate(d.layer.y)});
        if (d.layer.options && d.options.weights.extent[0]) operands.push_back({VKATTN_WEIGHTS, runtime.allocate(d.options.weights)});
        std::string why;
        EXPECT_EQ(list.add(d.layer, operands, &why), VKATTN_OK) << why;
    }
    [[nodiscard]] std::vector<float> output(vkattn_role role = VKATTN_Y) const {
        for (const ListOperand &operand : operands) {
            if (operand.role != role) continue;
            const uint32_t *e = operand.tensor.layout().extent;
            std::vector<float> values(uint64_t{e[0]} * e[1] * e[2] * e[3]);
            EXPECT_EQ(operand.tensor.download(values.data(), 4 * values.size()), VKATTN_OK);
            return values;
        }
        ADD_FAILURE() << "the layer has no role " << role;
        return {};
    }
};

// Errors of the steps add up, and a norm of small rows enlarges them.
void expectNear(const std::vector<float> &got, DrawnLayer &d) {
    const vkattn_layout &y = d.layer.y;
    size_t at = 0;
    for (uint32_t b = 0; b < y.extent[0]; ++b)
        for (const auto &row : LayerOracle(d).entry(b))
            for (const double expected : row) {
                ASSERT_NEAR(static_cast<double>(got[at]), expected, 2e-4 * std::max(1.0, std::abs(expected))) << "element " << at;
                ++at;
            }
    EXPECT_EQ(at, got.size());
}

std::unique_ptr<Runtime> cpuRuntime() {
    RuntimeOptions options;
    options.device = "cpu";
    return Runtime::open(options, nullptr, nullptr);
}

// A layer of plain matrices: one batch entry, no bias, no norm.
std::unique_ptr<DrawnLayer> plainLayer(Random &random, uint32_t heads, uint32_t dim, uint32_t tokens) {
    auto d = std::make_unique<DrawnLayer>();
    const uint32_t model = heads * dim;
    d->layer.structSize = sizeof d->layer;
    d->layer.heads = d->kvHeads = heads;
    d->dim = d->valueDim = dim;
    d->draw(random, VKATTN_X, packed(VKATTN_F32, 1, 1, tokens, model));
    for (const vkattn_role role : {VKATTN_WQ, VKATTN_WK, VKATTN_WV, VKATTN_WO}) d->draw(random, role, matrix(VKATTN_F32, model, model));
    d->layer.y = d->layer.x;
    return d;
}

std::vector<float> computed(Runtime &runtime, DrawnLayer &d) {
    LayerOn on(runtime, d);
    const RunResult result = on.list.run();
    EXPECT_EQ(result.status, VKATTN_OK) << result.message;
    return on.output();
}

} // namespace

TEST(Layer, drawnLayersAreThoseOfTheOracle) {
    const auto cpu = cpuRuntime();
    Random random = randomFor("layers");
    for (int n = 0; n < (fullExtent() ? 200 : 3); ++n) {
        const auto d = drawLayer(random, n == 0);
        for (Runtime *runtime : {runtimeFor(Limits::full), runtimeFor(Limits::weak), cpu.get()}) {
            ASSERT_TRUE(runtime);
            LayerOn on(*runtime, *d);
            std::vector<StepCheck> checks;
            std::string why;
            ASSERT_EQ(on.list.verify(checks, nullptr, &why), VKATTN_OK) << why;
            for (const StepCheck &check : checks) EXPECT_TRUE(check.report.passed) << "layer " << n << ", " << check.operation;
            const std::vector<float> stepped = on.output();
            expectNear(stepped, *d);
            const RunResult result = on.list.run();
            ASSERT_EQ(result.status, VKATTN_OK) << result.message;
            ASSERT_EQ(on.output(), stepped) << "layer " << n << ": the list leaves what its steps leave";
            if (HasFailure()) return;
        }
    }
}

// The identity in place of all matrices: the layer is attention alone.
TEST(Layer, identityMatricesLeaveAttention) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("identity");
    const auto d = plainLayer(random, 3, 8, 11);
    for (const vkattn_role role : {VKATTN_WQ, VKATTN_WK, VKATTN_WV, VKATTN_WO})
        for (size_t n = 0; n < d->arrays[role].size(); ++n) d->arrays[role][n] = n / 24 == n % 24 ? 1.0f : 0.0f;
    const vkattn_layout heads = packedTokenMajor(VKATTN_F32, 1, 3, 11, 8);
    const vkattn_problem attention = problem(heads, heads, heads, heads);
    std::vector<float> &x = d->arrays[VKATTN_X], alone(x.size());
    const vkattn_operand_memory memory[] = {{VKATTN_Q, x.data(), 4 * x.size()},
                                            {VKATTN_K, x.data(), 4 * x.size()},
                                            {VKATTN_V, x.data(), 4 * x.size()},
                                            {VKATTN_OUT, alone.data(), 4 * x.size()}};
    ASSERT_EQ(runtime->run(attention, memory).status, VKATTN_OK);
    EXPECT_EQ(computed(*runtime, *d), alone);
}

// Permuted tokens permute the rows; heads with block-diagonal matrices are layers of one head.
TEST(Layer, identitiesOfHeadsAndTokensHold) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("heads and tokens");
    constexpr uint32_t heads = 4, dim = 8, model = heads * dim, tokens = 9;
    const auto d = plainLayer(random, heads, dim, tokens);
    const std::vector<float> straight = computed(*runtime, *d);
    std::vector<float> &x = d->arrays[VKATTN_X], given = x;
    for (uint32_t t = 0; t < tokens; ++t) std::copy_n(given.begin() + t * model, model, x.begin() + (t * 4 + 1) % tokens * model);
    const std::vector<float> permuted = computed(*runtime, *d);
    for (uint32_t t = 0; t < tokens; ++t)
        for (uint32_t o = 0; o < model; ++o)
            ASSERT_NEAR(permuted[(t * 4 + 1) % tokens * model + o], straight[t * model + o],
                        1e-4f * (1 + std::abs(straight[t * model + o])));

    x = given;
    for (const vkattn_role role : {VKATTN_WQ, VKATTN_WK, VKATTN_WV, VKATTN_WO})
        for (size_t n = 0; n < d->arrays[role].size(); ++n)
            if (n / model / dim != n % model / dim) d->arrays[role][n] = 0;
    const std::vector<float> together = computed(*runtime, *d);
    for (uint32_t h = 0; h < heads; ++h) {
        const auto one = plainLayer(random, 1, dim, tokens);
        for (uint32_t t = 0; t < tokens; ++t)
            std::copy_n(given.begin() + t * model + h * dim, dim, one->arrays[VKATTN_X].begin() + t * dim);
        for (const vkattn_role role : {VKATTN_WQ, VKATTN_WK, VKATTN_WV, VKATTN_WO})
            for (uint32_t n = 0; n < dim * dim; ++n)
                one->arrays[role][n] = d->arrays[role][(h * dim + n / dim) * model + h * dim + n % dim];
        const std::vector<float> alone = computed(*runtime, *one);
        for (uint32_t t = 0; t < tokens; ++t)
            for (uint32_t o = 0; o < dim; ++o)
                ASSERT_NEAR(together[t * model + h * dim + o], alone[t * dim + o], 1e-4f * (1 + std::abs(alone[t * dim + o])));
    }
}

// The narrow types between the steps; drawn layers have f32. A plain layer has few pipelines.
TEST(Layer, storesBetweenStepsInAnyType) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("stored");
    for (const vkattn_dtype stored : {VKATTN_F16, VKATTN_BF16}) {
        const auto d = fullExtent() ? drawLayer(random) : plainLayer(random, 3, 8, 11);
        d->layer.stored = stored;
        LayerOn on(*runtime, *d);
        std::vector<StepCheck> checks;
        std::string why;
        ASSERT_EQ(on.list.verify(checks, nullptr, &why), VKATTN_OK) << why;
        for (const StepCheck &check : checks) EXPECT_TRUE(check.report.passed) << check.operation << " with type " << stored;
    }
}
