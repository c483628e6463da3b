// The rows that `--verify` checks, and its report.
#include "cli/harness.hpp"

#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::json;

class VerifyTest : public CliTest {
  protected:
    VerifyTest() { writeSmallProblem(64, 32, 8); }
    [[nodiscard]] Json verified(const std::string &option) const {
        const Outcome outcome = tool(onCpu({option, "--json"}));
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        const Json json = Json::parse(outcome.out)["verify"];
        EXPECT_EQ(json["passed"], true);
        EXPECT_LE(json["worst"]["error"].get<double>(), json["worst"]["bound"].get<double>());
        EXPECT_EQ(json["worst"]["role"], "out");
        EXPECT_EQ(json["worst"]["index"].size(), 4u);
        EXPECT_TRUE(json["worst"]["got"].is_number() && json["worst"]["expected"].is_number());
        EXPECT_LT(json["maxError"].get<double>(), 1e-5);
        return json;
    }
};

TEST_F(VerifyTest, everyRowOfASmallProblem) {
    for (const std::string option : {"--verify", "--verify=all", "--verify=64", "--verify=1000000"}) {
        const Json json = verified(option);
        EXPECT_EQ(json["rows"], "all");
        EXPECT_EQ(json["rowsChecked"], 64);
        EXPECT_EQ(json["rowsTotal"], 64);
        EXPECT_TRUE(json["seed"].is_null());
    }
}

TEST_F(VerifyTest, aNumberOfRowsAndTheEdges) {
    const Json json = verified("--verify=9");
    EXPECT_EQ(json["rows"], "sample");
    EXPECT_GE(json["rowsChecked"].get<int>(), 9);
    EXPECT_LT(json["rowsChecked"].get<int>(), 64);
    EXPECT_EQ(json["rowsTotal"], 64);
    EXPECT_TRUE(json["seed"].is_number());
    const Outcome text = tool(onCpu({"--verify=9"}));
    EXPECT_NE(text.out.find(" of 64 rows (drawn with seed "), std::string::npos) << text.out;
}

TEST_F(VerifyTest, aSampleOfALargeProblem) {
    writeSmallProblem(2048, 2048, 128); // 2.1 GFLOP
    const Outcome outcome = tool(onCpu({"--verify", "--json"}));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json json = Json::parse(outcome.out)["verify"];
    EXPECT_EQ(json["rows"], "sample");
    EXPECT_GE(json["rowsChecked"].get<int>(), 256);
    EXPECT_LT(json["rowsChecked"].get<int>(), 300);
    EXPECT_EQ(json["rowsTotal"], 2048);
}

TEST_F(VerifyTest, theSeparateWordIsTakenToo) {
    EXPECT_EQ(tool(onCpu({"--verify", "all"})).status, 0);
}

TEST_F(VerifyTest, otherValuesAreRefused) {
    for (const std::string value : {"some", "0", "-1", "1.5", "12x", "99999999999999999999"})
        expectRefused(tool(onCpu({"--verify=" + value})), {"--verify takes", "'" + value + "'"});
}

} // namespace
