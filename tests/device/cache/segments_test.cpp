// Keys in segments on a device, and problems that go on from attention over other keys: every kernel.
#include "device/environment.hpp"
#include "device/lists.hpp"

#include "conform/cases/base_case.hpp"
#include "conform/cases/case_text.hpp"
#include "support/extent.hpp"
#include "support/keys/segments.hpp"

#include <vkattn/list.hpp>

#include <cstring>
#include <functional>

using namespace vkattn;
using namespace vkattn::conform;
using namespace vkattn::test;

namespace {

void setTypes(Case &c) {
    c.headDim = c.valueDim = 16; // few pipelines
    c.q = c.k = c.v = c.out = c.kernel >= VKATTN_KERNEL_FLASH_COOPMAT ? VKATTN_F16 : VKATTN_F32;
}

// The staged kernel has the bits of the concatenation for any segments; the others, where bits must be those, take
// segments of whole splits.
void compareDrawn(Runtime &runtime, const char *name, const Draws &draws, bool deterministic, uint32_t slices = 0) {
    Random random = randomFor(name);
    int computedCount = 0, refused = 0;
    for (int n = 0; draws.take(n); ++n) {
        Case c = drawSegments(random, 2);
        c.deterministic = deterministic, c.slices = slices;
        for (const vkattn_kernel kernel : KernelList()) {
            c.kernel = kernel;
            setTypes(c);
            const std::unique_ptr<CaseData> data = makeCaseData(c, random);
            const Ran ran = runAndVerify(runtime, *data);
            if (ran.result.status == VKATTN_ERROR_UNSUPPORTED) {
                // The staged kernel drops pairs in its softmax, which a row without one leaves out.
                EXPECT_TRUE(kernel != VKATTN_KERNEL_STAGED || (c.dropout > 0 && c.hooks >= Hooks::row))
                    << ran.result.message << caseText(c);
                ++refused;
                continue;
            }
            ASSERT_EQ(ran.wrong, "") << caseText(c);
            ++computedCount;
            if (!deterministic) continue;
            const Outputs expected = data->outputs();
            const WholeProblem whole(*data);
            const RunResult other = runtime.run(whole.problem, whole.operands);
            ASSERT_EQ(other.status, VKATTN_OK) << other.message << caseText(c);
            EXPECT_EQ(std::memcmp(expected.out.data(), data->out.data(), data->out.bytes()), 0) << other.kernel << ": " << caseText(c);
        }
    }
    EXPECT_GT(computedCount, 0);
    std::printf("%d problems in segments, %d that a kernel does not take\n", computedCount, refused);
}

void goOnDrawn(Runtime &runtime, const char *name, const Draws &draws) {
    Random random = randomFor(name);
    int computedCount = 0;
    for (int n = 0; draws.take(n); ++n) {
        Case c = randomCase(random, 2);
        dropCacheForms(c);
        c.dropout = 0, c.rowStatistics = false, c.hooks = withSums(c.hooks), c.valuesInKeys = c.keysHoldValues = false;
        c.prior = true, c.priorType = static_cast<vkattn_dtype>(n % 3);
        if (n % 3 == 0) c.segments = 1;
        if (n % 3 == 1) c.sinks = true;                     // the column behind the scores is of both
        if (n % 2) c.queryTokens = between(random, 50, 90); // several chunks of rows under tight limits
        makeAgree(c);
        for (const vkattn_kernel kernel : KernelList()) {
            c.kernel = kernel;
            setTypes(c);
            const std::unique_ptr<CaseData> data = makeCaseData(c, random);
            const Ran ran = runAndVerify(runtime, *data);
            if (ran.result.status == VKATTN_ERROR_UNSUPPORTED) continue;
            ASSERT_EQ(ran.wrong, "") << caseText(c);
            ++computedCount;
        }
    }
    EXPECT_GT(computedCount, 0);
}

} // namespace

TEST(SegmentsOnDevice, haveTheBitsOfTheirConcatenation) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    compareDrawn(*runtime, "segments", {5, 20}, true);
}

TEST(SegmentsOnDevice, areVerifiedByEveryKernel) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    compareDrawn(*runtime, "segments of every kernel", {6, 24}, false);
}

TEST(SegmentsOnDevice, areCutIntoChunks) {
    Runtime *runtime = runtimeFor(Limits::tight);
    ASSERT_TRUE(runtime);
    compareDrawn(*runtime, "segments under tight limits", {4, 14}, false);
    compareDrawn(*runtime, "segments in slices", {2, 8}, false, 300);
}

// Segments of so many keys that each is split: partial results of one segment lie behind those of the one before.
TEST(SegmentsOnDevice, longOnesHaveSplitsOfTheirOwn) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("long segments");
    for (int n = 0; n < 4; ++n)
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE}) {
            Case c = baseCase(random, "longSegments");
            c.batch = c.queryTokens = 1, c.keyTokens = between(random, 4000, 6000), c.segments = 1 + static_cast<uint32_t>(n) % 2;
            c.kernel = kernel, c.lse = true;
            setTypes(c);
            const std::unique_ptr<CaseData> data = makeCaseData(c, random);
            const Ran ran = runAndVerify(*runtime, *data);
            ASSERT_EQ(ran.result.status, VKATTN_OK) << ran.result.message << caseText(c);
            EXPECT_EQ(ran.wrong, "") << caseText(c);
        }
}

TEST(PriorOnDevice, isVerifiedByEveryKernel) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    goOnDrawn(*runtime, "prior", {6, 24});
}

TEST(PriorOnDevice, goesWithChunks) {
    Runtime *runtime = runtimeFor(Limits::tight);
    ASSERT_TRUE(runtime);
    goOnDrawn(*runtime, "prior under tight limits", {4, 14});
}

TEST(PriorOnDevice, partsMakeTheWhole) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("parts");
    const Draws draws{3, 10};
    for (int n = 0; draws.take(n); ++n) {
        Case c = baseCase(random, "parts");
        c.lse = true, c.keyTokens = between(random, 8, 200), c.headDim = c.valueDim = 16;
        c.causal = n % 2, c.topLeft = n % 4 == 1;
        const std::unique_ptr<CaseData> data = makeCaseData(c, random);
        RunResult last;
        const auto compute = [&](const vkattn_problem &p, const std::vector<vkattn_operand_memory> &operands) {
            last = runtime->run(p, operands);
            return last.status == VKATTN_OK ? std::string() : last.message;
        };
        ASSERT_EQ(computeInParts(*data, 8, compute), "") << caseText(c);
        vkattn_verify_report report{};
        EXPECT_EQ(verifyAttention(*data, last, report), "") << caseText(c);
    }
}

// A prefix that all sequences share, and their own keys: recorded at once, in the memory of the output.
TEST(PriorOnDevice, goesOnInTheMemoryOfTheOutput) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("cascade");
    constexpr uint32_t sequences = 3, heads = 4, kvHeads = 2, prefix = 70, own = 33, dim = 16;
    Case c;
    c.batch = sequences, c.heads = heads, c.kvHeads = kvHeads, c.queryTokens = 1, c.keyTokens = prefix + own, c.headDim = c.valueDim = dim;
    c.lse = true, c.poison = false;
    const std::unique_ptr<CaseData> data = makeCaseData(c, random);
    for (HostTensor *t : {&data->k, &data->v}) // the prefix of all is that of the first
        for (uint32_t b = 1; b < sequences; ++b)
            for (uint32_t h = 0; h < kvHeads; ++h)
                for (uint32_t j = 0; j < prefix; ++j) t->copyRow({b, h, j}, *t, {0, h, j});
    data->collectOperands();
    std::string why;
    const auto tensorOf = [&](HostTensor &host) {
        const DeviceTensor tensor = runtime->allocate(host.layout, &why);
        EXPECT_TRUE(tensor) << why;
        EXPECT_EQ(tensor.upload(host.data(), host.bytes(), &why), VKATTN_OK) << why;
        return tensor;
    };
    const DeviceTensor q = tensorOf(data->q), k = tensorOf(data->k), v = tensorOf(data->v), out = tensorOf(data->out),
                       lse = tensorOf(data->lse);
    OperationList list = runtime->list();
    AttentionOf rest{q, k.part(2, prefix, own), v.part(2, prefix, own), out, lse};
    const CascadeLevel levels[] = {{k.part(0, 0, 1).part(2, 0, 30), v.part(0, 0, 1).part(2, 0, 30)},
                                   {k.part(2, 30, prefix - 30), v.part(2, 30, prefix - 30)}};
    ASSERT_EQ(list.add(CascadeOf{rest, levels}, &why), VKATTN_OK) << why;
    EXPECT_EQ(list.size(), 3u);
    EXPECT_EQ(list.barrierCount(), 2u) << "each level goes on from the one before";
    const RunResult result = list.run();
    ASSERT_EQ(result.status, VKATTN_OK) << result.message;
    ASSERT_EQ(out.download(data->out.data(), data->out.bytes(), &why), VKATTN_OK) << why;
    ASSERT_EQ(lse.download(data->lse.data(), data->lse.bytes(), &why), VKATTN_OK) << why;
    vkattn_verify_report report{};
    EXPECT_EQ(verifyAttention(*data, result, report), "");

    // Of what is refused, a list keeps nothing.
    const auto refused = [&](const char *words, const std::function<void(AttentionOf &, std::vector<CascadeLevel> &)> &change) {
        AttentionOf attention = rest;
        std::vector<CascadeLevel> some(levels, levels + 2);
        change(attention, some);
        OperationList other = runtime->list();
        EXPECT_EQ(other.add(CascadeOf{attention, some}, &why), VKATTN_ERROR_INVALID_ARGUMENT) << words;
        EXPECT_NE(why.find(words), std::string::npos) << words << ": " << why;
        EXPECT_EQ(other.size(), 0u);
    };
    refused("own.lse of a cascade has no tensor", [](AttentionOf &a, auto &) { a.lse = {}; });
    refused("level 1 of the cascade has no k or no v", [](AttentionOf &, auto &some) { some[1].v = {}; });
    refused("own has VKATTN_WINDOW in a cascade", [](AttentionOf &a, auto &) { a.options.flags = VKATTN_WINDOW; });
    refused("a number that divides the 3 sequences",
            [&](AttentionOf &, auto &some) { some[1].k = k.part(0, 0, 2), some[1].v = v.part(0, 0, 2); });
    refused("level 0 of the cascade", [&](AttentionOf &, auto &some) { some[0].v = v.part(0, 0, 1).part(2, 0, 29); });
    refused("the attention behind the levels of the cascade", [&](AttentionOf &a, auto &) { a.v = v.part(2, prefix, own - 1); });
}

// Prompts of several tokens: token-major queries are those of one entry, others are not.
TEST(PriorOnDevice, cascadesOfPromptsAreTokenMajor) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    constexpr uint32_t sequences = 4, heads = 2, queries = 5, prefix = 21, own = 9, dim = 16;
    for (const bool tokenMajor : {true, false}) {
        Random random = randomFor("prompts");
        Case c;
        c.batch = sequences, c.heads = c.kvHeads = heads, c.queryTokens = queries, c.keyTokens = prefix + own, c.headDim = c.valueDim = dim;
        c.lse = c.causal = true, c.poison = false, c.qStyle = c.outStyle = tokenMajor ? Style::tokenMajor : Style::packed;
        const std::unique_ptr<CaseData> data = makeCaseData(c, random);
        for (HostTensor *t : {&data->k, &data->v}) // two and two share a prefix
            for (uint32_t b = 1; b < sequences; b += 2)
                for (uint32_t h = 0; h < heads; ++h)
                    for (uint32_t j = 0; j < prefix; ++j) t->copyRow({b, h, j}, *t, {b - 1, h, j});
        data->collectOperands();
        std::string why;
        const auto tensorOf = [&](HostTensor &host) {
            std::vector<float> values;
            const uint32_t *const e = host.layout.extent;
            for (uint32_t b = 0; b < e[0]; ++b)
                for (uint32_t h = 0; h < e[1]; ++h)
                    for (uint32_t t = 0; t < e[2]; ++t)
                        for (uint32_t d = 0; d < e[3]; ++d) values.push_back(host.get(b, h, t, d));
            const DeviceTensor tensor = runtime->allocate(host.layout, &why);
            EXPECT_EQ(tensor.upload(values.data(), values.size() * sizeof(float), &why), VKATTN_OK) << why;
            return tensor;
        };
        const DeviceTensor q = tensorOf(data->q), k = tensorOf(data->k), v = tensorOf(data->v), out = tensorOf(data->out),
                           lse = tensorOf(data->lse);
        OperationList list = runtime->list();
        AttentionOf rest{q, k.part(2, prefix, own), v.part(2, prefix, own), out, lse};
        rest.options.flags = VKATTN_CAUSAL;
        // Every other entry's prefix, of which two sequences each have one.
        const auto shared = [](const DeviceTensor &t) {
            vkattn_layout l = t.layout();
            l.extent[0] = sequences / 2, l.extent[2] = prefix, l.strideElems[0] *= 2;
            return t.view(l);
        };
        const CascadeLevel level{shared(k), shared(v)};
        const vkattn_result added = list.add(CascadeOf{rest, {&level, 1}}, &why);
        if (!tokenMajor) {
            EXPECT_EQ(added, VKATTN_ERROR_INVALID_ARGUMENT);
            EXPECT_NE(why.find("token-major"), std::string::npos) << why;
            continue;
        }
        ASSERT_EQ(added, VKATTN_OK) << why;
        expectVerified(list);
        std::vector<float> values(size_t{sequences} * heads * queries * dim);
        ASSERT_EQ(out.download(values.data(), values.size() * sizeof(float), &why), VKATTN_OK) << why;
        size_t n = 0;
        for (uint32_t b = 0; b < sequences; ++b)
            for (uint32_t h = 0; h < heads; ++h)
                for (uint32_t t = 0; t < queries; ++t)
                    for (uint32_t d = 0; d < dim; ++d) data->out.set(b, h, t, d, values[n++]);
        std::vector<float> sums(size_t{sequences} * heads * queries);
        ASSERT_EQ(lse.download(sums.data(), sums.size() * sizeof(float), &why), VKATTN_OK) << why;
        n = 0;
        for (uint32_t b = 0; b < sequences; ++b)
            for (uint32_t h = 0; h < heads; ++h)
                for (uint32_t t = 0; t < queries; ++t) data->lse.set(b, h, t, 0, sums[n++]);
        vkattn_verify_report report{};
        EXPECT_EQ(verifyAttention(*data, RunResult{}, report), "");
    }
}
