// A mixed batch, some of whose sequences take a chunk of a prompt and some a token, recorded once: lengths, places and
// pages are what the device finds when the commands run.
#include "device/environment.hpp"
#include "device/lists.hpp"

#include <vkattn/list.hpp>

#include <cmath>

using namespace vkattn;
using namespace vkattn::test;

namespace {

using conform::Random;

struct MixedBatch {
    static constexpr uint32_t batch = 4, heads = 2, dim = 8, chunk = 2, pageTokens = 16, replays = 1000, rounds = 10;
    static constexpr uint32_t slotPages = (chunk * replays + pageTokens) / pageTokens + 1, pages = batch * slotPages + 3;
    // Sequences of the first half take a chunk a step, the others a token: the row behind it is computed for nothing.
    static constexpr uint32_t perStep[batch] = {chunk, chunk, 1, 1};
    Runtime &runtime;
    DeviceTensor x, y, z, w, gamma, keys, values, places, lengths, table;
    OperationList list;

    MixedBatch(Runtime &of, uint64_t seed) : runtime(of), list(of.list()) {
        Random random(seed);
        const auto allocate = [&](const vkattn_layout &layout) {
            std::string why;
            DeviceTensor tensor = runtime.allocate(layout, &why);
            EXPECT_TRUE(tensor) << why;
            return tensor;
        };
        x = allocate(packed(VKATTN_F32, batch, 1, chunk, heads * dim)), y = allocate(x.layout()), z = allocate(x.layout());
        w = allocate(matrix(VKATTN_F32, heads * dim, heads * dim)), gamma = allocate(vector(VKATTN_F32, heads * dim));
        keys = allocate(packed(VKATTN_F32, pages, heads, pageTokens, dim)), values = allocate(keys.layout());
        places = allocate(words(batch)), lengths = allocate(words(batch)), table = allocate(words(batch * slotPages));
        const auto draw = [&](const DeviceTensor &tensor, size_t count, float scale) {
            std::vector<float> numbers(count);
            for (float &each : numbers) each = scale * (static_cast<float>(random() % 2001) / 1000 - 1);
            upload(tensor, numbers);
        };
        draw(x, size_t{batch} * chunk * heads * dim, 1);
        draw(w, size_t{heads} * dim * heads * dim, 0.6f);
        upload(gamma, std::vector<float>(heads * dim, 1.0f));
        for (const DeviceTensor &pool : {keys, values})
            upload(pool, std::vector<float>(size_t{pages} * heads * pageTokens * dim, untouched));
        upload(places, std::vector<uint32_t>(batch, 0));
        upload(lengths, std::vector<uint32_t>(perStep, perStep + batch));

        std::string why;
        const auto add = [&](const auto &operation) { EXPECT_EQ(list.add(operation, &why), VKATTN_OK) << why; };
        const DeviceTensor in = x.view(packedTokenMajor(VKATTN_F32, batch, heads, chunk, dim)), out = y.view(in.layout());
        for (const DeviceTensor &pool : {keys, values}) {
            AppendOf append{in, pool, places};
            append.pageTable = table;
            add(append);
        }
        AttentionOf attention{in, keys, values, out};
        attention.keyLengths = lengths, attention.pageTable = table, attention.queryOffsets = places;
        attention.options.flags = VKATTN_CAUSAL | VKATTN_DETERMINISTIC;
        add(attention);
        // The next tokens follow from these.
        ProjectionOf project{y, w, z};
        project.residual = x;
        add(project);
        add(NormOf{VKATTN_RMS_NORM, z, x, gamma});
        for (const DeviceTensor &array : {places, lengths}) {
            add(AdvanceOf{array.part(3, 0, 2), array.part(3, 0, 2), chunk});
            add(AdvanceOf{array.part(3, 2, 2), array.part(3, 2, 2), 1});
        }
    }

    static constexpr float untouched = 12345;
    template <class Word> static void upload(const DeviceTensor &tensor, const std::vector<Word> &all) {
        std::string why;
        EXPECT_EQ(tensor.upload(all.data(), all.size() * sizeof(Word), &why), VKATTN_OK) << why;
    }
    template <class Word> static std::vector<Word> contents(const DeviceTensor &tensor, size_t count) {
        std::vector<Word> all(count);
        std::string why;
        EXPECT_EQ(tensor.download(all.data(), all.size() * sizeof(Word), &why), VKATTN_OK) << why;
        return all;
    }
    // The page of a place of the table: sequences have theirs among each other's.
    static uint32_t pageOf(uint32_t entry, uint32_t place) { return 1 + place * batch + (entry + place) % batch; }
    // The pages that so many steps fill; the others are absent.
    void givePages(uint32_t steps) {
        std::vector<uint32_t> all(size_t{batch} * slotPages, 0xffffffffu);
        for (uint32_t b = 0; b < batch; ++b)
            for (uint32_t place = 0; place * pageTokens < perStep[b] * steps; ++place)
                all[size_t{b} * slotPages + place] = pageOf(b, place);
        upload(table, all);
    }
};

} // namespace

TEST(MixedBatchOnDevice, isRecordedOnceAndReplayedAThousandTimes) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    const uint64_t seed = randomFor("mixed batch")();
    std::vector<float> results[2];
    // The first with pages as they are needed; the second has all from the start.
    for (const bool atOnce : {false, true}) {
        MixedBatch mixed(*runtime, seed);
        std::string why;
        ASSERT_EQ(mixed.list.record(&why), VKATTN_OK) << why;
        for (uint32_t round = 0; round < MixedBatch::rounds; ++round) {
            if (!atOnce || round == 0)
                mixed.givePages(atOnce ? MixedBatch::replays : MixedBatch::replays / MixedBatch::rounds * (round + 1));
            for (uint32_t n = 0; n < MixedBatch::replays / MixedBatch::rounds; ++n) ASSERT_EQ(mixed.list.submit(&why), VKATTN_OK) << why;
            ASSERT_EQ(mixed.list.wait(&why), VKATTN_OK) << why;
        }
        const std::vector<uint32_t> lengths = MixedBatch::contents<uint32_t>(mixed.lengths, MixedBatch::batch);
        for (uint32_t b = 0; b < MixedBatch::batch; ++b) EXPECT_EQ(lengths[b], MixedBatch::perStep[b] * (MixedBatch::replays + 1));
        std::vector<float> &all = results[atOnce];
        all = MixedBatch::contents<float>(mixed.x, size_t{MixedBatch::batch} * MixedBatch::chunk * MixedBatch::heads * MixedBatch::dim);
        for (uint32_t b = 2; b < MixedBatch::batch; ++b) // rows that no sequence has
            std::fill_n(all.begin() + static_cast<ptrdiff_t>((b * MixedBatch::chunk + 1) * MixedBatch::heads * MixedBatch::dim),
                        MixedBatch::heads * MixedBatch::dim, 0.0f);
        for (const float each : all) ASSERT_TRUE(std::isfinite(each));
        // Pages that nobody has.
        const size_t pageFloats = size_t{MixedBatch::heads} * MixedBatch::pageTokens * MixedBatch::dim;
        const std::vector<float> pool = MixedBatch::contents<float>(mixed.keys, MixedBatch::pages * pageFloats);
        for (const uint32_t page : {0u, MixedBatch::pages - 1})
            for (size_t n = 0; n < pageFloats; ++n) ASSERT_EQ(pool[page * pageFloats + n], MixedBatch::untouched) << "page " << page;
        // One step more, each operation against the oracle on what it really had.
        if (!atOnce) mixed.givePages(MixedBatch::replays + 1);
        expectVerified(mixed.list);
    }
    EXPECT_EQ(results[0], results[1]) << "pages are where they are, whenever they came";
}
