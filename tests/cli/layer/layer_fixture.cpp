#include "layer_fixture.hpp"

#include <cmath>

namespace {

// The reference takes a batch always.
Array batched(Array array) {
    if (array.shape.size() == 2) array.shape.insert(array.shape.begin(), 1);
    return array;
}

} // namespace

void LayerTest::given(const LayerShape &shape, const NpyOptions &tokens, const NpyOptions &parameters) {
    std::filesystem::create_directory(file("p"));
    Array x = randomArray(random, shape.x);
    writeNpy(file("x.npy"), x, tokens);
    rank_ = x.shape.size();
    layer.x = batched(std::move(x));
    layer.context.reset();
    if (!shape.context.empty()) {
        Array context = randomArray(random, shape.context);
        writeNpy(file("context.npy"), context, tokens);
        layer.context = batched(std::move(context));
    }
    layer.heads = shape.heads, layer.kvHeads = shape.kvHeads;
    const size_t model = shape.x.back(), others = shape.context.empty() ? model : shape.context.back();
    LayerParameters &p = layer.parameters;
    const auto matrix = [&](const char *name, Array &array, size_t out, size_t in) {
        write(name, array = randomArray(random, {out, in}, 1 / std::sqrt(static_cast<double>(in))), parameters);
    };
    matrix("wq", p.wq, shape.heads * shape.headDim, model);
    matrix("wk", p.wk, shape.kvHeads * shape.headDim, others);
    matrix("wv", p.wv, shape.kvHeads * shape.valueDim, others);
    matrix("wo", p.wo, shape.out, shape.heads * shape.valueDim);
    const auto bias = [&](const char *name, std::optional<Array> &array, size_t out) {
        array.reset();
        std::filesystem::remove(file("p") / (std::string(name) + ".npy"));
        if (shape.biases) write(name, array.emplace(randomArray(random, {out}, 0.5)), {.descr = parameters.descr});
    };
    bias("bq", p.bq, shape.heads * shape.headDim);
    bias("bk", p.bk, shape.kvHeads * shape.headDim);
    bias("bv", p.bv, shape.kvHeads * shape.valueDim);
    bias("bo", p.bo, shape.out);
    layer.norm = NormPlace::none;
    layer.outputDropout = 0;
    layer.rotary.reset();
    layer.storedUnit = layer.outUnit = tokens.descr == "<f2" ? float16Unit : float32Unit;
}

void LayerTest::write(const std::string &parameter, Array &array, const NpyOptions &options) const {
    writeNpy(file("p") / (parameter + ".npy"), array, options);
}

void LayerTest::normed(NormPlace place, const NpyOptions &parameters) {
    layer.norm = place;
    const size_t dims = place == NormPlace::pre ? layer.x.shape.back() : layer.parameters.wo.shape[0];
    write("gamma", layer.parameters.gamma.emplace(randomArray(random, {dims})), parameters);
    write("beta", layer.parameters.beta.emplace(randomArray(random, {dims})), parameters);
}

Arguments LayerTest::command(const Arguments &more) const {
    Arguments arguments = {"layer", "--x", "x.npy", "--params", "p", "--out", "o.npy", "--heads", std::to_string(layer.heads)};
    const auto add = [&](const Arguments &words) { arguments.insert(arguments.end(), words.begin(), words.end()); };
    if (layer.kvHeads != layer.heads) add({"--kv-heads", std::to_string(layer.kvHeads)});
    if (layer.context) add({"--context", "context.npy"});
    if (layer.norm != NormPlace::none) add({"--norm", layer.norm == NormPlace::pre ? "pre" : "post"});
    if (layer.residual) add({"--residual"});
    if (layer.outputDropout > 0) add({"--output-dropout", std::to_string(layer.outputDropout)});
    if (layer.rotary) {
        const RotaryReference &r = *layer.rotary;
        add({"--rotary", r.interleaved ? "interleaved" : "half", "--rotary-dims", std::to_string(r.dims)});
        if (r.start > 0) add({"--rotary-start", std::to_string(r.start)});
        if (r.base != 10000) add({"--rotary-base", std::to_string(r.base)});
    }
    add(where), add(more);
    return arguments;
}

void LayerTest::expectNear(const ReadArray &got, const Measured &expected, const std::vector<size_t> &shape, const std::string &descr) {
    EXPECT_EQ(got.descr, descr);
    EXPECT_EQ(got.shape, shape);
    ASSERT_EQ(got.values.size(), expected.values.values.size());
    for (size_t n = 0; n < got.values.size(); ++n)
        if (std::isinf(expected.values.values[n]))
            ASSERT_EQ(got.values[n], expected.values.values[n]) << "element " << n;
        else // what steps share makes errors of elements alike: six deviations
            ASSERT_NEAR(got.values[n], expected.values.values[n], 6 * expected.deviation[n]) << "element " << n;
}

Outcome LayerTest::check(const Arguments &options, const std::string &descr) {
    Arguments arguments = command(options);
    arguments.insert(arguments.end(), {"--verify", "--weights", "w.npy", "--lse", "lse.npy"});
    Outcome outcome = tool(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
    if (outcome.status != 0) return outcome;
    layer.attention = reference;
    const LayerExpectation expected = referenceLayer(layer);
    const ReadArray out = readNpy(file("o.npy"));
    std::vector<size_t> shape = expected.out.values.shape;
    if (rank_ == 2) shape.erase(shape.begin());
    expectNear(out, expected.out, shape, descr);
    expectNear(readNpy(file("lse.npy")), expected.lse, expected.lse.values.shape, "<f4");
    expectNear(readNpy(file("w.npy")), expected.weights, expected.weights.values.shape, "<f4");
    return outcome;
}

ReadArray LayerTest::resultOf(const Arguments &options) const {
    const Outcome outcome = tool(command(options));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? readNpy(file("o.npy")) : ReadArray();
}
