// The verdicts of self-tests: the place where the tool keeps them, how it shows them, and that it
// obeys them.
#include "harness.hpp"

#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::json;

class VerdictsTest : public CliTest {
  protected:
    [[nodiscard]] std::vector<std::string> cache() const { return {"XDG_CACHE_HOME=" + file("cache").string()}; }
    [[nodiscard]] Json devices(const Arguments &more = {}) const {
        Arguments arguments = {"info", "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome outcome = tool(arguments, cache());
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return Json::parse(outcome.out)["devices"];
    }
};

TEST_F(VerdictsTest, nothingIsKeptWhereNothingIsTested) {
    writeSmallProblem();
    const Outcome outcome = tool(onCpu({"--verdicts", "v"}), cache());
    EXPECT_EQ(tool(onCpu(), cache()).status, 0);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_FALSE(exists("v"));
    EXPECT_FALSE(exists("cache"));
    for (const std::string none : {"none", ""}) EXPECT_EQ(tool(onCpu({"--verdicts", none})).status, 0) << none;
}

TEST_F(VerdictsTest, whatCannotBeAFileIsRefused) {
    std::filesystem::create_directories(file("folder"));
    expectRefused(tool({"info", "--verdicts", "folder"}), {"--verdicts folder", "not a regular file"});
    expectRefused(tool({"info", "--verdicts", "missing/v"}), {"--verdicts missing/v", "no folder missing"});
    expectRefused(tool({"info", "--verdicts", "--json"}), {"--verdicts needs a value"});
    writeSmallProblem();
    expectRefused(tool(onCpu({"--verdicts", "folder"})), {"--verdicts folder", "not a regular file"});
}

TEST_F(VerdictsTest, infoShowsWhatIsRemembered) {
    const Json all = devices();
    for (const Json &device : all) EXPECT_TRUE(device["selfTests"].empty()) << device.dump();
    writeBytes(file("v"), "nonsense\n0000:0000:00 00000000 00400000-0000000000000000 - flash_coopmat wrong\n");
    for (const Json &device : devices({"--verdicts", "v"})) EXPECT_TRUE(device["selfTests"].empty()) << "of another device";
    EXPECT_EQ(tool({"info", "--verdicts", "none"}).status, 0);
    EXPECT_EQ(tool({"info", "--verdicts", ""}).status, 0);
}

// On devices with matrix units the first run writes the file in the default place, info shows the
// file, and the next run obeys it.
TEST_F(VerdictsTest, matrixKernelsAreTestedOnceAndRemembered) {
    writeSmallProblem(40, 50, 64);
    bool any = false;
    for (const Json &device : devices())
        for (const Json &kernel : device["kernels"]) {
            const std::string name = kernel["name"];
            if (name.rfind("flash_coopmat", 0) != 0 || !kernel["available"].get<bool>()) continue;
            any = true;
            const std::string index = device["index"].dump();
            const Arguments run = {"run",   "--q",      "q.npy", "--k",      "k.npy", "--v",        "v.npy", "--out",
                                   "o.npy", "--device", index,   "--kernel", name,    "--round-to", "f16",   "--json"};
            const Outcome first = tool(run, cache());
            EXPECT_EQ(first.status, 0) << first.err;
            const std::string text = readBytes(file("cache") / "vkattn" / "verdicts");
            ASSERT_NE(text.find(" " + name + " "), std::string::npos) << text;
            const Json shown = devices()[device["index"].get<size_t>()]["selfTests"];
            ASSERT_TRUE(shown.contains(name)) << shown.dump();
            EXPECT_EQ(Json::parse(first.out)["kernel"] == name, shown[name] != "wrong");
            // The verdict is that of a kernel that failed.
            const size_t at = text.find(" " + name + " ") + name.size() + 2;
            writeBytes(file("v"), text.substr(0, at) + "wrong" + text.substr(text.find('\n', at)));
            Arguments again = run;
            again.insert(again.end(), {"--verdicts", "v", "--no-fallback"});
            const Outcome refused = tool(again);
            EXPECT_EQ(refused.status, 3);
            EXPECT_NE(refused.err.find("self-test of the " + name + " kernel failed"), std::string::npos) << refused.err;
            EXPECT_NE(tool({"info", "--verdicts", "v"}).out.find("computes wrongly on this device and driver"), std::string::npos);
            again[0] = "explain";
            EXPECT_EQ(tool(again).status, 3);
        }
    if (!any) GTEST_SKIP() << "no device here has a kernel on matrix units";
}

} // namespace
