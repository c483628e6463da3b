// Lengths of a projection's inner dim, and matrices over tokens (Linformer) that need them.
#include "unit/cpu/cpu_runs.hpp"
#include "vkattn/vkattn.hpp"

#include <gtest/gtest.h>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

OperationCase withLengths(OperationCase c, std::vector<uint32_t> lengths) {
    c.projection.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
    c.lengths = std::move(lengths);
    return c;
}

// Of a batch entry for each length.
OperationCase batchOf(std::vector<uint32_t> lengths, uint32_t rows, uint32_t in, uint32_t out) {
    OperationCase c = plainProjection(rows, in, out);
    const auto count = static_cast<uint32_t>(lengths.size());
    c.projection.x = packed(VKATTN_F32, count, 2, rows, in);
    c.projection.w = packed(VKATTN_F32, count, 1, out, in);
    c.projection.y = packed(VKATTN_F32, count, 2, rows, out);
    return withLengths(std::move(c), std::move(lengths));
}

} // namespace

// Few rows and tiles; lengths on both sides of what is summed up together. What lies past a length is NaN.
TEST(ProjectionLengths, takeTheFirstInnerDims) {
    Random random = randomFor("lengths");
    const std::vector<uint32_t> lengths = {0, 1, 255, 256, 257, 300, 600, 601, 0xffffffffu};
    for (const uint32_t rows : {1u, 3u, 8u, 9u, 40u}) {
        OperationCase c = batchOf(lengths, rows, 600, 37);
        if (rows % 2) c.projection.bias = vector(VKATTN_F32, 37);
        c.fill(random);
        run(c, 2);
        for (uint32_t b = 0; b < lengths.size(); ++b)
            for (uint32_t g = 0; g < 2; ++g)
                for (uint32_t r = 0; r < rows; ++r)
                    for (uint32_t n = 0; n < 37; ++n) {
                        double sum = rows % 2 ? c.tensor(VKATTN_BIAS).get(0, 0, 0, n) : 0;
                        for (uint32_t k = 0; k < std::min(lengths[b], 600u); ++k)
                            sum += double{c.tensor(VKATTN_X).get(b, g, r, k)} * double{c.tensor(VKATTN_W).get(b, 0, n, k)};
                        ASSERT_NEAR(c.tensor(VKATTN_Y).get(b, g, r, n), sum, 2e-4) << "length " << lengths[b] << " rows " << rows;
                        if (lengths[b] == 0) {
                            ASSERT_EQ(c.tensor(VKATTN_Y).get(b, g, r, n), static_cast<float>(sum));
                        }
                    }
        OperationCase truth = c;
        EXPECT_TRUE(verified(c, truth).passed);
    }
}

TEST(ProjectionLengths, areSeenByTheVerifier) {
    Random random = randomFor("lengths verified");
    for (const uint32_t other : {19u, 21u, 64u}) {
        OperationCase wrong = batchOf({other, 50}, 5, 64, 9);
        wrong.fill(random);
        for (const vkattn_role role : {VKATTN_X, VKATTN_W}) // what lies past the length is finite
            for (uint32_t b = 0; b < 2; ++b)
                for (uint32_t g = 0; g < wrong.layout(role).extent[1]; ++g)
                    for (uint32_t r = 0; r < wrong.layout(role).extent[2]; ++r)
                        for (uint32_t k = 0; k < 64; ++k) wrong.tensor(role).set(b, g, r, k, 1 + 0.25f * static_cast<float>((r + k) % 5));
        run(wrong, 1);
        OperationCase right = wrong;
        EXPECT_TRUE(verified(wrong, right).passed);
        right.lengths = {20, 50};
        wrong.lengths = {20, 50};
        EXPECT_FALSE(verified(wrong, right).passed) << other;
    }
}

TEST(ProjectionLengths, areDescribed) {
    OperationCase c = batchOf({1, 2, 3}, 5, 6, 7);
    vkattn_operation o = c.operation();
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnValidateOperation(&o, &why), VKATTN_OK) << why.message;
    EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_KEY_LENGTHS), 12u);
    c.projection.presentRoles |= VKATTN_PRESENT(VKATTN_STARTS);
    EXPECT_EQ(vkattnValidateOperation(&o, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(why.message).find("projection.presentRoles has bits 0x101, expected VKATTN_PRESENT(VKATTN_KEY_LENGTHS)"),
              std::string::npos)
        << why.message;
    c.projection.presentRoles = 0;
    EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_KEY_LENGTHS), 0u);
}

// What a struct lacks counts as zero: the kernel too, which is the word before.
TEST(ProjectionLengths, areNoneWhereTheStructEndsBeforeThem) {
    OperationCase c = batchOf({1}, 5, 6, 7);
    c.projection.structSize = offsetof(vkattn_projection, kernel);
    const vkattn_operation o = c.operation();
    EXPECT_EQ(vkattnValidateOperation(&o, nullptr), VKATTN_OK);
    EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_KEY_LENGTHS), 0u);
}

// A matrix of its own for each head and one for all, wider than there are tokens.
TEST(TokenProjection, isAMatrixOverTokens) {
    Random random = randomFor("tokens");
    for (const uint32_t matrices : {1u, 3u}) {
        const vkattn_layout e = packed(VKATTN_F16, 1, matrices, 5, 30), tokens = packedTokenMajor(VKATTN_F32, 2, 3, 21, 8),
                            projected = packed(VKATTN_F32, 2, 3, 5, 8);
        OperationCase c;
        c.kind = VKATTN_PROJECTION;
        c.projection = tokenProjection(e, tokens, projected);
        c = withLengths(std::move(c), {21, 4});
        c.fill(random);
        run(c, 2);
        for (uint32_t b = 0; b < 2; ++b)
            for (uint32_t h = 0; h < 3; ++h)
                for (uint32_t r = 0; r < 5; ++r)
                    for (uint32_t d = 0; d < 8; ++d) {
                        double sum = 0;
                        // W is the view of the tokens: [batch, head, dim, token].
                        for (uint32_t t = 0; t < c.lengths[b]; ++t)
                            sum += double{c.tensor(VKATTN_X).get(b, h, r, t)} * double{c.tensor(VKATTN_W).get(b, h, d, t)};
                        ASSERT_NEAR(c.tensor(VKATTN_Y).get(b, h, r, d), sum, 1e-5);
                    }
        const vkattn_projection &p = c.projection;
        EXPECT_EQ(p.x.extent[0], 2u);
        EXPECT_EQ(p.x.extent[1], 3u);
        EXPECT_EQ(p.x.extent[3], 21u);
        EXPECT_EQ(p.x.strideElems[0], 0);
        EXPECT_EQ(p.x.strideElems[1], matrices == 1 ? 0 : 5 * 30);
        EXPECT_EQ(p.x.strideElems[2], 30);
        EXPECT_EQ(p.w.strideElems[2], tokens.strideElems[3]);
        EXPECT_EQ(p.w.strideElems[3], tokens.strideElems[2]);
        EXPECT_EQ(p.w.extent[2], 8u);
        EXPECT_EQ(p.w.extent[3], 21u);
    }
}
