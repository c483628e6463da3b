// The work of `vkattn conform`, as data: plans, soaks, replay texts, shrinking. No device.
#include "conform/cases/case_text.hpp"
#include "conform/cases/features.hpp"
#include "conform/checks/selection.hpp"
#include "support/seed.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

using namespace vkattn;
using namespace vkattn::conform;

namespace {

DeviceInfo deviceOf(DeviceType type, uint32_t subgroupSize, bool matrices) {
    DeviceInfo device;
    device.type = type;
    device.caps.structSize = sizeof device.caps;
    device.caps.subgroupSize = subgroupSize;
    device.caps.subgroupShuffle = subgroupSize > 0;
    if (matrices) device.caps.matrixShapeCount = 1, device.caps.matrixShapes[0] = {16, 16, 16, VKATTN_F16};
    for (const char *kernel : {"staged", "flash", "decode", "flash_coopmat", "flash_coopmat2"})
        device.kernels.push_back({kernel, matrices || std::string(kernel).find("coopmat") == std::string::npos, "needs matrix units"});
    return device;
}

const DeviceInfo devices[] = {deviceOf(DeviceType::cpu, 8, false), deviceOf(DeviceType::discrete, 32, true),
                              deviceOf(DeviceType::other, 0, false)};

Selection selectionOf(Extent extent, uint64_t seed) {
    Selection selection;
    selection.extent = extent;
    selection.seed = seed;
    return selection;
}

void expectSameAfterParsing(const Check &check) {
    Check again;
    std::string why;
    const std::string text = replayText(check);
    ASSERT_TRUE(parseReplay(text, again, why)) << text << ": " << why;
    EXPECT_EQ(replayText(again), text);
    EXPECT_EQ(checkId(again), checkId(check));
    EXPECT_EQ(text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789,=:._-+"), std::string::npos) << text;
}

} // namespace

TEST(ConformPlan, isTheSameForASeedAndEveryCheckHasItsOwnNameAndReplay) {
    for (const DeviceInfo &device : devices)
        for (const Extent extent : {Extent::quick, Extent::normal}) {
            const uint64_t seed = test::seed();
            const std::vector<Planned> plan = planChecks(device, selectionOf(extent, seed)),
                                       again = planChecks(device, selectionOf(extent, seed));
            ASSERT_EQ(plan.size(), again.size());
            std::set<std::string> ids;
            for (size_t n = 0; n < plan.size(); ++n) {
                EXPECT_EQ(replayText(plan[n].check), replayText(again[n].check));
                EXPECT_TRUE(ids.insert(checkId(plan[n].check)).second) << checkId(plan[n].check);
                EXPECT_GT(plan[n].cost, 0);
                const Case &c = plan[n].check.c; // wide heads take software drivers long to compile
                EXPECT_TRUE(extent == Extent::normal || std::max(c.headDim, c.valueDim) <= 256) << checkId(plan[n].check);
                expectSameAfterParsing(plan[n].check);
            }
            const std::vector<Planned> other = planChecks(device, selectionOf(extent, seed + 1));
            EXPECT_NE(replayText(plan.front().check), replayText(other.front().check));
        }
}

// Every kind on every kernel that the device has, and every feature on the kernels that take all of
// them.
TEST(ConformPlan, evenTheQuickOneCoversEveryKindAndFeature) {
    for (const DeviceInfo &device : devices) {
        std::map<std::string, std::set<std::string>> kinds, features;
        for (const Planned &planned : planChecks(device, selectionOf(Extent::quick, test::seed()))) {
            const CheckResult result = resultFor(planned.check);
            kinds[result.kernel].insert(result.kind);
            features[result.kernel].insert(result.features.begin(), result.features.end());
            EXPECT_FALSE(result.features.empty()) << result.id;
        }
        for (const KernelSupport &kernel : device.kernels) {
            if (!kernel.available) {
                // Says why not.
                EXPECT_EQ(kinds[kernel.kernel], std::set<std::string>{"matrix"}) << kernel.kernel;
                continue;
            }
            for (const char *kind : {"matrix", "hidden", "nonfinite", "repeat", "split", "needles"})
                EXPECT_TRUE(kinds[kernel.kernel].contains(kind)) << kernel.kernel << " has no check " << kind;
            for (const char *feature :
                 {"causal", "window", "mask", "bit mask", "bias", "ALiBi", "sinks", "lengths", "ragged", "documents", "grouped heads",
                  "hidden NaN", "visible NaN", "hostile metadata", "chunks", "slices", "deterministic"})
                EXPECT_TRUE(features[kernel.kernel].contains(feature)) << kernel.kernel << " has no check of " << feature;
        }
        for (const char *feature : allFeatures())
            EXPECT_TRUE(
                features[feature == std::string_view("operations") || feature == std::string_view("layers") ? "auto" : "staged"].contains(
                    feature))
                << feature;
        for (const auto &[kernel, found] : features)
            for (const std::string &feature : found)
                EXPECT_NE(std::find(allFeatures().begin(), allFeatures().end(), feature), allFeatures().end()) << feature;
    }
}

// Arrays in place of pairs: about 1480 checks where the device has no matrix units, and each pair
// of options several times. How many arrays take is drawn: of 73 seeds the fewest were 1415 and the most 1527.
TEST(ConformPlan, theQuickOneIsSmall) {
    const std::vector<Planned> plan = planChecks(devices[0], selectionOf(Extent::quick, test::seed()));
    EXPECT_GT(plan.size(), 1200u);
    EXPECT_LT(plan.size(), 1800u);
    std::map<std::string, size_t> arrays; // cases of each kernel's arrays
    for (const Planned &planned : plan) {
        const Check &check = planned.check;
        const std::string name = check.c.name.substr(0, check.c.name.find('-'));
        EXPECT_TRUE(name.find('_') == std::string::npos || std::string(check.kind->name) == "repeat") << checkId(check);
        arrays[vkattnKernelName(check.c.kernel)] += name.starts_with("covering");
        // Planted bugs were missed without these: see docs/reliability.md.
        if (name == "chunksAcrossGroups" && check.limits == Limits::tiny) {
            EXPECT_EQ(check.c.slices, 0u) << "slices cut it elsewhere";
        }
    }
    for (const auto &[kernel, least] : std::map<std::string, size_t>{{"auto", 15}, {"staged", 90}, {"flash", 80}, {"decode", 75}})
        EXPECT_GE(arrays[kernel], least) << kernel;
    for (const char *id : {"matrix/staged/device/tiny/chunksAcrossGroups", "matrix/flash/flashSubgroups/full/oddHalves",
                           "matrix/flash/flashSubgroups/full/everyLane", "matrix/decode/decodeDimsAndKeysSubgroups/full/slopesOfGroups",
                           "matrix/decode/decodeDimsAndKeysSubgroups/tight/bitsOfChunks"})
        EXPECT_TRUE(std::any_of(plan.begin(), plan.end(), [&](const Planned &planned) { return checkId(planned.check) == id; })) << id;
}

TEST(ConformPlan, takesOnlyTheKernelsAskedFor) {
    Selection selection = selectionOf(Extent::quick, 7);
    selection.kernels = {VKATTN_KERNEL_FLASH};
    const std::vector<Planned> plan = planChecks(devices[0], selection);
    EXPECT_GT(plan.size(), 100u);
    for (const Planned &planned : plan) EXPECT_EQ(planned.check.c.kernel, VKATTN_KERNEL_FLASH);
}

TEST(ConformSoak, drawsPossibleChecksWithFewPipelinesInARow) {
    const Selection selection = selectionOf(Extent::normal, test::seed());
    for (const DeviceInfo &device : devices) {
        std::set<std::string> kernels, kinds;
        for (uint64_t first = 0; first < 2000; first += 200) {
            std::set<std::string> pipelines;
            for (uint64_t n = first; n < first + 200; ++n) {
                const Check check = soakCheck(device, selection, n);
                expectSameAfterParsing(check);
                EXPECT_EQ(replayText(check), replayText(soakCheck(device, selection, n)));
                kernels.insert(vkattnKernelName(check.c.kernel));
                kinds.insert(check.kind->name);
                pipelines.insert(vkattnKernelName(check.c.kernel) + std::string(check.testLayout->name) + limitsName(check.limits) +
                                 pipelineSignature(check.c));
            }
            EXPECT_LE(pipelines.size(), 140u);
        }
        EXPECT_GE(kernels.size(), device.caps.matrixShapeCount ? 5u : 4u);
        EXPECT_GE(kinds.size(), 5u);
    }
}

TEST(ConformReplay, saysWhatIsWrong) {
    const std::pair<const char *, const char *> wrong[] = {
        {"", "expected SEED:CASE"},
        {"matrix", "expected SEED:CASE"},
        {"x:matrix", "expected SEED:CASE"},
        {"-1:matrix", "expected SEED:CASE"},
        {"99999999999999999999999:matrix", "expected SEED:CASE"},
        {"1:", "'' is no check: expected one of matrix hidden"},
        {"1:nothing", "'nothing' is no check"},
        {"1:matrix,", "no member ''"},
        {"1:matrix,color=red", "a case has no member 'color'"},
        {"1:matrix,heads", "'heads' has no value"},
        {"1:matrix,heads=", "expected a whole number"},
        {"1:matrix,heads=-3", "expected a whole number"},
        {"1:matrix,heads=3x", "expected a whole number"},
        {"1:matrix,heads=5000000000", "expected a whole number"},
        {"1:matrix,causal=yes", "expected 0 or 1"},
        {"1:matrix,causal,causal=0", "'causal' is given twice"},
        {"1:matrix,q=f64", "expected one of f32, f16, bf16"},
        {"1:matrix,kernel=fast", "expected one of auto, staged, flash"},
        {"1:matrix,tiles=none", "'none' names no tiles: expected device"},
        {"1:matrix,tiles", "'tiles' has no value"},
        {"1:matrix,tiles=flashDirect", "those of kernel=flash, and kernel is auto"},
        {"1:matrix,room=large", "'large' is no room: expected full, weak, tight, tiny"},
        {"1:matrix,left=-2,window", "expected a whole number of -1 or more"},
        {"1:matrix,offsets,keyOffset=-268435457", "expected a whole number from -268435456 to 268435456"},
        {"1:matrix,name=a b", "letters, digits"},
        {"1:matrix,sequences=3", "lengths QUERIESxKEYS"},
        {"1:matrix,heads=0", "at least 1"},
        {"1:matrix,heads=3,kvHeads=2", "expected a multiple of kvHeads"},
        {"1:matrix,batch=1000000", "batch is 1000000, expected at most 1024"},
        {"1:matrix,queryTokens=1000000,keyTokens=1000000", "expected fewer"},
        {"1:matrix,headDim=4096", "headDim is 4096, expected at most 2048"},
        {"1:matrix,mask=0,bitMask=0", "expected one of them"},
        {"1:matrix,mask=16", "expected at most 15"},
        {"1:matrix,ragged,lengths", "expected one of them"},
        {"1:matrix,softcap=-1", "softcap is finite"},
        {"1:matrix,dropout=1.5", "dropout is a probability"},
        {"1:matrix,scale=nan", "scale is finite"},
        {"1:matrix,blocks=mask,blockKeys=0", "blockQueries and blockKeys are at least 1"},
        {"1:matrix,grid=cut,sizeRows=2", "are odd, but those of windows"},
        {"1:matrix,grid=none,gridRows=2000000", "gridRows is 2000000, expected at most"},
        {"1:hidden,sharedHeads", "expected a case without sharedHeads"},
        {"1:matrix,valuesInKeys", "valuesInKeys"},
        {"1:matrix,keysHoldValues,valueDim=17", "keysHoldValues: V is the first dims of K"},
        {"1:matrix,keysHoldValues,k=f16", "keysHoldValues: V is the first dims of K"},
    };
    for (const auto &[text, expected] : wrong) {
        Check check;
        std::string why;
        EXPECT_FALSE(parseReplay(text, check, why)) << text;
        EXPECT_NE(why.find(expected), std::string::npos) << "'" << text << "' says: " << why;
    }
}

TEST(ConformReplay, everyMemberComesBack) {
    Check check;
    std::string why;
    const std::string text =
        "7:matrix,tiles=flashDirect,room=tight,name=all,kernel=flash,batch=3,heads=4,queryTokens=5,keyTokens=6,headDim=7,"
        "valueDim=8,q=f16,k=bf16,v=f16,out=bf16,qStyle=padded,kStyle=reversed,vStyle=dimMajor,outStyle=tokenMajor,"
        "sharedHeads,causal,prefixes,topLeft,offsets,offsetArrays,hostileOffsets,queryOffset=-5,keyOffset=6,window,left=3,right=4,dilation="
        "2,headDilations,globalTokens,scale=-0.5,softcap=2,dropout=0.5,"
        "dropoutSeed=7,dropoutOffset=8,weightsDropped,"
        "mask=5,bias=2,biasType=f16,biasHidden=1,"
        "biasConstant=-1e+09,alibi,alibiSlope=0.25,sinks,sink=-inf,ragged,sequences=1x2:3x4,raggedGaps=0,raggedMax,"
        "hostileRagged,documents=runs,grid=windows,gridPlanes=2,gridRows=3,sizePlanes=4,sizeRows=5,sizeColumns=6,gridShift=1,"
        "blocks=indices,blockQueries=2,blockKeys=3,randomBlocks=4,blockSeed=5,blocksOfHeads,blocksOfBatches,fullBlocks,hostileBlocks,hooks="
        "both,lse,"
        "rowStatistics,weights,weightsType=f16,weightsStyle=padded,scores=capped,scoresType=bf16,"
        "scoresStyle=padded,deterministic,slices=9,data=equal,"
        "needle=2,poison=0";
    ASSERT_TRUE(parseReplay(text, check, why)) << why;
    EXPECT_EQ(replayText(check), text);
    // The text of a case leaves out nothing but the members that exclude others here.
    std::set<std::string> named;
    for (const char *member : memberNames())
        if (text.find(std::string(",") + member) != std::string::npos) named.insert(member);
    const std::set<std::string> others = {"kvHeads",        "bitMask",    "lengths",  "hostileLengths", "valuesInKeys",
                                          "keysHoldValues", "pageTokens", "csrPages", "hostilePages",   "segments",
                                          "prior",          "priorType",  "shortMask"};
    for (const char *member : memberNames()) EXPECT_TRUE(named.contains(member) != others.contains(member)) << member;
}

TEST(ConformShrink, leavesWhatMattersAndNothingElse) {
    Random random = test::randomFor("shrink");
    Check check{&checkKinds()[0], &testLayouts()[0], Limits::tiny, randomCase(random, 8), 1};
    check.c.causal = true, check.c.keyTokens = 60, check.c.queryTokens = 33, check.c.k = VKATTN_BF16, check.c.ragged = false;
    const auto fails = [](const Check &c) { return c.c.causal && c.c.keyTokens >= 5 && c.c.k == VKATTN_BF16; };
    const Shrunk shrunk = shrink(check, fails, 1000);
    EXPECT_TRUE(fails(shrunk.check));
    EXPECT_LT(shrunk.attempts, 1000u);
    Case expected;
    expected.name = check.c.name, expected.kernel = check.c.kernel, expected.causal = true, expected.keyTokens = 5,
    expected.k = VKATTN_BF16;
    expected.batch = expected.heads = expected.kvHeads = expected.headDim = expected.valueDim = 1, expected.queryTokens = 0;
    expected.poison = false;
    EXPECT_EQ(caseText(shrunk.check.c), caseText(expected));
    EXPECT_EQ(shrunk.check.limits, Limits::full);
}

TEST(ConformShrink, keepsToItsAttempts) {
    const Check check{&checkKinds()[0], &testLayouts()[0], Limits::full, Case{}, 1};
    uint32_t asked = 0;
    const Shrunk shrunk = shrink(
        check, [&](const Check &) { return ++asked, true; }, 5);
    EXPECT_EQ(asked, 5u);
    EXPECT_EQ(shrunk.attempts, 5u);
}

TEST(ConformOutcome, namesComeBackAndErrorsAddUp) {
    for (const Outcome outcome : outcomes) EXPECT_EQ(outcomeOf(outcomeName(outcome)), outcome);
    EXPECT_FALSE(outcomeOf("passed"));
    Errors a, b;
    a.histogram[1] = 3, a.worstRatio = 0.25, a.worstError = 1, a.worstBound = 4, a.relativeToV = 0.1;
    b.histogram[1] = 4, b.histogram[15] = 1, b.worstRatio = 2, b.worstError = 6, b.worstBound = 3, b.relativeToV = 0.05;
    a.merge(b);
    EXPECT_EQ(a.elements(), 8u);
    EXPECT_EQ(a.worstRatio, 2);
    EXPECT_EQ(a.worstError, 6);
    EXPECT_EQ(a.relativeToV, 0.1);
}

TEST(ConformFeatures, aVariantTurnsItsFeatureOnAndDropTurnsItOff) {
    Random random = test::randomFor("features");
    std::set<std::string> variants;
    for (const Feature &feature : features()) {
        for (const Variant &variant : feature.variants) {
            EXPECT_TRUE(variants.insert(variant.name).second) << variant.name << " is the name of two variants";
            if (!feature.name) continue;
            Case c;
            EXPECT_FALSE(feature.isOn(c)) << feature.name << " is on in an ordinary case";
            // Two dims may be drawn alike.
            for (int n = 0; n < 20 && !feature.isOn(c); ++n) variant.draw(c, random);
            EXPECT_TRUE(feature.isOn(c)) << variant.name;
            if (feature.pipelineTerm) {
                EXPECT_NE(pipelineSignature(c), pipelineSignature(Case{})) << variant.name;
            }
            if (feature.members.empty()) continue;
            drop(feature, c);
            EXPECT_FALSE(feature.isOn(c)) << variant.name;
        }
        EXPECT_FALSE(feature.hides && feature.variants.empty()) << feature.name << " has no case for the checks of hidden keys";
    }
}

TEST(ConformFeatures, membersOfAFeatureThatIsOffMeanNothing) {
    Case c;
    c.left = 3, c.biasHidden = 1, c.alibiSlope = 2, c.sink = 1, c.raggedMax = c.hostileLengths = true, c.weightsType = VKATTN_F16,
    c.needle = 4;
    dropMeaningless(c);
    EXPECT_EQ(caseText(c), "");
    c.window = c.alibi = true, c.left = 3, c.alibiSlope = 2;
    dropMeaningless(c);
    EXPECT_EQ(caseText(c), "window,left=3,alibi,alibiSlope=2");
}
