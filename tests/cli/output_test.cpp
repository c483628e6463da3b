// Outputs appear whole or not at all, and never over something else.
#include "harness.hpp"

#include <sys/stat.h>

namespace {

namespace fs = std::filesystem;

class OutputTest : public CliTest {
  protected:
    OutputTest() { writeSmallProblem(); }
    [[nodiscard]] static Arguments to(const std::string &out, const Arguments &more = {}) {
        Arguments arguments = {"run", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--device", "cpu", "--out", out};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return arguments;
    }
    [[nodiscard]] Outcome runTo(const std::string &out, const Arguments &more = {}) const { return tool(to(out, more)); }
};

TEST_F(OutputTest, missingFolder) {
    expectRefused(runTo("no/such/folder/o.npy"), {"cannot write --out no/such/folder/o.npy: No such file or directory"});
    expectRefused(runTo("q.npy/o.npy"), {"cannot write --out q.npy/o.npy"});
    expectRefused(runTo("o.npy", {"--lse", "no/lse.npy"}), {"cannot write --lse no/lse.npy"});
}

TEST_F(OutputTest, folderThatMayNotBeWritten) {
    fs::create_directory(file("locked"));
    fs::permissions(file("locked"), fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
    if (const std::optional<Outcome> outcome = unprivilegedTool(to("locked/o.npy")))
        expectRefused(*outcome, {"cannot write --out locked/o.npy: Permission denied"});
    EXPECT_TRUE(fs::is_empty(file("locked")));
}

TEST_F(OutputTest, fileThatMayNotBeWritten) {
    writeBytes(file("kept.npy"), "old");
    fs::permissions(file("kept.npy"), fs::perms::owner_read | fs::perms::others_read);
    if (const std::optional<Outcome> outcome = unprivilegedTool(to("kept.npy")))
        expectRefused(*outcome, {"cannot write --out kept.npy: Permission denied"});
    EXPECT_EQ(readBytes(file("kept.npy")), "old");
}

TEST_F(OutputTest, notARegularFile) {
    fs::create_directory(file("folder"));
    expectRefused(runTo("folder"), {"it is a directory"});
    expectRefused(runTo("folder/"), {"it is a directory"});
    expectRefused(runTo("new/"), {"it is a directory"});
    expectRefused(runTo("/dev/null"), {"not a regular file"});
    ASSERT_EQ(mkfifo(file("pipe").c_str(), 0600), 0);
    expectRefused(runTo("pipe"), {"not a regular file"});
}

TEST_F(OutputTest, twoOutputsOfOneName) {
    expectRefused(runTo("o.npy", {"--lse", "o.npy"}), {"cannot write --lse o.npy: it is the same file as --out o.npy"});
    fs::create_directory(file("folder"));
    expectRefused(runTo("o.npy", {"--weights", "./folder/../o.npy"}), {"it is the same file as --out o.npy"});
    writeBytes(file("a.npy"), "old");
    fs::create_hard_link(file("a.npy"), file("b.npy"));
    expectRefused(runTo("a.npy", {"--lse", "b.npy"}), {"it is the same file as --out a.npy"});
    EXPECT_EQ(readBytes(file("a.npy")), "old");
}

TEST_F(OutputTest, neverOverAnInput) {
    const std::string before = readBytes(file("k.npy"));
    fs::create_hard_link(file("k.npy"), file("hard.npy"));
    fs::create_symlink("k.npy", file("soft.npy"));
    for (const std::string target : {"k.npy", "./k.npy", "hard.npy", "soft.npy"}) {
        expectRefused(runTo(target), {"cannot write --out " + target + ": it is the input k.npy"});
        expectRefused(runTo("o.npy", {"--weights", target}), {"cannot write --weights " + target + ": it is the input k.npy"});
    }
    EXPECT_EQ(readBytes(file("k.npy")), before);
}

TEST_F(OutputTest, replacesAnOlderFileOnlyOnSuccess) {
    writeBytes(file("old.npy"), "old");
    EXPECT_EQ(runTo("old.npy", {"--device", "nothing"}).status, 2);
    EXPECT_EQ(runTo("old.npy", {"--mask", "missing.npy"}).status, 2);
    EXPECT_EQ(readBytes(file("old.npy")), "old");
    EXPECT_EQ(runTo("old.npy").status, 0);
    EXPECT_EQ(readNpy(file("old.npy")).shape, (std::vector<size_t>{5, 4}));
}

TEST_F(OutputTest, writesThroughASymbolicLink) {
    fs::create_directory(file("folder"));
    writeBytes(file("folder/real.npy"), "old");
    fs::create_symlink("folder/real.npy", file("link.npy"));
    EXPECT_EQ(runTo("link.npy").status, 0);
    EXPECT_TRUE(fs::is_symlink(file("link.npy")));
    EXPECT_EQ(readNpy(file("folder/real.npy")).shape, (std::vector<size_t>{5, 4}));
}

TEST_F(OutputTest, hasThePermissionsOfAnyNewFile) {
    EXPECT_EQ(runTo("o.npy").status, 0);
    writeBytes(file("plain"), "");
    EXPECT_EQ(fs::status(file("o.npy")).permissions(), fs::status(file("plain")).permissions());
}

TEST_F(OutputTest, longAndOddNames) {
    for (const std::string &name :
         {std::string(255, 'n'), std::string("with space.npy"), std::string("\xff\xfe.npy"), std::string("-o.npy")}) {
        const Outcome outcome = runTo(name, {"--json"});
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_TRUE(exists(name));
    }
}

TEST_F(OutputTest, fullDisk) {
    // A file size limit fails the write as a full disk does, once its signal is ignored.
    writeSmallProblem(64, 8, 64);
    const Arguments limited = {"/bin/sh", "-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh", VKATTN_TOOL};
    Arguments command = limited;
    const Arguments run = onCpu({"--lse", "lse.npy"});
    command.insert(command.end(), run.begin(), run.end());
    expectRefused(start(command), {"cannot write --out o.npy: File too large"});
    EXPECT_FALSE(exists("lse.npy"));
}

// Data that fit the buffers of the C library reach the disk when the file is closed, and fail
// there.
TEST_F(OutputTest, fullDiskAtTheEnd) {
    writeSmallProblem(2, 2, 2);
    // The limit holds for the file that this test reads errors from too, and not for a pipe: stderr
    // goes through one to a process without the limit, and the exit status after it.
    Arguments command = {"/bin/sh", "-c",
                         "exec 3>&1; { ( trap '' XFSZ; ulimit -f 0; exec \"$@\" ) 2>&1 >&3; echo \"status $?\"; } | cat >&2", "sh",
                         VKATTN_TOOL};
    const Arguments run = onCpu({});
    command.insert(command.end(), run.begin(), run.end());
    Outcome outcome = start(command);
    const std::string status = "status 2\n";
    ASSERT_TRUE(outcome.err.ends_with(status)) << outcome.err;
    outcome.err.resize(outcome.err.size() - status.size());
    outcome.status = 2; // that of the pipe is of cat
    expectRefused(outcome, {"cannot write --out o.npy: File too large"});
}

TEST_F(OutputTest, fullStandardOutput) {
    if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this system";
    for (const std::string arguments : {"info", "info --json"}) {
        const Outcome outcome = start({"/bin/sh", "-c", "exec \"$0\" " + arguments + " > /dev/full", VKATTN_TOOL});
        EXPECT_EQ(outcome.status, 2);
        EXPECT_NE(outcome.err.find("standard output"), std::string::npos) << outcome.err;
    }
}

} // namespace
