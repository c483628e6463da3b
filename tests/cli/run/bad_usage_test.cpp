// The command line itself.
#include "cli/harness.hpp"

namespace {

class BadUsageTest : public CliTest {
  protected:
    BadUsageTest() { writeSmallProblem(); }
    void refused(const Arguments &more, const std::vector<std::string> &words) const { expectRefused(tool(onCpu(more)), words); }
};

TEST_F(BadUsageTest, alonePrintsHelp) {
    const Outcome outcome = tool({});
    EXPECT_EQ(outcome.status, 2);
    EXPECT_NE(outcome.err.find("Usage: vkattn"), std::string::npos);
}

TEST_F(BadUsageTest, helpAndVersionSucceed) {
    for (const Arguments &arguments : {Arguments{"--help"}, Arguments{"-h"}, Arguments{"run", "--help"}, Arguments{"info", "--help"}}) {
        const Outcome outcome = tool(arguments);
        EXPECT_EQ(outcome.status, 0);
        EXPECT_NE(outcome.out.find("Usage: vkattn"), std::string::npos) << outcome.out;
    }
    const Outcome version = tool({"--version"});
    EXPECT_EQ(version.status, 0);
    EXPECT_EQ(version.out.rfind("vkattn ", 0), 0u);
}

TEST_F(BadUsageTest, helpNamesEveryOption) {
    const Outcome outcome = tool({"run", "--help"});
    for (const std::string option : {"--q",
                                     "--k",
                                     "--v",
                                     "--out",
                                     "--round-to",
                                     "--out-dtype",
                                     "--mask",
                                     "--bitmask",
                                     "--bias",
                                     "--alibi",
                                     "--sinks",
                                     "--causal",
                                     "--align",
                                     "--window",
                                     "--dilation",
                                     "--global-tokens",
                                     "--prefix-lengths",
                                     "--query-offset",
                                     "--key-offset",
                                     "--neighbourhood",
                                     "--border",
                                     "--windows",
                                     "--bigbird",
                                     "--block-mask",
                                     "--block-size",
                                     "--scale",
                                     "--softcap",
                                     "--dropout",
                                     "--seed",
                                     "--offset",
                                     "--weights-after-dropout",
                                     "--kv-lengths",
                                     "--cu-seqlens-q",
                                     "--cu-seqlens-k",
                                     "--doc-ids-q",
                                     "--doc-ids-k",
                                     "--lse",
                                     "--weights",
                                     "--scores",
                                     "--scores-stage",
                                     "--deterministic",
                                     "--values-in-keys",
                                     "--device",
                                     "--kernel",
                                     "--verify",
                                     "--no-fallback",
                                     "--repeat",
                                     "--slices",
                                     "--json"})
        EXPECT_NE(outcome.out.find("  " + option + " "), std::string::npos) << option;
}

TEST_F(BadUsageTest, unknownAndMissingOptions) {
    refused({"--flash"}, {"--flash", "vkattn run --help"});
    refused({"--maks", "m.npy"}, {"--maks"});
    refused({"extra"}, {"extra"});
    refused({"-x"}, {"-x"});
    refused({"--out", "p.npy"}, {"--out"}); // twice
    expectRefused(tool({"walk"}), {"walk"});
    expectRefused(tool({"info", "--flash"}), {"--flash"});
    for (const std::string missing : {"--q", "--k", "--v", "--out"}) {
        Arguments arguments = onCpu();
        const auto at = std::find(arguments.begin(), arguments.end(), missing);
        arguments.erase(at, at + 2);
        expectRefused(tool(arguments), {missing + " is required"});
    }
}

TEST_F(BadUsageTest, valuesInKeys) {
    refused({"--values-in-keys", "4"}, {"--values-in-keys", "leave one of the two out"});
    refused({"--values-in-keys", "0"}, {"--values-in-keys"});
    refused({"--values-in-keys", "3000"}, {"--values-in-keys"});
    refused({"--values-in-keys", "x"}, {"--values-in-keys"});
}

TEST_F(BadUsageTest, optionsNeedValues) {
    refused({"--mask"}, {"--mask"});
    refused({"--lse", "--json"}, {"--lse needs a value", "'--json'"});
    EXPECT_FALSE(exists("--json"));
    refused({"--lse", ""}, {"--lse needs a value"});
    refused({"--device", ""}, {"--device"});
}

TEST_F(BadUsageTest, alignment) {
    refused({"--causal", "left"}, {"--causal takes top-left or bottom-right, not 'left'"});
    refused({"--window", "1,1", "--align", "middle"}, {"--align takes top-left or bottom-right, not 'middle'"});
    refused({"--align", "top-left"}, {"--align", "add --window, --causal, --alibi or a grid"});
    refused({"--causal", "top-left", "--align", "bottom-right"}, {"--causal top-left and --align bottom-right disagree"});
    refused({"--causal", "bottom-right", "--align", "top-left", "--window", "1,1"}, {"disagree"});
}

TEST_F(BadUsageTest, window) {
    for (const std::string value : {"-2,0", "0,-2", "-5,-5"}) {
        refused({"--window", value}, {"negative window '" + value + "'"});
        refused({"--window=" + value}, {"negative window '" + value + "'"});
    }
    for (const std::string value : {"1", "1,", ",1", "1,2,3", "a,b", "1.5,0", "1;2", "1, 2", "99999999999,0", "0x1,0"})
        refused({"--window=" + value}, {"--window takes two integers", "'" + value + "'"});
}

TEST_F(BadUsageTest, numbers) {
    for (const std::string value : {"nan", "NaN", "inf", "-inf", "1e39", "one", "1x", "0,5"})
        refused({"--scale", value}, {"--scale takes a finite number, not '" + value + "'"});
    for (const std::string value : {"nan", "inf", "-1", "x"})
        refused({"--softcap", value}, {"--softcap takes a finite number of 0 or more", "'" + value + "'"});
    refused({"--softcap", "1e-60"}, {"too small for float32"});
    for (const std::string value : {"nan", "-0.1", "1.01", "inf", "x", "0.5x"})
        refused({"--dropout", value}, {"--dropout takes a probability from 0 (none) to 1", "'" + value + "'"});
    for (const std::string value : {"-1", "1.5", "x", "18446744073709551616"})
        refused({"--dropout", "0.5", "--seed", value}, {"--seed takes a whole number from 0 to 18446744073709551615", "'" + value + "'"});
    for (const std::string value : {"-1", "1.5", "x", "4294967296"})
        refused({"--dropout", "0.5", "--offset", value}, {"--offset takes a whole number from 0 to 4294967295", "'" + value + "'"});
    for (const std::string value : {"0", "-1", "1.5", "x", "99999999999"})
        refused({"--repeat", value}, {"--repeat takes a whole number", "'" + value + "'"}),
            refused({"--slices", value}, {"--slices takes a whole number", "'" + value + "'"});
    refused({"--kernel", "fast"}, {"--kernel takes auto, staged, flash, decode, flash_coopmat or flash_coopmat2, not 'fast'"});
    refused({"--scores", "s.npy", "--scores-stage", "logits"}, {"--scores-stage takes raw, scaled, capped or final, not 'logits'"});
    refused({"--round-to", "f32"}, {"--round-to takes f16 or bf16, not 'f32'"});
    refused({"--out-dtype", "f64"}, {"--out-dtype takes f32, f16 or bf16, not 'f64'"});
}

// Said before any file is looked at: none of these exists.
TEST_F(BadUsageTest, optionsThatContradictEachOther) {
    refused({"--mask", "m.npy", "--bitmask", "b.npy"}, {"--mask and --bitmask are both given", "expected one", "combine them"});
    refused({"--kv-lengths", "n.npy", "--cu-seqlens-q", "c.npy", "--cu-seqlens-k", "c.npy"},
            {"--kv-lengths and --cu-seqlens-k are both given", "leave --kv-lengths out"});
    refused({"--cu-seqlens-q", "c.npy"},
            {"--cu-seqlens-q is given without --cu-seqlens-k", "expected both or none", "the same file twice"});
    refused({"--seed", "42"}, {"--seed says how weights are dropped, and nothing drops any", "add --dropout", "leave --seed out"});
    refused({"--offset", "42"}, {"--offset says how weights are dropped", "leave --offset out"});
    refused({"--weights", "w.npy", "--weights-after-dropout"}, {"--weights-after-dropout says how", "add --dropout"});
    refused({"--dropout", "0.5", "--weights-after-dropout"}, {"--weights-after-dropout says which weights are written", "add --weights"});
    refused({"--scores-stage", "final"}, {"--scores-stage says which scores are written, and none are", "add --scores"});
    refused({"--cu-seqlens-k", "c.npy"}, {"--cu-seqlens-k is given without --cu-seqlens-q"});
    refused({"--doc-ids-q", "d.npy"}, {"--doc-ids-q is given without --doc-ids-k", "expected both or none", "the same file twice"});
    refused({"--doc-ids-k", "d.npy"}, {"--doc-ids-k is given without --doc-ids-q"});
}

TEST_F(BadUsageTest, kernelOfADeviceOnTheCpuIsNoted) {
    const Outcome outcome = tool(onCpu({"--kernel", "staged"}));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("note: --kernel staged"), std::string::npos);
    EXPECT_EQ(tool(onCpu({"--kernel", "auto"})).err, "");
}

TEST_F(BadUsageTest, unknownDeviceShowsTheList) {
    if (tool({"info"}).out.find("\ndevice 0") == std::string::npos)
        GTEST_SKIP() << "no Vulkan device here, so that every name of one means the CPU with a reason: see DeviceTest.withoutADriver...";
    for (const std::string device : {"no such device", "4711", "-1", "99999999999999999999"})
        for (const bool fallback : {true, false}) {
            Arguments arguments = {"run", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "o.npy", "--json", "--device", device};
            if (!fallback) arguments.push_back("--no-fallback");
            expectRefused(tool(arguments), {device, "the devices are:", "\n  0  ", "cpu"});
        }
}

} // namespace
