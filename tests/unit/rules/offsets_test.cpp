// Where queries stand in a longer sequence (vkattn_offset): what the planner and the CPU make of offsets
// without computing anything.
#include "core/plan/work.hpp"
#include "support/case.hpp"

#include <gtest/gtest.h>

#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr int32_t least = std::numeric_limits<int32_t>::min(), largest = std::numeric_limits<int32_t>::max(), most = 1 << 28;

Problem withOffsets(uint32_t queries, uint32_t keys, vkattn_offset query, vkattn_offset key) {
    vkattn_problem d = vkattn::problem(packed(VKATTN_F32, 1, 1, queries, 4), packed(VKATTN_F32, 1, 1, keys, 4),
                                       packed(VKATTN_F32, 1, 1, keys, 4), packed(VKATTN_F32, 1, 1, queries, 4));
    d.flags |= VKATTN_CAUSAL;
    d.queryOffset = query, d.keyOffset = key;
    Problem p;
    EXPECT_EQ(makeProblem(&d, p, nullptr), VKATTN_OK);
    return p;
}

TEST(Offsets, areTheDifferenceOfBoth) {
    const vkattn_offset none{}, five = {VKATTN_OFFSET_NUMBER, 5}, array = {VKATTN_OFFSET_ARRAY, 3};
    EXPECT_EQ(shiftOf(five, none, 0, 0), 5);
    EXPECT_EQ(shiftOf(none, five, 0, 0), -5);
    EXPECT_EQ(shiftOf(array, five, 100, 0), 98);
    EXPECT_EQ(shiftOf(array, array, 7, -2), 9);
}

TEST(Offsets, areClampedAndNeverOverflow) {
    const vkattn_offset none{}, array = {VKATTN_OFFSET_ARRAY, 0}, up = {VKATTN_OFFSET_ARRAY, most}, down = {VKATTN_OFFSET_ARRAY, -most};
    EXPECT_EQ(shiftOf(array, none, largest, 0), most);
    EXPECT_EQ(shiftOf(array, none, least, 0), -most);
    EXPECT_EQ(shiftOf(up, down, largest, least), most);
    EXPECT_EQ(shiftOf(down, up, least, largest), -most);
    EXPECT_EQ(shiftOf(array, array, largest, largest - 5), 0) << "each is clamped before their difference";
}

// The planner's count of pairs decides how much a slice holds.
TEST(Offsets, pairsAreCountedFromThePosition) {
    const vkattn_offset none{}, behind = {VKATTN_OFFSET_NUMBER, 6}, before = {VKATTN_OFFSET_NUMBER, -2};
    EXPECT_EQ(visiblePairs(withOffsets(4, 10, none, none)), 7 + 8 + 9 + 10) << "the last query sees the last key";
    EXPECT_EQ(visiblePairs(withOffsets(4, 10, before, none)), 0 + 0 + 1 + 2);
    EXPECT_EQ(visiblePairs(withOffsets(4, 20, behind, before)), 9 + 10 + 11 + 12);
    EXPECT_EQ(visiblePairs(withOffsets(4, 10, {VKATTN_OFFSET_ARRAY, 0}, none)), 40) << "of unknown positions each row may see all keys";
}

} // namespace
