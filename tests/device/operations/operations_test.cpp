// Projections, norms and their gradients, rotary embedding, append, advance, mean, merge, keep and drop on the device: drawn cases against
// the oracle, with gaps that are canaries in outputs and NaN in inputs.
#include "conform/cases/operation_case.hpp"
#include "device/environment.hpp"
#include "support/extent.hpp"

#include <cmath>
#include <cstring>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// Returns what is wrong; empty: nothing.
std::string runAndVerify(Runtime &runtime, OperationCase &after, OperationCase &before) {
    const vkattn_operation operation = after.operation();
    const RunResult result = runtime.run(operation, after.operands());
    if (result.status != VKATTN_OK) return "status " + std::to_string(result.status) + ": " + result.message;
    if (!result.fallbackReason.empty()) return "the CPU computed: " + result.fallbackReason;
    return judge(after, before).wrong;
}

void expectDrawnCasesPass(Limits limits, const Draws &draws) {
    Runtime *runtime = runtimeFor(limits);
    ASSERT_TRUE(runtime);
    Random random = randomFor("operations");
    int refused = 0, n = 0;
    for (; draws.take(n); ++n) {
        OperationCase before = drawOperation(random, otherKind(n));
        OperationCase after = before;
        const std::string wrong = runAndVerify(*runtime, after, before);
        // Rows that are over a tight limit by themselves, as transposed tensors have them; routines that
        // the device cannot run.
        const bool routine = before.kind == VKATTN_PROJECTION && before.projection.kernel >= VKATTN_PROJECTION_SHUFFLED;
        if (routine && wrong.rfind("status -2", 0) == 0)
            ++refused;
        else if (limits == Limits::tight && wrong.find("where nothing more can be cut") != std::string::npos)
            ++refused;
        else
            ASSERT_EQ(wrong, "") << "case " << n << ": " << before.text();
    }
    // A tenth are projections, most of which ask for a routine.
    EXPECT_LT(refused, n / 3);
    std::printf("%d drawn operations, %d over the limits\n", n, refused);
}

// Operations that drawn cases rarely are.
std::vector<OperationCase> edgeCases() {
    std::vector<OperationCase> list;
    const auto batchOfTwo = [](OperationCase c) {
        for (const vkattn_role role : {VKATTN_X, VKATTN_Y}) {
            vkattn_layout &l = c.layout(role);
            l = packed(l.dtype, 2, l.extent[1], l.extent[2], l.extent[3]);
        }
        return c;
    };
    // Boxes of rows where limits are tight: each continues the positions of the one before.
    OperationCase far = plainRotary(VKATTN_PAIRS_INTERLEAVED, 200, 128, 16, 300);
    far.rotary.start = 50;
    list.push_back(far);
    // Boxes of columns there, with both addends.
    OperationCase wide = plainProjection(3, 100, 300);
    wide.projection.bias = vector(VKATTN_F32, 300);
    wide.projection.residual = wide.projection.y;
    list.push_back(wide);
    // Lengths beside one addend, both, and none, in batches that are cut where limits are tight.
    for (const int addends : {0, 1, 2, 3}) {
        OperationCase lengths = plainProjection(30, 67, 40);
        lengths.projection.x = packed(VKATTN_F32, 5, 3, 30, 67);
        lengths.projection.y = packed(VKATTN_F32, 5, 3, 30, 40);
        if (addends & 1) lengths.projection.bias = vector(VKATTN_F16, 40);
        if (addends & 2) lengths.projection.residual = lengths.projection.y;
        lengths.projection.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
        lengths.lengths = {67, 0, 33, 0xffffffff, 1};
        list.push_back(lengths);
    }
    // Entries of the arrays that differ between the entries of a batch.
    OperationCase positions = batchOfTwo(plainRotary(VKATTN_PAIRS_HALF, 3, 8, 8, 10));
    positions.rotary.presentRoles = VKATTN_PRESENT(VKATTN_POSITIONS);
    positions.positions = {1, 9, 4, 7, 2, 5};
    list.push_back(positions);
    OperationCase starts = batchOfTwo(plainRotary(VKATTN_PAIRS_HALF, 3, 8, 8, 10));
    starts.rotary.presentRoles = VKATTN_PRESENT(VKATTN_STARTS);
    starts.starts = {1, 6};
    list.push_back(starts);
    // A start from which tokens would wrap to the front of the cache.
    OperationCase wraps = batchOfTwo(plainAppend(9, 20, 8));
    wraps.append.presentRoles = VKATTN_PRESENT(VKATTN_STARTS);
    wraps.starts = {0xfffffffe, 15};
    list.push_back(wraps);
    // Rows whose last block is no whole one, and rows whose last codes fill no word.
    for (const vkattn_dtype type : {VKATTN_Q8_0, VKATTN_Q4_0, VKATTN_INT8, VKATTN_FP8_E4M3})
        for (const uint32_t dims : {5u, 40u, 72u}) {
            OperationCase rows = plainAppend(5, 9, dims);
            rows.append.y = packed(type, 1, 1, 9, dims);
            list.push_back(rows);  // rows that stay follow
            rows.append.start = 4; // to the end of the memory
            list.push_back(rows);
        }
    // More words than a box has where limits are tight, backwards and with gaps.
    OperationCase many = plainAdvance(40000);
    many.advance.by = 5, many.advance.limit = 0xfffffff0u;
    many.advance.x.strideElems[3] = -2, many.advance.x.offsetElems = 80000;
    many.advance.y.strideElems[3] = 3;
    list.push_back(many);
    // In place, nearly all over the limit.
    OperationCase stopped = plainAdvance(65);
    stopped.advance.limit = 3;
    stopped.inPlace[VKATTN_Y] = VKATTN_X;
    list.push_back(stopped);
    list.push_back(plainAdvance(0));
    // Several boxes of rows where limits are tight; runs of groups that end within the groups.
    OperationCase ofHeads = plainMean(33, 40, 130);
    ofHeads.mean = vkattn::mean(packedTokenMajor(VKATTN_F32, 2, 33, 40, 130), packed(VKATTN_F16, 2, 1, 40, 130));
    list.push_back(ofHeads);
    list.push_back(plainMean(3, 7, 0));
    // Several boxes of rows where limits are tight, with the parts of a token beside each other; the number of parts
    // around the ends of runs; parts between whose elements other parts lie, onto the first of which the result goes.
    for (const int64_t parts : {1, 4, 5, 8, 256}) {
        const uint32_t heads = parts > 8 ? 1 : 3, dims = parts == 5 ? 131 : parts > 8 ? 15 : 64;
        OperationCase merge = plainMerge(static_cast<uint32_t>(parts), heads, parts > 8 ? 30 : 90, dims);
        const int64_t row = int64_t{heads} * dims;
        const int64_t strides[] = {row, dims, parts * row, 1};
        std::copy_n(strides, 4, merge.merge.x.strideElems);
        list.push_back(merge);
    }
    OperationCase interleaved = plainMerge(3, 2, 40, 66);
    interleaved.merge.x = {VKATTN_BF16, {3, 2, 40, 66}, {132, 66, 396, 1}, 3};
    interleaved.merge.y = interleaved.merge.x, interleaved.merge.y.extent[0] = 1;
    interleaved.merge.lse = interleaved.merge.xLse, interleaved.merge.lse.extent[0] = 1;
    interleaved.inPlace = {{VKATTN_Y, VKATTN_X}, {VKATTN_LSE, VKATTN_X_LSE}};
    list.push_back(interleaved);
    OperationCase batches = plainMerge(4, 3, 12, 40);
    batches.merge.x = packedTokenMajor(VKATTN_F16, 20, 3, 12, 40);
    batches.merge.xLse = packed(VKATTN_F32, 20, 3, 12, 1);
    batches.merge.y = packed(VKATTN_F32, 5, 3, 12, 40);
    batches.merge.lse = packed(VKATTN_F32, 5, 3, 12, 1);
    list.push_back(batches);
    list.push_back(plainMerge(3, 2, 0, 8));
    // Rings: around the end, more tokens than there is room for, a start that is negative.
    for (const uint32_t tokens : {5u, 20u, 21u, 55u}) {
        OperationCase ring = batchOfTwo(plainAppend(tokens, 20, 9));
        ring.append.flags = VKATTN_APPEND_RING;
        ring.append.y.dtype = VKATTN_F16;
        ring.append.presentRoles = VKATTN_PRESENT(VKATTN_STARTS);
        ring.starts = {tokens % 2 ? 0xffffffffu : 0x7fffffffu, 18};
        list.push_back(ring);
        ring.append.presentRoles = 0, ring.append.start = 1u << 30;
        ring.starts.clear();
        list.push_back(ring);
    }
    // A pool that is cut into boxes of pages where limits are tight, in both orders of a page; absent pages. In the second
    // elements of pages lie between each other's.
    for (const bool woven : {false, true}) {
        const uint32_t count = woven ? 20 : 40;
        OperationCase pages = plainAppend(50, 1, 64);
        pages.append = appendToPages(packed(VKATTN_F32, 2, 3, 50, 64), packedTokenMajor(VKATTN_BF16, count, 3, 16, 64), 5);
        pages.append.presentRoles |= VKATTN_PRESENT(VKATTN_STARTS);
        if (woven) {
            pages.append.flags = VKATTN_APPEND_RING;
            const int64_t strides[] = {64, 16 * 21 * 64, 21 * 64, 1};
            std::copy_n(strides, 4, pages.append.y.strideElems);
        }
        pages.starts = {10, woven ? 75u : 60u};
        pages.pageTable = {count - 1, 3, 0xffffffff, 0, 1, 7, count, count - 2, 12, 0x7fffffff};
        list.push_back(pages);
    }
    // Several boxes of rows and of groups where limits are tight, and of words; rows that end within a
    // word.
    OperationCase planes = plainKeep(5, 200, 1000);
    planes.keep.y = packedTokenMajor(VKATTN_BITS32, 3, 5, 200, 32);
    planes.keep.seed = 0xfedcba9876543210u;
    list.push_back(planes);
    list.push_back(plainKeep(1, 2, 700001));
    OperationCase nothing = plainKeep(2, 3, 40);
    nothing.keep.probability = 1;
    list.push_back(nothing);
    list.push_back(plainKeep(3, 7, 0));
    // Several boxes of rows, groups and entries where limits are tight; rows that end within a block.
    OperationCase output = plainDrop(5, 200, 203);
    output.drop.x = output.drop.y = packedTokenMajor(VKATTN_F32, 3, 5, 200, 203);
    output.drop.residual = packed(VKATTN_F16, 3, 5, 200, 203);
    output.drop.seed = 0xfedcba9876543210u;
    output.drop.firstRow = 1u << 30, output.drop.firstPlane = 0xfffffff0;
    list.push_back(output);
    for (const double probability : {0.0, 1.0}) {
        OperationCase end = plainDrop(2, 3, 41);
        end.drop.probability = probability;
        list.push_back(end);
    }
    list.push_back(plainDrop(3, 7, 0));
    // Blocks of rows that end within the rows, and several boxes where limits are tight.
    for (const vkattn_norm_kind kind : {VKATTN_LAYER_NORM, VKATTN_RMS_NORM}) {
        list.push_back(plainNormGradient(kind, 200, 130));
        list.push_back(plainNormGradient(kind, 1, 1));
        // Rows that end within a word, to which a residual is added where they lie.
        OperationCase past = plainNormGradient(kind, 200, 131);
        past.normGradient.residual = past.normGradient.dY;
        past.normGradient.dX.dtype = VKATTN_BF16;
        list.push_back(past);
        OperationCase sums = plainNormGradient(kind, 64, 33); // without dX, and so without gamma
        sums.normGradient.dX = sums.normGradient.dBeta = {};
        list.push_back(sums);
    }
    return list;
}

} // namespace

TEST(OperationsOnDevice, areRightAtTheEdges) {
    Random random = randomFor("edges of operations");
    for (const Limits limits : {Limits::full, Limits::tight, Limits::weak}) {
        Runtime *runtime = runtimeFor(limits);
        ASSERT_TRUE(runtime);
        for (OperationCase &before : edgeCases()) {
            before.fill(random);
            OperationCase after = before;
            EXPECT_EQ(runAndVerify(*runtime, after, before), "") << before.text();
        }
    }
}

// In one pass the variance would be the small difference of large sums.
TEST(OperationsOnDevice, normsSubtractLargeMeans) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("large means");
    OperationCase before = plainNorm(VKATTN_LAYER_NORM, 20, 130);
    before.fill(random);
    HostTensor &x = before.tensor(VKATTN_X);
    for (uint32_t row = 0; row < 20; ++row)
        for (uint32_t dim = 0; dim < 130; ++dim) x.set(0, 0, row, dim, x.get(0, 0, row, dim) + 10000);
    OperationCase after = before;
    EXPECT_EQ(runAndVerify(*runtime, after, before), "");
}

TEST(OperationsOnDevice, areWithinTheBoundsOfTheOracle) {
    expectDrawnCasesPass(Limits::full, {64, 1600});
}

TEST(OperationsOnDevice, areCutToMeetTightLimits) {
    expectDrawnCasesPass(Limits::tight, {24, 800});
}

TEST(OperationsOnDevice, needNoMoreThanVulkan10Guarantees) {
    expectDrawnCasesPass(Limits::weak, {24, 800});
}

// The longest sums that operations take. Ones and small whole numbers: every sum is exact, so that a
// term that is left out shows, and the work of the oracle stays small.
TEST(OperationsOnDevice, reachTheirLimits) {
    for (const Limits limits : {Limits::full, Limits::weak}) {
        Runtime *runtime = runtimeFor(limits);
        ASSERT_TRUE(runtime);
        const auto ones = [](OperationCase &c, vkattn_role role) {
            HostTensor &t = c.tensor(role);
            const vkattn_layout l = c.layout(role);
            for (uint32_t g = 0; g < l.extent[1]; ++g)
                for (uint32_t r = 0; r < l.extent[2]; ++r)
                    for (uint32_t d = 0; d < l.extent[3]; ++d) t.set(0, g, r, d, 1.0f);
        };
        Random random = randomFor("limits");
        const uint32_t in = fullExtent() ? 1u << 19 : 100001;
        for (const vkattn_projection_kernel kernel :
             {VKATTN_PROJECTION_AUTO, VKATTN_PROJECTION_SHARED, VKATTN_PROJECTION_SHUFFLED, VKATTN_PROJECTION_FEW})
            for (const bool addends : {false, true}) {
                if (!isDrawn(random, 2)) continue;
                OperationCase c = plainProjection(9, in, 2);
                c.projection.kernel = kernel;
                if (addends) c.projection.bias = vector(VKATTN_F32, 2), c.projection.residual = c.projection.y;
                c.fill(random);
                for (const vkattn_role role : {VKATTN_X, VKATTN_W}) ones(c, role);
                if (addends)
                    for (const vkattn_role role : {VKATTN_BIAS, VKATTN_RESIDUAL}) ones(c, role);
                const RunResult result = runtime->run(c.operation(), c.operands());
                if (result.status == VKATTN_ERROR_UNSUPPORTED) continue; // SHUFFLED
                ASSERT_EQ(result.status, VKATTN_OK) << result.message;
                for (uint32_t r = 0; r < 9; ++r)
                    for (uint32_t n = 0; n < 2; ++n)
                        EXPECT_EQ(c.tensor(VKATTN_Y).get(0, 0, r, n), static_cast<float>(in + (addends ? 2 : 0))) << "kernel " << kernel;
            }
        OperationCase mean = plainMean(1u << 20, 1, 1);
        mean.fill(random);
        ones(mean, VKATTN_X);
        ASSERT_EQ(runtime->run(mean.operation(), mean.operands()).status, VKATTN_OK);
        EXPECT_EQ(mean.tensor(VKATTN_Y).get(0, 0, 0, 0), 1.0f);
        OperationCase norm = plainNorm(VKATTN_LAYER_NORM, 1, 1u << 20), gradient = plainNormGradient(VKATTN_RMS_NORM, 1, 1u << 20);
        for (OperationCase *const c : {&norm, &gradient}) {
            c->fill(random);
            OperationCase before = *c;
            ASSERT_EQ(runtime->run(c->operation(), c->operands()).status, VKATTN_OK);
            EXPECT_EQ(judge(*c, before).wrong, "");
        }
    }
}

// Lengths before, at and behind the end of a part of the inner dims, which is a dispatch of its own, and the sums of which
// wait in the workspace beside the lengths.
TEST(OperationsOnDevice, lengthsReachAcrossParts) {
    for (const Limits limits : {Limits::full, Limits::weak}) {
        Runtime *runtime = runtimeFor(limits);
        ASSERT_TRUE(runtime);
        Random random = randomFor("lengths of parts");
        constexpr uint32_t in = 70001;
        const std::vector<uint32_t> lengths = {70, 32768, 32769, 65537, 0, in};
        for (const vkattn_projection_kernel kernel :
             {VKATTN_PROJECTION_AUTO, VKATTN_PROJECTION_SHARED, VKATTN_PROJECTION_SHUFFLED, VKATTN_PROJECTION_FEW}) {
            if (!isDrawn(random, 2)) continue;
            for (const bool biased : {false, true}) {
                OperationCase c = plainProjection(9, in, 2);
                c.projection.x = packed(VKATTN_F32, 6, 1, 9, in);
                c.projection.y = packed(VKATTN_F32, 6, 1, 9, 2);
                if (biased) c.projection.bias = vector(VKATTN_F32, 2);
                c.projection.kernel = kernel;
                c.projection.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
                c.lengths = lengths;
                c.fill(random);
                // What counts is 1, and what lies past a length NaN.
                for (uint32_t b = 0; b < 6; ++b)
                    for (uint32_t r = 0; r < 9; ++r)
                        for (uint32_t k = 0; k < std::min(lengths[b], in); ++k) c.tensor(VKATTN_X).set(b, 0, r, k, 1.0f);
                for (uint32_t n = 0; n < 2; ++n) {
                    for (uint32_t k = 0; k < in; ++k) c.tensor(VKATTN_W).set(0, 0, n, k, 1.0f);
                    if (biased) c.tensor(VKATTN_BIAS).set(0, 0, 0, n, 2.0f);
                }
                const RunResult result = runtime->run(c.operation(), c.operands());
                if (result.status == VKATTN_ERROR_UNSUPPORTED) continue; // SHUFFLED
                ASSERT_EQ(result.status, VKATTN_OK) << result.message;
                ASSERT_EQ(result.fallbackReason, "");
                for (uint32_t b = 0; b < 6; ++b)
                    for (uint32_t r = 0; r < 9; ++r)
                        for (uint32_t n = 0; n < 2; ++n)
                            EXPECT_EQ(c.tensor(VKATTN_Y).get(b, 0, r, n), static_cast<float>(lengths[b] + (biased ? 2 : 0)))
                                << "kernel " << kernel << " length " << lengths[b];
            }
        }
    }
}

TEST(OperationsOnDevice, meansOfLargeValuesAreFinite) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    OperationCase c = plainMean(70, 1, 9);
    Random random = randomFor("large means of groups");
    c.fill(random);
    for (uint32_t g = 0; g < 70; ++g)
        for (uint32_t d = 0; d < 9; ++d) c.tensor(VKATTN_X).set(0, g, 0, d, 3e38f);
    const RunResult result = runtime->run(c.operation(), c.operands());
    ASSERT_EQ(result.status, VKATTN_OK) << result.message;
    for (uint32_t d = 0; d < 9; ++d) EXPECT_NEAR(c.tensor(VKATTN_Y).get(0, 0, 0, d) / 3e38f, 1.0f, 1e-5f);
}

TEST(OperationsOnDevice, keepNaNInItsRow) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    Random random = randomFor("operations NaN");
    for (const float bad : {nan, infinity, -infinity})
        for (int n = 0; n < 12; ++n) {
            OperationCase before =
                n % 2 ? plainNorm(n % 4 == 1 ? VKATTN_LAYER_NORM : VKATTN_RMS_NORM, 37, 70) : plainProjection(37, 45, 70);
            before.fill(random);
            const uint32_t row = between(random, 0, 36), dim = between(random, 0, 44);
            before.tensor(VKATTN_X).set(0, 0, row, dim, bad);
            OperationCase after = before;
            ASSERT_EQ(runAndVerify(*runtime, after, before), "") << before.text();
            for (uint32_t r = 0; r < 37; ++r)
                for (uint32_t d = 0; d < 70; ++d)
                    if (r != row) {
                        ASSERT_TRUE(std::isfinite(after.tensor(VKATTN_Y).get(0, 0, r, d))) << "row " << r << ", NaN in row " << row;
                    }
        }
}

// Every routine that the device can run, on shapes around the edges of its tiles, with lengths of the inner dim and without.
TEST(OperationsOnDevice, everyRoutineOfTheProjectionIsRight) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("routines");
    constexpr struct {
        vkattn_projection_kernel kernel;
        const char *name;
    } routines[] = {{VKATTN_PROJECTION_SHARED, "shared"},
                    {VKATTN_PROJECTION_SHUFFLED, "shuffled"},
                    {VKATTN_PROJECTION_FEW, "few"},
                    {VKATTN_PROJECTION_COOPMAT, "coopmat"}};
    for (const auto &[kernel, name] : routines) {
        int ran = 0;
        std::string refused;
        for (const vkattn_dtype type : {VKATTN_F16, VKATTN_BF16})
            for (const bool addends : {false, true})
                for (int n = 0; n < (fullExtent() ? 20 : 1); ++n) {
                    const uint32_t rows = between(random, 1, 150), in = between(random, 1, 100), out = between(random, 1, 150);
                    OperationCase before = plainProjection(rows, in, out);
                    before.projection.kernel = kernel;
                    before.projection.x.dtype = before.projection.w.dtype = type;
                    if (addends) before.projection.bias = vector(VKATTN_F32, out), before.projection.residual = before.projection.y;
                    if (n % 2 || addends) {
                        before.projection.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
                        before.lengths = {between(random, 0, in)};
                    }
                    before.fill(random);
                    OperationCase after = before;
                    const std::string wrong = runAndVerify(*runtime, after, before);
                    if (wrong.rfind("status -2", 0) == 0) {
                        refused = wrong;
                        continue;
                    }
                    ++ran;
                    ASSERT_EQ(wrong, "") << name << ": " << before.text();
                }
        std::printf("projection %s: %d cases%s%s\n", name, ran, refused.empty() ? "" : "; refused: ", refused.c_str());
        EXPECT_TRUE(ran > 0 || kernel == VKATTN_PROJECTION_SHUFFLED || kernel == VKATTN_PROJECTION_COOPMAT) << refused;
    }
}

// The planner chooses tiles by the number of rows.
TEST(OperationsOnDevice, deterministicProjectionsIgnoreTheNumberOfRows) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("deterministic projections");
    constexpr uint32_t in = 37, out = 9, rows[] = {150, 3, 64, 65};
    for (const vkattn_dtype type : {VKATTN_F32, VKATTN_F16}) {
        OperationCase whole;
        for (const uint32_t count : rows) {
            OperationCase c = plainProjection(count, in, out);
            c.projection.w.dtype = type;
            c.projection.flags = VKATTN_DETERMINISTIC;
            c.fill(random);
            if (count != rows[0]) {
                for (uint32_t row = 0; row < count; ++row)
                    for (uint32_t k = 0; k < in; ++k) c.tensor(VKATTN_X).set(0, 0, row, k, whole.tensor(VKATTN_X).get(0, 0, row, k));
                c.tensor(VKATTN_W) = whole.tensor(VKATTN_W);
            }
            const RunResult result = runtime->run(c.operation(), c.operands());
            ASSERT_EQ(result.status, VKATTN_OK) << result.message;
            if (count == rows[0])
                whole = c;
            else
                EXPECT_EQ(std::memcmp(c.tensor(VKATTN_Y).data(), whole.tensor(VKATTN_Y).data(), size_t{4} * count * out), 0)
                    << count << " rows, type " << type;
        }
    }
}

// Random words that are known (Salmon et al. 2011), to the last bit: each is kept where the threshold
// is the word itself, and dropped where the threshold is one more. High words of products are where
// drivers err.
TEST(OperationsOnDevice, keepsByTheKnownAnswersOfPhilox) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    constexpr uint32_t known[] = {0x43891be6, 0x98441154, 0xbe4fbe68, 0x027071b6, 0x4760d2e5,
                                  0xb32dddbd, 0x8445848f, 0xd9fa4348, 0x193d2c9b};
    constexpr uint32_t zero[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}; // of seed, offset, plane, row 0
    Random random = randomFor("known answers on the device");
    const auto bit = [&](double threshold, bool ofZero, uint32_t column) {
        OperationCase c = plainKeep(7, 4, 9);
        c.keep.probability = threshold * 0x1p-32;
        if (ofZero) c.keep.seed = c.keep.offset = 0;
        c.fill(random);
        const RunResult result = runtime->run(c.operation(), c.operands());
        EXPECT_EQ(result.status, VKATTN_OK) << result.message;
        EXPECT_EQ(result.fallbackReason, "");
        return c.tensor(VKATTN_Y).getWord(0, ofZero ? 0 : 6, ofZero ? 0 : 3, 0) >> column & 1u;
    };
    for (const bool ofZero : {false, true})
        for (uint32_t column = 0; column < (ofZero ? std::size(zero) : std::size(known)); ++column) {
            const double word = ofZero ? zero[column] : known[column];
            EXPECT_EQ(bit(word, ofZero, column), 1u) << column;
            EXPECT_EQ(bit(word + 1, ofZero, column), 0u) << column;
        }
    OperationCase c = plainKeep(7, 4, 9); // of probability 0.1
    c.fill(random);
    ASSERT_EQ(runtime->run(c.operation(), c.operands()).status, VKATTN_OK);
    EXPECT_EQ(c.tensor(VKATTN_Y).getWord(0, 6, 3, 0), 0x1ffu & ~(1u << 3 | 1u << 8));
}

// Elements that are kept are scaled and the others are 0, by the random words above; with and without
// the residual, which nothing drops; and NaN that is dropped does not reach the result.
TEST(OperationsOnDevice, dropsByTheKnownAnswersOfPhilox) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("dropped on the device");
    constexpr uint32_t known[] = {0x43891be6, 0x98441154, 0xbe4fbe68, 0x027071b6, 0x4760d2e5,
                                  0xb32dddbd, 0x8445848f, 0xd9fa4348, 0x193d2c9b};
    for (const uint32_t threshold : {0x1999999au, known[0], known[0] + 1}) { // of 0.1, and both sides of a word
        const bool residual = threshold != 0x1999999a;
        OperationCase c = plainDrop(7, 4, 9); // of seed 42 and offset 7
        c.drop.probability = threshold * 0x1p-32;
        if (!residual) c.drop.residual = {};
        c.fill(random);
        const float factor = static_cast<float>(0x1p32 / (0x1p32 - threshold));
        for (uint32_t d = 0; d < 9; ++d)
            if (known[d] < threshold) c.tensor(VKATTN_X).set(0, 6, 3, d, std::numeric_limits<float>::quiet_NaN());
        const RunResult result = runtime->run(c.operation(), c.operands());
        ASSERT_EQ(result.status, VKATTN_OK) << result.message;
        ASSERT_EQ(result.fallbackReason, "");
        for (uint32_t d = 0; d < 9; ++d) {
            const float added = residual ? c.tensor(VKATTN_RESIDUAL).get(0, 6, 3, d) : 0, got = c.tensor(VKATTN_Y).get(0, 6, 3, d);
            if (known[d] < threshold)
                EXPECT_EQ(got, added) << d;
            else
                EXPECT_NEAR(got, added + c.tensor(VKATTN_X).get(0, 6, 3, d) * factor, 2e-6f) << d;
        }
    }
}

// Each sum around 2^32 and around the limit, from the device itself.
TEST(OperationsOnDevice, wordsStopAtTheLimit) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("words stop on the device");
    constexpr uint32_t none = 0xffffffffu;
    for (const uint32_t limit : {none, none - 1, 1u << 31, 10u, 0u})
        for (const uint32_t by : {0u, 1u, 7u, 1u << 31, none}) {
            OperationCase c = plainAdvance(130);
            c.advance.by = by, c.advance.limit = limit;
            c.fill(random);
            const RunResult result = runtime->run(c.operation(), c.operands());
            ASSERT_EQ(result.status, VKATTN_OK) << result.message;
            ASSERT_EQ(result.fallbackReason, "");
            for (uint32_t n = 0; n < 130; ++n) {
                const uint64_t sum = uint64_t{c.tensor(VKATTN_X).getWord(0, 0, 0, n)} + by;
                ASSERT_EQ(c.tensor(VKATTN_Y).getWord(0, 0, 0, n), sum > limit ? limit : sum) << "by " << by << ", limit " << limit;
            }
        }
}
