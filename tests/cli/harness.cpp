#include "harness.hpp"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ; // POSIX

namespace {

std::filesystem::path newFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "vkattn-cli-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "cannot make a folder " << name;
    return name;
}

std::vector<char *> pointers(std::vector<std::string> &strings) {
    std::vector<char *> list;
    for (std::string &text : strings) list.push_back(text.data());
    list.push_back(nullptr);
    return list;
}

} // namespace

// One for all tests of the process: self-tests take long on software drivers, and what they find is
// the same.
struct SharedCache {
    std::filesystem::path path = std::filesystem::path(testing::TempDir()) / ("vkattn-cache-" + std::to_string(getpid()));
    SharedCache() = default;
    SharedCache(const SharedCache &) = delete;
    SharedCache &operator=(const SharedCache &) = delete;
    ~SharedCache() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
};
static SharedCache &sharedCache() {
    static SharedCache cache;
    return cache;
}

CliTest::CliTest() : folder_(newFolder()) {}

CliTest::~CliTest() {
    EXPECT_TRUE(temporaries().empty()) << "left behind: " << temporaries().front();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}

std::vector<std::string> CliTest::temporaries() const {
    std::vector<std::string> found;
    for (const auto &entry : std::filesystem::recursive_directory_iterator(folder_))
        if (entry.path().filename().string().find(".vkattn-") == 0) found.push_back(entry.path().filename().string());
    return found;
}

int CliTest::launch(const Arguments &command, const std::vector<std::string> &environment) const {
    // Through env and sh for what posix_spawn cannot do everywhere: the folder and the variables.
    std::vector<std::string> words = {"/usr/bin/env"};
    // Under AddressSanitizer: Vulkan drivers leak, and are unloaded before the report could name
    // them.
    if (std::find(command.begin(), command.end(), "cpu") == command.end() && std::getenv("ASAN_OPTIONS") == nullptr)
        words.push_back("ASAN_OPTIONS=detect_leaks=0");
    words.push_back("XDG_CONFIG_HOME=" + config().string());
    words.push_back("XDG_CACHE_HOME=" + sharedCache().path.string());
    words.insert(words.end(), environment.begin(), environment.end());
    words.insert(words.end(), {"/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", folder_.string()});
    words.insert(words.end(), command.begin(), command.end());
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const std::string out = file(".stdout").string(), err = file(".stderr").string();
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t process = -1;
    const int error = posix_spawn(&process, words.front().c_str(), &actions, nullptr, pointers(words).data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    EXPECT_EQ(error, 0) << "cannot start " << command.front();
    return process;
}

Outcome CliTest::await(int process) const {
    int state = 0;
    EXPECT_EQ(waitpid(process, &state, 0), process);
    Outcome outcome;
    outcome.status = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    outcome.out = readBytes(file(".stdout"));
    outcome.err = readBytes(file(".stderr"));
    return outcome;
}

Outcome CliTest::start(const Arguments &command, const std::vector<std::string> &environment) const {
    return await(launch(command, environment));
}

Outcome CliTest::tool(Arguments arguments, const std::vector<std::string> &environment) const {
    arguments.insert(arguments.begin(), VKATTN_TOOL);
    // tests/device/on_driver.sh: what starts a program on a driver that needs other libraries.
    if (const char *runner = std::getenv("VKATTN_TEST_RUNNER")) arguments.insert(arguments.begin(), runner);
    return start(arguments, environment);
}

Outcome CliTest::faultyTool(const std::string &fault, Arguments arguments) const {
    arguments.insert(arguments.begin(), VKATTN_FAULTY_TOOL);
    return start(arguments, {"VKATTN_TEST_FAULT=" + fault});
}

std::optional<Outcome> CliTest::unprivilegedTool(const Arguments &arguments) const {
    if (geteuid() != 0) return tool(arguments);
    if (start({"setpriv", "--version"}).status != 0) {
        [] { GTEST_SKIP() << "running as root without setpriv, whom permissions do not bind"; }();
        return std::nullopt;
    }
    // A copy, since another user may not reach the build folder.
    namespace fs = std::filesystem;
    const fs::path copy = file("vkattn-copy");
    fs::copy_file(VKATTN_TOOL, copy, fs::copy_options::overwrite_existing);
    fs::permissions(copy, fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
    fs::permissions(folder_, fs::perms::all);
    Arguments command = {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", copy.string()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return start(command);
}

bool CliTest::hasTestedDevice() const {
    const std::string info = tool({"info", "--json"}).out;
    const size_t type = info.find("\"type\": "); // of the first device
    const char *why = nullptr;
    if (info.find("\"index\": 0") == std::string::npos)
        why = "no Vulkan device here";
    else if (std::getenv("VKATTN_TEST_SKIP_CPU_DEVICES") && info.compare(type, 13, "\"type\": \"CPU\"") == 0)
        why = "no Vulkan device but those of type CPU on this machine";
    if (why != nullptr) [why] { GTEST_SKIP() << why; }();
    return why == nullptr;
}

void CliTest::writeSmallProblem(size_t queries, size_t keys, size_t dim) const {
    std::mt19937_64 random(testSeed());
    writeNpy(file("q.npy"), randomArray(random, {queries, dim}));
    writeNpy(file("k.npy"), randomArray(random, {keys, dim}));
    writeNpy(file("v.npy"), randomArray(random, {keys, dim}));
}

Arguments CliTest::onCpu(const Arguments &more) {
    Arguments arguments = {"run", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "o.npy", "--device", "cpu"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

void CliTest::expectRefused(const Outcome &outcome, const std::vector<std::string> &words) const {
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_FALSE(exists("o.npy"));
    EXPECT_EQ(outcome.err.rfind("vkattn: ", 0), 0u) << outcome.err;
    for (const std::string &word : words) EXPECT_NE(outcome.err.find(word), std::string::npos) << "no '" << word << "' in: " << outcome.err;
}
