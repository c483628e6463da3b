// Tuning files, every error message and hostile bytes, and what vkattnExplain says.
#include "core/plan/tuning/tuning.hpp"
#include "support/case.hpp"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace vkattn;
using namespace vkattn::test;

namespace {

vkattn_caps deviceCaps() {
    vkattn_caps caps = minimumCaps();
    caps.maxStorageBuffersPerStage = 16;
    caps.subgroupSize = 32;
    caps.subgroupShuffle = 1;
    return caps;
}

bool valid(const char *text) { // UTF-8
    for (const auto *c = reinterpret_cast<const unsigned char *>(text); *c;) {
        const int more = *c < 0x80 ? 0 : *c >> 5 == 6 ? 1 : *c >> 4 == 14 ? 2 : *c >> 3 == 30 ? 3 : -1;
        if (more < 0 || *c < 0x20) return false;
        ++c;
        for (int n = 0; n < more; ++n)
            if (*c++ >> 6 != 2) return false;
    }
    return true;
}

} // namespace

TEST(TuningFile, rowsComeBeforeTheBuiltInOnes) {
    const FlashTuning builtIn = flashTuning(deviceCaps());
    FlashTuning t = builtIn;
    const std::string text = "vkattn-tuning 1\r\n# measured\n\n  flash\tmaxDim=64 rowLanes=16 keysPerLane=4\n"
                             "flash maxDim=512 dimLanes=8 rowsPerLane=2 subgroups=1";
    ASSERT_EQ(readTuning(text.data(), text.size(), t, nullptr), VKATTN_OK);
    EXPECT_EQ(t.flash[0].maxDim, 64u);
    EXPECT_EQ(t.flash[0].rowLanes, 16u);
    EXPECT_EQ(t.flash[0].keysPerLane, 4u);
    EXPECT_EQ(t.flash[0].rowsPerLane, 1u);
    EXPECT_EQ(t.flash[1].dimLanes, 8u);
    EXPECT_EQ(t.flash[1].subgroups, 1u);
    EXPECT_EQ(0, std::memcmp(&t.flash[2], builtIn.flash, sizeof t.flash[2])) << "dims that no row takes fall to the built-in rows";
    EXPECT_EQ(0, std::memcmp(t.decode, builtIn.decode, sizeof t.decode)) << "the other kernel keeps its rows";
    t = builtIn;
    ASSERT_EQ(readTuning(nullptr, 0, t, nullptr), VKATTN_OK);
    EXPECT_EQ(0, std::memcmp(&t, &builtIn, sizeof t));
}

TEST(TuningFile, saysWhatIsWrong) {
    const struct {
        std::string text, reason;
    } wrong[] = {
        {"\n", "begins with the line 'vkattn-tuning 1'"},
        {"vkattn-tuning 2\n", "make a new one with `vkattn tune`"},
        {"vkattn-tuning\n", "make a new one"},
        {"tuning 1\n", "make a new one"},
        {"vkattn-tuning 1\nstaged maxDim=1\n", "line 2 begins with 'staged', expected flash, decode, flash_coopmat, rate or #"},
        {"vkattn-tuning 1\n\nflash maxDim\n", "line 3: 'maxDim', expected name=number"},
        {"vkattn-tuning 1\nflash lanes=3\n", "line 2: 'lanes=3', expected name=number"},
        {"vkattn-tuning 1\nflash maxDim=\n", "maxDim is '', expected 1 to 2048"},
        {"vkattn-tuning 1\nflash maxDim=2049\n", "maxDim is '2049', expected 1 to 2048"},
        {"vkattn-tuning 1\nflash maxDim=0\n", "maxDim is '0', expected 1 to 2048"},
        {"vkattn-tuning 1\nflash maxDim=-1\n", "maxDim is '-1', expected 1 to 2048"},
        {"vkattn-tuning 1\nflash maxDim=99999999999999999999\n", "expected 1 to 2048"},
        {"vkattn-tuning 1\nflash maxDim=4294967360\n", "expected 1 to 2048"},
        {"vkattn-tuning 1\nflash maxDim=6x\n", "maxDim is '6x'"},
        {"vkattn-tuning 1\nflash rowLanes=8\n", "line 2 has no maxDim"},
        {"vkattn-tuning 1\nflash maxDim=64 dimLanes=3\n", "dimLanes is 3, expected a power of two"},
        {"vkattn-tuning 1\nflash maxDim=64 rowsPerLane=8 keysPerLane=8\n", "rowsPerLane 8 times keysPerLane 8 is over 32"},
        {"vkattn-tuning 1\nflash maxDim=64 source=1 keyLanes=2\n", "source 1 needs keyLanes=1, and dimLanes=1 or subgroups=1"},
        {"vkattn-tuning 1\nflash maxDim=64 source=1 dimLanes=2\n", "source 1 needs keyLanes=1, and dimLanes=1 or subgroups=1"},
        {"vkattn-tuning 1\nflash maxDim=64 source=2 dimLanes=2 subgroups=1\n", "source 2 needs dimLanes=1 and keyLanes=1"},
        {"vkattn-tuning 1\nflash maxDim=64 source=1 keysPerLane=2 tileKeys=3\n", "tileKeys 3 is no multiple of keysPerLane 2"},
        {"vkattn-tuning 1\nflash maxDim=64 source=2\n", "source 2 needs subgroups=1"},
        {"vkattn-tuning 1\nrate\n", "line 2: rate '', expected flash, decode or flash_coopmat"},
        {"vkattn-tuning 1\nrate staged maxDim=64 mflops=1\n", "line 2: rate 'staged', expected flash, decode or flash_coopmat"},
        {"vkattn-tuning 1\nrate flash maxDim=64\n", "line 2 has no mflops"},
        {"vkattn-tuning 1\nrate flash mflops=5\n", "line 2 has no maxDim"},
        {"vkattn-tuning 1\nrate flash maxDim=64 mflops=0\n", "mflops is '0', expected 1 to 2000000000"},
        {"vkattn-tuning 1\nrate flash maxDim=64 mflops=99999999999999999999\n", "expected 1 to 2000000000"},
        {"vkattn-tuning 1\nrate flash maxDim=64 rowLanes=8\n", "'rowLanes=8', expected name=number"},
    };
    for (const auto &each : wrong) {
        const FlashTuning builtIn = flashTuning(deviceCaps());
        FlashTuning t = builtIn;
        vkattn_diagnostic why{};
        EXPECT_EQ(readTuning(each.text.data(), each.text.size(), t, &why), VKATTN_ERROR_INVALID_ARGUMENT) << each.text;
        EXPECT_NE(std::string(why.message).find(each.reason), std::string::npos) << each.text << why.message;
        EXPECT_EQ(0, std::memcmp(&t, &builtIn, sizeof t)) << "nothing is taken from a wrong file";
    }
    std::string many = "vkattn-tuning 1\n";
    for (uint32_t n = 0; n <= FlashTuning::maxFileTiles; ++n) many += "decode maxDim=64\n";
    FlashTuning t = flashTuning(deviceCaps());
    vkattn_diagnostic why{};
    EXPECT_EQ(readTuning(many.data(), many.size(), t, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_TRUE(std::strstr(why.message, "rows of one kernel")) << why.message;
}

// Any bytes: an answer, a message in UTF-8, and no tile that breaks a plan.
TEST(TuningFile, hostileBytes) {
    Random random = randomFor("tuning bytes");
    const std::string good = "vkattn-tuning 1\nflash maxDim=512 dimLanes=4 rowLanes=2 rowsPerLane=2 keysPerLane=2\n"
                             "decode maxDim=512 keyLanes=8 rowsPerLane=2 source=0 tileKeys=8 subgroups=0 rolledEdges=1 wholeRuns=1\n"
                             "rate decode minDim=9 maxDim=64 mflops=1500000\n";
    Case c;
    c.queryTokens = 70;
    Random own(1);
    const auto in = makeCaseData(c, own);
    uint32_t accepted = 0;
    for (int n = 0; n < 20000; ++n) {
        std::string text = good;
        for (uint64_t edits = 1 + random() % 6; edits; --edits) {
            const size_t at = random() % text.size();
            switch (random() % 5) {
            case 0:
                text[at] = static_cast<char>(random());
                break;
            case 1:
                text.erase(at, random() % 9);
                break;
            case 2:
                text.insert(at, 1 + random() % 3, static_cast<char>('0' + random() % 10));
                break;
            case 3:
                text.resize(at);
                break;
            default:
                if (at > 16) text[at] = static_cast<char>('0' + random() % 10);
            }
            if (text.empty()) text.assign(1, '\n');
        }
        // No byte past the end may be read: memory of exactly that size.
        const std::vector<char> bytes(text.begin(), text.end());
        const vkattn_caps caps = deviceCaps();
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_AUTO, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE}) {
            in->problem.kernel = kernel;
            vkattn_explanation out{};
            out.structSize = sizeof out;
            vkattn_diagnostic why{};
            const vkattn_result result = vkattn::explain(caps, in->problem, out, planOptions(0, bytes), &why);
            accepted += result == VKATTN_OK;
            if (result == VKATTN_OK) {
                EXPECT_GT(out.dispatchCount, 0u);
                EXPECT_LE(out.workgroupInvocations, 128u);
            } else {
                EXPECT_NE(why.message[0], 0);
                EXPECT_TRUE(valid(why.message)) << why.message;
            }
        }
    }
    EXPECT_GT(accepted, 1000u);
}

TEST(Explain, countsThePairsThatPositionLeaves) {
    Random random = randomFor("explain pairs");
    const vkattn_caps caps = deviceCaps();
    for (int n = 0; n < 500; ++n) {
        Case c;
        c.queryTokens = between(random, 1, 40), c.keyTokens = between(random, 1, 40);
        c.causal = random() % 2, c.topLeft = random() % 2, c.window = random() % 2;
        c.left = static_cast<int32_t>(between(random, 0, 46)) - 1, c.right = static_cast<int32_t>(between(random, 0, 46)) - 1;
        c.poison = false, c.headDim = c.valueDim = 2;
        Random own(1);
        const auto in = makeCaseData(c, own);
        uint64_t pairs = 0;
        for (uint32_t i = 0; i < c.queryTokens; ++i)
            for (const unsigned char seen : in->visibleKeys(0, 0, i)) pairs += seen;
        vkattn_explanation out{};
        out.structSize = sizeof out;
        ASSERT_EQ(vkattn::explain(caps, in->problem, out), VKATTN_OK);
        const double all = static_cast<double>(c.queryTokens) * c.keyTokens;
        EXPECT_NEAR(out.flops, out.flopsFull * static_cast<double>(pairs) / all, 1e-9 * out.flopsFull)
            << c.queryTokens << " x " << c.keyTokens << (c.causal ? " causal" : "") << (c.topLeft ? " top left" : "") << " window "
            << c.window << " " << c.left << " " << c.right;
        EXPECT_DOUBLE_EQ(out.flopsFull, 2.0 * c.batch * c.heads * all * (c.headDim + c.valueDim));
    }
}

TEST(Explain, saysWhichKernelAndWhyNotTheOthers) {
    const vkattn_caps caps = deviceCaps();
    const auto reason = [&](const Case &c, vkattn_kernel kernel) {
        Random own(1);
        const auto in = makeCaseData(c, own);
        vkattn_diagnostic why{};
        (void)vkattnExplainKernel(&caps, nullptr, &in->problem, kernel, &why);
        return std::string(why.message);
    };
    const auto explain = [&](const Case &c) {
        Random own(1);
        const auto in = makeCaseData(c, own);
        vkattn_explanation out{};
        out.structSize = sizeof out;
        vkattn_diagnostic why{};
        EXPECT_EQ(vkattn::explain(caps, in->problem, out, planOptions(0), &why), VKATTN_OK) << why.message;
        EXPECT_TRUE(valid(out.choice));
        EXPECT_STREQ(out.kernelName, vkattnKernelName(out.kernel));
        for (const vkattn_kernel kernel : KernelList()) {
            EXPECT_EQ(reason(c, kernel).empty(), kernel == out.kernel) << vkattnKernelName(kernel);
            EXPECT_TRUE(valid(reason(c, kernel).c_str()));
        }
        EXPECT_NE(out.choice[0], 0);
        return out;
    };
    Case c;
    c.queryTokens = 200, c.keyTokens = 300;
    EXPECT_EQ(explain(c).kernel, VKATTN_KERNEL_FLASH);
    c.queryTokens = 1, c.heads = 8;
    const vkattn_explanation decode = explain(c);
    EXPECT_EQ(decode.kernel, VKATTN_KERNEL_DECODE);
    EXPECT_EQ(decode.packedHeads, 4u);
    EXPECT_TRUE(std::strstr(decode.choice, "4 query rows share each key head")) << decode.choice;
    c.weights = true;
    EXPECT_EQ(explain(c).kernel, VKATTN_KERNEL_STAGED);
    EXPECT_TRUE(std::strstr(reason(c, VKATTN_KERNEL_FLASH).c_str(), "only the staged kernel writes them"));
    c.weights = false, c.scores = VKATTN_SCORES_RAW;
    EXPECT_EQ(explain(c).kernel, VKATTN_KERNEL_STAGED);
    EXPECT_TRUE(std::strstr(reason(c, VKATTN_KERNEL_DECODE).c_str(), "never has the scores in memory"));
    c.scores.reset(), c.kernel = VKATTN_KERNEL_FLASH;
    const vkattn_explanation asked = explain(c);
    EXPECT_STREQ(asked.choice, "it was asked for");
    EXPECT_EQ(asked.kernel, VKATTN_KERNEL_FLASH);
    EXPECT_TRUE(std::strstr(reason(c, VKATTN_KERNEL_DECODE).c_str(), "another was asked for"));
}
