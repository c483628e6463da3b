// The answers of `vkattn conform` to drivers that crash, hang, print garbage, lose the device or
// compute wrongly.
#include "conform_fixture.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

// Seconds until a hang is one: in them a software driver compiles a case of the staged kernel several
// times over. conform counts the child's own time, so a busy machine needs no more.
constexpr const char *patience = "10";

class ConformFaultTest : public ConformTest {
  protected:
    // The checks again, on the first device.
    [[nodiscard]] Outcome again(const std::string &fault, const Arguments &more = {}) const {
        Arguments arguments = replays();
        arguments.insert(arguments.end(), {"--device", "0"});
        arguments.insert(arguments.end(), more.begin(), more.end());
        return conform(arguments, fault);
    }
    [[nodiscard]] std::string once() const { return " once=" + file("happened").string(); }

    // Expects that one check has this verdict and these words in its reason, and that the checks
    // after it have passed.
    void expectOne(const std::string &verdict, const std::vector<std::string> &words) const {
        const Json device = report()["devices"][0];
        size_t found = 0;
        for (const Json &check : device["checks"]) {
            if (check["verdict"] == "pass") continue;
            found++;
            EXPECT_EQ(check["verdict"], verdict) << check;
            expectWords(check["reason"], words);
            EXPECT_NE(std::find(someChecks().begin(), someChecks().end(), check["replay"]), someChecks().end()) << check;
        }
        EXPECT_EQ(found, 1u) << device["checks"];
        EXPECT_EQ(device["checks"].size(), someChecks().size());
        EXPECT_EQ(device["checks"].back()["verdict"], "pass");
        EXPECT_EQ(device["restarts"], 1);
    }
};

TEST_F(ConformFaultTest, layerWithoutAFaultChangesNothing) {
    const Outcome outcome = again("at=QueueSubmit do=crash nth=1000000");
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
}

TEST_F(ConformFaultTest, crashIsAResultAndTheRunGoesOn) {
    const Outcome outcome = again("at=QueueSubmit do=crash nth=3" + once());
    EXPECT_EQ(outcome.status, 1) << outcome.out;
    expectWords(outcome.err,
                {"CRASH matrix/staged/", "(SIGSEGV)", "faulty layer: crash at QueueSubmit", "vkattn conform --device 0 --replay "});
    expectOne("crash", {"(SIGSEGV)", "faulty layer: crash at QueueSubmit", "did not fail again alone"});
}

TEST_F(ConformFaultTest, crashOfACaseIsShrunk) {
    ASSERT_EQ(again("at=QueueSubmit do=crash groups=100", {"--fail-fast"}).status, 1);
    const Json checks = report()["devices"][0]["checks"];
    size_t shrunk = 0;
    for (const Json &check : checks) {
        if (check["verdict"] != "crash") continue;
        ASSERT_TRUE(check.contains("smallest")) << check;
        const std::string smallest = check["smallest"]["replay"];
        EXPECT_LT(smallest.size(), check["replay"].get<std::string>().size());
        EXPECT_GT(check["smallest"]["attempts"].get<int>(), 0);
        shrunk++;
        EXPECT_EQ(conform({"--replay", smallest, "--device", "0"}).status, 0);
        EXPECT_EQ(conform({"--replay", smallest, "--device", "0"}, "at=QueueSubmit do=crash groups=100").status, 1);
    }
    EXPECT_EQ(shrunk, 1u) << "no dispatch of these checks has 100 workgroups: take another number";
}

TEST_F(ConformFaultTest, crashAfterCrashEndsTheDevice) {
    const Outcome outcome = conform({"--quick", "--kernel", "staged", "--device", "0"}, "at=QueueSubmit do=exit nth=2");
    EXPECT_EQ(outcome.status, 1);
    const Json device = report()["devices"][0];
    EXPECT_EQ(device["restarts"], 8);
    expectWords(device["problem"], {"9 times"});
    EXPECT_EQ(device["checks"].back()["verdict"], "not run");
    expectWords(device["checks"].back()["reason"], {"9 times"});
}

TEST_F(ConformFaultTest, endOfTheProcessIsACrash) {
    EXPECT_EQ(again("at=QueueSubmit do=exit nth=2" + once()).status, 1);
    expectOne("crash", {"exit status 3"});
}

TEST_F(ConformFaultTest, hangIsEnded) {
    const Outcome outcome = again("at=QueueSubmit do=hang nth=3" + once(), {"--case-timeout", patience});
    EXPECT_EQ(outcome.status, 1) << outcome.out;
    EXPECT_NE(outcome.err.find("HANG matrix/staged/"), std::string::npos) << outcome.err;
    expectOne("hang", {"did not come back within 10 s", "faulty layer: hang"});
}

TEST_F(ConformFaultTest, garbageIsNoMessage) {
    EXPECT_EQ(again("at=QueueSubmit do=garbage nth=3" + once()).status, 1);
    expectOne("crash", {"no message"});
}

TEST_F(ConformFaultTest, lostDeviceIsOpenedAnew) {
    EXPECT_EQ(again("at=QueueSubmit do=lost nth=3" + once()).status, 1);
    expectOne("fail", {"the device was lost", "VK_ERROR_DEVICE_LOST"});
}

TEST_F(ConformFaultTest, wrongResultsAreShrunkAndReplayed) {
    const std::string fault = "at=QueueSubmit do=drop";
    EXPECT_EQ(again(fault, {"--fail-fast"}).status, 1);
    const Json checks = report()["devices"][0]["checks"];
    EXPECT_EQ(checks[0]["verdict"], "fail");
    ASSERT_TRUE(checks[0].contains("smallest")) << checks[0];
    EXPECT_EQ(checks[1]["verdict"], "not run");
    expectWords(checks[1]["reason"], {"--fail-fast"});
    // Every failure of a report, under its name, and never over that report.
    std::filesystem::rename(file("r.json"), file("old.json"));
    EXPECT_NE(conform({"--replay", "old.json", "--html", "old.json"}).err.find("it is the input old.json"), std::string::npos);
    EXPECT_EQ(conform({"--replay", "old.json", "--device", "0"}, fault).status, 1);
    ASSERT_EQ(report()["devices"][0]["checks"].size(), 1u);
    EXPECT_EQ(report()["devices"][0]["checks"][0]["id"], checks[0]["id"]);
    EXPECT_EQ(conform({"--replay", "old.json", "--device", "0"}).status, 0);
    // The second is worse, and the first is not.
    EXPECT_EQ(tool({"conform", "--compare", "r.json", "old.json"}).status, 1);
    EXPECT_EQ(tool({"conform", "--compare", "old.json", "r.json"}).status, 0);
}

TEST_F(ConformFaultTest, deviceThatCannotBeOpenedIsAFailure) {
    for (const auto &[fault, word] : {std::pair{"fail", "VK_ERROR_INITIALIZATION_FAILED"}, std::pair{"crash", "(SIGSEGV)"},
                                      std::pair{"hang", "did not come back within 10 s"}}) {
        const Outcome outcome = again(std::string("at=CreateDevice do=") + fault, {"--case-timeout", patience});
        EXPECT_EQ(outcome.status, 1) << outcome.out;
        expectWords(report()["devices"][0]["problem"], {"opened", word});
        EXPECT_EQ(verdicts(report()["devices"][0]), std::vector<std::string>(someChecks().size(), "not run"));
    }
}

// Two devices: the same driver under two names.
class ConformTwoDriversTest : public ConformFaultTest {
  protected:
    std::string drivers;

    void SetUp() override {
        ConformFaultTest::SetUp();
        if (IsSkipped()) return;
        namespace fs = std::filesystem;
        fs::path manifest;
        if (const char *named = std::getenv("VK_DRIVER_FILES"))
            manifest = named;
        else
            for (const auto &entry : fs::directory_iterator("/usr/share/vulkan/icd.d"))
                if (entry.path().filename().string().rfind("lvp_icd.", 0) == 0) manifest = entry.path();
        std::ifstream input(manifest);
        const Json json = Json::parse(input, nullptr, false);
        if (!json.is_object()) GTEST_SKIP() << "there is no manifest of one driver to copy: " << manifest;
        for (const char *name : {"one.json", "two.json"}) fs::copy_file(manifest, file(name));
        drivers = file("one.json").string() + ":" + file("two.json").string();
    }
    [[nodiscard]] Outcome onBoth(const std::string &fault) const {
        Arguments arguments = replays();
        arguments.insert(arguments.end(), {"--case-timeout", patience, "--fail-fast"});
        return conform(arguments, fault, {"VK_DRIVER_FILES=" + drivers, "VK_ICD_FILENAMES=" + drivers});
    }
};

TEST_F(ConformTwoDriversTest, oneDeviceThatFailsDoesNotStopTheOther) {
    const Outcome healthy = onBoth("");
    ASSERT_EQ(healthy.status, 0) << healthy.out;
    if (report()["devices"].size() != 2) GTEST_SKIP() << "the Vulkan loader lists the same driver once";
    EXPECT_EQ(onBoth("at=QueueSubmit do=crash device=0").status, 1);
    EXPECT_EQ(verdicts(report()["devices"][0])[0], "crash");
    EXPECT_EQ(verdicts(report()["devices"][1]), std::vector<std::string>(someChecks().size(), "pass"));
    EXPECT_EQ(onBoth("at=CreateDevice do=crash device=0").status, 1);
    EXPECT_EQ(verdicts(report()["devices"][1]), std::vector<std::string>(someChecks().size(), "pass"));
}

TEST_F(ConformTwoDriversTest, driverThatBreaksTheListDoesNotStopTheOther) {
    for (const auto &[fault, word] : {std::pair{"crash", "(SIGSEGV)"}, std::pair{"hang", "did not come back within 10 s"}}) {
        const Outcome outcome = onBoth(std::string("at=CreateInstance drivers=one.json do=") + fault);
        EXPECT_EQ(outcome.status, 1) << outcome.out;
        const Json devices = report()["devices"];
        ASSERT_EQ(devices.size(), 2u);
        EXPECT_EQ(devices[0]["facts"]["name"], "one.json");
        expectWords(devices[0]["problem"], {"cannot be listed", word});
        EXPECT_EQ(verdicts(devices[1]), std::vector<std::string>(someChecks().size(), "pass"));
    }
}

// While a check hangs.
class ConformStoppedTest : public ConformFaultTest {
  protected:
    [[nodiscard]] int startHanging(const Arguments &more) const {
        Arguments command = {VKATTN_TOOL, "conform", "--device", "0"};
        const Arguments checks = replays();
        command.insert(command.end(), checks.begin(), checks.end());
        command.insert(command.end(), more.begin(), more.end());
        return launch(command, withFault("at=QueueSubmit do=hang nth=3" + once()));
    }
    template <class Condition> [[nodiscard]] static bool soon(const Condition &condition) {
        for (const auto until = Clock::now() + std::chrono::seconds(60); Clock::now() < until;) {
            if (condition()) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        return condition();
    }
};

TEST_F(ConformStoppedTest, interruptionWritesWhatRan) {
    for (const int number : {SIGINT, SIGTERM}) {
        std::filesystem::remove(file("happened"));
        std::filesystem::remove(file("r.json"));
        const int process = startHanging({"--json", "r.json", "--html", "r.html"});
        ASSERT_TRUE(soon([&] { return exists("happened"); }));
        EXPECT_EQ(kill(process, number), 0);
        const Outcome outcome = await(process);
        EXPECT_EQ(outcome.status, 130) << outcome.err;
        const std::vector<std::string> found = verdicts(report()["devices"][0]);
        EXPECT_EQ(found.front(), "pass");
        EXPECT_EQ(found.back(), "not run");
        EXPECT_EQ(report()["devices"][0]["checks"].back()["reason"], "interrupted");
        EXPECT_TRUE(exists("r.html"));
    }
}

TEST_F(ConformStoppedTest, childEndsWithItsParent) {
    const int process = startHanging({});
    ASSERT_TRUE(soon([&] { return exists("happened"); }));
    const std::string number = std::to_string(process);
    std::ifstream list("/proc/" + number + "/task/" + number + "/children");
    int child = 0;
    const bool told = static_cast<bool>(list >> child);
    EXPECT_EQ(kill(process, SIGKILL), 0);
    EXPECT_EQ(await(process).status, 128 + SIGKILL);
    if (!told) GTEST_SKIP() << "this system does not tell the children of a process in /proc";
    EXPECT_TRUE(soon([&] { return kill(child, 0) != 0; })) << "process " << child << " lives on";
}

} // namespace
