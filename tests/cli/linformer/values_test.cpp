// `vkattn run --project-k`: Linformer on the CPU and on every driver, against projections in plain loops and the reference of attention.
#include "cli/run/run_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

class Linformer : public RunTest {
  protected:
    // The tokens of [batch, head, token, dim] by a matrix [row, token] or [head, row, token], up to the lengths of the batch entries.
    static Array projected(const Array &e, const Array &tokens, const std::vector<size_t> &lengths = {}) {
        const size_t batches = tokens.shape[0], heads = tokens.shape[1], n = tokens.shape[2], dims = tokens.shape[3];
        const size_t rows = e.shape[e.shape.size() - 2], columns = e.shape.back();
        Array result{{batches, heads, rows, dims}, {}};
        for (size_t b = 0; b < batches; ++b)
            for (size_t h = 0; h < heads; ++h)
                for (size_t r = 0; r < rows; ++r)
                    for (size_t d = 0; d < dims; ++d) {
                        const size_t matrix = e.shape.size() == 3 && e.shape[0] > 1 ? h : 0;
                        double sum = 0;
                        for (size_t t = 0; t < (lengths.empty() ? n : lengths[b]); ++t)
                            sum += e.values[(matrix * rows + r) * columns + t] * tokens.values[((b * heads + h) * n + t) * dims + d];
                        result.values.push_back(sum);
                    }
        return result;
    }
    // Writes the matrix, with rows of about length 1 as trained ones have.
    Array givenMatrix(const std::string &name, const std::vector<size_t> &shape, const NpyOptions &options = {}) {
        Array e = randomArray(random, shape, 1 / std::sqrt(static_cast<double>(shape.back())));
        writeNpy(file(name), e, options);
        return e;
    }
    // Writes the tokens with NaN and infinity past the lengths.
    void spoilPast(const std::string &name, Array tokens, const std::vector<size_t> &lengths) {
        const size_t heads = tokens.shape[1], n = tokens.shape[2], dims = tokens.shape[3];
        for (size_t at = 0; at < tokens.values.size(); ++at)
            if (at / dims % n >= lengths[at / dims / n / heads]) tokens.values[at] = at % 2 ? nan : INFINITY;
        writeNpy(file(name), tokens);
    }
    // Columns past the tokens are NaN, of a matrix for each head and one for all.
    void givenSpoiled() {
        given({3, 4, 9, 8}, {3, 2, 21, 8}, {3, 2, 21, 6});
        Array e = givenMatrix("e.npy", {2, 5, 30}), f = givenMatrix("f.npy", {5, 24});
        for (Array *const matrix : {&e, &f})
            for (size_t at = 0; at < matrix->values.size(); ++at)
                if (at % matrix->shape.back() >= 21) matrix->values[at] = nan;
        writeNpy(file("e.npy"), e), writeNpy(file("f.npy"), f);
        const std::vector<size_t> lengths = {21, 13, 0};
        writeNpy(file("l.npy"), Array{{3}, {100, 13, 0}}, {.descr = "<i4"}); // the first is clamped
        spoilPast("k.npy", k, lengths), spoilPast("v.npy", v, lengths);
        k = projected(e, k, lengths), v = projected(f, v, lengths);
    }
};

TEST_F(Linformer, byTheIdentityIsFullAttention) {
    given({2, 4, 6, 8}, {2, 2, 11, 8}, {2, 2, 11, 5});
    Array identity{{11, 11}, std::vector<double>(121)};
    for (size_t n = 0; n < 11; ++n) identity.values[n * 12] = 1;
    writeNpy(file("e.npy"), identity);
    check({"--project-k", "e.npy"});
    check({"--project-k", "e.npy", "--project-v", "e.npy"});
}

TEST_F(Linformer, hasAMatrixForEachHeadOrForAll) {
    given({2, 6, 7, 8}, {2, 3, 40, 8}, {2, 3, 40, 5});
    const Array tokensK = k, tokensV = v, e = givenMatrix("e.npy", {3, 9, 50}), f = givenMatrix("f.npy", {9, 40}),
                one = givenMatrix("one.npy", {1, 9, 40});
    k = projected(e, tokensK), v = projected(e, tokensV);
    check({"--project-k", "e.npy"});
    v = projected(f, tokensV);
    check({"--project-k", "e.npy", "--project-v", "f.npy"});
    k = projected(one, tokensK);
    check({"--project-k", "one.npy", "--project-v", "f.npy"});
}

// 3 tokens to 2: K' = (1.5, 3), V' = (3, 10); the weights are 1 / (1 + e^1.5) and the rest.
TEST_F(Linformer, isTheSmallCaseByHand) {
    writeNpy(file("q.npy"), Array{{1, 1}, {1}});
    writeNpy(file("k.npy"), Array{{3, 1}, {1, 2, 3}});
    writeNpy(file("v.npy"), Array{{3, 1}, {2, 4, 10}});
    writeNpy(file("e.npy"), Array{{2, 4}, {0.5, 0.5, 0, nan, 0, 0, 1, nan}});
    const Outcome outcome = tool(command({"--project-k", "e.npy"}));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const double first = 1 / (1 + std::exp(1.5));
    EXPECT_NEAR(readNpy(file("o.npy")).values[0], 3 * first + 10 * (1 - first), 1e-6); // 8.723021
    const ReadArray weights = readNpy(file("w.npy"));
    EXPECT_EQ(weights.shape, (std::vector<size_t>{1, 2}));
    EXPECT_NEAR(weights.values[0], first, 1e-7);
    EXPECT_NEAR(weights.values[0] + weights.values[1], 1, 1e-6);
}

TEST_F(Linformer, leavesTokensPastALengthOut) {
    givenSpoiled();
    check({"--project-k", "e.npy", "--project-v", "f.npy", "--kv-lengths", "l.npy"});
    // Of length 0 every projected key and value is 0.
    const ReadArray out = readNpy(file("o.npy")), weights = readNpy(file("w.npy"));
    for (size_t at = out.values.size() * 2 / 3; at < out.values.size(); ++at) ASSERT_EQ(out.values[at], 0) << at;
    for (size_t at = weights.values.size() * 2 / 3; at < weights.values.size(); ++at) ASSERT_NEAR(weights.values[at], 0.2, 1e-7) << at;
}

TEST_F(Linformer, doesNotKnowTheOrderOfTokens) {
    given({1, 2, 5, 8}, {1, 2, 17, 8}, {1, 2, 17, 8});
    const Array e = givenMatrix("e.npy", {6, 17});
    ASSERT_EQ(tool(command({"--project-k", "e.npy"})).status, 0);
    const ReadArray before = readNpy(file("o.npy"));
    std::vector<size_t> order(17);
    for (size_t n = 0; n < 17; ++n) order[n] = n;
    std::shuffle(order.begin(), order.end(), random);
    Array permutedE = e, permutedK = k, permutedV = v;
    for (size_t t = 0; t < 17; ++t) {
        for (size_t r = 0; r < 6; ++r) permutedE.values[r * 17 + t] = e.values[r * 17 + order[t]];
        for (size_t h = 0; h < 2; ++h)
            for (size_t d = 0; d < 8; ++d) {
                permutedK.values[(h * 17 + t) * 8 + d] = k.values[(h * 17 + order[t]) * 8 + d];
                permutedV.values[(h * 17 + t) * 8 + d] = v.values[(h * 17 + order[t]) * 8 + d];
            }
    }
    writeNpy(file("e.npy"), permutedE), writeNpy(file("k.npy"), permutedK), writeNpy(file("v.npy"), permutedV);
    ASSERT_EQ(tool(command({"--project-k", "e.npy"})).status, 0);
    const ReadArray after = readNpy(file("o.npy"));
    for (size_t at = 0; at < before.values.size(); ++at) ASSERT_NEAR(after.values[at], before.values[at], 4e-6) << at;
}

TEST_F(Linformer, takesTheOptionsOfRowsAndWeights) {
    given({2, 4, 9, 8}, {2, 2, 30, 8}, {2, 2, 30, 8});
    const Array e = givenMatrix("e.npy", {7, 30}, {.fortran = true});
    k = projected(e, k), v = projected(e, v);
    givenSinks(4);
    reference.scale = 0.5, reference.softcap = 2;
    check({"--project-k", "e.npy", "--sinks", "sinks.npy", "--scale", "0.5", "--softcap", "2"});
    wantsScores = true;
    check({"--project-k", "e.npy", "--sinks", "sinks.npy", "--scale", "0.5", "--softcap", "2", "--slices", "2", "--deterministic",
           "--repeat", "2"});
    reference.dropout = 0.3, reference.seed = 5;
    check({"--project-k", "e.npy", "--sinks", "sinks.npy", "--scale", "0.5", "--softcap", "2", "--dropout", "0.3", "--seed", "5"});
}

// Half-width files make fp32 keys; with --round-to everything has that type.
TEST_F(Linformer, hasItsTypes) {
    const NpyOptions half = {.descr = "<f2"};
    given({1, 2, 9, 8}, {1, 2, 30, 8}, {1, 2, 30, 8}, {}, half, half);
    Array e = givenMatrix("e.npy", {7, 30}, half);
    e = rounded(e, half);
    k = projected(e, k), v = projected(e, v);
    check({"--project-k", "e.npy"});
    outUnit = 0;
    for (const std::string type : {"f16", "bf16"}) {
        const Outcome outcome = tool(command({"--project-k", "e.npy", "--round-to", type, "--json"}));
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_EQ(nlohmann::json::parse(outcome.out)["projections"][1]["dtype"], type);
    }
}

TEST_F(Linformer, valuesInKeysAreThoseOfTheProjectedKeys) {
    given({1, 4, 9, 8}, {1, 2, 30, 8}, {1, 2, 30, 8});
    const Array e = givenMatrix("e.npy", {7, 30});
    k = projected(e, k);
    Array first{{1, 2, 7, 5}, {}};
    for (size_t at = 0; at < k.values.size(); ++at)
        if (at % 8 < 5) first.values.push_back(k.values[at]);
    v = first;
    const Outcome outcome = tool({"run", "--q", "q.npy", "--k", "k.npy", "--values-in-keys", "5", "--out", "o.npy", "--lse", "lse.npy",
                                  "--weights", "w.npy", "--project-k", "e.npy", "--verify", "--device", "cpu"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    compare("<f4");
}

TEST_F(Linformer, isReported) {
    givenSpoiled();
    const Arguments options = {"--project-k", "e.npy", "--project-v", "f.npy", "--kv-lengths", "l.npy"};
    Arguments json = options;
    json.push_back("--json");
    const Outcome outcome = tool(command(json));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const nlohmann::json report = nlohmann::json::parse(outcome.out);
    ASSERT_EQ(report["projections"].size(), 2u);
    const nlohmann::json &keys = report["projections"][0];
    EXPECT_EQ(keys["of"], "k");
    EXPECT_EQ(keys["tokens"], 21);
    EXPECT_EQ(keys["rows"], 5);
    EXPECT_EQ(keys["dtype"], "f32");
    EXPECT_GE(keys["milliseconds"], 0);
    EXPECT_NE(keys["matrix"].get<std::string>().find("e.npy (2, 5, 30) float32"), std::string::npos) << keys["matrix"];
    for (const char *option : {"projectK", "projectV", "kvLengths"}) EXPECT_EQ(report["options"][option], true) << option;
    // Rows of K' and V', and of attention.
    EXPECT_EQ(report["verify"]["rowsTotal"], 2 * 3 * 2 * 5 + 3 * 4 * 9);
    EXPECT_EQ(report["verify"]["passed"], true);
    EXPECT_NE(report["verify"]["step"], "");
    const Outcome text = tool(command(options));
    EXPECT_NE(text.out.find("project   21 tokens to 5 projected keys by e.npy"), std::string::npos) << text.out;
    EXPECT_NE(text.out.find("project   21 tokens to 5 projected values by f.npy"), std::string::npos) << text.out;
}

TEST_F(Linformer, isExplained) {
    givenMatrix("e.npy", {2, 8, 100});
    const Arguments shapes = {"explain",     "--shape-q", "3,4,64,16", "--shape-k", "3,2,96,16", "--shape-v", "3,2,96,12",
                              "--project-k", "e.npy",     "--with",    "lengths",   "--device",  "cpu"};
    Arguments json = shapes;
    json.push_back("--json");
    const Outcome outcome = tool(json);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const nlohmann::json report = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(report["shapes"]["k"], (std::vector<int>{3, 2, 8, 16}));
    const nlohmann::json &keys = report["projections"][0], &values = report["projections"][1];
    EXPECT_EQ(keys["flops"], 2 * 3 * 2 * 8 * 96 * 16);
    EXPECT_EQ(values["flops"], 2 * 3 * 2 * 8 * 96 * 12);
    EXPECT_EQ(keys["bytesWritten"], 4 * 3 * 2 * 8 * 16);
    EXPECT_EQ(keys["bytesRead"], 4 * (3 * 2 * 96 * 16 + 2 * 8 * 100 - 4) + 4 * 3); // the last columns are not read
    EXPECT_EQ(keys["lengths"], true);
    EXPECT_EQ(keys["plan"], nullptr);
    const Outcome text = tool(shapes);
    EXPECT_NE(text.out.find("project   96 tokens to 8 projected keys by e.npy"), std::string::npos) << text.out;
}

// tests/device/CMakeLists.txt runs this test on every driver.
class LinformerOnDriver : public Linformer {};
TEST_F(LinformerOnDriver, leavesTokensPastALengthOut) {
    if (!hasTestedDevice()) return;
    where = {"--device", "0", "--no-fallback"};
    givenSpoiled();
    const Arguments options = {"--project-k", "e.npy", "--project-v", "f.npy", "--kv-lengths", "l.npy"};
    check(options);
    Arguments explained = {"explain", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--device", "0", "--json"};
    explained.insert(explained.end(), options.begin(), options.end());
    const Outcome outcome = tool(explained);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(nlohmann::json::parse(outcome.out)["projections"][0]["plan"]["dispatchCount"], 1);
}

} // namespace
