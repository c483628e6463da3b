// What `vkattn grad` refuses: usage, options, arrays and outputs, each with a message that names what
// is wrong; and how it ends where a device fails.
#include "gradient_fixture.hpp"

#include <algorithm>
#include <filesystem>

namespace {

namespace fs = std::filesystem;

class GradientRefusal : public GradientTest {
  protected:
    GradientRefusal() { givenAll({2, 3, 5, 4}, {2, 1, 6, 4}, {2, 1, 6, 3}); }
    void write(const std::string &name, const std::vector<size_t> &shape, const std::string &descr = "<f4") const {
        writeNpy(file(name), Array{shape, std::vector<double>(Array::count(shape))}, {.descr = descr});
    }
};

TEST_F(GradientRefusal, helpNamesEveryOption) {
    const Outcome outcome = tool({"grad", "--help"});
    EXPECT_EQ(outcome.status, 0);
    for (const std::string option : {"--q",
                                     "--k",
                                     "--v",
                                     "--dout",
                                     "--dlse",
                                     "--dweights",
                                     "--dq",
                                     "--dk",
                                     "--dv",
                                     "--dbias",
                                     "--dsinks",
                                     "--dslopes",
                                     "--dscale",
                                     "--dsoftcap",
                                     "--out",
                                     "--out-dtype",
                                     "--round-to",
                                     "--loss-scale",
                                     "--gradient-kernel",
                                     "--bias",
                                     "--mask",
                                     "--bitmask",
                                     "--alibi",
                                     "--sinks",
                                     "--causal",
                                     "--window",
                                     "--scale",
                                     "--softcap",
                                     "--kv-lengths",
                                     "--cu-seqlens-q",
                                     "--cu-seqlens-k",
                                     "--doc-ids-q",
                                     "--doc-ids-k",
                                     "--kernel",
                                     "--device",
                                     "--no-fallback",
                                     "--slices",
                                     "--verify",
                                     "--repeat",
                                     "--json"})
        EXPECT_NE(outcome.out.find("  " + option + " "), std::string::npos) << option;
    EXPECT_NE(tool({"--help"}).out.find("\n  grad "), std::string::npos);
}

TEST_F(GradientRefusal, usage) {
    refused({"--flash"}, {"--flash", "vkattn grad --help"});
    for (const std::string value : {"0", "-1", "1.5", "x"}) refused({"--slices", value}, {"--slices takes", "'" + value + "'"});
    refused({"--lse", "lse.npy"}, {"--lse"});
    for (const std::string missing : {"--q", "--k", "--v", "--dout"}) {
        Arguments arguments = gradientCommand();
        const auto at = std::find(arguments.begin(), arguments.end(), missing);
        arguments.erase(at, at + 2);
        expectRefused(tool(arguments), {missing + " is required"});
    }
    refused({"--dbias", "--device"}, {"--dbias needs a value"});
    for (const std::string value : {"0", "-1", "nan", "inf", "x"})
        refused({"--loss-scale", value}, {"--loss-scale takes a finite number", "'" + value + "'"});
    refused({"--gradient-kernel", "flash"}, {"--gradient-kernel takes", "auto", "staged", "tiles", "coopmat", "'flash'"});
    wanted.clear();
    expectRefused(tool(gradientCommand()), {"no gradient is asked for, expected at least one of --dq, --dk, --dv, --dbias"});
}

// Said before any file is looked at.
TEST_F(GradientRefusal, gradientsOfWhatIsNotThere) {
    for (const auto &[gradient, of] : std::vector<std::pair<std::string, std::string>>{
             {"--dbias", "--bias"}, {"--dsinks", "--sinks"}, {"--dslopes", "--alibi"}, {"--dsoftcap", "--softcap"}})
        refused({gradient, "d.npy"},
                {gradient + " asks for the gradient with respect to " + of + ", and there is none", "leave " + gradient + " out"});
}

TEST_F(GradientRefusal, arraysThatAreNoArrays) {
    writeBytes(file("text.npy"), "not an array");
    Arguments arguments = gradientCommand();
    *(std::find(arguments.begin(), arguments.end(), "--dout") + 1) = "text.npy";
    expectRefused(tool(arguments), {"text.npy"});
    *(std::find(arguments.begin(), arguments.end(), "--dout") + 1) = "missing.npy";
    expectRefused(tool(arguments), {"missing.npy"});
    write("dout.npy", {2, 3, 5, 3}, "<i4");
    refused({}, {"dout.npy", "int32", "--dout takes float32 or float16"});
}

TEST_F(GradientRefusal, shapesThatDisagree) {
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{2, 3, 5, 4}, {3, 5, 3}, {2, 1, 5, 3}, {2, 3, 6, 3}}) {
        write("dout.npy", shape);
        refused({}, {"shapes disagree: dout.npy", "the result, which is [batch, head, query, dim of the values] = (2, 3, 5, 3)"});
    }
    write("dout.npy", {5});
    refused({}, {"dout.npy: shape (5,) has 1 dimension"});
    write("dout.npy", {2, 3, 5, 3});
    write("l.npy", {3, 5});
    refused({"--dlse", "l.npy"}, {"shapes disagree: l.npy (3, 5) float32", "the log-sum-exp, which is [batch, head, query] = (2, 3, 5)"});
    write("l.npy", {2, 3, 5, 1});
    refused({"--dlse", "l.npy"}, {"l.npy", "expected 1 to 3"});
    write("w.npy", {2, 1, 5, 6});
    refused({"--dweights", "w.npy"},
            {"shapes disagree: w.npy", "the attention weights, which is [batch, head, query, key] = (2, 3, 5, 6)"});
    write("k.npy", {2, 1, 6, 8});
    refused({}, {"shapes disagree: q.npy", "k.npy"});
}

TEST_F(GradientRefusal, outputsThatCannotBeWritten) {
    refused({"--out", "no/such/o.npy"}, {"cannot write --out no/such/o.npy: No such file or directory"});
    wanted = {"dq", "dk"};
    refused({"--dv", "no/dv.npy"}, {"cannot write --dv no/dv.npy"});
    refused({"--dv", "q.npy"}, {"cannot write --dv q.npy: it is the input q.npy"});
    refused({"--dv", "dout.npy"}, {"cannot write --dv dout.npy: it is the input dout.npy"});
    refused({"--dv", "gdq.npy"}, {"cannot write --dv gdq.npy: it is the same file as --dq gdq.npy"});
    fs::create_directory(file("folder"));
    refused({"--dv", "folder"}, {"it is a directory"});
}

TEST_F(GradientRefusal, olderFilesAreReplacedOnSuccessOnly) {
    for (const std::string &name : wanted) writeBytes(file(fileOf(name)), "old");
    EXPECT_EQ(tool(gradientCommand({"--mask", "missing.npy"})).status, 2);
    EXPECT_EQ(tool(gradientCommand({"--device", "nothing"})).status, 2);
    EXPECT_EQ(bytesOfGradients(), "oldoldold");
    EXPECT_EQ(tool(gradientCommand()).status, 0);
    EXPECT_EQ(readNpy(file("gdk.npy")).shape, k.shape);
}

// A file size limit fails the write as a full disk does, once its signal is ignored.
TEST_F(GradientRefusal, fullDiskLeavesNothing) {
    givenAll({64, 64}, {8, 64}, {8, 64});
    Arguments command = {"/bin/sh", "-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh", VKATTN_TOOL};
    const Arguments grad = gradientCommand();
    command.insert(command.end(), grad.begin(), grad.end());
    expectRefused(start(command), {"cannot write --dq gdq.npy: File too large"});
    for (const std::string &name : wanted) EXPECT_FALSE(exists(fileOf(name))) << name;
}

TEST_F(GradientRefusal, failuresHaveTheStatusesOfRun) {
    const Arguments command = [&] {
        where = {"--no-fallback"};
        return gradientCommand();
    }();
    for (const std::string fault : {"lost", "unsupported", "device-memory"}) {
        const Outcome outcome = faultyTool(fault, command);
        EXPECT_EQ(outcome.status, 3) << outcome.err;
        EXPECT_NE(outcome.err.find("faulty: " + fault + ": leave out --no-fallback"), std::string::npos) << outcome.err;
        EXPECT_FALSE(exists("gdq.npy"));
    }
    const Outcome invalid = faultyTool("invalid", command);
    EXPECT_EQ(invalid.status, 2) << invalid.err;
}

// The forward pass is verified too: gradients are right for whatever it has stored.
TEST_F(GradientRefusal, aWrongForwardPassFailsVerification) {
    where = {};
    const Outcome outcome = faultyTool("wrong", gradientCommand({"--verify"}));
    EXPECT_EQ(outcome.status, 1) << outcome.out;
    EXPECT_NE(outcome.err.find("verification failed: worst in step forward: out[0, 0, 1, 2]"), std::string::npos) << outcome.err;
    EXPECT_TRUE(exists("gdq.npy")); // written nevertheless
}

TEST_F(GradientRefusal, withoutADriverTheCpuComputesAndSaysWhy) {
    const std::string asked = (checkGradients(), bytesOfGradients());
    where = {};
    const std::vector<std::string> noVulkan = {"VK_DRIVER_FILES=/nonexistent", "VK_ICD_FILENAMES=/nonexistent"};
    const Outcome outcome = tool(gradientCommand(), noVulkan);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("fallback  computed on the CPU: "), std::string::npos) << outcome.out;
    EXPECT_EQ(bytesOfGradients(), asked);
    const Outcome refusedOne = tool(gradientCommand({"--no-fallback"}), noVulkan);
    EXPECT_EQ(refusedOne.status, 3);
}

} // namespace
