// The numbers of `vkattn layer`: the whole layer against the formulas in double, and what must hold
// whatever the numbers are.
#include "layer_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace {

Array identity(size_t dims) {
    Array matrix{{dims, dims}, std::vector<double>(dims * dims)};
    for (size_t i = 0; i < dims; ++i) matrix.values[i * dims + i] = 1;
    return matrix;
}

void expectSame(const std::vector<double> &got, const std::vector<double> &expected, double distance) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t n = 0; n < got.size(); ++n) ASSERT_NEAR(got[n], expected[n], distance) << "element " << n;
}

class LayerValues : public LayerTest {
  protected:
    [[nodiscard]] std::string drawType() { return chance(3) ? "<f2" : "<f4"; }

    // Draws shapes, types and the places of norm and residual, and writes the files. Returns the
    // options, and in `descr` the type of the result.
    [[nodiscard]] Arguments drawLayer(std::string &descr) {
        LayerShape shape;
        shape.kvHeads = extent(3), shape.heads = shape.kvHeads * extent(3);
        shape.headDim = extent(9), shape.valueDim = chance(2) ? shape.headDim : extent(9);
        shape.x = {extent(9), 1 + extent(12)};
        if (!chance(4)) shape.x.insert(shape.x.begin(), extent(3));
        if (chance(3)) {
            shape.context = {extent(9), extent(12)};
            if (shape.x.size() == 3) shape.context.insert(shape.context.begin(), shape.x.front());
        }
        layer.residual = chance(2);
        shape.out = layer.residual ? shape.x.back() : 1 + extent(16);
        shape.biases = chance(2);
        descr = drawType();
        given(shape, {.descr = descr, .fortran = chance(3)}, {.descr = drawType(), .fortran = chance(2)});
        layer.rotary.reset();
        if (shape.context.empty() && shape.headDim > 1 && chance(2)) {
            RotaryReference &rotary = layer.rotary.emplace();
            rotary = {chance(2), 2 * (1 + random() % (shape.headDim / 2)), random() % 1000, chance(2) ? 10000.0 : 500.0};
        }
        if (chance(2)) normed(chance(2) ? NormPlace::pre : NormPlace::post, {.descr = drawType()});
        Arguments options;
        if (chance(3)) {
            const bool half = chance(2);
            options.insert(options.end(), {"--round-to", half ? "f16" : "bf16"});
            layer.storedUnit = half ? float16Unit : bfloat16Unit;
        }
        if (chance(3)) {
            const size_t type = random() % 3;
            options.insert(options.end(), {"--out-dtype", std::array{"f32", "f16", "bf16"}[type]});
            layer.outUnit = std::array{float32Unit, float16Unit, bfloat16Unit}[type];
            descr = type == 1 ? "<f2" : "<f4";
        }
        layer.epsilon = 1e-5;
        if (layer.norm != NormPlace::none && chance(2)) {
            options.insert(options.end(), {"--eps", "0.01"});
            layer.epsilon = 0.01f;
        }
        return options;
    }

    // A mask or a bias that broadcasts over heads and batch entries, or not.
    [[nodiscard]] std::vector<size_t> drawPairs() {
        const size_t keys = (layer.context ? *layer.context : layer.x).shape[1];
        std::vector<size_t> shape = {layer.x.shape[1], keys};
        if (chance(2)) shape.insert(shape.begin(), {layer.x.shape[0], layer.heads});
        return shape;
    }

    [[nodiscard]] Arguments drawAttention() {
        Arguments options;
        const auto add = [&](const Arguments &words) { options.insert(options.end(), words.begin(), words.end()); };
        const size_t keys = (layer.context ? *layer.context : layer.x).shape[1];
        reference = {};
        if (chance(3)) {
            reference.causal = true, reference.topLeft = chance(2);
            add({"--causal", reference.topLeft ? "top-left" : "bottom-right"});
        }
        if (chance(4)) {
            reference.window = true, reference.left = static_cast<long>(random() % 4),
            reference.right = static_cast<long>(random() % 4) - 1;
            add({"--window", std::to_string(reference.left) + "," + std::to_string(reference.right)});
        }
        if (chance(4)) reference.scale = 0.375, add({"--scale", "0.375"});
        if (chance(4)) reference.softcap = 1.5, add({"--softcap", "1.5"});
        if (chance(4)) {
            reference.mask = randomArray(random, drawPairs());
            for (double &each : reference.mask->values) each = each > -0.5 ? 1 : 0;
            writeNpy(file("mask.npy"), *reference.mask, {.descr = "|b1", .fortran = chance(2)});
            add({"--mask", "mask.npy"});
        } else if (chance(4)) {
            givenBits({layer.x.shape[1]}, keys), add({"--bitmask", "bits.npy"});
        }
        if (chance(4)) {
            reference.bias = randomArray(random, drawPairs());
            writeNpy(file("bias.npy"), *reference.bias, {.descr = drawType(), .fortran = chance(2)});
            add({"--bias", "bias.npy"});
        }
        if (chance(4)) givenSinks(layer.heads), add({"--sinks", "sinks.npy"});
        if (chance(4)) givenAlibi(layer.heads), add({"--alibi", "alibi.npy"});
        if (chance(4)) {
            for (size_t b = 0; b < layer.x.shape[0]; ++b) reference.keyLengths.push_back(static_cast<long>(random() % (keys + 1)));
            writeNpy(file("lengths.npy"), Array{{layer.x.shape[0]}, {reference.keyLengths.begin(), reference.keyLengths.end()}},
                     {.descr = "<i4"});
            add({"--kv-lengths", "lengths.npy"});
        }
        if (chance(3)) {
            layer.outputDropout = 0.3, reference.seed = random(), reference.offset = static_cast<uint32_t>(random());
            add({"--seed", std::to_string(reference.seed), "--offset", std::to_string(reference.offset)});
        }
        return options;
    }
};

TEST_F(LayerValues, theDefaults) {
    given({});
    check();
    given({.biases = false});
    check();
}

TEST_F(LayerValues, everyNormWithAndWithoutTheResidual) {
    for (const NormPlace place : {NormPlace::none, NormPlace::post, NormPlace::pre})
        for (const bool residual : {false, true})
            for (const std::vector<size_t> &context : std::vector<std::vector<size_t>>{{}, {2, 3, 6}}) {
                given({.context = context});
                normed(place);
                layer.residual = residual;
                check();
            }
    // Of another length than the tokens.
    layer.residual = false;
    for (const NormPlace place : {NormPlace::post, NormPlace::pre}) {
        given({.out = 13});
        normed(place);
        check();
    }
}

TEST_F(LayerValues, outputDropout) {
    for (const NormPlace place : {NormPlace::none, NormPlace::post, NormPlace::pre})
        for (const bool residual : {false, true}) {
            given({});
            normed(place);
            layer.residual = residual, layer.outputDropout = 0.5;
            check();
        }
    // All of it, and none: no random number is drawn, and not one bit is another.
    given({});
    layer.residual = true, layer.outputDropout = 1;
    EXPECT_EQ(resultOf().values, layer.x.values);
    layer.outputDropout = 0;
    const std::vector<double> without = resultOf().values;
    EXPECT_EQ(resultOf({"--output-dropout", "0", "--seed", "42", "--offset", "1"}).values, without);
    // Weights have random numbers of their own.
    layer.residual = false, layer.outputDropout = 0.5;
    size_t dropped[2] = {}, both = 0;
    const std::vector<double> some = resultOf().values, others = resultOf({"--dropout", "0.5"}).values;
    for (size_t n = 0; n < some.size(); ++n) EXPECT_EQ(some[n] == 0, others[n] == 0) << "the output's are the same, element " << n;
    layer.outputDropout = 0.5;
    const std::vector<double> next = resultOf({"--offset", "1"}).values;
    for (size_t n = 0; n < some.size(); ++n) dropped[0] += some[n] == 0, dropped[1] += next[n] == 0, both += some[n] == 0 && next[n] == 0;
    EXPECT_GT(dropped[0], 0u);
    EXPECT_GT(dropped[1], 0u);
    EXPECT_LT(both, std::max(dropped[0], dropped[1])) << "another step drops others";
}

TEST_F(LayerValues, randomLayers) {
    for (int n = 0; n < 60 && !HasFailure(); ++n) {
        std::string descr;
        Arguments options = drawLayer(descr);
        const Arguments attention = drawAttention();
        options.insert(options.end(), attention.begin(), attention.end());
        std::string all;
        for (const std::string &word : command(options)) all += word + " ";
        SCOPED_TRACE("layer " + std::to_string(n) + ": " + all);
        check(options, descr);
    }
}

TEST_F(LayerValues, float64IsConvertedWithANote) {
    given({}, {.descr = "<f8"}, {.descr = "<f8"});
    const Outcome outcome = check();
    EXPECT_NE(outcome.err.find("note: x.npy: float64 converted to float32\n"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("wq.npy: float64 converted to float32\n"), std::string::npos) << outcome.err;
}

// What is more exact than asked for would pass everywhere else.
TEST_F(LayerValues, roundingHappens) {
    given({.x = {3, 16}, .headDim = 16, .valueDim = 16, .out = 16});
    const auto furthest = [](const ReadArray &a, const ReadArray &b) {
        double distance = 0;
        for (size_t n = 0; n < a.values.size(); ++n) distance = std::max(distance, std::abs(a.values[n] - b.values[n]));
        return distance;
    };
    const ReadArray exact = resultOf(), half = resultOf({"--round-to", "f16"}), brain = resultOf({"--round-to", "bf16"});
    EXPECT_GT(furthest(exact, half), 1e-5);
    EXPECT_GT(furthest(exact, brain), 1.5 * furthest(exact, half));
    const ReadArray rounded = resultOf({"--out-dtype", "bf16"});
    EXPECT_EQ(rounded.descr, "<f4");
    EXPECT_EQ(rounded.values, roundedToBfloat16(exact).values);
}

// A norm's files count only where there is a norm.
TEST_F(LayerValues, gammaAndBetaWithoutANorm) {
    given({});
    normed(NormPlace::post);
    layer.norm = NormPlace::none;
    check({"--norm", "none"});
}

TEST_F(LayerValues, raggedSequences) {
    given({.x = {9, 8}, .heads = 4, .kvHeads = 2});
    givenOffsets({0, 4, 4, 9}, {0, 4, 4, 9});
    const ReadArray got = resultOf({"--cu-seqlens-q", "cq.npy", "--cu-seqlens-k", "ck.npy", "--weights", "w.npy", "--verify"});
    EXPECT_EQ(readNpy(file("w.npy")).shape, (std::vector<size_t>{3, 4, 5, 5}));
    const ReadArray whole = got;
    // Each sequence alone.
    const Array tokens{{9, 8}, layer.x.values};
    for (const auto &[first, last] : std::vector<std::pair<long, long>>{{0, 4}, {4, 9}}) {
        const auto part = [&](const std::vector<double> &rows) {
            return std::vector<double>(rows.begin() + first * 8, rows.begin() + last * 8);
        };
        writeNpy(file("x.npy"), Array{{static_cast<size_t>(last - first), 8}, part(tokens.values)});
        expectSame(resultOf().values, part(whole.values), 1e-5);
    }
}

TEST_F(LayerValues, documents) {
    given({.x = {2, 6, 8}});
    givenDocuments({2, 6}, {6});
    check({"--doc-ids-q", "dq.npy", "--doc-ids-k", "dk.npy"});
}

// Heads are slices of the model's dims, in their order.
TEST_F(LayerValues, identityMatricesGivePlainAttention) {
    constexpr size_t batch = 2, tokens = 5, heads = 3, dim = 4;
    given({.x = {batch, tokens, heads * dim}, .heads = heads, .kvHeads = heads, .biases = false});
    Array unit = identity(heads * dim);
    for (const std::string name : {"wq", "wk", "wv", "wo"}) write(name, unit);
    Array split{{batch, heads, tokens, dim}, {}};
    for (size_t b = 0; b < batch; ++b)
        for (size_t h = 0; h < heads; ++h)
            for (size_t t = 0; t < tokens; ++t)
                for (size_t d = 0; d < dim; ++d) split.values.push_back(layer.x.values[(b * tokens + t) * heads * dim + h * dim + d]);
    writeNpy(file("s.npy"), split);
    for (const Arguments &options : {Arguments{}, Arguments{"--causal", "top-left", "--softcap", "2"}}) {
        const ReadArray got = resultOf(options);
        Arguments run = {"run", "--q", "s.npy", "--k", "s.npy", "--v", "s.npy", "--out", "a.npy", "--device", "cpu"};
        run.insert(run.end(), options.begin(), options.end());
        ASSERT_EQ(tool(run).status, 0);
        const ReadArray plain = readNpy(file("a.npy"));
        ASSERT_EQ(got.values.size(), plain.values.size());
        for (size_t n = 0; n < plain.values.size(); ++n) {
            const size_t d = n % dim, t = n / dim % tokens, h = n / dim / tokens % heads, b = n / dim / tokens / heads;
            ASSERT_NEAR(got.values[(b * tokens + t) * heads * dim + h * dim + d], plain.values[n], 1e-6) << "element " << n;
        }
    }
}

TEST_F(LayerValues, permutedTokensGivePermutedRows) {
    given({.x = {7, 8}});
    for (const NormPlace place : {NormPlace::none, NormPlace::post, NormPlace::pre}) {
        normed(place);
        layer.residual = true;
        writeNpy(file("x.npy"), Array{{7, 8}, layer.x.values});
        const ReadArray before = resultOf();
        std::vector<size_t> order(7);
        std::iota(order.begin(), order.end(), size_t{0});
        std::shuffle(order.begin(), order.end(), random);
        Array permuted{{7, 8}, {}};
        std::vector<double> expected;
        for (const size_t from : order)
            for (size_t d = 0; d < 8; ++d) {
                permuted.values.push_back(layer.x.values[from * 8 + d]);
                expected.push_back(before.values[from * 8 + d]);
            }
        writeNpy(file("x.npy"), permuted);
        expectSame(resultOf().values, expected, 1e-5);
    }
}

TEST_F(LayerValues, rowsOfAPostNormHaveMeanZeroAndVarianceOne) {
    given({.x = {3, 4, 32}, .heads = 4, .kvHeads = 2, .out = 32});
    normed(NormPlace::post);
    layer.residual = true;
    Array ones{{32}, std::vector<double>(32, 1)}, zeros{{32}, std::vector<double>(32)};
    write("gamma", ones), write("beta", zeros);
    const ReadArray got = resultOf({"--eps", "0"});
    for (size_t row = 0; row < 12; ++row) {
        double mean = 0, variance = 0;
        for (size_t d = 0; d < 32; ++d) mean += got.values[row * 32 + d] / 32;
        for (size_t d = 0; d < 32; ++d) variance += (got.values[row * 32 + d] - mean) * (got.values[row * 32 + d] - mean) / 32;
        EXPECT_NEAR(mean, 0, 1e-6);
        EXPECT_NEAR(variance, 1, 1e-5);
    }
}

TEST_F(LayerValues, weights) {
    given({.x = {3, 4, 8}, .heads = 4, .kvHeads = 2, .context = {3, 6, 5}});
    (void)resultOf({"--weights", "w.npy"});
    const ReadArray all = readNpy(file("w.npy"));
    ASSERT_EQ(all.shape, (std::vector<size_t>{3, 4, 4, 6}));
    for (size_t row = 0; row < 48; ++row)
        EXPECT_NEAR(
            std::accumulate(all.values.begin() + static_cast<long>(row) * 6, all.values.begin() + static_cast<long>(row) * 6 + 6, 0.0), 1,
            1e-6);
    (void)resultOf({"--weights", "w.npy", "--average-weights"});
    const ReadArray mean = readNpy(file("w.npy"));
    EXPECT_EQ(mean.descr, "<f4");
    ASSERT_EQ(mean.shape, (std::vector<size_t>{3, 4, 6}));
    std::vector<double> expected(72);
    for (size_t b = 0; b < 3; ++b)
        for (size_t h = 0; h < 4; ++h)
            for (size_t n = 0; n < 24; ++n) expected[b * 24 + n] += all.values[(b * 4 + h) * 24 + n] / 4;
    expectSame(mean.values, expected, 1e-7);
    // Two dimensions of tokens are one batch entry.
    given({.x = {4, 8}});
    (void)resultOf({"--weights", "w.npy"});
    EXPECT_EQ(readNpy(file("w.npy")).shape, (std::vector<size_t>{1, 2, 4, 4}));
    (void)resultOf({"--weights", "w.npy", "--average-weights"});
    EXPECT_EQ(readNpy(file("w.npy")).shape, (std::vector<size_t>{1, 4, 4}));
}

// As `vkattn run`: no tokens give no rows, and no keys give rows of what remains.
TEST_F(LayerValues, noTokens) {
    for (const std::vector<size_t> &x : std::vector<std::vector<size_t>>{{0, 8}, {2, 0, 8}}) {
        given({.x = x});
        check();
        normed(NormPlace::post);
        layer.residual = true;
        check({"--causal", "top-left"});
        layer.residual = false;
    }
    given({.x = {2, 3, 8}, .context = {2, 0, 6}});
    check();
    given({.x = {2, 0, 8}, .context = {2, 3, 6}});
    check();
    EXPECT_EQ(resultOf({"--weights", "w.npy", "--average-weights"}).shape, (std::vector<size_t>{2, 0, 8}));
    EXPECT_EQ(readNpy(file("w.npy")).shape, (std::vector<size_t>{2, 0, 3}));
}

TEST_F(LayerValues, theSameBytesEachTime) {
    given({.x = {2, 33, 24}, .heads = 3, .kvHeads = 3, .out = 24});
    (void)resultOf({"--deterministic"});
    const std::string first = readBytes(file("o.npy"));
    (void)resultOf({"--deterministic", "--repeat", "3"});
    EXPECT_EQ(readBytes(file("o.npy")), first);
}

// The same on the first Vulkan device, which must not fall back. tests/device/CMakeLists.txt runs
// these tests on every driver.
class LayerOnDriver : public LayerValues {
  protected:
    LayerOnDriver() { where = {"--device", "0", "--no-fallback"}; }
};

TEST_F(LayerOnDriver, normsTypesAndOptions) {
    if (!hasTestedDevice()) return;
    given({.x = {2, 17, 24}, .heads = 4, .kvHeads = 2, .headDim = 8, .valueDim = 6, .out = 24});
    normed(NormPlace::post);
    layer.residual = true;
    reference.causal = true;
    EXPECT_EQ(check({"--causal", "bottom-right"}).err, "");
    given({.x = {5, 8}, .context = {7, 6}}, {.descr = "<f2"}, {.descr = "<f2", .fortran = true});
    normed(NormPlace::pre);
    reference = {};
    reference.seed = 7, layer.outputDropout = 0.3;
    givenSinks(2);
    check({"--sinks", "sinks.npy", "--seed", "7"}, "<f2");
}

} // namespace
