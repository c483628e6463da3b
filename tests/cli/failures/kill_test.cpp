// kill -9 at random moments: a file is the old one, whole, or the new one, whole, or not there;
// never a half. Files that a killed process leaves behind are named as temporaries, and the next
// run does not mind them.
#include "cli/run/run_fixture.hpp"
#include "support/extent.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <sstream>
#include <thread>

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::microseconds;

class KillTest : public RunTest {
  protected:
    // The place where the process was when it was killed.
    struct Moments {
        int before = 0, writing = 0, after = 0;
        [[nodiscard]] int all() const { return before + writing + after; }
    };

    // Runs the process, which has ended, by the kill or by itself, when the function returns. The
    // delay is drawn from `least` to `most`.
    Outcome killed(const Arguments &command, Microseconds least, Microseconds most) {
        const int process = launch(command, {});
        std::this_thread::sleep_for(drawn(least, most));
        ::kill(process, SIGKILL);
        return await(process);
    }
    // As above, but the delay counts from the moment when a temporary is there and has this many
    // bytes, or `limit` has passed.
    Outcome killedWhileWriting(const Arguments &command, uintmax_t bytes, Microseconds most, Microseconds limit) {
        const int process = launch(command, {});
        for (const auto end = Clock::now() + limit; Clock::now() < end && !writing(bytes);) std::this_thread::sleep_for(Microseconds(200));
        std::this_thread::sleep_for(drawn(Microseconds(0), most));
        ::kill(process, SIGKILL);
        return await(process);
    }
    Microseconds drawn(Microseconds least, Microseconds most) {
        return least + Microseconds(random() % static_cast<uint64_t>((most - least).count() + 1));
    }
    [[nodiscard]] bool writing(uintmax_t bytes) const {
        std::error_code gone; // published meanwhile
        for (const auto &entry : fs::directory_iterator(file("")))
            if (entry.path().extension() == ".tmp" && entry.file_size(gone) >= bytes && !gone) return true;
        return false;
    }
    Microseconds measure(const Arguments &command) {
        const auto begin = Clock::now();
        const Outcome outcome = start(command);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return std::chrono::duration_cast<Microseconds>(Clock::now() - begin);
    }
    // Temporaries, which are removed, and those of them with bytes in them.
    struct Left {
        size_t all = 0, begun = 0;
    };
    Left sweep() {
        std::vector<fs::path> left;
        for (const auto &entry : fs::recursive_directory_iterator(file("")))
            if (entry.path().extension() == ".tmp") left.push_back(entry.path());
        Left count = {left.size(), 0};
        for (const fs::path &path : left) {
            count.begun += fs::file_size(path) > 0 ? 1 : 0;
            fs::remove(path);
        }
        return count;
    }
    static void print(const char *what, const Moments &m) {
        std::printf("kills: %s: %d, of them %d before anything was written, %d while, %d after\n", what, m.all(), m.before, m.writing,
                    m.after);
    }
};

TEST_F(KillTest, outputsOfRunAreWholeOrOld) {
    const int kills = vkattn::test::fullExtent() ? 100 : 30;
    writeSmallProblem(600, 3000, 16); // weights of 7 MB
    const std::vector<std::string> names = {"o.npy", "lse.npy", "w.npy"};
    const Arguments command = {VKATTN_TOOL, "run", "--q",   "q.npy", "--k",   "k.npy",   "--v",       "v.npy",
                               "--device",  "cpu", "--out", "o.npy", "--lse", "lse.npy", "--weights", "w.npy"};
    Microseconds duration = measure(command);
    // The first reads programs and arrays from disk.
    duration = std::min(duration, measure(command));
    std::vector<std::string> whole;
    for (const std::string &name : names) whole.push_back(readBytes(file(name)));
    const std::string old = "old, and whole";
    Moments moments;
    size_t leftovers = 0;
    // The moments are those after the first temporary. The range that suits this machine is found
    // on the way.
    Microseconds spread = duration / 8;
    for (int n = 0; n < kills; ++n) {
        const bool overOld = n % 2 == 0;
        for (const std::string &name : names)
            if (overOld)
                writeBytes(file(name), old);
            else
                fs::remove(file(name));
        if (n % 3 == 0)
            (void)killed(command, Microseconds(0), duration * 11 / 10);
        else
            (void)killedWhileWriting(command, 1, spread, duration * 3);
        size_t fresh = 0;
        for (size_t at = 0; at < names.size(); ++at) {
            const bool there = exists(names[at]);
            ASSERT_EQ(there || !overOld, true) << names[at] << " is gone";
            const std::string bytes = there ? readBytes(file(names[at])) : "";
            const bool isNew = bytes == whole[at];
            ASSERT_TRUE(isNew || (overOld ? bytes == old : !there))
                << names[at] << " has " << bytes.size() << " bytes, a whole one has " << whole[at].size();
            fresh += isNew ? 1 : 0;
        }
        const Left left = sweep();
        leftovers += left.all > 0 ? 1 : 0;
        const bool late = fresh == names.size();
        ++(late ? moments.after : fresh > 0 || left.begun > 0 ? moments.writing : moments.before);
        if (n % 3 != 0) spread = late ? std::max(spread * 2 / 3, Microseconds(100)) : std::min(spread * 4 / 3, duration);
    }
    writeBytes(file(".vkattn-00000001.tmp"), "left behind");
    EXPECT_EQ(start(command).status, 0) << "with what was left behind";
    for (size_t at = 0; at < names.size(); ++at) EXPECT_EQ(readBytes(file(names[at])), whole[at]);
    (void)sweep();
    print("vkattn run --out --lse --weights", moments);
    std::printf("a temporary was left %zu times of %d; an undisturbed run takes %lld ms\n", leftovers, kills,
                static_cast<long long>(duration.count() / 1000));
    EXPECT_GT(moments.writing, kills / 20) << "the moments are not spread over the writing";
}

TEST_F(KillTest, theTuningFileIsWholeOrOld) {
    const int kills = vkattn::test::fullExtent() ? 10 : 2;
    const Arguments command = {VKATTN_TOOL, "tune", "--seconds", "1", "--dims", "16", "--out", "tuning.txt"};
    const auto begin = Clock::now();
    const Outcome outcome = start(command);
    if (outcome.status != 0) GTEST_SKIP() << "nothing to tune: " << outcome.err;
    const auto duration = std::chrono::duration_cast<Microseconds>(Clock::now() - begin);
    const std::string old = readBytes(file("tuning.txt"));
    const auto isWhole = [](const std::string &text) { return text.rfind("vkattn-tuning 1", 0) == 0 && text.back() == '\n'; };
    ASSERT_TRUE(isWhole(old)) << old;
    const auto lines = std::count(old.begin(), old.end(), '\n');
    Moments moments;
    for (int n = 0; n < kills; ++n) {
        (void)killed(command, Microseconds(0), duration * 11 / 10);
        const std::string now = readBytes(file("tuning.txt"));
        ASSERT_TRUE(isWhole(now) && std::count(now.begin(), now.end(), '\n') >= lines / 2) << now;
        ++(sweep().all > 0 ? moments.writing : now == old ? moments.before : moments.after);
    }
    print("vkattn tune", moments);
}

TEST_F(KillTest, reportsOfConformAreWholeOrOld) {
    const int kills = vkattn::test::fullExtent() ? 20 : 6;
    const std::vector<std::string> names = {"r.json", "r.html", "r.xml"};
    Arguments command = {VKATTN_TOOL, "conform", "--device", "0", "--json", names[0], "--html", names[1], "--junit", names[2]};
    // Of one pipeline, and so many that the reports take a while to be written.
    for (int keys = 1; keys <= 60; ++keys)
        command.insert(command.end(), {"--replay", "1:matrix,kernel=staged,keyTokens=" + std::to_string(keys)});
    const auto begin = Clock::now();
    const Outcome outcome = start(command);
    if (outcome.status != 0) GTEST_SKIP() << "nothing to test: " << outcome.err;
    const auto duration = std::chrono::duration_cast<Microseconds>(Clock::now() - begin);
    const auto isWhole = [&](const std::string &name) {
        const std::string text = readBytes(file(name));
        return text.size() > 100 && (text.ends_with("}\n") || text.ends_with("</html>\n") || text.ends_with("</testsuites>\n"));
    };
    const std::string old = "old, and whole";
    Moments moments;
    // Of the moments after the first bytes of a report; what suits this machine is found on the
    // way.
    Microseconds spread(2000);
    // A kill while reports are written is a matter of luck: the test goes on until there was one.
    for (int n = 0; n < kills || (moments.writing == 0 && n < 40 * kills); ++n) {
        for (const std::string &name : names) writeBytes(file(name), old);
        const bool watches = n % 2 != 0 || n >= kills;
        if (watches)
            (void)killedWhileWriting(command, 1, spread, duration * 3);
        else
            (void)killed(command, Microseconds(0), duration * 11 / 10);
        size_t fresh = 0;
        for (const std::string &name : names) {
            const bool isOld = readBytes(file(name)) == old;
            ASSERT_TRUE(isOld || isWhole(name)) << name;
            fresh += isOld ? 0 : 1;
        }
        const Left left = sweep();
        const bool late = fresh == names.size();
        ++(late ? moments.after : fresh > 0 || left.begun > 0 ? moments.writing : moments.before);
        if (watches && late) spread = spread / 2;
    }
    print("vkattn conform --json --html --junit", moments);
    EXPECT_GT(moments.writing, 0);
}

// The two that the library or a host writes, over and over while they are killed.
TEST_F(KillTest, blobsAreWholeOrOld) {
    const int kills = vkattn::test::fullExtent() ? 35 : 12;
    constexpr size_t bytes = 4 << 20;
    Moments moments;
    const Arguments command = {VKATTN_WRITER, "blob", "cache.bin", std::to_string(bytes)};
    writeBytes(file("cache.bin"), std::string(bytes, '\xff'));
    // A kill while the file is written is a matter of luck: the test goes on until there was one.
    for (int n = 0; n < kills || (moments.writing == 0 && n < 40 * kills); ++n) {
        const std::string before = readBytes(file("cache.bin"));
        const Outcome outcome = n % 3 == 0 ? killed(command, Microseconds(0), Microseconds(80000))
                                           : killedWhileWriting(command, 1, Microseconds(3000), Microseconds(1000000));
        EXPECT_EQ(outcome.status, 128 + SIGKILL);
        const std::string now = readBytes(file("cache.bin"));
        ASSERT_EQ(now.size(), bytes);
        ASSERT_EQ(now.find_first_not_of(now.front()), std::string::npos) << "two versions in one file";
        ++(sweep().all > 0 ? moments.writing : now == before ? moments.before : moments.after);
    }
    print("a host's pipeline cache", moments);
    EXPECT_GT(moments.writing, 0);
}

TEST_F(KillTest, verdictsAreWholeOrOld) {
    const int kills = vkattn::test::fullExtent() ? 35 : 12;
    std::string others; // of other devices: kept by whoever writes
    for (int n = 0; n < 200; ++n) others += "dead:beef:" + std::to_string(100 + n) + " 00000001 library - flash_coopmat trusted\n";
    writeBytes(file("verdicts"), others);
    const Arguments command = {VKATTN_WRITER, "verdicts", "verdicts"};
    Moments moments;
    // On a busy machine a dozen kills may all come before or after, here too.
    for (int n = 0; n < kills || (moments.writing == 0 && n < 40 * kills); ++n) {
        const std::string before = readBytes(file("verdicts"));
        const Outcome outcome = n % 3 == 0 ? killed(command, Microseconds(0), Microseconds(80000))
                                           : killedWhileWriting(command, 0, Microseconds(300), Microseconds(1000000));
        EXPECT_EQ(outcome.status, 128 + SIGKILL);
        const std::string now = readBytes(file("verdicts"));
        ASSERT_EQ(now.compare(0, others.size(), others), 0) << "lines are lost";
        std::istringstream lines(now.substr(others.size()));
        for (std::string line; std::getline(lines, line);) ASSERT_TRUE(line.ends_with(" trusted") || line.ends_with(" slow")) << line;
        ASSERT_EQ(now.back(), '\n');
        for (const auto &entry : fs::directory_iterator(file(""))) {
            const std::string name = entry.path().filename().string();
            ASSERT_TRUE(name.rfind("verdicts", 0) != 0 || name == "verdicts" || name.ends_with(".tmp")) << name;
        }
        ++(sweep().all > 0 ? moments.writing : now == before ? moments.before : moments.after);
    }
    print("the verdict file", moments);
    EXPECT_GT(moments.writing, 0);
}

} // namespace
