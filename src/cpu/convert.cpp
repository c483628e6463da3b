// vkattnConvert: the conversions of util/half.hpp over arrays.
#include "cpu/operands.hpp"
#include "util/diagnostic.hpp"
#include "util/half.hpp"
#include "util/small_types.hpp"
#include "vkattn/cpu.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

using namespace vkattn;

namespace {

bool overlap(const void *a, uint64_t aBytes, const void *b, uint64_t bBytes) {
    const auto first = reinterpret_cast<uintptr_t>(a), second = reinterpret_cast<uintptr_t>(b);
    return first < second + bBytes && second < first + aBytes;
}

template <class To, class From, class Convert> void convert(void *to, const void *from, uint64_t count, const Convert &one) {
    for (uint64_t n = 0; n < count; ++n) {
        From value;
        std::memcpy(&value, static_cast<const unsigned char *>(from) + n * sizeof value, sizeof value);
        const To result = one(value);
        std::memcpy(static_cast<unsigned char *>(to) + n * sizeof result, &result, sizeof result);
    }
}

// Rows of `count` elements of a small type.
uint64_t smallBytes(vkattn_dtype type, uint64_t count) {
    const uint64_t block = elementsOfBlock(type);
    return (count + block - 1) / block * bytesOfBlock(type) + bytesBeforeRow(type);
}
// In pieces that are whole blocks, because the memory need not be aligned; a row of bytes is one piece.
void convertSmall(vkattn_dtype fromType, const void *from, vkattn_dtype toType, void *to, uint64_t count) {
    const vkattn_dtype type = isSmallType(fromType) ? fromType : toType;
    std::vector<float> piece(static_cast<size_t>(type == VKATTN_INT8 ? count : std::min<uint64_t>(count, 1024)));
    const auto *read = static_cast<const unsigned char *>(from);
    auto *write = static_cast<unsigned char *>(to);
    for (uint64_t at = 0; at < count; at += piece.size()) {
        const uint64_t some = std::min<uint64_t>(count - at, piece.size());
        if (isSmallType(toType)) {
            std::memcpy(piece.data(), read + 4 * at, 4 * static_cast<size_t>(some));
            storeSmallRow(toType, piece.data(), some, write + bytesBefore(toType, at));
            continue;
        }
        for (uint64_t n = 0; n < some; ++n)
            piece[static_cast<size_t>(n)] =
                type == VKATTN_INT8 ? int8Element(read, static_cast<uint32_t>(at + n)) : loadElement(read, fromType, at + n);
        std::memcpy(write + 4 * at, piece.data(), 4 * static_cast<size_t>(some));
    }
}

} // namespace

extern "C" vkattn_result vkattnConvert(vkattn_dtype fromType, const void *from, vkattn_dtype toType, void *to, uint64_t count,
                                       vkattn_diagnostic *why) {
    const auto isNarrow = [](vkattn_dtype type) {
        return type == VKATTN_F16 || type == VKATTN_BF16 || (isSmallType(type) && type <= VKATTN_INT8);
    };
    const bool widens = isNarrow(fromType) && toType == VKATTN_F32, narrows = fromType == VKATTN_F32 && isNarrow(toType);
    if (!widens && !narrows)
        return fail(
            why, invalid,
            "no conversion from dtype %d to dtype %d: expected VKATTN_F32 on one side, and VKATTN_F16, VKATTN_BF16 or a small type on "
            "the other",
            static_cast<int>(fromType), static_cast<int>(toType));
    if (count == 0) return VKATTN_OK;
    if (!from || !to) return fail(why, invalid, "%s is NULL with count %llu", from ? "to" : "from", static_cast<unsigned long long>(count));
    const vkattn_dtype narrow = widens ? fromType : toType;
    if (narrow == VKATTN_INT8 && count > UINT32_MAX)
        return fail(why, invalid, "a row of VKATTN_INT8 has %llu elements, expected at most 2^32 - 1",
                    static_cast<unsigned long long>(count));
    const uint64_t narrowBytes = isSmallType(narrow) ? smallBytes(narrow, count) : 2 * count;
    if (overlap(from, widens ? narrowBytes : 4 * count, to, widens ? 4 * count : narrowBytes))
        return fail(why, invalid, "from and to overlap");
    if (isSmallType(narrow)) try {
            convertSmall(fromType, from, toType, to, count);
            return VKATTN_OK;
        } catch (const std::bad_alloc &) {
            return fail(why, VKATTN_ERROR_OUT_OF_HOST_MEMORY, "no memory for a row of %llu elements",
                        static_cast<unsigned long long>(count));
        }
    if (fromType == VKATTN_F16)
        convert<float, uint16_t>(to, from, count, halfToFloat);
    else if (fromType == VKATTN_BF16)
        convert<float, uint16_t>(to, from, count, bfloat16ToFloat);
    else if (toType == VKATTN_F16)
        convert<uint16_t, float>(to, from, count, floatToHalf);
    else
        convert<uint16_t, float>(to, from, count, floatToBfloat16);
    return VKATTN_OK;
}
