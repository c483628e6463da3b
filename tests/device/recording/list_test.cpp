// Device tensors and lists of operations: what a list computes is what its operations compute one
// by one, whatever memory they share; replays follow device arrays; wrong uses are refused.
#include "conform/cases/operation_case.hpp"
#include "device/environment.hpp"
#include "device/host_shader.hpp"
#include "device/lists.hpp"
#include "random_list.hpp"
#include "support/extent.hpp"
#include "support/heap_count.hpp"
#include "vkattn/list.hpp"

#include <cmath>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr vkattn_result invalid = VKATTN_ERROR_INVALID_ARGUMENT;

std::vector<float> normals(Random &random, size_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> all(count);
    for (float &each : all) each = normal(random);
    return all;
}

template <class Word> void fill(const DeviceTensor &tensor, const std::vector<Word> &words) {
    std::string why;
    EXPECT_EQ(tensor.upload(words.data(), words.size() * sizeof(Word), &why), VKATTN_OK) << why;
}
template <class Word> std::vector<Word> contents(const DeviceTensor &tensor) {
    const vkattn_layout &l = tensor.layout();
    std::vector<Word> words(uint64_t{l.extent[0]} * l.extent[1] * l.extent[2] * l.extent[3]);
    std::string why;
    EXPECT_EQ(tensor.download(words.data(), words.size() * sizeof(Word), &why), VKATTN_OK) << why;
    return words;
}

// One token of a decoder's attention: projections, rotary embedding into the cache, attention over
// what the cache holds, projection and residual, norm.
struct Decoder {
    static constexpr uint32_t batch = 2, heads = 4, kvHeads = 2, dim = 16, model = heads * dim, room = 128;
    DeviceTensor x, wq, wk, wv, wo, gamma, cos, sin, starts, lengths, q, k, v, keys, values, out, sum, z;
    OperationList list;

    Decoder(Runtime &runtime, Random &random, uint32_t tokens) : list(runtime.list()) {
        const auto allocate = [&](const vkattn_layout &layout) {
            std::string why;
            DeviceTensor tensor = runtime.allocate(layout, &why);
            EXPECT_TRUE(tensor) << why;
            return tensor;
        };
        const auto drawn = [&](const vkattn_layout &layout, float scale) {
            const DeviceTensor tensor = allocate(layout);
            std::vector<float> all = normals(random, uint64_t{layout.extent[0]} * layout.extent[1] * layout.extent[2] * layout.extent[3]);
            for (float &each : all) each *= scale;
            fill(tensor, all);
            return tensor;
        };
        const float small = 1 / std::sqrt(static_cast<float>(model));
        x = drawn(packed(VKATTN_F32, batch, 1, tokens, model), 1);
        wq = drawn(matrix(VKATTN_F32, model, model), small), wo = drawn(matrix(VKATTN_F32, model, model), small);
        wk = drawn(matrix(VKATTN_F32, kvHeads * dim, model), small), wv = drawn(matrix(VKATTN_F32, kvHeads * dim, model), small);
        gamma = drawn(vector(VKATTN_F32, model), 1);
        cos = allocate(matrix(VKATTN_F32, room, dim / 2)), sin = allocate(matrix(VKATTN_F32, room, dim / 2));
        std::vector<float> c(room * dim / 2), s(c);
        EXPECT_EQ(vkattnRotaryTable(room, dim, 10000, c.data(), s.data(), nullptr), VKATTN_OK);
        fill(cos, c), fill(sin, s);
        const DeviceTensor both = allocate(words(2 * batch));
        starts = both.part(3, 0, batch), lengths = both.part(3, batch, batch);
        q = allocate(packed(VKATTN_F32, batch, 1, tokens, model)), out = allocate(q.layout());
        k = allocate(packed(VKATTN_F32, batch, 1, tokens, kvHeads * dim)), v = allocate(k.layout());
        keys = allocate(packed(VKATTN_F32, batch, kvHeads, room, dim)), values = allocate(keys.layout());
        sum = allocate(q.layout()), z = allocate(q.layout());

        // Heads of a row, by strides.
        const DeviceTensor qHeads = q.view(packedTokenMajor(VKATTN_F32, batch, heads, tokens, dim)), outHeads = out.view(qHeads.layout()),
                           kHeads = k.view(packedTokenMajor(VKATTN_F32, batch, kvHeads, tokens, dim)), vHeads = v.view(kHeads.layout());
        std::string why;
        const auto expect = [&](vkattn_result result) { EXPECT_EQ(result, VKATTN_OK) << why; };
        expect(list.add(ProjectionOf{x, wq, q}, &why));
        expect(list.add(ProjectionOf{x, wk, k}, &why));
        expect(list.add(ProjectionOf{x, wv, v}, &why));
        RotaryOf turnQ{qHeads, cos, sin, qHeads, {}, starts};
        expect(list.add(turnQ, &why));
        RotaryOf turnK{kHeads, cos, sin, keys, {}, starts};
        turnK.flags = VKATTN_ROTARY_APPEND;
        expect(list.add(turnK, &why));
        expect(list.add(AppendOf{vHeads, values, starts}, &why));
        AttentionOf attention{qHeads, keys, values, outHeads};
        attention.keyLengths = lengths;
        attention.options.flags = VKATTN_CAUSAL;
        expect(list.add(attention, &why));
        ProjectionOf back{out, wo, sum};
        back.residual = x;
        expect(list.add(back, &why));
        expect(list.add(NormOf{VKATTN_RMS_NORM, sum, z, gamma}, &why));
    }
    void place(uint32_t start, uint32_t tokens) {
        fill(starts, std::vector<uint32_t>(batch, start));
        fill(lengths, std::vector<uint32_t>(batch, start + tokens));
    }
};

std::unique_ptr<Runtime> cpuRuntime() {
    RuntimeOptions options;
    options.device = "cpu";
    return Runtime::open(options, nullptr, nullptr);
}

} // namespace

// On the device, with the limits of Vulkan 1.0, and on the CPU.
TEST(List, stepsAreWithinTheBoundsOfTheOracle) {
    const auto cpu = cpuRuntime();
    for (Runtime *runtime : {runtimeFor(Limits::full), runtimeFor(Limits::weak), cpu.get()}) {
        ASSERT_TRUE(runtime);
        Random random = randomFor("decoder list");
        Decoder decoder(*runtime, random, 3);
        EXPECT_EQ(decoder.list.size(), 9u);
        decoder.place(0, 3);
        expectVerified(decoder.list);
        decoder.place(3, 3);
        expectVerified(decoder.list);
        if (HasFailure()) return;
    }
}

// Q, K and V wait for nothing, nor do rotary and append for one another.
TEST(List, waitsOnlyWhereMemoryIsShared) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("barriers");
    EXPECT_EQ(Decoder(*runtime, random, 1).list.barrierCount(), 4u);

    // Parts of one memory: neighbours do not wait, and a reader of both does.
    const DeviceTensor x = runtime->allocate(matrix(VKATTN_F32, 4, 64)), w = runtime->allocate(matrix(VKATTN_F32, 64, 64)),
                       both = runtime->allocate(matrix(VKATTN_F32, 4, 128)), z = runtime->allocate(matrix(VKATTN_F32, 4, 128));
    OperationList list = runtime->list();
    EXPECT_EQ(list.add(ProjectionOf{x.part(2, 0, 2), w, z.part(2, 0, 2).part(3, 0, 64)}), VKATTN_OK);
    EXPECT_EQ(list.add(ProjectionOf{x.part(2, 0, 2), w, both.part(2, 0, 2).part(3, 0, 64)}), VKATTN_OK);
    EXPECT_EQ(list.add(ProjectionOf{x.part(2, 2, 2), w, both.part(2, 2, 2).part(3, 0, 64)}), VKATTN_OK);
    EXPECT_EQ(list.barrierCount(), 0u);
    EXPECT_EQ(list.add(NormOf{VKATTN_LAYER_NORM, both, z}), VKATTN_OK);
    EXPECT_EQ(list.barrierCount(), 1u);
    EXPECT_EQ(list.add(ProjectionOf{x, w, both.part(3, 0, 64)}), VKATTN_OK); // written after it was read
    EXPECT_EQ(list.barrierCount(), 2u);
}

// Tokens from one recording are the same as step by step.
TEST(List, replaysFollowDeviceArrays) {
    const auto cpu = cpuRuntime();
    for (Runtime *runtime : {runtimeFor(Limits::full), cpu.get()}) {
        ASSERT_TRUE(runtime);
        Random random = randomFor("replays"), same = random;
        Decoder decoder(*runtime, random, 1), fresh(*runtime, same, 1);
        std::string why;
        ASSERT_EQ(decoder.list.record(&why), VKATTN_OK) << why;
        const Runtime::CompileStatistics compiled = runtime->compileStatistics();
        Random inputs = randomFor("tokens");
        for (uint32_t token = 0; token < 12; ++token) {
            const std::vector<float> x = normals(inputs, Decoder::batch * Decoder::model);
            fill(decoder.x, x), fill(fresh.x, x);
            decoder.place(token, 1), fresh.place(token, 1);
            ASSERT_EQ(decoder.list.submit(&why), VKATTN_OK) << why;
            ASSERT_EQ(decoder.list.wait(&why), VKATTN_OK) << why;
            expectVerified(fresh.list);
            ASSERT_EQ(contents<float>(decoder.z), contents<float>(fresh.z)) << "token " << token;
            ASSERT_EQ(contents<float>(decoder.keys), contents<float>(fresh.keys)) << "token " << token;
        }
        // Tokens of the cache that no start reached are as they were: zeros.
        const std::vector<float> keys = contents<float>(decoder.keys);
        for (uint32_t d = 0; d < Decoder::dim; ++d) EXPECT_EQ(keys[12 * Decoder::dim + d], 0.0f);
        EXPECT_EQ(runtime->compileStatistics().pipelines, compiled.pipelines);

        expectVerified(decoder.list);
    }
}

// A hundred tokens, each made from the one before, from one recording: counters move on and the
// result becomes the next token on the device. The host waits once, takes nothing from the heap
// where drivers take nothing, and the result is that of a host that places every token.
TEST(List, aHundredTokensNeedNoHost) {
    constexpr uint32_t count = 100;
    const auto cpu = cpuRuntime();
    for (Runtime *runtime : {runtimeFor(Limits::full), cpu.get()}) {
        ASSERT_TRUE(runtime);
        Random random = randomFor("a hundred tokens"), same = random;
        Decoder alone(*runtime, random, 1), led(*runtime, same, 1);
        for (Decoder *each : {&alone, &led}) {
            EXPECT_EQ(each->list.add(ScaleAdd(each->x, each->z, 0.25f).step), VKATTN_OK);
            EXPECT_EQ(each->list.add(AppendOf{each->z, each->x}), VKATTN_OK);
        }
        EXPECT_EQ(alone.list.add(AdvanceOf{alone.starts, alone.starts}), VKATTN_OK);
        EXPECT_EQ(alone.list.add(AdvanceOf{alone.lengths, alone.lengths}), VKATTN_OK);
        alone.place(0, 1);
        std::string why;
        ASSERT_EQ(alone.list.record(&why), VKATTN_OK) << why;
        const Runtime::CompileStatistics compiled = runtime->compileStatistics();
        std::array<uint64_t, count> taken{};
        for (uint64_t &each : taken) {
            const uint64_t before = heapAllocations();
            const vkattn_result result = alone.list.submit();
            each = heapAllocations() - before;
            ASSERT_EQ(result, VKATTN_OK);
        }
        ASSERT_EQ(alone.list.wait(&why), VKATTN_OK) << why;
        EXPECT_EQ(runtime->compileStatistics().pipelines, compiled.pipelines);
        std::printf("heap allocations of a replay on %s: %llu\n", runtime->device() ? "the device, its driver's" : "the CPU",
                    static_cast<unsigned long long>(taken[count - 1]));
        if (runtime == cpu.get() && countsHeap()) {
            for (const uint64_t each : taken) EXPECT_EQ(each, 0u);
        }
        for (uint32_t token = 0; token < count; ++token) {
            led.place(token, 1);
            ASSERT_EQ(led.list.run().status, VKATTN_OK);
        }
        EXPECT_EQ(contents<uint32_t>(alone.starts), std::vector<uint32_t>(Decoder::batch, count));
        EXPECT_EQ(contents<float>(alone.x), contents<float>(led.x));
        EXPECT_EQ(contents<float>(alone.keys), contents<float>(led.keys));
        EXPECT_EQ(contents<float>(alone.values), contents<float>(led.values));
    }
}

TEST(List, tensorsAreViewsOfOneMemory) {
    const auto cpu = cpuRuntime();
    for (Runtime *runtime : {runtimeFor(Limits::full), cpu.get()}) {
        ASSERT_TRUE(runtime);
        const DeviceTensor whole = runtime->allocate(matrix(VKATTN_F32, 4, 6));
        ASSERT_TRUE(whole);
        EXPECT_EQ(contents<float>(whole), std::vector<float>(24, 0.0f)) << "a tensor begins as zeros";
        std::vector<float> values(24);
        for (size_t n = 0; n < values.size(); ++n) values[n] = static_cast<float>(n);
        fill(whole, values);
        vkattn_layout transposed = matrix(VKATTN_F32, 6, 4);
        transposed.strideElems[2] = 1, transposed.strideElems[3] = 6;
        const DeviceTensor columns = whole.view(transposed).part(2, 4, 2);
        EXPECT_EQ(contents<float>(columns), (std::vector<float>{4, 10, 16, 22, 5, 11, 17, 23}));
        fill(columns, std::vector<float>{-1, -2, -3, -4, -5, -6, -7, -8});
        values[4] = -1, values[10] = -2, values[16] = -3, values[22] = -4, values[5] = -5, values[11] = -6, values[17] = -7,
        values[23] = -8;
        EXPECT_EQ(contents<float>(whole), values) << "elements between those of the view stay";
        vkattn_layout backwards = matrix(VKATTN_F32, 1, 24);
        backwards.offsetElems = 23, backwards.strideElems[3] = -1;
        std::reverse(values.begin(), values.end());
        EXPECT_EQ(contents<float>(whole.view(backwards)), values);
    }
}

// An array begins where its tensor begins, not with the memory.
TEST(List, arraysMayBePartsOfOthers) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    const DeviceTensor x = runtime->allocate(matrix(VKATTN_F32, 1, 2)), cache = runtime->allocate(matrix(VKATTN_F32, 8, 2)),
                       starts = runtime->allocate(words(3));
    fill(x, std::vector<float>{3, 4});
    fill(starts, std::vector<uint32_t>{5, 2, 7});
    OperationList list = runtime->list();
    ASSERT_EQ(list.add(AppendOf{x, cache, starts.part(3, 1, 1)}), VKATTN_OK);
    ASSERT_EQ(list.run().status, VKATTN_OK);
    EXPECT_EQ(contents<float>(cache.part(2, 2, 1)), (std::vector<float>{3, 4}));
    EXPECT_EQ(contents<float>(cache.part(2, 5, 1)), (std::vector<float>{0, 0}));
}

// A matrix over tokens whose lengths the device has: two of the three tokens count.
TEST(List, projectionsTakeLengths) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    const DeviceTensor e = runtime->allocate(matrix(VKATTN_F32, 2, 3)), tokens = runtime->allocate(matrix(VKATTN_F32, 3, 2)),
                       projected = runtime->allocate(matrix(VKATTN_F32, 2, 2)), lengths = runtime->allocate(words(1));
    fill(e, std::vector<float>{1, 2, 4, 8, 16, 32});
    fill(tokens, std::vector<float>{1, 10, 2, 20, std::numeric_limits<float>::quiet_NaN(), 30});
    fill(lengths, std::vector<uint32_t>{2});
    const vkattn_projection p = tokenProjection(e.layout(), tokens.layout(), projected.layout());
    ProjectionOf step{e.view(p.x), tokens.view(p.w), projected.view(p.y)};
    step.keyLengths = lengths;
    OperationList list = runtime->list();
    std::string why;
    ASSERT_EQ(list.add(step, &why), VKATTN_OK) << why;
    ASSERT_EQ(list.run().status, VKATTN_OK);
    EXPECT_EQ(contents<float>(projected), (std::vector<float>{5, 50, 40, 400}));
}

TEST(List, wrongUsesAreRefused) {
    const auto cpu = cpuRuntime();
    Runtime *device = runtimeFor(Limits::full);
    ASSERT_TRUE(device);
    const std::unique_ptr<Runtime> other = cpuRuntime();
    for (Runtime *runtime : {device, cpu.get()}) {
        const DeviceTensor x = runtime->allocate(matrix(VKATTN_F32, 4, 8)), w = runtime->allocate(matrix(VKATTN_F32, 6, 8)),
                           y = runtime->allocate(matrix(VKATTN_F32, 4, 6)), foreign = other->allocate(matrix(VKATTN_F32, 4, 6));
        OperationList list = runtime->list();
        std::string why;
        const auto expect = [&](vkattn_result result, const char *words) {
            EXPECT_EQ(result, invalid) << words;
            EXPECT_NE(why.find(words), std::string::npos) << "expected \"" << words << "\": " << why;
            EXPECT_EQ(list.size(), 0u) << "the list stays as it was";
        };
        expect(list.add(ProjectionOf{x, w, foreign}, &why), "another Runtime's");
        expect(list.add(ProjectionOf{x, w, {}}, &why), "y");
        expect(list.add(ProjectionOf{x, x, y}, &why), "expected");
        expect(list.submit(&why), "not recorded");
        const vkattn_projection projection = vkattn::projection(x.layout(), w.layout(), y.layout());
        const ListOperand twoOfThree[] = {{VKATTN_X, x}, {VKATTN_W, w}};
        expect(list.add(operation(projection), twoOfThree, &why), "y is missing");
        const ListOperand small[] = {{VKATTN_X, x}, {VKATTN_W, w}, {VKATTN_Y, runtime->allocate(matrix(VKATTN_F32, 1, 6))}};
        expect(list.add(operation(projection), small, &why), "expected at least");
        const ListOperand empty[] = {{VKATTN_X, x}, {VKATTN_W, w}, {VKATTN_Y, {}}};
        expect(list.add(operation(projection), empty, &why), "has no tensor");
        AttentionOf sliced{x, x, x, runtime->allocate(x.layout())};
        sliced.options.sliceCount = 2;
        expect(list.add(sliced, &why), "one submission");
        AppendOf strided{x, runtime->allocate(x.layout()), runtime->allocate(matrix(VKATTN_BITS32, 2, 1))};
        expect(list.add(strided, &why), "is an array");
        expect(list.add(AdvanceOf{x, x}, &why), "expected VKATTN_BITS32");
        expect(list.add(AdvanceOf{runtime->allocate(words(3)), runtime->allocate(words(2))}, &why), "y is [1, 1, 1, 2]");
        expect(list.add(AdvanceOf{runtime->allocate(words(3)), {}}, &why), "y of the advance has no layout");

        EXPECT_FALSE(x.part(2, 3, 2, &why));
        EXPECT_NE(why.find("dimension 2"), std::string::npos) << why;
        EXPECT_FALSE(x.view(matrix(VKATTN_F32, 5, 8), &why));
        EXPECT_NE(why.find("its memory has 128"), std::string::npos) << why;
        vkattn_layout before = matrix(VKATTN_F32, 4, 8);
        before.strideElems[2] = -8;
        EXPECT_FALSE(x.view(before, &why));
        EXPECT_NE(why.find("before the first byte"), std::string::npos) << why;
        EXPECT_FALSE(runtime->allocate(before));
        EXPECT_FALSE(DeviceTensor().part(0, 0, 1, &why));
        float one = 0;
        EXPECT_EQ(x.upload(&one, 4, &why), invalid);
        EXPECT_NE(why.find("expected 128"), std::string::npos) << why;
        EXPECT_EQ(DeviceTensor().download(&one, 4, &why), invalid);
        EXPECT_EQ(x.upload(nullptr, 128, &why), invalid);

        // An output on an input where that is no in-place operation: found when the list is recorded.
        ASSERT_EQ(list.add(ProjectionOf{x, w, x.view(matrix(VKATTN_F32, 4, 6))}, &why), runtime == device ? VKATTN_OK : VKATTN_OK) << why;
        if (runtime == device) {
            EXPECT_EQ(list.record(&why), invalid);
            EXPECT_NE(why.find("step 0 (projection)"), std::string::npos) << why;
        }
    }
}

// What a list leaves in memory is what its steps leave that run one by one, each waited for.
TEST(List, randomListsComputeWhatTheirStepsDo) {
    const auto cpu = cpuRuntime();
    for (Runtime *runtime : {runtimeFor(Limits::full), runtimeFor(Limits::weak), cpu.get()}) {
        ASSERT_TRUE(runtime);
        const Draws draws(10, 200);
        for (int n = 0; draws.take(n); ++n) {
            Random random = randomFor("random list " + std::to_string(n)), same = random;
            RandomList together(*runtime, random, 12), oneByOne(*runtime, same, 12);
            const RunResult result = together.list.run();
            ASSERT_EQ(result.status, VKATTN_OK) << result.message;
            expectVerified(oneByOne.list);
            ASSERT_EQ(together.contents(), oneByOne.contents()) << "list " << n;
        }
    }
}

// A cache fills and its counters move on with replays alone, also where the limit is reached.
TEST(List, countersMoveOnBetweenReplays) {
    const auto cpu = cpuRuntime();
    for (Runtime *runtime : {runtimeFor(Limits::full), runtimeFor(Limits::weak), cpu.get()}) {
        ASSERT_TRUE(runtime);
        constexpr uint32_t tokens = 2, room = 9, dims = 4;
        const DeviceTensor x = runtime->allocate(matrix(VKATTN_F32, tokens, dims)),
                           cache = runtime->allocate(matrix(VKATTN_F32, room, dims)), starts = runtime->allocate(words(1)),
                           next = runtime->allocate(words(1));
        Random random = randomFor("counters");
        const std::vector<float> row = normals(random, tokens * dims);
        fill(x, row), fill(cache, std::vector<float>(room * dims, -7.0f));
        fill(starts, std::vector<uint32_t>{1}), fill(next, std::vector<uint32_t>{0});
        OperationList list = runtime->list();
        std::string why;
        ASSERT_EQ(list.add(AppendOf{x, cache, starts}, &why), VKATTN_OK) << why;
        ASSERT_EQ(list.add(AdvanceOf{starts, next, 2 * tokens}, &why), VKATTN_OK) << why;
        ASSERT_EQ(list.add(AdvanceOf{starts, starts, tokens, 6}, &why), VKATTN_OK) << why;
        EXPECT_EQ(list.barrierCount(), 1u) << "the words are written after they are read, and nothing else is shared";
        ASSERT_EQ(list.record(&why), VKATTN_OK) << why;
        const uint32_t after[] = {3, 5, 6, 6}, ahead[] = {5, 7, 9, 10};
        for (int replay = 0; replay < 4; ++replay) {
            ASSERT_EQ(list.submit(&why), VKATTN_OK) << why;
            ASSERT_EQ(list.wait(&why), VKATTN_OK) << why;
            EXPECT_EQ(contents<uint32_t>(starts), std::vector<uint32_t>{after[replay]});
            EXPECT_EQ(contents<uint32_t>(next), std::vector<uint32_t>{ahead[replay]});
        }
        const std::vector<float> got = contents<float>(cache);
        for (uint32_t token = 0; token < room; ++token) {
            // Starts were 1, 3, 5 and 6.
            const uint32_t last = token >= 6 ? token - 6 : (token + 1) % 2;
            for (uint32_t d = 0; d < dims; ++d)
                EXPECT_EQ(got[token * dims + d], token == 0 || token > 7 ? -7.0f : row[last * dims + d]) << token;
        }
        expectVerified(list);
    }
}

// Everything may go in any order.
TEST(List, tensorsAndListsOutliveTheirRuntime) {
    RuntimeOptions options = optionsFor(Limits::full);
    std::unique_ptr<Runtime> runtime = Runtime::open(options, nullptr, nullptr);
    ASSERT_TRUE(runtime && runtime->device());
    Random random = randomFor("lifetime");
    auto decoder = std::make_unique<Decoder>(*runtime, random, 1);
    runtime.reset();
    decoder->place(0, 1);
    EXPECT_EQ(decoder->list.run().status, VKATTN_OK);
    const DeviceTensor z = decoder->z;
    decoder.reset();
    EXPECT_EQ(contents<float>(z).size(), size_t{Decoder::batch} * Decoder::model);
}

// From no step on, a list takes further steps whenever.
TEST(List, stepsMayBeAddedAfterARun) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    OperationList list = runtime->list();
    EXPECT_EQ(list.run().status, VKATTN_OK);
    const DeviceTensor x = runtime->allocate(vector(VKATTN_F32, 3)), y = runtime->allocate(x.layout()), z = runtime->allocate(x.layout());
    const std::vector<float> values = {1, 2, 3};
    fill(x, values);
    for (const DeviceTensor &to : {y, z}) {
        ASSERT_EQ(list.add(AppendOf{x, to}), VKATTN_OK);
        EXPECT_EQ(list.run().status, VKATTN_OK);
        EXPECT_EQ(contents<float>(to), values);
    }
}

// Ring attention: attention over the keys of each part writes its result behind the running one, and a merge puts the
// two together where the running one lies. Replayed, without a part's keys changing, it is attention over all keys.
TEST(List, partsOfAttentionMergeIntoARunningResult) {
    Runtime *const runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("running result");
    constexpr uint32_t parts = 8, keysOfPart = 13, heads = 2, queries = 5, dims = 16;
    const DeviceTensor q = runtime->allocate(packed(VKATTN_F32, 1, heads, queries, dims)),
                       keys = runtime->allocate(packed(VKATTN_F32, 1, heads, parts * keysOfPart, dims)),
                       values = runtime->allocate(keys.layout()), outs = runtime->allocate(packed(VKATTN_F32, 2, heads, queries, dims)),
                       lses = runtime->allocate(packed(VKATTN_F32, 2, heads, queries, 1)), whole = runtime->allocate(q.layout()),
                       wholeLse = runtime->allocate(packed(VKATTN_F32, 1, heads, queries, 1));
    for (const DeviceTensor &each : {q, keys, values}) {
        const uint32_t *e = each.layout().extent;
        fill(each, normals(random, size_t{e[1]} * e[2] * e[3]));
    }
    OperationList list = runtime->list();
    std::string why;
    for (uint32_t t = 0; t < parts; ++t) {
        const uint32_t slot = t ? 1 : 0;
        AttentionOf attention{q, keys.part(2, t * keysOfPart, keysOfPart), values.part(2, t * keysOfPart, keysOfPart),
                              outs.part(0, slot, 1)};
        attention.lse = lses.part(0, slot, 1);
        ASSERT_EQ(list.add(attention, &why), VKATTN_OK) << why;
        if (t == 0) continue;
        ASSERT_EQ(list.add(MergeOf{outs, lses, outs.part(0, 0, 1), lses.part(0, 0, 1), 2}, &why), VKATTN_OK) << why;
    }
    AttentionOf all{q, keys, values, whole};
    all.lse = wholeLse;
    ASSERT_EQ(list.add(all, &why), VKATTN_OK) << why;
    for (int replay = 0; replay < 2; ++replay) {
        ASSERT_EQ(list.run().status, VKATTN_OK);
        const std::vector<float> got = contents<float>(outs.part(0, 0, 1)), expected = contents<float>(whole);
        for (size_t n = 0; n < expected.size(); ++n) EXPECT_NEAR(got[n], expected[n], 4e-6) << n;
        const std::vector<float> lse = contents<float>(lses.part(0, 0, 1)), expectedLse = contents<float>(wholeLse);
        for (size_t n = 0; n < expectedLse.size(); ++n) EXPECT_NEAR(lse[n], expectedLse[n], 4e-6) << n;
    }
}

// A recorded list appends where its device arrays say: into a ring, and into pages whose table changes.
TEST(List, appendsFollowStartsAndTables) {
    Runtime *const runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    const DeviceTensor x = runtime->allocate(matrix(VKATTN_F32, 2, 1)), starts = runtime->allocate(words(1)),
                       table = runtime->allocate(words(3)), ring = runtime->allocate(matrix(VKATTN_F32, 5, 1)),
                       memory = runtime->allocate(matrix(VKATTN_F32, 2, 5));
    // [token][page], with a page behind the pool's last one.
    const DeviceTensor pool = memory.view({VKATTN_F32, {4, 1, 2, 1}, {1, 10, 5, 1}, 0});
    fill(ring, std::vector<float>(5, -1)), fill(memory, std::vector<float>(10, -1));
    OperationList list = runtime->list();
    std::string why;
    AppendOf round{x, ring, starts};
    round.ring = true;
    AppendOf paged{x, pool, starts};
    paged.pageTable = table;
    ASSERT_EQ(list.add(round, &why), VKATTN_OK) << why;
    ASSERT_EQ(list.add(paged, &why), VKATTN_OK) << why;
    const auto step = [&](float first, uint32_t start, const std::vector<uint32_t> &pages) {
        fill(x, std::vector<float>{first, first + 1}), fill(starts, std::vector<uint32_t>{start}), fill(table, pages);
        ASSERT_EQ(list.run().status, VKATTN_OK);
    };
    step(10, 1, {3, 0, 9});
    EXPECT_EQ(contents<float>(ring), (std::vector<float>{-1, 10, 11, -1, -1}));
    EXPECT_EQ(contents<float>(memory), (std::vector<float>{11, -1, -1, -1, -1, -1, -1, -1, 10, -1}));
    step(20, 4, {3, 0, 1}); // round the end of the ring, and the last page
    EXPECT_EQ(contents<float>(ring), (std::vector<float>{21, 10, 11, -1, 20}));
    EXPECT_EQ(contents<float>(memory), (std::vector<float>{11, 20, -1, -1, -1, -1, 21, -1, 10, -1}));
    step(30, 5, {3, 0, 0xffffffff}); // a page that is absent, and past the end
    EXPECT_EQ(contents<float>(ring), (std::vector<float>{30, 31, 11, -1, 20}));
    EXPECT_EQ(contents<float>(memory), (std::vector<float>{11, 20, -1, -1, -1, -1, 21, -1, 10, -1}));
    step(40, 4, {3, 0, 4}); // a page that the pool lacks, whose first token would lie between those of others
    EXPECT_EQ(contents<float>(ring), (std::vector<float>{41, 31, 11, -1, 40}));
    EXPECT_EQ(contents<float>(memory), (std::vector<float>{11, 20, -1, -1, -1, -1, 21, -1, 10, -1}));
}
