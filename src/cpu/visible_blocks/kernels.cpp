// Lists of visible blocks, compiled once for each of Highway's targets; the best one that the processor has is
// chosen when a call needs it.
#include "cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/visible_blocks/kernels.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "cpu/visible_blocks/work.hpp"

#include "cpu/pair_rules-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

constexpr uint32_t anyVisible = 1, anyHidden = 2;

// What a row sees of the keys [begin, stop).
uint32_t findInRow(const BlocksCall &call, const Sequence &s, uint32_t b, const RowPlace &place, uint32_t begin, uint32_t stop,
                   float *pairs) {
    const Problem &p = call.forward.p;
    const uint32_t from = std::max(begin, place.begin), to = std::min(stop, place.end);
    if (from >= to) return anyHidden;
    uint32_t found = from > begin || to < stop ? anyHidden : 0;
    if (!hasLookUps(p)) return found | anyVisible;
    for (uint32_t key = from; key < to && found != (anyVisible | anyHidden); key += std::min(lookedAtKeys, to - key)) {
        const Pairs seen =
            lookUpPairs(call.forward, s, b, &place, 1, key, key + std::min(lookedAtKeys, to - key), pairs, 1, p.rules.showRuns());
        found |= (seen != Pairs::noneVisible ? anyVisible : 0) | (seen != Pairs::allVisible ? anyHidden : 0);
    }
    return found;
}

void listRow(const BlocksCall &call, const BlocksUnit &unit, float *pairs) {
    const Problem &p = call.forward.p;
    const vkattn_blocks &blocks = call.blocks.lists.blocks;
    const Sequence &s = call.sequences[unit.b];
    const uint32_t group = p.groupSize();
    const uint64_t first = uint64_t{unit.row} * blocks.queries, end = std::min<uint64_t>(first + blocks.queries, s.queries);
    const auto place = [&](uint64_t query) { return placeOf(p, s, unit.h / group, query * group + unit.h % group); };
    ListsOfRow lists(call.blocks, call.forward.operands, unit.b, unit.h, unit.row);
    if (first < end) {
        // A row outside of a grid reaches nothing, wherever it lies.
        uint32_t keyBegin = s.keys, keyEnd = 0;
        for (uint64_t query = first; query < end; ++query) {
            const RowPlace own = place(query);
            if (own.begin >= own.end) continue;
            keyBegin = std::min(keyBegin, own.begin), keyEnd = std::max(keyEnd, own.end);
        }
        for (uint32_t column = keyBegin / blocks.keys; uint64_t{column} * blocks.keys < keyEnd; ++column) {
            const uint32_t begin = column * blocks.keys, stop = std::min(blocks.keys, p.keyTokens - begin) + begin;
            uint32_t found = 0;
            for (uint64_t query = first; query < end && found != (anyVisible | anyHidden); ++query)
                found |= findInRow(call, s, unit.b, place(query), begin, stop, pairs);
            if (found & anyVisible) lists.add(column, found == anyVisible);
        }
    }
    lists.end();
}

ListRow chosenListRow() {
    return listRow;
}

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vkattn {

HWY_EXPORT(chosenListRow);

ListRow listRowKernel() {
    return HWY_DYNAMIC_DISPATCH(chosenListRow)();
}

} // namespace vkattn
#endif
