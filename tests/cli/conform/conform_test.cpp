// `vkattn conform` on drivers that do what they should: its arguments, its outputs and its exit
// status.
#include "conform_fixture.hpp"

namespace {

using Json = nlohmann::json;

const std::vector<std::string> noVulkan = {"VK_DRIVER_FILES=/nonexistent", "VK_ICD_FILENAMES=/nonexistent"};

// Without a device: nothing is to be asked of one.
class ConformUsageTest : public CliTest {
  protected:
    void refused(Arguments arguments, const std::vector<std::string> &words) const {
        arguments.insert(arguments.begin(), "conform");
        expectRefused(tool(arguments, noVulkan), words);
    }
    // A report of no device.
    void writeReport(const std::string &name) const {
        ASSERT_EQ(tool({"conform", "--json", name}, noVulkan).status, 3);
        ASSERT_TRUE(exists(name));
    }
};

TEST_F(ConformUsageTest, badValues) {
    refused({"--kernel", "fast"}, {"--kernel takes auto, staged, flash, decode, flash_coopmat or flash_coopmat2, not 'fast'"});
    refused({"--kernel", "staged,"}, {"--kernel takes", "not ''"});
    refused({"--device", "cpu"}, {"--device cpu is no Vulkan device", "leave --device out"});
    refused({"--device", "--quick"}, {"--device needs a value"});
    refused({"--device", "0", "--skip-cpu"}, {"--device names the devices that are tested", "leave --skip-cpu out"});
    refused({"--seed", "-1"}, {"--seed takes a whole number from 0", "not '-1'"});
    refused({"--seed", "1x"}, {"--seed takes", "'1x'"});
    for (const std::string minutes : {"0", "-1", "nan", "1e9", "ten", "1m"}) {
        refused({"--soak", minutes}, {"--soak takes a number of minutes above 0", "'" + minutes + "'"});
        refused({"--time-limit", minutes}, {"--time-limit takes a number of minutes above 0"});
        refused({"--case-timeout", minutes}, {"--case-timeout takes a number of seconds above 0"});
    }
    refused({"--bogus"}, {"see vkattn conform --help"});
    refused({"--compare", "a.json"}, {"--compare", "see vkattn conform --help"});
}

TEST_F(ConformUsageTest, badReplays) {
    refused({"--replay", "a.json"}, {"--replay a.json: expected SEED:CASE", "there is no such file"});
    for (const std::string text : {":", "1:", "x:matrix", "1:matrix,kernel=fast", "1:matrix,heads=999999999999", "1:nothing", "1:matrix,,",
                                   "-1:matrix", "1:matrix,bogus=1", "99999999999999999999999:matrix"})
        refused({"--replay", text}, {"--replay " + text + ": "});
    writeBytes(file("r.json"), "{}");
    refused({"--replay", "r.json"}, {"r.json"});
}

TEST_F(ConformUsageTest, optionsThatExcludeEachOther) {
    refused({"--soak", "1", "--quick"}, {"--soak runs random checks for the time that it names: leave --quick out"});
    refused({"--soak", "1", "--time-limit", "1"}, {"leave --time-limit out"});
    for (const auto &[other, value] : {std::pair<std::string, std::string>{"--kernel", "staged"}, {"--seed", "1"}})
        refused({"--replay", "1:matrix", other, value}, {"--replay runs the checks that it names and no others: leave " + other + " out"});
    for (const std::string other : {"--json", "--junit", "--html", "--replay"})
        refused({"--list", other, "x"}, {"--list prints the checks and runs none: leave " + other + " out"});
    for (const std::string other : {"--device", "--json", "--table"})
        refused({"--compare", "a", "b", other, "x"}, {"--compare compares two reports and runs nothing: leave " + other + " out"});
    refused({"--table", "a", "--fail-fast"}, {"--table prints a table of reports and runs nothing: leave --fail-fast out"});
}

TEST_F(ConformUsageTest, outputsAreRefusedBeforeTheRun) {
    refused({"--json", "no/such/r.json"}, {"cannot write --json no/such/r.json: No such file or directory"});
    refused({"--html", "."}, {"cannot write --html .: it is a directory"});
    refused({"--json", "r", "--junit", "r"}, {"cannot write --junit r: it is the same file as --json r"});
    EXPECT_FALSE(exists("r"));
}

TEST_F(ConformUsageTest, reportWithoutFailuresIsNothingToTest) {
    writeReport("old.json");
    const Outcome outcome = tool({"conform", "--replay", "old.json"}, noVulkan);
    EXPECT_EQ(outcome.status, 3);
    EXPECT_NE(outcome.err.find("--replay old.json: the report has no failed check"), std::string::npos) << outcome.err;
}

TEST_F(ConformUsageTest, nothingToTestIsExitThree) {
    for (const Arguments &arguments : {Arguments{"conform"}, Arguments{"conform", "--list"}, Arguments{"conform", "--soak", "1"}}) {
        const Outcome outcome = tool(arguments, noVulkan);
        EXPECT_EQ(outcome.status, 3) << outcome.err;
        EXPECT_NE(outcome.err.find("nothing was tested"), std::string::npos) << outcome.err;
    }
    writeReport("r.json");
    const Json report = Json::parse(readBytes(file("r.json")));
    EXPECT_TRUE(report["devices"].empty());
    EXPECT_NE(report["problem"].get<std::string>(), "");
}

TEST_F(ConformUsageTest, readsReports) {
    writeReport("a.json");
    const Outcome same = tool({"conform", "--compare", "a.json", "a.json"}, noVulkan);
    EXPECT_EQ(same.status, 0) << same.err;
    EXPECT_NE(same.out, "");
    const Outcome table = tool({"conform", "--table", "a.json", "a.json"}, noVulkan);
    EXPECT_EQ(table.status, 0) << table.err;
    EXPECT_NE(table.out.find('|'), std::string::npos) << table.out;
    refused({"--compare", "a.json", "b.json"}, {"cannot read --compare b.json: No such file"});
    refused({"--table", "."}, {"cannot read --table .: it is a directory"});
    writeBytes(file("b.json"), "");
    refused({"--table", "b.json"}, {"b.json"});
    writeBytes(file("b.json"), "[1, 2");
    refused({"--compare", "b.json", "a.json"}, {"b.json"});
}

TEST_F(ConformUsageTest, helpNamesEveryOption) {
    const Outcome outcome = tool({"conform", "--help"});
    EXPECT_EQ(outcome.status, 0);
    expectWords(outcome.out, {"--device", "--skip-cpu", "--kernel", "--quick", "--soak", "--seed", "--replay", "--json", "--junit",
                              "--html", "--compare", "--table", "--fail-fast", "--time-limit", "--case-timeout", "--list", "Exit status"});
    EXPECT_NE(tool({"--help"}).out.find("conform"), std::string::npos);
}

TEST_F(ConformTest, passesAndWritesEveryReport) {
    Arguments arguments = replays();
    arguments.insert(arguments.end(), {"--device", "0", "--junit", "r.xml", "--html", "r.html"});
    const Outcome outcome = conform(arguments);
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("PASS"), std::string::npos) << outcome.out;
    const Json json = report();
    ASSERT_EQ(json["devices"].size(), 1u);
    EXPECT_EQ(verdicts(json["devices"][0]), std::vector<std::string>(someChecks().size(), "pass"));
    for (size_t n = 0; n < someChecks().size(); n++) EXPECT_EQ(json["devices"][0]["checks"][n]["replay"], someChecks()[n]);
    EXPECT_EQ(json["extent"], "replay");
    EXPECT_GT(json["devices"][0]["pipelines"].get<int>(), 0);
    EXPECT_NE(readBytes(file("r.xml")).find("<testsuite"), std::string::npos);
    EXPECT_NE(readBytes(file("r.html")).find("<html"), std::string::npos);
}

TEST_F(ConformTest, listIsTheSameForTheSameSeed) {
    const auto list = [&](const std::string &seed) {
        return tool({"conform", "--list", "--quick", "--kernel", "staged", "--device", "0", "--seed", seed});
    };
    const Outcome first = list("7"), again = list("7"), other = list("8");
    EXPECT_EQ(first.status, 0) << first.err;
    EXPECT_EQ(first.out, again.out);
    EXPECT_NE(first.out, other.out);
    EXPECT_NE(first.err.find("seed 7"), std::string::npos) << first.err;
}

TEST_F(ConformTest, seedIsPrintedAndAnotherEachTime) {
    const auto seedOf = [&] {
        const Outcome outcome = tool({"conform", "--list", "--quick", "--kernel", "staged", "--device", "0"});
        const size_t at = outcome.err.find("seed ");
        return at == std::string::npos ? "" : outcome.err.substr(at);
    };
    const std::string first = seedOf();
    EXPECT_NE(first, "");
    EXPECT_TRUE(first != seedOf() || first != seedOf()); // one in 1e12 are equal
}

TEST_F(ConformTest, soakEndsInTime) {
    // A busy machine may take seconds before the first check: longer, until one ends.
    Outcome outcome;
    for (double minutes = 0.05; minutes < 4; minutes *= 3) {
        outcome = conform({"--soak", std::to_string(minutes), "--kernel", "staged", "--device", "0", "--seed", "3"});
        if (outcome.status != 3) break;
    }
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const Json json = report();
    EXPECT_FALSE(json["devices"][0]["checks"].empty());
    for (const std::string &verdict : verdicts(json["devices"][0])) EXPECT_NE(verdict, "not run");
    EXPECT_NE(json["extent"].get<std::string>().find("soak"), std::string::npos);
}

TEST_F(ConformTest, timeLimitLeavesTheRestNotRun) {
    const Outcome outcome = conform({"--quick", "--kernel", "staged", "--device", "0", "--time-limit", "0.02"});
    const Json checks = report()["devices"][0]["checks"];
    // The number of checks that a machine completes in 1.2 s is unknown.
    const bool ran = std::any_of(checks.begin(), checks.end(), [](const Json &check) { return check["verdict"] == "pass"; });
    EXPECT_EQ(outcome.status, ran ? 0 : 3) << outcome.out << outcome.err;
    const bool said = outcome.err.find("the time limit of 1.2 s came before the first check ended") != std::string::npos;
    EXPECT_EQ(said, !ran) << outcome.err;
    if (checks.empty()) return;
    EXPECT_EQ(checks.back()["verdict"], "not run");
    EXPECT_NE(checks.back()["reason"].get<std::string>().find("time limit of 1.2 s"), std::string::npos) << checks.back();
}

TEST_F(ConformTest, timeLimitBeforeTheFirstCheckIsNothingTested) {
    const Outcome outcome = conform({"--quick", "--kernel", "staged", "--device", "0", "--time-limit", "0.000001"});
    EXPECT_EQ(outcome.status, 3) << outcome.out << outcome.err;
    EXPECT_NE(outcome.err.find("came before the first check ended: give it more"), std::string::npos) << outcome.err;
}

TEST_F(ConformTest, kernelThatNoDeviceHasIsNothingToTest) {
    const Json info = Json::parse(tool({"info", "--json"}).out);
    for (const Json &kernel : info["devices"][0]["kernels"])
        if (kernel["name"] == "flash_coopmat2" && kernel["available"] == true) GTEST_SKIP() << "this device has every kernel";
    const Outcome outcome = conform({"--quick", "--kernel", "flash_coopmat2", "--device", "0"});
    EXPECT_EQ(outcome.status, 3) << outcome.out << outcome.err;
    EXPECT_NE(outcome.err.find("nothing was tested"), std::string::npos) << outcome.err;
    EXPECT_EQ(report()["devices"][0]["checks"][0]["verdict"], "unsupported");
}

TEST_F(ConformTest, skipCpuLeavesOutSoftwareDrivers) {
    const Json info = Json::parse(tool({"info", "--json"}).out);
    for (const Json &device : info["devices"])
        if (device["type"] != "CPU") GTEST_SKIP() << "this machine has a GPU, which would be tested for minutes";
    const Outcome outcome = conform({"--quick", "--skip-cpu"});
    EXPECT_EQ(outcome.status, 3) << outcome.out << outcome.err;
    EXPECT_NE(outcome.err.find("no Vulkan device was found but those of type CPU"), std::string::npos) << outcome.err;
}

TEST_F(ConformTest, unknownDevice) {
    const Outcome outcome = tool({"conform", "--quick", "--device", "no such device"});
    EXPECT_EQ(outcome.status, 2);
    expectWords(outcome.err, {"there is no device 'no such device'; the devices are:", "  0  "});
    EXPECT_NE(tool({"conform", "--device", "99"}).err.find("there is no device 99"), std::string::npos);
}

} // namespace
