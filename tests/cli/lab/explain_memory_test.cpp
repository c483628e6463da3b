// `vkattn explain --table` and `--memory`, and the pictures that programs share.
#include "lab_fixture.hpp"

#include "program/pictures/chart.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::json;

class ExplainMemory : public LabTest {
  protected:
    [[nodiscard]] Json explained(Arguments arguments) const {
        arguments.insert(arguments.begin(), "explain");
        arguments.emplace_back("--json");
        const Outcome outcome = tool(arguments);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return outcome.status == 0 ? Json::parse(outcome.out) : Json();
    }
    // Bytes of dense f32 q, k, v and out, and of what `explain` itself says of the workspace.
    [[nodiscard]] uint64_t needOf(uint64_t batch, uint64_t n, const Arguments &more) const {
        const std::string shape = std::to_string(batch) + ",2," + std::to_string(n) + ",16";
        Arguments arguments = {"--shape-q", shape, "--shape-k", shape};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Json json = explained(arguments);
        const Json &plan = json["plan"].is_null() ? json["cpuPlan"] : json["plan"];
        const bool weights = std::find(more.begin(), more.end(), "weights") != more.end();
        return 4 * batch * 2 * n * 16 * sizeof(float) + (weights ? batch * 2 * n * n * sizeof(float) : 0) +
               plan["workspaceBytes"].get<uint64_t>();
    }
    // The answers fit, and one more does not: asked of the planner, problem by problem.
    void expectExact(const Arguments &more, const std::string &memory, uint64_t bytes) const {
        Arguments arguments = {"--shape-q", "3,2,50,16", "--shape-k", "3,2,50,16", "--memory", memory};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Json found = explained(arguments)["memory"];
        EXPECT_EQ(found["bytes"], bytes);
        const auto batch = found["batch"]["largest"].get<uint64_t>(), tokens = found["tokens"]["largest"].get<uint64_t>();
        EXPECT_LE(needOf(batch, 50, more), bytes) << found;
        EXPECT_GT(needOf(batch + 1, 50, more), bytes) << found;
        EXPECT_EQ(found["batch"]["operandBytes"].get<uint64_t>() + found["batch"]["workspaceBytes"].get<uint64_t>(),
                  needOf(batch, 50, more));
        EXPECT_LE(needOf(3, tokens, more), bytes) << found;
        EXPECT_GT(needOf(3, tokens + 1, more), bytes) << found;
        EXPECT_EQ(found["tokensOf"], "queries and keys");
    }
};

TEST_F(ExplainMemory, isExactOnTheCpu) {
    expectExact({"--device", "cpu"}, "16MiB", 16u << 20);
    expectExact({"--device", "cpu", "--with", "weights"}, "7000001", 7000001);
}

TEST_F(ExplainMemory, isExactOnADevice) {
    if (!hasTestedDevice()) return;
    expectExact({}, "16MiB", 16u << 20);
    expectExact({"--with", "weights"}, "256MiB", 256u << 20);
    expectExact({"--kernel", "staged", "--causal", "bottom-right"}, "64MiB", 64u << 20);
}

TEST_F(ExplainMemory, masksGrowToo) {
    const Json found = explained(
        {"--shape-q", "4,2,1,16", "--shape-k", "4,2,100,16", "--with", "bitmask,lse", "--memory", "1MiB", "--device", "cpu"})["memory"];
    EXPECT_EQ(found["tokensOf"], "keys");
    EXPECT_GT(found["tokens"]["largest"].get<int>(), 500);
    EXPECT_GT(found["batch"]["largest"].get<int>(), 10);
    EXPECT_LE(found["tokens"]["operandBytes"].get<uint64_t>() + found["tokens"]["workspaceBytes"].get<uint64_t>(), 1u << 20);
    EXPECT_GT(found["tokens"]["nextBytes"].get<uint64_t>(), 1u << 20);
}

TEST_F(ExplainMemory, saysTheLeast) {
    const Arguments shapes = {"--shape-q", "2,8,1024,64", "--shape-k", "2,8,1024,64", "--device", "cpu", "--memory", "1MiB"};
    const Json found = explained(shapes)["memory"]["batch"];
    EXPECT_EQ(found["largest"], 0);
    EXPECT_GE(found["leastBytes"].get<uint64_t>(), 4u * 8 * 1024 * 64 * 4);
    Arguments text = shapes;
    text.insert(text.begin(), "explain");
    EXPECT_NE(tool(text).out.find("  batch   does not fit: the least is "), std::string::npos);
}

TEST_F(ExplainMemory, refusals) {
    for (const char *const bytes :
         {"0", "0GiB", "x", "-1", "1.5GiB", "8GB", "8 GiB", "GiB", "18446744073709551616", "9000000TiB", "9223372036854775808"})
        expectRefused(tool({"explain", "--shape-q", "4,4", "--shape-k", "4,4", "--memory", bytes}), {"--memory takes", "8GiB", bytes});
    expectRefused(tool({"explain", "--shape-q", "4,4", "--shape-k", "4,4", "--memory", ""}), {"--memory needs a value"});
    expectRefused(tool({"explain", "--shape-q", "4,4", "--shape-k", "4,4", "--ragged", "2", "--memory", "1GiB"}), {"--memory", "ragged"});
    // The most that is taken.
    const Json all = explained({"--shape-q", "1,1", "--shape-k", "1,1", "--device", "cpu", "--memory", "9223372036854775807"})["memory"];
    EXPECT_GT(all["batch"]["largest"].get<uint64_t>(), 1u << 30);
    EXPECT_FALSE(all["tokens"]["refused"].is_null()); // the header's limit, not memory
}

TEST_F(ExplainMemory, tableCounts) {
    const Json json =
        explained({"--shape-q", "2,8,100,64", "--shape-k", "2,4,300,64", "--shape-v", "2,4,300,32", "--table", "--device", "cpu"});
    const Json &table = json["table"];
    ASSERT_EQ(table.size(), 4u);
    const double pairs = 2.0 * 8 * 100 * 300;
    EXPECT_EQ(table[0]["flops"], 2 * pairs * 64);
    EXPECT_EQ(table[2]["flops"], 2 * pairs * 32);
    EXPECT_EQ(table[0]["workspaceBytes"], 4 * pairs);
    EXPECT_EQ(table[0]["bytesRead"], 4 * (2.0 * 8 * 100 * 64 + 2.0 * 4 * 300 * 64));
    EXPECT_EQ(table[1]["bytesWritten"], 4 * pairs);
    EXPECT_EQ(table[2]["bytesWritten"], 4 * 2.0 * 8 * 100 * 32);
    EXPECT_EQ(table[3]["flops"], 2 * 200.0 * 512 * 512);
    const std::string sizes[][2] = {{"1024", "4 MiB"}, {"4096", "64 MiB"}, {"100000", "37.3 GiB"}};
    for (const auto &[n, bytes] : sizes) {
        const Outcome text = tool({"explain", "--shape-q", n + ",64", "--shape-k", n + ",64", "--table", "--device", "cpu"});
        EXPECT_NE(text.out.find("n m 4 = " + bytes + " a head"), std::string::npos) << text.out;
        EXPECT_NE(text.out.find("recurrent"), std::string::npos);
    }
}

TEST_F(ExplainMemory, tableOfALayer) {
    const Outcome outcome = tool({"explain", "layer", "--shape-x", "1,1024,512", "--heads", "8", "--table", "--json", "--device", "cpu"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    std::string names;
    const Json json = Json::parse(outcome.out);
    for (const Json &stage : json["table"]) names += stage["stage"].get<std::string>() + " | ";
    EXPECT_EQ(names, "q | k | v | Q K^T | softmax | P V | out | recurrent | ");
}

using namespace vkattn::program;

TEST(Chart, textIsEscapedAndOnePointIsEnough) {
    for (const AxisScale scale : {AxisScale::linear, AxisScale::octaves, AxisScale::decades}) {
        const Plot plot{
            .x = {.label = "tokens", .scale = scale}, .y = {.label = "GFLOP/s", .scale = scale}, .curves = {{"\"quoted\"", {{1024, 5}}}}};
        const std::string svg = svgText({"a < b & c", "", {plot}});
        EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
        EXPECT_EQ(svg.find("nan"), std::string::npos);
        EXPECT_EQ(svg.find("inf"), std::string::npos);
        EXPECT_NE(svg.find("<polyline"), std::string::npos);
    }
}

// What an axis cannot show leaves a gap.
TEST(Chart, gaps) {
    const auto lines = [](AxisScale scale, double middle) {
        const Plot plot{
            .x = {.label = "x"}, .y = {.label = "y", .scale = scale}, .curves = {{"", {{1, 5}, {2, 6}, {3, middle}, {4, 5}, {5, 7}}}}};
        const std::string svg = svgText({"", "", {plot}});
        size_t count = 0;
        for (size_t at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1)) ++count;
        return count;
    };
    EXPECT_EQ(lines(AxisScale::linear, 4), 1u);
    EXPECT_EQ(lines(AxisScale::linear, NAN), 2u);
    EXPECT_EQ(lines(AxisScale::decades, INFINITY), 2u);
    EXPECT_EQ(lines(AxisScale::decades, 0), 2u);
}

TEST(Chart, numbers) {
    EXPECT_EQ(numberText(0), "0");
    EXPECT_EQ(numberText(0.0123), "0.0123");
    EXPECT_EQ(numberText(1234), "1234");
    EXPECT_EQ(numberText(5e-44), "5e-44");
    EXPECT_EQ(numberText(2e-5), "2e-5");
    EXPECT_EQ(numberText(1e7), "1e7");
    EXPECT_EQ(binaryText(65536), "64K");
    EXPECT_EQ(binaryText(100), "100");
}

} // namespace
