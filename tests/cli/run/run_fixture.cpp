#include "run_fixture.hpp"

#include <algorithm>
#include <cmath>

namespace {

// The distance that a correct float32 (or float16) output may have from the double reference on
// N(0, 1) data of these sizes.
double allowed(double expected, const std::string &descr) {
    return 2e-5 + std::abs(expected) * (descr == "<f2" ? 0x1p-10 : 2e-5);
}

} // namespace

void RunTest::given(const std::vector<size_t> &qShape, const std::vector<size_t> &kShape, const std::vector<size_t> &vShape,
                    const NpyOptions &qOptions, const NpyOptions &kOptions, const NpyOptions &vOptions) {
    writeNpy(file("q.npy"), q = randomArray(random, qShape), qOptions);
    writeNpy(file("k.npy"), k = randomArray(random, kShape), kOptions);
    writeNpy(file("v.npy"), v = randomArray(random, vShape), vOptions);
    q = rounded(q, qOptions), k = rounded(k, kOptions), v = rounded(v, vOptions);
}

Array RunTest::rounded(Array array, const NpyOptions &options) const {
    writeNpy(file("rounded.npy"), array, options);
    return array;
}

void RunTest::givenBits(const std::vector<size_t> &rows, size_t keys, const NpyOptions &options) {
    std::vector<size_t> shape = rows;
    shape.push_back((keys + 31) / 32);
    reference.bits = Array{shape, std::vector<double>(Array::count(shape))};
    for (double &word : reference.bits->values) word = static_cast<double>(static_cast<uint32_t>(random() | random()));
    writeNpy(file("bits.npy"), *reference.bits, options);
}

void RunTest::givenAlibi(size_t heads, const std::string &descr) {
    Array slopes = randomArray(random, {heads}, 0.25);
    writeNpy(file("alibi.npy"), slopes, {.descr = descr});
    reference.alibi = slopes.values;
}

void RunTest::givenSinks(size_t heads, const std::string &descr) {
    Array sinks = randomArray(random, {heads}, 2);
    for (double &sink : sinks.values) sink = chance(4) ? -INFINITY : sink;
    writeNpy(file("sinks.npy"), sinks, {.descr = descr});
    reference.sinks = sinks.values;
}

void RunTest::givenOffsets(const std::vector<long> &cuQ, const std::vector<long> &cuK, const std::string &descr) {
    reference.cuQ = cuQ, reference.cuK = cuK;
    writeNpy(file("cq.npy"), Array{{cuQ.size()}, {cuQ.begin(), cuQ.end()}}, {.descr = descr});
    writeNpy(file("ck.npy"), Array{{cuK.size()}, {cuK.begin(), cuK.end()}}, {.descr = descr});
}

void RunTest::givenDocuments(const std::vector<size_t> &qShape, const std::vector<size_t> &kShape, const NpyOptions &options) {
    // Few enough that most queries see something, one of them too large for a signed word where the
    // dtype allows.
    const double ids[] = {0, 7, options.descr == "<i4" ? 2147483647.0 : 4294967295.0};
    for (const bool queries : {true, false}) {
        std::optional<Array> &array = queries ? reference.documentsQ : reference.documentsK;
        const std::vector<size_t> &shape = queries ? qShape : kShape;
        array = Array{shape, std::vector<double>(Array::count(shape))};
        for (double &id : array->values) id = ids[random() % 3];
        writeNpy(file(queries ? "dq.npy" : "dk.npy"), *array, options);
    }
}

std::vector<long> RunTest::randomOffsets(size_t sequences, size_t tokens) {
    std::vector<long> offsets;
    for (size_t n = 0; n <= sequences; n++) offsets.push_back(static_cast<long>(random() % (tokens + 1)));
    std::sort(offsets.begin(), offsets.end());
    if (!chance(4)) offsets.front() = 0;
    if (!chance(4)) offsets.back() = static_cast<long>(tokens);
    return offsets;
}

void RunTest::expectNear(const ReadArray &got, const Array &expected, const std::vector<size_t> &shape) const {
    EXPECT_EQ(got.shape, shape);
    ASSERT_EQ(got.values.size(), expected.values.size());
    for (size_t i = 0; i < got.values.size(); i++) {
        if (std::isinf(expected.values[i]))
            ASSERT_EQ(got.values[i], expected.values[i]) << "element " << i;
        else
            ASSERT_NEAR(got.values[i], expected.values[i], allowed(expected.values[i], got.descr) + outUnit * std::abs(expected.values[i]))
                << "element " << i;
    }
}

Arguments RunTest::command(const Arguments &options) const {
    Arguments arguments = {"run", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "o.npy", "--lse", "lse.npy", "--verify"};
    if (wantsWeights) arguments.insert(arguments.end(), {"--weights", "w.npy"});
    if (wantsScores) arguments.insert(arguments.end(), {"--scores", "s.npy", "--scores-stage", reference.scoresStage});
    arguments.insert(arguments.end(), where.begin(), where.end());
    arguments.insert(arguments.end(), options.begin(), options.end());
    return arguments;
}

void RunTest::compare(const std::string &descr) {
    const ReferenceResult expected = referenceAttention(q, k, v, reference);
    std::vector<size_t> rows(q.shape.begin(), q.shape.end() - 1), outShape = rows, weightsShape = rows;
    outShape.push_back(v.shape.back());
    weightsShape.push_back(k.shape[k.shape.size() - 2]);
    if (!reference.cuQ.empty()) weightsShape = expected.weights.shape; // whatever the rank of q
    const ReadArray out = readNpy(file("o.npy")), lse = readNpy(file("lse.npy"));
    EXPECT_EQ(out.descr, descr);
    EXPECT_EQ(lse.descr, "<f4");
    expectNear(out, expected.out, outShape);
    expectNear(lse, expected.lse, rows);
    const auto pairs = [&](bool wanted, const char *name, const Array &values) {
        if (!wanted) return;
        const ReadArray got = readNpy(file(name));
        EXPECT_EQ(got.descr, "<f4");
        expectNear(got, values, weightsShape);
    };
    pairs(wantsWeights, "w.npy", expected.weights);
    pairs(wantsScores, "s.npy", expected.scores);
}

Outcome RunTest::check(const Arguments &options, const std::string &descr) {
    Outcome outcome = tool(command(options));
    EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
    if (outcome.status == 0) compare(descr);
    return outcome;
}
