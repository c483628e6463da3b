// vkattnConvert: the conversions of util/half.hpp over arrays.
#include "util/diagnostic.hpp"
#include "util/half.hpp"
#include "vkattn/cpu.h"

#include <cstring>

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

} // namespace

extern "C" vkattn_result vkattnConvert(vkattn_dtype fromType, const void *from, vkattn_dtype toType, void *to, uint64_t count,
                                       vkattn_diagnostic *why) {
    const auto isNarrow = [](vkattn_dtype type) { return type == VKATTN_F16 || type == VKATTN_BF16; };
    const bool widens = isNarrow(fromType) && toType == VKATTN_F32, narrows = fromType == VKATTN_F32 && isNarrow(toType);
    if (!widens && !narrows)
        return fail(why, invalid,
                    "no conversion from dtype %d to dtype %d: expected VKATTN_F32 on one side, VKATTN_F16 or VKATTN_BF16 on the other",
                    static_cast<int>(fromType), static_cast<int>(toType));
    if (count == 0) return VKATTN_OK;
    if (!from || !to) return fail(why, invalid, "%s is NULL with count %llu", from ? "to" : "from", static_cast<unsigned long long>(count));
    if (overlap(from, count * (widens ? 2 : 4), to, count * (widens ? 4 : 2))) return fail(why, invalid, "from and to overlap");
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
