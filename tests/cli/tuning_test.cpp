// Tuning files as the tool finds and reports them, and `vkattn tune`, which makes them.
#include "harness.hpp"

#include <nlohmann/json.hpp>

#include <chrono>

namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

const std::vector<std::string> noVulkan = {"VK_DRIVER_FILES=/nonexistent", "VK_ICD_FILENAMES=/nonexistent"};

class TuningTest : public CliTest {
  protected:
    // The default device; null where none runs the flash kernel.
    [[nodiscard]] Json defaultDevice() const {
        const Json devices = Json::parse(tool({"info", "--json"}).out)["devices"];
        if (devices.empty()) return nullptr;
        for (const Json &kernel : devices[0]["kernels"])
            if (kernel["name"] == "flash" && kernel["available"] == true) return devices[0];
        return nullptr;
    }
    void write(const fs::path &path, const std::string &text) const {
        fs::create_directories(path.parent_path());
        writeBytes(path, text);
    }
    [[nodiscard]] static Arguments explain(const Arguments &more = {}) {
        Arguments arguments = {"explain", "--shape-q", "1,1,100,8", "--shape-k", "1,1,100,8", "--kernel", "flash", "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return arguments;
    }
    // Returns the place where `tune` would write. The tool says so, and the folder is ours.
    [[nodiscard]] fs::path defaultFile(const std::string &device) const {
        std::string slug;
        for (const char c : device) {
            if (std::isalnum(static_cast<unsigned char>(c)))
                slug += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
            else if (!slug.empty() && slug.back() != '-')
                slug += '-';
        }
        while (!slug.empty() && slug.back() == '-') slug.pop_back();
        return config() / "vkattn" / ("tuning-" + slug + ".txt");
    }
};

const std::string oneRow = "vkattn-tuning 1\n# a comment\n\nflash minDim=5 maxDim=8 rowLanes=4 rowsPerLane=3 keysPerLane=5\n";

TEST_F(TuningTest, aFileByNameChangesItsDimsOnly) {
    if (defaultDevice().is_null()) GTEST_SKIP() << "no Vulkan device runs the flash kernel here";
    write(file("t.txt"), oneRow);
    Outcome outcome = tool(explain({"--tuning", "t.txt"}));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["tuning"], "t.txt");
    EXPECT_EQ(json["plan"]["rowsPerWorkgroup"], 12);
    EXPECT_EQ(json["plan"]["keysPerStep"], 5);
    for (const std::string dim : {"4", "9", "64"}) {
        Arguments other = explain(), tuned = explain({"--tuning", "t.txt"});
        for (Arguments *arguments : {&other, &tuned}) (*arguments)[2] = (*arguments)[4] = "1,1,100," + dim;
        EXPECT_EQ(Json::parse(tool(other).out)["plan"], Json::parse(tool(tuned).out)["plan"]) << dim;
    }
    outcome = tool({"explain", "--shape-q", "100,8", "--shape-k", "100,8", "--tuning", "t.txt"});
    EXPECT_NE(outcome.out.find("\ntuning    t.txt\n"), std::string::npos) << outcome.out;
    outcome = tool({"explain", "--shape-q", "100,8", "--shape-k", "100,8"});
    EXPECT_NE(outcome.out.find("\ntuning    built-in\n"), std::string::npos) << outcome.out;

    writeSmallProblem(9, 20, 8);
    outcome = tool({"run", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "o.npy", "--tuning", "t.txt", "--kernel", "flash",
                    "--no-fallback", "--verify", "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(Json::parse(outcome.out)["tuning"], "t.txt");
}

TEST_F(TuningTest, theDefaultFileIsFoundAndMayBeLeftOut) {
    const Json device = defaultDevice();
    if (device.is_null()) GTEST_SKIP() << "no Vulkan device runs the flash kernel here";
    const fs::path path = defaultFile(device["name"]);
    EXPECT_EQ(Json::parse(tool(explain()).out)["tuning"], "built-in");
    write(path, oneRow);
    Outcome outcome = tool(explain());
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(Json::parse(outcome.out)["tuning"], path.string());
    EXPECT_EQ(Json::parse(outcome.out)["plan"]["keysPerStep"], 5);
    EXPECT_EQ(Json::parse(tool(explain({"--no-tuning"})).out)["tuning"], "built-in");
    write(file("other.txt"), "vkattn-tuning 1\n");
    EXPECT_EQ(Json::parse(tool(explain({"--tuning", "other.txt"})).out)["tuning"], "other.txt");

    writeSmallProblem();
    const Arguments run = {"run", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "o.npy", "--no-fallback"};
    outcome = tool(run);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("\ntuning    " + path.string() + "\n"), std::string::npos) << outcome.out;

    // A bad one is no reason not to compute.
    write(path, "vkattn-tuning 1\nflash maxDim=64 rowsPerLane=99\n");
    outcome = tool(run);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("\ntuning    built-in\n"), std::string::npos) << outcome.out;
    for (const std::string &word : {std::string("vkattn: warning: "), path.string(),
                                    std::string("line 2: rowsPerLane is '99', expected 1 to 16"), std::string("--no-tuning")})
        EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
    EXPECT_EQ(tool(explain({"--no-tuning"})).err, "");
}

TEST_F(TuningTest, aFileOfAnotherDeviceOrDriverIsWarnedOf) {
    const Json device = defaultDevice();
    if (device.is_null()) GTEST_SKIP() << "no Vulkan device runs the flash kernel here";
    write(file("t.txt"), "vkattn-tuning 1\n# device: Some GPU\n# driver: 1.0\n");
    Outcome outcome = tool(explain({"--tuning", "t.txt"}));
    EXPECT_EQ(outcome.status, 0);
    EXPECT_NE(outcome.err.find("t.txt was measured with the device Some GPU, and this is " + device["name"].get<std::string>()),
              std::string::npos)
        << outcome.err;
    write(file("t.txt"), "vkattn-tuning 1\n# device: " + device["name"].get<std::string>() + "\n# driver: 1.0\n");
    outcome = tool(explain({"--tuning", "t.txt"}));
    EXPECT_NE(outcome.err.find("was measured with the driver 1.0, and this is"), std::string::npos) << outcome.err;
}

TEST_F(TuningTest, badFilesAreRefusedByLine) {
    write(file("line.txt"), "vkattn-tuning 1\n\nflash maxDim=64 rowsPerLane=99\n");
    write(file("word.txt"), "vkattn-tuning 1\nflash maxDim=64 warps=4\n");
    write(file("other.txt"), "{}\n");
    write(file("empty.txt"), "");
    write(file("range.txt"), "vkattn-tuning 1\nflash minDim=65 maxDim=64\n");
    write(file("large.txt"), "vkattn-tuning 1\n" + std::string(2u << 20, '#'));
    fs::create_directory(file("folder"));
    const std::vector<std::pair<std::string, std::string>> expected = {
        {"line.txt", "line 3: rowsPerLane is '99', expected 1 to 16"},
        {"word.txt", "line 2: 'warps=4', expected name=number"},
        {"other.txt", "begins with the line 'vkattn-tuning 1'"},
        {"empty.txt", "it is empty, expected the line 'vkattn-tuning 1'"},
        {"range.txt", "line 2: minDim is 65, expected at most maxDim 64"},
        {"large.txt", "over 1 MiB"},
        {"folder", "it is a directory"},
        {"missing.txt", "No such file"},
    };
    for (const auto &[name, word] : expected) expectRefused(tool(explain({"--tuning", name})), {"cannot use --tuning " + name, word});
    expectRefused(tool(explain({"--tuning", "line.txt", "--no-tuning"})), {"--tuning names a file and --no-tuning"});
    expectRefused(tool(explain({"--tuning", "--json"})), {"--tuning needs a value"});
    // The rule holds where the CPU computes too.
    writeSmallProblem();
    expectRefused(tool(onCpu({"--tuning", "word.txt"})), {"cannot use --tuning word.txt"});
}

TEST_F(TuningTest, theCpuHasNone) {
    writeSmallProblem();
    write(file("t.txt"), oneRow);
    const Outcome outcome = tool(onCpu({"--tuning", "t.txt", "--json"}));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(Json::parse(outcome.out)["tuning"].is_null());
    EXPECT_TRUE(Json::parse(tool(explain({"--device", "cpu"})).out)["tuning"].is_null());
}

TEST_F(TuningTest, tuneMeasuresAndWritesAFileThatIsUsed) {
    const Json device = defaultDevice();
    if (device.is_null()) GTEST_SKIP() << "no Vulkan device runs the flash kernel here";
    const auto start = std::chrono::steady_clock::now();
    Outcome outcome = tool({"tune", "--seconds", "4", "--dims", "8", "--json"});
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_LT(seconds, 90); // one tile's compilation cannot be interrupted
    EXPECT_EQ(outcome.err, "");
    const Json json = Json::parse(outcome.out);
    const fs::path path = defaultFile(device["name"]);
    EXPECT_EQ(json["out"], path.string());
    EXPECT_EQ(json["device"], device["name"]);
    ASSERT_EQ(json["cases"].size(), 2u);
    for (const Json &one : json["cases"]) {
        SCOPED_TRACE(one.dump());
        EXPECT_EQ(one["minDim"], 5);
        EXPECT_EQ(one["maxDim"], 8);
        ASSERT_FALSE(one["candidates"].empty());
        EXPECT_TRUE(one["candidates"][0]["row"].is_null());
        size_t chosen = 0;
        for (const Json &candidate : one["candidates"]) {
            if (candidate["chosen"] == true) chosen++;
            if (!candidate["discarded"].is_null()) continue;
            EXPECT_GT(candidate["medianMs"].get<double>(), 0);
            EXPECT_GT(candidate["gflops"].get<double>(), 0);
            if (candidate["chosen"] == true && !candidate["row"].is_null()) {
                EXPECT_GE(candidate["speed"].get<double>(), 1.03);
            }
        }
        EXPECT_EQ(chosen, 1u);
    }
    const std::string text = readBytes(path);
    EXPECT_EQ(text.find("vkattn-tuning 1\n# device: " + device["name"].get<std::string>() + "\n# driver: "), 0u) << text;
    for (const std::string word : {"# date: 20", "# flash, dims 5 to 8: ", "# decode, dims 5 to 8: ", "GFLOP/s"})
        EXPECT_NE(text.find(word), std::string::npos) << text;
    outcome = tool(explain());
    EXPECT_EQ(outcome.status, 0) << text;
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(Json::parse(outcome.out)["tuning"], path.string());
}

TEST_F(TuningTest, tuneRefusesBadUsage) {
    const auto refused = [&](const Arguments &more, const std::string &word, int status = 2, const std::vector<std::string> &where = {}) {
        Arguments arguments = {"tune"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome outcome = tool(arguments, where);
        EXPECT_EQ(outcome.status, status) << outcome.err;
        EXPECT_EQ(outcome.out, "");
        EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
    };
    for (const std::string value : {"0", "-1", "x", "1.5", "86401"})
        refused({"--seconds", value}, "--seconds takes a whole number from 1 to 86400");
    for (const std::string value : {"0", "2049", "64,", "a", "1,2,3,4,5,6,7,8,9,10,11,12,13"})
        refused({"--dims", value}, "--dims takes 1 to 12");
    refused({"--device", "cpu"}, "--device cpu has no tiles to tune");
    refused({"--out", "--json"}, "--out needs a value");
    refused({"--nothing"}, "vkattn tune --help");
    refused({}, "`vkattn info` lists the devices", 3, noVulkan);
    if (defaultDevice().is_null()) return;
    refused({"--out", "missing/t.txt"}, "the directory must exist");
    refused({"--out", "."}, "it is a directory");
    refused({"--device", "99"}, "there is no device 99");
    refused({"--seconds", "1"}, "neither XDG_CONFIG_HOME nor HOME", 2, {"XDG_CONFIG_HOME=", "HOME="});
}

} // namespace
