// `vkattn merge`: values against sums of this file's own, types, orders and refusals.
#include "../harness.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

class MergeTool : public CliTest {
  protected:
    // Parts of [batch, heads, tokens, dims], a.npy and la.npy, b.npy and lb.npy, ...
    void given(size_t parts, const std::vector<size_t> &shape, const NpyOptions &options = {}) {
        random_.seed(testSeed());
        outs_.clear(), lses_.clear();
        const std::vector<size_t> rows(shape.begin(), shape.end() - 1);
        for (size_t t = 0; t < parts; t++) {
            outs_.push_back(randomArray(random_, shape));
            lses_.push_back(randomArray(random_, rows, 3));
        }
        write(options);
    }
    void write(const NpyOptions &options = {}) {
        NpyOptions ofLse = options;
        ofLse.descr = "<f4";
        for (size_t t = 0; t < outs_.size(); t++) {
            writeNpy(file(name(t) + ".npy"), outs_[t], options);
            writeNpy(file("l" + name(t) + ".npy"), lses_[t], ofLse);
        }
    }
    [[nodiscard]] static std::string name(size_t t) { return std::string(1, static_cast<char>('a' + t)); }
    [[nodiscard]] Arguments command(const Arguments &more = {}) const {
        Arguments all = {"merge", "--out"};
        for (size_t t = 0; t < outs_.size(); t++) all.push_back(name(t) + ".npy");
        all.push_back("--lse");
        for (size_t t = 0; t < outs_.size(); t++) all.push_back("l" + name(t) + ".npy");
        all.insert(all.end(), {"--to", "o.npy", "--to-lse", "l.npy"});
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    // Runs, and compares both results with the formula.
    void expectMerged(double tolerance, const Arguments &more, const std::string &descr = "<f4") const {
        const Outcome outcome = tool(command(more));
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        const ReadArray out = readNpy(file("o.npy")), lse = readNpy(file("l.npy"));
        ASSERT_EQ(out.shape, outs_[0].shape);
        ASSERT_EQ(lse.shape, lses_[0].shape);
        EXPECT_EQ(out.descr, descr);
        EXPECT_EQ(lse.descr, "<f4");
        const size_t dims = out.shape.back();
        for (size_t row = 0; row < lse.values.size(); row++) {
            double largest = -infinity, sum = 0;
            for (const Array &each : lses_) largest = std::max(largest, each.values[row]);
            for (const Array &each : lses_) sum += each.values[row] == -infinity ? 0 : std::exp(each.values[row] - largest);
            EXPECT_TRUE(sum > 0 ? std::abs(lse.values[row] - largest - std::log(sum)) < 1e-5 : lse.values[row] == -infinity)
                << lse.values[row];
            for (size_t d = 0; d < dims; d++) {
                double expected = 0;
                for (size_t t = 0; t < outs_.size(); t++)
                    if (lses_[t].values[row] != -infinity)
                        expected += std::exp(lses_[t].values[row] - largest) / sum * outs_[t].values[row * dims + d];
                EXPECT_NEAR(out.values[row * dims + d], expected, tolerance);
            }
        }
    }

    std::vector<Array> outs_, lses_;

  private:
    std::mt19937_64 random_;
};

TEST_F(MergeTool, helpNamesEveryOption) {
    const Outcome outcome = tool({"merge", "--help"});
    EXPECT_EQ(outcome.status, 0);
    for (const std::string option : {"--out", "--lse", "--to", "--to-lse", "--device", "--verify", "--no-fallback", "--repeat", "--json"})
        EXPECT_NE(outcome.out.find("  " + option + " "), std::string::npos) << option;
    EXPECT_NE(outcome.out.find("base 2"), std::string::npos);
    EXPECT_NE(tool({"--help"}).out.find("\n  merge "), std::string::npos);
}

TEST_F(MergeTool, isTheFormulaOfTheParts) {
    for (const size_t parts : {1, 2, 5}) {
        given(parts, {2, 3, 4, 7});
        expectMerged(1e-6, {"--device", "cpu", "--verify=all"});
    }
    given(3, {4, 7});
    expectMerged(1e-6, {"--device", "cpu"});
    given(3, {2, 3, 4, 7}, {.fortran = true});
    expectMerged(1e-6, {"--device", "cpu"});
    given(2, {3, 4, 8}, {.descr = "<f2"});
    expectMerged(2e-3, {"--device", "cpu"}, "<f2");
}

class MergeOnDriver : public MergeTool {};

TEST_F(MergeOnDriver, isTheFormulaOfTheParts) {
    if (!hasTestedDevice()) return;
    given(4, {2, 3, 5, 9});
    expectMerged(1e-6, {"--no-fallback", "--verify=all"});
}

TEST_F(MergeTool, partsThatSawNothingAreUnread) {
    given(3, {2, 5, 6});
    for (const size_t t : {0, 2}) {
        lses_[t].values[3] = -infinity;
        for (size_t d = 0; d < 6; d++) outs_[t].values[3 * 6 + d] = nan;
    }
    for (size_t t = 0; t < 3; t++) {
        lses_[t].values[7] = -infinity;
        for (size_t d = 0; d < 6; d++) outs_[t].values[7 * 6 + d] = t == 1 ? infinity : nan;
    }
    write();
    expectMerged(1e-6, {"--device", "cpu", "--verify=all"});
    const ReadArray out = readNpy(file("o.npy"));
    for (size_t d = 0; d < 6; d++) EXPECT_EQ(out.values[7 * 6 + d], 0);
}

// Of two types the wider one is computed with.
TEST_F(MergeTool, takesPartsOfTwoTypes) {
    given(2, {3, 4, 8});
    writeNpy(file("b.npy"), outs_[1], {.descr = "<f2"});
    expectMerged(1e-6, {"--device", "cpu"});
}

TEST_F(MergeTool, reportsInJson) {
    given(3, {2, 5, 6});
    const Outcome outcome = tool(command({"--device", "cpu", "--json", "--verify=all"}));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const auto json = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(json["options"]["parts"], 3);
    EXPECT_EQ(json["shapes"]["out"], (std::vector<size_t>{2, 5, 6}));
    EXPECT_EQ(json["shapes"]["toLse"], (std::vector<size_t>{2, 5}));
    EXPECT_EQ(json["outputs"]["to"], "o.npy");
    EXPECT_EQ(json["verify"]["passed"], true);
    EXPECT_EQ(json["verify"]["rowsTotal"], 10);
}

TEST_F(MergeTool, refuses) {
    given(2, {2, 5, 6});
    const auto refused = [&](const Arguments &all, const std::vector<std::string> &words) { expectRefused(tool(all), words); };
    refused({"merge", "--out", "a.npy", "b.npy", "--lse", "la.npy", "--to", "o.npy"},
            {"--out has 2 files and --lse 1", "one of each for every part"});
    refused({"merge", "--out", "a.npy", "--to", "o.npy"}, {"--lse is required"});
    refused({"merge", "--out", "a.npy", "--lse", "la.npy"}, {"--to is required"});
    refused({"merge", "--out", "--json", "--lse", "la.npy", "--to", "o.npy"}, {"--out"});
    refused({"merge", "--out", "a.npy", "--lse", "la.npy", "--to", "a.npy"}, {"--to", "a.npy"});
    refused({"merge", "--out", "a.npy", "missing.npy", "--lse", "la.npy", "lb.npy", "--to", "o.npy"}, {"missing.npy: no such file"});
    refused({"merge", "--out", "la.npy", "--lse", "a.npy", "--to", "o.npy"}, {"shapes disagree", "la.npy"});
    writeNpy(file("b.npy"), Array{{2, 5, 7}, std::vector<double>(70)});
    refused(command(), {"shapes disagree: a.npy (2, 5, 6) float32 and b.npy (2, 5, 7) float32", "all parts need the same shape"});
    writeNpy(file("b.npy"), Array{{2, 5, 6}, std::vector<double>(60)}, {.descr = "<i4"});
    refused(command(), {"b.npy: it holds int32, but --out takes float32 or float16"});
    writeNpy(file("b.npy"), Array{{2, 5, 6}, std::vector<double>(60)});
    writeNpy(file("lb.npy"), Array{{2, 4}, std::vector<double>(8)});
    refused(command(), {"shapes disagree", "lb.npy (2, 4) float32"});
}

} // namespace
