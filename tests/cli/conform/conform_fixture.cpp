#include "conform_fixture.hpp"

#include <sstream>

namespace {

constexpr size_t checksTaken = 6;

// The words of `conform --list` that are replay texts.
std::vector<std::string> replayTexts(const std::string &list) {
    std::vector<std::string> found;
    std::istringstream lines(list);
    for (std::string line; std::getline(lines, line) && found.size() < checksTaken;) {
        std::istringstream words(line);
        std::string id, replay;
        if (words >> id >> replay && id.rfind("matrix/staged/", 0) == 0) found.push_back(replay);
    }
    return found;
}

} // namespace

void ConformTest::SetUp() {
    static const Outcome list = tool({"conform", "--list", "--quick", "--kernel", "staged", "--device", "0", "--seed", "1"});
    checks_ = replayTexts(list.out);
    if (checks_.empty()) GTEST_SKIP() << "no Vulkan device can run the staged kernel here: " << list.out << list.err;
    ASSERT_EQ(checks_.size(), checksTaken) << list.out;
}

Arguments ConformTest::replays() const {
    Arguments arguments;
    for (const std::string &check : checks_) arguments.insert(arguments.end(), {"--replay", check});
    return arguments;
}

std::vector<std::string> ConformTest::withFault(const std::string &fault) {
    if (fault.empty()) return {};
    return {"VK_LAYER_PATH=" VKATTN_LAYER_FOLDER, "VK_INSTANCE_LAYERS=VK_LAYER_VKATTN_faulty", "VKATTN_TEST_LAYER=" + fault};
}

Outcome ConformTest::conform(const Arguments &arguments, const std::string &fault, const std::vector<std::string> &more) const {
    Arguments command = {"conform", "--json", "r.json"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    std::vector<std::string> environment = withFault(fault);
    environment.insert(environment.end(), more.begin(), more.end());
    return tool(command, environment);
}

ConformTest::Json ConformTest::report() const {
    return Json::parse(readBytes(file("r.json")));
}

std::vector<std::string> ConformTest::verdicts(const Json &device) {
    std::vector<std::string> list;
    for (const Json &check : device["checks"]) list.push_back(check["verdict"]);
    return list;
}

void expectWords(const std::string &text, const std::vector<std::string> &words) {
    for (const std::string &word : words) EXPECT_NE(text.find(word), std::string::npos) << "no '" << word << "' in: " << text;
}
